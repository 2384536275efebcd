"""A statement, evaluated from the inside out.

Every MATCH_RECOGNIZE, EVENTS and SITUATIONS becomes a DataFrame; in the statement's text a reference to that DataFrame
replaces it, and Spark does the rest. Two patterns that RECENCY correlates become one DataFrame, of pairs. A SELECT with
row patterns in windows reads one DataFrame of its rows, with a column for each call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import count
from operator import methodcaller, or_
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Recency
from episode.lang.creation import Creation, Insertion, insertion, view_of
from episode.lang.rows.scalar import Subquery
from episode.lang.rows.syntax import WindowedSelect
from episode.lang.statement import CHANGES, QUERY_WORDS, USE_DATAFRAME, Statement
from episode.lang.syntax import Span, Star
from episode.plan.options import Options, RunOptions
from episode.plan.schema import quote
from episode.queries.bound_statement import BoundStatement, StatementPair, StatementPattern
from episode.queries.language import Given
from episode.queries.options import check_streams, check_use
from episode.queries.origins import PlacedPattern, QueryOrigin
from episode.queries.planning import PatternEvents, events_of_classes, plan_over, plan_pair, warn_of_input
from episode.queries.streams import insert, insertion_target, run_stream_statement, streams_in
from episode.queries.substitution import (
    WINDOWS,
    escape_braces,
    hidden_columns,
    lateral,
    mentioned_names,
    subquery_rows,
    tables_text,
    window_replacements,
    without_unread,
)
from episode.queries.tables import Table, keyword_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.query import Planned
    from episode.store.declaration import Declaration

_PATTERN, _PAIRS, _TABLE = "__pattern_", "__pairs_", "__table_"
"""Prefixes of references to DataFrames in the text for Spark: of patterns, of pairs, and of given tables."""

_RESULT = "__result"
"""The reference to the result of a statement that episode runs itself."""


def _is_named(name: str, query: str) -> bool:
    """May a query read the table of this name? Not if the name is nowhere in its text."""
    return re.search(rf"(?<!\w){re.escape(escape_braces(quote(name)[1:-1]))}(?!\w)", query, re.IGNORECASE) is not None


@dataclass
class StatementQuery:
    """One statement on its way to a DataFrame.

    tables: given to it, checked. given: the same as DataFrames. frames: DataFrames that the text for Spark has as
    {reference}. framed: makes a DataFrame of a planned pattern; `checking` has another function, and does not warn.
    """

    bound: BoundStatement
    spark: SparkSession
    options: Options
    tables: dict[str, Table]
    placed: dict[int, PlacedPattern] = field(default_factory=dict)
    frames: dict[str, DataFrame] = field(default_factory=dict)
    copied: set[tuple[int, int]] = field(default_factory=set)
    given: dict[str, DataFrame] = field(default_factory=dict)
    framed: Callable[[Planned], DataFrame] = methodcaller("frame")
    warns: bool = True

    def __post_init__(self) -> None:
        self._give(keyword_tables(self.spark, self.tables))

    @property
    def statement(self) -> Statement:
        return self.bound.statement

    def _give(self, tables: Mapping[str, DataFrame]) -> None:
        for name, frame in tables.items():
            self.frames[f"{_TABLE}{len(self.given)}"] = frame
            self.given[name] = frame

    def result(self) -> DataFrame:
        statement = self.statement
        if statement.streams is not None:
            return run_stream_statement(self.spark, statement.streams)
        self._prepare()
        into = self._stream_target()
        if into is not None:
            inserted, target = into
            rows = self._run(self._with_keyword_tables(self._text(inserted.query), inserted=False))
            self._check_options()
            return insert(statement, inserted, target, rows)
        if statement.creation is not None and (self.bound.patterns or statement.windowed or self.given):
            return self._create(statement.creation)
        whole = self.bound.whole
        if whole is None:
            body = self._text(statement.body)
            self._check_options()  # before an INSERT is run
            return self._run(self._with_keyword_tables(body))
        found = self._plan(whole.query, self._events(whole), whole.span.start)
        self._check_options()
        return found

    @property
    def planned(self) -> dict[int, Planned]:
        """The patterns that are planned, by their place in the text."""
        return {position: placed.planned for position, placed in self.placed.items()}

    @property
    def origin(self) -> QueryOrigin:
        patterns = tuple(placed for _, placed in sorted(self.placed.items()))
        why = "it is about streams." if self.statement.streams is not None else "Spark evaluates all of it."
        return QueryOrigin(self.statement.source, self.spark, patterns, f"No pattern in this statement: {why}")

    def plan(self) -> None:
        """Plan the patterns; what the statement changes or makes (CREATE, INSERT) is not done."""
        if self.statement.streams is None and not self.statement.changes:
            self.result()
        elif self.statement.streams is None:
            self._prepare()
            self._text(self.statement.body)
            self._check_options()

    def parts(self) -> list[tuple[Span, str]]:
        """The whole statement in parts, each with its text for Spark: {name} in it is the DataFrame `frames[name]`.

        Patterns are planned, and what is around them is left to whoever runs the text. Statements that only episode
        can run (of streams, or a pattern alone) are run, and one part has their result.
        """
        statement, everything = self.statement, Span(0, len(self.statement.source))
        if statement.streams is not None or self.bound.whole is not None or self._stream_target() is not None:
            self.frames[_RESULT] = self.result()
            return [(everything, f"TABLE {{{_RESULT}}}")]
        self._prepare()
        query = statement.body if statement.creation is None else statement.creation.query
        inside = self._parts(query)
        definitions = self._definitions("".join(text for _, text in inside))
        if definitions:
            closing = "" if statement.first_word in CHANGES else ")"
            inside = [
                (Span(query.start, query.start), definitions + ("(" if closing else "")),
                *inside,
                (Span(query.end, query.end), closing),
            ]
        self._check_options()
        return [
            *self._parts(Span(0, query.start)),
            *inside,
            *self._parts(Span(query.end, everything.end)),
        ]

    def _stream_target(self) -> tuple[Insertion, Declaration] | None:
        """The INSERT that this statement is, and the stream that it appends to; None for any other one."""
        inserted = insertion(self.statement)
        target = None if inserted is None else insertion_target(self.spark, self.statement, inserted)
        return None if inserted is None or target is None else (inserted, target)

    def _prepare(self) -> None:
        """Options that have no meaning are refused; streams that are named become tables."""
        check_use(self.options, self.bound.languages)
        streams = streams_in(self.spark, self.statement, self.given)
        first = self.statement.tokens[0]
        if streams and first.upper not in QUERY_WORDS and self.statement.creation is None:
            message = (
                f"{next(iter(streams))} is a stream or an archive: a table of queries and INSERT, not of {first.text}."
            )
            raise self.bound.source.error(EpisodeUnsupportedError, message, first.span, USE_DATAFRAME)
        self._give(streams)

    def _create(self, created: Creation) -> DataFrame:
        """A table by Spark, of the query's rows; a view of the query's DataFrame, which stays as it is."""
        from episode.spark.tables import create_view

        view = view_of(self.statement.source, self.statement.tokens, created)
        query = self._with_keyword_tables(self._text(created.query), inserted=False)
        self._check_options()
        if view is None:
            return self._run(f"{self._text(created.head)}{query}")
        return create_view(self._run(query), view.name, view.columns, view.replaces, view.everywhere)

    def _check_options(self) -> None:
        """Check that options of streams have a stream. Without a pattern, streams are Spark's alone."""
        if self.planned or not any(frame.isStreaming for frame in self.frames.values()):
            check_streams(self.options, self.planned.values())

    # ---- text ----------------------------------------------------------------------------------------

    def _text(self, span: Span) -> str:
        """The statement's text in a span, with references in place of the patterns in it."""
        return "".join(text for _, text in self._parts(span))

    def _parts(self, span: Span) -> list[tuple[Span, str]]:
        """The patterns in a span and what is between them, each with its text for Spark."""
        inside = [(one, text) for one, text in self._replacements() if span.covers(one)]
        inside.sort(key=lambda replacement: replacement[0].start)
        parts, at = [], span.start
        for one, text in inside:
            if not any(other is not one and other.covers(one) for other, _ in inside):
                parts += [self._copy(at, one.start), (one, text())]
                at = one.end
        parts.append(self._copy(at, span.end))
        return parts

    def _copy(self, start: int, end: int) -> tuple[Span, str]:
        """Copy a part of the statement for Spark, and remember its place for errors."""
        self.copied.add((start, end))
        return Span(start, end), escape_braces(self.statement.source[start:end])

    def _replacements(self) -> list[tuple[Span, Callable[[], str]]]:
        """Texts in place of patterns, of correlated ones and their `*`, and of calls over windows."""
        found: list[tuple[Span, Callable[[], str]]] = []
        found += [(one.span, partial(self._reference_text, one)) for one in self.bound.patterns]
        for pair in self.bound.pairs:
            found.append((pair.recency.span, partial(self._pairs_text, pair)))
            found += [(star.place, partial(self._star_text, pair, star)) for star in pair.recency.stars]
        for select in self.statement.windowed:
            found += window_replacements(select, partial(self._windows, select), self._text)
        return found

    def _reference_text(self, pattern: StatementPattern) -> str:
        name = f"{_PATTERN}{pattern.span.start}"
        if name not in self.frames:
            self.frames[name] = self._plan(pattern.query, self._events(pattern), pattern.span.start)
        return f"{{{name}}}"

    def _pairs_text(self, pair: StatementPair) -> str:
        """Two correlated patterns, and the conditions next to RECENCY."""
        name = self._pairs(pair)
        columns = self.frames[name].columns
        first, second = (
            lateral(columns, prefix, self._text(table.naming))
            for (prefix, _), table in zip(pair.in_order, pair.recency.tables, strict=True)
        )
        return tables_text(name, first, second, [self._text(condition) for condition in pair.recency.conditions])

    def _star_text(self, pair: StatementPair, star: Star) -> str:
        return star.without(hidden_columns(self.frames[self._pairs(pair)].columns))

    def _windows(self, select: WindowedSelect) -> str:
        """The name of the rows of a SELECT, with a column for each call over its windows with row patterns."""
        name, position = f"{WINDOWS}{select.span.start}", select.rows.start
        if name not in self.frames:
            frame = self._keyword_table(select.name, position) if select.plain and select.condition is None else None
            if frame is None:
                frame = self._read(self._text(select.rows), position)
            frame = without_unread(frame, select, self.statement.tokens)
            names = tuple(one for one in (select.alias or select.name,) if one)
            for window in select.windows:
                frame = self._plan(window, PatternEvents(frame, names=names), window.source.span.start)
            self.frames[name] = frame
        return name

    def _pairs(self, pair: StatementPair) -> str:
        position, query = pair.recency.span.start, pair.query
        name = f"{_PAIRS}{position}"
        if name not in self.frames:
            live, archive = self._events(pair.live), self._events(pair.archive)
            run = self._options(query.live, query.archive)
            planned = plan_pair(self.spark, query, live, archive, run, self._pair_columns(pair.recency))
            self.placed[position] = PlacedPattern(query, (live, archive), planned, run)
            self.frames[name] = self.framed(planned)
        return name

    def _pair_columns(self, recency: Recency) -> frozenset[str] | None:
        """The only columns of pairs that can be asked for, by name; None: it may be any, or their order counts."""
        if any(table.columns for table in recency.tables):
            return None
        patterns = [table.span for table in recency.tables]
        return mentioned_names(
            [one for one in self.statement.tokens if not any(span.start <= one.start < span.end for span in patterns)]
        )

    def _with_keyword_tables(self, query: str, *, inserted: bool = True) -> str:
        """The query with the keyword tables in it as common tables around it; its own common tables may hide them.

        inserted: an INSERT statement, or another that changes a table, is kept as a whole.
        """
        definitions = self._definitions(query)
        if not definitions:
            return query
        whole = inserted and self.statement.first_word in CHANGES
        return f"{definitions}{query}" if whole else f"{definitions}({query})"

    def _definitions(self, query: str) -> str:
        """WITH and the keyword tables that a query names; nothing if it names none."""
        named = [(at, name) for at, name in enumerate(self.given) if _is_named(name, query)]
        tables = ", ".join(f"{escape_braces(quote(name))} AS (SELECT * FROM {{{_TABLE}{at}}})" for at, name in named)
        return f"WITH {tables} " if named else ""

    def _with_common_tables(self, query: str, position: int) -> str:
        """The query, in brackets, inside the WITH lists that a table at a position of the statement sees."""
        nested = f"({query})"
        for tables in reversed(self.statement.with_lists(position)):
            recursive = "RECURSIVE " if tables[0].recursive else ""
            nested = f"(WITH {recursive}{', '.join(self._text(table.span) for table in tables)} {nested})"
        return nested

    def _run(self, text: str) -> DataFrame:
        from episode.spark.errors import Copies
        from episode.spark.tables import run_sql

        used = {name: frame for name, frame in self.frames.items() if f"{{{name}}}" in text}
        return run_sql(self.spark, text, used, self.bound.arguments, Copies(self.statement.source, self.copied))

    def _events(self, pattern: StatementPattern) -> PatternEvents:
        position = pattern.span.start
        if pattern.table is not None:
            frame = self._keyword_table(pattern.table.name, position)
            if frame is None:
                frame = self._read(self._text(pattern.table.span), position)
            return PatternEvents(frame, names=pattern.names)
        if pattern.classes:
            frames = {name: self._class_table(pattern, name) for name in pattern.classes}
            return events_of_classes(self.spark, pattern.query, frames, Given())
        raise pattern.missing_events("Write FROM table before DEFINE.")

    def _plan(self, query: object, events: PatternEvents, position: int) -> DataFrame:
        run = self._options(query)
        planned = plan_over(self.spark, query, events, run)
        if self.warns:
            warn_of_input(query, events, planned)
        self.placed[position] = PlacedPattern(query, (events,), planned, run)
        return self.framed(planned)

    def _options(self, *queries: object) -> RunOptions:
        """Options of the next pattern, or pair of patterns."""
        subqueries = [subquery_rows(query, self.bound.source, self._subquery) for query in queries]
        arguments = reduce(or_, subqueries, dict(self.bound.arguments))
        taken = {planned.counters for planned in self.planned.values()}
        numbers = count(len(self.planned) + 1)
        runs = (self.options.run(number, arguments) for number in numbers)
        return next(run for run in runs if run.counters not in taken)

    def _subquery(self, subquery: Subquery) -> DataFrame:
        """The rows of a subquery in a pattern, which sees the tables that the pattern sees."""
        query, position = self._text(subquery.span), subquery.span.start
        named = {one.identifier for one in self.statement.tokens if position <= one.start < subquery.span.end}
        if any(self.statement.is_common(name, position) for name in named):
            query = self._with_common_tables(query, position)
        return self._run(self._with_keyword_tables(query))

    def _keyword_table(self, name: str | None, position: int) -> DataFrame | None:
        """The keyword table that a name of one part means, unless a common table hides it."""
        if name not in self.given or self.statement.is_common(name, position):
            return None
        return self.given[name]

    def _class_table(self, pattern: StatementPattern, name: str) -> DataFrame:
        position = pattern.span.start
        given = self._keyword_table(name, position)
        if given is not None:
            return given
        try:
            return self._read(escape_braces(quote(name)), position)
        except (EpisodeAnalysisError, EpisodeUnsupportedError):
            if name in self.given or any(table.name.lower() == name.lower() for table in self.statement.common_tables):
                raise
            message = f"There is no table {name} for the class {name}."
            hint = "Give it as a keyword, or name the table of all events: FROM events TYPE BY column PATTERN …"
            raise pattern.source.error(EpisodeAnalysisError, message, pattern.classes[name], hint) from None

    def _read(self, table: str, position: int) -> DataFrame:
        """The rows of a table as Spark sees it at a position of the statement."""
        query = self._with_common_tables(f"SELECT * FROM {table}", position)
        return self._run(self._with_keyword_tables(query))
