"""Aggregates over all matches of an event pattern: the spec, the Matcher, and tables from totals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.assembly import arrow_type, gather, to_arrow, with_keys
from episode.matchers.columns import from_times
from episode.matchers.encoding import is_float_lane
from episode.matchers.events.aggregated_search import (
    FEW,
    FoundTrends,
    ValueLanes,
    aggregated_needs,
    floats_of,
    prepare_aggregated,
    search,
)
from episode.matchers.events.code.trend_values import NOTHING, TrendValues
from episode.matchers.events.matcher import aggregated_slicing, decisions_of
from episode.matchers.events.state import HeldEvents
from episode.matchers.protocol import END_OF_TIME, EventBatch, InputOrder, OrderKey, StateLimit, Traits
from episode.matchers.screening import ClassDemand, Screen, demand_of, screen_of
from episode.matchers.slices.slicing import ALL_TIMES, SliceBounds, Slicing, Unsliced
from episode.matchers.state import HoldingMatcher, column_types, fingerprint
from episode.matchers.times import EVER, NEVER
from episode.plan.events.aggregated import BUCKET_END, BUCKET_START, AggregatedPlan, GroupedBy, OverMatches
from episode.plan.events.plan import AggregatedReport
from episode.plan.expressions import Load
from episode.plan.types import decimal_of, is_integer

# Tables from totals: keys, groups, buckets, and the values of the aggregates.


_UPPER, _LOWER = (np.uint64(word) for word in divmod(10**38 - 1, 2**64))


def aggregated_schema(plan: AggregatedPlan, schema: pa.Schema) -> pa.Schema:
    """The columns of the result."""
    fields = [schema.field(column).with_name(name).with_nullable(True) for column, name in plan.named_keys]
    for group in plan.groups:
        if group.of is not GroupedBy.KEY:
            fields.append(schema.field(group.column).with_name(group.name).with_nullable(True))
    if plan.every is not None:
        kind = pa.int64() if is_integer(plan.times.type) else schema.field(plan.times.end).type
        fields += [pa.field(BUCKET_START, kind), pa.field(BUCKET_END, kind)]
    for value, name in plan.values.items():
        kind = arrow_type(value.type)
        if value.function in ("min", "max") and isinstance(value.argument, Load):
            kind = schema.field(value.argument.column).type
        fields.append(pa.field(name, kind))
    return pa.schema(fields)


class AggregatedOutput:
    """Makes the table of totals."""

    def __init__(self, plan: AggregatedPlan, schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        self.keyed = False

    def table(self, events: EventBatch, found: FoundTrends) -> pa.Table:
        plan = self.plan
        columns = [gather(events.table.column(column), found.last) for column, _ in plan.named_keys]
        for group in plan.groups:
            if group.of is not GroupedBy.KEY:
                rows = found.first if group.of is GroupedBy.FIRST else found.last
                columns.append(gather(events.table.column(group.column), rows))
        if plan.every is not None:
            start, end = bucket_of(events.time[found.last], plan.every)
            kind = self.schema.field(BUCKET_START).type
            columns += [from_times(start, kind), from_times(end, kind)]
        columns += [self._value(value, events, found) for value in plan.values]
        totals = pa.Table.from_arrays(
            [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, self.schema, strict=True)
            ],
            schema=self.schema,
        )
        return with_keys(totals, events.key[found.last]) if self.keyed else totals

    def _value(self, value: OverMatches, events: EventBatch, found: FoundTrends) -> pa.Array:
        total, lanes = found.total, found.lanes
        if value.function in ("min", "max"):
            return self._extreme(value, events, total, lanes)
        if value.function == "count":
            if value.type == "double":
                return pa.array(total.real[:, 0 if value.labels is None else lanes.real_pairs(value)])
            lane = 0 if value.labels is None else lanes.pairs(value)
            low, high = self._whole(value, events, found, lane)
            return _decimals(low, high, np.ones(len(low), np.bool_), arrow_type(value.type))
        pairs = lanes.pairs(value)
        some = (total.low[:, pairs] != 0) | (total.high[:, pairs] != 0)
        assert value.argument is not None
        if value.argument.type == "double":
            reals = total.real[:, lanes.real_sum(value)]
            if value.function == "avg":
                reals = reals / np.where(some, total.real[:, lanes.real_pairs(value)], 1.0)
            return pa.array(reals, mask=~some)
        low, high = self._sum(value, events, found)
        if value.function == "sum":
            return _decimals(low, high, some, arrow_type(value.type))
        count = _as_doubles(*self._whole(value, events, found, pairs))
        decimal = decimal_of(value.argument.type)
        scale = float(10 ** decimal[1]) if decimal else 1.0
        return pa.array(_as_doubles(low, high) / np.where(some, count, 1.0) / scale, mask=~some)

    def _sum(self, value: OverMatches, events: EventBatch, found: FoundTrends) -> tuple[np.ndarray, np.ndarray]:
        positive, negative = found.lanes.sums(value)
        low, high = self._whole(value, events, found, positive)
        if negative is None:
            return low, high
        by_low, by_high = self._whole(value, events, found, negative)
        return low - by_low, high - by_high - (low < by_low)

    def _whole(
        self, value: OverMatches, events: EventBatch, found: FoundTrends, lane: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """An exact lane; raises an error if a number in it has more than 38 digits."""
        low, high = found.total.low[:, lane], found.total.high[:, lane]
        beyond = (high > _UPPER) | ((high == _UPPER) & (low > _LOWER))
        if beyond.any():
            raise _too_many(self.plan, value, events, int(found.last[np.argmax(beyond)]))
        return low, high

    def _extreme(self, value: OverMatches, events: EventBatch, total: TrendValues, lanes: ValueLanes) -> pa.Array:
        lane, images = lanes.extreme(value)
        least = total.least[:, lane]
        missing = least == NOTHING
        argument = value.argument
        assert argument is not None
        if isinstance(argument, Load):
            order = np.argsort(images, kind="stable")
            at = np.minimum(np.searchsorted(images[order], least), max(0, len(order) - 1))
            return gather(events.table.column(argument.column), np.where(missing, -1, order[at]))
        values = ~least if value.function == "max" else least
        values = np.where(missing, 0, values)
        if is_float_lane(argument.type):
            return pa.array(floats_of(values), mask=missing)
        return to_arrow(values, missing, argument.type)


def _too_many(plan: AggregatedPlan, value: OverMatches, events: EventBatch, row: int) -> EpisodeDataError:
    what = "The number of matches" if value.labels is None else f"{value.function} over all matches"
    where = events.values_at(row, dict.fromkeys([*plan.keys, plan.times.end]))
    return plan.source.error(
        EpisodeDataError,
        f"{what} has more than 38 digits (among those that end with {where}).",
        plan.clause,
        "Shorten WITHIN, narrow the conditions, or take doubles: Tuning(counts='double').",
    )


def bucket_of(times: np.ndarray, every: int) -> tuple[np.ndarray, np.ndarray]:
    """The half-open intervals [start, end) of times; at the ends of time they are shorter."""
    into = times % every
    rest = every - into
    return np.where(times >= NEVER + into, times - into, NEVER), np.where(times <= EVER - rest, times + rest, EVER)


def _decimals(low: np.ndarray, high: np.ndarray, some: np.ndarray, kind: pa.DataType) -> pa.Array:
    words = np.empty((len(low), 2), np.uint64)
    words[:, 0], words[:, 1] = np.where(some, low, 0), np.where(some, high, 0)
    present = pa.array(some).buffers()[1]
    return pa.Array.from_buffers(kind, len(low), [present, pa.py_buffer(words)])


def _as_doubles(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Numbers of two words, with a sign, as doubles."""
    negative = high.view(np.int64) < 0
    lower = np.where(negative, ~low + np.uint64(1), low)
    upper = np.where(negative, ~high + (lower == 0), high)
    values = upper.astype(np.float64) * 2.0**64 + lower.astype(np.float64)
    return np.where(negative, -values, values)


# The Matcher of aggregates over all matches: on one shard, in batch and in a stream. State: the events that a match to
# come may still have, those of the last window and of the bucket that is not over. A bucket is decided when all its
# events are in; its totals are then computed at once from the events that are held. Without EVERY all is decided at the
# end of the input.


class AggregatedMatcher(HoldingMatcher["AggregatedSpec", HeldEvents, AggregatedOutput]):
    """Aggregates over all matches of one event pattern, at work on one shard, or on one slice of it."""

    def __init__(self, spec: AggregatedSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        self.plan: AggregatedPlan = spec.plan
        self.needs = aggregated_needs(self.plan)
        self.output = AggregatedOutput(self.plan, spec.output_schema)
        self.state = HeldEvents(self.plan, spec.input_columns, spec.limit)
        done, self.last = decisions_of(bounds)
        self.state.done = self._last_decided(done)
        self._report = AggregatedReport()

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        until = min(until, self.last)
        together = self.state.held.join(events, until == END_OF_TIME)
        decided = self._last_decided(until)
        if len(together):
            prepared = prepare_aggregated(self.plan, self.needs, together.table, together.key, together.known)
            if decided > self.state.done:
                found = search(self.plan, together, prepared, self.state.done, decided, self.spec.few)
                self._report.passes += 1
                self._report.events += len(together)
                self._report.rows += len(found.last)
                if len(found.last):
                    yield self.output.table(together, found)
            self._hold(together, prepared.bits, decided, until)
        if until != END_OF_TIME:
            self.state.done = max(self.state.done, decided)

    def _last_decided(self, until: int) -> int:
        """The last time of buckets that are over; NEVER if no bucket is."""
        if until == END_OF_TIME:
            return END_OF_TIME
        if self.plan.every is None or until == NEVER:
            return NEVER
        return max(NEVER, (until + 1) // self.plan.every * self.plan.every - 1)

    def _hold(self, events: EventBatch, bits: np.ndarray, decided: int, until: int) -> None:
        """Keep the events that a later match can have."""
        if until == self.last:
            self.state.held.forget()
            return
        keep = bits != 0
        decided = max(decided, self.state.done)
        if self.plan.within is not None and decided > NEVER and decided >= NEVER + self.plan.within:
            keep &= events.time > decided - self.plan.within
        self.state.keep(events, np.flatnonzero(keep))

    def report(self) -> AggregatedReport:
        return self._report

    @property
    def wakes_at(self) -> int | None:
        """When the first bucket with an event is over."""
        held = self.state.held.rows
        if held is None or self.plan.every is None:
            return None
        times = held.time[held.time > self.state.done]
        return int(bucket_of(times.min(keepdims=True), self.plan.every)[1][0]) - 1 if len(times) else None


@dataclass(frozen=True)
class AggregatedSpec:
    """Planned aggregates over all matches, over rows of a known Arrow schema. few: partitions of up to this number of
    rows are compared event by event."""

    plan: AggregatedPlan
    input_schema: pa.Schema
    limit: StateLimit | None = None
    few: int = FEW

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        return InputOrder(self.plan.keys, (OrderKey(self.plan.times.end),), needs_time=True)

    @property
    def screen(self) -> Screen | None:
        """Events are skipped at will: those that qualify for no variable do not count."""
        conditions = self.plan.conditions
        return screen_of((conditions[name].row_local for name in self.plan.variables), self.input_order)

    @property
    def demand(self) -> ClassDemand:
        """See `Demands.demand`."""
        names = self.plan.labels.names
        return demand_of(names, (self.plan.conditions[name].row_local for name in names), (), sparse=True)

    @property
    def output_schema(self) -> pa.Schema:
        return aggregated_schema(self.plan, self.input_schema)

    @property
    def fingerprint(self) -> str:
        plan = self.plan
        text = plan.source.text_at(plan.source.span)
        columns = column_types(self.input_schema, self.input_columns)
        local = [f"{name}: {condition.row_local}" for name, condition in plan.conditions.items()]
        return fingerprint(text, str(plan.doubles), *plan.keys, plan.times.end, *columns, *local)

    @property
    def traits(self) -> Traits:
        return Traits(dependent="aggregates are of all matches together", states=len(self.plan.labels.names))

    @property
    def slicing(self) -> Slicing | Unsliced:
        return aggregated_slicing(self.plan)

    def open(self) -> AggregatedMatcher:
        return AggregatedMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> AggregatedMatcher:
        return AggregatedMatcher(self, bounds)
