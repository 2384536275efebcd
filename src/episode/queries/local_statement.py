"""`SELECT columns FROM table MATCH_RECOGNIZE (…)`, EVENTS (…) or SITUATIONS (…) in process, and a pattern alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Union

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Recency
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.rows.syntax import WindowedSelect
from episode.lang.spark_dialect import SparkExpressions
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import TableQuery, pattern_of
from episode.matchers.projection import Copied, Projection, Value, value_of
from episode.plan.compilable import NeedsSpark
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import Computed
from episode.plan.parameters import check_arguments
from episode.plan.schema import quote
from episode.queries.frames import held_table, like
from episode.queries.keywords import check_statement_tables
from episode.queries.language import Given
from episode.queries.languages import language_of
from episode.queries.languages.correlation import correlation_of
from episode.queries.languages.events import strategy_of
from episode.queries.local import NO_ARGUMENTS, Arguments, refusing, run_local
from episode.queries.local_pairs import LocalTable, name_of, pair_names, run_pairs
from episode.queries.options import Options

AnyPattern = Union[TablePattern, TableQuery]


def sql_local(text: str, tables: Mapping[str, Any], options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Run a statement that is one pattern over one of the tables, with a list of columns around it."""
    statement = parse_statement(text)
    check_arguments(statement.source, statement.tokens, arguments)
    with refusing():
        return _run(statement, tables, options, arguments)


def _run(statement: Statement, tables: Mapping[str, Any], options: Options, arguments: Arguments) -> Any:
    if statement.whole is not None:
        name = _named(statement, statement.whole, tables)
        check_statement_tables("sql_local", tables, statement.tokens)
        table = held_table(name, tables[name])
        return like(tables[name], run_local(statement.whole, table, Given(), options, (), arguments))
    if statement.recencies:
        return _correlated(statement, tables, options, arguments)
    if statement.windowed:
        return _windowed(statement, tables, options, arguments)
    selection = selection_of(statement)
    name, names = _table(statement, selection.pattern, tables)
    check_statement_tables("sql_local", tables, statement.tokens)
    table = held_table(name, tables[name])
    query = selection.pattern.query
    return like(tables[name], run_local(query, table, Given(), options, names, arguments, selection.values))


def _table(statement: Statement, pattern: AnyPattern, tables: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """The name of the table of a pattern, and those that may stand before its columns."""
    if isinstance(pattern, TableQuery):
        return _named(statement, pattern.query, tables), ()
    name = _given(statement, pattern.name if pattern.plain else None, pattern.input, tables)
    return name, tuple(name for name in (pattern.alias or pattern.name,) if name)


def _correlated(statement: Statement, tables: Mapping[str, Any], options: Options, arguments: Arguments) -> Any:
    """A statement whose two patterns RECENCY correlates."""
    recency = statement.recencies[0]
    items, span = items_around(statement, recency)
    patterns = [statement.pattern_at(table.span) for table in recency.tables]
    query, live_first = correlation_of(statement, recency)
    named = [_table(statement, pattern, tables) for pattern in patterns]
    check_statement_tables("sql_local", tables, statement.tokens)
    known: dict[int, Any] = {}
    for name, _ in named:
        frame = tables[name]
        if id(frame) not in known:
            known[id(frame)] = held_table(name, frame)
    given = [LocalTable(known[id(tables[name])], names) for name, names in named]
    live, archive = given if live_first else given[::-1]
    aliases = [
        ((table.alias,) if table.alias else one.names, table.columns)
        for table, one in zip(recency.tables, given, strict=True)
    ]
    prefixes = (LIVE_PREFIX, ARCHIVE_PREFIX) if live_first else (ARCHIVE_PREFIX, LIVE_PREFIX)

    def select(schema: pa.Schema) -> Projection:
        names = pair_names(Source(statement.source), aliases, prefixes, schema.names)
        return names.projection(items, span, recency.conditions, schema, arguments)

    return like(tables[named[0][0]], run_pairs(query, live, archive, options, arguments, select))


def _windowed(statement: Statement, tables: Mapping[str, Any], options: Options, arguments: Arguments) -> Any:
    """A statement that is one SELECT with row patterns in windows."""
    select = statement.windowed[0]
    tokens = [token for token in statement.tokens if token.kind is not Kind.END]
    if statement.patterns or statement.tables or statement.common_tables or len(statement.windowed) > 1:
        raise _refused(statement, tokens[0], "A statement that is not one SELECT over one table")
    definitions = select.definitions or Span(select.rows.end, select.rows.end)
    after = [
        one for one in tokens if one.start >= select.rows.end and not definitions.start <= one.start < definitions.end
    ]
    if select.kept:
        raise _not_here(statement, select.kept[0], "A window without a row pattern")
    if select.condition is not None:
        raise _not_here(statement, select.condition, "WHERE")
    if any(star.excepted is not None for star in select.stars):
        raise _refused(statement, tokens[0], "* EXCEPT")
    name = _given(statement, select.name if select.plain else None, select.tables, tables)
    names = tuple(name for name in (select.alias or select.name,) if name)
    table = held_table(name, tables[name])
    for window in select.windows:
        table = run_local(window, table, Given(), options, names, arguments)
    before = [one for one in tokens if one.end <= select.rows.start]
    items, span = _items(statement, before, after, _with_columns(statement, select))
    hidden = frozenset(call.column for call in select.calls)
    lower = frozenset(name.lower() for name in names)
    columns = WindowColumns(Source(statement.source), items, span, lower, hidden)
    selected = Projection.compile(columns.values(table.column_names), table.schema, (), arguments)
    return like(tables[name], selected(table))


def _with_columns(statement: Statement, select: WindowedSelect) -> str:
    """SELECT's list with columns in place of the calls over windows."""
    edits = [(call.span, call.column) for call in select.calls if call.span.end <= select.items.end]
    edits += [(Span(one.position, one.position), f" AS {quote(one.name)}") for one in select.namings]
    pieces, at = [], select.items.start
    for span, text in sorted(edits, key=lambda edit: edit[0].start):
        pieces += [statement.source[at : span.start], text]
        at = span.end
    return "".join([*pieces, statement.source[at : select.items.end]])


def items_around(statement: Statement, recency: Recency) -> tuple[tuple[exp.Expression, ...], Span]:
    """SELECT's list around two correlated patterns, and its place; the statement has nothing else."""
    tokens = [token for token in statement.tokens if token.kind is not Kind.END]
    if len(statement.patterns) + len(statement.tables) != 2 or statement.common_tables:
        raise _refused(statement, tokens[0], "A statement that is not two patterns over tables")
    before = [token for token in tokens if token.end <= recency.span.start]
    after = [token for token in tokens if token.start >= recency.span.end and not token.is_symbol(";")]
    return _items(statement, before, after)


def match_local(events: Any, text: str, given: Given, options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Find an event pattern or a situation pattern in a table."""
    check_arguments(text, tokenize(text), arguments)
    query = pattern_of(text, strategy_of(given.strategy))
    language = language_of(query)
    language.check_arguments(given)
    language.check_given_events(query)
    if given.detect is not None:
        options = replace(options, detect=given.detect)
    with refusing():
        return like(events, run_local(query, held_table("events", events), given, options, (), arguments))


# ---- the statement around a pattern --------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectedColumns:
    """SELECT's list over a table. names: what may stand before the table's columns."""

    source: Source
    items: tuple[exp.Expression, ...]
    span: Span
    names: frozenset[str]

    def values(self, names: Sequence[str]) -> list[tuple[str, Value]]:
        """The columns over those of a table, which have these names."""
        known = {name.lower() for name in names}
        found: list[tuple[str, Value]] = []
        for item in self.items:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                found += [(name, Copied(name)) for name in self._starred(names)]
                continue
            tree = (item.this if isinstance(item, exp.Alias) else item).transform(self._unqualified)
            for column in tree.find_all(exp.Column):
                if column.parts[0].name.lower() not in known:
                    message = f"There is no column {column.parts[0].name} in the output of the pattern."
                    hint = f"There are: {', '.join(self._starred(names))}."
                    raise self.source.error(EpisodeAnalysisError, message, self.span, hint)
            value = value_of(Computed(tree, tree.sql("spark"), self.source, self.span))
            found.append((name_of(item, tree), value))
        return found

    def _starred(self, names: Sequence[str]) -> Sequence[str]:
        """The columns that `*` means, of those of the table."""
        return names

    def _unqualified(self, node: exp.Expression) -> exp.Expression:
        """A column without the name of the table before it."""
        if isinstance(node, exp.Column) and len(node.parts) > 1 and node.parts[0].name.lower() in self.names:
            first, *rest = node.parts[1:]
            column: exp.Expression = exp.column(first.copy())
            for part in rest:
                column = exp.Dot(this=column, expression=part.copy())
            return column
        return node


@dataclass(frozen=True)
class Selection(SelectedColumns):
    """SELECT's list around a pattern."""

    pattern: AnyPattern


@dataclass(frozen=True)
class WindowColumns(SelectedColumns):
    """SELECT's list over rows that have the values of calls over windows in `hidden` columns."""

    hidden: frozenset[str]

    def _starred(self, names: Sequence[str]) -> Sequence[str]:
        return [name for name in names if name not in self.hidden]


def selection_of(statement: Statement) -> Selection:
    """The one pattern of a statement, which has nothing else but a list of columns."""
    every: list[AnyPattern] = [*statement.patterns, *statement.tables]
    tokens = [token for token in statement.tokens if token.kind is not Kind.END]
    if len(every) != 1 or statement.common_tables:
        raise _refused(statement, tokens[0], "A statement that is not one pattern over one table")
    pattern = every[0]
    after = [token for token in tokens if token.start >= pattern.span.end and not token.is_symbol(";")]
    if after and after[0].upper == "AS":
        after = after[1:]
    alias = None
    if after and after[0].kind in (Kind.NAME, Kind.QUOTED) and after[0].upper not in CLAUSES:
        alias = after.pop(0).identifier
    items, span = _items(statement, [token for token in tokens if token.end <= pattern.span.start], after)
    named = [alias] if alias else []
    if isinstance(pattern, TablePattern) and not alias:
        named += [name for name in (pattern.alias, pattern.name) if name]
    return Selection(Source(statement.source), items, span, frozenset(name.lower() for name in named), pattern)


def _items(
    statement: Statement, before: list[Token], after: list[Token], text: str | None = None
) -> tuple[tuple[exp.Expression, ...], Span]:
    """SELECT's list and its place. before, after: what stands around the patterns; nothing else may. text: of the list,
    where it is not as written."""
    if before[0].upper != "SELECT" or before[-1].upper != "FROM" or before[1].upper in ("DISTINCT", "ALL"):
        raise _refused(statement, before[0], "More than SELECT columns FROM before the pattern")
    if after:
        raise _refused(statement, after[0], f"{after[0].text} after the pattern")
    span = Span(before[1].start, before[-1].start)
    listed = statement.source[span.start : span.end] if text is None else text
    try:
        query = sqlglot.parse_one(f"SELECT {listed} FROM x", read=SparkExpressions)
    except (SqlglotError, RecursionError):
        raise _refused(statement, before[1], "This list of columns") from None
    assert isinstance(query, exp.Select)
    return tuple(query.expressions), span


CLAUSES = frozenset(
    (
        "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "UNION", "EXCEPT",
        "MINUS", "INTERSECT", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL",
        "PIVOT", "UNPIVOT", "TABLESAMPLE", "WINDOW", "QUALIFY",
    )
)  # fmt: skip


def _refused(statement: Statement, token: Token, what: str) -> NeedsSpark:
    return _not_here(statement, Span(token.start, token.end), what)


def _not_here(statement: Statement, span: Span, what: str) -> NeedsSpark:
    return Source(statement.source).locate(NeedsSpark(what, NeedsSpark.STATEMENT), span)


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
        raise Source(statement.source).locate(NeedsSpark("A pattern over a query"), span)
    if name not in tables:
        hint = f"Give it by keyword: {name}=…. Given: {', '.join(tables) or 'none'}."
        raise Source(statement.source).error(EpisodeAnalysisError, f"There is no table {name}.", span, hint)
    return name
