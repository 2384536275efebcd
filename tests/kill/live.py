"""Kill the tasks of a live query, and its producer, at random moments, again and again; every match is out once.

    python -m tests.kill.live [--kills 200] [--seed 1] [--directory PATH]

Each worker is a process of its own, forked from this one so that it starts at once, and killed with SIGKILL. The
producer appends batches 0, 1, 2, … of events that come up to a delay late, some of them too late; the number of a batch
makes it stored once. The tasks match them, with snapshots all the time, with pull, push or adaptive input by chance;
the log is archived meanwhile. In the end the stream ends, the tasks run to its end, and what is in the output stream is
compared with the same pattern over all events that were in time, as a table.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from episode.live.protocol import TaskOptions
from episode.matchers.running import run as run_table
from episode.matchers.stream_shard import ShardSettings
from episode.store.log import Origin
from episode.store.stream import StreamStore
from tests.support.live import LiveQuery, in_words, with_options
from tests.support.rows import spec_of

CLAUSE = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(v) AS first, LAST(v) AS last, count(*) AS n "
    "PATTERN (A B+ C) WITHIN 400 DEFINE B AS f > PREV(f), C AS f < PREV(f)"
)
ROWS, KEYS, DELAY, TASKS = 60, 20, 40, 2
END = 10**9


def batch_of(number: int) -> pa.Table:
    """Batch n: all times differ, events are up to the delay late, and a few more."""
    draw = np.random.default_rng(number)
    place = number * ROWS + np.arange(ROWS)
    time = 2 * place - draw.integers(0, DELAY // 2, ROWS) * 2
    time = np.where(draw.random(ROWS) < 0.02, time - 10 * DELAY, time)
    columns = {
        "k": pa.array(draw.integers(0, KEYS, ROWS), pa.int32()),
        "ts": pa.array(np.maximum(0, time) * 100_000 + place % 100_000, pa.int64()),
        "v": pa.array(place, pa.int32()),
        "f": pa.array(draw.random(ROWS), pa.float64()),
        "s": pa.array(["x"] * ROWS),
    }
    return pa.table(columns)


def produce(store: StreamStore) -> None:
    """Append batch after batch, without an end."""
    last = store.last("producer")
    number = 0 if last is None else last.batch + 1
    while True:
        store.append(batch_of(number), Origin("producer", number))
        number += 1
        time.sleep(0.01)


def archive(store: StreamStore) -> None:
    while True:
        store.archive()
        store.compact()
        time.sleep(0.3)


@dataclass
class Worker:
    """A process that is killed and started again."""

    work: Callable[[], Any]
    pid: int = 0

    def start(self) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                self.work()
                status = 0
            except BaseException as error:  # noqa: BLE001 - a child must never go on as its parent
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSIGNALED(status), f"a worker ended by itself, with {os.waitstatus_to_exitcode(status)}"

    def end(self) -> None:
        """Wait until it has done its work."""
        _, status = os.waitpid(self.pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, f"a worker ended with {os.waitstatus_to_exitcode(status)}"


def in_time(store: StreamStore, delay: int) -> pa.Table:
    """The events that were not late, by the watermark before their commit."""
    found, greatest = [], None
    for number in range(1, store.head() + 1):
        table, _ = store.read(number - 1, number)
        times = table.column("ts").to_numpy()
        kept = times < END * 100_000
        if greatest is not None:
            kept &= times >= greatest - delay
        found.append(table.filter(pa.array(kept)))
        greatest = int(times.max()) if greatest is None else max(greatest, int(times.max()))
    return pa.concat_tables(found)


def run(directory: Path, kills: int, seed: int) -> str:
    """The test; says what happened."""
    draw = random.Random(seed)
    text = CLAUSE.replace("WITHIN 400", f"WITHIN {400 * 100_000}")
    options = TaskOptions(snapshot_every=0.1, step_rows=500, batch_rows=100, late_path=str(directory / "late"))
    query = LiveQuery(
        directory,
        spec_of(text),
        key="k",
        tasks=TASKS,
        delay=DELAY * 100_000,
        options=options,
        settings=ShardSettings(end=END * 100_000),
        archive="Past",
        sync="true",
        log_retain="2 seconds",
    )
    plain = with_options(options, late_path=None)
    warm = LiveQuery(directory / "warm", query.spec, key="k", settings=ShardSettings(end=1), options=plain)
    warm.append(batch_of(0))
    warm.run()

    def task(number: int) -> None:
        query.options = with_options(options, handling=random.Random().choice(["pull", "push", "adaptive"]))
        query.task(number).run()

    tasks = [Worker(lambda number=number: task(number)) for number in range(TASKS)]  # type: ignore[misc]
    others = [
        Worker(lambda: produce(StreamStore(query.declaration))),
        Worker(lambda: archive(StreamStore(query.declaration))),
    ]
    for worker in (*tasks, *others):
        worker.start()
    deaths = 0
    try:
        while deaths < kills:
            time.sleep(draw.random() * draw.choice([0.05, 0.3, 0.8]))
            victim = draw.choice(others) if draw.random() < 0.2 else draw.choice(tasks)
            victim.kill()
            deaths += 1
            victim.start()
        for worker in others:
            worker.kill()
        query.append(
            pa.table(
                {
                    "k": pa.array([0], pa.int32()),
                    "ts": pa.array([(END + 2 * DELAY) * 100_000]),
                    "v": pa.array([0], pa.int32()),
                    "f": [0.0],
                    "s": ["x"],
                }
            )
        )
        for worker in tasks:
            worker.end()
    except BaseException:
        for worker in (*tasks, *others):
            try:
                os.kill(worker.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        raise
    events = in_time(StreamStore(query.declaration), DELAY * 100_000)
    expected = in_words(run_table(query.spec, events))
    found = query.matches()
    assert len(set(found)) == len(found), "a match is out twice"
    assert found == expected, f"{len(found)} matches are out, and should be {len(expected)}"
    words = [task.progress.counts for task in (query.task(number) for number in range(TASKS)) if task._restore()]
    counted = sum(word["events"] for word in words)
    total = query.input.count()
    assert counted == total, f"{counted} events were counted, and there are {total}"
    late = sum(word["late"] for word in words)
    assert late == total - 1 - events.num_rows, f"{late} events were counted as late"
    kept = pq.read_table(directory / "late").column("v").to_pylist() if late else []
    assert len(set(kept)) == len(kept) == late, f"{len(kept)} late events are kept, {len(set(kept))} of them different"
    return f"{total:,} events, {late} late, {len(found):,} matches, {deaths} kills: every match is out once."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="episode-kill-live-"))
    try:
        print(run(directory, given.kills, given.seed))
    finally:
        if given.directory is None:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
