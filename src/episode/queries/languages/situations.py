"""Situation patterns: DEFINE … PATTERN … WITHIN … RETURN …"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Scalar, Span
from episode.plan.event_time import time_column
from episode.plan.options import RunOptions
from episode.plan.output import Extent, RowPlace, key_at, measure_named, with_atoms
from episode.plan.pattern import PatternPlan
from episode.plan.sections import Section
from episode.plan.situations.explain import situation_section
from episode.plan.situations.plan import DETECTED_AT, MATCH_START, SituationPlan, plan_situation_pattern
from episode.queries.language import Given, Input, Language, given_for_input, keys_of_input

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.see.inspecting import Inspected
    from episode.see.pictures.choosing import Wish
    from episode.see.pictures.look import Look
    from episode.see.reasons.finding import Expectation, Finding

SAY_WHICH = "Give time='ts' (in SQL: ORDER BY ts before DEFINE)."


class SituationPatterns(Language[SituationQuery]):
    syntax = SituationQuery
    plans = (SituationPlan,)
    name = "situation pattern"
    times = (MATCH_START, DETECTED_AT)
    called = "the situation pattern"
    method = "match_situations"
    options = frozenset({"detect"})
    arguments = frozenset({"time", "key", "detect"})

    def table(self, query: SituationQuery) -> tuple[str, Span] | None:
        given = query.input
        return None if given.table is None else (given.table, given.table_span)

    def bind(self, query: SituationQuery, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        schema = events.schema
        time = time_column(query.source, schema, given.time or query.input.time, SAY_WHICH)
        keys = keys_of_input(schema, query.input, given)
        return plan_situation_pattern(query, schema, time, keys, run.eager)

    def spec(self, plan: SituationPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.situations.spec import SituationPatternSpec

        return SituationPatternSpec(plan.for_workers(), schema, limit)

    def section(
        self, plan: SituationPlan, reports: Sequence[str] | None = None, query: SituationQuery | None = None
    ) -> Section:
        return situation_section(plan, reports)

    def rule_arguments(self, query: SituationQuery, given: Given) -> Given:
        return given_for_input(query.input, given)

    def conditions(self, query: SituationQuery) -> list[Scalar]:
        return [one.condition for one in query.definitions]

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        from episode.see.reasons.situations import reasons

        return reasons(inspected, asked)

    def look(self, sides: tuple[Inspected, ...], wish: Wish, zone: str) -> Look:
        from episode.see.pictures.situations import look_at_situations

        return look_at_situations(sides[0], wish, zone)

    def with_extent(self, plan: SituationPlan) -> tuple[PatternPlan, Extent]:
        """From the first start to the moment when the match was certain."""
        some = RowPlace(frozenset((plan.symbols[0],)), True, 0, 0, True)
        plan, places = with_atoms(plan, key_at(plan, some))
        start, end = (measure_named(plan, name) for name in (MATCH_START, DETECTED_AT))
        return plan, Extent(places, start, end, plan.time_type)
