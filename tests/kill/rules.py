"""Kill a stream of rules again and again while events arrive and rules change; in the end each version of a rule must
have given what it gives alone over the events of its time, once.

    python -m tests.kill.rules [--kills 10] [--seed 1]

The stream runs in a process of its own (Python, its JVM and their workers), which gets SIGKILL at random moments, is
started again from its checkpoint, and at last runs to the end of the events. The times of the versions are those that
the rule log reports.
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
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from episode.store.rule_log import RuleLog
from tests.kill.run import commits, kill
from tests.support.changing_rules import SCHEMA, TEXTS, Row, alone, as_rows, versions

END, DELAY, KEYS, EVENTS_PER_FILE = 1_000_000_000, 20, 7, 60
NAMES = ("one", "two", "three")
BROKEN = "PATTERN SEQ(A a, B b) RETURN c.v"


# ---- the process that is killed ----------------------------------------------------------------------


def follow(place: Path, to_the_end: bool) -> None:
    import warnings

    import episode
    from tests.kill.follower import session

    warnings.simplefilter("ignore", episode.EpisodeWarning)
    spark = session()
    events = spark.readStream.schema("k long, ts long, v long, type string").option("maxFilesPerTrigger", 3)
    matches = episode.match_all(
        events.parquet(str(place / "in")),
        place / "rules",
        time="ts",
        key="k",
        type_column="type",
        log=place / "log",
        look_every=0.2,
        options=episode.Options(
            watermark=DELAY, tuning=episode.Tuning(shards=4), stream=episode.StreamOptions(end=END)
        ),
    )
    writer = matches.writeStream.format("parquet").option("path", str(place / "out"))
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if to_the_end:
        writer.trigger(availableNow=True).start().awaitTermination()
    else:
        print("following", flush=True)
        writer.trigger(processingTime="0 seconds").start().awaitTermination()


def start(place: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kill.rules", "--follow", str(place), *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )


# ---- what happens around it --------------------------------------------------------------------------


class World:
    """Events that come, and rules that change."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.draw, self.files, self.changes = place, random.Random(seed), 0, 0
        for name in ("in", "rules"):
            (place / name).mkdir()
        self.rule("one", TEXTS[0])

    def rule(self, name: str, text: str | None) -> None:
        """Files appear whole, or not at all."""
        path = self.place / "rules" / f"{name}.pattern"
        self.changes += 1
        if text is None:
            path.unlink(missing_ok=True)
            return
        aside = self.place / f"{name}.tmp"
        aside.write_text(text)
        aside.rename(path)

    def add(self, rows: list[dict[str, Any]]) -> None:
        self.files += 1
        hidden = self.place / "in" / f"_{self.files:06}"
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), hidden)
        os.utime(hidden, (self.files, self.files))
        hidden.rename(self.place / "in" / f"{self.files:06}.parquet")

    def go_on(self) -> None:
        first = self.files * EVENTS_PER_FILE
        rows = [
            {
                "k": self.draw.randrange(KEYS),
                "ts": first + at + 1,
                "v": self.draw.randrange(5),
                "type": self.draw.choice("ABC"),
            }
            for at in range(EVENTS_PER_FILE)
        ]
        self.add(sorted(rows, key=lambda row: row["ts"] + self.draw.randrange(DELAY // 2)))
        if self.draw.random() < 0.7:
            self.rule(self.draw.choice(NAMES), self.draw.choice([None, BROKEN, *TEXTS]))


def run(place: Path, kills: int, seed: int) -> str:
    draw, world, at_work = random.Random(seed), World(place, seed), 0
    for number in range(kills):
        before = commits(place)
        process = start(place)
        assert process.stdout is not None
        process.stdout.readline()
        until = time.monotonic() + 120.0
        while time.monotonic() < until:
            world.go_on()
            time.sleep(0.7)
            if commits(place) > before + 1:
                until = min(until, time.monotonic() + draw.uniform(0.0, 3.0))
                before = 10**9
        kill(process)
        at_work += before == 10**9
        print(f"kill {number + 1}: {world.files} files, {world.changes} changes of rules", flush=True)
    world.add([{"k": -1, "ts": 2 * END, "v": 0, "type": "A"}])
    if start(place, "--to-the-end").wait() != 0:
        raise SystemExit("the last run failed")
    return compare(place, f"{kills} kills ({at_work} with micro-batches since the one before)")


def compare(place: Path, what: str) -> str:
    log = RuleLog(place / "log")
    after = {effect.number: effect.after for effect in log.effects()}
    taken = [(one, -(2**62) if after[one.number] is None else after[one.number]) for one in log.changes()]
    events = ds.dataset(place / "in").to_table().filter(ds.field("ts") < END)
    expected: Counter[Row] = Counter()
    active = versions(taken)
    for version in active:
        expected.update(alone(version, events, END))
    found = as_rows(_output(place))
    lost, wrong = sum((expected - found).values()), sum((found - expected).values())
    matches = sum(found.values())
    if not matches or lost or wrong:
        raise SystemExit(f"{what}, {len(active)} versions, {matches:,} matches: {lost} lost, {wrong} wrong or repeated")
    return f"{what}, {len(active)} versions of rules, {matches:,} matches: 0 lost, 0 wrong or repeated"


def _output(place: Path) -> list[dict[str, Any]]:
    from tests.kill.follower import session

    spark = session()
    rows = spark.read.parquet(str(place / "out")).collect()
    spark.stop()
    return [row.asDict() for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--follow", type=Path)
    parser.add_argument("--to-the-end", action="store_true")
    arguments = parser.parse_args()
    if arguments.follow is not None:
        follow(arguments.follow, arguments.to_the_end)
        return
    with tempfile.TemporaryDirectory(prefix="episode-kill-") as place:
        print(run(Path(place), arguments.kills, arguments.seed))


if __name__ == "__main__":
    main()
