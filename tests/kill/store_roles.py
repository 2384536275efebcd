"""The processes that are killed: a producer, an archiver and a query of one stream store, each until it is stopped.

python -m tests.kill.store_roles producer|archiver|query DIRECTORY SEED [--to-the-end]
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import pyarrow as pa

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning
from tests.kill.follower import DELAY, END, QUERY, session

KEYS, EVENTS = 7, 60
STREAM, ARCHIVE, MATCHES = "Ticks", "TicksArchive", "Matches"
SCHEMA = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32())])
OVER_STREAM = QUERY.replace("FROM events", f"FROM {STREAM}").replace("ORDER BY ts", "")


def declare() -> None:
    columns = "k INT, ts BIGINT, v INT"
    episode.streams.create(
        STREAM, columns, time="ts", key="k", delay=DELAY, archive=ARCHIVE, lanes=3,
        options={"log_retain": "2 seconds", "partition": "100000"},
    )  # fmt: skip
    episode.streams.create(
        MATCHES, "k INT, number BIGINT, first BIGINT, last BIGINT, n BIGINT, total BIGINT", time="last"
    )


def batch(number: int, seed: int) -> pa.Table:
    """The events of a batch, slightly out of order; the same whenever they are asked for."""
    draw = random.Random(f"{seed}-{number}")
    first = number * EVENTS
    rows = [(draw.randrange(KEYS), 10 * (first + i + 1), draw.randrange(5)) for i in range(EVENTS)]
    rows.sort(key=lambda row: row[1] + draw.randrange(DELAY // 2))
    return pa.Table.from_arrays(
        [pa.array(column, kind) for column, kind in zip(zip(*rows), SCHEMA.types)], schema=SCHEMA
    )


def produce(place: Path, seed: int, to_the_end: bool) -> None:
    """Batches from where the note of the last one says. The note comes after the batch: a killed producer repeats."""
    note = place / "produced"
    number = int(note.read_text()) if note.exists() else 0
    if to_the_end:
        # The batch that was under way may be stored already; what comes after it moves the watermark to the end.
        append(number, batch(number, seed))
        note.write_text(str(number + 1))
        append(number + 1, pa.Table.from_pylist([{"k": -1, "ts": 2 * END, "v": 0}], schema=SCHEMA))
        return
    while True:
        append(number, batch(number, seed))
        number += 1
        hidden = note.with_suffix(".new")
        hidden.write_text(str(number))
        os.replace(hidden, note)
        time.sleep(0.2)


def append(number: int, table: pa.Table) -> None:
    episode.streams.append(STREAM, table, origin=episode.streams.Origin("producer", number))


def archive(to_the_end: bool) -> None:
    while True:
        episode.streams.archive(STREAM)
        if to_the_end:
            return
        time.sleep(0.2)


def follow(place: Path, to_the_end: bool) -> None:
    spark = session()
    matches = episode.sql(
        OVER_STREAM, spark=spark, options=Options(tuning=Tuning(shards=4), stream=StreamOptions(end=END))
    )
    writer = matches.writeStream.format("episode").option("checkpointLocation", str(place / "checkpoint"))
    if to_the_end:
        writer.trigger(availableNow=True).start(MATCHES).awaitTermination()
    else:
        writer.trigger(processingTime="0 seconds").start(MATCHES).awaitTermination()


def main() -> None:
    role, place, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    to_the_end = "--to-the-end" in sys.argv
    print(role, flush=True)
    if role == "producer":
        produce(place, seed, to_the_end)
    elif role == "archiver":
        archive(to_the_end)
    else:
        follow(place, to_the_end)


if __name__ == "__main__":
    main()
