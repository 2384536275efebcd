"""Situation patterns: DEFINE … PATTERN … WITHIN … RETURN …"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Source, Span
from episode.plan.event_time import Delays, EventTime, time_column
from episode.plan.output import Extent, Place, Result, key_at, measure_named, with_atoms
from episode.plan.pattern import RunOptions
from episode.plan.schema import key_columns
from episode.plan.situations.explain import explain_searches, explain_situation_pattern
from episode.plan.situations.plan import (
    SituationPlan,
    SituationReport,
    event_time_of,
    plan_situation_pattern,
    situation_pattern_delays,
)
from episode.plan.situations.returns import DETECTED_AT, MATCH_START
from episode.queries.language import Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.bound import BoundPattern
    from episode.matchers.protocol import StateLimit
    from episode.matchers.situations.spec import SituationPatternSpec

SAY_WHICH = "Say time='ts' (in SQL: ORDER BY ts before DEFINE)."


class SituationPatterns(Language[SituationQuery]):
    name = "situation pattern"
    times = (MATCH_START, DETECTED_AT)
    called = "the situation pattern"
    options = frozenset({"detect"})
    arguments = frozenset({"time", "key", "detect"})

    def source(self, query: SituationQuery) -> Source:
        return query.source

    def table(self, query: SituationQuery) -> tuple[str, Span] | None:
        given = query.input
        return None if given.table is None else (given.table, given.table_span)

    def bind(self, query: SituationQuery, events: Input, given: Given, run: RunOptions) -> BoundPattern:
        schema = events.schema
        time = time_column(query.source, schema, given.time or query.input.time, SAY_WHICH)
        keys = key_columns(schema, given.key or query.input.partition_by)
        return BoundSituationPattern(plan_situation_pattern(query, schema, time, keys, run.eager))

    def with_extent(self, bound: BoundSituationPattern) -> tuple[BoundPattern, Extent]:
        """From the first start to the moment when the match was certain."""
        some = Place(frozenset((bound.plan.symbols[0],)), True, 0, 0, True)
        plan, places = with_atoms(bound.plan, key_at(bound.plan, some))
        start, end = (measure_named(plan, name) for name in (MATCH_START, DETECTED_AT))
        return replace(bound, plan=plan), Extent(places, start, end, plan.time_type)


@dataclass(frozen=True)
class BoundSituationPattern:
    """One situation pattern over one stream of events."""

    plan: SituationPlan

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        return self.plan.derived

    @property
    def result(self) -> Result:
        """RETURN's columns, then the times of the match."""
        measures = self.plan.measures
        return Result(self.plan.source, measures, tuple(measures.measures))

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> SituationPatternSpec:
        from episode.matchers.situations.spec import SituationPatternSpec

        return SituationPatternSpec(self.plan.for_workers(), schema, limit)

    def event_time(self, limited: bool) -> EventTime:
        return event_time_of(self.plan, limited)

    def delays(self) -> Delays:
        return situation_pattern_delays(self.plan)

    def explain(self) -> list[str]:
        return explain_situation_pattern(self.plan)

    def explain_reports(self, reports: list[str]) -> list[str]:
        return explain_searches(self.plan, [SituationReport.from_json(one) for one in reports])
