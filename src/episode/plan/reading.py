"""What conditions and measures read of the input."""

from __future__ import annotations

from episode.plan.expressions import Expression, Load, Running, walk
from episode.plan.output import ColumnAtPlace, DecimalAverage, DecimalSum, Extreme, Gathered, MeasurePlan, RowAggregate


def expressions_of(conditions: list[Expression], measures: MeasurePlan) -> list[Expression]:
    """All machine expressions of a plan, aggregates' arguments included."""
    found = list(conditions)
    for atom in measures.atoms:
        if isinstance(atom, RowAggregate) and atom.argument is not None:
            found.append(atom.argument)
        elif isinstance(atom, Extreme):
            found += [atom.value, atom.by]
        elif isinstance(atom, Gathered) and atom.value is not None:
            found.append(atom.value)
    for expression in list(found):
        found += [node.argument for node in walk(expression) if isinstance(node, Running) and node.argument is not None]
    return found


def columns_read(expressions: list[Expression], measures: MeasurePlan) -> list[str]:
    """Input columns that expressions and measures read."""
    columns: list[str] = []
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Load):
                columns += [node.column] if node.missing is None else [node.column, node.missing]
    for atom in measures.atoms:
        if isinstance(atom, (ColumnAtPlace, DecimalSum, DecimalAverage)):
            columns.append(atom.column)
    return columns
