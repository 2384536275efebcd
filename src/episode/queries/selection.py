"""The SELECT list around the patterns of a statement: columns and conditions over the rows of the patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from episode.errors import EpisodeAnalysisError
from episode.lang.spark_dialect import SparkExpressions
from episode.lang.syntax import Source, Span
from episode.matchers.projection import CopiedColumn, NamedValues, Projection, Projections, Value, value_of
from episode.plan.output import MATCH_END, MATCH_START, ScalarColumn
from episode.plan.parameters import Arguments


@dataclass(frozen=True)
class SelectedTable:
    """A table of FROM. names: those that may be written before its columns. prefix: of its columns among the columns
    that are selected from. renamed: their new names. hidden: columns that `*` leaves out."""

    names: tuple[str, ...] = ()
    prefix: str = ""
    renamed: tuple[str, ...] = ()
    hidden: frozenset[str] = field(default_factory=frozenset)

    def columns(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """The table's columns among those of these names, as (name, column)."""
        own = [name for name in names if name.startswith(self.prefix)]
        shown = self.renamed or [name.removeprefix(self.prefix) for name in own]
        return list(zip(shown, own, strict=False))

    def is_called(self, name: str) -> bool:
        return name.lower() in {one.lower() for one in self.names}


@dataclass(frozen=True)
class Selection:
    """A SELECT list over one table, or over two that RECENCY correlates.

    span: of the list. conditions: places of conditions that hold for the rows that are selected.
    """

    source: Source
    items: tuple[exp.Expression, ...]
    span: Span
    tables: tuple[SelectedTable, ...]
    conditions: tuple[Span, ...] = ()

    def after(self, rows: Projections, arguments: Arguments, utc: bool = True) -> Projections:
        return Projections((*rows.steps, self.projection(rows.schema, arguments, utc)))

    def projection(self, schema: pa.Schema, arguments: Arguments, utc: bool = True) -> Projection:
        kept = [self.condition(span, schema.names) for span in self.conditions]
        return Projection.compile(self.values(schema.names), schema, kept, arguments, utc)

    def values(self, names: Sequence[str]) -> NamedValues:
        """The selected columns over columns of these names."""
        found: list[tuple[str, Value]] = []
        for item in self.items:
            star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            if isinstance(item, exp.Star) or star:
                found += [
                    (name, CopiedColumn(column)) for name, column in self._star(names, item.table if star else "")
                ]
                continue
            tree = item.this if isinstance(item, exp.Alias) else item
            value = self._resolve(tree, names, self.span)
            name = tree.parts[-1].name if isinstance(tree, exp.Column) else value.original
            found.append((item.alias or name, value_of(value)))
        return found

    def _star(self, names: Sequence[str], table: str) -> list[tuple[str, str]]:
        """The columns that `*` means. table: the name before it, if any."""
        meant = [one for one in self.tables if not table or len(self.tables) == 1 or one.is_called(table)]
        return [pair for one in meant for pair in one.columns(names) if pair[1] not in one.hidden]

    def condition(self, span: Span, names: Sequence[str]) -> ScalarColumn:
        written = ScalarColumn.of(self.source.text_at(span), "", self.source, span)
        return written if written.tree is None else self._resolve(written.tree, names, span)

    def _resolve(self, tree: exp.Expression, names: Sequence[str], span: Span) -> ScalarColumn:
        """An expression of the statement over the columns that it means."""
        tables = [(table, {name.lower(): column for name, column in table.columns(names)}) for table in self.tables]

        def resolve(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            first, *rest = node.parts
            named = [columns for table, columns in tables if rest and table.is_called(first.name)]
            if named:
                first, *rest = rest
            name = first.name.lower()
            found = [columns[name] for columns in named or [columns for _, columns in tables] if name in columns]
            if not found and not named and len(tables) > 1 and name in (MATCH_START, MATCH_END):
                found = [name]
            if len(found) != 1:
                raise self._unclear(first.name, names, span, bool(found))
            same = found[0].lower() == name
            if same and not named:
                return node
            column: exp.Expression = exp.column(first.copy() if same else exp.to_identifier(found[0], quoted=True))
            for part in rest:
                column = exp.Dot(this=column, expression=part.copy())
            return column

        resolved = tree.transform(resolve)
        shown = tree if len(self.tables) > 1 else resolved
        return ScalarColumn(resolved, shown.sql("spark"), self.source, span)

    def _unclear(self, name: str, names: Sequence[str], span: Span, several: bool) -> EpisodeAnalysisError:
        if several:
            message, hint = f"{name} is a column of both patterns.", "Write the name of one of them before it."
        else:
            patterns = "patterns" if len(self.tables) > 1 else "pattern"
            message = f"There is no column {name} in the output of the {patterns}."
            hint = f"There are: {', '.join(known for known, _ in self._star(names, ''))}."
        return self.source.error(EpisodeAnalysisError, message, span, hint)


def parse_items(text: str) -> tuple[exp.Expression, ...] | None:
    """The items of a SELECT list; None if it cannot be parsed."""
    try:
        query = sqlglot.parse_one(f"SELECT {text} FROM x", read=SparkExpressions)
    except (SqlglotError, RecursionError):
        return None
    assert isinstance(query, exp.Select)
    return tuple(query.expressions)
