"""Rules that are added, replaced and removed at any place give what each version gives alone, over its own time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.columns import to_bytes
from episode.matchers.protocol import StateChunk
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import RuleChange
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.support.changing_rules import FAILING, SCHEMA, SPEC, TEXTS, Row, Version, alone, rows_of, versions

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
END = 1_000


class Driven:
    """A shard as the stream runtime drives it: watermarks, changes after a step, snapshots, and new processes."""

    def __init__(self, delay: int) -> None:
        self.delay = delay
        self.shard = StreamShard(SPEC, ShardSettings(end=END))
        self.chunks: dict[str, StateChunk] = {}
        self.greatest: int | None = None
        self.watermark = -(2**62)
        self.outputs: list[pa.Table] = []
        self.taken: list[tuple[RuleChange, int]] = []

    @property
    def matcher(self) -> RuleSetMatcher:
        assert isinstance(self.shard.matcher, RuleSetMatcher)
        return self.shard.matcher

    def micro_batch(self, rows: list[dict[str, Any]], changes: list[RuleChange], restart: bool) -> None:
        if restart:
            ended, watermark = self.shard.ended, self.shard.watermark
            self.shard = StreamShard(SPEC, ShardSettings(end=END))
            self.shard.restore(list(self.chunks.values()), watermark, ended)
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


@settings(SETTINGS, max_examples=30)
@given(streams((TEXTS[0], *FAILING)))
def test_a_rule_that_fails_on_the_data_of_a_key_is_disabled_for_it_alone(stream: tuple[Driven, pa.Table]) -> None:
    """Each key by itself gives its matches up to the last time at which nothing fails."""
    driven, events = stream
    expected: Counter[Row] = Counter()
    for version in versions(driven.taken):
        for key in (1, 2, 3):
            own = events.filter(pc.equal(events.column("k"), key))
            expected.update(up_to_its_failure(version, own))
    assert rows_of(driven.outputs) == expected


def up_to_its_failure(version: Version, events: pa.Table) -> list[Row]:
    """What fails up to a time fails up to every later one."""

    def up_to(until: int) -> list[Row] | None:
        try:
            return alone(replace(version, until=until), events, 2 * END)
        except EpisodeDataError:
            return None

    try:
        return alone(version, events, END)
    except EpisodeDataError:
        pass
    fine, fails = max(version.after, 0), END if version.until is None else min(version.until, END)
    while fails - fine > 1:
        middle = (fine + fails) // 2
        fine, fails = (middle, fails) if up_to(middle) is not None else (fine, middle)
    return up_to(fine) or []


def test_quarantined_keys_are_counted_and_reported() -> None:
    driven = Driven(1)
    driven.micro_batch([], [RuleChange(1, "fine", TEXTS[0]), RuleChange(2, "failing", FAILING[0])], False)
    rows = [{"k": k, "ts": 10 * at + k, "v": at % 4, "type": "A"} for at in range(6) for k in (1, 2)]
    driven.micro_batch(rows, [], False)
    driven.micro_batch([{"k": 9, "ts": 500, "v": 0, "type": "A"}], [], False)
    driven.micro_batch([], [], False)
    (failure,) = driven.matcher.failures()
    assert (failure.number, failure.name, failure.keys) == (2, "failing", 2)
    assert "SKIP" in failure.reason
    assert driven.matcher.quarantined_keys == 2
    assert driven.matcher.failures() == []


def test_open_matches_of_what_is_removed_are_given_up_and_its_state_is_gone() -> None:
    driven = Driven(1)
    driven.micro_batch([], [RuleChange(1, "one", TEXTS[0]), RuleChange(2, "two", TEXTS[2])], False)
    rows = [{"k": k, "ts": at, "v": at, "type": "A"} for at in range(1, 6) for k in (1, 2)]
    driven.micro_batch(rows, [], False)
    driven.micro_batch([], [], False)
    before = driven.matcher.given_up
    driven.micro_batch([], [RuleChange(3, "one", None), RuleChange(4, "two", TEXTS[3])], True)
    assert driven.matcher.given_up - before == 4  # of two keys, for two rules
    assert [rule.name for rule in driven.matcher.rules.values()] == ["two"]
    assert driven.matcher.state_rows == 0
    names = driven.matcher._packs.chunks
    assert {name.split(".")[1] for name in names if name.startswith("rule.")} == {"4"}
