"""Functions of what one row holds, its label too: labels are few, so Spark computes them for each of them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from episode.lang.rows.syntax import Classifier, MatchNumber, Navigation
from episode.lang.syntax import Aggregate, Atom, ColumnRef, Scalar
from episode.plan.expressions import Apply, Constant, Expression, RowRef
from episode.plan.scalars import Operand, RowLocalScalars, Text

MOST_LABELS = 16
"""Each takes a column of its own."""


def operand_of(atom: Atom) -> Atom | Scalar | None:
    """What an atom that reads one row reads there: a column, its label, or an expression of columns."""
    if isinstance(atom, (ColumnRef, Classifier)):
        return atom
    if isinstance(atom, MatchNumber) or (isinstance(atom, Aggregate) and atom.star):
        return None
    assert isinstance(atom, (Navigation, Aggregate))
    scalar = atom.argument if isinstance(atom, Navigation) else atom.arguments[0]
    if scalar.atoms and scalar.text.strip() == scalar.atoms[0][0]:
        inner = scalar.atoms[0][1]
        return inner if isinstance(inner, (ColumnRef, Classifier)) else None
    return scalar if scalar.atoms and all(isinstance(inner, ColumnRef) for _, inner in scalar.atoms) else None


def tabulated(
    rows: RowLocalScalars,
    names: tuple[str, ...],
    node: exp.Expression,
    operands: Mapping[str, Operand],
    label: Expression,
    at: RowRef,
    scalar: Scalar,
) -> Expression | None:
    """A subtree of one row as a column of Spark's; where the row's label stands in it, as a choice of such columns.

    names: all labels. label: that of the row. scalar: what the node is a part of.
    """
    labels = [name for name, operand in operands.items() if isinstance(operand, Classifier)]
    if not labels:
        return rows.spark_load(node, operands, at, scalar)

    def of(name: str | None) -> Expression:
        return rows.spark_load(node, {**operands, **dict.fromkeys(labels, Text(name))}, at, scalar)

    if isinstance(label, Constant):
        assert label.value is None or isinstance(label.value, str)
        return of(label.value)
    if len(names) > MOST_LABELS:
        return None
    value = of(None)
    for name in reversed(names):
        is_it = Apply("eq", (label, Constant(name, "string")), "boolean")
        value = Apply("if", (is_it, of(name), value), value.type)
    return value
