"""`make bench NAME=store-spark`: a pattern over a stream store: envelopes packed by its readers, and rows of Spark."""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import episode
from bench.harness import Report, local_session, say
from bench.stream import BATCHES, BEGIN, KEYS, MICROSECONDS, PACKAGES, PRICE_FALL, ROWS, run, seconds
from episode.spark.startup.session import ROCKSDB, STATE_STORE
from episode.spark.stores.catalog import register

RUNS = 2
SPAN = 10 * MICROSECONDS


def fill(rows: int) -> float:
    """One commit for each micro-batch; the median of the seconds that an append takes."""
    import time

    episode.streams.create("Ticks", "key INT, ts TIMESTAMP, price DOUBLE", time="ts", key="key", delay="1 second")
    draw = np.random.default_rng(1)
    last = np.full(KEYS, 100.0)
    taken = []
    for number in range(BATCHES + 2):
        key = draw.integers(0, KEYS, rows).astype(np.int32)
        price = np.round(last[key] + draw.normal(0, 1, rows), 2)
        last[key] = price
        ts = BEGIN + number * SPAN + (np.arange(rows) * (SPAN / rows)).astype(np.int64)
        table = pa.table({"key": key, "ts": pa.array(ts, pa.timestamp("us", "UTC")), "price": price})
        begin = time.perf_counter()
        episode.streams.append("Ticks", table)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", default="store-spark", help="of the report")
    parser.add_argument("--rows", type=int, default=ROWS, help="events of a micro-batch")
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory(prefix="episode-bench-") as place:
        os.environ["EPISODE_CATALOG"] = str(Path(place) / "catalog")
        spark = local_session()
        spark.conf.set(STATE_STORE, ROCKSDB)
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        register(spark)
        appended = fill(rows)
        say(f"append: {appended:.2f} s")
        text = PRICE_FALL.format(window="1 minute").replace("ORDER BY ts", "")

        def stream() -> Any:
            return spark.readStream.format("episode").option("maxEventsPerTrigger", rows).load("Ticks")

        # The condition holds for every row; because of it Spark, and not the store's reader, hands out the events.
        contenders: dict[str, Callable[[], Any]] = {
            "envelopes": lambda: episode.sql(text, ticks=stream()),
            "rows": lambda: episode.sql(text, ticks=stream().where("price > -1e9")),
        }
        measured: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(RUNS + 1):
            for name, contender in contenders.items():
                found = seconds(run(contender()))
                measured[name] += found if turn else []  # the first turn warms up
                say(f"{name}: {', '.join(f'{s:.2f}' for s in found)} s")
    medians = {name: statistics.median(found) for name, found in measured.items()}
    page = Report(arguments.name, "A row pattern over a stream store")
    page.text(
        f"Price falls (`A B{{3,}} C`) over a stream store, micro-batches of {rows:,} events of {KEYS:,} keys, "
        f"medians of {len(measured['rows'])}, to noop; Spark on local[2], RocksDB state store. Both run in turns in "
        "one session."
    )
    page.table(
        ["events reach the matchers", "a micro-batch", "events/s", "of the envelopes' time"],
        [
            [
                title,
                f"{medians[name]:.2f} s",
                f"{rows / medians[name]:,.0f}",
                f"{medians[name] / medians['envelopes']:.2f}×",
            ]
            for name, title in (
                ("envelopes", "in envelopes that the store's readers pack"),
                ("rows", "as rows of Spark"),
            )
        ],
    )
    page.text(f"Appending such a batch takes {appended:.2f} s ({rows / appended:,.0f} events/s), on the disk included.")
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
