"""Kill the tasks of a live query of rules, its producer and its driver at random moments while rules change; every
version of a rule gives what it gives alone over its own time, each match once.

    python -m tests.kill.live_rules [--kills 100] [--seed 1] [--directory PATH]

As `tests.kill.live`: processes are forked from this one, and killed with SIGKILL. The driver changes rules all the
time, and agrees with the tasks on when; the times are those that it has written down.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from episode.live.protocol import TaskDescription, TaskOptions
from episode.live.rule_changes import agree
from episode.live.task import LiveTask
from episode.matchers.stream_shard import ShardSettings
from episode.store.log import Origin
from episode.store.rule_log import RuleLog
from episode.store.stream import StreamStore
from tests.kill.live import Worker
from tests.support.changing_rules import SPEC, TEXTS, Row, alone, as_rows, versions
from tests.support.live import LiveQuery, with_options

ROWS, KEYS, DELAY, TASKS = 40, 12, 8, 2
END = 10**9
NAMES = ("one", "two", "three")


def batch_of(number: int) -> pa.Table:
    """Batch n: all times differ, and events are up to the delay late."""
    draw = np.random.default_rng(number)
    times = number * ROWS + np.arange(ROWS) + 1
    order = np.argsort(times + draw.integers(0, DELAY // 2, ROWS), kind="stable")
    columns = {
        "k": pa.array(draw.integers(0, KEYS, ROWS), pa.int64()),
        "ts": pa.array(times[order], pa.int64()),
        "v": pa.array(draw.integers(0, 5, ROWS), pa.int64()),
        "type": pa.array(draw.choice(["A", "B", "C"], ROWS)),
    }
    return pa.table(columns, schema=SPEC.input_schema)


def produce(store: StreamStore) -> None:
    last = store.last("producer")
    number = 0 if last is None else last.batch + 1
    while True:
        store.append(batch_of(number), Origin("producer", number))
        number += 1
        time.sleep(0.01)


def drive(log: RuleLog, query: str) -> None:
    """Change rules, and agree on the changes, without an end."""
    draw = random.Random()
    wanted = {"one": TEXTS[0]}
    while True:
        for _ in range(draw.randrange(1, 20)):
            agree(log, query, TASKS)
            time.sleep(0.005)
        name, text = draw.choice(NAMES), draw.choice([None, *TEXTS])
        wanted = {key: value for key, value in {**wanted, name: text}.items() if value is not None}
        log.follow(wanted)


class RuleQuery(LiveQuery):
    """Live tasks that run rules."""

    def description(self, task: int = 0) -> TaskDescription:
        from dataclasses import replace

        return replace(super().description(task), rule_log=f"{self.checkpoint}/rules")

    def task(self, task: int = 0) -> LiveTask:
        return LiveTask(self.description(task))


def run(directory: Path, kills: int, seed: int) -> str:
    """The test; says what happened."""
    draw = random.Random(seed)
    options = TaskOptions(snapshot_every=0.1, step_rows=500, batch_rows=100)
    query = RuleQuery(
        directory,
        SPEC,
        key="k",
        tasks=TASKS,
        delay=DELAY,
        options=options,
        settings=ShardSettings(end=END),
        sync="true",
    )
    log = RuleLog(f"{query.checkpoint}/rules")
    log.follow({"one": TEXTS[0]})
    name = query.description().query
    agree(log, name, TASKS)
    _warm(directory / "warm")

    def task(number: int) -> None:
        query.options = with_options(options, handling=random.Random().choice(["pull", "push", "adaptive"]))
        query.task(number).run()

    tasks = [Worker(lambda number=number: task(number)) for number in range(TASKS)]  # type: ignore[misc]
    others = [Worker(lambda: produce(StreamStore(query.declaration))), Worker(lambda: drive(log, name))]
    for worker in (*tasks, *others):
        worker.start()
    try:
        for _ in range(kills):
            time.sleep(draw.random() * draw.choice([0.05, 0.3, 0.8]))
            victim = draw.choice(others) if draw.random() < 0.3 else draw.choice(tasks)
            victim.kill()
            victim.start()
        for worker in others:
            worker.kill()
        last = {"k": 0, "ts": END + 2 * DELAY, "v": 0, "type": "A"}
        query.append(pa.Table.from_pylist([last], schema=SPEC.input_schema))
        running = list(tasks)
        while running:
            agree(log, name, TASKS)
            time.sleep(0.01)
            for worker in list(running):
                pid, status = os.waitpid(worker.pid, os.WNOHANG)
                if pid:
                    running.remove(worker)
                    assert os.waitstatus_to_exitcode(status) == 0, f"a task ended with {status}"
    except BaseException:
        for worker in (*tasks, *others):
            try:
                os.kill(worker.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        raise
    for _ in range(2):
        agree(log, name, TASKS)
    events = StreamStore(query.declaration).table().select(SPEC.input_schema.names)
    effects = {effect.number: effect.after for effect in log.effects()}
    changes = log.changes()
    taken = [(one, -(2**62) if (at := effects[one.number]) is None else at) for one in changes]
    expected: Counter[Row] = Counter()
    for version in versions(taken):
        expected.update(alone(version, events, END))
    found = as_rows([dict(ast.literal_eval(text)) for text in query.matches()])
    lost, wrong = sum((expected - found).values()), sum((found - expected).values())
    assert not lost, f"{lost} of {sum(expected.values())} matches are lost"
    assert not wrong, f"{wrong} matches are wrong, or out twice"
    assert found
    return (
        f"{events.num_rows:,} events, {len(changes)} changes of rules, {sum(found.values()):,} matches, {kills} kills: "
        "every match is out once."
    )


def _warm(directory: Path) -> None:
    """Load what the processes need before they are forked."""
    query = RuleQuery(directory, SPEC, key="k", tasks=1, settings=ShardSettings(end=50))
    log = RuleLog(f"{query.checkpoint}/rules")
    log.follow(dict(enumerate_names()))
    agree(log, query.description().query, 1)
    query.append(batch_of(0))
    query.append(batch_of(1))
    query.append(batch_of(2))
    query.run()


def enumerate_names() -> list[tuple[str, Any]]:
    return [(f"rule {number}", text) for number, text in enumerate(TEXTS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    given = parser.parse_args()
    directory = given.directory or Path(tempfile.mkdtemp(prefix="episode-kill-live-rules-"))
    try:
        print(run(directory, given.kills, given.seed))
    finally:
        if given.directory is None:
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
