"""`make bench NAME=rules-stream`: rules over a stream of micro-batches, added, replaced and removed while it runs.

1. A stream of 100 rules: how long its micro-batches take, and how long those in which a rule is added, replaced or
   removed; no micro-batch may take longer than 1.5 times the median.
2. What that is made of: the state of the rules, and the matches.
All in one Spark session on two cores, one file of events for each micro-batch; the next file is always there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import episode
from bench.harness import Report, local_session, say, verdict
from bench.payments import GIVEN, payments, rules
from episode.spark.startup.session import ROCKSDB, STATE_STORE

RULES, ROWS, ACCOUNTS, BATCHES, WARM = 100, 10_000, 1_000, 36, 8
SHARDS = 4
STRETCHED = 40
"""A micro-batch spans so many times the time that its events were made for: about half an hour."""
DDL = "account int, ts timestamp, kind string, amount double, country string"
AT_MOST = 1.5
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
WHEN = {0.36: "added", 0.53: "replaced", 0.69: "removed", 0.83: "ten added"}
"""After which part of the micro-batches rules change, and how."""


def main() -> None:
    arguments = _arguments()
    warnings.simplefilter("ignore", episode.EpisodeWarning)
    spark = local_session()
    spark.conf.set(STATE_STORE, ROCKSDB)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with tempfile.TemporaryDirectory(prefix="episode-rules-") as place:
        taken = run(spark, Path(place), arguments)
    report(arguments, *taken)
    spark.stop()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=RULES)
    parser.add_argument("--rows", type=int, default=ROWS, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=BATCHES)
    parser.add_argument("--name", default="rules-stream", help="of the report")
    return parser.parse_args()


def run(spark: Any, place: Path, arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """The progress of every micro-batch, and what happened to the rules with which of them."""
    table = slower(ds.dataset(payments(arguments.rows * arguments.batches, ACCOUNTS)).to_table())
    (place / "in").mkdir()
    (place / "rules").mkdir()
    known = rules(arguments.rules + 12)
    names = list(known)
    for name in names[: arguments.rules]:
        (place / "rules" / f"{name}.pattern").write_text(known[name])
    for number in range(arguments.batches):
        path = place / "in" / f"{number:05}.parquet"
        pq.write_table(table.slice(number * arguments.rows, arguments.rows), path)
        os.utime(path, (number + 1, number + 1))
    reader = spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1)
    matches = episode.match_all(
        reader.parquet(str(place / "in")), place / "rules", log=place / "log", look_every=None,
        options=episode.Options(watermark="1 second", tuning=episode.Tuning(shards=SHARDS)), **GIVEN,
    )  # fmt: skip
    query = (
        matches.writeStream.format("parquet").option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint")).start()
    )  # fmt: skip
    done: list[dict[str, Any]] = []
    marked: dict[int, str] = {}
    waiting = {int(part * arguments.batches): what for part, what in WHEN.items()}
    try:
        while len(done) < arguments.batches:
            done += _processed(query, done)
            last = done[-1]
            say(f"micro-batch {len(done) - 1}: {last['seconds']:.2f} s{', rules change' if last['changes'] else ''}")
            if last["changes"] and len(done) > 1:
                marked[len(done) - 1] = waiting.pop(min(waiting))
            if min(waiting, default=arguments.batches) == len(done) - 1:
                change(place / "rules", known, names, arguments.rules, waiting[min(waiting)])
                matches.look()
    finally:
        query.stop()
        matches.close()
    statuses = matches.rules().column("status").to_pylist()
    say(", ".join(f"{statuses.count(status)} {status}" for status in dict.fromkeys(statuses)))
    return done, marked


def slower(table: pa.Table) -> pa.Table:
    """The events with more time between them, so that windows of minutes pass in a few micro-batches."""
    time = table.column("ts").cast(pa.int64()).to_numpy()
    stretched = pa.array(time[0] + (time - time[0]) * STRETCHED).cast(table.schema.field("ts").type)
    return table.set_column(table.column_names.index("ts"), table.schema.field("ts"), stretched)


def change(folder: Path, known: dict[str, str], names: list[str], first: int, what: str) -> None:
    """Rules in the folder change."""
    if what == "added":
        (folder / f"{names[first]}.pattern").write_text(known[names[first]])
    elif what == "replaced":
        (folder / f"{names[2]}.pattern").write_text(known[names[first + 1]])
    elif what == "removed":
        (folder / f"{names[7]}.pattern").unlink()
    else:
        for name in names[first + 2 : first + 12]:
            (folder / f"{name}.pattern").write_text(known[name])


def _processed(query: Any, done: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Wait for the next micro-batch."""
    while True:
        if query.exception() is not None:
            raise query.exception()
        found = [one for one in query.recentProgress if one.batchId == len(done) and "episode" in one.observedMetrics]
        if found:
            (one,) = found
            seconds = one.durationMs["triggerExecution"] / 1e3
            changes = next(source.numInputRows for source in one.sources if "log/changes" in source.description)
            return [{"seconds": seconds, "changes": changes, **one.observedMetrics["episode"].asDict()}]
        time.sleep(0.1)


def report(arguments: argparse.Namespace, done: list[dict[str, Any]], marked: dict[int, str]) -> None:
    steady = [one["seconds"] for number, one in enumerate(done) if number >= WARM and number not in marked]
    median = statistics.median(steady)
    page = Report(arguments.name, "Rules that change while a stream runs")
    page.text(
        f"{arguments.rules} rules over a stream, {arguments.rows:,} events in each micro-batch, {ACCOUNTS:,} keys, "
        f"{SHARDS} shards. The first {WARM} micro-batches are not counted.",
    )
    rows = [("as usual", f"{median:.2f} s", f"{max(steady):.2f} s", f"{max(steady) / median:.2f}")]
    worst = max(steady) / median
    for number, what in marked.items():
        ratio = done[number]["seconds"] / median
        worst = max(worst, ratio)
        words = "ten rules added" if what == "ten added" else f"a rule {what}"
        rows.append((words, "", f"{done[number]['seconds']:.2f} s", f"{ratio:.2f}"))
    page.table(("micro-batches", "median", "longest", "times the median"), rows)
    page.text(
        f"{sum(one['matches'] for one in done):,} matches; {done[-1]['state_rows']:,} rows in the state of all rules "
        "after the last micro-batch.",
        f"No micro-batch longer than {AT_MOST} times the median: {verdict(worst <= AT_MOST)} ({worst:.2f}).",
    )
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
