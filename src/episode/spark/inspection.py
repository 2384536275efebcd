"""A result inspected for pictures, reasons and reports: numbers of many matches, and the rows of one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from episode.errors import EpisodeAnalysisError
from episode.matchers.engines import matcher_spec
from episode.plan.options import RunOptions
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote
from episode.plan.types import is_numeric
from episode.spark import types as carry
from episode.spark.batch.runtime import plan_batch
from episode.spark.expressions import Arguments, kept_matches, where
from episode.spark.packing import columns_of
from episode.words import DAY

# Figures of many matches, and of the rows that they were found in: aggregated by Spark, a few values on the driver.
#
# Matches come as rows with their key, start, end and number of rows. Times and dates are whole microseconds; numbers
# are doubles.

_ORDERED = ("date", "timestamp", "timestamp_ntz", "boolean", "string")
_SHARES = (0.5, 0.9, 0.99)
_START, _END, _ROWS, _LENGTH = "start", "end", "rows", "length"


@contextmanager
def cache_frame(frame: DataFrame) -> Iterator[DataFrame]:
    """The frame computed once for all that is asked of it in the body; one that is kept already stays so."""
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        yield frame
        return
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def first_rows(frame: DataFrame, most: int) -> tuple[int, list[list[Any]]]:
    """The number of rows, and the first of them."""
    rows = [list(row) for row in frame.limit(most + 1).collect()]
    return (len(rows) if len(rows) <= most else frame.count()), rows[:most]


# ---- matches ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """One match: values of its key, its times as they are counted here, and its rows."""

    key: tuple[Any, ...]
    start: float
    end: float
    rows: int | None


@dataclass(frozen=True)
class Totals:
    """Figures of all matches. placed: those that have times. lengths: least, median, 90th and 99th percentile,
    greatest, and the mean. examples: matches by their distinction."""

    matches: int
    placed: int
    rows: int | None
    first: float | None
    last: float | None
    lengths: tuple[float, ...]
    examples: dict[str, Match]


@dataclass(frozen=True)
class KeyCount:
    """The matches of a key, and the longest of them."""

    key: tuple[Any, ...]
    matches: int
    longest: Match | None


@dataclass(frozen=True)
class MatchTable:
    """Matches with columns of known names: k0 …, start, end, rows, length."""

    frame: DataFrame
    keys: int
    has_rows: bool

    @property
    def _keys(self) -> list[str]:
        return [f"k{number}" for number in range(self.keys)]

    @property
    def _rest(self) -> list[str]:
        """The columns of a match after its times."""
        return [*([_ROWS] if self.has_rows else []), *self._keys]

    def totals(self) -> Totals:
        """Everything that one pass computes."""
        placed = F.col(_LENGTH).isNotNull()
        whole = F.struct(_LENGTH, _START, _END, *self._rest)
        by_rows = F.struct(_ROWS, _LENGTH, _START, _END, *self._keys) if self.has_rows else F.lit(None)
        by_start = F.struct(_START, _END, *self._rest)
        row = self.frame.agg(
            F.count(F.lit(1)).alias("matches"),
            F.count_if(placed).alias("placed"),
            (F.sum(_ROWS) if self.has_rows else F.lit(None)).alias("rows"),
            F.min(_START).alias("first"),
            F.max(_END).alias("last"),
            F.min(_LENGTH).alias("least"),
            F.percentile_approx(_LENGTH, list(_SHARES)).alias("shares"),
            F.max(_LENGTH).alias("greatest"),
            F.avg(_LENGTH).alias("mean"),
            F.max(F.when(placed, whole)).alias("longest"),
            F.min(F.when(placed, whole)).alias("shortest"),
            F.max(F.when(placed, by_rows)).alias("most rows"),
            F.min(F.when(placed, by_start)).alias("first of all"),
            F.max(F.when(placed, by_start)).alias("last of all"),
        ).first()
        assert row is not None
        lengths = () if not row["placed"] else (row["least"], *row["shares"], row["greatest"], row["mean"])
        special = ("longest", "shortest", "most rows", "first of all", "last of all")
        examples = {name: self._match(row[name]) for name in special if row[name] is not None}
        return Totals(row["matches"], row["placed"], row["rows"], row["first"], row["last"], lengths, examples)

    def by_key(self, most: int) -> tuple[int, list[KeyCount], KeyCount | None]:
        """The number of keys with matches, those with the most, and the one with the fewest."""
        if not self.keys:
            return 0, [], None
        whole = F.struct(_LENGTH, _START, _END, *self._rest)
        counted = self.frame.groupBy(*self._keys).agg(
            F.count(F.lit(1)).alias("matches"),
            F.max(F.when(F.col(_LENGTH).isNotNull(), whole)).alias("longest"),
        )
        ordered = F.struct("matches", *self._keys)
        with cache_frame(counted):
            row = counted.agg(F.count(F.lit(1)).alias("keys"), F.min_by(F.struct("*"), ordered).alias("rarest")).first()
            top = counted.orderBy(F.desc("matches"), *self._keys).limit(most).collect()
        assert row is not None
        rarest = None if row["rarest"] is None else self._key_count(row["rarest"])
        return row["keys"], [self._key_count(one) for one in top], rarest

    def counts(self, bins: Mapping[str, Column]) -> dict[str, dict[int, int]]:
        """Matches by numbers of bins, for several partitions of them at once."""
        parts = [F.struct(F.lit(name).alias("what"), bin_.cast("bigint").alias("bin")) for name, bin_ in bins.items()]
        placed = self.frame.where(F.col(_LENGTH).isNotNull()).select(F.explode(F.array(*parts)).alias("one"))
        rows = placed.groupBy("one.what", "one.bin").count().collect()
        found: dict[str, dict[int, int]] = {name: {} for name in bins}
        for row in rows:
            found[row["what"]][row["bin"]] = row["count"]
        return found

    def nearest(self, length: float) -> Match | None:
        """The first of the matches whose length is nearest to one."""
        distance = F.abs(F.col(_LENGTH) - F.lit(length))
        least = F.min(F.struct(distance.alias("distance"), _LENGTH, _START, _END, *self._rest))
        row = self.frame.where(F.col(_LENGTH).isNotNull()).agg(least.alias("one")).first()
        return None if row is None or row["one"] is None else self._match(row["one"])

    def _match(self, row: Any) -> Match:
        key = tuple(row[name] for name in self._keys)
        return Match(key, row[_START], row[_END], row[_ROWS] if self.has_rows else None)

    def _key_count(self, row: Any) -> KeyCount:
        longest = None if row["longest"] is None else self._match(row["longest"])
        return KeyCount(tuple(row[name] for name in self._keys), row["matches"], longest)


def match_table(
    frame: DataFrame, keys: Sequence[str], start: str | None, end: str | None, rows: str | None
) -> MatchTable:
    """Matches from the columns that hold these values; times that nothing can be reckoned with are left out."""
    times = [None if name is None else _as_number(F.col(quote(name)), _type(frame, name)) for name in (start, end)]
    first, last = (F.lit(None).cast("double") if time is None else time for time in times)
    columns = [F.col(quote(name)).alias(f"k{number}") for number, name in enumerate(keys)]
    chosen = frame.select(
        *columns,
        first.alias(_START),
        last.alias(_END),
        (F.lit(None).cast("bigint") if rows is None else F.col(quote(rows))).alias(_ROWS),
        (last - first).alias(_LENGTH),
    )
    return MatchTable(chosen, len(keys), rows is not None)


def time_bin(origin: float, width: float) -> Column:
    """The number of the stretch of time in which a match begins."""
    return F.floor((F.col(_START) - F.lit(origin)) / F.lit(width))


def length_bin(origin: float, width: float, logarithmic: bool) -> Column:
    """The number of the bin of a length; logarithmic: of equal ratios, from `origin` on, `width` of them to ten times
    the length; those below are in bin -1."""
    length = F.col(_LENGTH)
    if not logarithmic:
        return F.floor((length - F.lit(origin)) / F.lit(width))
    return F.when(length < F.lit(origin), F.lit(-1)).otherwise(F.floor(F.log10(length / F.lit(origin)) * F.lit(width)))


def is_clock(type_: str) -> bool:
    """Do values of a type stand for moments of a clock (and not for bare numbers)?"""
    return type_ in ("date", "timestamp", "timestamp_ntz")


def _as_number(column: Column, type_: str) -> Column | None:
    """A time as microseconds since 1970, or as a number; None for other types."""
    if type_ == "timestamp":
        return F.unix_micros(column)
    if type_ == "timestamp_ntz":
        return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), column)
    if type_ == "date":
        return F.unix_date(column).cast("bigint") * F.lit(DAY)
    return column.cast("double") if is_numeric(type_) else None


def _type(frame: DataFrame, name: str) -> str:
    return frame.schema[name].dataType.simpleString()


# ---- input -----------------------------------------------------------------------------------------


Range = tuple[str, str, int, str | None, str | None]
"""Name and type of an input column, its nulls, its least and greatest value as Spark writes them; None if values have
no order."""


def input_numbers(
    frame: DataFrame, keys: Sequence[str], columns: Sequence[str]
) -> tuple[int, tuple[int, int] | None, list[Range]]:
    """Return the number of rows, of keys and of the rows of the largest (None without a key), and the ranges of
    columns, in two passes."""
    types = {name: _type(frame, name) for name in columns}
    wanted = [F.count(F.lit(1)).alias("rows")]
    for number, (name, type_) in enumerate(types.items()):
        column = F.col(quote(name))
        wanted.append(F.count_if(column.isNull()).alias(f"nulls{number}"))
        if type_ in _ORDERED or is_numeric(type_):
            wanted += [F.min(column).cast("string").alias(f"min{number}")]
            wanted += [F.max(column).cast("string").alias(f"max{number}")]
    row = frame.agg(*wanted).first()
    assert row is not None
    found = row.asDict()
    ranges = [
        (name, type_, found[f"nulls{number}"], found.get(f"min{number}"), found.get(f"max{number}"))
        for number, (name, type_) in enumerate(types.items())
    ]
    sizes = _rows_by_key(frame, keys).agg(F.count(F.lit(1)), F.max("rows")).first() if keys else None
    return found["rows"], None if sizes is None else (sizes[0], sizes[1] or 0), ranges


def _rows_by_key(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    return frame.groupBy(*map(quote, keys)).agg(F.count(F.lit(1)).alias("rows"))


def session_zone(spark: SparkSession) -> str:
    """The time zone in which Spark shows timestamps."""
    return str(spark.conf.get("spark.sql.session.timeZone"))


def session_line(frame: DataFrame) -> str:
    """The Spark that ran it, in a few words."""
    spark = frame.sparkSession
    try:
        return f"Spark {spark.version}, {spark.sparkContext.master}, {spark.sparkContext.defaultParallelism} cores"
    except (PySparkException, AttributeError):  # Spark Connect has no context
        return f"Spark {spark.version}"


# The rows of one key of a pattern's input, brought to the driver: for pictures and explanations of single matches.

Bounds = tuple[object, object]
"""The least and the greatest value of a column, both included; None: no bound."""


@dataclass(frozen=True)
class SparkRows:
    """The rows of a pattern's input in a DataFrame; `see.inspecting.LocalRows` has the same methods."""

    frame: DataFrame

    @property
    def zone(self) -> str:
        """The clock by which times are read and shown."""
        return self.frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"

    @property
    def columns(self) -> list[str]:
        return self.frame.columns

    def rows(
        self,
        columns: Sequence[str],
        derived: tuple[tuple[str, str], ...],
        arguments: Arguments,
        key: Mapping[str, object],
        bounds: Mapping[str, Bounds],
        most: int | None = None,
    ) -> pa.Table:
        """Columns of the rows with these key values (None: null) and within bounds, as matchers take them.

        columns: of the frame, and derived ones, (SQL, name) pairs, which Spark computes. most: limit of rows.
        """
        selected = columns_of(self._restrict(key, bounds), tuple(columns), derived, arguments)
        schema = carry.arrow_schema(selected.schema)
        taken = carry.encode(selected if most is None else selected.limit(most)).toArrow()
        batches = [carry.as_events(batch, schema) for batch in taken.to_batches()]
        return pa.concat_tables([schema.empty_table(), *batches])

    def count(self, key: Mapping[str, object]) -> int:
        """The number of rows with these key values."""
        return self._restrict(key, {}).count()

    def keys_by_rows(self, keys: Sequence[str], most: int) -> pa.Table:
        """The values of the key columns with the number of their rows (column `rows`), the greatest numbers first."""
        counted = _rows_by_key(self._restrict({}, {}), keys)
        return counted.orderBy(F.desc("rows"), *map(quote, keys)).limit(most).toArrow()

    def rows_at_most(
        self, key: Mapping[str, object], bounds: Mapping[str, Bounds], time: str, most: int
    ) -> tuple[int, object]:
        """The number of rows, and if there are more than `most`, the time up to which there are about `most`."""
        restricted = self._restrict(key, bounds)
        count = restricted.count()
        if count <= most:
            return count, None
        until = F.percentile_approx(F.col(quote(time)), F.lit(most / count), F.lit(10_000)).alias("until")
        return count, restricted.select(until).toArrow().column("until")[0].as_py()

    def first_matches(self, pattern: PatternPlan, run: RunOptions, most: int) -> pa.Table:
        """The matcher's columns of some matches, the first that are found: Spark stops when it has them."""
        frame = self._restrict({}, {})
        spec = partial(matcher_spec, pattern)
        matched = plan_batch(frame.sparkSession, frame, pattern.input_columns, pattern.derived, spec, run).frame()
        for condition in pattern.result.conditions:
            matched = where(matched, condition.sql, run.arguments)
        return matched.limit(most).toArrow()

    def keep(self, matched: pa.Table, conditions: Sequence[str], arguments: Arguments) -> np.ndarray:
        """Tell for which rows of a matcher's output the conditions hold."""
        return kept_matches(self.frame.sparkSession, matched, conditions, arguments)

    def _restrict(self, key: Mapping[str, object], bounds: Mapping[str, Bounds]) -> DataFrame:
        if self.frame.isStreaming:
            raise EpisodeAnalysisError(
                "The events of this pattern are a stream, which cannot be looked at twice.",
                hint="Run the query over a table of its past events, or over a declared stream (CREATE STREAM).",
            )
        conditions = [F.col(quote(name)).eqNullSafe(F.lit(value)) for name, value in key.items()]
        for name, (least, greatest) in bounds.items():
            if least is not None:
                conditions.append(F.col(quote(name)) >= _literal(least))
            if greatest is not None:
                conditions.append(F.col(quote(name)) <= _literal(greatest))
        return reduce(DataFrame.where, conditions, self.frame)


def _literal(value: object) -> Column:
    """A value; a time without a zone stays one, where Spark's own would be of the machine's zone."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    return F.lit(value)
