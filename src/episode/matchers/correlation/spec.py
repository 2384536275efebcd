"""A planned pattern correlation, shipped to the workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.matchers.correlation.archive import History, MappedHistory
from episode.matchers.correlation.matcher import CorrelationMatcher
from episode.matchers.correlation.side import SideEvents
from episode.matchers.correlation.strategies import unavailable
from episode.matchers.engines import matcher_spec
from episode.matchers.protocol import InputOrder, MatcherSpec, OrderKey, StateLimit, Traits
from episode.matchers.slices.slicing import Overlap, Sliceable, SliceBounds, Slicing, Unsliced
from episode.matchers.state import column_types, fingerprint
from episode.plan.correlation.pairs import SIDE_COLUMN, PairPlan, PairSide, PairTest
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX, CorrelationPlan
from episode.plan.output import MATCH_END, MATCH_START


@dataclass(frozen=True)
class SidePlan:
    """One of the two patterns.

    spec: of its matcher, in any language. columns: (its input column, the correlation's input column) for each of
    its input columns. start, end: the columns of its output that hold the times of a match; a match without them (an
    empty one) is passed over.
    """

    spec: MatcherSpec
    columns: tuple[tuple[str, str], ...]
    start: str
    end: str


@dataclass(frozen=True)
class CorrelationSpec:
    """Two patterns correlated by recency (PCQ, Definition 9): opens matchers on the workers.

    recency: in units of event time. keys: input columns that both sides of a pair have equal; none: any two matches may
    be a pair. order: of the input, event time first, ascending. side: the input column that tells whose event a row is
    (int8: LIVE_ROW, ARCHIVE_ROW, ROW_OF_BOTH); None: every row is of both. history: events of the archive pattern from
    before those that are fed. closed: the history has all of them, none is fed (a table under a stream): a match that
    is open where it ends is decided as at the end of input. wanted: the columns of the output to build; None: all.
    """

    live: SidePlan
    archive: SidePlan
    recency: int
    keys: tuple[str, ...]
    order: tuple[OrderKey, ...]
    input_schema: pa.Schema
    plan: CorrelationPlan
    side: str | None = None
    history: History | None = None
    closed: bool = False
    tests: tuple[PairTest, ...] = ()
    wanted: frozenset[str] | None = None

    def __post_init__(self) -> None:
        plan = self.plan
        if plan.recent_buffer is not None and (self.history is None or self.closed):
            raise EpisodeAnalysisError(
                f"A recent buffer of {plan.recent_buffer:,} rows needs the archive of a stream, where older rows are.",
                hint="Leave recent_buffer out: the rows that recency needs are kept.",
            )
        reason = None if plan.strategy is None else unavailable(self).get(plan.strategy)
        if plan.strategy is not None and reason is not None:
            raise EpisodeUnsupportedError(
                f"The correlation cannot be evaluated {plan.strategy.value}: {reason}.",
                hint="Leave the strategy to episode: correlation='auto'.",
            )

    @property
    def time(self) -> str:
        return self.order[0].column

    @cached_property
    def input_columns(self) -> tuple[str, ...]:
        mapped = [outer for one in (self.live, self.archive) for _, outer in one.columns]
        own = [*self.keys, *(key.column for key in self.order), *([self.side] if self.side is not None else [])]
        return tuple(dict.fromkeys([*own, *mapped]))

    @property
    def input_order(self) -> InputOrder:
        return InputOrder(self.keys, self.order, needs_time=True)

    @cached_property
    def output_schema(self) -> pa.Schema:
        time = self.input_schema.field(self.time).type
        fields = [
            field.with_name(prefix + field.name)
            for prefix, one in ((LIVE_PREFIX, self.live), (ARCHIVE_PREFIX, self.archive))
            for field in one.spec.output_schema
        ]
        fields += [pa.field(MATCH_START, time), pa.field(MATCH_END, time)]
        return pa.schema([field for field in fields if self.wanted is None or field.name in self.wanted])

    @property
    def fingerprint(self) -> str:
        """Excludes the strategy: every strategy can resume from the state of every other."""
        of_sides = [f"{one.spec.fingerprint} {one.columns} {one.start} {one.end}" for one in (self.live, self.archive)]
        own = [f"recency {self.recency}", f"keys {self.keys}", f"ordered {self.plan.ordered}"]
        own += [] if self.plan.result_cache else ["no cache"]
        return fingerprint("\n".join(of_sides), *own, *column_types(self.input_schema, self.input_columns))

    @property
    def traits(self) -> Traits:
        states = sum(one.spec.traits.states for one in (self.live, self.archive))
        return Traits(dependent="a pair depends on all matches of both patterns", states=states)

    @property
    def slicing(self) -> Slicing | Unsliced:
        """A slice of time owns the pairs whose live matches end in it; their archive matches start at most the recency
        before, and before the slice is over.

        Both patterns are matched over the slice with its overlap, as over a separate table. Near the ends of that
        stretch of time they may find what is not a match of the whole input; the overlap is so long that no such match
        is part of a pair that the slice owns.
        """
        if self.history is not None:
            return Unsliced("events from before the stream are read from its archive")
        if self.plan.ordered:
            return Unsliced("pairs of a key come in order")
        found = []
        for name, side in (("live", self.live), ("archive", self.archive)):
            one = _surroundings(self, side)
            if isinstance(one, str):
                return Unsliced(f"of the {name} pattern: {one}")
            found.append(one)
        (live_time, live), (archive_time, archive) = found
        return Slicing(
            Overlap(
                before_time=max(2 * live_time, self.recency + archive_time),
                before_rows=max(live.before_rows, archive.before_rows),
                after_time=max(live_time, archive_time),
                after_rows=max(live.after_rows, archive.after_rows),
            )
        )

    def open(self) -> CorrelationMatcher:
        return CorrelationMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> CorrelationMatcher:
        return CorrelationMatcher(self, bounds)


def correlation_spec(pair: PairPlan, schema: pa.Schema, limit: StateLimit | None = None) -> CorrelationSpec:
    """The spec of two planned patterns for columns of their joint input."""

    def side(one: PairSide, columns: tuple[tuple[str, str], ...]) -> SidePlan:
        own = pa.schema([schema.field(outer).with_name(name) for name, outer in columns])
        return SidePlan(matcher_spec(one.plan, own, limit), columns, one.start[1], one.end[1])

    inputs = pair.inputs
    return CorrelationSpec(
        live=side(pair.live_side, inputs.live.columns),
        archive=side(pair.archive_side, inputs.archive.columns),
        recency=pair.recency,
        keys=inputs.keys,
        order=tuple(OrderKey(one.column, one.ascending, one.nulls_first) for one in inputs.order),
        input_schema=schema,
        plan=pair.plan,
        side=None if inputs.shared else SIDE_COLUMN,
        history=cast("History | None", pair.history),
        closed=pair.closed,
        tests=tuple(one for one in pair.conditions if isinstance(one, PairTest)),
    )


def with_history(pair: PairPlan, opened: Callable[[str, tuple[str, ...]], History], closed: bool) -> PairPlan:
    """Add events of the archive pattern that are read as they are needed. opened: by its own columns of time and keys.
    closed: are these all of them?"""
    own = pair.archive_columns
    history = opened(own[pair.inputs.time], tuple(own[key] for key in pair.inputs.keys))
    return replace(pair, history=MappedHistory(history, tuple(own.items())), closed=closed)


def _surroundings(spec: CorrelationSpec, side: SidePlan) -> tuple[int, Overlap] | str:
    """The longest time that a match of one pattern takes: it depends on events within that time before its start and
    after it, and on the rows of the overlap around these. Or why that is not known."""
    order = side.spec.input_order
    if not isinstance(side.spec, Sliceable):
        return "its language does not declare on which events a match depends"
    slicing = side.spec.slicing
    if isinstance(slicing, Unsliced):
        return slicing.reason
    if slicing.chained:
        return side.spec.traits.dependent or "a match depends on the matches before it"
    if order.imprecise:
        return "its times are imprecise"
    if dict(side.columns)[order.order[0].column] != spec.time:
        return "it has its own time"
    overlap = slicing.overlap
    time = max(overlap.before_time + overlap.after_time, side.spec.traits.within or 0)
    if time == 0:
        return "without WITHIN nothing limits how long a match lasts"
    mixed = spec.side is not None or not SideEvents(spec, side, 0).shared
    if mixed and overlap.before_rows + overlap.after_rows > 0:
        return "a match depends on a number of rows of its partition, which has other rows among them"
    return time, overlap
