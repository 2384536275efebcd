"""Kill the producer, the archiver and the query of a stream store again and again, at once; in the end every event is
in the archive once, and every match of a batch run is in the store of matches once.

python -m tests.kill.store_and_query [--kills 10] [--seed 1]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.kill.follower import QUERY, session
from tests.kill.run import commits, kill
from tests.kill.store_roles import MATCHES, STREAM, batch, declare

ROLES = ("producer", "archiver", "query")
PATIENCE = 300.0


@dataclass(frozen=True)
class Outcome:
    kills: int
    events: int
    matches: int
    lost: int
    repeated: int
    wrong_matches: int

    @property
    def is_right(self) -> bool:
        return self.events > 0 and self.matches > 0 and self.lost == self.repeated == self.wrong_matches == 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.events:,} events: {self.lost} lost, {self.repeated} repeated; "
            f"{self.matches:,} matches: {self.wrong_matches} lost, unexpected or repeated"
        )


def start(role: str, place: Path, seed: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kill.store_roles", role, str(place), str(seed), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


def run(place: Path, kills: int, seed: int) -> Outcome:
    draw = random.Random(seed)
    os.environ["EPISODE_CATALOG"] = str(place / "catalog")
    declare()
    running: dict[str, subprocess.Popen[str]] = {}
    for number in range(kills):
        for role in ROLES:
            if role not in running:
                running[role] = start(role, place, seed)
        before = commits(place)
        until = time.monotonic() + PATIENCE
        while commits(place) == before and time.monotonic() < until:
            assert all(process.poll() is None for process in running.values()), "a process ended by itself"
            time.sleep(0.1)
        time.sleep(draw.uniform(0.0, 3.0))
        # All of them at once, or one or two: what one of them leaves half done, the others meet.
        doomed = ROLES if number % 2 == 0 else draw.sample(ROLES, draw.randint(1, 2))
        for role in doomed:
            kill(running.pop(role))
        print(f"kill {number + 1}: {', '.join(doomed)}; {commits(place) - before} micro-batches", flush=True)
    for process in running.values():
        kill(process)
    for role in ROLES:
        if start(role, place, seed, "--to-the-end").wait() != 0:
            raise SystemExit(f"the last run of the {role} failed")
    return compare(place, kills, seed)


def compare(place: Path, kills: int, seed: int) -> Outcome:
    import episode

    produced = pa.concat_tables([batch(number, seed) for number in range(int((place / "produced").read_text()))])
    expected = Counter(zip(*produced.to_pydict().values(), strict=True))
    files = pq.read_table(place / "catalog" / STREAM.lower() / "archive", partitioning=None)
    stored = Counter(zip(*files.select(produced.column_names).to_pydict().values(), strict=True))
    stored = Counter({event: count for event, count in stored.items() if event[0] >= 0})
    spark = session()
    right = Counter(tuple(row) for row in episode.sql(QUERY, events=spark.createDataFrame(produced)).collect())
    spark.stop()
    table, _ = episode.streams.read(MATCHES)
    found = Counter(zip(*table.to_pydict().values(), strict=True))
    return Outcome(
        kills,
        sum(stored.values()),
        sum(found.values()),
        lost=sum((expected - stored).values()),
        repeated=sum((stored - expected).values()),
        wrong_matches=sum((right - found).values()) + sum((found - right).values()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="episode-kill-stores-") as place:
        outcome = run(Path(place), arguments.kills, arguments.seed)
    print(outcome)
    if not outcome.is_right:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
