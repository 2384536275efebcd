"""The front end: a statement with its patterns, the tables that they read, and the SELECT list around them.

Spark, in-process and live execution, rules and sizing start from a `BoundStatement`. Each finds the tables in its own
way: given by keyword, in Spark's catalog, or among the declared streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation, Recency
from episode.lang.lexer import Kind, Token, tokenize, words_of
from episode.lang.rows.syntax import PatternWindow, WindowedSelect
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import pattern_of
from episode.plan.compilable import NO_ARGUMENTS
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.parameters import Arguments, check_arguments
from episode.plan.schema import quote
from episode.queries.language import Given, Language
from episode.queries.languages import language_of
from episode.queries.languages.correlation import CORRELATIONS, correlation_of
from episode.queries.languages.events import strategy_of
from episode.queries.selection import SelectedTable, Selection, parse_items
from episode.words import plural

CLAUSES = words_of("""
    WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION EXCEPT MINUS INTERSECT JOIN INNER LEFT RIGHT
    FULL CROSS NATURAL SEMI ANTI LATERAL PIVOT UNPIVOT TABLESAMPLE WINDOW QUALIFY
""")
"""Words after a pattern that are not its alias."""


@dataclass(frozen=True)
class OnePattern:
    """A place for statements with one pattern.

    called: what is run there. refuses: the predicate of errors about the rest of a statement. remedy: their hint.
    """

    called: str
    refuses: str
    remedy: str

    def only_one(self, bound: BoundStatement) -> EpisodeUnsupportedError:
        """The error for a statement that does not have exactly one pattern."""
        found = bound.patterns
        number = f"{len(found) or 'no'} {plural(len(found) or 1, 'pattern')}"
        place = found[1].span if len(found) > 1 else bound.statement.tokens[0].span
        if bound.statement.windowed:
            number, place = "row patterns in windows", bound.statement.windowed[0].items
        verb = "are" if number.endswith("s") else "is"
        message = f"There {verb} {number} in this query; {self.called} has one pattern."
        return bound.source.error(EpisodeUnsupportedError, message, place, self.remedy)

    def refuse(self, source: Source, what: str, span: Span) -> EpisodeUnsupportedError:
        return source.error(EpisodeUnsupportedError, f"{what} {self.refuses}.", span, self.remedy)


@dataclass(frozen=True)
class EventsTable:
    """The table of a pattern's events. name: if it is a name of one part; otherwise it is a query, or has a schema.
    names: those that may be written before its columns."""

    span: Span
    written: str
    name: str | None = None
    names: tuple[str, ...] = ()

    @property
    def has_schema(self) -> bool:
        tokens = tokenize(self.written)[:-1]
        return len(tokens) > 1 and all(token.is_symbol(".") for token in tokens[1::2])


@dataclass(frozen=True)
class StatementPattern:
    """A pattern of a statement, whose events are in one table, or in a table per class.

    classes: their places. output_names: those that may be written before the columns of its matches.
    """

    query: Any
    span: Span
    table: EventsTable | None = None
    classes: Mapping[str, Span] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()

    @property
    def language(self) -> Language[Any]:
        return language_of(self.query)

    @property
    def source(self) -> Source:
        return self.language.source(self.query)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that may be written before columns of its events."""
        return () if self.table is None else self.table.names

    def missing_events(self, hint: str) -> EpisodeAnalysisError:
        message = f"The events of the {self.language.name} are missing."
        return self.source.error(EpisodeAnalysisError, message, self.source.span.beginning, hint)


@dataclass(frozen=True)
class StatementPair:
    """Two patterns of a statement that RECENCY correlates. live_first: is the live one the first in the text?"""

    recency: Recency
    query: Correlation
    live: StatementPattern
    archive: StatementPattern
    live_first: bool

    @property
    def in_order(self) -> tuple[tuple[str, StatementPattern], ...]:
        """Both patterns as they are in the text, each with the prefix of its columns."""
        pairs = ((LIVE_PREFIX, self.live), (ARCHIVE_PREFIX, self.archive))
        return pairs if self.live_first else pairs[::-1]


@dataclass(frozen=True)
class BoundStatement:
    """A statement with its patterns, in the order of the text. pairs: those that are correlated. arguments: the values
    of its parameters."""

    statement: Statement
    arguments: Arguments
    patterns: tuple[StatementPattern, ...] = ()
    pairs: tuple[StatementPair, ...] = ()

    @classmethod
    def of(cls, statement: Statement, arguments: Arguments = NO_ARGUMENTS) -> BoundStatement:
        """Find the patterns of a statement, without a check of the arguments."""
        if statement.whole is not None:
            return cls(statement, arguments, (_own_tables(statement.whole, statement.body),))
        inputs = [_over_input(statement.source, pattern) for pattern in statement.patterns]
        own = [_own_tables(table.query, table.span) for table in statement.tables]
        patterns = {one.span: one for one in sorted((*inputs, *own), key=lambda one: one.span.start)}
        pairs = []
        for recency in statement.recencies:
            query, live_first = correlation_of(statement, recency)
            first, second = (patterns[table.span] for table in recency.tables)
            live, archive = (first, second) if live_first else (second, first)
            pairs.append(StatementPair(recency, query, live, archive, live_first))
        return cls(statement, arguments, tuple(patterns.values()), tuple(pairs))

    @property
    def source(self) -> Source:
        return Source(self.statement.source)

    @property
    def whole(self) -> StatementPattern | None:
        """The pattern, if the text is nothing else."""
        return None if self.statement.whole is None else self.patterns[0]

    @property
    def windows(self) -> tuple[PatternWindow, ...]:
        return tuple(window for select in self.statement.windowed for window in select.windows)

    @property
    def languages(self) -> list[Language[Any]]:
        queries = (*(pattern.query for pattern in self.patterns), *self.windows)
        return [*(language_of(query) for query in queries), *([CORRELATIONS] if self.pairs else [])]

    def only(self, place: OnePattern) -> StatementPattern:
        if len(self.patterns) != 1 or self.statement.windowed:
            raise place.only_one(self)
        return self.patterns[0]

    def selected_pattern(self, place: OnePattern) -> tuple[StatementPattern, Selection | None]:
        """Return the one pattern of a statement that is otherwise only a list of columns, and this list, if any."""
        pattern = self.only(place)
        if self.statement.whole is not None:
            return pattern, None
        self._check_common_tables(place)
        before, after = self._around(pattern.span)
        if after and after[0].upper == "AS":
            after = after[1:]
        names = pattern.output_names
        if after and after[0].is_name and after[0].upper not in CLAUSES:
            names = (after.pop(0).identifier,)
        return pattern, self._selection(place, before, after, (SelectedTable(names),))

    def selected_pair(self, place: OnePattern) -> tuple[StatementPair, Selection]:
        """Return the two correlated patterns of a statement that is otherwise only a list of columns, and this list."""
        pair = self.pairs[0]
        if len(self.patterns) != 2:
            raise place.only_one(self)
        self._check_common_tables(place)
        tables = tuple(
            SelectedTable((table.alias,) if table.alias else pattern.names, prefix, table.columns)
            for table, (prefix, pattern) in zip(pair.recency.tables, pair.in_order, strict=True)
        )
        before, after = self._around(pair.recency.span)
        return pair, self._selection(place, before, after, tables, conditions=pair.recency.conditions)

    def selected_windows(self, place: OnePattern) -> tuple[WindowedSelect, EventsTable, Selection]:
        """Return the one SELECT of a statement with row patterns in windows, its table, and its list of columns, in
        which columns replace the calls over windows."""
        select = self.statement.windowed[0]
        first = self.statement.tokens[0].span
        if self.patterns or len(self.statement.windowed) > 1:
            raise place.refuse(self.source, "A statement that is not one SELECT over one table", first)
        self._check_common_tables(place)
        if select.kept:
            raise place.refuse(self.source, "A window without a row pattern", select.kept[0])
        if select.condition is not None:
            raise place.refuse(self.source, "WHERE", select.condition)
        if any(star.excepted is not None for star in select.stars):
            raise place.refuse(self.source, "* EXCEPT", first)
        names = tuple(name for name in (select.alias or select.name,) if name)
        written = self.source.text_at(select.tables)
        table = EventsTable(select.tables, written, select.name if select.plain else None, names)
        before, after = self._around(select.rows)
        if select.definitions is not None:
            inside = select.definitions
            after = [token for token in after if not inside.start <= token.start < inside.end]
        hidden = frozenset(call.column for call in select.calls)
        text = _with_columns(self.statement.source, select)
        return select, table, self._selection(place, before, after, (SelectedTable(names, hidden=hidden),), text)

    def _check_common_tables(self, place: OnePattern) -> None:
        if self.statement.common_tables:
            at = self.statement.common_tables[0].opening
            raise place.refuse(self.source, "WITH", Span(at, at + len("WITH")))

    def _around(self, span: Span) -> tuple[list[Token], list[Token]]:
        """The tokens before and after a part of the statement."""
        tokens = [one for one in self.statement.tokens if one.kind is not Kind.END and not one.is_symbol(";")]
        return [one for one in tokens if one.end <= span.start], [one for one in tokens if one.start >= span.end]

    def _selection(
        self,
        place: OnePattern,
        before: Sequence[Token],
        after: Sequence[Token],
        tables: tuple[SelectedTable, ...],
        text: str | None = None,
        conditions: tuple[Span, ...] = (),
    ) -> Selection:
        """The list of columns between tokens around the patterns. text: of the list, if it is not as written."""
        if before[0].upper != "SELECT" or before[-1].upper != "FROM" or before[1].upper in ("DISTINCT", "ALL"):
            raise place.refuse(self.source, "More than SELECT columns FROM before the pattern", before[0].span)
        if after:
            raise place.refuse(self.source, f"{after[0].text} after the pattern", after[0].span)
        span = Span(before[1].start, before[-1].start)
        items = parse_items(self.source.text_at(span) if text is None else text)
        if items is None:
            raise place.refuse(self.source, "This list of columns", before[1].span)
        return Selection(self.source, items, span, tables, conditions)


def bind_statement(text: str, arguments: Arguments = NO_ARGUMENTS) -> BoundStatement:
    return bind_parsed(parse_statement(text), arguments)


def bind_parsed(statement: Statement, arguments: Arguments = NO_ARGUMENTS) -> BoundStatement:
    check_arguments(statement.source, statement.tokens, arguments)
    return BoundStatement.of(statement, arguments)


def parse_pattern(text: str, given: Given, arguments: Arguments = NO_ARGUMENTS) -> StatementPattern:
    """A text that is nothing but a pattern of any language."""
    check_arguments(text, tokenize(text), arguments)
    query = pattern_of(text, strategy_of(given.strategy))
    return _own_tables(query, Span(0, len(text)))


def _over_input(source: str, pattern: TablePattern) -> StatementPattern:
    names = tuple(name for name in (pattern.alias, pattern.name) if name)
    written = source[pattern.input.start : pattern.input.end]
    table = EventsTable(pattern.input, written, pattern.name if pattern.plain else None, names[:1])
    return StatementPattern(pattern.query, pattern.span, table, output_names=names)


def _own_tables(query: Any, span: Span) -> StatementPattern:
    language = language_of(query)
    table = language.table(query)
    if table is None:
        return StatementPattern(query, span, classes=language.classes(query))
    written, place = table
    parts = tokenize(written)[:-1]
    return StatementPattern(query, span, EventsTable(place, written, parts[0].identifier if len(parts) == 1 else None))


def _with_columns(source: str, select: WindowedSelect) -> str:
    """SELECT's list with columns in place of the calls over windows."""
    edits = [(call.span, call.column) for call in select.calls if call.span.end <= select.items.end]
    edits += [(Span(one.position, one.position), f" AS {quote(one.name)}") for one in select.namings]
    pieces, at = [], select.items.start
    for span, text in sorted(edits, key=lambda edit: edit[0].start):
        pieces += [source[at : span.start], text]
        at = span.end
    return "".join([*pieces, source[at : select.items.end]])
