"""A planned MATCH_RECOGNIZE, shipped to the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from episode.matchers.assembly import output_schema
from episode.matchers.prepare import Needs, needs_of
from episode.matchers.protocol import InputOrder, OrderKey, StateLimit, Traits
from episode.matchers.rows.matcher import RowPatternMatcher
from episode.matchers.rows.program import LARGE_PROGRAM, later_labels, required_labels, sieves_of, with_sieves
from episode.matchers.rows.slices.chains import slicing_of
from episode.matchers.rows.slices.passes import Summary, first_pass, second_pass
from episode.matchers.rows.slices.search import OwnedOutput
from episode.matchers.screening import ClassDemand, demand_of
from episode.matchers.slices.slicing import Entry, SliceBounds, SlicePart, Slicing, Unsliced
from episode.matchers.stage_clock import StageClock
from episode.matchers.state import column_types, fingerprint
from episode.plan.options import STEP_BUDGET
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo, uses_match_number
from episode.plan.rows.program import END, START


@dataclass(frozen=True)
class RowPatternSpec:
    """A planned MATCH_RECOGNIZE over rows of a known Arrow schema: opens matchers on the workers."""

    plan: RowPatternPlan
    input_schema: pa.Schema
    step_budget: int = STEP_BUDGET
    limit: StateLimit | None = None

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def input_order(self) -> InputOrder:
        order = tuple(OrderKey(column.column, column.ascending, column.nulls_first) for column in self.plan.order)
        return InputOrder(self.plan.keys, order, needs_time=self.plan.within is not None)

    @property
    def output_schema(self) -> pa.Schema:
        return output_schema(self.plan, self.input_schema)

    @property
    def fingerprint(self) -> str:
        text = self.plan.source.text_at(self.plan.source.span)
        return fingerprint(text, *column_types(self.input_schema, self.input_columns))

    @property
    def needs(self) -> Needs:
        """Columns, constants and computed values that its matchers need of a batch."""
        return with_sieves(needs_of(self.plan), sieves_of(self.plan))

    @property
    def demand(self) -> ClassDemand:
        """See `Demands`. Rows between those of a match count. If parts of matches are emitted, or rows without one, no
        label is required."""
        plan = self.plan
        conditions = [plan.conditions[one].row_local if one in plan.conditions else () for one in plan.labels.names]
        partial = plan.output.timed_out or plan.output.rows is RowMode.ALL_WITH_UNMATCHED
        required = () if partial else required_labels(plan.program)
        return demand_of(plan.labels.names, conditions, ((label,) for label in required))

    @property
    def traits(self) -> Traits:
        return traits_of(self.plan)

    @property
    def slicing(self) -> Slicing | Unsliced:
        """See `Sliceable`."""
        return slicing_of(self.plan, self.input_schema)

    def open(self) -> RowPatternMatcher:
        return RowPatternMatcher(self)

    def open_slice(self, bounds: SliceBounds) -> RowPatternMatcher:
        """See `Sliceable`."""
        matcher = self.open()
        matcher.output = OwnedOutput(self.plan, matcher.program.label_of, self.output_schema, bounds)
        return matcher

    def first_pass(self, tables: Iterable[pa.Table], bounds: SliceBounds) -> Iterator[SlicePart]:
        """See `Chained`."""
        return first_pass(self, tables, bounds)

    def next_entry(self, entry: Entry, summary: bytes) -> Entry:
        """See `Chained`."""
        return Summary.from_bytes(summary).next_entry(entry)

    def second_pass(self, parts: Iterable[SlicePart], entry: Entry) -> Iterator[pa.RecordBatch]:
        """See `Chained`."""
        return second_pass(self, parts, entry)

    def open_analyzed(self, clock: StageClock) -> RowPatternMatcher:
        """See `Analyzes`."""
        from episode.matchers.rows.analyze import AnalyzedRowMatcher

        return AnalyzedRowMatcher(self, clock)


def traits_of(plan: RowPatternPlan) -> Traits:
    """Return the properties of all matches of a row pattern, whatever the rows are."""
    by_end = plan.settings.mode is MatchMode.INCREMENTAL
    ends_open = plan.lookahead > 0 or any(one.operation == END for one in plan.program.instructions)
    conditions = plan.conditions
    walls = len(plan.program.instructions) <= LARGE_PROGRAM and all(
        label in conditions and bool(conditions[label].row_local) for label in later_labels(plan.program)
    )
    return Traits(
        prompt=by_end and plan.settings.skip_to is SkipTo.NEXT_ROW and not ends_open,
        dependent=_dependence(plan),
        lookback=plan.lookback,
        by_end=by_end,
        longest=plan.length[1],
        within=plan.within,
        walls=walls,
        by_start=not by_end,
        states=len(plan.labels.names),
        consumes=plan.settings.skip_to is SkipTo.PAST_LAST_ROW,
    )


def _dependence(plan: RowPatternPlan) -> str | None:
    """Why a match may depend on more than its own rows."""
    if plan.settings.skip_to is not SkipTo.NEXT_ROW:
        return f"AFTER MATCH SKIP {plan.settings.skip_to.value} makes a match depend on the matches before it"
    if uses_match_number(plan):
        return "MATCH_NUMBER() counts all matches of a partition"
    if any(one.operation in (START, END) for one in plan.program.instructions):
        return "^ and $ are bounds of the whole partition"
    if plan.output.rows is RowMode.ALL_WITH_UNMATCHED:
        return "WITH UNMATCHED ROWS depends on all matches around a row"
    if plan.output.timed_out:
        return "EMIT TIMED OUT MATCHES returns rows that are not a match"
    return None
