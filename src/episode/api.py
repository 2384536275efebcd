"""The public functions: `sql` and `explain`.

A statement is evaluated from the inside out. Every MATCH_RECOGNIZE becomes a DataFrame; in the statement's text a
reference to that DataFrame stands in its place, and Spark does the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from os.path import abspath, exists
from typing import TYPE_CHECKING, Any, Union

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.lang.syntax import Span
from episode.plan.explain import explain_row_pattern
from episode.plan.schema import quote

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.row_pattern import RowPatternQuery
    from episode.spark.stream import LiveOptions

Table = Union["DataFrame", str, "PathLike[str]"]
_PATTERN = "__pattern_"
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "INSERT", "")


@dataclass(frozen=True)
class Options:
    """Limits of a query's evaluation.

    step_budget: steps of matching from one start row before an explosion is reported.
    shards: into how many shards the keys are spread (None: chosen from the size of the input).
    shard_bytes: memory that a shard may take in a worker before it is split or streamed (None: the default).
    match_times: two more columns, match_start and match_end: the event times of a match's first and last row.

    For streams:
    watermark: how late events may come after later ones: a duration ('10 seconds'), or a number where event time is
        one. Not needed where the DataFrame has a watermark.
    end: event time from which on events do not count; when the watermark is there, open matches are decided as at the
        end of a table.
    event_id: column by which repeated events are recognised; only the first of the same id and time counts.
    late: what becomes of events that come after the watermark: 'drop', or 'keep' in Parquet files at late_path. They
        are counted either way.
    max_state_rows: how many rows one partition key may hold for an open match (None: no limit); when_full says what
        happens beyond: 'error', or 'drop': the open match is given up (and counted), and matching goes on behind it.
    """

    step_budget: int = 10_000_000
    shards: int | None = None
    shard_bytes: int | None = None
    watermark: str | int | None = None
    end: datetime | str | int | None = None
    event_id: str | None = None
    late: str = "drop"
    late_path: str | None = None
    max_state_rows: int | None = None
    when_full: str = "error"
    match_times: bool = False

    def live(self) -> LiveOptions:
        """The options of streams."""
        from episode.spark.stream import LiveOptions

        gives_up = self.when_full == "drop"
        return LiveOptions(self.watermark, self.end, self.event_id, self.late_path, self.max_state_rows, gives_up)

    def __post_init__(self) -> None:
        for name in ("step_budget", "shards", "shard_bytes", "max_state_rows"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise EpisodeAnalysisError(f"Options({name}={value!r}): a whole number of at least 1 is needed.")
        if self.when_full not in ("error", "drop"):
            raise EpisodeAnalysisError(f"Options(when_full={self.when_full!r}): 'error' or 'drop' is needed.")
        if self.late not in ("drop", "keep"):
            raise EpisodeAnalysisError(f"Options(late={self.late!r}): 'drop' or 'keep' is needed.")
        if (self.late == "keep") != (self.late_path is not None):
            raise EpisodeAnalysisError(
                "Late events are kept where both are given: Options(late='keep', late_path='…').",
                hint="late_path is a directory; each micro-batch with late events adds a Parquet file.",
            )


def sql(text: str, *, spark: SparkSession | None = None, options: Options | None = None, **tables: Table) -> DataFrame:
    """Run a Spark SQL statement that may hold MATCH_RECOGNIZE clauses; returns a lazy DataFrame.

    tables: names used in the statement: DataFrames, or paths of Parquet files. Other names come from Spark's catalog.
    spark: the session to use; else the active one; else a local one is started.
    """
    query = _Query(parse_statement(text), _session(spark, tables), options or Options(), tables)
    return query.result()


def explain(text: str, *, spark: SparkSession | None = None, options: Options | None = None, **tables: Table) -> str:
    """How `sql` would evaluate the statement: per MATCH_RECOGNIZE the program, predicate split, scan, shards, state."""
    query = _Query(parse_statement(text), _session(spark, tables), options or Options(), tables)
    query.result()
    lines: list[str] = []
    for pattern in query.statement.patterns:
        planned = query.planned[pattern.span.start]
        lines += explain_row_pattern(planned.plan)
        lines += [*(f"  {reason}" for reason in planned.reasons), ""]
    if not lines:
        lines = ["No MATCH_RECOGNIZE in this statement: Spark evaluates all of it."]
    return "\n".join(lines).rstrip()


def _session(spark: SparkSession | None, tables: dict[str, Table]) -> SparkSession:
    """The given session, that of a given DataFrame, the active one, or a local one."""
    from episode.spark.session import session

    if spark is None:
        frames = [table for table in tables.values() if hasattr(table, "sparkSession")]
        if frames:
            return frames[0].sparkSession
    return session(spark)


@dataclass
class _Query:
    """One statement on its way to a DataFrame."""

    statement: Statement
    spark: SparkSession
    options: Options
    tables: dict[str, Table]
    planned: dict[int, RowPatternQuery] = field(default_factory=dict)
    frames: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        from episode.spark.tables import keyword_table

        for name, table in self.tables.items():
            self.frames[name] = keyword_table(
                self.spark, name, _path(table) if isinstance(table, (str, PathLike)) else table
            )

    def result(self) -> DataFrame:
        statement = self.statement
        if statement.patterns and statement.first_word not in QUERY_WORDS:
            raise EpisodeUnsupportedError(
                f"MATCH_RECOGNIZE is evaluated inside queries and INSERT, not inside {statement.first_word}.",
                source=statement.source,
                position=statement.body_start,
                length=len(statement.first_word),
                hint="Take the DataFrame of the query and write it where it should go.",
            )
        end = statement.tokens[-1].start
        body = self._text(Span(statement.body_start, end))
        return self._run(self._with_keyword_tables(body))

    # ---- text ----------------------------------------------------------------------------------------

    def _text(self, span: Span) -> str:
        """The statement's text in a span, with references in place of the row patterns in it."""
        inside = [p for p in self.statement.patterns if span.start <= p.span.start and p.span.end <= span.end]
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

    def _reference(self, pattern: TablePattern) -> str:
        name = f"{_PATTERN}{pattern.span.start}"
        if name not in self.frames:
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
        """The query with the WITH list that a table at a position of the statement sees."""
        visible = [table for table in self.statement.common_tables if table.scope.start <= position < table.scope.end]
        if not visible:
            return query
        recursive = "RECURSIVE " if any(table.recursive for table in visible) else ""
        return f"WITH {recursive}{', '.join(self._text(table.span) for table in visible)} {query}"

    def _run(self, text: str) -> DataFrame:
        from episode.spark.tables import run_sql

        used = {name: frame for name, frame in self.frames.items() if f"{{{name}}}" in text}
        return run_sql(self.spark, text, used)

    # ---- row patterns --------------------------------------------------------------------------------

    def _evaluate(self, pattern: TablePattern) -> DataFrame:
        from episode.spark.row_pattern import plan_on_spark

        shadowed = {
            self._name_of(table.span)
            for table in self.statement.common_tables
            if table.scope.start <= pattern.span.start < table.scope.end
        }
        plain = pattern.name if pattern.name in self.tables and pattern.name.lower() not in shadowed else None
        if plain is not None:
            frame = self.frames[plain]
        else:
            query = self._with_common_tables(f"SELECT * FROM {self._text(pattern.input)}", pattern.span.start)
            frame = self._run(self._with_keyword_tables(query))
            if frame.isStreaming and f"{{{_PATTERN}" in query:
                raise EpisodeUnsupportedError(
                    "One MATCH_RECOGNIZE over the output of another is not possible in one streaming query.",
                    source=self.statement.source,
                    position=pattern.clause.span.start,
                    hint="Write the matches of the first to a table or a topic; run the second as a query of its own.",
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
            metrics="episode" if not self.planned else f"episode_{len(self.planned) + 1}",
        )
        self.planned[pattern.span.start] = planned
        return planned.frame()

    def _name_of(self, span: Span) -> str:
        token = next(token for token in self.statement.tokens if token.start == span.start)
        return token.identifier.lower()


def _path(table: str | PathLike[str]) -> str:
    """A local path as seen from here: the JVM resolves relative ones against the directory it was started in."""
    path = fspath(table)
    return abspath(path) if exists(path) else path


def _escape(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; the statement's own are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def compile_kernels() -> None:
    """Compile the kernels for this machine now, instead of at the first query (about a minute, once per machine)."""
    from episode.lang.row_pattern import parse_clause
    from episode.match.warm import SAMPLE_CLAUSE, SAMPLE_TYPES, compile_kernels
    from episode.plan.row_pattern import plan_row_pattern
    from episode.plan.schema import InputSchema

    compile_kernels(plan_row_pattern(parse_clause(SAMPLE_CLAUSE), InputSchema(SAMPLE_TYPES)))
