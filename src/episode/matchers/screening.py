"""Conditions of a pattern on single rows, in the same terms for every language, and rows that cannot be in a match.

See decision 31.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from episode.matchers.code.rows import set_bits
from episode.matchers.columns import ALL_VALID, int64_values, one_chunk, one_chunk_each, take
from episode.matchers.encoding import encode
from episode.matchers.ordering import is_too_wide, order_image, start_image
from episode.matchers.prepare import needs_in
from episode.matchers.protocol import InputOrder
from episode.matchers.times import EVER, NEVER
from episode.plan.expressions import Expression

if TYPE_CHECKING:
    from episode.matchers.protocol import EventBatch


ROW_NANOSECONDS = 150.0
"""Cost of feeding a pattern one more row: gathering, encoding and testing it (measured: 110 – 400)."""

RowClass = tuple[Expression, ...]
"""Row-local conditions that a row must all satisfy; without conditions every row is of the class."""


@dataclass(frozen=True)
class ClassDemand:
    """Classes of rows of a pattern: of its labels, variables or symbols; bit i of a row is set if it is of class i.

    required: every match has, within its partition, a row of one of these classes, for each of the sets. sparse: rows
    of no class are in no match and prevent none, so that they may be left out. followed: except the row after one of
    some class, which may end what that one began. chain: every match has, in this order, an event of one of the classes
    of each set (bits of classes), all within `within`, in units of event time; what else matters to it lies within that
    time of one of them.
    """

    classes: tuple[RowClass, ...]
    required: tuple[tuple[int, ...], ...] = ()
    sparse: bool = False
    followed: bool = False
    chain: tuple[int, ...] = ()
    within: int = EVER


def demand_of(
    names: Sequence[str],
    conditions: Iterable[RowClass],
    required: Iterable[Iterable[str]],
    sparse: bool = False,
    followed: bool = False,
) -> ClassDemand:
    """Return the demand of labels, variables or symbols with these conditions, in the order of their bits."""
    number = {name: at for at, name in enumerate(names)}
    chosen = tuple(conditions)
    sets = {tuple(sorted(number[name] for name in one)) for one in map(tuple, required) if number.keys() >= set(one)}
    useful = sorted(one for one in sets if one and all(chosen[at] for at in one))
    return ClassDemand(chosen, tuple(useful), sparse and all(chosen) and bool(chosen), followed)


class Prefix(Protocol):
    """The first places of a pattern, whose classes and conditions other patterns may share.

    same: equal for prefixes of the same places and conditions. at: the demand's class of each place. within: the time
    that all places have. columns: those read of events whose places are known.
    """

    @property
    def same(self) -> object: ...

    @property
    def at(self) -> tuple[int, ...]: ...

    @property
    def within(self) -> int: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def words(self) -> str:
        """The prefix in words, for explain."""

    def gain(self, sample: EventBatch, counts: Sequence[int], windows: float, rules: float) -> float:
        """Return the nanoseconds saved by finding the events of the prefix once for `rules` rules.

        sample: some of the events. counts: the number of events for each place. windows: the number of windows of all
        partitions together.
        """

    def left(self, events: EventBatch) -> np.ndarray:
        """Return for which places (uint64, bits) events are in some match of the prefix; all events must be given."""


@runtime_checkable
class Prefixed(Protocol):
    """A MatcherSpec that knows how its pattern begins."""

    @property
    def prefixes(self) -> tuple[Prefix, ...]:
        """The prefixes, the shortest first."""


# Rows that cannot be in a match are left out before they are packed: fewer rows to move, to order and to match.
# Patterns that may skip events pass over a row that satisfies the row-local conditions of no variable. Its class alone
# mostly decides, and class columns come as dictionaries from Parquet: conditions on one such column are evaluated once
# for each value of the dictionary, all others only for the remaining rows.


MOST_KEPT = 0.9
"""If more of the rows pass, all are kept: leaving a few out takes longer than moving them."""


@dataclass(frozen=True)
class ScreenPart:
    """A condition on single rows: its variable (as a bit), and the columns that it reads."""

    bit: int
    expression: Expression
    columns: frozenset[str]


@dataclass(frozen=True)
class Screen:
    """Keeps the rows that satisfy all conditions of some variable, and those with wrong times, for which the matcher
    raises an error. conditions: by variable. width: the greatest distance of an event's start and end."""

    conditions: tuple[tuple[Expression, ...], ...]
    order: InputOrder
    width: int | None = None

    @cached_property
    def parts(self) -> tuple[ScreenPart, ...]:
        return tuple(
            ScreenPart(1 << number, part, _columns_of(part))
            for number, parts in enumerate(self.conditions)
            for part in parts
        )

    def passing(self, table: pa.Table) -> pa.Table:
        """Return the rows of a table that may be in a match, in their order."""
        table = one_chunk_each(table)
        rest, bits = self._by_dictionaries(table)
        wrong = self._wrong_times(table)
        if wrong is None and bits is not None:
            table, bits = _keep_rows(table, bits)
        bits = _bits(rest, table, bits, len(self.conditions))
        if wrong is not None:
            bits[wrong] = 1
        return _keep_rows(table, bits)[0]

    def _by_dictionaries(self, table: pa.Table) -> tuple[tuple[ScreenPart, ...], np.ndarray | None]:
        """Return (conditions that are left, bits of the variables that rows may be of by the others; None: of any)."""
        bits: np.ndarray | None = None
        rest = self.parts
        for name in sorted({name for part in rest if len(part.columns) == 1 for name in part.columns}):
            column = one_chunk(table.column(name))
            if not pa.types.is_dictionary(column.type):
                continue
            asked = tuple(part for part in rest if part.columns == {name})
            rest = tuple(part for part in rest if part.columns != {name})
            values = pa.concat_arrays([column.dictionary, pa.nulls(1, column.dictionary.type)])
            of_value = _bits(asked, pa.table({name: values}), None, len(self.conditions))
            places = int64_values(column.indices)
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                places = np.where(valid, places, len(values) - 1)
            found = of_value.take(places, mode="clip")
            bits = found if bits is None else bits & found
        return rest, bits

    def _wrong_times(self, table: pa.Table) -> np.ndarray | None:
        """Return the rows with times that the matcher refuses, or None."""
        end = order_image(table, self.order.order[0])
        wrong = None if end.valid is ALL_VALID else ~end.valid
        start = start_image(table, self.order)
        if start is not None:
            bad = (start.values > end.values) | (start.values == NEVER)
            if start.valid is not ALL_VALID:
                bad |= ~start.valid
            if self.width is not None:
                bad |= is_too_wide(start.values, end.values, self.width)
            wrong = bad if wrong is None else wrong | bad
        return wrong if wrong is not None and wrong.any() else None


def screen_of(
    conditions: Iterable[tuple[Expression, ...]], order: InputOrder, width: int | None = None
) -> Screen | None:
    """Return the screen of the variables' row-local conditions; None if some variable takes every row."""
    chosen = tuple(conditions)
    return Screen(chosen, order, width) if chosen and all(chosen) else None


def _columns_of(expression: Expression) -> frozenset[str]:
    needs = needs_in([expression])
    return frozenset((*needs.columns, *needs.words))


def _keep_rows(table: pa.Table, bits: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    """Return the rows with a bit, if leaving the others out is worth it; and the bits of all rows that are kept."""
    rows = np.flatnonzero(bits)
    if len(rows) > MOST_KEPT * len(bits):
        return table, bits
    return take(table, rows), bits.take(rows)


def _bits(parts: tuple[ScreenPart, ...], table: pa.Table, bits: np.ndarray | None, variables: int) -> np.ndarray:
    """Return which variables' conditions hold (uint64[rows]), of those with a bit in `bits` (None: of all of them)."""
    count = table.num_rows
    found = np.full(count, (1 << variables) - 1, np.uint64) if bits is None else bits.copy()
    if not parts or not count:
        return found
    needs = needs_in(part.expression for part in parts)
    lanes = encode(table, needs.columns, (), needs.constants, (0, 0), needs.words)
    set_bits(lanes, np.zeros(count, np.int64), [(part.expression, part.bit) for part in parts], found)
    return found
