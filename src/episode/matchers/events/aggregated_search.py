"""One pass over a batch: aggregates over all matches that end in a range of times, for each key, group and bucket."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

import numpy as np
import pyarrow as pa

from episode.matchers.columns import float_images, float_order
from episode.matchers.events.code import trend_sliding, trend_starts
from episode.matchers.events.code.trend_values import NOTHING, TrendLanes, TrendLink, TrendShape, TrendValues, zeros
from episode.matchers.prepare import Needs, Precomputed, Prepared, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER, is_after, window_ends
from episode.plan.events.aggregated import AggregatedPlan, Alternative, GroupedBy, OverMatches
from episode.plan.expressions import Constant, Current, Expression, Load, walk
from episode.plan.types import lane_of


def aggregated_needs(plan: AggregatedPlan) -> Needs:
    """The columns and computed values that a plan reads; computed once per plan."""
    columns: dict[str, str] = {}
    null_tests: dict[str, None] = {}
    constants: dict[tuple[str, object], None] = {}
    computed: dict[Expression, None] = {}

    def read(expression: Expression) -> None:
        for node in walk(expression):
            if isinstance(node, Load):
                columns[node.column] = node.type
            elif isinstance(node, Constant) and lane_of(node.type) == "code" and node.value is not None:
                constants[(node.type, node.value)] = None

    def take(expression: Expression) -> None:
        read(expression)
        if not isinstance(expression, Load):
            computed[expression] = None

    for condition in plan.conditions.values():
        for part in condition.row_local:
            read(part)
    for alternative in plan.alternatives:
        for test in (*alternative.first_tests, *(test for link in alternative.links for test in link.tests)):
            take(test.current)
            take(test.other)
    for value in plan.values:
        if value.argument is None:
            continue
        if value.function == "count" and isinstance(value.argument, Load):
            null_tests[value.argument.column] = None
        else:
            take(value.argument)
    for column in (*plan.same, *(group.column for group in plan.groups)):
        columns[column] = plan.types[column]
    return Needs(columns, tuple(null_tests), tuple(constants), tuple(computed))


def prepare_aggregated(
    plan: AggregatedPlan, needs: Needs, table: pa.Table, key: np.ndarray, known: Precomputed | None = None
) -> Prepared:
    """Encode the columns, and evaluate the conditions on single rows that are not known."""
    prepared = prepare(plan, needs, table, key, known)
    prepared.bits[:] &= np.uint64(2 ** len(plan.variables) - 1)
    return prepared


# ---- images ----------------------------------------------------------------------------------------------


def image_of(prepared: Prepared, expression: Expression) -> tuple[np.ndarray, np.ndarray]:
    """int64 in the order of the values (NaN after all, -0.0 as 0.0), and which of them are not null."""
    floating, row, check = prepared.column(expression)
    lanes = prepared.lanes
    valid = np.ones(len(prepared.bits), np.bool_) if check < 0 else lanes.valid[check] != 0
    if not floating:
        return lanes.ints[row], valid
    return float_images(lanes.floats[row]), valid


def floats_of(images: np.ndarray) -> np.ndarray:
    """The doubles after their images."""
    return float_order(images).view(np.float64)


def column_image(plan: AggregatedPlan, prepared: Prepared, column: str) -> tuple[np.ndarray, np.ndarray]:
    return image_of(prepared, Load(column, Current(0), plan.types[column]))


# ---- lanes -----------------------------------------------------------------------------------------------


LaneWeights = tuple[frozenset[str], np.ndarray]
"""The variables whose events add to a lane, and the weight of each row."""
Order = Union[slice, np.ndarray]
"""Rows in another order."""


@dataclass
class ValueLanes:
    """Lanes of values, by what they add up. Lane 0 of exact and real ones counts matches.

    Sums of whole numbers are kept as two, of the positive values and of the negative ones without their sign.
    """

    plan: AggregatedPlan
    prepared: Prepared
    exact: list[LaneWeights] = field(default_factory=list)
    real: list[LaneWeights] = field(default_factory=list)
    least: list[LaneWeights] = field(default_factory=list)
    _known: dict[tuple[object, ...], int] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The number of exact, real and least lanes."""
        return 1 + len(self.exact), 1 + len(self.real) if self.needs_real else 0, len(self.least)

    @property
    def needs_real(self) -> bool:
        return bool(self.real) or self.plan.doubles

    def pairs(self, value: OverMatches) -> int:
        """The exact lane that counts the folded events (with a value)."""
        return self._lane(self.exact, "pairs", value, self._count_weights(value, np.uint64))

    def real_pairs(self, value: OverMatches) -> int:
        return self._lane(self.real, "real pairs", value, self._count_weights(value, np.float64))

    def sums(self, value: OverMatches) -> tuple[int, int | None]:
        """The exact lanes of the sums of positive and of negative values (None without negative values)."""
        values, valid = self._images(value)
        values = np.where(valid, values, 0)
        positive = self._lane(self.exact, "positive", value, np.maximum(values, 0).astype(np.uint64))
        if not (values < 0).any():
            return positive, None
        magnitude = (-np.minimum(values, 0).view(np.uint64)).astype(np.uint64)
        return positive, self._lane(self.exact, "negative", value, magnitude)

    def real_sum(self, value: OverMatches) -> int:
        assert value.argument is not None
        _, row, check = self.prepared.column(value.argument)
        values = self.prepared.lanes.floats[row]
        if check >= 0:
            values = np.where(self.prepared.lanes.valid[check] != 0, values, 0.0)
        return self._lane(self.real, "real", value, values)

    def extreme(self, value: OverMatches) -> tuple[int, np.ndarray]:
        """The lane of least images (of the opposite values for max), and the images."""
        images, valid = self._images(value)
        if value.function == "max":
            images = ~images
        if (images[valid] == NOTHING).any():
            images = np.unique(images, return_inverse=True)[1].astype(np.int64)  # ranks have room for nothing
        images = np.where(valid, images, NOTHING)
        return self._lane(self.least, value.function, value, images), images

    def _images(self, value: OverMatches) -> tuple[np.ndarray, np.ndarray]:
        assert value.argument is not None
        return image_of(self.prepared, value.argument)

    def _count_weights(self, value: OverMatches, kind: type) -> np.ndarray:
        check = -1 if value.argument is None else self.prepared.column(value.argument)[2]
        if check < 0:
            return np.ones(len(self.prepared.bits), kind)
        return (self.prepared.lanes.valid[check] != 0).astype(kind)

    def _lane(self, lanes: list[LaneWeights], what: str, value: OverMatches, weights: np.ndarray) -> int:
        assert value.labels is not None
        key = what, value.labels, value.argument
        if key not in self._known:
            lanes.append((value.labels, weights))
            self._known[key] = len(lanes) - (lanes is self.least)
        return self._known[key]

    def members(self, alternative: Alternative) -> TrendLanes:
        """The places of an alternative whose events add to each lane."""
        names = [place.variable for place in alternative.places]

        def places(lanes: list[LaneWeights], first: int) -> tuple[frozenset[int], ...]:
            sets = [frozenset[str]()] * first + [labels for labels, _ in lanes]
            return tuple(frozenset(at for at, name in enumerate(names) if name in one) for one in sets)

        return TrendLanes(places(self.exact, 1), places(self.real, min(self.shape[1], 1)), places(self.least, 0))

    def weights(self, order: Order) -> dict[str, np.ndarray]:
        """The weights of rows, in this order, in each lane; zero in the first ones, which count matches."""
        nothing = np.zeros(len(self.prepared.bits))
        first = [(frozenset[str](), nothing)]
        kinds = {
            "exact": (first + self.exact, np.uint64),
            "real": ((first if self.shape[1] else []) + self.real, np.float64),
            "least": (self.least, np.int64),
        }
        return {name: flat([values[order] for _, values in lanes], kind) for name, (lanes, kind) in kinds.items()}


def flat(rows: list[np.ndarray], kind: type) -> np.ndarray:
    """Rows one after the other."""
    return np.concatenate([np.zeros(0, kind), *rows]).astype(kind, copy=False)


# ---- alternatives ----------------------------------------------------------------------------------------


def shape_of(plan: AggregatedPlan, alternative: Alternative, lanes: TrendLanes) -> TrendShape:
    """The part of an alternative that is compiled in."""
    bit = {name: 1 << number for number, name in enumerate(plan.variables)}
    names = [place.variable for place in alternative.places]
    links = (
        TrendLink(one.source, one.target, tuple(test.operation for test in one.tests)) for one in alternative.links
    )
    first_tests = (
        (test.operation, frozenset(at for at, name in enumerate(names) if name == test.variable))
        for test in alternative.first_tests
    )
    starts, ends = frozenset(alternative.starts), frozenset(alternative.ends)
    return TrendShape(tuple(bit[name] for name in names), tuple(links), starts, ends, lanes, tuple(first_tests))


def tests_of(prepared: Prepared, alternative: Alternative, order: Order) -> dict[str, np.ndarray]:
    """Return the values, as images, that the conditions of an alternative compare, and which of them are not null."""
    found = {}

    def put(name: str, expressions: list[Expression]) -> None:
        images = [image_of(prepared, one) for one in expressions]
        found[name] = flat([image[order] for image, _ in images], np.int64)
        found[f"{name}_valid"] = flat([valid[order] for _, valid in images], np.uint8)

    tests = [test for link in alternative.links for test in link.tests]
    put("current", [test.current for test in tests])
    put("before", [test.other for test in tests])
    put("first_current", [test.current for test in alternative.first_tests])
    put("first", [test.other for test in alternative.first_tests])
    return found


BLOCK_VALUES, LEAST_WIDTH, MOST_WIDTH = 1 << 14, 4, 64
"""Values of a block of starts that stay in the processor's cache, approximately; the least and the most starts of a
block."""
FEW = 64
"""Partitions of up to this number of rows within one window are compared event by event."""


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
    demand_lanes(lanes)
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


def demand_lanes(lanes: ValueLanes) -> None:
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
        self.order: Order = slice(None)
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
        return trend_starts.by_start(shape, {**events, "group": group[self.order]}, starts, total, keys)

    def _events(self, number: int, slot: np.ndarray) -> tuple[TrendShape, dict[str, np.ndarray]]:
        """The shape of an alternative, and its events."""
        alternative = self.plan.alternatives[number]
        events = {"bits": self.bits, "time": self.time, "slot": slot[self.order]}
        events |= {"begins": self.from_[:-1].copy(), "ends": self.from_[1:].copy()}
        shape = shape_of(self.plan, alternative, self.lanes.members(alternative))
        return shape, events | self.lanes.weights(self.order)

    def _width(self) -> int:
        """The number of starts at once: fewer if windows have many events."""
        counts = np.diff(self.from_)
        spans = np.maximum(1.0, self.time[self.from_[1:] - 1].astype(np.float64) - self.time[self.from_[:-1]])
        in_window = float((counts * np.minimum(1.0, self.window / spans)).max())
        return int(min(MOST_WIDTH, max(LEAST_WIDTH, BLOCK_VALUES / max(1.0, in_window))))


def _group_codes(plan: AggregatedPlan, prepared: Prepared, rows: np.ndarray, of: GroupedBy) -> list[np.ndarray]:
    """Values of GROUP BY as codes; null has its own code."""
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
