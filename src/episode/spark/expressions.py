"""Expressions that Spark evaluates, with parameters bound to them, never as text; and the schema of a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.output import PlannedMeasure, Result
from episode.plan.parameters import SubqueryRows
from episode.plan.pattern import Source
from episode.plan.rows.inputs import with_subqueries
from episode.plan.schema import CLASS_COLUMN, EventTable, InputSchema, column_name, quote
from episode.spark import types as carry
from episode.spark.confinement import ONLY_QUERIES, RefusedStatement, expr, sql
from episode.spark.errors import without_context_logs
from episode.spark.tables import first_line, spark_error

Arguments = Mapping[str, object]


def select(frame: DataFrame, named: Sequence[tuple[str, str]], arguments: Arguments) -> DataFrame:
    """Expressions over a frame, (SQL, name) pairs, as its columns."""
    if not uses(arguments, (text for text, _ in named)):
        return frame.select(*(expr(text).alias(name) for text, name in named))
    columns = ", ".join(f"{_escape(text)} AS {_escape(quote(name))}" for text, name in named)
    return _run(f"SELECT {columns} FROM {{frame}}", frame, arguments)


def where(frame: DataFrame, condition: str, arguments: Arguments) -> DataFrame:
    """The rows of a frame for which a condition holds."""
    if not uses(arguments, [condition]):
        return frame.where(expr(condition))
    return _run(f"SELECT * FROM {{frame}} WHERE {_escape(condition)}", frame, arguments)


def _run(text: str, frame: DataFrame, arguments: Arguments) -> DataFrame:
    """A query over {frame}, with values for its parameters, and DataFrames for those that are subqueries."""
    values = {name: value for name, value in arguments.items() if not isinstance(value, SubqueryRows)}
    frames = {"frame": frame}
    for name, value in arguments.items():
        if isinstance(value, SubqueryRows) and f":{name}" in text:
            frames[name] = value.frame
            text = re.sub(rf":{name}\b", value.read_as.format(rows=f"{{{name}}}"), text)
    try:
        return sql(frame.sparkSession, text, values, frames)
    except RefusedStatement as error:
        raise EpisodeUnsupportedError(error.refusal.message, hint=ONLY_QUERIES) from None


def uses(arguments: Arguments, expressions: Iterable[str]) -> bool:
    """May one of the expressions have a parameter?"""
    texts = list(expressions) if arguments else []
    return any(f":{name}" in text for name in arguments for text in texts)


def _escape(text: str) -> str:
    """Braces stand for DataFrames in `spark.sql`; others are doubled."""
    return text.replace("{", "{{").replace("}", "}}")


def text_literal(value: str) -> str:
    """A string of SQL. Braces and colons need no care: see `select`."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


# The schema of a DataFrame as the planner sees it.

NO_ARGUMENTS: Arguments = {}
TIME = "episode.time"
"""In a column's metadata: it is declared to be the event time, and events come at most this many milliseconds of
Spark's watermark after later ones."""

UTC_NAMES = ("UTC", "Z", "GMT", "Etc/UTC", "+00:00", "Etc/GMT", "Zulu")


def input_schema(
    spark: SparkSession, frame: DataFrame, source: Source, what: str, arguments: Arguments = NO_ARGUMENTS
) -> InputSchema:
    """The columns of a frame, and Spark to ask for the types of expressions over them.

    source, what: the query, and what its pattern is called in an error.
    """
    fields = frame.schema.fields
    columns = {field.name: field.dataType.simpleString() for field in fields}
    if len({name.lower() for name in columns}) < len(fields):
        names = [field.name for field in fields]
        twice = next(name for name in names if [other.lower() for other in names].count(name.lower()) > 1)
        raise source.error(
            EpisodeAnalysisError,
            f"The input of {what} has two columns named {twice}.",
            hint="Select the columns by name in a subquery.",
        )

    @contextmanager
    def analysis_of(expression: str) -> Iterator[None]:
        try:
            with without_context_logs():
                yield
        except (AnalysisException, ParseException) as error:
            shown = with_subqueries(expression, source.text)
            raise EpisodeAnalysisError(f"Spark cannot evaluate {shown}: {first_line(error)}") from None

    def type_of(expression: str) -> str:
        with analysis_of(expression):
            return select(frame, [(expression, "value")], arguments).schema.fields[0].dataType.simpleString()

    def name_of(expression: str) -> str:
        if uses(arguments, [expression]):
            return column_name(expression)
        with analysis_of(expression):
            return frame.select(expr(expression)).columns[0]

    times = [field.name for field in fields if TIME in field.metadata]
    time = times[0] if len(times) == 1 else None
    utc, case_sensitive = conventions_of(spark)
    return InputSchema(columns, type_of, utc, case_sensitive, arguments, time, name_of=name_of)


def conventions_of(spark: SparkSession) -> tuple[bool, bool]:
    """Whether a session's times are in UTC, and whether the case of names counts."""
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    return zone in UTC_NAMES, spark.conf.get("spark.sql.caseSensitive") == "true"


# Whether Spark can compute the expressions around the values of a match.


def check_measures(matched: DataFrame, result: Result, arguments: Arguments) -> None:
    """An error at the first measure that Spark cannot compute. All are analysed at once; if that fails, one by one."""

    def analyse(*measures: PlannedMeasure) -> None:
        select(matched, [(one.sql, one.name) for one in measures], arguments).schema  # noqa: B018 - analysis

    with without_context_logs():
        try:
            analyse(*result.measures.measures)
        except (AnalysisException, ParseException, EpisodeUnsupportedError):
            for measure in result.measures.measures:
                try:
                    analyse(measure)
                except (AnalysisException, ParseException) as error:
                    message, value = first_line(error), "a value of the match"
                    for name in sorted(result.measures.atoms.values(), key=len, reverse=True):  # the matcher's columns
                        message = message.replace(f"`{name}`", value).replace(name, value)
                    message = f"{result.name_of(measure)} cannot be computed: {message}"
                    raise result.source.error(EpisodeAnalysisError, message, measure.span) from None
                except EpisodeUnsupportedError as error:
                    kind = EpisodeUnsupportedError
                    raise result.source.error(kind, error.message, measure.span, error.hint) from None
            raise


# Conditions that only Spark evaluates, on a few matches that are in this process.

_NUMBER = "__episode_number"


def kept_matches(spark: SparkSession, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
    """For which rows of a matcher's output all conditions hold."""
    numbered = matched.append_column(_NUMBER, pa.array(np.arange(matched.num_rows)))
    frame = carry.decode(spark.createDataFrame(numbered), numbered.schema)
    tests = [(f"coalesce({sql}, false)", f"__episode_kept_{number}") for number, sql in enumerate(conditions)]
    found = select(frame, [(f"`{_NUMBER}`", _NUMBER), *tests], arguments).orderBy(_NUMBER).toArrow()
    holds = np.ones(matched.num_rows, np.bool_)
    for _, name in tests:
        holds &= found.column(name).to_numpy()
    return holds


# Several DataFrames as one stream of events, each row with the number of its table.


def one_stream(frames: Mapping[str, DataFrame], tables: Mapping[str, EventTable]) -> DataFrame:
    """The events of all frames; a column that a table does not have is null for its events."""
    declared = [[f.metadata[TIME] for f in frame.schema.fields if TIME in f.metadata] for frame in frames.values()]
    delay = max(delays[0] for delays in declared) if all(declared) else None  # None: one of them declares none
    return unite([_part(frame, tables[name], delay) for name, frame in frames.items()])


def unite(parts: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames; a column that one does not have is null there."""
    try:
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)
    except AnalysisException as error:
        raise spark_error(error) from None


def _part(frame: DataFrame, table: EventTable, delay: int | None) -> DataFrame:
    """The events of one table, as part of the stream. delay: of the declared event time of all of them."""
    columns = []
    for own, name in table.columns.items():
        column = F.col(quote(own))
        if own in table.widened:
            column = column.cast(table.widened[own])
        is_time = TIME in frame.schema[own].metadata
        metadata = {} if delay is None else {TIME: delay}
        columns.append(column.alias(name, metadata=metadata) if is_time else column.alias(name))
    return frame.select(F.lit(table.number).alias(CLASS_COLUMN), *columns)
