"""Measures: navigation and aggregates over finished matches, for one row per match or for every row of it.

A match m covers rows start[m] .. start[m] + length[m] - 1; path[path_from[m] + i] is the instruction that took its
i-th row, label_of[instruction] its label. Output row j is at position out_position[j] of match out_match[j]; output
rows of a match are consecutive and in order. Position -1: the row has no match (empty match, unmatched row).

Rows of a match that do not follow each other: its i-th row is member[path_from[m] + i].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from episode.matchers import codes as oc
from episode.matchers.code.aggregates import FIELDS, OVERFLOW, AggregateShape, AggregateState, divide_sum
from episode.matchers.code.expressions import wide_sum
from episode.matchers.codes import MATCHED, UNMATCHED
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import F64, I32, I64, I128, U8, U64, Value
from episode.native.running import Compiled, compiled_for

_TYPES: ArrayTypes = {
    "out_match": (I64, False), "out_position": (I64, False), "start": (I64, False), "length": (I64, False),
    "path_from": (I64, False), "path": (I32, False), "label_of": (I64, False), "members": (U8, False),
    "valid": (U8, False), "places": (I64, True), "found": (I64, True), "words": (I64, False), "low": (U64, True),
    "high": (I64, True), "counts": (I64, True), "offsets": (I64, False), "rows": (I64, True), "labels": (I32, True),
    "null": (U8, True), "member": (I32, False),
}  # fmt: skip


@dataclass(frozen=True)
class OutputRows:
    """The output rows of some matches: see above for the arrays. part_lo, part_hi: partition bounds by match. member:
    None if the rows of a match follow each other. alike: whether all matches have the same path, and one output row
    each."""

    out_match: np.ndarray
    out_position: np.ndarray
    start: np.ndarray
    length: np.ndarray
    path_from: np.ndarray
    path: np.ndarray
    label_of: np.ndarray
    part_lo: np.ndarray
    part_hi: np.ndarray
    member: np.ndarray | None = None
    alike: bool = False

    def run(self, program: Compiled, more: dict[str, np.ndarray], *scalars: int) -> int:
        """Call a program with the arrays that it takes."""
        return program.run(vars(self) | more, *scalars)


class MeasureShape(NamedTuple):
    """Inputs that the code depends on: final, and whether labels, nulls and members matter; see `ChosenRows`."""

    final: bool
    of_labels: bool
    masked: bool
    with_members: bool


@dataclass(frozen=True)
class ChosenRows:
    """The rows of a match that count. final: up to its last row, or up to the output row. members: uint8[labels], only
    rows of some labels. valid: uint8[rows], only rows whose value is not null."""

    final: bool
    members: np.ndarray | None
    valid: np.ndarray | None = None

    def shape(self, output: OutputRows) -> MeasureShape:
        return MeasureShape(self.final, self.members is not None, self.valid is not None, output.member is not None)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        given = {"members": self.members, "valid": self.valid}
        return {name: array for name, array in given.items() if array is not None}


def output_rows(
    kind: np.ndarray, length: np.ndarray, path_from: np.ndarray, path: np.ndarray, excluded: np.ndarray,
    show_empty: bool, one_row: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return (out_match, out_position): the rows to output; position is the last one in ONE ROW mode."""
    is_matched = kind == MATCHED
    is_shown = np.ones(len(kind), np.bool_) if show_empty else is_matched | (kind == UNMATCHED)
    if one_row:
        out_match = np.flatnonzero(is_shown)
        return out_match, np.where(is_matched[out_match], length[out_match] - 1, -1)
    counts = np.where(is_matched, length, is_shown)
    out_match = np.repeat(np.arange(len(kind)), counts)
    out_position = np.arange(len(out_match)) - np.repeat(np.cumsum(counts) - counts, counts)
    if not is_matched.all():
        out_position[~is_matched[out_match]] = -1
    if excluded.any():
        inside = out_position >= 0
        inside[inside] = excluded[path[path_from[out_match[inside]] + out_position[inside]]]
        return out_match[~inside], out_position[~inside]
    return out_match, out_position


# ---- navigation ----------------------------------------------------------------------------------------------


def navigate(output: OutputRows, first: bool, offset: int, shift: int, chosen: ChosenRows) -> np.ndarray:
    """Return the row of a navigation for every output row; -1 without one."""
    match, position = output.out_match, output.out_position
    if chosen.members is None:
        limit = np.where(position < 0, -1, output.length[match] - 1) if chosen.final else position
        places = np.where(offset <= limit, offset if first else limit - offset, -1)
    elif output.alike:
        labels = output.label_of[output.path[: output.length.max(initial=0)]]
        (inside,) = np.nonzero(chosen.members[labels][:: 1 if first else -1])
        place = -1 if offset >= len(inside) else inside[offset] if first else len(labels) - 1 - inside[offset]
        if output.member is not None and place >= 0 and len(match):  # each match has one output row, in order
            begin = output.path_from[match[0]] + place
            return output.member[begin :: len(labels)][: len(match)]
        places = np.full(len(match), place, np.int64)
    else:
        places = np.full(len(match), -1, np.int64)
        program = compiled_for(places_program, first, chosen.final)
        room = np.empty(output.length.max(initial=0), np.int64)
        output.run(program, {**chosen.arrays, "places": places, "found": room}, offset)
    exists = places >= 0
    if output.member is not None:
        assert shift == 0
        return np.where(exists, output.member.take(output.path_from[match] + places, mode="clip"), -1)
    rows = output.start[match] + places + shift
    if shift != 0:
        exists &= (rows >= output.part_lo[match]) & (rows < output.part_hi[match])
    return np.where(exists, rows, -1)


def labels_at(output: OutputRows, rows: np.ndarray) -> np.ndarray:
    """Return the label of a row for every output row (int64); -1 if it is not a row of the match."""
    assert output.member is None
    match = output.out_match
    inside = rows - output.start[match]
    is_inside = (rows >= 0) & (inside >= 0) & (inside < output.length[match]) & (output.out_position >= 0)
    labels = np.full(len(rows), -1, np.int64)
    labels[is_inside] = output.label_of[output.path[(output.path_from[match] + inside)[is_inside]]]
    return labels


def places_program(first: bool, final: bool) -> Program:
    """Find the place in the match of the row that is the offset-th first or last of some labels."""
    s = _scope("places")
    f, offset = s.f, s.f.scalar("offset")
    count = f.variable("count", 0)

    def write(at: Value) -> None:
        index = f.value(offset) if first else count - 1 - offset
        with f.when((index >= 0) & (index < count)):
            s.places[at] = s.found[index]

    with _each_place(s, MeasureShape(final, True, False, False), lambda: count.set(0), write) as (place, _):
        s.found[count] = place
        count.set(count + 1)
    f.give(0)
    return f.program


# ---- aggregates ----------------------------------------------------------------------------------------------


def aggregate(
    output: OutputRows, function: AggregateShape, values: np.ndarray, real: bool, chosen: ChosenRows
) -> tuple[np.ndarray, np.ndarray]:
    """Return (value, is null) of an aggregate for every output row. real: whether the value is a double.

    MIN_BY and MAX_BY give the row of the extreme value (the last of equal ones), -1 without values.
    """
    out = np.zeros(len(output.out_match), np.float64 if real else np.int64)
    null = np.ones(len(output.out_match), np.uint8)
    program = compiled_for(aggregate_program, function, real, chosen.shape(output))
    output.run(program, {**chosen.arrays, "values": values, "out": out, "null": null})
    return out, null.view(np.bool_)


def aggregate_program(function: AggregateShape, real: bool, shape: MeasureShape) -> Program:
    types = {"values": (F64 if function.floating else I64, False), "out": (F64 if real else I64, True)}
    s = _scope("aggregate", types)
    f = s.f
    state = {name: f.variable(name, f.constant(0, FIELDS[name])) for name in function.fields}

    def begin() -> None:
        for name, variable in state.items():
            variable.set(f.constant(0, FIELDS[name]))

    def now() -> AggregateState:
        return AggregateState(**{name: variable.value for name, variable in state.items()})

    def write(at: Value) -> None:
        value, null = function.finish(f, now())
        s.out[at] = state["more"].to(I64) if function.keeps_row else value
        s.null[at] = f.constant(0, U8) if null is None else null.to(U8)

    with _each_place(s, shape, begin, write) as (_, row):
        counts_rows = function.user is None and function.function == oc.COUNT
        after = function.fold(f, now(), None if counts_rows else s.values[row], row)
        for name, variable in state.items():
            variable.set(getattr(after, name))
    f.give(0)
    return f.program


def sum_decimals(
    output: OutputRows, words: np.ndarray, chosen: ChosenRows
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (low words, high words, counts) of sums of decimals for every output row. words: int64[2 * rows]."""
    total = len(output.out_match)
    low, high, counts = np.zeros(total, np.uint64), np.zeros(total, np.int64), np.zeros(total, np.int64)
    program = compiled_for(decimals_program, chosen.shape(output))
    output.run(program, {**chosen.arrays, "words": words, "low": low, "high": high, "counts": counts})
    return low, high, counts


def decimals_program(shape: MeasureShape) -> Program:
    s = _scope("sum_decimals")
    f = s.f
    count, total = f.variable("count", 0), f.variable("total", f.constant(0, I128))
    overflow = f.constant(OVERFLOW, I128)

    def begin() -> None:
        count.set(0)
        total.set(f.constant(0, I128))

    def write(at: Value) -> None:
        _write_words(s, at, total.value)
        s.counts[at] = count

    with _each_place(s, shape, begin, write) as (_, row):
        count.set(count + 1)
        before = total.value
        after, excess = wide_sum(f, before, _words(s.words[row * 2].bits_as(U64), s.words[row * 2 + 1]))
        assert excess is not None
        total.set(f.select(before.equals(overflow) | excess, overflow, after))
    f.give(0)
    return f.program


def divide_decimals(
    low: np.ndarray, high: np.ndarray, counts: np.ndarray, digits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (low words, high words) of averages: sums by counts, with `digits` more digits. Counts of 0 give 0."""
    out_low, out_high = np.zeros(len(low), np.uint64), np.zeros(len(low), np.int64)
    compiled_for(division_program, digits)([low, high, counts, out_low, out_high])
    return out_low, out_high


def division_program(digits: int) -> Program:
    program = Program("divide_decimals")
    f = program.function("run")
    lows, highs, counts = f.array("lows", U64), f.array("highs", I64), f.array("counts", I64)
    s = Scope(f, _TYPES)
    s.declare("low", "high")
    with f.loop(0, counts.length) as at:
        with f.when(counts[at] > 0):
            _write_words(s, at, divide_sum(f, _words(lows[at], highs[at]), counts[at], digits))
    f.give(0)
    return program


def _words(low: Value, high: Value) -> Value:
    return high.to(I128) << 64 | low.to(I128)


def _write_words(s: Scope, at: Value, number: Value) -> None:
    s.low[at] = number.to(U64)
    s.high[at] = (number >> 64).to(I64)


# ---- arrays --------------------------------------------------------------------------------------------------


def collect(output: OutputRows, chosen: ChosenRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (offsets, rows, labels): the rows that an array aggregate gathers for every output row."""
    counts, _ = aggregate(output, AggregateShape(oc.COUNT), np.empty(0, np.int64), False, chosen)
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    rows, labels = np.empty(offsets[-1], np.int64), np.empty(offsets[-1], np.int32)
    program = compiled_for(gathering_program, chosen.shape(output))
    output.run(program, {**chosen.arrays, "offsets": offsets, "rows": rows, "labels": labels})
    return offsets, rows, labels


def gathering_program(shape: MeasureShape) -> Program:
    s = _scope("gather_rows")
    f = s.f
    with _each_match(s) as (at, match, position, _):
        to = f.variable("to", s.offsets[at])
        limit = s.length[match] - 1 if shape.final else position
        with f.loop(0, limit + 1) as place:
            taken = s.path_from[match] + place
            row = _member(s, taken) if shape.with_members else s.start[match] + place
            with f.when(_counts(s, shape, taken, row)):
                s.rows[to] = row
                s.labels[to] = s.label_of[s.path[taken].to(I64)].to(I32)
                to.set(to + 1)
    f.give(0)
    return f.program


# ---- loops ---------------------------------------------------------------------------------------------------


def _scope(name: str, more: ArrayTypes | None = None) -> Scope:
    return entry_scope(name, {**_TYPES, **(more or {})})


@contextmanager
def _each_match(s: Scope) -> Iterator[tuple[Value, Value, Value, Value]]:
    """Loop over output rows that have a match: (its number, the match, the position in it, is it the first of its
    match?)."""
    f = s.f
    current = f.variable("current", -1)
    with f.loop(0, s.out_match.length) as at:
        match, position = s.out_match[at], s.out_position[at]
        with f.when(position >= 0):
            is_new = match.differs(current)
            current.set(match)
            yield at, match, position, is_new


@contextmanager
def _each_place(
    s: Scope, shape: MeasureShape, begin: Callable[[], None], write: Callable[[Value], None]
) -> Iterator[tuple[Value, Value]]:
    """Loop over the rows of a match that count, each once: (place in the match, row). begin: called for each match.
    write: called once all rows of an output row were taken."""
    f = s.f
    upto = f.variable("upto", 0)
    with _each_match(s) as (at, match, position, is_new):
        with f.when(is_new):
            upto.set(0)
            begin()
        limit = s.length[match] - 1 if shape.final else position
        start = None if shape.with_members else s.start[match]
        origin = s.path_from[match] if shape.of_labels or start is None else None
        with f.during(lambda: upto <= limit):
            place = upto.value
            taken = None if origin is None else origin + place
            row = _member(s, taken) if start is None else start + place
            with f.when(_counts(s, shape, taken, row)):
                yield place, row
            upto.set(place + 1)
        write(at)


def _counts(s: Scope, shape: MeasureShape, taken: Value | None, row: Value) -> Value | bool:
    """Whether a row counts. taken: the place of its instruction in `path`."""
    chosen: Value | bool = True
    if shape.of_labels:
        assert taken is not None
        chosen = _is_member(s, taken)
    if shape.masked:
        is_valid = s.valid[row].differs(0)
        chosen = is_valid if chosen is True else is_valid & chosen
    return chosen


def _member(s: Scope, taken: Value | None) -> Value:
    assert taken is not None
    return s.member[taken].to(I64)


def _is_member(s: Scope, taken: Value) -> Value:
    return s.members[s.label_of[s.path[taken].to(I64)]].differs(0)
