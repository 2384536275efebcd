"""Live tasks over random streams: equal to a table, however the stream is cut, killed and read; and what is out at a
position is the same, however the task got there (that makes a replay after a failure silent at the right moment)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.live.protocol import TaskOptions
from episode.matchers.protocol import MatcherSpec
from episode.matchers.running import run
from episode.matchers.stream_shard import Arrived, ShardSettings, StreamShard
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.property import test_event_pattern_laws as event_laws
from tests.property import test_situation_laws as situation_laws
from tests.property.test_row_pattern_laws import planned as planned_rows
from tests.reference import generate_events, generate_situations
from tests.reference.generate import clauses, tables
from tests.support import events as event_support
from tests.support import situations as situation_support
from tests.support.correlation import correlation
from tests.support.live import LiveQuery, in_words, pieces

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=30)
END = 1_000_000


class Case:
    """A pattern, its events in order of time, with no two at the same time, and its key in the store."""

    def __init__(self, spec: MatcherSpec, events: list[dict[str, Any]], key: tuple[str, ...]) -> None:
        self.spec, self.events, self.key = spec, events, key
        self.time = spec.input_order.order[0].column

    def table(self, events: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(events, schema=self.spec.input_schema)

    def whole(self) -> list[str]:
        try:
            return in_words(run(self.spec, self.table(self.events)))
        except EpisodeDataError:
            assume(False)
            raise

    def marker(self) -> dict[str, Any]:
        """An event after the end of the stream."""
        last = dict.fromkeys(self.spec.input_schema.names)
        last[self.time] = END + 100
        if self.spec.input_order.start is not None:
            last[self.spec.input_order.start] = END + 100
        return last


@st.composite
def row_cases(draw: st.DrawFn) -> Case:
    spec, rows = planned_rows(draw(clauses())), draw(tables(max_rows=14))
    order = spec.plan.order
    assume(len(order) == 1 and order[0].column == "ts" and order[0].ascending)
    time = 0
    for row in rows:
        time += 1 + row["ts"] // 4
        row["ts"] = time
    return Case(spec, rows, spec.input_order.keys)


@st.composite
def event_cases(draw: st.DrawFn) -> Case:
    case = draw(generate_events.cases())
    spec = event_laws.planned(case)
    rows = event_support.table_of(case.events).to_pylist()
    assume(len({row["te"] for row in rows}) == len(rows))
    return Case(spec, sorted(rows, key=lambda row: row["te"]), spec.input_order.keys)


@st.composite
def situation_cases(draw: st.DrawFn) -> Case:
    case = draw(generate_situations.cases())
    spec = situation_laws.planned(case)
    rows = situation_support.table_of(case.events).to_pylist()
    rows.sort(key=lambda row: row["t"])
    for number, row in enumerate(rows):
        row["t"] = 50 * row["t"] + number  # no two at the same time
    return Case(spec, rows, spec.input_order.keys)


CASES = st.one_of(row_cases(), event_cases(), situation_cases())


@st.composite
def arrivals(draw: st.DrawFn, case: Case) -> tuple[int, list[list[dict[str, Any]]]]:
    """Events that come up to a delay late, in commits; and the delay."""
    delay = draw(st.integers(0, 5))
    jitter = [draw(st.integers(0, delay)) for _ in case.events]
    arriving = [event for _, event in sorted(zip(jitter, case.events), key=lambda one: one[1][case.time] + one[0])]
    cuts = draw(st.sets(st.integers(0, len(arriving)), max_size=8))
    return delay, [list(piece) for piece in pieces(arriving, sorted(cuts))]


@SETTINGS
@given(CASES, st.data())
def test_a_live_query_equals_a_table(case: Case, data: st.DataObject) -> None:
    whole = case.whole()
    delay, commits = data.draw(arrivals(case))
    options = TaskOptions(
        handling=data.draw(st.sampled_from(["pull", "push", "adaptive"])),
        step_rows=data.draw(st.sampled_from([1, 4, 1000])),
        batch_rows=2,
        snapshot_every=data.draw(st.sampled_from([0.0, 5.0])),
    )
    tasks = data.draw(st.integers(1, 3)) if case.key else 1
    with tempfile.TemporaryDirectory() as directory:
        settings = ShardSettings(end=END)
        query = LiveQuery(
            Path(directory), case.spec, key=case.key, tasks=tasks, delay=delay + 1, settings=settings, options=options
        )
        for commit in commits:
            query.append(case.table(commit))
        query.append(case.table([case.marker()]))
        words = query.run()
        assert query.matches() == whole
        assert sum(word["late"] for word in words) == 0
        assert query.run()
        assert query.matches() == whole


@settings(SETTINGS, max_examples=100)
@given(CASES, st.data())
def test_what_is_out_depends_on_the_position_alone(case: Case, data: st.DataObject) -> None:
    """Some events are late, or not, by the watermark before their own commit; some steps take several commits; some go
    to a new process."""
    case.whole()
    delay = data.draw(st.integers(0, 3))
    order = data.draw(st.permutations(case.events)) if len(case.events) < 5 else case.events
    _, commits = data.draw(arrivals(Case(case.spec, list(order), case.key)))
    check_positions(case, commits, delay, data)


@pytest.mark.parametrize("strategy", [None, *CorrelationStrategy])
def test_pairs_that_are_out_depend_on_the_position_alone(strategy: CorrelationStrategy | None) -> None:
    spec = correlation(recency=9, plan=CorrelationPlan(strategy))

    @SETTINGS
    @given(st.data())
    def check(data: st.DataObject) -> None:
        prices = data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=8, max_size=40))
        ticks = [{"symbol": symbol, "ts": 2 * i, "price": float(price)} for i, (symbol, price) in enumerate(prices)]
        _, commits = data.draw(arrivals(Case(spec, ticks, ("symbol",))))
        check_positions(Case(spec, ticks, ("symbol",)), commits, 3, data)

    check()


def check_positions(case: Case, commits: list[list[dict[str, Any]]], delay: int, data: st.DataObject) -> None:
    """Commit by commit, and several at a time in processes that change: the same is out at each position."""
    tables = [case.table(commit).select(list(case.spec.input_columns)) for commit in commits]
    marks, greatest = [-(2**63)], -(2**62)
    for commit in commits:
        greatest = max(greatest, *(event[case.time] for event in commit))
        marks.append(greatest - delay)
    slow = driven(case.spec, tables, marks, list(range(1, len(tables) + 1)), [])
    chosen = data.draw(st.sets(st.integers(1, max(1, len(tables)))))
    cuts = sorted(cut for cut in {*chosen, len(tables)} if 0 < cut <= len(tables))
    moves = data.draw(st.lists(st.sampled_from(cuts), max_size=2)) if cuts else []
    for position, out in driven(case.spec, tables, marks, cuts, moves).items():
        assert out == slow[position]
    if tables:
        assert slow[len(tables)] == in_micro_batches(case.spec, tables, marks)


def in_micro_batches(spec: MatcherSpec, tables: list[pa.Table], marks: list[int]) -> tuple[list[str], int]:
    """As Spark drives a shard: a commit for each micro-batch, whose watermark is that of those before it."""
    shard, late = StreamShard(spec, ShardSettings()), 0
    outputs = [spec.output_schema.empty_table()]
    for table, mark in zip([*tables, None], marks, strict=True):
        step = shard.step([] if table is None else [(None, table)], mark)
        outputs.append(step.matches)
        late += step.counters.late
    return in_words(pa.concat_tables(outputs)), late


def driven(
    spec: MatcherSpec, tables: list[pa.Table], marks: list[int], cuts: list[int], moves: list[int]
) -> dict[int, tuple[list[str], int]]:
    """What is out, and how many events were late, after each step; a step takes the commits up to a cut."""
    settings = ShardSettings(late_by_last_step=True)
    shard = StreamShard(spec, settings)
    chunks: dict[str, Any] = {}
    outputs: list[pa.Table] = []
    found, begin, late = {}, 0, 0
    for end in cuts:
        if begin in moves:
            shard.snapshot().apply(chunks)
            moved = StreamShard(spec, settings)
            moved.restore(list(chunks.values()), shard.watermark, shard.ended)
            shard = moved
        parts = tables[begin:end]
        reached = np.repeat(np.array(marks[begin:end], np.int64), [part.num_rows for part in parts])
        outputs += shard.advance([Arrived(None, pa.concat_tables(parts), reached)], marks[end])
        late += shard.counters.late
        found[end] = (in_words(pa.concat_tables([spec.output_schema.empty_table(), *outputs])), late)
        begin = end
    return found
