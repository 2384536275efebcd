"""Kill a streaming query again and again while events arrive; in the end it must have each match of a batch run, once.

python -m tests.kill.run [--kills 20] [--seed 1]

The query runs in a process of its own (Python, its JVM and their workers), which gets SIGKILL at random moments, is
started again from its checkpoint, and at last runs to the end of the events.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.kill.follower import DELAY, END, QUERY, SCHEMA, session

KEYS, EVENTS_PER_FILE, FILES_PER_SECOND = 7, 60, 1.0
_ARROW = pa.schema([("k", pa.int32()), ("ts", pa.int64()), ("v", pa.int32())])


@dataclass(frozen=True)
class Outcome:
    """What was found: counts, and the matches that are missing, wrong, or there more than once."""

    kills: int
    kills_at_work: int
    files: int
    matches: int
    lost: int
    unexpected: int
    repeated: int

    @property
    def is_right(self) -> bool:
        return self.matches > 0 and self.lost == self.unexpected == self.repeated == 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills ({self.kills_at_work} with micro-batches since the one before), {self.files} files, "
            f"{self.matches:,} matches: {self.lost} lost, {self.unexpected} unexpected, {self.repeated} repeated"
        )


class Source:
    """Writes files of events, slightly out of order, as time passes."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.draw, self.files = place, random.Random(seed), 0
        place.mkdir()

    def add(self, rows: list[tuple[int, int, int]]) -> None:
        self.files += 1
        path = self.place / f"{self.files:06}.parquet"
        hidden = self.place / f"_{self.files:06}"
        table = pa.Table.from_pylist([dict(zip(("k", "ts", "v"), row, strict=True)) for row in rows], schema=_ARROW)
        pq.write_table(table, hidden)
        os.utime(hidden, (self.files, self.files))
        hidden.rename(path)

    def add_events(self) -> None:
        first = self.files * EVENTS_PER_FILE
        rows = [
            (self.draw.randrange(KEYS), 10 * (first + i + 1), self.draw.randrange(5)) for i in range(EVENTS_PER_FILE)
        ]
        self.add(sorted(rows, key=lambda row: row[1] + self.draw.randrange(DELAY // 2)))

    def finish(self) -> None:
        self.add([(-1, 2 * END, 0)])


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kill.follower", str(place), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


def kill(process: subprocess.Popen[str]) -> None:
    """The process with its JVM and workers, which are in its group."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def commits(place: Path) -> int:
    return len([path for path in (place / "checkpoint" / "commits").glob("*") if path.name.isdigit()])


def run(place: Path, kills: int, seed: int) -> Outcome:
    draw = random.Random(seed)
    source = Source(place / "in", seed)
    at_work = 0
    for number in range(kills):
        before = commits(place)
        process = start(place)
        assert process.stdout is not None
        process.stdout.readline()
        wait_while_events_come(place, source, draw, before)
        kill(process)
        done = commits(place) - before
        at_work += done > 0
        print(f"kill {number + 1}: {done} micro-batches since the start, {source.files} files", flush=True)
    source.finish()
    if start(place, "--to-the-end").wait() != 0:
        raise SystemExit("the last run failed")
    return compare(place, kills, at_work, source.files)


def wait_while_events_come(place: Path, source: Source, draw: random.Random, before: int) -> None:
    """Until a random moment: one time in four soon after the start, else after a micro-batch was committed."""
    early = draw.random() < 0.25
    until = time.monotonic() + (draw.uniform(0.2, 9.0) if early else 120.0)
    while time.monotonic() < until:
        source.add_events()
        time.sleep(1 / FILES_PER_SECOND)
        if not early and commits(place) > before:
            until = min(until, time.monotonic() + draw.uniform(0.0, 4.0))
            early = True


def compare(place: Path, kills: int, at_work: int, files: int) -> Outcome:
    import episode

    spark = session()
    events = spark.read.schema(SCHEMA).parquet(str(place / "in")).where(f"ts < {END}")
    expected = Counter(tuple(row) for row in episode.sql(QUERY, events=events).collect())
    found = Counter(tuple(row) for row in spark.read.parquet(str(place / "out")).collect())
    spark.stop()
    return Outcome(
        kills,
        at_work,
        files,
        sum(found.values()),
        lost=sum((expected - found).values()),
        unexpected=len(set(found) - set(expected)),
        repeated=sum(count - expected[match] for match, count in found.items() if 0 < expected[match] < count),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="episode-kill-") as place:
        outcome = run(Path(place), arguments.kills, arguments.seed)
    print(outcome)
    if not outcome.is_right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
