"""One pass over a batch: the aggregates over all matches that end in a range of times, for each key, group, bucket."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.matchers.events.aggregated_arrays import ValueLanes, column_image, shape_of, tests_of
from episode.matchers.events.code import trend_sliding, trend_starts
from episode.matchers.events.code.trend_values import TrendShape, TrendValues, zeros
from episode.matchers.prepare import Prepared
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER, is_after, window_ends
from episode.plan.events.aggregated import AggregatedPlan, GroupedBy

BLOCK_VALUES, LEAST_WIDTH, MOST_WIDTH = 1 << 14, 4, 64
"""About so many values of a block of starts stay in the processor's cache; starts of a block at the least, the most."""
FEW = 64
"""Partitions of so few rows are compared event by event, where they lie within one window."""


@dataclass(frozen=True)
class FoundTrends:
    """Totals, each with a row of the events that is the last (and one that is the first) of some match of it."""

    total: TrendValues
    last: np.ndarray
    first: np.ndarray
    lanes: ValueLanes


def variables_at(plan: AggregatedPlan, first: bool) -> np.uint64:
    """The bits of variables of first or of last events."""
    bit = {name: 1 << number for number, name in enumerate(plan.variables)}
    found = 0
    for alternative in plan.alternatives:
        for at in alternative.starts if first else alternative.ends:
            found |= bit[alternative.places[at].variable]
    return np.uint64(found)


def search(
    plan: AggregatedPlan, events: EventBatch, prepared: Prepared, done: int, until: int, few: int = FEW
) -> FoundTrends:
    """The aggregates of matches whose last event is later than `done` and not later than `until`."""
    lanes = ValueLanes(plan, prepared)
    demand(lanes)
    ending = prepared.bits & variables_at(plan, first=False) != 0
    ending &= is_after(events.time, done) & (events.time <= until)
    rows = np.flatnonzero(ending)
    codes = [events.key[rows]]
    if plan.every is not None:
        codes.append(events.time[rows] // plan.every)
    codes += _group_codes(plan, prepared, rows, GroupedBy.LAST)
    slots, representative = _distinct(codes, len(rows))
    slot = np.full(len(events), -1, np.int64)
    slot[rows] = slots
    grouped = any(group.of is GroupedBy.FIRST for group in plan.groups)
    group, groups, first_rows = np.zeros(len(events), np.int64), 1, np.zeros(1, np.int64)
    if grouped:
        starting = np.flatnonzero(prepared.bits & variables_at(plan, first=True) != 0)
        group_of, first = _distinct(_group_codes(plan, prepared, starting, GroupedBy.FIRST), len(starting))
        group[starting] = group_of
        groups, first_rows = max(2, len(first)), starting[first]
    total = zeros(len(representative), *lanes.shape)
    keys = np.zeros(0, np.int64) if grouped else np.arange(len(representative), dtype=np.int64)
    if len(rows):
        run = _Run(plan, events, prepared, lanes, few)
        for number in range(len(plan.alternatives)):
            if plan.per_start:
                total, keys = run.by_start(number, slot, group, groups, total, keys)
            else:
                run.slide(number, slot, total)
    total = TrendValues(*(lane[: len(keys)] for lane in total))
    last = rows[representative[keys // groups]]
    first_of = first_rows[keys % groups] if grouped else last
    some = (total.low[:, 0] != 0) | (total.high[:, 0] != 0)
    return FoundTrends(TrendValues(*(lane[some] for lane in total)), last[some], first_of[some], lanes)


def demand(lanes: ValueLanes) -> None:
    """Make the lanes that the plan's aggregates need."""
    for value in lanes.plan.values:
        if value.function in ("min", "max"):
            lanes.extreme(value)
        elif value.function == "count":
            if value.labels is not None:
                if lanes.plan.doubles:
                    lanes.real_pairs(value)
                else:
                    lanes.pairs(value)
        elif value.argument is not None and value.argument.type == "double" and value.type == "double":
            lanes.real_sum(value)
            lanes.pairs(value)
            if value.function == "avg":
                lanes.real_pairs(value)
        else:
            lanes.sums(value)
            lanes.pairs(value)


class _Run:
    """The code on a batch, whose rows are brought together by what is equal in all events of a match."""

    def __init__(
        self, plan: AggregatedPlan, events: EventBatch, prepared: Prepared, lanes: ValueLanes, few: int
    ) -> None:
        self.plan = plan
        self.few = few
        self.prepared = prepared
        self.lanes = lanes
        self.order: np.ndarray | None = None
        self.from_ = events.bounds
        self.time = events.time
        self.bits = prepared.bits
        if plan.same:
            codes = [events.key]
            for image, valid in (column_image(plan, prepared, name) for name in plan.same):
                codes += [valid.astype(np.int64), np.where(valid, image, 0)]
            part = _distinct(codes, len(events))[0]
            self.order = np.argsort(part, kind="stable")
            part = part[self.order]
            self.from_ = np.concatenate([[0], np.flatnonzero(np.diff(part)) + 1, [len(part)]]).astype(np.int64)
            self.time, self.bits = self.time[self.order], self.bits[self.order]
        window = EVER if plan.within is None else plan.within
        first, last = self.time[self.from_[:-1]], self.time[self.from_[1:] - 1]
        self.window = EVER if (window_ends(first, window) >= last).all() else window

    def slide(self, number: int, slot: np.ndarray, total: TrendValues) -> None:
        shape, events = self._events(number, slot)
        trend_sliding.slide(shape, events, self.window, total)

    def by_start(
        self, number: int, slot: np.ndarray, group: np.ndarray, groups: int, total: TrendValues, keys: np.ndarray
    ) -> tuple[TrendValues, np.ndarray]:
        shape, events = self._events(number, slot)
        events |= tests_of(self.prepared, self.plan.alternatives[number], self.order)
        shared = self.window == EVER and groups == 1 and not shape.first_tests
        starts = trend_starts.Starts(self.window, 1 if shared else self._width(), shared, groups, self.few)
        return trend_starts.by_start(shape, {**events, "group": self._ordered(group)}, starts, total, keys)

    def _events(self, number: int, slot: np.ndarray) -> tuple[TrendShape, dict[str, np.ndarray]]:
        """The shape of an alternative, and its events."""
        alternative = self.plan.alternatives[number]
        events = {"bits": self.bits, "time": self.time, "slot": self._ordered(slot)}
        events |= {"begins": self.from_[:-1].copy(), "ends": self.from_[1:].copy()}
        shape = shape_of(self.plan, alternative, self.lanes.members(alternative))
        return shape, events | self.lanes.weights(self.order)

    def _ordered(self, values: np.ndarray) -> np.ndarray:
        return values if self.order is None else values[self.order]

    def _width(self) -> int:
        """How many starts at once: fewer where windows have many events."""
        counts = np.diff(self.from_)
        spans = np.maximum(1.0, self.time[self.from_[1:] - 1].astype(np.float64) - self.time[self.from_[:-1]])
        in_window = float((counts * np.minimum(1.0, self.window / spans)).max())
        return int(min(MOST_WIDTH, max(LEAST_WIDTH, BLOCK_VALUES / max(1.0, in_window))))


def _group_codes(plan: AggregatedPlan, prepared: Prepared, rows: np.ndarray, of: GroupedBy) -> list[np.ndarray]:
    """Values of GROUP BY as codes, null as one of its own."""
    codes = []
    for group in plan.groups:
        if group.of is of:
            image, valid = column_image(plan, prepared, group.column)
            codes += [valid[rows].astype(np.int64), np.where(valid, image, 0)[rows]]
    return codes


def _distinct(codes: list[np.ndarray], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The number of each combination of codes, and where each has its first row."""
    together = np.zeros(count, np.int64)
    where = np.zeros(min(count, 1), np.int64)
    for code in codes:
        values, inverse = np.unique(code, return_inverse=True)
        if len(values) < 2:
            continue
        together = together * len(values) + inverse.reshape(-1)
        _, where, together = np.unique(together, return_index=True, return_inverse=True)
    return together.reshape(-1).astype(np.int64), where
