"""Row patterns in windows: OVER (… PATTERN …)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.syntax import PatternWindow
from episode.lang.syntax import Source
from episode.plan.event_time import EventTime
from episode.plan.output import Result
from episode.plan.pattern import RunOptions
from episode.plan.rows.explain import explain_window
from episode.plan.rows.windows import WindowPlan, plan_window
from episode.queries.language import Given, Input, Language
from episode.queries.languages.rows import BoundRowPattern

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.bound import BoundPattern
    from episode.matchers.protocol import StateLimit
    from episode.matchers.rows.windows import WindowSpec


class RowPatternsInWindows(Language[PatternWindow]):
    name = "pattern window"
    called = "a row pattern in a window"
    options = frozenset({"step_budget"})
    times = ("", "")  # a window is no table, so that it is not correlated

    def source(self, query: PatternWindow) -> Source:
        return query.source

    def bind(self, query: PatternWindow, events: Input, given: Given, run: RunOptions) -> BoundPattern:
        return BoundWindow(plan_window(query, events.schema, events.names), events.schema, run.step_budget)


@dataclass(frozen=True)
class BoundWindow(BoundRowPattern):
    """One window with a row pattern over the rows of a query."""

    plan: WindowPlan

    @property
    def result(self) -> Result:
        """The columns of the rows, and a column for each call over the window."""
        measures = self.plan.measures
        return Result(self.plan.source, measures, tuple(measures.measures), before=self.plan.output.columns)

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> WindowSpec:
        from episode.matchers.rows.windows import WindowSpec

        return WindowSpec(self.plan.for_workers(), schema, self.step_budget, limit)

    def event_time(self, limited: bool) -> EventTime:
        raise self.plan.source.error(
            EpisodeUnsupportedError,
            "Row patterns in windows are evaluated over tables (batch), not over streams: the match of a row may lie "
            "in rows that are still to come.",
            self.plan.source.pattern,
            "Over a stream, use MATCH_RECOGNIZE with ALL ROWS PER MATCH.",
        )

    def explain(self) -> list[str]:
        return explain_window(self.plan)
