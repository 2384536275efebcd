"""Row patterns: MATCH_RECOGNIZE, and OVER (… PATTERN …)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.syntax import MatchMode, MatchRecognize, PatternWindow, RowsPerMatch
from episode.lang.syntax import Scalar
from episode.plan.options import RunOptions
from episode.plan.output import COUNT, FIRST, HIDDEN_END, HIDDEN_START, LAST, ColumnAtPlace, Extent, with_atoms
from episode.plan.pattern import PatternPlan
from episode.plan.rows.explain import row_section
from episode.plan.rows.plan import RowPatternPlan, plan_row_pattern
from episode.plan.rows.stream import in_order_of_time, with_hidden_times, with_match_times
from episode.plan.rows.windows import WindowPlan, plan_window
from episode.plan.schema import quote
from episode.plan.sections import Section
from episode.queries.language import ARCHIVE, LIVE, Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.protocol import MatcherSpec, StateLimit
    from episode.see.inspecting import Inspected
    from episode.see.pictures.choosing import Wish
    from episode.see.pictures.look import Look
    from episode.see.reasons.finding import Expectation, Finding

MODES = {LIVE: MatchMode.INCREMENTAL, ARCHIVE: MatchMode.MAXIMAL}
UNIQUE = {
    LIVE: "reports the longest match that ends at each row, so that ends are unique",
    ARCHIVE: "reports the longest match that begins at each row, so that starts are unique",
}
"""The match mode of either of two correlated row patterns, and what it is for."""


class RowPatterns(Language[MatchRecognize]):
    syntax = MatchRecognize
    plans = (RowPatternPlan,)
    name = "row pattern"
    called = "MATCH_RECOGNIZE"
    method = "match_recognize"
    options = frozenset({"step_budget", "match_times"})
    times = (HIDDEN_START, HIDDEN_END)

    def bind(self, query: MatchRecognize, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        query = in_order_of_time(query, events.schema.time)
        if run.match_times:
            query = with_match_times(query, events.schema.columns)
        if run.correlated:
            query = with_hidden_times(query)
        return replace(plan_row_pattern(query, events.schema, events.names), step_budget=run.tuning.step_budget)

    def spec(self, plan: RowPatternPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.rows.spec import RowPatternSpec

        return RowPatternSpec(plan.for_workers(), schema, plan.step_budget, limit)

    def section(
        self, plan: RowPatternPlan, reports: Sequence[str] | None = None, query: MatchRecognize | None = None
    ) -> Section:
        return row_section(plan, None if query is None else query.pattern, reports)

    def conditions(self, query: MatchRecognize) -> list[Scalar]:
        return [one.condition for one in query.definitions]

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        from episode.see.reasons.rows import reasons

        return reasons(inspected, asked)

    def look(self, sides: tuple[Inspected, ...], wish: Wish, zone: str) -> Look:
        from episode.see.pictures.rows import look_at_rows

        return look_at_rows(sides[0], wish, zone)

    def with_extent(self, plan: RowPatternPlan) -> tuple[PatternPlan, Extent]:
        """Rows are in order of time, or against it: so the times are those of the first and the last row."""
        named = {column: name for name, column in plan.output.handed.items()}
        keys = {named.get(column, column): quote(column) for column in plan.keys}
        if not plan.order:
            return plan, Extent(keys, count=COUNT)
        time = plan.order[0]
        first, last = (FIRST, LAST) if time.ascending else (LAST, FIRST)
        atoms = {"start": ColumnAtPlace(time.column, first), "end": ColumnAtPlace(time.column, last)}
        plan, places = with_atoms(plan, atoms)
        return plan, Extent(keys, places["start"], places["end"], plan.types[time.column], COUNT)

    def role(self, query: MatchRecognize) -> str | None:
        return next((role for role, mode in MODES.items() if query.match_mode is mode), None)

    def check_correlated(self, query: MatchRecognize, role: str) -> None:
        mode = MODES[role]
        if query.match_mode is not mode:
            written = query.match_mode is not MatchMode.PREFERRED
            raise query.source.error(
                EpisodeAnalysisError,
                f"The {role} pattern of a correlation must be {mode.value}"
                f"{', not ' + query.match_mode.value if written else ''}: it {UNIQUE[role]}.",
                query.mode_span if written else query.source.pattern,
                f"Write {mode.value} {'in its place' if written else 'before PATTERN'}.",
            )
        if query.rows_per_match is not RowsPerMatch.ONE_ROW:
            message = f"{query.rows_per_match.value}: a correlation joins matches, not their rows."
            hint = "Write ONE ROW PER MATCH; array_agg in MEASURES collects values of the rows."
            raise query.source.error(EpisodeAnalysisError, message, query.rows_span, hint)


class RowPatternsInWindows(Language[PatternWindow]):
    syntax = PatternWindow
    plans = (WindowPlan,)
    name = "pattern window"
    called = "a row pattern in a window"
    options = frozenset({"step_budget"})
    times = ("", "")  # a window is not a table, so it is not correlated

    def bind(self, query: PatternWindow, events: Input, given: Given, run: RunOptions) -> PatternPlan:
        return replace(plan_window(query, events.schema, events.names), step_budget=run.tuning.step_budget)

    def spec(self, plan: WindowPlan, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        from episode.matchers.rows.windows import WindowSpec

        return WindowSpec(plan.for_workers(), schema, plan.step_budget, limit)

    def section(
        self, plan: WindowPlan, reports: Sequence[str] | None = None, query: PatternWindow | None = None
    ) -> Section:
        return row_section(plan, None if query is None else query.clause.pattern, reports)

    def no_extent(self, plan: WindowPlan) -> str | None:
        return "A row pattern in a window gives each row a value, and returns no matches."

    def reasons(self, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
        message = f"why_not cannot answer for {self.one}."
        hint = "Ask it of MATCH_RECOGNIZE with the same PATTERN, DEFINE and AFTER MATCH SKIP TO NEXT ROW."
        raise inspected.placed.source.error(EpisodeUnsupportedError, message, hint=hint)
