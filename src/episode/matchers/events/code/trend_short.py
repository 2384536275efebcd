"""Aggregates over all matches of a short partition within one window: earlier events are compared one by one.

If a partition has a handful of events (the life of a task, a session), ranks, trees and lanes of starts take longer
than comparing each event with those before it. The values are those of `trend_starts`, in one lane for all starts.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from episode.matchers.code.expressions import COMPARE
from episode.matchers.events.code.trend_values import (
    EVENTS,
    EXACT,
    NONE,
    PARTS,
    ROWS,
    WEIGHTS,
    Cells,
    Parts,
    TrendShape,
    TrendValues,
    add,
    added_by,
    clear,
    constants,
    is_something,
    one_match,
    pass_time,
    unite,
    zeros,
)
from episode.matchers.times import window_ends
from episode.native.builder import ArrayTypes, Program, Scope
from episode.native.ir import I64, Value, Variable
from episode.native.running import compiled_for

PAIRS: ArrayTypes = {"pair_row": (I64, True), "pair_place": (I64, True)}
"""The rows and places of values."""


def short_partitions(events: Mapping[str, np.ndarray], window: int, few: int) -> np.ndarray:
    """Whether partitions have at most `few` rows, all within one window."""
    begins, ends, time = events["begins"], events["ends"], events["time"]
    found = (ends - begins <= few) & (begins < ends)
    found[found] = time[ends[found] - 1] <= window_ends(time[begins[found]], window)
    return found


def add_short(shape: TrendShape, events: Mapping[str, np.ndarray], total: TrendValues) -> None:
    """Add up in `total` the matches of partitions begins[g]:ends[g], whose rows are in order of time."""
    longest = int((events["ends"] - events["begins"]).max())
    room = len(shape.bits) * (longest + 1) + 1  # a cell for each place, and for each event in each place
    cells = Cells("short", shape.lanes).arrays(zeros(room, *shape.lanes.counts))
    pairs = {name: np.zeros(room, np.int64) for name in PAIRS}
    settings = np.array([len(events["time"])], np.int64)
    totals = Cells("total", shape.lanes).arrays(total)
    compiled_for(short_program, shape).run({**events, **cells, **pairs, **totals, "settings": settings})


def short_program(shape: TrendShape) -> Program:
    program = Program("short_trends")
    cells, total = Cells("short", shape.lanes), Cells("total", shape.lanes)
    s = Scope(program.function("run"), {**EVENTS, **WEIGHTS, **PAIRS, **cells.types, **total.types})
    with s.f.loop(0, s.begins.length) as part:
        _add_partition(s, shape, cells, total, s.begins[part], s.ends[part])
    s.f.give(0)
    return program


def holds_along(s: Scope, operations: tuple[str, ...], first_test: int, row: Value, before: Value) -> Value:
    """Do the conditions of a link hold between two events? first_test: the number of its first condition."""
    rows = s.settings[ROWS]
    found: Value | None = None
    for number, operation in enumerate(operations, first_test):
        one, other = rows * number + row, rows * number + before
        holds = COMPARE[operation](s.current[one], s.before[other])
        holds = holds & s.current_valid[one].differs(0) & s.before_valid[other].differs(0)
        found = holds if found is None else found & holds
    assert found is not None
    return found


def holds_with_first(s: Scope, operation: str, test: int, row: Value, first: Value) -> Value:
    """Does a condition with the first event of a match hold?"""
    rows = s.settings[ROWS]
    one, other = rows * test + row, rows * test + first
    holds = COMPARE[operation](s.first_current[one], s.first[other])
    return holds & s.first_current_valid[one].differs(0) & s.first_valid[other].differs(0)


def _add_partition(s: Scope, shape: TrendShape, cells: Cells, total: Cells, begin: Value, end: Value) -> None:
    """Add up the matches of one partition.

    The first cells are the values of each place (of all its events so far, for links without a condition); after them
    come those of each event in each place.
    """
    f = s.f
    places = len(shape.bits)
    with f.loop(0, places) as at:
        clear(s, cells, at)
    known, count, row = f.variable("known", places), f.variable("count", places), f.variable("row", begin)
    with f.during(lambda: row < end):
        first = pass_time(s, row, end)
        with f.loop(first, row.value) as event:
            with f.when(s.bits[event].differs(0)):
                for place in shape.places:
                    with f.when(shape.has(f, s.bits[event], place)):
                        value = _Sum(s, shape, place)
                        value.add_links(cells, event, known.value)
                        with f.when(value.is_something):
                            now = count.value
                            value.take(event)
                            value.put(cells, now)
                            if place in shape.ends:
                                with f.when(s.slot[event] >= 0):
                                    add(total, cells, s, s.slot[event], now)
                            if place in shape.continued:
                                s.pair_row[now], s.pair_place[now] = event, place
                                count.set(now + 1)
        with f.loop(known.value, count.value) as other:
            add(cells, cells, s, s.pair_place[other], other)
        known.set(count)


class _Sum:
    """The value of an event in a place, in variables."""

    def __init__(self, s: Scope, shape: TrendShape, place: int) -> None:
        self.s, self.shape, self.place = s, shape, place
        f = s.f
        self.parts: dict[tuple[int, int], list[Variable]] = {}
        for kind, lane in shape.lanes.all:
            values = one_match(f, kind, lane) if place in shape.starts else constants(f, kind, NONE[kind])
            self.parts[kind, lane] = [f.variable(part, value) for part, value in zip(PARTS[kind], values, strict=True)]

    def get(self, kind: int, lane: int) -> Parts:
        return tuple(one.value for one in self.parts[kind, lane])

    @property
    def is_something(self) -> Value:
        return is_something(self.get(EXACT, 0))

    def add_links(self, cells: Cells, event: Value, known: Value) -> None:
        """The events that may come before this one."""
        s, f = self.s, self.s.f
        test = 0
        for link in self.shape.links:
            if link.target == self.place and not link.operations:
                self._add_cell(cells, f.value(link.source))
            elif link.target == self.place:
                with f.loop(len(self.shape.bits), known) as other:
                    with f.when(s.pair_place[other].equals(link.source)):
                        with f.when(holds_along(s, link.operations, test, event, s.pair_row[other])):
                            self._add_cell(cells, other)
            test += len(link.operations)

    def _add_cell(self, cells: Cells, at: Value) -> None:
        for kind, lane in self.parts:
            self._add(kind, lane, cells.get(self.s, at, kind, lane))

    def _add(self, kind: int, lane: int, more: Parts) -> None:
        values = unite(self.s.f, kind, self.get(kind, lane), more)
        for part, value in zip(self.parts[kind, lane], values, strict=True):
            part.set(value)

    def take(self, event: Value) -> None:
        """Continue all matches so far with the event."""
        for kind, lanes in enumerate(self.shape.lanes.added_at(self.place)):
            for lane in lanes:
                self._add(kind, lane, added_by(self.s, kind, lane, event, lambda kind: self.get(kind, 0)))

    def put(self, cells: Cells, at: Value) -> None:
        for kind, lane in self.parts:
            cells.put(self.s, at, kind, lane, self.get(kind, lane))
