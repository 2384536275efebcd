"""Rules that are added, replaced and removed at any place give what each version gives alone, over its own time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.live import LiveRules, LiveShard
from episode.matchers.protocol import StateChunk
from episode.matchers.rules.changes import RuleChange
from episode.matchers.rules.changing import ChangingMatcher
from tests.support.changing_rules import SCHEMA, SPEC, TEXTS, Row, alone, rows_of, versions

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
END = 1_000


class Driven:
    """A shard as the stream runtime drives it: watermarks, changes after a step, snapshots, and new processes."""

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.shard = LiveShard(SPEC, LiveRules(end=END))
        self.chunks: dict[str, StateChunk] = {}
        self.greatest: int | None = None
        self.watermark = -(2**62)
        self.outputs: list[pa.Table] = []
        self.taken: list[tuple[RuleChange, int]] = []

    @property
    def matcher(self) -> ChangingMatcher:
        assert isinstance(self.shard.matcher, ChangingMatcher)
        return self.shard.matcher

    def micro_batch(self, rows: list[dict[str, Any]], changes: list[RuleChange], restart: bool) -> None:
        if restart:
            ended, watermark = self.shard.ended, self.shard.watermark
            self.shard = LiveShard(SPEC, LiveRules(end=END))
            self.shard.restore(list(self.chunks.values()), watermark, ended, from_bytes)
        self.matcher.done = self.shard.watermark
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        step = self.shard.step([(to_bytes(table), table)] if rows else [], self.watermark)
        self.outputs.append(step.matches)
        self.matcher.change(changes, self.shard.watermark)
        self.taken += [(change, self.shard.watermark) for change in changes]
        self.shard.snapshot().apply(self.chunks)
        self.greatest = max(
            [row["ts"] for row in rows] + ([] if self.greatest is None else [self.greatest]), default=None
        )
        if self.greatest is not None:
            self.watermark = max(self.watermark, self.greatest - self.delay)


@st.composite
def streams(draw: st.DrawFn, texts: tuple[str, ...] = TEXTS) -> tuple[Driven, pa.Table]:
    """Events in micro-batches, slightly out of order, and changes between them; the whole has run to its end."""
    count = draw(st.integers(0, 40))
    time, rows = 0, []
    for _ in range(count):
        time += draw(st.integers(1, 4))
        kind = draw(st.sampled_from(["A", "B", "C"]))
        rows.append({"k": draw(st.integers(1, 3)), "ts": time, "v": draw(st.integers(0, 4)), "type": kind})
    delay = draw(st.integers(0, 5))
    jitter = {row["ts"]: draw(st.integers(0, delay)) for row in rows}
    arriving = sorted(rows, key=lambda row: row["ts"] + jitter[row["ts"]])
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=6)))
    driven, number = Driven(delay + 1), 0
    for begin, end in zip([0, *cuts], [*cuts, count], strict=True):
        changes = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            name, text = draw(st.sampled_from(["one", "two", "three"])), draw(st.sampled_from([None, *texts]))
            changes.append(RuleChange(number, name, text))
        driven.micro_batch(arriving[begin:end], changes, draw(st.booleans()))
    last = {"k": 9, "ts": END + delay + 1, "v": 0, "type": "A"}
    driven.micro_batch([last], [], draw(st.booleans()))
    driven.micro_batch([], [], draw(st.booleans()))
    return driven, pa.Table.from_pylist(rows, schema=SCHEMA)


@SETTINGS
@given(streams())
def test_every_version_gives_what_it_gives_alone(stream: tuple[Driven, pa.Table]) -> None:
    driven, events = stream
    expected: Counter[Row] = Counter()
    for version in versions(driven.taken):
        expected.update(alone(version, events, END))
    assert rows_of(driven.outputs) == expected
