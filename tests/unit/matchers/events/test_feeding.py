"""The log of a tree that keeps its records, and feeds that it refuses."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.events import feeding
from episode.matchers.events.feeding import EventLog, KeptTree
from episode.matchers.events.prepare import EventArrays, event_needs, prepare_events
from episode.matchers.protocol import EventBatch
from episode.matchers.running import LocalRun, run
from episode.plan.events.cost import PhysicalPlan, left_deep
from tests.support.events import SCHEMA, spec_of

TYPES = {
    "pos": "bigint",
    "te": "bigint",
    "type": "string",
    "f": "double",
    "s": "string",
    "d": "decimal(38,2)",
    "x": "bigint",
}
ARROW = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64(), "decimal(38,2)": pa.decimal128(38, 2)}
COLUMNS = pa.schema([(name, ARROW[type_]) for name, type_ in TYPES.items()])


def batch_of(random: np.random.Generator, first: int, count: int, nulls: bool) -> EventBatch:
    rows = []
    for time in range(first, first + count):
        row = {"pos": time, "te": time, "type": "A", "f": random.random(), "x": int(random.integers(0, 9))}
        row |= {"s": "".join(random.choice(list("abc"), 3)), "d": Decimal(int(random.integers(-99, 99))) * 10**20}
        rows.append({name: None if nulls and name in "fsx" and random.random() < 0.3 else row[name] for name in TYPES})
    times = np.arange(first, first + count)
    return EventBatch(pa.Table.from_pylist(rows, COLUMNS), times % 3 // 2, times)


def test_a_log_has_the_values_of_all_batches() -> None:
    """Also when the first null comes late, and when strings come between those that are known."""
    text = "PATTERN A a; A b WHERE a.f < b.f AND a.s < b.s AND a.d < b.d AND a.x + 1 < b.x AND b.s > 'bb' WITHIN 9"
    plan = spec_of(text, types=TYPES, schema=COLUMNS).plan
    needs, random = event_needs(plan, local=False), np.random.default_rng(1)
    names = sorted(needs.columns)
    log, batches, rankings = EventLog(plan, needs), [], []
    for number in range(12):
        size = int(random.integers(0, 9)) if number else 5
        batch = batch_of(random, log.count, size, nulls=number > 4)
        log.append(batch, batch.time, prepare_events(plan, event_needs(plan), batch.table, batch.key))
        batches.append(batch)
        rankings.append(log.rankings)
    assert rankings[-1] > 1
    table = pa.concat_tables([one.table for one in batches])
    key, time = (np.concatenate([getattr(one, name) for one in batches]) for name in ("key", "time"))
    whole = prepare_events(plan, event_needs(plan), table, key)
    table = table.select(log.events().table.column_names)
    assert log.events().table == table
    assert (log.key[: log.count] == key).all()
    assert (log.end[: log.count] == time).all()
    assert _values(log.arrays, names, log.count) == _values(whole, names, log.count)
    rows = np.flatnonzero(random.random(log.count) < 0.3)
    assert log._rows(rows).to_pylist() == table.take(rows).to_pylist()
    ours, sorted_ = log.by_key(100)
    order = np.argsort(key, kind="stable")
    assert _values(ours, names, log.count) == [
        [column[row] for row in order] for column in _values(whole, names, log.count)
    ]
    assert sorted_.from_.tolist() == [0, int((key == 0).sum()), log.count]


def _values(arrays: EventArrays, names: list[str], count: int) -> list[list[object]]:
    """The values of every column and computed expression; None for null, ranks by their order."""
    lanes, found = arrays.lanes, []
    places = [(name == "f", lanes.at[name], lanes.valid_at[name]) for name in names]
    places += [(False, row + word, lanes.valid_at[name]) for name, row in lanes.words_at.items() for word in (0, 1)]
    places += list(arrays.places.values())
    for is_float, row, check in places:
        values = (lanes.floats if is_float else lanes.ints)[row][:count]
        valid = np.ones(count, np.bool_) if check < 0 else lanes.valid[check][:count] != 0
        ranks = np.searchsorted(np.unique(values[valid]), values)
        found.append([int(rank) if known else None for rank, known in zip(ranks, valid, strict=True)])
    return found


def test_a_tree_with_too_many_records_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "LEAST_KEPT", 1)
    spec = spec_of("PATTERN A; B; C WHERE A.x = C.x WITHIN 40", most_records=260)
    assert spec.plan.tree is not None
    spec = replace(spec, forced=PhysicalPlan(False, ((spec.plan.tree, left_deep(3)),), 0.0))
    rows = []
    for time in range(360):
        kind = "AB"[time % 2] if 100 < time < 200 else "AXXBXXXXXC"[time % 10]
        rows.append({"pos": time, "ts": time, "te": time, "type": kind, "k": 1, "x": time % 7, "y": 0, "s": ""})
    events = pa.Table.from_pylist(rows, SCHEMA)
    running, found, kept = LocalRun(spec), [], []
    for low in range(0, 360, 4):
        found.append(running.feed(events.slice(low, 4), low + 3))
        kept.append(isinstance(running.matcher.tree, KeptTree))
    assert kept[20]
    assert not kept[49]
    assert kept[-1]
    expected = run(replace(spec, most_records=1 << 20), events)
    assert sorted(running.concat([*found, running.finish()]).to_pylist(), key=str) == sorted(
        expected.to_pylist(), key=str
    )
