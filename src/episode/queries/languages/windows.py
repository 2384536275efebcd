"""Row patterns in windows: OVER (… PATTERN …)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.window_syntax import PatternWindow
from episode.lang.source import Source
from episode.lang.statement import parse_statement
from episode.plan.event_time import EventTime
from episode.plan.result import Result
from episode.plan.rows.explain import explain_window
from episode.plan.rows.windows import WindowPlan, plan_window
from episode.plan.run_options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input, Language
from episode.queries.languages.rows import SAMPLE_TYPES, BoundRowPattern

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.bound import BoundPattern
    from episode.matchers.limits import StateLimit
    from episode.matchers.protocol import MatcherSpec
    from episode.matchers.rows.windows import WindowSpec

SAMPLE = """
    SELECT first_value(v) OVER w AS a, array_agg(v) OVER w AS values, sum(v * 2) OVER w AS total, b OVER w, most OVER w
    FROM t WINDOW w AS (
        PARTITION BY k ORDER BY ts
        MEASURES LAST(B.v) AS b, max(A.v) AS most
        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        PATTERN (A B+) DEFINE B AS B.v < PREV(B.v) AND B.v < A.v AND avg(B.v) < 100)
"""
"""A query that needs every kernel."""


class RowPatternsInWindows(Language[PatternWindow]):
    name = "pattern window"
    called = "a row pattern in a window"
    options = frozenset({"step_budget"})
    times = ("", "")  # a window is no table, so that it is not correlated

    def source(self, query: PatternWindow) -> Source:
        return query.source

    def bind(self, query: PatternWindow, events: Input, given: Given, run: RunOptions) -> BoundPattern:
        return BoundWindow(plan_window(query, events.schema, events.names), events.schema, run.step_budget)

    def samples(self) -> Iterator[tuple[MatcherSpec, pa.Table]]:
        import pyarrow as pa

        (select,) = parse_statement(SAMPLE).windowed
        (window,) = select.windows
        table = pa.table({"k": [1, 2, 1, 2], "ts": [1, 1, 2, 2], "v": [3.0, 2.0, 2.0, 1.0]})
        events = Input(InputSchema(SAMPLE_TYPES))
        yield self.bind(window, events, Given(), RunOptions()).spec(table.schema), table


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
