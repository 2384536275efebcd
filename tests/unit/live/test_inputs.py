"""What a live task reads of stream stores: its lanes, watermarks by position, archives, several streams."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeDataError
from episode.live import inputs
from episode.live import inputs as archived
from episode.live.inputs import DirectoryWatch, StoreInput, StoreInputs, StreamRead
from episode.live.protocol import InputBatch, Position, has_reached
from episode.matchers.stream_shard import NO_WATERMARK
from episode.store.catalog import Catalog, declare
from episode.store.lanes import lanes_of
from episode.store.segment import CorruptSegment
from episode.store.stream import StreamStore
from tests.support.stores import COLUMNS, events, make_store, rows_of

ALL = 1 << 30


def opened(store: StreamStore, task: int = 0, tasks: int = 1, columns: tuple[str, ...] = ("k", "t", "v")) -> StoreInput:
    return StoreInputs((StreamRead(store.declaration, columns),)).open(task, tasks)


def everything(input: StoreInput, rows: int = ALL, until: Position | None = None) -> list[InputBatch]:
    found: list[InputBatch] = []
    position: Position = {}
    while (one := input.read(position, rows, until)) is not None:
        found.append(one)
        position = one.after
    return found


def judged(batches: list[InputBatch]) -> list[tuple[Any, ...]]:
    """Rows with the watermarks that they are late by, in any order."""
    found = []
    for one in batches:
        assert one.reached is not None
        found += [(*row, int(mark)) for row, mark in zip(rows_of(one.table), one.reached, strict=True)]
    return sorted(found)


def filled(directory: Path, **given: Any) -> StreamStore:
    store = make_store(directory, delay=5, lanes=4, **given)
    for i in range(12):
        store.append(events([(f"k{j % 7}", 10 * i + (j * 5) % 9 - 3 * (i % 4), 100 * i + j) for j in range(8)]))
    return store


def test_watermarks_are_those_of_all_lanes_by_position(tmp_path: Path) -> None:
    store = make_store(tmp_path, delay=5, lanes=4)
    keys = pa.table({"k": list("abcdefgh")})
    lanes = dict(zip(keys.column("k").to_pylist(), lanes_of(keys, ("k",), 4).tolist(), strict=True))
    other = next(key for key in lanes if lanes[key] != lanes["a"])
    store.append(events([("a", 10, 0), (other, 30, 1)]))
    store.append(events([("a", 20, 2)]))
    store.append(events([(other, 50, 3)]))
    input = opened(store, lanes["a"], 4)
    first, second, third = everything(input, 1)
    assert (first.watermark, second.watermark, third.watermark) == (24, 24, 44)
    assert (rows_of(first.table), rows_of(second.table)) == ([("a", 10, 0)], [("a", 20, 2)])
    assert (list(first.reached), list(second.reached)) == ([NO_WATERMARK], [24])  # type: ignore[arg-type]
    assert third.rows == 0  # time has gone on
    assert third.after == {"Live": 3}
    assert input.read(third.after, 1) is None
    assert (input.unread({}), input.unread({"Live": 1}), input.unread({"Live": 3})) == (4, 2, 0)
    assert first.appended == pytest.approx(store.log.path(1).stat().st_mtime)


@pytest.mark.parametrize("rows", [1, 7, 20, ALL])
def test_slices_do_not_change_what_events_are_late_by(tmp_path: Path, rows: int) -> None:
    store = filled(tmp_path)
    parts = [one for task in range(3) for one in everything(opened(store, task, 3), rows)]
    assert judged(parts) == judged(everything(opened(store), ALL))
    assert sum(one.rows for one in parts) == 96
    assert max(one.rows for one in parts) <= max(rows, 8)


def test_columns_may_be_prepared(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 10)]))
    stream = StreamRead(store.declaration, ("v", "k"), lambda table: table.rename_columns(["w", "name"]), delay=100)
    [found] = everything(StoreInputs((stream,)).open(0, 1))
    assert found.table.to_pylist() == [{"w": 10, "name": "a"}]
    assert found.watermark == -99


@pytest.mark.parametrize("most", [1, 10, 1 << 20])
def test_what_has_left_the_log_is_read_from_the_archive(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archived, "MOST_ROWS", most)
    plain = judged(everything(opened(filled(tmp_path / "plain"))))
    store = filled(tmp_path / "archived", options={"log_retain": "0 seconds"})
    store.archive()
    store.compact()
    assert store.log.next_after(0) == 12
    store.append(events([("k1", 500, 1)]))
    batches = [one for task in range(3) for one in everything(opened(store, task, 3), 5)]
    assert [row for row in judged(batches) if row[1] != 500] == plain
    position: Position = {}
    for one in everything(opened(store), 5):
        fresh = opened(store).read(position, 5)  # another process, which has to find the watermark at its position
        assert fresh is not None
        assert (fresh.after, fresh.watermark) == (one.after, one.watermark)
        assert judged([fresh]) == judged([one])
        position = one.after
    assert opened(store).unread({"Live": 3}) is None


def test_reading_stops_at_a_position(tmp_path: Path) -> None:
    store = filled(tmp_path)
    found = everything(opened(store), ALL, {"Live": 7})
    assert found[-1].after == {"Live": 7}
    assert opened(store).read({"Live": 7}, ALL, {"Live": 7}) is None
    with pytest.raises(EpisodeDataError, match="there is no position 99 yet"):
        everything(opened(store), ALL, {"Live": 99})
    with pytest.raises(EpisodeDataError, match="there is no position 50 yet"):
        opened(store).read({"Live": 50}, 1)


def test_what_has_expired(tmp_path: Path) -> None:
    store = filled(tmp_path, archive=None, retain=30)
    store.expire()
    oldest = store.log.next_after(0)
    assert oldest is not None
    assert oldest > 1
    found = everything(opened(store))
    assert found[0].rows == 0
    assert sum(one.rows for one in found) == 8 * (13 - oldest)
    with pytest.raises(EpisodeDataError, match="have expired that have to be read again"):
        opened(store).read({}, 1, {"Live": 12})


def test_a_corrupt_segment_is_an_error(tmp_path: Path) -> None:
    store = filled(tmp_path)
    data = store.log.path(3).read_bytes()
    store.log.path(3).write_bytes(data[:400] + bytes([data[400] ^ 1]) + data[401:])
    with pytest.raises(CorruptSegment):
        everything(opened(store))


# ---- several streams -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A column that says of which stream an event is."""

    name: str

    def __call__(self, table: pa.Table) -> pa.Table:
        return table.append_column("stream", pa.array([self.name] * table.num_rows))


def two(directory: Path) -> tuple[StreamStore, StreamStore, StoreInput]:
    catalog = Catalog(directory)
    stores = [StreamStore(catalog.create(declare(name, COLUMNS, time="t", key="k", delay=0))) for name in ("A", "B")]
    reads = [StreamRead(store.declaration, ("k", "t"), Named(store.declaration.name)) for store in stores]
    return stores[0], stores[1], StoreInputs(tuple(reads)).open(0, 1)


def test_only_the_stream_that_is_behind_is_read(tmp_path: Path) -> None:
    one, other, input = two(tmp_path)
    for i in range(5):
        one.append(events([("a", 10 * i, i)]))
    first = input.read({}, 1)
    assert first is not None
    assert (first.after, first.source, first.watermark) == ({"A": 1}, 0, NO_WATERMARK)
    assert input.read(first.after, ALL) is None  # B has nothing yet: what A has could not be matched
    input.wait(first.after, 0.001)
    other.append(events([("a", 25, 0)]))
    input.wait(first.after, 5)
    positions, marks, position = [], [], first.after
    while (found := input.read(position, 1)) is not None:
        position = found.after
        positions.append(dict(position))
        marks.append(found.watermark)
    assert positions == [{"A": 1, "B": 1}, {"A": 2, "B": 1}, {"A": 3, "B": 1}, {"A": 4, "B": 1}]
    assert marks == [-1, 9, 19, 24]
    assert input.unread(position) == 1


def test_a_stream_may_be_read_twice(tmp_path: Path) -> None:
    store = filled(tmp_path)
    reads = [StreamRead(store.declaration, ("k", "t", "v"), Named(name)) for name in "ab"]
    found = everything(StoreInputs(tuple(reads)).open(0, 1), 20)
    assert found[-1].after == {"Live": 12, "Live/2": 12}
    streams = [row["stream"] for part in found for row in part.table.to_pylist()]
    assert (streams.count("a"), streams.count("b")) == (96, 96)


def test_a_position_of_several_streams_is_reached_again(tmp_path: Path) -> None:
    one, other, input = two(tmp_path)
    for i in range(6):
        one.append(events([("a", 10 * i, i)]))
        other.append(events([("a", 7 * i, i)]))
    goal = {"A": 5, "B": 2}
    found = everything(input, ALL, goal)
    assert found[-1].after == goal
    assert has_reached(found[-1].after, goal)
    assert found[-1].watermark == 6
    streams = [row["stream"] for part in found for row in part.table.to_pylist()]
    assert (streams.count("A"), streams.count("B")) == (5, 2)


def test_waiting_takes_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where directories do not say what happens in them."""
    monkeypatch.setattr(inputs, "_libc", lambda: None)
    store = make_store(tmp_path)
    slept: list[float] = []
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(inputs.time, "sleep", sleep)
    monkeypatch.setattr(inputs.time, "monotonic", lambda: now[0])
    opened(store).wait({}, 0.1)
    assert sum(slept) == pytest.approx(0.1)
    assert slept[0] == inputs.SHORTEST_POLL_S
    assert len(slept) < 0.1 / inputs.LONGEST_POLL_S + 6
    store.append(events([("a", 1, 1)]))
    slept.clear()
    opened(store).wait({}, 0.1)
    assert slept == []


def test_a_directory_says_that_something_has_come(tmp_path: Path) -> None:
    watch = DirectoryWatch([tmp_path / "a", tmp_path / "b"])
    if watch._handle < 0:
        pytest.skip("there is no inotify")
    (tmp_path / "b").mkdir()
    watch.wait(0.001)
    assert not watch.proven
    (tmp_path / "x").touch()
    (tmp_path / "x").rename(tmp_path / "b" / "x")
    begin = time.monotonic()
    watch.wait(60)
    assert watch.proven
    assert time.monotonic() - begin < 30
    (tmp_path / "a").mkdir()
    watch.wait(0.0)
    (tmp_path / "b" / "x").rename(tmp_path / "a" / "x")
    watch.wait(60)
    assert time.monotonic() - begin < 30
    watch.close()


def test_what_left_the_log_meanwhile_ends_the_waiting(tmp_path: Path) -> None:
    store = filled(tmp_path, options={"log_retain": "0 seconds"})
    store.archive()
    assert store.log.next_after(0) == 12
    input = opened(store)
    begin = time.monotonic()
    input.wait({"Live": 3}, 60)
    assert time.monotonic() - begin < 30
    input.close()


def test_positions_are_compared_without_notes() -> None:
    assert has_reached({"A": 3, "B": 1}, {"A": 3})
    assert not has_reached({"A": 3}, {"A": 3, "B": 1})
    assert has_reached({"A": 3}, {"A": 2, "A#idle": 1})
    assert np.iinfo(np.int64).min == NO_WATERMARK
