"""Runs on Spark that the constants of sizing come from, and those that its predictions are held against.

Run as `python -m bench.sizing_runs calibrate|check CORES '{…}'` by `bench/sizing.py`: each number of cores is a session
of its own. The last line of standard output is what was measured, as JSON.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench import live, stream
from bench.data_sets import DATA, made_once
from bench.harness import local_session, say, seconds_of, side_by_side
from bench.memory import WorkerMemory
from bench.queries import TICK, select
from bench.ticks import ROW_GROUP, ticks
from episode import Options, Tuning
from episode.spark.startup.session import ROCKSDB, STATE_STORE
from episode.spark.stores.catalog import register

KEYS = 1_000
NONE = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts MEASURES A.price AS init_price, B.price AS next_price
  AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.price < -1)"""
"""No row begins a match: what is left is reading, packing, moving and ordering."""
WIDE = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts MEASURES A.price AS init_price, A.x AS x, B.y AS y
  AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.price < -1)"""
"""The same with two more columns to move, of random numbers."""
SCREENED = """\
FROM ticks PARTITION BY key ORDER BY ts
PATTERN T1; T2 WHERE T1.price < -1 AND T2.price < -1 WITHIN 20 seconds
RETURN T1.price AS low, T2.price AS high"""
"""No row passes the screen: what is left is reading and screening."""
MANY = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts MEASURES A.price AS init_price, B.price AS next_price
  AFTER MATCH SKIP PAST LAST ROW PATTERN (A B) DEFINE A AS A.price > -1)"""
"""Every second row is the end of a match."""
EVENT = """\
FROM ticks PARTITION BY key ORDER BY ts
PATTERN T1; T2
WHERE T1.price < 100 AND T2.price < 100 AND T2.price > T1.price + 0.05
WITHIN 20 seconds
RETURN T1.price AS low, T2.price AS high"""
QUERIES = {"row pattern": select(TICK), "event pattern": EVENT}
STREAM_SIZES, STREAM_BATCHES = (20_000, 1_000_000), 10
LIVE_EVENTS, LIVE_RATE = 5_000_000, 10_000
FEW_TASKS, MANY_TASKS = 8, 72
FEW_ROWS, WARM = 20_000, 4
"""Rows of a run that is nothing but fixed costs; so many such runs, and as many large ones, before anything counts: the
JVM compiles what it runs often, and is a third slower until then."""


def main() -> None:
    what, cores, given = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    begin = time.perf_counter()
    spark = local_session(cores)
    spark.range(1).collect()
    session = time.perf_counter() - begin
    if what == "calibrate":
        found = calibration(spark, cores, **given)
    else:
        found = checked(spark, **given)
    spark.stop()
    print(json.dumps({"session": session, **found}))


def wide(rows: int) -> Path:
    """The ticks with two columns of random numbers."""
    return made_once(DATA / f"wide-{rows}-{KEYS}", _widened(ticks(rows, KEYS)), ROW_GROUP)


def _widened(place: Path) -> Iterator[pa.Table]:
    draw = np.random.default_rng(1)
    for path in sorted(place.glob("*.parquet")):
        table = pq.read_table(path)
        for name in ("x", "y"):
            table = table.append_column(name, pa.array(draw.random(table.num_rows)))
        yield table


def run_of(
    spark: Any, text: str, rows: int, *, into: str | None = None, read: Any = None, of: Any = None
) -> Callable[[], None]:
    """A query over ticks (or over another table of so many), to written Parquet or to noop."""
    table = str(ticks(rows, KEYS) if of is None else of(rows))

    def run() -> None:
        options = Options(tuning=Tuning(shards=4)) if rows < 100_000 else Options()  # few rows, but all stages
        frame = episode.sql(text, spark=spark, options=options, ticks=table if read is None else read(table))
        if into is None:
            frame.write.format("noop").mode("overwrite").save()
        else:
            frame.write.mode("overwrite").parquet(into)

    return run


# ---- calibrating ---------------------------------------------------------------------------------------------


def calibration(spark: Any, cores: int, sizes: list[int], runs: int, streams: bool) -> dict[str, Any]:
    """Medians of [seconds by the clock, seconds of all cores] by what was run, all in turns."""
    out = str(DATA / "out-sizing")
    works = {f"none|{rows}": run_of(spark, NONE, rows) for rows in (FEW_ROWS, *sizes)}
    if streams:
        small, large = sizes[0], sizes[1]
        works["wide"] = run_of(spark, WIDE, sizes[1], of=wide)
        works |= {f"screened|{rows}": run_of(spark, SCREENED, rows) for rows in (FEW_ROWS, *sizes)}
        works |= {f"many|{rows}": run_of(spark, MANY, rows) for rows in (FEW_ROWS, large)}
        works |= {f"written|{rows}": run_of(spark, MANY, rows, into=out) for rows in (FEW_ROWS, large)}
        works["through"] = run_of(spark, NONE, small, read=lambda path: _not_direct(spark, path))
        works |= {f"tasks|{count}": _tasks(spark, count) for count in (FEW_TASKS, MANY_TASKS)}
    for _ in range(WARM):
        works[f"none|{FEW_ROWS}"]()
        works[f"none|{sizes[1]}"]()
    with WorkerMemory() as watch:
        taken = side_by_side(works, runs)
    shutil.rmtree(out, ignore_errors=True)
    found: dict[str, Any] = {name: [one.median, one.median_cores] for name, one in taken.items()}
    found["worker"] = watch.largest
    if streams:
        found["micro"] = micro_batches(spark, STREAM_SIZES)
        found["live"] = live_tasks(spark)
    return found


def _not_direct(spark: Any, path: str) -> Any:
    """The same files as rows through Spark."""
    return spark.read.option("ignoreMissingFiles", True).parquet(path)


def _tasks(spark: Any, count: int) -> Callable[[], None]:
    numbers = spark.range(0, count, 1, numPartitions=count)
    return lambda: numbers.mapInArrow(lambda batches: batches, "id long").write.format("noop").mode("overwrite").save()


def micro_batches(spark: Any, sizes: tuple[int, ...] | list[int]) -> dict[int, float]:
    """The median length of micro-batches of so many events, from files to noop."""
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    found = {}
    for rows in sizes:
        with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
            files = Path(place) / "in"
            stream.write_files(files, STREAM_BATCHES + 2, rows, 10 * stream.MICROSECONDS)
            frame, _ = stream.planned(spark, files, "1 minute")
            found[rows] = statistics.median(stream.seconds(stream.run(frame)))
        say(f"micro-batches of {rows:,} events: {found[rows]:.2f} s")
    return found


def live_tasks(spark: Any) -> dict[str, float]:
    """Events/s of two live tasks over a backlog, and the latency of one at a moderate rate."""
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    with live.streams("1 second") as place:
        live.fill(LIVE_EVENTS)
        rates = [live.live_rate(spark, place, "pull", 2, LIVE_EVENTS, number) for number in range(3)][1:]
    say(f"live tasks: {max(rates):,.0f} events/s")
    found = live.latency(spark, "live tasks, pull", live.live_query("pull", 1), LIVE_RATE, 4.0, 6.0)
    return {"rate": statistics.median(rates), "median": found.at(0.5) / 1000, "most": found.at(0.99) / 1000}


# ---- checking ------------------------------------------------------------------------------------------------


def checked(spark: Any, sizes: list[int], runs: list[int], micro: list[int]) -> dict[str, Any]:
    """Medians of every query and size, written as Parquet; sizes in turns."""
    out = str(DATA / "out-sizing")
    taken: dict[str, list[list[float]]] = {}
    for name, text in QUERIES.items():
        for _ in range(WARM):
            run_of(spark, text, sizes[1], into=out)()
        for turn in range(max(runs)):
            for rows, times in zip(sizes, runs, strict=True):
                if turn < times:
                    both = list(seconds_of(run_of(spark, text, rows, into=out)))
                    taken.setdefault(f"{name}|{rows}", []).append(both)
                    say(f"{name}, {rows:,} rows: {both[0]:.2f} s, {both[1]:.2f} s of cores")
    shutil.rmtree(out, ignore_errors=True)
    found = {
        name: [statistics.median(values) for values in zip(*several, strict=True)] for name, several in taken.items()
    }
    return {"batch": found, "micro": micro_batches(spark, micro) if micro else {}}


if __name__ == "__main__":
    main()
