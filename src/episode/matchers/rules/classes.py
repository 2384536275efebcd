"""Classes of rows that many patterns ask for, each evaluated once for a batch.

A class is a conjunction of row-local conditions. Conditions on one column of strings are evaluated for its distinct
values, and rows are found by their codes; classes with the same conditions of that kind make a family. The other
conditions of a family are evaluated together, in one program, over the rows of the family alone. Conditions that look
at neighbouring rows (PREV) are evaluated over all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.code.rows import set_bits
from episode.matchers.columns import one_chunk, take
from episode.matchers.encoding import encode
from episode.matchers.grouping import group
from episode.matchers.prepare import needs_in
from episode.matchers.protocol import EventBatch
from episode.matchers.screening import ClassDemand
from episode.native.builder import Program
from episode.native.ir import I64, U64
from episode.native.running import compiled_for
from episode.plan.expressions import Current, Exists, Expression, Load, looks_beside, walk
from episode.plan.types import lane_of

# Rows of classes: ascending row numbers, put together with the bits of the classes that each row is of.
#
# Shapes: rows int64[n], ascending; bits uint64[n], of the same rows; bounds int64[partitions + 1].

_PLACES = 6
"""Bits of the number of a class."""


def join_classes(found: Mapping[int, np.ndarray], others: np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """The rows of classes, by their numbers, and the bits of each row. others: the bits of a row of no class."""
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    if len(found) == 1:
        ((at, own),) = found.items()
        return own, np.full(len(own), others | np.uint64(1 << at))
    every = np.concatenate([own << _PLACES | at for at, own in found.items()])
    every.sort(kind="stable")  # which merges what is ascending
    rows = every >> _PLACES
    bits = np.uint64(1) << (every & (1 << _PLACES) - 1).view(np.uint64)
    bits |= others
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    if len(firsts) == len(rows):
        return rows, bits
    return rows[firsts], np.bitwise_or.reduceat(bits, firsts)


def with_next(
    rows: np.ndarray, bits: np.ndarray, bounds: np.ndarray, others: np.uint64
) -> tuple[np.ndarray, np.ndarray]:
    """Some rows and the row after each, in its partition. others: the bits of a row of no class."""
    out, out_bits = np.empty(2 * len(rows), np.int64), np.empty(2 * len(rows), np.uint64)
    n = compiled_for(next_program)([rows, bits, bounds, out, out_bits], int(others))
    return out[:n].copy(), out_bits[:n].copy()


def next_program() -> Program:
    program = Program("with_next")
    f = program.function("run")
    rows, bits, bounds = f.array("rows", I64), f.array("bits", U64), f.array("bounds", I64)
    out, out_bits = f.array("out", I64, writable=True), f.array("out_bits", U64, writable=True)
    others = f.scalar("others", U64)
    n, partition = f.variable("n", 0), f.variable("partition", 0)
    with f.loop(0, rows.length) as at:
        row = rows[at]
        after = row + 1
        out[n] = row
        out_bits[n] = bits[at]
        n.set(n + 1)
        with f.during(lambda: bounds[partition + 1] <= row):
            partition.set(partition + 1)
        is_last = at.equals(rows.length - 1)
        following = rows[f.select(is_last, at, at + 1)]
        with f.when((after < bounds[partition + 1]) & following.differs(after)):
            out[n] = after
            out_bits[n] = others
            n.set(n + 1)
    f.give(n)
    return program


BITS = 64
"""Conditions that one word has room for."""
ClassPlaces = tuple[int, tuple[int, ...], tuple[int, ...]]
"""The number of a class, which conditions of its family it has, and which conditions of all rows."""


@dataclass(frozen=True)
class Family:
    """Classes that have their conditions on strings in common.

    coded: these, by column. conditions: what else their rows must satisfy, each once.
    """

    coded: tuple[tuple[str, tuple[Expression, ...]], ...]
    conditions: tuple[Expression, ...]
    classes: tuple[ClassPlaces, ...]


class ClassIndex:
    """The distinct classes of some demands, by_class: with their numbers, and how they are evaluated."""

    def __init__(self, demands: Iterable[ClassDemand]) -> None:
        self.by_class: dict[frozenset[Expression], int] = {}
        self.asked = 0
        self.numbered: list[tuple[int, ...]] = []
        for demand in demands:
            self.asked += sum(len(dict.fromkeys(one)) for one in demand.classes)
            self.numbered.append(
                tuple(self.by_class.setdefault(frozenset(one), len(self.by_class)) for one in demand.classes)
            )
        self.beside: tuple[Expression, ...] = ()
        self.families = self._families()

    def __len__(self) -> int:
        return len(self.by_class)

    @property
    def conditions(self) -> int:
        """Number of distinct conditions."""
        return len({part for one in self.by_class for part in one})

    def _families(self) -> tuple[Family, ...]:
        beside: dict[Expression, int] = {}
        found: dict[frozenset[Expression], tuple[dict[Expression, int], list[ClassPlaces]]] = {}
        for parts, number in self.by_class.items():
            if not parts:
                continue
            coded = frozenset(part for part in parts if coded_column(part) is not None)
            rest = sorted(parts - coded, key=repr)
            conditions, classes = found.setdefault(coded, ({}, []))
            own = [part for part in rest if not looks_beside(part)]
            others = [beside.setdefault(part, len(beside)) for part in rest if looks_beside(part)]
            places = tuple(conditions.setdefault(part, len(conditions)) for part in own)
            classes.append((number, places, tuple(others)))
        self.beside = tuple(beside)
        return tuple(
            Family(_by_column(coded), tuple(conditions), tuple(classes))
            for coded, (conditions, classes) in found.items()
        )


def _by_column(coded: frozenset[Expression]) -> tuple[tuple[str, tuple[Expression, ...]], ...]:
    columns: dict[str, list[Expression]] = {}
    for part in sorted(coded, key=repr):
        column = coded_column(part)
        assert column is not None
        columns.setdefault(column, []).append(part)
    return tuple((name, tuple(parts)) for name, parts in columns.items())


def coded_column(expression: Expression) -> str | None:
    """Return the only column that a condition is about, if that holds strings."""
    loads = [node for node in walk(expression) if isinstance(node, Load)]
    columns = {load.column for load in loads}
    if len(columns) != 1 or any(isinstance(node, Exists) for node in walk(expression)):
        return None
    for load in loads:
        is_text = lane_of(load.type) == "code" and not load.type.startswith(("binary", "decimal"))
        if load.at != Current(0) or load.missing is not None or not is_text:
            return None
    return columns.pop()


class ClassRows:
    """The rows of classes in one batch, in order; None: all rows. evaluated: how often a condition was, over how many
    rows (of strings: over how many distinct values)."""

    def __init__(self, index: ClassIndex, events: EventBatch) -> None:
        self.events = events
        self.evaluated = self.tested = 0
        self._codes: dict[str, tuple[np.ndarray, pa.Table]] = {}
        self._by_code: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._rows: dict[int, np.ndarray] = {}
        self._neighbour = self._bits(index.beside, events.table, events.key)
        for family in index.families if len(events) else ():
            self._evaluate(family)

    def rows(self, number: int) -> np.ndarray | None:
        return self._rows.get(number)

    @property
    def counts(self) -> Mapping[int, int]:
        """Number of rows of each class with conditions."""
        return {number: len(rows) for number, rows in self._rows.items()}

    def _evaluate(self, family: Family) -> None:
        rows = self._rows_by_strings(family)
        words: list[np.ndarray] = []
        if family.conditions:
            table, key = self.events.table, self.events.key
            if rows is not None:
                needs = needs_in(family.conditions)
                read = sorted({*needs.columns, *needs.words}) or table.column_names[:1]
                table, key = take(table.select(read), rows), key[rows]
            words = self._bits(family.conditions, table, key)
        for number, own, beside in family.classes:
            held = _all_hold(words, own)
            others = _all_hold(self._neighbour, beside)
            if others is not None:
                others = others if rows is None else others[rows]
                held = others if held is None else held & others
            if held is None:
                assert rows is not None  # a class without conditions is in no family
                self._rows[number] = rows
            else:
                at = np.flatnonzero(held)
                self._rows[number] = at if rows is None else rows[at]

    def _rows_by_strings(self, family: Family) -> np.ndarray | None:
        """Return the rows that satisfy a family's conditions on strings; None if it has no such conditions."""
        holds: np.ndarray | None = None
        for column, parts in family.coded:
            codes, values = self._coded_column(column)
            of_value = _all_hold(self._bits(parts, values, np.zeros(len(values), np.int64)), range(len(parts)))
            assert of_value is not None
            if len(family.coded) == 1 and np.count_nonzero(of_value) == 1:
                return self._of_code(column, int(np.argmax(of_value)))
            found = of_value[codes]
            holds = found if holds is None else holds & found
        return None if holds is None else np.flatnonzero(holds)

    def _of_code(self, column: str, code: int) -> np.ndarray:
        """The rows with one value of a column of strings: all rows are grouped by their values once."""
        if column not in self._by_code:
            codes, values = self._coded_column(column)
            self._by_code[column] = group(codes, len(values))
        rows, starts = self._by_code[column]
        return rows[starts[code] : starts[code + 1]]

    def _coded_column(self, name: str) -> tuple[np.ndarray, pa.Table]:
        """A column of strings as codes, and the table of its distinct values, of which the last is null."""
        if name not in self._codes:
            encoded = one_chunk(self.events.table.column(name)).dictionary_encode()
            values = pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            codes = encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
            self._codes[name] = codes, pa.table({name: values})
        return self._codes[name]

    def _bits(self, conditions: Sequence[Expression], table: pa.Table, key: np.ndarray) -> list[np.ndarray]:
        """uint64[rows] for each 64 of the conditions: which of them hold."""
        self.evaluated += len(conditions)
        self.tested += len(conditions) * len(key)
        blocks = (conditions[at : at + BITS] for at in range(0, len(conditions), BITS))
        return [_block(block, table, key) for block in blocks]


def _all_hold(words: list[np.ndarray], places: Iterable[int]) -> np.ndarray | None:
    """bool[rows]: do all these conditions hold? None without conditions."""
    masks: dict[int, int] = {}
    for place in places:
        masks[place // BITS] = masks.get(place // BITS, 0) | 1 << place % BITS
    held: np.ndarray | None = None
    for word, mask in masks.items():
        one: np.ndarray = words[word] & np.uint64(mask) == np.uint64(mask)
        held = one if held is None else held & one
    return held


def _block(conditions: Sequence[Expression], table: pa.Table, key: np.ndarray) -> np.ndarray:
    """uint64[rows]: which of at most 64 row-local conditions hold."""
    needs = needs_in(conditions)
    lanes = encode(table, needs.columns, (), needs.constants, (0, 0), needs.words)
    bits = np.full(len(key), np.uint64(2**64 - 1), np.uint64)
    set_bits(lanes, key, [(condition, 1 << at) for at, condition in enumerate(conditions)], bits)
    return bits
