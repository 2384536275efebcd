"""The public functions: `sql`, `match` and `explain`.

A statement is evaluated from the inside out. Every MATCH_RECOGNIZE, EVENTS and SITUATIONS becomes a DataFrame; in the
statement's text a reference to that DataFrame stands in its place, and Spark does the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from os.path import abspath, exists
from typing import TYPE_CHECKING, Any, Union

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.event_pattern import parse_event_query
from episode.lang.event_syntax import EventQuery, Strategy, classes_of
from episode.lang.situation_syntax import SituationQuery
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.lang.syntax import Span
from episode.lang.table_patterns import TableEvents, TableSituations, pattern_of
from episode.plan.explain import explain_row_pattern
from episode.plan.explain_events import explain_event_pattern
from episode.plan.explain_situations import explain_situation_pattern
from episode.plan.row_pattern import RowPatternPlan
from episode.plan.schema import quote
from episode.plan.situation_pattern import COMPLETE, EARLIEST, SituationPlan

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.event_pattern import EventOptions, EventSource
    from episode.spark.pattern_query import PatternQuery
    from episode.spark.stream import LiveOptions

Table = Union["DataFrame", str, "PathLike[str]"]
AnyPattern = Union[TablePattern, TableEvents, TableSituations]
_PATTERN = "__pattern_"
QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "INSERT", "")


@dataclass(frozen=True)
class Options:
    """Limits of a query's evaluation.

    step_budget: steps of matching from one start row before an explosion is reported.
    shards: into how many shards the keys are spread (None: chosen from the size of the input).
    shard_bytes: memory that a shard may take in a worker before it is split or streamed (None: the default).
    counters: the name under which a stream's counters are observed; results of several streaming patterns in one query
        need different ones.
    match_times: two more columns, match_start and match_end: the event times of a match's first and last row.
    detect: when a situation pattern's match is told: 'earliest' (as soon as it is certain), or 'complete' (when all its
        situations have ended).

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
    counters: str = "episode"
    detect: str = EARLIEST

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
        if self.detect not in (EARLIEST, COMPLETE):
            raise EpisodeAnalysisError(f"Options(detect={self.detect!r}): 'earliest' or 'complete' is needed.")
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


def match(
    events: DataFrame | str,
    text: str | None = None,
    *,
    time: str | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    **tables: Table,
) -> DataFrame:
    """Find an event pattern (`PATTERN … WHERE … WITHIN … RETURN …`) or a situation pattern (`DEFINE … PATTERN …
    WITHIN … RETURN …`); returns a lazy DataFrame.

    `match(events, text, …)` over one DataFrame (or Parquet path): rows whose `type_column` is the name of a class are
    its events; without a type column the names of classes are aliases of any row. `match(text, A=…, B=…)` over a table
    per class.
    time: the column of event time (default: the only timestamp). start: where events last, their start; time is then
        their end. So the matches of one query are events of the next: time='match_end', start='match_start'.
    key: columns that partition the events. strategy: a selection strategy, where WHERE has none.
    detect: when a match of situations is told: 'earliest' or 'complete'.
    """
    planned = _planned_match(
        events, text, time=time, start=start, key=key, type_column=type_column, strategy=strategy, detect=detect,
        spark=spark, options=options, tables=tables,
    )  # fmt: skip
    return planned.frame()


def explain_match(
    events: DataFrame | str,
    text: str | None = None,
    *,
    time: str | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    analyze: bool = False,
    **tables: Table,
) -> str:
    """How `match` would evaluate the pattern. analyze: run it, and say what the plans of all shards did."""
    planned = _planned_match(
        events, text, time=time, start=start, key=key, type_column=type_column, strategy=strategy, detect=detect,
        spark=spark, options=options, tables=tables,
    )  # fmt: skip
    lines = [*_words(planned.plan), *(f"  {reason}" for reason in planned.reasons)]
    if analyze:
        lines += planned.analysis()
    return "\n".join(lines)


def _planned_match(
    events: DataFrame | str,
    text: str | None,
    *,
    time: str | None,
    start: str | None,
    key: str | Sequence[str],
    type_column: str | None,
    strategy: str | None,
    detect: str | None,
    spark: SparkSession | None,
    options: Options | None,
    tables: dict[str, Table],
) -> PatternQuery:
    from episode.spark.event_pattern import EventOptions, EventSource, one_stream

    if text is None and (not isinstance(events, str) or not tables):
        raise EpisodeAnalysisError(
            "match needs events and a pattern.",
            hint="Write match(df, 'PATTERN …', time='ts') or match('PATTERN …', time='ts', A=df_a, B=df_b).",
        )
    if text is not None and tables:
        raise EpisodeAnalysisError(
            f"match has one DataFrame of all events, and tables besides: {', '.join(tables)}.",
            hint="Give one of the two.",
        )
    options = options or Options()
    keys = (key,) if isinstance(key, str) else tuple(key)
    query = pattern_of(str(events) if text is None else text, _strategy(strategy))
    if isinstance(query, SituationQuery):
        if text is None:
            raise EpisodeAnalysisError(
                "A situation pattern is matched over one DataFrame of events.",
                hint="Write match(df, 'DEFINE … PATTERN …', time='ts').",
            )
        _refuse_options("situation pattern", start=start, type_column=type_column, strategy=strategy)
        session, frame = _one_table(spark, events)
        wanted_keys = keys or query.input.partition_by
        if detect is not None:
            options = replace(options, detect=detect)
        return _plan_situations(session, query, frame, time or query.input.time, wanted_keys, options, options.counters)
    _refuse_options("event pattern", detect=detect)
    if text is None:
        session = _session(spark, tables)
        source = one_stream(query, _frames(session, tables))
    else:
        session, frame = _one_table(spark, events)
        source = EventSource(frame, {})
    if query.input.table is not None:
        raise EpisodeAnalysisError(
            "match is given its events; FROM is for SQL.",
            source=query.source,
            position=query.input.table_span.start,
            length=query.input.table_span.end - query.input.table_span.start,
            hint="Leave FROM out, or run the text with episode.sql.",
        )
    wanted = EventOptions(
        time or query.input.time,
        start,
        keys or query.input.partition_by,
        type_column or query.input.type_column,
        _strategy(strategy),
    )
    return _plan_events(session, query, source, wanted, options, options.counters)


def _refuse_options(what: str, **given: str | None) -> None:
    """Options of the other kind of pattern."""
    for name, value in given.items():
        if value is not None:
            raise EpisodeAnalysisError(f"{name}={value!r} has no meaning for a{'n' if what[0] in 'e' else ''} {what}.")


def _one_table(spark: SparkSession | None, events: DataFrame | str) -> tuple[SparkSession, DataFrame]:
    session = _session(spark, {"events": events})
    return session, _frames(session, {"events": events})["events"]


def _frames(spark: SparkSession, tables: dict[str, Table]) -> dict[str, DataFrame]:
    """Tables given by keyword, or paths of Parquet files."""
    from episode.spark.tables import keyword_table

    return {
        name: keyword_table(spark, name, _path(table) if isinstance(table, (str, PathLike)) else table)
        for name, table in tables.items()
    }


def _plan_situations(
    spark: SparkSession,
    query: SituationQuery,
    frame: DataFrame,
    time: str | None,
    keys: tuple[str, ...],
    options: Options,
    metrics: str,
) -> PatternQuery:
    from episode.spark.situation_pattern import SituationOptions, plan_situations_on_spark

    return plan_situations_on_spark(
        spark,
        query,
        frame,
        SituationOptions(time, keys, options.detect == EARLIEST),
        shards=options.shards,
        shard_bytes=options.shard_bytes,
        live=options.live(),
        metrics=metrics,
    )


def _plan_events(
    spark: SparkSession, query: EventQuery, source: EventSource, wanted: EventOptions, options: Options, metrics: str
) -> PatternQuery:
    from episode.spark.event_pattern import plan_events_on_spark

    return plan_events_on_spark(
        spark,
        query,
        source,
        wanted,
        step_budget=options.step_budget,
        shards=options.shards,
        shard_bytes=options.shard_bytes,
        live=options.live(),
        metrics=metrics,
    )


def _strategy(name: str | None) -> Strategy | None:
    if name is None:
        return None
    try:
        return Strategy(name.lower().replace("_", "-"))
    except ValueError:
        known = ", ".join(strategy.value for strategy in Strategy)
        raise EpisodeAnalysisError(f"There is no selection strategy {name!r}.", hint=f"There are: {known}.") from None


def explain(text: str, *, spark: SparkSession | None = None, options: Options | None = None, **tables: Table) -> str:
    """How `sql` would evaluate the statement: per MATCH_RECOGNIZE the program, predicate split, scan, shards, state."""
    query = _Query(parse_statement(text), _session(spark, tables), options or Options(), tables)
    query.result()
    lines: list[str] = []
    for _, planned in sorted(query.planned.items()):
        lines += [*_words(planned.plan), *(f"  {reason}" for reason in planned.reasons), ""]
    if not lines:
        lines = ["No pattern in this statement: Spark evaluates all of it."]
    return "\n".join(lines).rstrip()


def _words(plan: Any) -> list[str]:
    if isinstance(plan, RowPatternPlan):
        return explain_row_pattern(plan)
    return explain_situation_pattern(plan) if isinstance(plan, SituationPlan) else explain_event_pattern(plan)


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
    planned: dict[int, Any] = field(default_factory=dict)
    frames: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.frames.update(_frames(self.spark, self.tables))

    def result(self) -> DataFrame:
        statement = self.statement
        if isinstance(statement.whole, SituationQuery):
            return self._evaluate_situations(statement.whole, statement.body_start)
        if isinstance(statement.whole, EventQuery):
            return self._evaluate_events(statement.whole, statement.body_start)
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

        if query.input.table is not None:
            source = EventSource(self._table(query.input.table, position), {})
        else:
            names = dict.fromkeys(one.name for one in classes_of(query.pattern))
            source = one_stream(query, {name: self._class_table(query, name, position) for name in names})
        wanted = EventOptions(query.input.time, None, query.input.partition_by, query.input.type_column, None)
        planned = _plan_events(self.spark, query, source, wanted, self.options, self._counters())
        self.planned[position] = planned
        return planned.frame()

    # ---- situation patterns --------------------------------------------------------------------------

    def _evaluate_situations(self, query: SituationQuery, position: int) -> DataFrame:
        source = query.input
        if source.table is None:
            raise EpisodeAnalysisError(
                "The events of the situation pattern are missing.",
                source=query.source,
                position=query.span.start,
                hint="Write FROM table before DEFINE.",
            )
        frame = self._table(source.table, position)
        planned = _plan_situations(
            self.spark, query, frame, source.time, source.partition_by, self.options, self._counters()
        )
        self.planned[position] = planned
        return planned.frame()

    def _table(self, name: str, position: int) -> DataFrame:
        """A table of the statement by its written name: a keyword table, a common table, or one of the catalog."""
        plain = name.strip("`")
        if plain in self.tables and not any(
            self._name_of(table.span) == plain.lower()
            for table in self.statement.common_tables
            if table.scope.start <= position < table.scope.end
        ):
            return self.frames[plain]
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
            if name in self.tables or any(
                self._name_of(table.span) == name.lower() for table in self.statement.common_tables
            ):
                raise
            place = next(one.span for one in classes_of(query.pattern) if one.name == name)
            raise EpisodeAnalysisError(
                f"There is no table {name} for the class {name}.",
                source=query.source,
                position=place.start,
                length=place.end - place.start,
                hint="Give it as a keyword, or name the table of all events: FROM events TYPE BY column PATTERN …",
            ) from None

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
    """Compile the kernels for this machine now, instead of at the first query (a minute or two, once per machine)."""
    from episode.lang.row_pattern import parse_clause
    from episode.lang.situation_pattern import parse_situation_query
    from episode.matchers import warm
    from episode.plan.event_classes import EventClasses
    from episode.plan.event_pattern import plan_event_pattern
    from episode.plan.event_returns import EventTimes
    from episode.plan.row_pattern import plan_row_pattern
    from episode.plan.schema import InputSchema
    from episode.plan.situation_pattern import plan_situation_pattern

    warm.compile_kernels(plan_row_pattern(parse_clause(warm.SAMPLE_CLAUSE), InputSchema(warm.SAMPLE_TYPES)))
    plans = []
    for text in warm.SAMPLE_EVENTS:
        query = parse_event_query(text)
        classes = EventClasses(query, InputSchema(warm.SAMPLE_EVENT_TYPES), "type")
        plans.append(plan_event_pattern(query, classes, EventTimes("ts", None, "bigint")))
    warm.compile_event_kernels(plans)
    schema = InputSchema(warm.SAMPLE_TYPES)
    warm.compile_situation_kernels(
        plan_situation_pattern(parse_situation_query(warm.SAMPLE_SITUATIONS), schema, "ts", ("k",))
    )
