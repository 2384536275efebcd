"""Row patterns: MATCH_RECOGNIZE."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.syntax import MatchMode, MatchRecognize, RowsPerMatch
from episode.lang.syntax import NOWHERE, Source
from episode.plan.event_time import Delays, EventTime
from episode.plan.output import (
    COUNT,
    FIRST,
    HIDDEN_END,
    HIDDEN_START,
    LAST,
    TIMED_OUT_COLUMN,
    ColumnAtPlace,
    Extent,
    PlannedMeasure,
    Result,
    with_atoms,
)
from episode.plan.pattern import RunOptions
from episode.plan.rows.explain import explain_row_pattern
from episode.plan.rows.plan import RowPatternPlan, plan_row_pattern
from episode.plan.rows.report import explain_row_reports
from episode.plan.rows.stream import (
    event_time_of,
    in_order_of_time,
    row_pattern_delays,
    warn_if_unbounded,
    with_hidden_times,
    with_match_times,
)
from episode.plan.schema import InputSchema, quote
from episode.queries.language import ARCHIVE, LIVE, Given, Input, Language

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.bound import BoundPattern
    from episode.matchers.protocol import StateLimit
    from episode.matchers.rows.spec import RowPatternSpec

MODES = {LIVE: MatchMode.INCREMENTAL, ARCHIVE: MatchMode.MAXIMAL}
UNIQUE = {
    LIVE: "reports the longest match that ends at each row, so that ends are unique",
    ARCHIVE: "reports the longest match that begins at each row, so that starts are unique",
}
"""The match mode of either of two correlated row patterns, and what it is for."""


class RowPatterns(Language[MatchRecognize]):
    name = "row pattern"
    called = "MATCH_RECOGNIZE"
    options = frozenset({"step_budget", "match_times"})
    times = (HIDDEN_START, HIDDEN_END)

    def source(self, query: MatchRecognize) -> Source:
        return query.source

    def bind(self, query: MatchRecognize, events: Input, given: Given, run: RunOptions) -> BoundPattern:
        query = in_order_of_time(query, events.schema.time)
        if run.match_times:
            query = with_match_times(query, events.schema.columns)
        if run.correlated:
            query = with_hidden_times(query)
        plan = plan_row_pattern(query, events.schema, events.names)
        return BoundRowPattern(plan, replace(events.schema, names=events.names), run.step_budget)

    def with_extent(self, bound: BoundRowPattern) -> tuple[BoundPattern, Extent]:
        """Rows are in order of time, or against it: so the times are those of the first and the last row."""
        plan = bound.plan
        named = {column: name for name, column in plan.output.handed.items()}
        keys = {named.get(column, column): quote(column) for column in plan.keys}
        if not plan.order:
            return bound, Extent(keys, count=COUNT)
        time = plan.order[0]
        first, last = (FIRST, LAST) if time.ascending else (LAST, FIRST)
        atoms = {"start": ColumnAtPlace(time.column, first), "end": ColumnAtPlace(time.column, last)}
        plan, places = with_atoms(plan, atoms)
        extent = Extent(keys, places["start"], places["end"], plan.types[time.column], COUNT)
        return replace(bound, plan=plan), extent

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
            raise query.source.error(
                EpisodeAnalysisError,
                f"{query.rows_per_match.value}: a correlation joins matches, not their rows.",
                query.rows_span,
                "Write ONE ROW PER MATCH; array_agg in MEASURES collects values of the rows.",
            )


@dataclass(frozen=True)
class BoundRowPattern:
    """One MATCH_RECOGNIZE over one table."""

    plan: RowPatternPlan
    schema: InputSchema
    step_budget: int

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        return self.plan.derived

    @property
    def result(self) -> Result:
        """The clause's own columns, then or around them the measures."""
        plan = self.plan
        flag = (TIMED_OUT_COLUMN,) if plan.output.timed_out else ()
        renamed = [PlannedMeasure(name, quote(column), name, NOWHERE) for column, name in plan.output.leading]
        return Result(
            source=plan.source,
            measures=plan.measures,
            columns=(
                *renamed,
                *(one for one in plan.measures.measures if one.name not in (HIDDEN_START, HIDDEN_END)),
            ),
            before=() if renamed else plan.output.columns[: plan.output.before],
            after=(*plan.output.columns[plan.output.before :], *flag),
            what="The measure ",
        )

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> RowPatternSpec:
        from episode.matchers.rows.spec import RowPatternSpec

        return RowPatternSpec(self.plan.for_workers(), schema, self.step_budget, limit)

    def event_time(self, limited: bool) -> EventTime:
        time = event_time_of(self.plan, self.schema.columns)
        warn_if_unbounded(self.plan, limited)
        return time

    def delays(self) -> Delays:
        return row_pattern_delays(self.plan)

    def explain(self) -> list[str]:
        return explain_row_pattern(self.plan)

    def explain_reports(self, reports: list[str]) -> list[str]:
        return explain_row_reports(self.plan, reports)
