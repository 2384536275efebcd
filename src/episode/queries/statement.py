"""A statement, evaluated from the inside out.

Every MATCH_RECOGNIZE, EVENTS and SITUATIONS becomes a DataFrame; in the statement's text a reference to that DataFrame
stands in its place, and Spark does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.lexer import tokenize
from episode.lang.statement import Statement, TablePattern
from episode.lang.syntax import Span
from episode.lang.table_patterns import PatternQuery, TableQuery
from episode.plan.parameters import check_arguments
from episode.plan.run_options import RunOptions
from episode.plan.schema import quote
from episode.queries.inputs import Table, keyword_tables
from episode.queries.language import Given, Language
from episode.queries.languages import language_of
from episode.queries.options import Options
from episode.queries.planning import plan_over, plan_over_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.query import PlannedQuery

_PATTERN = "__pattern_"


@dataclass
class StatementQuery:
    """One statement on its way to a DataFrame."""

    statement: Statement
    spark: SparkSession
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object] = field(default_factory=dict)
    planned: dict[int, PlannedQuery] = field(default_factory=dict)
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_arguments(self.statement.source, self.statement.tokens, self.arguments)
        self.frames.update(keyword_tables(self.spark, self.tables))

    def result(self) -> DataFrame:
        statement = self.statement
        self.options.check_use(self._languages())
        if statement.whole is None:
            body = self._text(statement.body)
            self._check_options()  # before an INSERT is run
            return self._run(self._with_keyword_tables(body))
        found = self._evaluate(statement.whole, statement.body.start)
        self._check_options()
        return found

    def _check_options(self) -> None:
        """Options of streams where there is none. Without a pattern, streams are Spark's alone."""
        if self.planned or not any(frame.isStreaming for frame in self.frames.values()):
            self.options.check_streams(self.planned.values())

    def _languages(self) -> list[Language[Any]]:
        """The languages of the patterns in the statement."""
        statement = self.statement
        whole = [] if statement.whole is None else [statement.whole]
        return [language_of(query) for query in (*(pattern.query for pattern in self._patterns()), *whole)]

    def _patterns(self) -> list[TablePattern | TableQuery]:
        return [*self.statement.patterns, *self.statement.tables]

    # ---- text ----------------------------------------------------------------------------------------

    def _text(self, span: Span) -> str:
        """The statement's text in a span, with references in place of the patterns in it."""
        inside = [p for p in self._patterns() if span.start <= p.span.start and p.span.end <= span.end]
        inside.sort(key=lambda p: p.span.start)
        outermost = [
            p
            for p in inside
            if not any(o is not p and o.span.start <= p.span.start and p.span.end <= o.span.end for o in inside)
        ]
        pieces, at = [], span.start
        for pattern in outermost:
            pieces += [_escape(self.statement.source[at : pattern.span.start]), f"{{{self._reference(pattern)}}}"]
            at = pattern.span.end
        pieces.append(_escape(self.statement.source[at : span.end]))
        return "".join(pieces)

    def _reference(self, pattern: TablePattern | TableQuery) -> str:
        name = f"{_PATTERN}{pattern.span.start}"
        if name not in self.frames:
            if isinstance(pattern, TablePattern):
                self.frames[name] = self._evaluate_clause(pattern)
            else:
                self.frames[name] = self._evaluate(pattern.query, pattern.span.start)
        return name

    def _with_keyword_tables(self, query: str) -> str:
        """The query with the keyword tables as common tables around it; its own common tables may hide them."""
        if not self.tables:
            return query
        definitions = ", ".join(f"{quote(name)} AS (SELECT * FROM {{{name}}})" for name in self.tables)
        return (
            f"WITH {definitions} {query}" if self.statement.first_word == "INSERT" else f"WITH {definitions} ({query})"
        )

    def _with_common_tables(self, query: str, position: int) -> str:
        """The query, in brackets, inside the WITH lists that a table at a position of the statement sees."""
        nested = f"({query})"
        for tables in reversed(self.statement.with_lists(position)):
            recursive = "RECURSIVE " if tables[0].recursive else ""
            nested = f"(WITH {recursive}{', '.join(self._text(table.span) for table in tables)} {nested})"
        return nested

    def _run(self, text: str) -> DataFrame:
        from episode.spark.tables import run_sql

        used = {name: frame for name, frame in self.frames.items() if f"{{{name}}}" in text}
        return run_sql(self.spark, text, used, self.arguments)

    # ---- patterns ------------------------------------------------------------------------------------

    def _evaluate_clause(self, pattern: TablePattern) -> DataFrame:
        """A pattern with its table before it."""
        frame = self._keyword_table(pattern.name, pattern.span.start) if pattern.plain else None
        if frame is None:
            query = self._with_common_tables(f"SELECT * FROM {self._text(pattern.input)}", pattern.span.start)
            frame = self._run(self._with_keyword_tables(query))
        names = tuple(name for name in (pattern.alias or pattern.name,) if name)
        planned = plan_over(self.spark, pattern.query, frame, Given(), self._options(), names=names)
        self.planned[pattern.span.start] = planned
        return planned.frame()

    def _evaluate(self, query: PatternQuery, position: int) -> DataFrame:
        """A pattern that names one table of all events (FROM), or has one per class."""
        language = language_of(query)
        named, classes = language.table(query), language.classes(query)
        if named is not None:
            frame = self._table(named[0], position)
            planned = plan_over(self.spark, query, frame, Given(), self._options())
        elif classes:
            frames = {name: self._class_table(query, name, place, position) for name, place in classes.items()}
            planned = plan_over_classes(self.spark, query, frames, Given(), self._options())
        else:
            raise query.source.error(
                EpisodeAnalysisError,
                f"The events of the {language.name} are missing.",
                query.source.span.beginning,
                "Write FROM table before DEFINE.",
            )
        self.planned[position] = planned
        return planned.frame()

    def _options(self) -> RunOptions:
        """Those of the next pattern."""
        taken = {planned.counters for planned in self.planned.values()}
        numbers = count(len(self.planned) + 1)
        runs = (self.options.run(number, self.arguments) for number in numbers)
        return next(run for run in runs if run.counters not in taken)

    def _keyword_table(self, name: str | None, position: int) -> DataFrame | None:
        """The keyword table that a name of one part means, unless a common table hides it."""
        if name not in self.tables or self.statement.is_common(name, position):
            return None
        return self.frames[name]

    def _table(self, name: str, position: int) -> DataFrame:
        """A table of the statement by its written name: a keyword table, a common table, or one of the catalog."""
        parts = tokenize(name)[:-1]
        given = self._keyword_table(parts[0].identifier, position) if len(parts) == 1 else None
        if given is not None:
            return given
        query = self._with_common_tables(f"SELECT * FROM {_escape(name)}", position)
        return self._run(self._with_keyword_tables(query))

    def _class_table(self, query: PatternQuery, name: str, place: Span, position: int) -> DataFrame:
        """The table of a class."""
        try:
            return self._table(quote(name), position)
        except EpisodeAnalysisError:
            if name in self.tables or any(table.name.lower() == name.lower() for table in self.statement.common_tables):
                raise
            raise query.source.error(
                EpisodeAnalysisError,
                f"There is no table {name} for the class {name}.",
                place,
                "Give it as a keyword, or name the table of all events: FROM events TYPE BY column PATTERN …",
            ) from None


def _escape(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; the statement's own are doubled."""
    return text.replace("{", "{{").replace("}", "}}")
