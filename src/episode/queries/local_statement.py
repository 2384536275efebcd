"""`SELECT columns FROM table MATCH_RECOGNIZE (…)`, EVENTS (…) or SITUATIONS (…) in process, and a pattern alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Union

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.source import Source
from episode.lang.spark_expression import SparkExpressions
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.lang.syntax import Span
from episode.lang.table_patterns import TableQuery, pattern_of
from episode.matchers.scalars import NeedsSpark, Scalars
from episode.plan.native import Mistake
from episode.plan.parameters import check_arguments
from episode.queries.frames import arrow_table, like
from episode.queries.language import Given
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.local import NO_ARGUMENTS, Arguments, needs_spark, run_local
from episode.queries.options import Options

ONE_PATTERN = "In process a query is SELECT columns FROM table MATCH_RECOGNIZE (…), or one pattern. Use episode.sql."
AnyPattern = Union[TablePattern, TableQuery]


def sql_local(text: str, tables: Mapping[str, Any], options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Run a statement that is one pattern over one of the tables, with a list of columns around it."""
    statement = parse_statement(text)
    check_arguments(statement.source, statement.tokens, arguments)
    if statement.whole is not None:
        frame = tables[_named(statement, statement.whole, tables)]
        return like(frame, run_local(statement.whole, arrow_table("", frame), Given(), options, (), arguments))
    selection = selection_of(statement)
    pattern = selection.pattern
    if isinstance(pattern, TablePattern):
        frame = tables[_given(statement, pattern.name if pattern.plain else None, pattern.input, tables)]
        names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    else:
        frame, names = tables[_named(statement, pattern.query, tables)], ()
    output = run_local(pattern.query, arrow_table("", frame), Given(), options, names, arguments)
    return like(frame, selection.of(output, arguments))


def match_local(events: Any, text: str, given: Given, options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Find an event pattern or a situation pattern in a table."""
    check_arguments(text, tokenize(text), arguments)
    query = pattern_of(text, strategy_of(given.strategy))
    language = language_of(query)
    language.check_arguments(given)
    language.check_given_events(query)
    if given.detect is not None:
        options = replace(options, detect=given.detect)
    return like(events, run_local(query, arrow_table("events", events), given, options, (), arguments))


# ---- the statement around a pattern --------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection:
    """SELECT's list around a pattern. names: what may stand before the pattern's columns."""

    source: Source
    pattern: AnyPattern
    items: tuple[exp.Expression, ...]
    span: Span
    names: frozenset[str]

    def of(self, output: pa.Table, arguments: Arguments) -> pa.Table:
        columns: list[tuple[str, Any]] = []
        for item in self.items:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                columns += zip(output.column_names, output.columns, strict=True)
            else:
                columns.append(self._column(item, output, arguments))
        return pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])

    def _column(self, item: exp.Expression, output: pa.Table, arguments: Arguments) -> tuple[str, Any]:
        tree = (item.this if isinstance(item, exp.Alias) else item).transform(self._unqualified)
        name = item.alias or (tree.parts[-1].name if isinstance(tree, exp.Column) else tree.sql("spark"))
        scalars = Scalars(output, arguments=arguments)
        for column in tree.find_all(exp.Column):
            if scalars.column(column.parts[0].name) is None:
                message = f"There is no column {column.parts[0].name} in the output of the pattern."
                known = f"There are: {', '.join(output.column_names)}."
                raise self.source.error(EpisodeAnalysisError, message, self.span, known)
        try:
            return name, scalars.evaluate(tree)
        except NeedsSpark:
            raise needs_spark(tree.sql("spark"), self.source, self.span) from None
        except Mistake as error:
            raise self.source.error(EpisodeAnalysisError, error.message, self.span, error.hint) from None

    def _unqualified(self, node: exp.Expression) -> exp.Expression:
        """A column without the name of the table before it."""
        if isinstance(node, exp.Column) and len(node.parts) > 1 and node.parts[0].name.lower() in self.names:
            first, *rest = node.parts[1:]
            column: exp.Expression = exp.column(first.copy())
            for part in rest:
                column = exp.Dot(this=column, expression=part.copy())
            return column
        return node


def selection_of(statement: Statement) -> Selection:
    """The one pattern of a statement, which has nothing else but a list of columns."""
    every: list[AnyPattern] = [*statement.patterns, *statement.tables]
    tokens = [token for token in statement.tokens if token.kind is not Kind.END]
    if len(every) != 1 or statement.common_tables:
        raise _refused(statement, tokens[0], "This statement is not one pattern over one table")
    pattern = every[0]
    before = [token for token in tokens if token.end <= pattern.span.start]
    after = [token for token in tokens if token.start >= pattern.span.end and not token.is_symbol(";")]
    if after and after[0].upper == "AS":
        after = after[1:]
    if before[0].upper != "SELECT" or before[-1].upper != "FROM" or before[1].upper in ("DISTINCT", "ALL"):
        raise _refused(statement, before[0], "Around the pattern there is more than SELECT columns FROM")
    alias = None
    if after and after[0].kind in (Kind.NAME, Kind.QUOTED) and after[0].upper not in CLAUSES:
        alias = after.pop(0).identifier
    if after:
        raise _refused(statement, after[0], f"{after[0].text} after the pattern")
    span = Span(before[1].start, before[-1].start)
    text = statement.source[span.start : span.end]
    try:
        query = sqlglot.parse_one(f"SELECT {text} FROM x", read=SparkExpressions)
    except (SqlglotError, RecursionError):
        raise _refused(statement, before[1], "This list of columns") from None
    assert isinstance(query, exp.Select)
    named = [alias] if alias else []
    if isinstance(pattern, TablePattern) and not alias:
        named += [name for name in (pattern.alias, pattern.name) if name]
    return Selection(
        Source(statement.source), pattern, tuple(query.expressions), span, frozenset(name.lower() for name in named)
    )


CLAUSES = frozenset(
    (
        "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "UNION", "EXCEPT",
        "MINUS", "INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL",
        "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "QUALIFY",
    )
)  # fmt: skip


def _refused(statement: Statement, token: Token, what: str) -> EpisodeUnsupportedError:
    return needs_spark(what, Source(statement.source), Span(token.start, token.end), ONE_PATTERN)


def _named(statement: Statement, query: object, tables: Mapping[str, Any]) -> str:
    """The table that a pattern names."""
    language = language_of(query)
    table = language.table(query)
    if table is None:
        raise language.source(query).error(
            EpisodeUnsupportedError,
            "In process, a pattern is over one table.",
            hint="Name the table of all events: FROM events …. With a table per class, use episode.sql.",
        )
    written, span = table
    parts = tokenize(written)[:-1]
    return _given(statement, parts[0].identifier if len(parts) == 1 else None, span, tables)


def _given(statement: Statement, name: str | None, span: Span, tables: Mapping[str, Any]) -> str:
    """The name of a table that is given by keyword. None: it is not a plain name."""
    if name is None:
        raise needs_spark("A pattern over a query", Source(statement.source), span)
    if name not in tables:
        hint = f"Give it by keyword: {name}=…. Given: {', '.join(tables) or 'none'}."
        raise Source(statement.source).error(EpisodeAnalysisError, f"There is no table {name}.", span, hint)
    return name
