"""State of running streams: live queries of this process, those of given checkpoints, and Spark's streams."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from episode.live.checkpoint import tasks_of
from episode.live.progress import read_progress, sum_progress
from episode.see.studio.tables import cell
from episode.terminal.progress import DROPPED, MicroBatch, add_counters, dropped_of, micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRESH = 5.0
"""Seconds without progress after which a task counts as ended."""
LATEST = 20
"""Matches that are shown."""
_MICROSECONDS = 10**14
"""Watermarks from here on are moments in microseconds, and not plain numbers."""


@dataclass(frozen=True)
class Streams:
    """Streams that a studio shows. checkpoints: directories of live queries that run elsewhere."""

    spark: SparkSession
    checkpoints: Sequence[str] = ()

    def describe(self) -> list[dict[str, Any]]:
        """Return one entry for each stream."""
        from episode.spark.live import running_queries

        own = running_queries()
        seen = {query.checkpoint for query in own}
        return [
            *map(_live, own),
            *(_elsewhere(path) for path in self.checkpoints if path not in seen),
            *(_spark_stream(self.spark, query) for query in self.spark.streams.active),
        ]


def _live(query: Any) -> dict[str, Any]:
    last = query.lastProgress
    entry = {"id": query.id, "kind": "live query", "name": query.name or query.id[:8], "into": query.into}
    history = [round(one["inputRowsPerSecond"], 1) for one in query.recentProgress]
    return {**entry, "message": query.status["message"], "active": query.isActive, **_figures(last, history)}


def _elsewhere(checkpoint: str) -> dict[str, Any]:
    """Describe a live query that runs elsewhere, by the progress that its tasks write next to their checkpoint."""
    entry = {"id": checkpoint, "kind": "live query elsewhere", "name": checkpoint, "into": None}
    tasks = tasks_of(checkpoint)
    if tasks is None:
        return {**entry, "message": "There is no live query at this checkpoint.", "active": False, **_figures(None, [])}
    said = read_progress(checkpoint, tasks)
    marks = [one["watermark"] for one in said if one["watermark"] is not None]
    progress = sum_progress(said, numeric_time=all(abs(mark) < _MICROSECONDS for mark in marks)) if said else None
    active = any(not one["ended"] and time.time() - one["time"] < FRESH for one in said)
    message = "Running" if active else "Not running" if said else "Nothing said yet"
    return {**entry, "message": message, "active": active, **_figures(progress, [])}


def _figures(progress: Mapping[str, Any] | None, history: list[float]) -> dict[str, Any]:
    """Return the figures of a live query. lag: seconds from the watermark to the clock."""
    if progress is None:
        return _all_figures(rates=history)
    watermark = progress["eventTime"].get("watermark")
    rows = list(progress["last_matches"])
    columns = list(rows[-1]) if rows else []
    return _all_figures(
        events=progress["events"],
        matches=progress["matches"],
        rate=round(progress["inputRowsPerSecond"], 1),
        rates=history,
        lag=_lag(watermark),
        watermark=None if watermark is None else str(watermark),
        unread=progress["unread"],
        unprocessed=progress["unprocessed"],
        held=progress["state_rows"],
        latency=dict(progress["latency"]),
        dropped=_drop_counts(dropped_of(progress)),
        columns=columns,
        latest=[[cell(row.get(name)) for name in columns] for row in reversed(rows)],
    )


def _spark_stream(spark: SparkSession, query: Any) -> dict[str, Any]:
    batches = [one for progress in query.recentProgress if (one := micro_batch(progress, _is_numeric(progress)))]
    error, name = query.exception(), query.name or str(query.id)[:8]
    message = str(error).splitlines()[0] if error is not None else str(query.status["message"])
    entry = {"id": str(query.id), "kind": "Spark stream", "name": name, "into": _sink(query)}
    columns, latest = _latest(spark, query)
    figures = {**_of_batches(batches), "columns": columns, "latest": latest}
    return {**entry, "message": message, "active": bool(query.isActive), **figures}


def _of_batches(batches: Sequence[MicroBatch]) -> dict[str, Any]:
    """The last micro-batches, which Spark keeps a hundred of."""
    if not batches:
        return _all_figures()
    last = batches[-1]
    return _all_figures(
        events=sum(one.events for one in batches),
        matches=sum(one.matches for one in batches) or None,
        rate=round(last.events / last.seconds, 1) if last.seconds else None,
        rates=[round(one.events / one.seconds, 1) if one.seconds else 0.0 for one in batches],
        lag=last.lag,
        watermark=last.watermark,
        held=last.state_rows,
        dropped=_drop_counts(add_counters(one.dropped for one in batches)),
    )


def _all_figures(**known: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(
        ("events", "matches", "rate", "lag", "watermark", "unread", "unprocessed", "held", "latency")
    )
    return {**nothing, "rates": [], "dropped": [], "columns": [], "latest": [], **known}


def _drop_counts(counted: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": DROPPED[name], "count": count} for name, count in counted.items() if count or name == "late"]


def _lag(watermark: object) -> float | None:
    if not isinstance(watermark, str):
        return None
    try:
        moment = datetime.fromisoformat(watermark.replace("Z", "+00:00"))
    except ValueError:
        return None
    return round((datetime.now(timezone.utc) - moment).total_seconds(), 1)


def _is_numeric(progress: Any) -> bool:
    """Whether event times are numbers, which Spark's watermark shows as moments shortly after 1970."""
    return str(progress.eventTime.get("watermark", "")).startswith("1970-")


def _sink(query: Any) -> str | None:
    last = query.lastProgress
    return None if last is None else str(last.sink.description)


def _latest(spark: SparkSession, query: Any) -> tuple[list[str], list[list[Any]]]:
    """Return the last rows of a stream that Spark keeps in memory, under the query's name; none for other sinks."""
    if query.name is None or "MemorySink" not in (_sink(query) or ""):
        return [], []
    from episode.spark.jobs import last_rows

    table = last_rows(spark, query.name, LATEST)
    return table.column_names, [[cell(value) for value in row.values()] for row in reversed(table.to_pylist())]
