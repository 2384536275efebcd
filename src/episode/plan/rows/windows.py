"""The plan of one window with a row pattern: that of a row pattern, with the frame in which a row's match lies.

See decisions 26 and 27.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.rows.syntax import FunctionCall, MeasureCall, PatternWindow, Search, WindowCall
from episode.lang.rows.windows import refuse_match_number
from episode.lang.syntax import ColumnRef, Scalar
from episode.lang.trees import exp
from episode.plan.compilable import Mistake, NativeCompiler, NotCompilable
from episode.plan.event_time import EventTime
from episode.plan.expressions import Apply, Constant, Expression
from episode.plan.output import MATCHED_COLUMN, MeasurePlan, Output, PlannedMeasure, Result, RowMode
from episode.plan.rows.conditions import plan_conditions
from episode.plan.rows.inputs import Inputs, check_subqueries
from episode.plan.rows.measures import RowMeasures
from episode.plan.rows.plan import (
    ATTEMPT_MEMORY,
    PARTITION_MEMORY,
    RowPatternPlan,
    atoms_below,
    checked_labels,
    memory_of,
    pattern_fields,
    uses_match_number,
)
from episode.plan.scalars import DerivedColumns
from episode.plan.schema import InputSchema, quote
from episode.plan.types import INTEGER_LIMITS

MOST_FOLLOWING = 2**62


@dataclass(frozen=True)
class WindowFrame:
    """following: rows after the current one in which its match may lie; None: all of the partition. seek: may it begin
    after the current row?"""

    following: int | None
    seek: bool


@dataclass(frozen=True, kw_only=True)
class WindowPlan(RowPatternPlan):
    """One window with a row pattern: every row is returned, with the values of its match."""

    frame: WindowFrame

    @property
    def result(self) -> Result:
        """The columns of the rows, and a column for each call over the window."""
        return Result(self.source, self.measures, tuple(self.measures.measures), before=self.output.columns)

    def event_time(self, limited: bool) -> EventTime:
        raise self.source.error(
            EpisodeUnsupportedError,
            "Row patterns in windows are evaluated over tables (batch), not over streams: the match of a row may lie "
            "in rows that are still to come.",
            self.source.pattern,
            "Over a stream, use MATCH_RECOGNIZE with ALL ROWS PER MATCH.",
        )


def plan_window(window: PatternWindow, schema: InputSchema, table_names: tuple[str, ...] = ()) -> WindowPlan:
    """Bind the window to its input, check it, choose how it is evaluated. `table_names`: names of the input table."""
    clause, schema = window.clause, replace(schema, names=table_names)
    labels = checked_labels(clause)
    check_subqueries(window, clause.source, schema)
    derived = DerivedColumns(schema)
    inputs = Inputs(clause, schema, derived)
    keys, ordered = inputs.keys(), inputs.order()
    for aliased in (one for one in (*keys, *(key for key, _ in ordered)) if one.aliased):
        message = f"AS {aliased.name}: a window gives no column for PARTITION BY and ORDER BY."
        raise clause.source.error(EpisodeAnalysisError, message, aliased.span, "Leave AS and the name out.")
    frame = WindowFrame(_following(window, schema), window.search is Search.SEEK)
    conditions = plan_conditions(clause, schema, labels, derived, framed=(True, frame.following is not None))
    for measure in clause.measures:  # also those that are not called must be right
        RowMeasures(clause, schema, labels, DerivedColumns(schema)).plan(measure)
    measures = WindowMeasures(clause, schema, labels, derived).of(window.calls)
    outputs = tuple(schema.columns)
    memory = memory_of(clause, conditions, None)
    if memory == PARTITION_MEMORY and frame.following is not None:
        memory = ATTEMPT_MEMORY  # an attempt that fails in one frame may match in a later one
    ordering = [key.column for key in (*keys, *(key for key, _ in ordered))]
    plan = WindowPlan(
        **pattern_fields(inputs, keys, ordered, conditions, measures, [*outputs, *ordering]),
        output=Output(labels, measures, outputs, len(outputs), RowMode.ALL_WITH_UNMATCHED),
        within=None,
        memory=memory,
        frame=frame,
    )
    if uses_match_number(plan):
        scalars = [one.expression for one in clause.measures] + [one.condition for one in clause.definitions]
        columns = [atom for atom in atoms_below(scalars) if isinstance(atom, ColumnRef)]
        spans = (one.span for one in columns if one.path[0].upper() == "MATCH_NUMBER")  # without parentheses
        refuse_match_number(clause, next(spans, clause.source.pattern))
    return plan


def _following(window: PatternWindow, schema: InputSchema) -> int | None:
    """The number of rows after the current one, which is a constant."""
    bound = window.frame.bound
    if bound is None:
        return window.frame.following
    value = _constant(bound, schema)
    if value is None or value < 0:
        message = f"The end of a frame must be a number of rows, the same for all rows: not {bound.original}."
        hint = "Write a whole number that is not negative, or a constant expression of such: 2 * :n FOLLOWING."
        raise window.source.error(EpisodeAnalysisError, message, bound.span, hint)
    return min(value, MOST_FOLLOWING)


def _constant(scalar: Scalar, schema: InputSchema) -> int | None:
    """The value of an expression without columns; None if it is not a whole number, or needs Spark."""

    def resolve(name: str) -> Expression:
        raise NotCompilable(exp.column(name), "this is not a constant")

    compiler = NativeCompiler(resolve, lambda _node: None, schema.utc, arguments=schema.arguments)
    try:
        return _fold_constant(compiler.compile(scalar.tree))
    except (NotCompilable, Mistake):
        return None


OPERATIONS: dict[str, Callable[..., int]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "negate": operator.neg, "abs": abs,
    "copy": operator.pos, "least": min, "greatest": max,
}  # fmt: skip


def _fold_constant(expression: Expression) -> int | None:
    """The value of a constant expression of whole numbers; None if it is something else."""
    limit = INTEGER_LIMITS.get(expression.type)
    if limit is None:
        return None
    if isinstance(expression, Constant):
        return expression.value if isinstance(expression.value, int) else None
    if not isinstance(expression, Apply):
        return None
    operands = [_fold_constant(operand) for operand in expression.operands]
    values = [value for value in operands if value is not None]
    if len(values) < len(operands):
        return None
    if expression.operation in OPERATIONS:
        result = OPERATIONS[expression.operation](*values)
    elif expression.operation in ("int_divide", "modulo") and values[1]:
        quotient = abs(values[0]) // abs(values[1]) * (1 if (values[0] < 0) == (values[1] < 0) else -1)
        result = quotient if expression.operation == "int_divide" else values[0] - quotient * values[1]
    else:
        return None
    return result if -limit <= result < limit else None


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
