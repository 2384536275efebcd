"""Tables that queries of the page may name, their rows as JSON, and examples over the sample data."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from episode import samples
from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.queries.checking import empty_tables
from episode.queries.tables import checked_tables, keyword_tables
from episode.words import value_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LARGEST_EXACT = 2**53
"""Whole numbers from here on are text: JavaScript would round them."""
LONGEST_TEXT = 2_000
"""Characters of one value that are sent."""


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Return names, short types, and whether values are numbers, which are aligned to the right."""
    return [{"name": one.name, "type": _type(one.type), "numeric": _is_number(one.type)} for one in schema]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_struct(kind):
        return "struct"
    return "array" if pa.types.is_list(kind) else str(kind)


def spark_columns(frame: DataFrame) -> list[dict[str, str]]:
    """Return names and types of the columns of a DataFrame."""
    return [{"name": field.name, "type": field.dataType.simpleString()} for field in frame.schema.fields]


def rows_of(table: pa.Table, first: int, count: int) -> list[list[Any]]:
    """Some rows of a table, each a list of values."""
    part = table.slice(first, count)
    columns = [[cell(value) for value in column.to_pylist()] for column in part.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def cell(value: Any) -> Any:
    """One value: numbers, truth values and null as they are, all else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < LARGEST_EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value_text(value)[:LONGEST_TEXT]


PREVIEWED = 50
"""Rows of a preview."""
SAMPLES: dict[str, Callable[[], samples.Sample]] = {
    "ticks": samples.stock_ticks,
    "clicks": samples.web_clicks,
    "readings": samples.machine_readings,
}


@dataclass(frozen=True)
class Tables:
    """All tables by name. empty: the same without rows, for checking. sampled: names of sample tables."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    empty: Mapping[str, DataFrame]
    sampled: frozenset[str]

    def describe(self) -> list[dict[str, Any]]:
        """Return names and columns of all tables; samples are last."""
        found = [
            {"name": name, "sample": name in self.sampled, "columns": spark_columns(frame)}
            for name, frame in self.frames.items()
        ]
        return sorted(found, key=lambda one: bool(one["sample"]))

    def preview(self, name: str) -> dict[str, Any]:
        from episode.spark.jobs import first_rows

        rows = first_rows(self._frame(name), PREVIEWED)
        return {"name": name, "columns": columns_of(rows.schema), "rows": rows_of(rows, 0, PREVIEWED)}

    def _frame(self, name: str) -> DataFrame:
        if name not in self.frames:
            guess = closest(name, self.frames)
            raise EpisodeAnalysisError(f"There is no table {name}.", hint=f"Did you mean {guess}?" if guess else None)
        return self.frames[name]


def open_tables(spark: SparkSession, given: Mapping[str, Any], directory: Path | None) -> Tables:
    """Open the given tables. directory: where the sample data is written; None: without it. A table that was given
    hides the sample of its name."""
    frames = keyword_tables(spark, checked_tables(given))
    for name, frame in frames.items():
        if frame.isStreaming:
            hint = "Give a table of its events; running streams have their own page."
            raise EpisodeAnalysisError(f"The table {name} is a stream, which has no end.", hint=hint)
    taken = {name.lower() for name in given}
    sampled = [name for name in SAMPLES if directory is not None and name not in taken]
    if directory is not None and sampled:
        written = _write_samples(directory, sampled)
        frames |= keyword_tables(spark, checked_tables(written))
    empty = empty_tables(spark, {name: frame.schema for name, frame in frames.items()})
    return Tables(spark, frames, empty, frozenset(sampled))


def _write_samples(directory: Path, names: list[str]) -> dict[str, str]:
    paths = {name: str(directory / f"{name}.parquet") for name in names}
    for name, path in paths.items():
        pq.write_table(SAMPLES[name]().table, path)
    return paths


ROWS, EVENTS, SITUATIONS = "row pattern", "event pattern", "situations"
CORRELATION, WINDOWS = "correlation", "window pattern"


@dataclass(frozen=True)
class Example:
    """folder: the package folder that its text is in. about: what it finds, in a sentence."""

    name: str
    title: str
    language: str
    table: str
    about: str
    folder: str = "see/studio/examples"

    @property
    def text(self) -> str:
        folder = files("episode").joinpath(*self.folder.split("/"))
        return (folder / f"{self.name}.sql").read_text(encoding="utf-8").rstrip() + "\n"


_DEMO = "demo_queries"
EXAMPLES = (
    Example("v_shape", "V-shapes", ROWS, "ticks", "At least eight falls in a row, then at least eight rises.", _DEMO),
    Example("w_shape", "W-shapes", ROWS, "ticks", "Two V-shapes in a row, with the peak between them.", _DEMO),
    Example("tick_shape", "Tick shapes", ROWS, "ticks", "A fall, then a rise above where it began.", _DEMO),
    Example("price_fall", "Price falls", ROWS, "ticks", "Every falling tick with the fall that ends in it.", _DEMO),
    Example("sessions", "Sessions", ROWS, "clicks", "Clicks with no pause of more than half an hour.", _DEMO),
    Example("funnel", "Funnel", ROWS, "clicks", "View, cart, checkout and purchase within half an hour.", _DEMO),
    Example("longest_fall", "Falls next to each tick", WINDOWS, "ticks", "The rows of a table, each with its match."),
    Example("abandoned", "Left without buying", EVENTS, "clicks", "A checkout with no purchase before the home page."),
    Example(
        "searches", "Searches before a cart", EVENTS, "clicks", "A look, then searches, then something in the cart."
    ),
    Example("aired", "Opened while hot", SITUATIONS, "readings", "A hot machine whose door stays open as it cools."),
    Example(
        "checked", "Checked while hot", SITUATIONS, "readings", "A door opened and closed while the machine is hot."
    ),
    Example(
        "recency", "Falls after a rise", CORRELATION, "ticks", "Long falls, and rises in the half hour before.", _DEMO
    ),
)


def examples_over(samples: Collection[str]) -> list[dict[str, Any]]:
    """Return the examples whose tables are the samples, as JSON."""
    shown = ("name", "title", "language", "table", "about", "text")
    return [{name: getattr(one, name) for name in shown} for one in EXAMPLES if one.table in samples]
