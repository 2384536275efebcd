"""Row patterns in windows: OVER (… PATTERN …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.syntax import PatternWindow
from episode.lang.syntax import Source
from episode.plan.pattern import PatternPlan, RunOptions
from episode.plan.rows.explain import row_section
from episode.plan.rows.windows import WindowPlan, plan_window
from episode.plan.sections import Section
from episode.queries.language import Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.see.inspecting import Inspected
    from episode.see.reasons.finding import Expectation, Finding


class RowPatternsInWindows(Language[PatternWindow]):
    syntax = PatternWindow
    plans = (WindowPlan,)
    name = "pattern window"
    called = "a row pattern in a window"
    options = frozenset({"step_budget"})
    times = ("", "")  # a window is not a table, so it is not correlated

    def source(self, query: PatternWindow) -> Source:
        return query.source

    def bind(self, query: PatternWindow, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        return replace(plan_window(query, events.schema, events.names), step_budget=run.step_budget)

    def spec(self, plan: WindowPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.rows.windows import WindowSpec

        return WindowSpec(plan.for_workers(), schema, plan.step_budget, limit)

    def section(
        self, plan: WindowPlan, reports: Sequence[str] | None = None, query: PatternWindow | None = None
    ) -> Section:
        return row_section(plan, None if query is None else query.clause.pattern, reports)

    def no_extent(self, plan: WindowPlan) -> str | None:
        return "A row pattern in a window gives each row a value, and puts out no match of its own."

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        message = f"why_not cannot answer for {self.one}."
        hint = "Ask it of MATCH_RECOGNIZE with the same PATTERN, DEFINE and AFTER MATCH SKIP TO NEXT ROW."
        raise inspected.placed.source.error(EpisodeUnsupportedError, message, hint=hint)
