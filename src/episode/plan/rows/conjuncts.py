"""The conditions of a row pattern in pieces, for explanations: conjuncts with their places, and the values in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeError
from episode.lang.rows.conjuncts import conjuncts_of
from episode.lang.rows.syntax import Definition, MatchRecognize
from episode.lang.syntax import Scalar, Span
from episode.plan.derived import DerivedColumns
from episode.plan.expressions import Apply, Constant, Expression
from episode.plan.rows.conditions import LabelCondition
from episode.plan.rows.labels import known_names
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.schema import InputSchema


@dataclass(frozen=True)
class ReadValue:
    """A column, a navigation or an aggregate that a conjunct reads: where it stands, and what it is."""

    span: Span
    value: Expression


@dataclass(frozen=True)
class Conjunct:
    """A part of a label's condition that must hold. holds: as an expression, true or false or null."""

    span: Span
    holds: Expression
    values: tuple[ReadValue, ...]


def plan_conjuncts(
    clause: MatchRecognize, schema: InputSchema, plan: RowPatternPlan
) -> dict[str, tuple[Conjunct, ...]]:
    """The conjuncts of each label's condition, in the order in which they are written; in terms of the columns that the
    plan has, those that Spark computes too."""
    return {one.label: _Pieces(clause, schema, plan, one).conjuncts() for one in clause.definitions}


@dataclass(frozen=True)
class _Pieces:
    """Those of one label."""

    clause: MatchRecognize
    schema: InputSchema
    plan: RowPatternPlan
    definition: Definition

    def conjuncts(self) -> tuple[Conjunct, ...]:
        condition = self.definition.condition
        names = frozenset(known_names(self.clause))
        parts = [self._conjunct(part) for part in conjuncts_of(condition, self.clause.source, names)]
        found = tuple(part for part in parts if part is not None)
        return found if len(found) == len(parts) else (self._whole(condition),)

    def _conjunct(self, part: Scalar) -> Conjunct | None:
        """None where Spark would have to compute more than the plan asks it for."""
        derived = self._derived()
        known = len(derived.by_sql)
        compiled = self._compiled(part, derived)
        try:
            holds = compiled.expression()
        except EpisodeError:
            return None
        return Conjunct(part.span, holds, self._values(part)) if len(derived.by_sql) == known else None

    def _whole(self, condition: Scalar) -> Conjunct:
        planned = self.plan.conditions[self.definition.label]
        parts = (*planned.row_local, *planned.residual, Constant(1, "boolean"))
        return Conjunct(condition.span, Apply("and", parts, "boolean"), self._values(condition))

    def _values(self, part: Scalar) -> tuple[ReadValue, ...]:
        """What can be shown of the values: all that the plan's own columns, or columns of the input, give."""
        found = []
        for name, atom in part.atoms:
            derived = self._derived()
            known = len(derived.by_sql)
            try:
                value = self._compiled(part, derived).value_of(name)
            except EpisodeError:
                continue
            if len(derived.by_sql) == known:
                found.append(ReadValue(atom.span, value))
        return tuple(found)

    def _compiled(self, part: Scalar, derived: DerivedColumns) -> LabelCondition:
        definition = replace(self.definition, condition=part)
        return LabelCondition(self.clause, self.schema, self.plan.labels, derived, definition, (False, False))

    def _derived(self) -> DerivedColumns:
        known = {sql: (name, self.plan.types[name]) for sql, name in self.plan.derived}
        return DerivedColumns(self.schema, known)
