"""Rules that change under live tasks: however tasks, driver and kills come one after the other, every version of
a rule gives what it gives alone over its own time, on all tasks, and nothing comes out twice."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.live.rule_changes import TaskRules, agree
from episode.matchers.protocol import StateChunk
from episode.matchers.stream_shard import ShardSettings, StreamShard
from episode.store.rule_log import RuleLog, active_of
from tests.support.changing_rules import SCHEMA, SPEC, TEXTS, Row, alone, rows_of, versions

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
END = 1_000
QUERY = "query"


@dataclass
class Task:
    """A task with its commits, its last snapshot, and what it has put out by position."""

    number: int
    log: str
    commits: list[tuple[pa.Table, int]]
    position: int = 0
    out: dict[int, list[pa.Table]] = field(default_factory=dict)
    saved: tuple[int, int, bool, dict[str, StateChunk]] | None = None

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new process: from the snapshot, and silently up to what is out."""
        self.shard = StreamShard(SPEC, ShardSettings(end=END, late_by_last_step=True))
        self.rules = TaskRules(self.log, QUERY, self.number)
        self.chunks: dict[str, StateChunk] = {}
        self.position = 0
        if self.saved is not None:
            self.position, watermark, ended, chunks = self.saved
            self.chunks = dict(chunks)
            self.shard.restore(list(chunks.values()), watermark, ended)
        self.rules.learn()
        while self.position < max(self.out, default=0):
            self._step(1)

    def _step(self, count: int) -> list[pa.Table]:
        taken = self.commits[self.position : self.position + count]
        self.position += len(taken)
        events = pa.concat_tables([table for table, _ in taken])
        envelopes: list[Any] = [(None, events)] if events.num_rows else []
        return list(self.rules.advance(self.shard, envelopes, taken[-1][1]))

    def step(self, count: int) -> bool:
        """Go on, if one may; whether there is more to do."""
        if self.shard.ended:
            self.rules.end(self.shard)
            return False
        if self.position < len(self.commits) and self.rules.poll(self.shard):
            found = self._step(count)
            if any(table.num_rows for table in found):
                assert self.position not in self.out
                self.out[self.position] = found
        return self.position < len(self.commits) or not self.shard.ended

    def save(self) -> None:
        self.shard.snapshot().apply(self.chunks)
        self.saved = self.position, self.shard.watermark, self.shard.ended, dict(self.chunks)


@SETTINGS
@given(st.data())
def test_whatever_happens_in_which_order(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 40))
    time, rows = 0, []
    for _ in range(count):
        time += data.draw(st.integers(1, 4))
        kind = data.draw(st.sampled_from(["A", "B", "C"]))
        rows.append({"k": data.draw(st.integers(1, 4)), "ts": time, "v": data.draw(st.integers(0, 4)), "type": kind})
    tasks = data.draw(st.integers(1, 3))
    with tempfile.TemporaryDirectory() as directory, mock.patch("os.fsync", return_value=None):
        log = RuleLog(Path(directory) / "rules")
        wanted = {"one": TEXTS[0]}
        log.follow(wanted)
        agree(log, QUERY, tasks)
        running = [
            Task(number, str(log.place), commits_of([row for row in rows if row["k"] % tasks == number]))
            for number in range(tasks)
        ]
        for _ in range(data.draw(st.integers(0, 60))):
            what = data.draw(st.sampled_from(["step", "step", "step", "agree", "change", "kill", "save"]))
            task = running[data.draw(st.integers(0, tasks - 1))]
            if what == "step":
                task.step(data.draw(st.integers(1, 3)))
            elif what == "agree":
                agree(log, QUERY, tasks)
            elif what == "change":
                name, text = data.draw(st.sampled_from(["one", "two"])), data.draw(st.sampled_from([None, *TEXTS]))
                wanted = {key: value for key, value in {**wanted, name: text}.items() if value is not None}
                log.follow(wanted)
            elif what == "kill":
                task.start()
            else:
                task.save()
        while sum(task.step(2) for task in running):
            agree(log, QUERY, tasks)
        for task in running:
            task.rules.end(task.shard)
        for _ in range(3):
            agree(log, QUERY, tasks)
        effects = {effect.number: effect.after for effect in log.effects()}
        assert active_of(log.changes()) == wanted
        assert len(effects) == len(log.changes())
        expected: Counter[Row] = Counter()
        taken = [(one, -(2**62) if (at := effects[one.number]) is None else at) for one in log.changes()]
        for version in versions(taken):
            expected.update(alone(version, pa.Table.from_pylist(rows, schema=SCHEMA), END))
        found: Counter[Row] = Counter()
        for task in running:
            found.update(rows_of([table for tables in task.out.values() for table in tables]))
        assert found == expected


def commits_of(rows: list[dict[str, Any]]) -> list[tuple[pa.Table, int]]:
    """One event each, and the watermark after it; the last one ends the stream."""
    commits = [(pa.Table.from_pylist([row], schema=SCHEMA), row["ts"] - 3) for row in rows]
    return [*commits, (SCHEMA.empty_table(), END + 5)]
