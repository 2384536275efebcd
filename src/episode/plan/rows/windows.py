"""The plan of one window with a row pattern: that of a row pattern, with the frame in which a row's match lies."""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.syntax import MatchRecognize, Navigation
from episode.lang.rows.window_syntax import FunctionCall, MeasureCall, PatternWindow, Search, WindowCall
from episode.lang.rows.windows import refuse_match_number
from episode.lang.syntax import Aggregate, ColumnRef, Scalar, Span
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import Condition
from episode.plan.output import MATCHED_COLUMN, MeasurePlan, Output, PlannedMeasure, RowMode
from episode.plan.reading import columns_read, expressions_of
from episode.plan.rows.conditions import plan_conditions
from episode.plan.rows.inputs import Inputs, KeyColumn
from episode.plan.rows.labels import labels_in
from episode.plan.rows.measures import RowMeasures
from episode.plan.rows.plan import (
    ATTEMPT_MEMORY,
    PARTITION_MEMORY,
    MatchRules,
    RowPatternPlan,
    check_labels,
    memory_of,
    parts_of_conditions,
    reach_of,
    uses_match_number,
)
from episode.plan.rows.program import compile_pattern, length_bounds
from episode.plan.schema import InputSchema, quote

MOST_FOLLOWING = 2**62


@dataclass(frozen=True)
class WindowFrame:
    """following: rows after the current one in which its match may lie; None: all of the partition. seek: may it begin
    after the current row?"""

    following: int | None
    seek: bool


@dataclass(frozen=True, kw_only=True)
class WindowPlan(RowPatternPlan):
    """One window with a row pattern: every row comes out, with the values of its match."""

    frame: WindowFrame


def plan_window(window: PatternWindow, schema: InputSchema, table_names: tuple[str, ...] = ()) -> WindowPlan:
    """Bind the window to its input, check it, choose how it is evaluated. `table_names`: names of the input table."""
    clause, schema = window.clause, replace(schema, names=table_names)
    labels = labels_in(clause)
    check_labels(clause, labels)
    derived = DerivedColumns(schema)
    inputs = Inputs(clause, schema, derived)
    keys, ordered = inputs.keys(), inputs.order()
    _refuse_aliases(clause, [*keys, *(key for key, _ in ordered)])
    frame = WindowFrame(_following(window, schema), window.search is Search.SEEK)
    conditions = plan_conditions(clause, schema, labels, derived, framed=(True, frame.following is not None))
    for measure in clause.measures:  # also those that are not called must be right
        RowMeasures(clause, schema, labels, DerivedColumns(schema)).plan(measure)
    measures = WindowMeasures(clause, schema, labels, derived).of(window.calls)
    read = columns_read(expressions_of(parts_of_conditions(conditions), measures), measures)
    outputs = tuple(schema.columns)
    needed = [*outputs, *(key.column for key in (*keys, *(key for key, _ in ordered))), *read]
    lookback, lookahead = reach_of(conditions, measures)
    plan = WindowPlan(
        source=clause.source,
        output=Output(labels, measures, outputs, len(outputs), RowMode.ALL_WITH_UNMATCHED),
        program=compile_pattern(clause),
        rules=MatchRules(clause.match_mode, clause.skip_to, clause.skip_label, clause.skip_span),
        length=length_bounds(clause.pattern),
        conditions=conditions,
        keys=tuple(dict.fromkeys(key.column for key in keys)),
        order=tuple(column for _, column in ordered),
        input_columns=tuple(dict.fromkeys(needed)),
        derived=tuple((sql, name) for sql, name in derived.selections() if name in set(needed)),
        types={**schema.columns, **{name: type_ for _, (name, type_) in derived.by_sql.items()}},
        within=None,
        memory=_memory(clause, conditions, frame),
        lookback=lookback,
        lookahead=lookahead,
        frame=frame,
    )
    if uses_match_number(plan):
        refuse_match_number(clause, _match_number_span(clause))
    return plan


def _refuse_aliases(clause: MatchRecognize, columns: list[KeyColumn]) -> None:
    aliased = next((one for one in columns if one.aliased), None)
    if aliased is not None:
        message = f"AS {aliased.name}: a window gives no column for PARTITION BY and ORDER BY."
        raise clause.source.error(EpisodeAnalysisError, message, aliased.span, "Leave AS and the name out.")


def _memory(clause: MatchRecognize, conditions: dict[str, Condition], frame: WindowFrame) -> str:
    """What fails in one frame may match in another that ends later."""
    memory = memory_of(clause, conditions, None)
    return ATTEMPT_MEMORY if memory == PARTITION_MEMORY and frame.following is not None else memory


def _following(window: PatternWindow, schema: InputSchema) -> int | None:
    frame = window.frame
    if frame.parameter is None:
        return frame.following
    value = schema.arguments.get(frame.parameter)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise window.source.error(
            EpisodeAnalysisError,
            f"The value of :{frame.parameter} is no number of rows: {value!r}.",
            frame.span,
            "Give a whole number that is not negative.",
        )
    return min(value, MOST_FOLLOWING)


def _match_number_span(clause: MatchRecognize) -> Span:
    """Where MATCH_NUMBER stands without parentheses."""
    pending = [measure.expression for measure in clause.measures] + [one.condition for one in clause.definitions]
    while pending:
        for _, atom in pending.pop().atoms:
            if isinstance(atom, ColumnRef) and atom.path[0].upper() == "MATCH_NUMBER":
                return atom.span
            if isinstance(atom, Navigation):
                pending.append(atom.argument)
            elif isinstance(atom, Aggregate):
                pending += atom.arguments
    return clause.source.pattern


class WindowMeasures(RowMeasures):
    """Plans what is called over a window: measures, null where the row has no match, and functions of its rows."""

    def of(self, calls: tuple[WindowCall, ...]) -> MeasurePlan:
        by_name = {measure.name: measure for measure in self.clause.measures}
        planned: list[PlannedMeasure] = []
        for call in calls:
            if isinstance(call, MeasureCall):
                measure = by_name[call.measure]
                sql = f"CASE WHEN {quote(MATCHED_COLUMN)} THEN {self.plan(measure).sql} END"
                planned.append(PlannedMeasure(call.column, sql, f"The measure {measure.name}", measure.span))
            else:
                planned.append(self._function(call))
        return MeasurePlan(planned, self.atoms)

    def _function(self, call: FunctionCall) -> PlannedMeasure:
        scalar: Scalar = call.expression
        return PlannedMeasure(call.column, self.text_of(scalar), scalar.original, scalar.span)
