"""Aggregates over all matches if conditions are about single events: one pass, whatever the length of the window.

Events between two times act on sets of unfinished matches, by the place of their last event, as a matrix acts on a
vector: a segment of events is (T, s), T from the matches before it to those after it, s the matches that begin inside.
(T1, s1)(T2, s2) = (T1 T2, s1 T2 + s2) is associative, so the segment of a sliding window is kept as two stacks: the
back as its product, the front as the s of each of its suffixes. Every event is multiplied in twice, once on either
side.

Events of one time come one after another in no match: they act together, as one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from episode.matchers.code.searching import window_start
from episode.matchers.events.code.trend_values import (
    EVENTS,
    WEIGHTS,
    Cells,
    MatchBeginning,
    TrendShape,
    TrendValues,
    add_product,
    add_taken,
    clear,
    copy,
    pass_time,
    zeros,
)
from episode.matchers.times import EVER
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope, subroutine
from episode.native.ir import I64, U64, Value, Variable
from episode.native.running import compiled_for

ROWS, WINDOW = 0, 1
"""Places of `settings`."""


def slide(shape: TrendShape, events: Mapping[str, np.ndarray], window: int, total: TrendValues) -> None:
    """Add up the matches of partitions begins[g]:ends[g], whose rows are in order of time.

    slot int64[n]: the place in `total` of the matches that end with a row; negative: none. A match lasts at most
    `window`.
    """
    arrays = {**events, "settings": np.array([len(events["time"]), window], np.int64)}
    most = 0
    if window < EVER:
        most = compiled_for(most_in_window_program).run(arrays)
    layout = _Layout(shape)
    own = zeros(layout.front + (most + 1) * layout.count, *shape.lanes.counts)
    arrays |= layout.own.arrays(own) | layout.total.arrays(total) | {"row_of": np.empty(2 * most + 2, np.int64)}
    compiled_for(sliding_program, shape, window < EVER).run(arrays)


class _Layout:
    """Parts of the memory: matrices of places to places, each with a row for matches that begin inside and with spare
    places; the matches before the current time; of each suffix of the front, the matches that begin inside."""

    def __init__(self, shape: TrendShape) -> None:
        self.shape = shape
        self.own, self.total = (Cells(name, shape.lanes) for name in ("own", "total"))
        self.one = MatchBeginning("one", shape.lanes)
        self.count = len(shape.bits)
        size = (self.count + 1) ** 2
        self.back, self.suffix, self.reached = 0, size, 2 * size
        self.front = self.reached + self.count

    @property
    def spare(self) -> int:
        return (self.count + 1) * self.count

    @property
    def types(self) -> ArrayTypes:
        return {**EVENTS, **WEIGHTS, **self.own.types, **self.total.types, "row_of": (I64, True)}


def sliding_program(shape: TrendShape, windowed: bool) -> Program:
    program = Program("trends")
    m = _Layout(shape)
    s = Scope(program.function("run"), m.types)
    f = s.f
    # Items are times with events; row_of[i]: where they begin. The front has first:middle, the back middle:items.
    first, middle, items = (f.variable(name, 0) for name in ("first", "middle", "items"))
    with f.loop(0, s.begins.length) as part:
        high = s.ends[part]
        _set_identity(m, s, m.back)
        for one in (first, middle, items):
            one.set(0)
        row = f.variable("row", s.begins[part])
        with f.during(lambda: row < high):
            begin = row.value
            mask, wanted = _next_time(s, row, high)
            end = row.value
            with f.when(mask.differs(0)):
                if windowed:
                    _move(s, m, first, middle, items, s.time[begin], high)
                with f.when(wanted):
                    _add_matches(s, m, first.value, middle.value, begin, end, windowed)
                _append(m, windowed, s, begin, end)
                if windowed:
                    s.row_of[items] = begin
                    items.set(items + 1)
    f.give(0)
    return program


def _next_time(s: Scope, row: Variable, high: Value) -> tuple[Value, Value]:
    """Move a variable over the rows of one time: what they qualify for together, and whether some has a slot."""
    f = s.f
    now = s.time[row]
    mask, wanted = f.variable("mask", f.constant(0, U64)), f.variable("wanted", False)
    with f.during(lambda: (row < high) & s.time[f.least(row, high - 1)].equals(now)):
        at = row.value
        mask.set(mask | s.bits[at])
        wanted.set(wanted | (s.slot[at] >= 0))
        row.set(at + 1)
    return mask.value, wanted.value


# ---- matrices --------------------------------------------------------------------------------------------


@subroutine()
def _set_identity(m: _Layout, s: Scope, matrix: Value) -> None:
    """Set an identity matrix of places to places; its last row, of matches that begin inside, is empty."""
    with s.f.loop(0, m.spare) as at:
        clear(s, m.own, matrix + at)
    with s.f.loop(0, m.count) as place:
        copy(m.own, m.one, s, matrix + place * (m.count + 1), 0)


@subroutine()
def _append(m: _Layout, windowed: bool, s: Scope, begin: Value, end: Value) -> None:
    """Multiply the back by the events of rows begin:end. Without a window only matches that begin inside count.

    From the last place to the first, so that each is added to others before it changes.
    """
    f, shape, places = s.f, m.shape, m.count
    first = 0 if windowed else places
    count = places + 1 - first
    for place in sorted(shape.continued, reverse=True):
        loops = (place, place) in shape.linked
        kept = f.variable("kept", False)
        with _each_row(s, shape, place, begin, end) as row:
            if loops:
                with f.when(~kept):
                    kept.set(True)
                    with f.loop(first, places + 1) as start:
                        copy(m.own, m.own, s, start + m.spare, start * places + place)
            at = first * places + place
            for before in range(place):
                if (before, place) in shape.linked:
                    source = first * places + before
                    add_taken(s, m.own, at, places, m.own, source, places, count, place, row)
            if loops:
                add_taken(s, m.own, at, places, m.own, m.spare + first, 1, count, place, row)
            if place in shape.starts:
                add_taken(s, m.own, places * places + place, 1, m.one, 0, 1, 1, place, row)


@subroutine()
def _prepend(m: _Layout, s: Scope, begin: Value, end: Value) -> None:
    """Multiply the events of rows begin:end by the suffix. From the first place on, so that each place is read before
    it changes; a place that follows itself is the first that is added to it, from a copy."""
    f, shape, places = s.f, m.shape, m.count
    spare = m.suffix + m.spare
    for before in (places, *shape.places):
        for place in range(0 if before == places else before, places):
            linked = place in shape.starts if before == places else (before, place) in shape.linked
            if not linked or place not in shape.continued:
                continue
            source = m.suffix + place * places
            kept = f.variable("kept", False)
            with _each_row(s, shape, place, begin, end) as row:
                if place == before:
                    with f.when(~kept):
                        kept.set(True)
                        with f.loop(0, places) as to:
                            copy(m.own, m.own, s, spare + to, source + to)
                    source = spare
                to = m.suffix + before * places + place
                add_taken(s, m.own, to, 1, m.own, source + place, 1, places - place, place, row)


@contextmanager
def _each_row(s: Scope, shape: TrendShape, place: int, begin: Value, end: Value) -> Iterator[Value]:
    """The rows begin:end that qualify for a place."""
    with s.f.loop(begin, end) as row:
        with s.f.when(shape.has(s.f, s.bits[row], place)):
            yield row


# ---- the window ------------------------------------------------------------------------------------------


def _move(
    s: Scope, m: _Layout, first: Variable, middle: Variable, items: Variable, now: Value, high: Value
) -> None:  # fmt: skip
    """Drop times that are too early for the window that ends now."""
    f = s.f
    earliest = window_start(f, now, s.settings[WINDOW])

    def is_early(item: Value) -> Value:
        """Whether an item exists and is too early."""
        return (first < items) & (s.time[s.row_of[f.greatest(f.least(item, items - 1), 0)]] < earliest)

    with f.when(items > 0):
        with f.when(is_early(items - 1)):
            _set_identity(m, s, m.back)
            for one in (first, middle, items):
                one.set(0)
        with f.when(items > 0):
            with f.during(lambda: is_early(first.value)):
                with f.when(first.equals(middle)):
                    _turn_over(s, m, first.value, items.value, high)
                    items.set(items - first)
                    first.set(0)
                    middle.set(items)
                first.set(first + 1)


def _turn_over(s: Scope, m: _Layout, first: Value, items: Value, high: Value) -> None:
    """All items of the back become the front."""
    f = s.f
    _set_identity(m, s, m.suffix)
    with f.loop(0, items - first) as number:
        item = items - 1 - number
        begin = s.row_of[item]
        end = f.variable("end", begin)
        pass_time(s, end, high)
        _prepend(m, s, begin, end)
        with f.loop(0, m.count) as place:
            at = (item - first) * m.count + m.front + place
            copy(m.own, m.own, s, at, place + (m.suffix + m.count * m.count))
    with f.loop(first, items) as item:
        s.row_of[item - first] = s.row_of[item]
    _set_identity(m, s, m.back)


def _add_matches(
    s: Scope, m: _Layout, first: Value, middle: Value, begin: Value, end: Value, windowed: bool
) -> None:  # fmt: skip
    """Add the matches whose last event is one of the rows begin:end to their totals."""
    f, shape, places = s.f, m.shape, m.count
    with f.loop(0, places) as place:
        copy(m.own, m.own, s, place + m.reached, place + (m.back + places * places))
        if windowed:
            with f.when(first < middle):
                with f.loop(0, place + 1) as before:
                    front, back = first * places + m.front + before, before * places + m.back + place
                    add_product(m.own, s, place + m.reached, front, back)
    with f.loop(begin, end) as row:
        slot = s.slot[row]
        with f.when(slot >= 0):
            for end_place in sorted(shape.ends):
                with f.when(shape.has(f, s.bits[row], end_place)):
                    for source in shape.places:
                        if (source, end_place) in shape.linked:
                            add_taken(s, m.total, slot, 1, m.own, m.reached + source, 1, 1, end_place, row)
                    if end_place in shape.starts:
                        add_taken(s, m.total, slot, 1, m.one, 0, 1, 1, end_place, row)


def most_in_window_program() -> Program:
    """The most rows of a partition within a window."""
    s = entry_scope("most_in_window", EVENTS)
    f = s.f
    window = s.settings[WINDOW]
    most = f.variable("most", 0)
    with f.loop(0, s.begins.length) as part:
        first = f.variable("first", s.begins[part])
        with f.loop(s.begins[part], s.ends[part]) as row:
            earliest = window_start(f, s.time[row], window)
            with f.during(lambda: s.time[first] < earliest):
                first.set(first + 1)
            most.set(f.greatest(most, row + 1 - first))
    f.give(most)
    return s.program
