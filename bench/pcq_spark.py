"""Pattern correlation on Spark: from Parquet in batch, and in micro-batches."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

from bench.harness import Report, local_session, say, side_by_side, verdict
from bench.ticks import ticks

ROWS, KEYS = 20_000_000, 1_000
AT_MOST = 1.3
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite", "pandas")
CORES = os.sched_getaffinity(0)

FALL = """
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price_l, LAST(B.price) AS min_price_l
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH
  PATTERN (A {falls}) DEFINE B AS B.price < PREV(B.price)
"""
TICK = """
  PARTITION BY key ORDER BY ts
  MEASURES A.price AS init_price_a, LAST(D.price) AS max_price_a
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH
  PATTERN (A {falls} C* {rises})
  DEFINE B AS B.price < PREV(B.price), C AS C.price >= PREV(C.price) AND C.price <= A.price,
         D AS D.price > PREV(D.price) AND D.price > A.price
"""
PAIRS = """
SELECT l.key, init_price_l, min_price_l, init_price_a, max_price_a
FROM ticks MATCH_RECOGNIZE ({live}) AS l, ticks MATCH_RECOGNIZE ({archive}) AS a
WHERE l.key = a.key AND RECENCY = {recency}
"""


def pairs_query(recency: str, falls: str = "B+", archive_falls: str = "B+", rises: str = "D+") -> str:
    live, archive = FALL.format(falls=falls), TICK.format(falls=archive_falls, rises=rises)
    return PAIRS.format(live=live, archive=archive, recency=recency)


def _to_noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


HANDED = 100_000
"""Rows of a batch that is handed to Spark."""


def _handed(spark: Any, rows: int) -> Any:
    """So many rows of the columns of Q1 as Spark takes them from Python workers that do nothing else: the floor of any
    query with that many results."""

    def batches(parts: Any) -> Any:
        import numpy as np
        import pyarrow as pa

        values = np.arange(HANDED, dtype=np.float64)
        names = ("init_price_l", "min_price_l", "init_price_a", "max_price_a")
        batch = pa.RecordBatch.from_pydict({"key": values.astype(np.int32), **dict.fromkeys(names, values)})
        for part in parts:
            for _ in range(part.num_rows):
                yield batch

    schema = "key int, init_price_l double, min_price_l double, init_price_a double, max_price_a double"
    return spark.range(0, max(1, rows // HANDED), 1, 16).mapInArrow(batches, schema)


def on_spark(options: argparse.Namespace) -> None:
    """Q1 over ticks from Parquet, P = 10 minutes, against the two patterns alone."""
    import episode

    os.sched_setaffinity(0, CORES)
    path = str(ticks(int(ROWS * options.scale), KEYS))
    spark = local_session()

    def alone(clause: str) -> Any:
        return episode.sql(f"SELECT * FROM ticks MATCH_RECOGNIZE ({clause})", ticks=spark.read.parquet(path))

    def pairs(falls: str) -> Any:
        return episode.sql(pairs_query("10 minutes", falls), ticks=spark.read.parquet(path))

    fall, long_fall, tick = FALL.format(falls="B+"), FALL.format(falls="B{6}"), TICK.format(falls="B+", rises="D+")
    counts = {falls: pairs(falls).count() for falls in ("B+", "B{6}")}
    say(f"pairs: {counts}")
    taken = side_by_side(
        {
            "fall": lambda: _to_noop(alone(fall)),
            "six falls": lambda: _to_noop(alone(long_fall)),
            "tick": lambda: _to_noop(alone(tick)),
            "Q1": lambda: _to_noop(pairs("B+")),
            "as many rows handed to Spark": lambda: _to_noop(_handed(spark, counts["B+"])),
            "Q1 with six falls": lambda: _to_noop(pairs("B{6}")),
        },
        options.runs,
    )
    spark.stop()
    page = Report(f"{options.name}-spark", "Pattern correlation on Spark")
    page.text(
        f"{int(ROWS * options.scale):,} ticks of {KEYS:,} keys in Parquet, P = 10 minutes; from Parquet to noop, Spark "
        f"on local[2]; one discarded run each, then in turns, {options.runs} runs; median (least – greatest). *Q1*: a "
        "fall (`A B+`) and a tick shape before it; *with six falls*: `A B{6}`, so that pairs are fewer."
    )
    page.table(
        ["", "time", "of all cores"], [[name, str(one), f"{one.median_cores:.1f} s"] for name, one in taken.items()]
    )
    rows, both_of_q1 = [], 0.0
    for name, live, falls in (("Q1", "fall", "B+"), ("Q1 with six falls", "six falls", "B{6}")):
        both = taken[live].median + taken["tick"].median
        both_of_q1 = both if name == "Q1" else both_of_q1
        ratio = taken[name].median / both
        rows.append(
            [name, f"{counts[falls]:,}", f"{both:.2f} s", f"{ratio:.2f}", f"{AT_MOST}", verdict(ratio <= AT_MOST)]
        )
    page.table(["", "pairs", "the two patterns alone", "ratio", "at most", ""], rows)
    floor = taken["as many rows handed to Spark"].median
    page.text(
        f"Q1 has {counts['B+'] / (ROWS * options.scale):.1f} pairs for each tick. To hand over that many rows of five "
        f"columns from Python workers that do nothing else takes {floor:.2f} s: "
        f"{floor / taken['Q1'].median:.2f} of Q1's time, and {floor / both_of_q1:.1f} times the two patterns alone."
    )
    page.write(packages=PACKAGES)


STREAM_ROWS, HOUR, BATCHES = 200_000, 3_600_000_000, 15
RECENCIES = ("1 minute", "10 minutes", "1 hour", "10 hours")
FAR_OVER_NEAR = 1.5


def in_stream(options: argparse.Namespace) -> None:
    """Micro-batches of 200,000 events, an hour of event time each, by the recency."""
    import episode
    from bench.stream import run, seconds, stream_of, write_files
    from episode.spark.startup.session import ROCKSDB, STATE_STORE

    os.sched_setaffinity(0, CORES)
    spark = local_session()
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    lines, taken = [], {}
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
        write_files(Path(place) / "in", BATCHES, int(STREAM_ROWS * options.scale), HOUR)
        for recency in RECENCIES:
            found = episode.sql(
                pairs_query(recency, "B{4}", "B{2,}", "D{2,}"),
                ticks=stream_of(spark, Path(place) / "in"),
                options=episode.Options(watermark="1 second"),
            )
            progress = run(found)[-4:]
            taken[recency] = statistics.median(seconds(progress))
            last = progress[-1].observedMetrics["episode"]
            pairs = sum(p.observedMetrics["episode"].matches for p in progress) / len(progress)
            lines.append([recency, f"{taken[recency]:.2f} s", f"{pairs:,.0f}", f"{last.state_rows:,}"])
            say(f"P = {recency}: {taken[recency]:.2f} s")
    spark.stop()
    ratio = taken[RECENCIES[-1]] / taken[RECENCIES[0]]
    page = Report(f"{options.name}-stream", "Pattern correlation in a stream")
    page.text(
        f"Micro-batches of {int(STREAM_ROWS * options.scale):,} events of 1,000 keys, an hour of event time each; the "
        "median of the last four of 15, when the longest recency is full. Live: four falls; archive: two or more "
        "falls, then two or more rises above the beginning. What is held: events and matches, after the last "
        "micro-batch."
    )
    page.table(["P", "a micro-batch", "pairs in it", "held"], lines)
    page.table(
        ["10 hours over 1 minute", "at most", ""],
        [[f"{ratio:.2f}", f"{FAR_OVER_NEAR}", verdict(ratio <= FAR_OVER_NEAR)]],
    )
    page.write(packages=PACKAGES)
