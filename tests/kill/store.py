"""Kill producers and archivers of a stream store at random moments, again and again; nothing is lost, nothing repeated.

    python -m tests.kill.store [--seconds 8] [--seed 1] [--producers 2] [--directory PATH]

Each worker is a process of its own, forked from this one so that it starts at once, and killed with SIGKILL. A producer
appends batches 0, 1, 2, … and notes each one that was acknowledged; when it is killed, another goes on after the last
note, with a batch that may have been stored or not: the batch number makes it stored once. Archivers archive, compact
and let the log go without any grace. Meanwhile this process reads, and checks that it never sees a part of a batch, nor
anything twice.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from episode.store.log import Origin
from episode.store.stream import StreamStore
from tests.support.stores import in_plain_files, make_store, rows_of

ROWS = 50
KEYS = 7


def batch_of(producer: int, number: int) -> pa.Table:
    """Batch n of a producer: values say which one it is, times go on and repeat a little."""
    places = np.arange(ROWS)
    keys = pa.array([f"k{(place + number) % KEYS}" for place in places])
    return pa.table({"k": keys, "t": number * 10 + places // 4, "v": producer * 10**9 + number * ROWS + places})


def produce(store: StreamStore, producer: int, note: Path) -> None:
    """Append batch after batch, without an end."""
    number = acknowledged(note)
    while True:
        store.append(batch_of(producer, number), Origin(f"p{producer}", number))
        number += 1
        with open(note, "r+b" if note.exists() else "w+b") as file:
            os.pwrite(file.fileno(), b"%012d" % number, 0)


def acknowledged(note: Path) -> int:
    return int(note.read_bytes() or 0) if note.exists() else 0


def archive(store: StreamStore) -> None:
    while True:
        store.archive()
        store.compact()


@dataclass
class Worker:
    """A process that is killed and started again."""

    work: Callable[[StreamStore], None]
    pid: int = 0
    deaths: int = 0
    failed: list[str] = field(default_factory=list)

    def start(self, store: StreamStore) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                self.work(StreamStore(store.declaration))
            except BaseException as error:  # noqa: BLE001 - a child must never go on as its parent
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        if not os.WIFSIGNALED(status):
            self.failed.append(f"a worker ended by itself, with {os.waitstatus_to_exitcode(status)}")
        self.deaths += 1


def check(store: StreamStore, notes: list[Path]) -> int:
    """What a reader sees at any moment; the number of events."""
    before = [acknowledged(note) for note in notes]
    values = store.table(["v"]).column("v").to_numpy()
    batches, counts = np.unique(values // ROWS, return_counts=True)
    assert len(np.unique(values)) == len(values), "an event is there twice"
    assert (counts == ROWS).all(), "a part of a batch is visible"
    for producer, least in enumerate(before):
        own = batches[(batches * ROWS) // 10**9 == producer] - producer * 10**9 // ROWS
        assert (own == np.arange(len(own))).all(), f"a batch of producer {producer} is missing"
        assert len(own) >= least, f"an acknowledged batch of producer {producer} is lost"
    return len(values)


def check_order(store: StreamStore) -> None:
    """At the end: of each key, events in order of time and arrival, in the archive, too."""
    store.archive()
    everything = sorted(rows_of(store.table()))
    assert sorted(in_plain_files(store)) == everything, "plain Parquet files do not have every event once"
    assert store.count() == len(everything)
    for key in range(KEYS):
        found = rows_of(store.history().read(pa.table({"k": [f"k{key}"]}), 0, 2**62, ["k", "t", "v"]))
        assert found == sorted(found, key=lambda row: row[1])
        for producer in {row[2] // 10**9 for row in found}:
            own = [row[2] for row in found if row[2] // 10**9 == producer]
            ties = [row[1] for row in found if row[2] // 10**9 == producer]
            assert list(zip(ties, own)) == sorted(zip(ties, own)), "equal times are not in order of arrival"
    position, read = 0, 0
    while position < store.head():
        end = store.advance(position, 1_000)
        table, position = store.read(position, end)
        read += table.num_rows
    assert read == len(everything), "reading from position to position does not give every event once"


def run(directory: Path, seconds: float, seed: int, producers: int) -> str:
    """The test; says what happened."""
    draw = random.Random(seed)
    store = make_store(directory, options={"log_retain": "0 seconds", "partition": "2000"})
    warm = make_store(directory / "warm", options={"log_retain": "0 seconds"})
    warm.append(batch_of(0, 0))
    warm.archive()
    check(warm, [])
    notes = [directory / f"note-{producer}" for producer in range(producers)]
    workers = [
        Worker(lambda own, producer=producer: produce(own, producer, notes[producer])) for producer in range(producers)
    ]
    workers += [Worker(archive), Worker(archive)]
    end = time.monotonic() + seconds
    looks = 0
    for worker in workers:
        worker.start(store)
    try:
        while time.monotonic() < end:
            time.sleep(draw.random() * 0.2)
            victim = draw.choice(workers)
            victim.kill()
            if draw.random() < 0.5:
                check(store, notes)
                looks += 1
            victim.start(store)
    finally:
        for worker in workers:
            worker.kill()
    events = check(StreamStore(store.declaration), notes)
    check_order(StreamStore(store.declaration))
    failed = [message for worker in workers for message in worker.failed]
    assert not failed, failed
    deaths = sum(worker.deaths for worker in workers)
    return f"{events:,} events, {deaths} kills, {looks + 1} looks: every event is there once, in order."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="episode-kill-store-"))
    try:
        print(run(directory, given.seconds, given.seed, given.producers))
    finally:
        if given.directory is None:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
