"""The recent buffer against lists: rows come at the end, sometimes before the others, and go from the front."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.correlation.recent import RecentBuffer
from episode.matchers.protocol import EventBatch, StateChunk

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("s", pa.string())])
Held = dict[int, list[tuple[int, str]]]


def batch_of(rows: list[tuple[int, int, str]]) -> EventBatch:
    """Rows by key, in any order of keys."""
    key = np.array([row[0] for row in rows], np.int64)
    time = np.array([row[1] for row in rows], np.int64)
    return EventBatch(pa.table({"k": key, "ts": time, "s": [row[2] for row in rows]}, schema=SCHEMA), key, time)


def held_in(buffer: RecentBuffer) -> Held:
    rows = buffer.rows
    assert rows.table.column("ts").to_pylist() == rows.time.tolist()
    held: Held = {}
    for key, time, text in zip(rows.key.tolist(), rows.time.tolist(), rows.table.column("s").to_pylist(), strict=True):
        held.setdefault(key, []).append((time, text))
    return held


@pytest.mark.parametrize("seed", range(6))
def test_rows_come_and_go(seed: int) -> None:
    draw = np.random.default_rng(seed)
    buffer, held, state = RecentBuffer(SCHEMA, ["k", "ts", "s"]), dict[int, list[tuple[int, str]]](), {}
    chunks: dict[str, StateChunk] = state
    for now in range(0, 3000, 10):
        new = []
        for key in draw.permutation(5)[: draw.integers(0, 6)].tolist():
            times = np.sort(now + draw.integers(0, 10, draw.integers(1, 30)))
            new += [(key, int(time), f"{key}-{time}-{i}") for i, time in enumerate(times)]
        before = {key: len(rows) for key, rows in held.items()}
        buffer.add(batch_of(new))
        for key, time, text in new:
            held.setdefault(key, []).append((time, text))
        assert held_in(buffer) == dict(sorted(held.items()))
        assert (buffer.fresh - buffer.row_from).tolist() == [before.get(key, 0) for key in buffer.keys.tolist()]
        if held and draw.random() < 0.2:  # some older rows of a key
            key = int(draw.choice(sorted(held)))
            first = held[key][0][0]
            older = [(key, first - 2, f"older {now}"), (key, first - 1, f"old {now}")]
            buffer.prepend(batch_of(older))
            held[key] = [row[1:] for row in older] + held[key]
        bound = now - int(draw.integers(0, 200))
        keep = buffer.first_rows(np.full(len(buffer.keys), bound, np.int64))
        buffer.keep_from(keep)
        held = {key: [row for row in rows if row[0] >= bound] for key, rows in held.items()}
        held = {key: rows for key, rows in held.items() if rows}
        assert held_in(buffer) == dict(sorted(held.items()))
        assert len(buffer) == sum(len(rows) for rows in held.values())
        put, removed = buffer.changes()
        chunks.update({chunk.name: chunk for chunk in put})
        for name in removed:
            chunks.pop(name, None)
        if draw.random() < 0.2:
            buffer = RecentBuffer(SCHEMA, ["k", "ts", "s"])
            buffer.restore(list(chunks.values()))
            assert held_in(buffer) == dict(sorted(held.items()))


def test_a_feed_does_not_copy_what_is_held() -> None:
    """Rows are copied a few times as they grow older, and not at every feed."""
    buffer, copied = RecentBuffer(SCHEMA, ["k", "ts", "s"]), 0
    tables: list[int] = []
    for now in range(1000):
        buffer.add(batch_of([(now % 3, now, "row")]))
        tables.append(len(buffer._arrived._tables))
        copied += buffer._arrived._tables[-1].num_rows if len(tables) > 1 and tables[-1] < tables[-2] else 0
    assert copied < 5 * 1000
    assert max(tables) < 40
