"""A live shard gives what a table gives, however events come: in which pieces, in which order within the delay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.columns import to_bytes
from episode.matchers.envelope import Packing, open_envelope, pack
from episode.matchers.protocol import StateChunk, StateLimit
from episode.matchers.stream_shard import ShardSettings, StreamShard
from tests.property.test_row_pattern_laws import canonical, finished, planned
from tests.reference.generate import clauses, tables
from tests.support.events import bound
from tests.support.events import spec_of as events_spec_of
from tests.support.rows import ARROW_TYPES, run_whole, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
END = 1_000
SCHEMA = pa.schema(list(ARROW_TYPES.items()))
CLAUSE = (
    "PARTITION BY k ORDER BY ts MEASURES FIRST(ts) AS first, LAST(ts) AS last, count(*) AS n "
    "PATTERN (A B+) DEFINE B AS v > PREV(v)"
)


class Driven:
    """A shard as the stream runtime drives it: watermarks, snapshots, and a new process now and then.

    packed: do events come in envelopes, as from Spark, or as they are, as from a stream store?
    """

    def __init__(self, spec: Any, delay: int, packed: bool = False, **rules: Any) -> None:
        self.spec, self.delay, self.rules, self.packed = spec, delay, ShardSettings(**rules), packed
        self.shard = StreamShard(spec, self.rules)
        self.chunks: dict[str, StateChunk] = {}
        self.greatest: int | None = None
        self.watermark = -(2**62)
        self.outputs: list[pa.Table] = []
        self.late: list[dict[str, Any]] = []
        self.steps: list[dict[str, int]] = []

    def micro_batch(self, rows: list[dict[str, Any]], restart: bool = False) -> None:
        self.shard.snapshot().apply(self.chunks)
        if restart:
            ended, watermark = self.shard.ended, self.shard.watermark
            self.shard = StreamShard(self.spec, self.rules)
            self.shard.restore(list(self.chunks.values()), watermark, ended)
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        envelopes = [self._arriving(table)] if rows else []
        step = self.shard.step(envelopes, self.watermark)
        self.outputs.append(step.matches)
        self.late += step.late.to_pylist() if step.late is not None else []
        self.steps.append(step.counters.as_dict())
        times = [row["ts"] for row in rows if row["ts"] is not None]
        self.greatest = max([*times, *([self.greatest] if self.greatest is not None else [])], default=None)
        if self.greatest is not None:
            self.watermark = max(self.watermark, self.greatest - self.delay)

    def _arriving(self, table: pa.Table) -> tuple[bytes, pa.Table]:
        if not self.packed:
            return to_bytes(table), table
        (batch,) = pack([table], Packing(self.spec.input_order, 1), 0)
        blob = batch.column("blob")[0].as_py()
        return blob, open_envelope(blob)

    def total(self, counter: str) -> int:
        return sum(step[counter] for step in self.steps)


def marker(ts: int) -> dict[str, Any]:
    return {"k": -1, "ts": ts, "v": 0, "f": 0.0, "s": "marker"}


@SETTINGS
@given(clauses(), tables(max_rows=14), st.data())
def test_a_stream_equals_a_table(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec = planned(text)
    order = spec.plan.order
    assume(len(order) == 1 and order[0].column == "ts" and order[0].ascending)
    time = 0
    for event in rows:  # no two at the same time: then the order of arrival does not matter
        time += 1 + event["ts"] // 4
        event["ts"] = time
    try:
        whole = canonical(finished(spec, run_whole(spec, rows)))
    except EpisodeDataError:
        assume(False)
        raise
    delay = data.draw(st.integers(0, 5))
    jitter = [data.draw(st.integers(0, delay)) for _ in rows]
    arriving = [row for _, row in sorted(zip(jitter, rows), key=lambda pair: pair[1]["ts"] + pair[0])]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(rows)), max_size=5)))
    driven = Driven(spec, delay + 1, data.draw(st.booleans()), end=END)
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        driven.micro_batch(arriving[begin:end], data.draw(st.booleans()))
    driven.micro_batch([marker(END + delay + 1)], data.draw(st.booleans()))
    driven.micro_batch([], data.draw(st.booleans()))
    assert canonical(finished(spec, pa.concat_tables(driven.outputs))) == whole
    assert driven.total("late") == 0
    assert driven.steps[-1]["state_rows"] == driven.steps[-1]["waiting_events"] == 0


def row(ts: int | None, v: int, k: int = 1, s: str = "a") -> dict[str, Any]:
    return {"k": k, "ts": ts, "v": v, "f": 0.0, "s": s}


@pytest.mark.parametrize("packed", [False, True])
def test_many_small_pieces_wait_through_restarts(packed: bool) -> None:
    """Events that wait are merged, and are no envelopes from then on."""
    driven = Driven(spec_of(CLAUSE), 1_000, packed, end=100)
    for ts in range(100):
        driven.micro_batch([row(ts, ts % 9)], restart=True)
    assert driven.steps[-1]["waiting_events"] == 100
    driven.micro_batch([row(2_000, 0)], restart=True)
    driven.micro_batch([], restart=True)
    found = finished(driven.spec, pa.concat_tables(driven.outputs))
    assert [one["n"] for one in found] == [9] * 11


def test_late_events_are_counted_and_kept() -> None:
    driven = Driven(spec_of(CLAUSE), 2, keep_late=True)
    driven.micro_batch([row(1, 1), row(10, 2)])
    driven.micro_batch([row(8, 1), row(9, 1), row(3, 7)])  # the watermark is 8
    assert [late["ts"] for late in driven.late] == [8, 3]
    assert driven.total("late") == 2
    driven.micro_batch([row(30, 1)])
    driven.micro_batch([])
    assert driven.steps[-1]["state_rows"] == 3  # 1 (which PREV may still look at), 9 and 10, whose tail waits


def test_null_times_and_what_comes_after_the_end_are_counted() -> None:
    driven = Driven(spec_of(CLAUSE), 0, end=100)
    driven.micro_batch([row(None, 1), row(1, 1), row(100, 1), row(250, 1)])
    assert (driven.total("null_times"), driven.total("after_end"), driven.total("events")) == (1, 2, 4)
    assert driven.steps[-1]["waiting_events"] == 1


def test_events_that_last_without_a_start_before_their_end_are_counted_as_null_times() -> None:
    spec = events_spec_of("PATTERN A; B WITHIN 50", lasting=True)
    times = [(1, 2), (None, 5), (9, 8), (3, None), (6, 6), (None, None)]
    rows = [
        {"pos": number, "ts": ts, "te": te, "type": "B" if number > 1 else "A"} for number, (ts, te) in enumerate(times)
    ]
    shard = StreamShard(spec, ShardSettings(end=100))
    table = pa.Table.from_pylist(rows, schema=spec.input_schema).select(list(spec.input_columns))
    counters = shard.step([(None, table)], 0).counters
    assert (counters.null_times, counters.waiting_events) == (4, 2)
    assert bound(spec, shard.step([], 200).matches) == [(("A", (0,)), ("B", (4,)))]


@pytest.mark.parametrize("restart", [False, True])
def test_repeated_events_count_once(restart: bool) -> None:
    driven = Driven(spec_of(CLAUSE), 5, end=100, event_id="s")
    driven.micro_batch([row(1, 1, s="x"), row(2, 2, s="y"), row(1, 9, s="x")])
    driven.micro_batch([row(2, 9, s="y"), row(3, 3, s="z")], restart)
    driven.micro_batch([row(3, 9, s="z"), row(4, 0, s="x"), row(120, 0)], restart)  # the same id at another time
    driven.micro_batch([row(3, 9, s="z")], restart)  # late by now, whatever its id
    assert (driven.total("duplicates"), driven.total("late")) == (3, 1)
    matches = finished(driven.spec, pa.concat_tables(driven.outputs))
    assert matches == [{"k": 1, "first": 1, "last": 3, "n": 3}]


def test_what_is_decided_leaves_the_state() -> None:
    driven = Driven(spec_of(CLAUSE.replace("DEFINE", "WITHIN 20 DEFINE")), 3)
    sizes = []
    for number in range(60):
        begin = 10 * number
        driven.micro_batch([row(ts, ts % 7, k=ts % 2) for ts in range(begin, begin + 10)], restart=number % 3 == 0)
        sizes.append(sum(len(chunk.data) for chunk in driven.chunks.values()))
    assert max(step["state_rows"] + step["waiting_events"] for step in driven.steps) <= 40
    assert max(sizes[40:]) <= max(sizes[10:20]) * 1.5


def test_a_window_that_has_passed_is_decided_without_new_events() -> None:
    driven = Driven(spec_of(CLAUSE.replace("DEFINE", "WITHIN 20 DEFINE")), 0)
    driven.micro_batch([row(1, 1), row(2, 2)])
    driven.micro_batch([row(5, 0, k=9)])
    assert driven.shard.wakes_at is not None
    driven.watermark = 30
    assert driven.shard.wakes_at <= 21
    driven.micro_batch([])
    assert finished(driven.spec, pa.concat_tables(driven.outputs)) == [{"k": 1, "first": 1, "last": 2, "n": 2}]


def test_keys_that_hold_too_much_give_up_or_complain() -> None:
    clause = (
        "PARTITION BY k ORDER BY ts MEASURES count(*) AS n PATTERN (A B* C) DEFINE A AS v = 1, B AS v = 2, C AS v = 3"
    )
    rows = [row(1, 1), *(row(ts, 2) for ts in range(2, 30)), row(30, 3), row(31, 1), row(32, 3), row(40, 0)]
    patient = Driven(spec_of(clause), 0)
    short = Driven(spec_of(clause, limit=StateLimit(10, give_up=True)), 0)
    for driven in (patient, short):
        for event in rows:
            driven.micro_batch([event], restart=event["ts"] % 4 == 0)
        driven.micro_batch([])
    assert [match["n"] for match in finished(patient.spec, pa.concat_tables(patient.outputs))] == [30, 2]
    assert [match["n"] for match in finished(short.spec, pa.concat_tables(short.outputs))] == [2]
    assert short.total("given_up") == 1
    assert max(step["state_rows"] for step in short.steps) <= 10
    strict = Driven(spec_of(clause, limit=StateLimit(10, give_up=False)), 0)
    for event in rows[:11]:
        strict.micro_batch([event])
    with pytest.raises(EpisodeDataError, match="k = 1 holds 11 rows for a match that is still open"):
        strict.micro_batch([rows[11]])
