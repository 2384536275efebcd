"""Events that wait, in runs that are merged, against a plain list of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers import waiting
from episode.matchers.columns import from_bytes
from episode.matchers.protocol import StateChunk
from episode.matchers.waiting import WaitingEvents, WaitingRun, is_waiting, run_named

SCHEMA = pa.schema([("t", pa.int64()), ("n", pa.int64())])
steps = st.lists(
    st.tuples(
        st.integers(0, 2),  # the source
        st.lists(st.integers(0, 40), max_size=6),  # times
        st.none() | st.integers(0, 45),  # what is due
        st.booleans(),  # a snapshot
        st.booleans(),  # another process
    ),
    max_size=40,
)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_FEW", 2)


def restored(chunks: dict[str, StateChunk]) -> WaitingEvents:
    events = WaitingEvents()
    named = sorted((*run_named(chunk), chunk.data) for chunk in chunks.values() if is_waiting(chunk))
    for number, source, data in named:
        table = from_bytes(data)
        run = WaitingRun.of(number, source, table, table.column("t").to_numpy())
        run.saved = True
        events.add(run)
    return events


@settings(deadline=None)
@given(steps)
def test_what_is_due_comes_by_time_source_and_arrival(given_steps: Any) -> None:
    events, chunks, plain = WaitingEvents(), {}, []
    reached = -1
    for number, (source, times, due, snapshot, restart) in enumerate(given_steps):
        rows = [(time, 100 * number + place) for place, time in enumerate(times) if time > reached]
        if rows:
            table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row)) for row in rows], SCHEMA)
            events.add(WaitingRun.of(number, source, table, np.array([row[0] for row in rows])))
            plain += [(time, source, place) for time, place in rows]
        if due is not None and due > reached:
            reached = due
            found = [(row["t"], row["n"]) for table in events.until(due) for row in table.to_pylist()]
            found.sort(key=lambda row: row[0])  # as a matcher's feed does
            expected = sorted((time, source, place) for time, source, place in plain if time <= due)
            assert found == [(time, place) for time, _, place in expected]
            plain = [row for row in plain if row[0] > due]
        asked = np.unique(np.array(times or [7]))
        here = sorted((row["t"], row["n"]) for table, _ in events.at(asked) for row in table.to_pylist())
        assert here == sorted((time, place) for time, _, place in plain if time in asked)
        assert sorted(int(time) for _, found in events.at(asked) for time in found) == [time for time, _ in here]
        assert events.rows == len(plain)
        assert events.least == min((row[0] for row in plain), default=None)
        if snapshot:
            events.changes().apply(chunks)
            assert set(chunks) == {run.name for run in events}
            if restart and all(run.least > reached for run in events):
                kept = sum(from_bytes(chunk.data).num_rows for chunk in chunks.values())
                if kept == len(plain):  # what has been released of a saved run is left out by the shard
                    events = restored(chunks)


def test_few_runs_are_held() -> None:
    events = WaitingEvents()
    for number in range(1000):
        table = pa.table({"t": [number], "n": [number]}, SCHEMA)
        events.add(WaitingRun.of(number, 0, table, np.array([number])))
    assert len(list(events)) <= 12
    assert [row["n"] for table in events.until(499) for row in table.to_pylist()] == list(range(500))
