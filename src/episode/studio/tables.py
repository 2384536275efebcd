"""The tables that queries of the page may name: those that were given, and the sample data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from episode import machine_samples, samples
from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.queries.checking import empty_tables
from episode.queries.inputs import checked_tables, keyword_tables
from episode.studio.values import columns_of, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREVIEWED = 50
"""Rows of a preview."""
SAMPLES = ("ticks", "clicks", "readings")


@dataclass(frozen=True)
class Tables:
    """All tables by name. empty: the same without rows, for checking. sampled: names of sample tables."""

    spark: SparkSession
    frames: Mapping[str, DataFrame]
    empty: Mapping[str, DataFrame]
    sampled: frozenset[str]

    def described(self) -> list[dict[str, Any]]:
        """Names and columns, those that were given first."""
        found = [
            {
                "name": name,
                "sample": name in self.sampled,
                "columns": [
                    {"name": field.name, "type": field.dataType.simpleString()} for field in frame.schema.fields
                ],
            }
            for name, frame in self.frames.items()
        ]
        return sorted(found, key=lambda one: bool(one["sample"]))

    def preview(self, name: str) -> dict[str, Any]:
        """The first rows of a table."""
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
            raise EpisodeAnalysisError(
                f"The table {name} is a stream, which has no end.",
                hint="Give a table of its events; running streams have a page of their own.",
            )
    taken = {name.lower() for name in given}
    sampled = [name for name in SAMPLES if directory is not None and name not in taken]
    if directory is not None and sampled:
        written = _write_samples(directory, sampled)
        frames |= keyword_tables(spark, checked_tables(written))
    empty = empty_tables(spark, {name: frame.schema for name, frame in frames.items()})
    return Tables(spark, frames, empty, frozenset(sampled))


def _write_samples(directory: Path, names: list[str]) -> dict[str, str]:
    made: dict[str, Callable[[], samples.Sample]] = {
        "ticks": samples.stock_ticks,
        "clicks": samples.web_clicks,
        "readings": machine_samples.machine_readings,
    }
    for name in names:
        pq.write_table(made[name]().table, directory / f"{name}.parquet")
    return {name: str(directory / f"{name}.parquet") for name in names}
