"""A statement, evaluated from the inside out.

Every MATCH_RECOGNIZE, EVENTS and SITUATIONS becomes a DataFrame; in the statement's text a reference to that DataFrame
stands in its place, and Spark does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import EventQuery, classes_of
from episode.lang.lexer import tokenize
from episode.lang.situations.syntax import SituationQuery
from episode.lang.statement import Statement, TablePattern
from episode.lang.syntax import Span
from episode.lang.table_patterns import TableEvents, TableSituations
from episode.plan.schema import quote
from episode.queries.inputs import Table, keyword_tables
from episode.queries.options import EVENTS, ROWS, SITUATIONS, Options
from episode.queries.patterns import plan_events, plan_situations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AnyPattern = Union[TablePattern, TableEvents, TableSituations]
_PATTERN = "__pattern_"


@dataclass
class StatementQuery:
    """One statement on its way to a DataFrame."""

    statement: Statement
    spark: SparkSession
    options: Options
    tables: dict[str, Table]
    planned: dict[int, Any] = field(default_factory=dict)
    frames: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames.update(keyword_tables(self.spark, self.tables))

    def result(self) -> DataFrame:
        statement = self.statement
        self.options.check_use(self._kinds())
        if isinstance(statement.whole, SituationQuery):
            found = self._evaluate_situations(statement.whole, statement.body.start)
        elif isinstance(statement.whole, EventQuery):
            found = self._evaluate_events(statement.whole, statement.body.start)
        else:
            body = self._text(statement.body)
            self._check_options()  # before an INSERT is run
            return self._run(self._with_keyword_tables(body))
        self._check_options()
        return found

    def _check_options(self) -> None:
        """Options of streams where there is none. Without a pattern, streams are Spark's alone."""
        if self.planned or not any(frame.isStreaming for frame in self.frames.values()):
            self.options.check_streams(self.planned.values())

    def _kinds(self) -> set[str]:
        """The kinds of patterns that are in the statement."""
        statement = self.statement
        whole = statement.whole
        there = {
            ROWS: bool(statement.patterns),
            EVENTS: bool(statement.events) or isinstance(whole, EventQuery),
            SITUATIONS: bool(statement.situations) or isinstance(whole, SituationQuery),
        }
        return {kind for kind, found in there.items() if found}

    # ---- text ----------------------------------------------------------------------------------------

    def _text(self, span: Span) -> str:
        """The statement's text in a span, with references in place of the patterns in it."""
        statement = self.statement
        every: list[AnyPattern] = [*statement.patterns, *statement.events, *statement.situations]
        inside = [p for p in every if span.start <= p.span.start and p.span.end <= span.end]
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

    def _reference(self, pattern: AnyPattern) -> str:
        name = f"{_PATTERN}{pattern.span.start}"
        if name not in self.frames:
            if isinstance(pattern, TableSituations):
                self.frames[name] = self._evaluate_situations(pattern.query, pattern.span.start)
            elif isinstance(pattern, TableEvents):
                self.frames[name] = self._evaluate_events(pattern.query, pattern.span.start)
            else:
                self.frames[name] = self._evaluate(pattern)
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
        return run_sql(self.spark, text, used)

    # ---- row patterns --------------------------------------------------------------------------------

    def _evaluate(self, pattern: TablePattern) -> DataFrame:
        from episode.spark.row_pattern import plan_on_spark

        frame = self._keyword_table(pattern.name, pattern.span.start) if pattern.plain else None
        if frame is None:
            query = self._with_common_tables(f"SELECT * FROM {self._text(pattern.input)}", pattern.span.start)
            frame = self._run(self._with_keyword_tables(query))
            if frame.isStreaming and f"{{{_PATTERN}" in query:
                raise pattern.clause.source.error(
                    EpisodeUnsupportedError,
                    "One MATCH_RECOGNIZE over the output of another is not possible in one streaming query.",
                    pattern.clause.source.span.beginning,
                    "Write the matches of the first to a table or a topic; run the second as a query of its own.",
                )
        names = tuple(name for name in (pattern.alias or pattern.name,) if name)
        planned = plan_on_spark(
            self.spark,
            frame,
            pattern.clause,
            names,
            step_budget=self.options.step_budget,
            shards=self.options.shards,
            shard_bytes=self.options.shard_bytes,
            live=self.options.live(),
            match_times=self.options.match_times,
            metrics=self._counters(),
        )
        self.planned[pattern.span.start] = planned
        return planned.frame()

    def _counters(self) -> str:
        """The name of a stream's counters: the first pattern's is the plain one."""
        name = self.options.counters
        return name if not self.planned else f"{name}_{len(self.planned) + 1}"

    # ---- event patterns ------------------------------------------------------------------------------

    def _evaluate_events(self, query: EventQuery, position: int) -> DataFrame:
        """One table of all events (FROM), or one per class."""
        from episode.spark.event_pattern import EventOptions, EventSource, one_stream

        given = query.input
        wanted = EventOptions(given.time, given.start, given.partition_by, given.type_column, None)
        if query.input.table is not None:
            source = EventSource(self._table(query.input.table, position), {})
        else:
            names = dict.fromkeys(one.name for one in classes_of(query.pattern))
            source = one_stream(query, {name: self._class_table(query, name, position) for name in names}, wanted)
        planned = plan_events(self.spark, query, source, wanted, self.options, self._counters())
        self.planned[position] = planned
        return planned.frame()

    # ---- situation patterns --------------------------------------------------------------------------

    def _evaluate_situations(self, query: SituationQuery, position: int) -> DataFrame:
        source = query.input
        if source.table is None:
            raise query.source.error(
                EpisodeAnalysisError,
                "The events of the situation pattern are missing.",
                query.source.span.beginning,
                "Write FROM table before DEFINE.",
            )
        frame = self._table(source.table, position)
        planned = plan_situations(
            self.spark, query, frame, source.time, source.partition_by, self.options, self._counters()
        )
        self.planned[position] = planned
        return planned.frame()

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
        frame = self._run(self._with_keyword_tables(query))
        if frame.isStreaming and f"{{{_PATTERN}" in query:
            raise EpisodeUnsupportedError(
                "One pattern over the matches of another is not possible in one streaming query.",
                source=self.statement.source,
                position=position,
                hint="Write the matches of the first to a table or a topic; run the second as a query of its own.",
            )
        return frame

    def _class_table(self, query: EventQuery, name: str, position: int) -> DataFrame:
        """The table of a class."""
        try:
            return self._table(quote(name), position)
        except EpisodeAnalysisError:
            if name in self.tables or any(table.name.lower() == name.lower() for table in self.statement.common_tables):
                raise
            place = next(one.span for one in classes_of(query.pattern) if one.name == name)
            raise query.source.error(
                EpisodeAnalysisError,
                f"There is no table {name} for the class {name}.",
                place,
                "Give it as a keyword, or name the table of all events: FROM events TYPE BY column PATTERN …",
            ) from None


def _escape(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; the statement's own are doubled."""
    return text.replace("{", "{{").replace("}", "}}")
