"""The plan of one MATCH_RECOGNIZE: everything the matcher needs, with nothing left to resolve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add
from typing import Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.syntax import MatchMode, MatchNumber, MatchRecognize, Navigation, RowsPerMatch, SkipTo
from episode.lang.syntax import NOWHERE, Aggregate, Atom, Scalar, Span
from episode.plan.arrays import Collected
from episode.plan.event_time import Delays, EventTime
from episode.plan.expressions import (
    Condition,
    Current,
    Exists,
    Expression,
    LabelAt,
    Load,
    Navigated,
    Number,
    Running,
    walk,
)
from episode.plan.output import (
    HIDDEN_END,
    HIDDEN_START,
    TIMED_OUT_COLUMN,
    ColumnAtPlace,
    LabelAtPlace,
    Labels,
    MeasurePlan,
    NumberOfMatch,
    Output,
    OutputAtom,
    PlaceExists,
    PlannedMeasure,
    Result,
    RowMode,
    columns_read,
    expressions_of,
)
from episode.plan.pattern import CarriedReport, OrderColumn, PatternPlan
from episode.plan.rows.conditions import plan_conditions
from episode.plan.rows.inputs import Inputs, KeyColumn, check_subqueries, labels_in, pinned_labels
from episode.plan.rows.measures import RowMeasures, check_output_names
from episode.plan.rows.program import MATCH, PatternProgram, compile_pattern, length_bounds
from episode.plan.scalars import DerivedColumns, refuse_depth
from episode.plan.schema import InputSchema, quote

MAXIMUM_LABELS = 64
NO_MEMORY, ATTEMPT_MEMORY, PARTITION_MEMORY = "none", "attempt", "partition"


@dataclass(frozen=True)
class MatchSettings:
    """The matches to report, and where the search resumes after one; skip_span: the place of AFTER MATCH."""

    mode: MatchMode
    skip_to: SkipTo
    skip_label: str | None
    skip_span: Span


@dataclass(frozen=True, kw_only=True)
class RowPatternPlan(PatternPlan):
    """One MATCH_RECOGNIZE over one input.

    length: least and greatest number of rows of a match. memory: how far failures may be remembered.
    lookback, lookahead: rows that PREV and NEXT may reach beyond a row of the match.
    """

    program: PatternProgram
    settings: MatchSettings
    length: tuple[int, int | None]
    memory: str
    lookback: int
    lookahead: int

    @property
    def result(self) -> Result:
        """The clause's own columns, then or around them the measures."""
        output = self.output
        flag = (TIMED_OUT_COLUMN,) if output.timed_out else ()
        renamed = [PlannedMeasure(name, quote(column), name, NOWHERE) for column, name in output.leading]
        measures = [one for one in self.measures.measures if one.name not in (HIDDEN_START, HIDDEN_END)]
        return Result(
            source=self.source,
            measures=self.measures,
            columns=(*renamed, *measures),
            before=() if renamed else output.columns[: output.before],
            after=(*output.columns[output.before :], *flag),
            what="The measure ",
        )

    @property
    def match_values(self) -> tuple[OutputAtom, ...]:
        return (NumberOfMatch(),)

    def narrow(self) -> RowPatternPlan:
        nothing = MeasurePlan([])
        read = columns_read(expressions_of(parts_of_conditions(self.conditions), nothing), nothing)
        needed = tuple(dict.fromkeys([*self.keys, *(column.column for column in self.order), *read]))
        return replace(self, input_columns=needed or self.input_columns[:1])

    def event_time(self, limited: bool) -> EventTime:
        from episode.plan.rows.stream import event_time_of, warn_if_unbounded

        time = event_time_of(self)
        warn_if_unbounded(self, limited)
        return time

    def delays(self) -> Delays:
        from episode.plan.rows.stream import row_pattern_delays

        return row_pattern_delays(self)


# Reports of matchers of row patterns.


@dataclass(frozen=True)
class RowReport(CarriedReport):
    """Counts and times of one matcher, or of several together.

    parts: the number of matchers. rows: of the input. attempts: start rows at which a match was looked for. steps: of
    all attempts. taken: rows of matches, by instruction of the program (a row counts once for each match).
    counted: rows over which the following was counted, in a second search without short cuts. offered: for each label,
    the rows that satisfy its row-local conditions. tried, refused: by instruction, rows that attempts reached for the
    first time, and those that it did not take.
    seconds: by stage of the tasks' work.
    """

    parts: int
    rows: int
    matches: int
    attempts: int
    steps: int
    taken: tuple[int, ...]
    counted: int
    offered: tuple[int, ...]
    tried: tuple[int, ...]
    refused: tuple[int, ...]
    seconds: dict[str, float]

    def __add__(self, other: RowReport) -> RowReport:
        sums = {one.name: _sum(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)}
        return RowReport(**sums)

    def rows_by_label(self, plan: RowPatternPlan) -> dict[str, int]:
        found = dict.fromkeys(plan.labels.names, 0)
        for instruction, rows in zip(plan.program.instructions, self.taken, strict=True):
            if instruction.operation == MATCH:
                found[instruction.label] += rows
        return found

    @property
    def shares(self) -> dict[str, float]:
        total = sum(self.seconds.values())
        return {stage: seconds / total if total else 0.0 for stage, seconds in self.seconds.items()}


def _sum(one: Any, two: Any) -> Any:
    """The sum of two numbers, or of the numbers at each place of a tuple or by each name."""
    if isinstance(one, dict):
        return {name: one[name] + two[name] for name in one}
    return tuple(map(add, one, two)) if isinstance(one, tuple) else one + two


def sum_of(texts: Sequence[str]) -> RowReport | None:
    """Add up the reports of all matchers of a run; None if there were no events."""
    return reduce(RowReport.__add__, map(RowReport.from_json, texts)) if texts else None


def plan_row_pattern(clause: MatchRecognize, schema: InputSchema, table_names: tuple[str, ...] = ()) -> RowPatternPlan:
    """Bind the clause to its input, check it, choose how it is evaluated. `table_names`: names of the input table."""
    hint = "Compute parts of them as columns in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…)."
    with refuse_depth(clause.source, "The expressions of this MATCH_RECOGNIZE", clause.source.span, hint):
        return _plan(clause, replace(schema, names=table_names))


def _plan(clause: MatchRecognize, schema: InputSchema) -> RowPatternPlan:
    labels = checked_labels(clause)
    check_subqueries(clause, clause.source, schema)
    derived = DerivedColumns(schema)
    inputs = Inputs(clause, schema, derived)
    keys, ordered = inputs.keys(), inputs.order()
    within = inputs.within([key for key, _ in ordered])
    conditions = plan_conditions(clause, schema, labels, derived)
    planner = RowMeasures(clause, schema, labels, derived)
    measures = MeasurePlan([planner.plan(measure) for measure in clause.measures], planner.atoms)
    _check_modes(clause, conditions)
    leading, rest = inputs.outputs(keys, [key for key, _ in ordered])
    before = tuple(dict.fromkeys(column for column, _ in leading))
    outputs = (*before, *rest)
    check_output_names(
        clause, [*(name for _, name in leading), *rest, *([TIMED_OUT_COLUMN] if clause.timed_out is not None else [])]
    )
    if not outputs and not measures.measures:
        message = "The output has no column: ONE ROW PER MATCH gives the columns of PARTITION BY and the measures."
        hint = "Add MEASURES, PARTITION BY or ALL ROWS PER MATCH."
        raise clause.source.error(EpisodeAnalysisError, message, clause.source.pattern, hint)
    rows, renamed = RowMode[clause.rows_per_match.name], leading if any(one != new for one, new in leading) else ()
    ordering = [key.column for key in (*keys, *(key for key, _ in ordered))]
    return RowPatternPlan(
        **pattern_fields(inputs, keys, ordered, conditions, measures, [*ordering, *outputs]),
        output=Output(labels, measures, outputs, len(before), rows, clause.timed_out is not None, renamed),
        within=within,
        window=None if clause.within is None else clause.within.span,
        memory=memory_of(clause, conditions, within),
    )


def pattern_fields(
    inputs: Inputs,
    keys: tuple[KeyColumn, ...],
    ordered: tuple[tuple[KeyColumn, OrderColumn], ...],
    conditions: dict[str, Condition],
    measures: MeasurePlan,
    columns: list[str],
) -> dict[str, Any]:
    """Fields of a plan that are the same for windows. columns: of the input, without those that expressions read."""
    clause = inputs.clause
    read = columns_read(expressions_of(parts_of_conditions(conditions), measures), measures)
    needed = [*columns, *read]
    lookback, lookahead = _reach_of(conditions, measures)
    return {
        "source": clause.source,
        "program": compile_pattern(clause),
        "settings": MatchSettings(clause.match_mode, clause.skip_to, clause.skip_label, clause.skip_span),
        "length": length_bounds(clause.pattern),
        "conditions": conditions,
        "keys": tuple(dict.fromkeys(key.column for key in keys)),
        "order": tuple(column for _, column in ordered),
        "input_columns": tuple(dict.fromkeys(needed)) or tuple(inputs.schema.columns)[:1],
        "derived": inputs.derived.selections(set(needed)),
        "types": inputs.derived.types,
        "lookback": lookback,
        "lookahead": lookahead,
    }


def checked_labels(clause: MatchRecognize) -> Labels:
    """The labels of a clause, not more of them than a row has bits."""
    labels = labels_in(clause)
    if len(labels.names) > MAXIMUM_LABELS:
        message = f"The pattern has {len(labels.names)} labels; at most {MAXIMUM_LABELS} are supported."
        hint = "A label may appear in several places; conditions may be joined with OR."
        raise clause.source.error(EpisodeUnsupportedError, message, clause.source.pattern, hint)
    return labels


def _check_modes(clause: MatchRecognize, conditions: dict[str, Condition]) -> None:
    if clause.timed_out is not None and clause.match_mode is not MatchMode.PREFERRED:
        message = f"EMIT TIMED OUT MATCHES cannot be combined with {clause.match_mode.value}."
        raise clause.source.error(EpisodeAnalysisError, message, clause.timed_out, "Leave the match mode out.")
    if clause.timed_out is not None and clause.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED:
        raise clause.source.error(
            EpisodeAnalysisError,
            "EMIT TIMED OUT MATCHES cannot be combined with WITH UNMATCHED ROWS: its rows belong to no match either.",
            clause.timed_out,
            "Use ONE ROW PER MATCH, or ALL ROWS PER MATCH without unmatched rows.",
        )
    if clause.match_mode is not MatchMode.INCREMENTAL:
        return
    if clause.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED:
        raise clause.source.error(
            EpisodeAnalysisError,
            "INCREMENTAL MATCH cannot be combined with WITH UNMATCHED ROWS: a row may still match when it is reported.",
            clause.mode_span,
            "Use MAXIMAL MATCH or ALL MATCHES.",
        )
    for label in (label for label, condition in conditions.items() if _reads_match_number(condition)):
        scalar = next(definition.condition for definition in clause.definitions if definition.label == label)
        spans = (atom.span for atom in atoms_below([scalar]) if isinstance(atom, MatchNumber))
        message = f"The condition of {label} uses MATCH_NUMBER(); INCREMENTAL MATCH counts only afterwards."
        hint = "Use MAXIMAL MATCH or ALL MATCHES, or keep MATCH_NUMBER() to MEASURES."
        raise clause.source.error(EpisodeAnalysisError, message, next(spans, scalar.span), hint)


def atoms_below(scalars: Iterable[Scalar]) -> Iterator[Atom]:
    """All atoms of scalars, also those inside navigations and aggregates."""
    pending = [*scalars]
    while pending:
        for _, atom in pending.pop().atoms:
            yield atom
            if isinstance(atom, Navigation):
                pending.append(atom.argument)
            elif isinstance(atom, Aggregate):
                pending += atom.arguments


# ---- what is read, and how far --------------------------------------------------------------------------


def parts_of_conditions(conditions: dict[str, Condition]) -> list[Expression]:
    return [part for condition in conditions.values() for part in (*condition.row_local, *condition.residual)]


def _reach_of(conditions: dict[str, Condition], measures: MeasurePlan) -> tuple[int, int]:
    """Return the numbers of rows before and after a row of the match that are read."""
    shifts = [0]
    for expression in expressions_of(parts_of_conditions(conditions), measures):
        for node in walk(expression):
            if isinstance(node, (Load, LabelAt, Exists)):
                at = node.at
                shifts.append(at.offset if isinstance(at, Current) else at.shift if isinstance(at, Navigated) else 0)
    for atom in measures.atoms:
        if isinstance(atom, (ColumnAtPlace, LabelAtPlace, PlaceExists)):
            shifts.append(atom.place.shift)
    return -min(shifts), max(shifts)


def memory_of(clause: MatchRecognize, conditions: dict[str, Condition], within: int | None) -> str:
    """Failures may be remembered where conditions do not depend on the path; across starts only without starts."""
    pinned = pinned_labels(clause.pattern)
    scope = PARTITION_MEMORY if within is None else ATTEMPT_MEMORY
    for condition in conditions.values():
        for part in condition.residual:
            for node in walk(part):
                labels: frozenset[str] | None = None
                if isinstance(node, (Load, Exists)) and isinstance(node.at, Navigated):
                    labels = node.at.labels
                elif isinstance(node, Collected):
                    labels = node.labels
                elif isinstance(node, Running):
                    labels = node.labels
                    if node.argument is not None and any(isinstance(inner, LabelAt) for inner in walk(node.argument)):
                        return NO_MEMORY
                elif isinstance(node, LabelAt):
                    return NO_MEMORY
                elif not isinstance(node, Number):
                    continue
                if labels is not None and not labels <= pinned:
                    return NO_MEMORY
                scope = ATTEMPT_MEMORY
    return scope


def uses_match_number(plan: RowPatternPlan) -> bool:
    """Does anything depend on the count of matches?"""
    return NumberOfMatch() in plan.measures.atoms or condition_with_match_number(plan) is not None


def condition_with_match_number(plan: RowPatternPlan) -> str | None:
    """The first label whose condition depends on the count of matches."""
    return next((condition.label for condition in plan.conditions.values() if _reads_match_number(condition)), None)


def _reads_match_number(condition: Condition) -> bool:
    nodes = [node for part in condition.residual for node in walk(part)]
    arguments = [node.argument for node in nodes if isinstance(node, Running) and node.argument is not None]
    nodes += [node for argument in arguments for node in walk(argument)]
    return any(isinstance(node, Number) for node in nodes)


__all__ = ["MatchMode", "MatchRecognize", "SkipTo"]
