"""`make bench NAME=stream`: micro-batches: throughput, the floor of a small one, windows, and the size of the state."""

from __future__ import annotations

import argparse
import bisect
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench.figures import new_figure, put_figure
from bench.harness import Report, local_session, say, verdict
from episode.api import Options
from episode.lang.rows.parser import parse_clause
from episode.matchers.columns import to_bytes
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import LocalRun
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from episode.spark.startup.session import ROCKSDB, STATE_STORE
from episode.spark.stream.runtime import Stream
from episode.spark.stream.shards import COUNTERS, ShardProcessor, open_matches

ROWS, BATCHES, KEYS, RUNS = 1_000_000, 6, 1_000, 2
SMALL_ROWS, SMALL_BATCHES = 1_000, 25
LATENCY_WARM, LATENCY_FILES, LATENCY_PERIOD, LATENCY_ROWS = 5, 25, 2, 200
HOUR_BATCHES, HOUR_ROWS = 60, 6_000
MICROSECONDS = 1_000_000
BEGIN = 1_700_000_000 * MICROSECONDS
AT_LEAST, AT_MOST_SHARE = 2.5, 0.20
SCHEMA = "key int, ts timestamp, price double"
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite", "pandas")
PRICE_FALL = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price, LAST(B.price) AS min_price, count(B.*) AS falls
  AFTER MATCH SKIP PAST LAST ROW
  PATTERN (A B{{3,}} C) WITHIN {window}
  DEFINE B AS price < PREV(price), C AS price >= PREV(price))"""
STAYS_OPEN = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price
  PATTERN (A B*? C) WITHIN {window}
  DEFINE A AS pmod(cast(round(100 * price) AS INT), 50) = 0, C AS C.price < A.price - 1000)"""
"""One row in fifty is a start, and none is ever followed by its end: every start waits for its whole window."""


IN_PROCESS = {
    "one row in fifty starts, and its end depends on it": """
        PARTITION BY key ORDER BY ts MEASURES A.price AS p PATTERN (A B*? C) WITHIN INTERVAL {window} SECONDS
        DEFINE A AS A.opens = 0, C AS C.price < A.price - 1000""",
    "every row starts": """
        PARTITION BY key ORDER BY ts MEASURES A.price AS p PATTERN (A B*? C) WITHIN INTERVAL {window} SECONDS
        DEFINE C AS C.price < -1000""",
}
"""Starts that wait for their whole window."""
AT_MOST_WINDOWS = 1.3


def write_files(place: Path, batches: int, rows: int, span: int, seed: int = 1) -> None:
    """One file for each micro-batch: `rows` ticks spread evenly over `span` microseconds, random walks by key."""
    draw = np.random.default_rng(seed)
    place.mkdir(parents=True)
    last = np.full(KEYS, 100.0)
    for number in range(batches):
        key = draw.integers(0, KEYS, rows).astype(np.int32)
        price = np.round(last[key] + draw.normal(0, 1, rows), 2)
        last[key] = price
        ts = BEGIN + number * span + (np.arange(rows) * (span / rows)).astype(np.int64)
        path = place / f"{number:05}.parquet"
        pq.write_table(pa.table({"key": key, "ts": pa.array(ts, pa.timestamp("us", "UTC")), "price": price}), path)
        os.utime(path, (number + 1, number + 1))


def stream_of(spark: Any, place: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(place))


def run(matches: Any) -> list[Any]:
    """The progress of each micro-batch that had events, the first ones (which start workers) left out."""
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as checkpoint:
        query = (
            matches.writeStream.format("noop")
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress for progress in query.recentProgress if progress.numInputRows > 0][2:]


def seconds(progress: list[Any]) -> list[float]:
    return [p.durationMs["triggerExecution"] / 1000 for p in progress]


# ---- what episode is compared with -----------------------------------------------------------------------


class RowProcessor(ShardProcessor):
    """The same matcher with one state group for each key, fed by plain rows: no envelopes, no shards."""

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        frame = pd.concat(list(rows))
        columns = [field for field in self.spec.input_schema if field.name in self.spec.input_columns]
        arrays = [pa.array(frame[field.name], type=field.type, from_pandas=True) for field in columns]
        blob = to_bytes(pa.Table.from_arrays(arrays, schema=pa.schema(columns)))
        yield from self._step(int(key[0]), [blob], timerValues)


def by_rows(stream: Stream) -> Any:
    """The stream's query through a state group for each key."""
    rows = stream.input.withWatermark("ts", "1 second").groupBy("key")
    output = "shard int, blob binary, " + ", ".join(f"{name} long" for name in COUNTERS)
    matched = rows.transformWithStateInPandas(RowProcessor(stream.spec, stream.settings), output, "append", "EventTime")
    return matched.select("blob").mapInArrow(open_matches, "key int, init double, least double, falls long")


def floor(stream: Stream) -> Any:
    """A stateful query that does nothing, with as many stages and Python workers as ours has."""
    from pyspark.sql import functions as F

    shards = stream.settings.shards

    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"shard": pa.array(range(shards), pa.int32())})

    class Nothing(ShardProcessor):
        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
            for _ in rows:
                pass
            self.head.update((1, "", 0, False, 0, 0, 0, "", b""))
            yield pd.DataFrame({"shard": [int(key[0])]})

    watermarked = stream.input.mapInArrow(hand_on, "shard int").withColumn("at", F.current_timestamp())
    grouped = watermarked.withWatermark("at", "1 second").select("shard").groupBy("shard")
    done = grouped.transformWithStateInPandas(Nothing(stream.spec, stream.settings), "shard int", "append", "EventTime")
    return done.mapInArrow(lambda batches: batches, "shard int")


def planned(spark: Any, place: Path, window: str, query_text: str = PRICE_FALL) -> tuple[Any, Stream]:
    """The query's DataFrame, and the stream that was planned for it."""
    from episode.lang.statement import parse_statement
    from episode.queries.planning import PatternEvents, plan_over

    text = query_text.format(window=window)
    frame = episode.sql(text, ticks=stream_of(spark, place), options=Options(watermark="1 second"))
    clause = parse_statement(text).patterns[0].clause
    query = plan_over(spark, clause, PatternEvents(stream_of(spark, place)), Options(watermark="1 second").run())
    assert isinstance(query.run, Stream)
    return frame, query.run


# ---- the experiments ---------------------------------------------------------------------------------


def throughput(spark: Any, place: Path, page: Report) -> None:
    write_files(place, BATCHES + 2, ROWS, 10 * MICROSECONDS)
    frame, stream = planned(spark, place, "1 minute")
    taken: dict[str, list[float]] = {"episode": [], "rows": []}
    contenders: dict[str, Callable[[], Any]] = {"episode": lambda: frame, "rows": lambda: by_rows(stream)}
    for _ in range(RUNS):
        for name, contender in contenders.items():
            taken[name] += seconds(run(contender()))
            say(f"{name}: {', '.join(f'{s:.2f}' for s in taken[name])} s")
    ours, rows = (statistics.median(taken[name]) for name in ("episode", "rows"))
    page.heading("Throughput")
    page.text(f"Micro-batches of {ROWS:,} events of {KEYS:,} keys; medians of {len(taken['episode'])}; to noop.")
    page.table(
        ["the same matcher", "a micro-batch", "events/s", "of episode's time", "target", ""],
        [
            ["episode: envelopes, state by shard", f"{ours:.2f} s", f"{ROWS / ours:,.0f}", "1", "", ""],
            ["plain rows, a state group for each key", f"{rows:.2f} s", f"{ROWS / rows:,.0f}", f"{rows / ours:.1f}×",
             f"≥ {AT_LEAST}×", verdict(rows / ours >= AT_LEAST)],
        ],
    )  # fmt: skip


def small_batches(spark: Any, place: Path, page: Report) -> None:
    write_files(place, SMALL_BATCHES + 2, SMALL_ROWS, 2 * MICROSECONDS)
    frame, stream = planned(spark, place, "1 minute")
    taken: dict[str, list[float]] = {"episode": [], "floor": []}
    for _ in range(RUNS):
        taken["floor"] += seconds(run(floor(stream)))
        taken["episode"] += seconds(run(frame))
    ours, least = (statistics.median(taken[name]) for name in ("episode", "floor"))
    share = max(0.0, 1 - least / ours)
    say(f"small: episode {ours:.3f} s, floor {least:.3f} s")
    page.heading("A small micro-batch")
    page.text(
        f"{SMALL_ROWS:,} events each, medians of {len(taken['episode'])}. The floor is a stateful query that does "
        "nothing, through the same stages. An event waits for its micro-batch and for the one after it, which knows "
        "the watermark: a match is out about two micro-batches after its last event came."
    )
    page.table(
        ["query", "median", "90% within", "episode's own share", "target", ""],
        [
            ["nothing (Spark's floor)", f"{least:.3f} s", f"{_most(taken['floor']):.3f} s", "", "", ""],
            ["episode", f"{ours:.3f} s", f"{_most(taken['episode']):.3f} s", f"{share:.0%}", f"≤ {AT_MOST_SHARE:.0%}",
             verdict(share <= AT_MOST_SHARE)],
        ],
    )  # fmt: skip


def _most(values: list[float]) -> float:
    return float(np.quantile(values, 0.9))


def windows(spark: Any, place: Path, page: Report) -> None:
    rows, span = ROWS // 5, 2 * MICROSECONDS
    write_files(place, BATCHES + 2, rows, span)
    page.heading("Windows")
    page.text(
        f"Micro-batches of {rows:,} events, {span // MICROSECONDS} s of event time each. A price fall is decided soon "
        "after it begins, whatever the window. The other pattern, `A B*? C` with a C that never comes, is the worst "
        "case: each start waits for its whole window."
    )
    lines = []
    patterns = {"price falls": PRICE_FALL, "starts that wait for their whole window": STAYS_OPEN}
    for title, text in patterns.items():
        for window in ("1 second", "3 seconds", "10 seconds", "100 seconds"):
            if text is STAYS_OPEN and window == "100 seconds":
                continue  # longer than the stream; see `windows_in_process`
            frame, _ = planned(spark, place, window, text)
            progress = run(frame)
            held = max(p.observedMetrics["episode"].state_rows for p in progress)
            taken = statistics.median(seconds(progress))
            lines.append([title, window, f"{taken:.2f} s", f"{held:,}"])
            say(f"{title}, window {window}: {taken:.2f} s, {held:,} rows held")
    page.table(["pattern", "WITHIN", "a micro-batch", "rows held by matchers, at most"], lines)
    windows_in_process(page)


def windows_in_process(page: Report) -> None:
    """The matcher alone: the same rate for each key, a tenth of the keys, and windows longer than a stream on Spark."""
    rows, keys, span = ROWS // 50, KEYS // 10, 2 * MICROSECONDS
    page.text(
        f"The matcher alone, without Spark: feeds of {rows:,} events of {keys:,} keys, {span // MICROSECONDS} s of "
        "event time each, in seconds of one core, once the window is full."
    )
    lines = []
    for title, clause in IN_PROCESS.items():
        taken = {}
        for window in (1, 10, 100):
            taken[window], held = feeds_in_process(clause, window, rows, keys, span)
            lines.append([title, f"{window} s", f"{taken[window] * 1000:.1f} ms", f"{held:,}", ""])
            say(f"{title}, window {window} s: {taken[window] * 1000:.1f} ms, {held:,} rows held")
        ratio = taken[100] / taken[1]
        lines[-1][-1] = f"{ratio:.2f} times 1 s; below {AT_MOST_WINDOWS} ({verdict(ratio < AT_MOST_WINDOWS)})"
    page.table(["pattern", "WITHIN", "a feed", "rows held", ""], lines)


def feeds_in_process(clause: str, window: int, rows: int, keys: int, span: int) -> tuple[float, int]:
    """Median seconds of a feed, and the rows that are held in the end."""
    schema = pa.schema({"key": pa.int32(), "ts": pa.timestamp("us", "UTC"), "price": pa.float64(), "opens": pa.int32()})
    types = {"key": "int", "ts": "timestamp", "price": "double", "opens": "int"}
    plan = plan_row_pattern(parse_clause(clause.format(window=window)), InputSchema(types))
    running = LocalRun(RowPatternSpec(plan, schema))
    draw = np.random.default_rng(1)
    taken = []
    for number in range(window * MICROSECONDS // span + 10):
        ts = number * span + (np.arange(rows) * (span / rows)).astype(np.int64)
        columns = {
            "key": draw.integers(0, keys, rows).astype(np.int32),
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "price": np.round(draw.normal(100, 1, rows), 2),
            "opens": draw.integers(0, 50, rows).astype(np.int32),
        }
        table = pa.table(columns, schema=schema)
        begin = time.thread_time()
        running.feed(table, int(ts[-1]) - 1)
        taken.append(time.thread_time() - begin)
    return statistics.median(taken[-8:]), running.matcher.state_rows


def latency(spark: Any, place: Path, page: Report) -> None:
    """Files come in real time; a match's latency is from the arrival of its last event to when it is handed out."""
    place.mkdir(parents=True)
    draw = np.random.default_rng(2)
    arrived: list[tuple[int, float]] = []
    taken: list[float] = []

    def add(number: int) -> None:
        begin = BEGIN + number * LATENCY_PERIOD * MICROSECONDS
        ts = begin + np.arange(LATENCY_ROWS) * (LATENCY_PERIOD * MICROSECONDS // LATENCY_ROWS)
        key = draw.integers(0, KEYS // 100, LATENCY_ROWS).astype(np.int32)
        price = np.round(draw.normal(100, 1, LATENCY_ROWS), 2)
        path = place.parent / "coming.parquet"
        pq.write_table(pa.table({"key": key, "ts": pa.array(ts, pa.timestamp("us", "UTC")), "price": price}), path)
        path.rename(place / f"{number:05}.parquet")
        arrived.append((int(ts[-1]), time.time()))

    def handle(batch: Any, _number: int) -> None:
        ends = [int(row.match_end.timestamp() * MICROSECONDS) for row in batch.select("match_end").collect()]
        now = time.time()
        lasts = [last for last, _ in arrived]
        taken.extend(now - arrived[bisect.bisect_left(lasts, end)][1] for end in ends)

    stream = spark.readStream.schema(SCHEMA).parquet(str(place))
    options = Options(watermark="0 seconds", match_times=True)
    frame = episode.sql(PRICE_FALL.format(window="1 minute"), ticks=stream, options=options)
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as checkpoint:
        query = frame.writeStream.foreachBatch(handle).option("checkpointLocation", checkpoint).start()
        for number in range(LATENCY_WARM + LATENCY_FILES):
            if number == LATENCY_WARM:
                query.processAllAvailable()
                taken.clear()
            add(number)
            time.sleep(LATENCY_PERIOD)
        query.stop()
    say(f"latency: {len(taken):,} matches, median {statistics.median(taken):.2f} s")
    page.heading("Latency")
    page.text(
        f"A file of {LATENCY_ROWS} events comes every {LATENCY_PERIOD} s; the watermark is not delayed. From the time "
        "when the file with a match's last event is there to the time when the match is handed to a function for each "
        f"micro-batch: {len(taken):,} matches. Events are matched by the micro-batch after their own, in which the "
        "watermark has passed them."
    )
    quantiles = (0.1, 0.5, 0.9, 0.99, 1.0)
    page.table(
        [f"{quantile:.0%} within" for quantile in quantiles],
        [[f"{np.quantile(taken, quantile):.2f} s" for quantile in quantiles]],
    )


def hour(spark: Any, place: Path, page: Report) -> None:
    span = 3600 * MICROSECONDS // HOUR_BATCHES
    write_files(place, HOUR_BATCHES, HOUR_ROWS, span)
    frame, _ = planned(spark, place, "5 minutes")
    progress = run(frame)
    held = [p.observedMetrics["episode"].state_rows for p in progress]
    waiting = [p.observedMetrics["episode"].waiting_events for p in progress]
    entries = [p.stateOperators[0].numRowsTotal for p in progress]
    memory = [p.stateOperators[0].memoryUsedBytes for p in progress]
    say(f"rows held: {held}")
    page.heading("One hour of event time")
    page.text(
        f"{HOUR_BATCHES} micro-batches of {HOUR_ROWS:,} events, {span // MICROSECONDS} s of event time each, "
        "WITHIN 5 minutes. The store's memory is what Spark reports for RocksDB: its write buffers fill up with every "
        "version of an entry until they are written out, however few entries are live."
    )
    page.table(
        ["micro-batch", "rows held by matchers", "events in the buffer", "entries in the store", "memory of the store"],
        [
            [i + 3, f"{held[i]:,}", f"{waiting[i]:,}", f"{entries[i]:,}", f"{memory[i] / 2**20:.1f} MiB"]
            for i in range(0, len(held), max(1, len(held) // 12))
        ],
    )
    _plot(page, held, waiting)


def _plot(page: Report, held: list[int], waiting: list[int]) -> None:
    figure, (axes,) = new_figure(1, width=7, height=3.5)
    axes.plot(held, label="rows held by matchers")
    axes.plot(waiting, label="events in the buffer")
    axes.set(xlabel="micro-batch", ylabel="rows", ylim=(0, None), title="State over one hour of event time")
    axes.legend()
    put_figure(page, figure, "State over one hour of event time")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="stream", help="of the report")
    parser.add_argument("--only", choices=["throughput", "small", "latency", "windows", "hour"], action="append")
    arguments = parser.parse_args()
    spark = local_session()
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    page = Report(arguments.name, "Row patterns over streams")
    page.text("Price falls (`A B{3,} C`) with a watermark one second behind, Spark on local[2], RocksDB state store.")
    experiments: dict[str, Callable[[Path], None]] = {
        "throughput": lambda place: throughput(spark, place, page),
        "small": lambda place: small_batches(spark, place, page),
        "latency": lambda place: latency(spark, place, page),
        "windows": lambda place: windows(spark, place, page),
        "hour": lambda place: hour(spark, place, page),
    }
    for name, experiment in experiments.items():
        if arguments.only is None or name in arguments.only:
            with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
                experiment(Path(place) / "in")
                shutil.rmtree(place, ignore_errors=True)
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
