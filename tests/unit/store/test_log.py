"""The live log: appends whole or not at all, positions, lanes, several producers, what is wrong with rows."""

from __future__ import annotations

import datetime as dt
import decimal
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.store.catalog import Catalog
from episode.store.log import REMEMBERED, Origin
from episode.store.stream import StreamStore, open_store
from tests.support.stores import events, make_store, rows_of


def test_positions(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert (store.head(), store.count(), rows_of(store.read()[0])) == (0, 0, [])
    assert store.append(events([("a", 1, 10), ("b", 2, 20)])) == 1
    assert store.append(events([])) == 1
    assert store.append(events([("a", 3, 30)])) == 2
    other = StreamStore(store.declaration)
    found, position = other.read(1)
    assert (rows_of(found), position, other.count()) == ([("a", 3, 30)], 2, 3)
    assert rows_of(other.read(2)[0]) == []
    assert other.read(1, 99)[1] == 2
    for read in (other.read, other.advance, lambda after: list(other.pages(after, 9))):
        with pytest.raises(EpisodeDataError, match="there is no position 3 yet"):
            read(3)
    assert sorted(rows_of(other.read(0, 1)[0])) == [("a", 1, 10), ("b", 2, 20)]


def test_a_key_is_in_one_lane_in_order(tmp_path: Path) -> None:
    store = make_store(tmp_path, lanes=4)
    keys = [f"k{i % 7}" for i in range(700)]
    store.append(events([(key, i, i) for i, key in enumerate(keys)]))
    store.append(events([(key, 1000 + i, i) for i, key in enumerate(keys)]))
    seen: dict[str, int] = {}
    for lane in range(4):
        rows = rows_of(store.read(lanes=[lane])[0])
        for key in {row[0] for row in rows}:
            assert seen.setdefault(key, lane) == lane
            times = [row[1] for row in rows if row[0] == key]
            assert times == sorted(times)
    assert len(seen) == 7
    assert len(set(seen.values())) > 1


def test_columns_and_what_they_are_called(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 10)]).rename_columns(["K", "T", "v"]).select(["v", "K", "T"]))
    assert rows_of(store.read(columns=["V", "t"])[0]) == [(10, 1)]
    with pytest.raises(EpisodeAnalysisError, match="no column w"):
        store.read(columns=["w"])


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"k": ["a"], "t": [1]}), "has no column v"),
        (pa.table({"k": ["a"], "t": [1], "v": [1], "w": [1]}), "has a column w"),
        (pa.table({"k": ["a"], "t": [1], "v": [1], "V": [1]}), "has two columns v"),
        (pa.table({"k": ["a"], "t": [1], "v": ["1"]}), "of type BIGINT, but string was given"),
        (pa.table({"k": ["a"], "t": [1], "v": [1.5]}), "of type BIGINT, but double was given"),
        (pa.table({"k": ["a", "b", "c"], "t": [1, None, None], "v": [1, 2, 3]}), "Row 2 has no event time: t is null"),
        (
            pa.table({"k": ["a", "b"], "t": [1, 2], "v": pa.array([1, 2**63], pa.uint64())}),
            "Row 2: v = 9223372036854775808",
        ),
    ],
)
def test_what_does_not_fit_is_not_stored(tmp_path: Path, table: pa.Table, says: str) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    with pytest.raises(EpisodeDataError) as error:
        store.append(table)
    assert says in str(error.value)
    assert "stored" in str(error.value)
    assert store.read()[1] == store.count() == 1
    assert not list(store.log.temporary.iterdir())


def test_the_row_is_counted_over_batches(tmp_path: Path) -> None:
    with pytest.raises(EpisodeDataError, match="Row 1002 has no event time"):
        make_store(tmp_path).append(events([("a", 1, 1), ("a", None, 1)]), first_row=1001)


UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("type_", "given", "expected"),
    [
        ("BIGINT", pa.array([1], pa.int8()), 1),
        ("TINYINT", pa.array([100], pa.int64()), 100),
        ("BIGINT", pa.array([decimal.Decimal(7)], pa.decimal128(5, 0)), 7),
        ("DOUBLE", pa.array([3], pa.int64()), 3.0),
        ("FLOAT", pa.array([1.5]), 1.5),
        ("DECIMAL(6, 2)", pa.array([3], pa.int32()), decimal.Decimal("3.00")),
        ("STRING", pa.array(["x"]).dictionary_encode(), "x"),
        ("STRING", pa.array(["x"], pa.large_string()), "x"),
        ("STRING", pa.nulls(1), None),
        ("TIMESTAMP", pa.array([5_000_000_000], pa.timestamp("ns")), dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)),
        ("TIMESTAMP", pa.array([3], pa.timestamp("s", tz="Europe/Rome")), dt.datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)),
        ("TIMESTAMP_NTZ", pa.array([3], pa.timestamp("ms")), dt.datetime(1970, 1, 1, 0, 0, 0, 3000)),
        ("DATE", pa.array([dt.date(2026, 1, 2)], pa.date64()), dt.date(2026, 1, 2)),
        ("ARRAY<BIGINT>", pa.array([[1, 2]], pa.list_(pa.int32())), [1, 2]),
        ("STRUCT<a: DOUBLE>", pa.array([{"a": 1}]), {"a": 1.0}),
        ("MAP<STRING, BIGINT>", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), [("a", 1)]),
    ],
)
def test_values_are_widened_and_never_cut(tmp_path: Path, type_: str, given: pa.Array, expected: object) -> None:
    store = make_store(tmp_path, f"t BIGINT, x {type_}", key=())
    store.append(pa.table({"t": [1], "x": given}))
    assert store.read(columns=["x"])[0].column("x").to_pylist() == [expected]


@pytest.mark.parametrize(
    ("type_", "given"),
    [
        ("TIMESTAMP_NTZ", pa.array([3], pa.timestamp("us", tz="UTC"))),
        ("TIMESTAMP", pa.array([3])),
        ("STRING", pa.array([3])),
        ("BOOLEAN", pa.array([3])),
        ("DATE", pa.array([3], pa.timestamp("us"))),
        ("TINYINT", pa.array([300])),
        ("DECIMAL(3, 2)", pa.array([decimal.Decimal("1.234")])),
        ("STRUCT<a: DOUBLE>", pa.array([{"b": 1}])),
    ],
)
def test_values_of_other_kinds_are_refused(tmp_path: Path, type_: str, given: pa.Array) -> None:
    with pytest.raises(EpisodeDataError):
        make_store(tmp_path, f"t BIGINT, x {type_}", key=()).append(pa.table({"t": [1], "x": given}))


@pytest.mark.parametrize(
    ("type_", "times"),
    [
        ("INT", pa.array([-5, 7], pa.int32())),
        ("BIGINT", pa.array([-(2**63), 2**63 - 1])),
        ("DATE", pa.array([dt.date(1960, 1, 1), dt.date(2026, 2, 3)])),
        ("TIMESTAMP", pa.array([dt.datetime(1960, 1, 1, tzinfo=UTC), dt.datetime(2026, 2, 3, tzinfo=UTC)])),
        ("TIMESTAMP_NTZ", pa.array([dt.datetime(1960, 1, 1), dt.datetime(2026, 2, 3)])),
    ],
)
def test_every_type_of_time(tmp_path: Path, type_: str, times: pa.Array) -> None:
    store = make_store(tmp_path, f"k STRING, t {type_}")
    table = pa.table({"k": ["a", "b"], "t": times})
    store.append(table)
    assert store.archive() == 2
    store.append(table)
    expected = sorted(times.to_pylist() * 2)
    assert sorted(store.table().column("t").to_pylist()) == expected
    found = store.history().read(pa.table({"k": ["b"]}), -(2**63), 2**63 - 1, ["k", "t"])
    assert found.column("t").to_pylist() == [times[1].as_py()] * 2


def test_a_batch_of_a_producer_is_stored_once(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert store.append(events([("a", 1, 1)]), Origin("query", 0)) == 1
    assert store.append(events([("a", 2, 2)]), Origin("other", 0)) == 2
    assert store.append(events([("a", 1, 1)]), Origin("query", 0)) == 1
    assert StreamStore(store.declaration).append(events([("a", 1, 1)]), Origin("query", 0)) == 1
    assert store.append(events([("a", 3, 3)]), Origin("query", 1)) == 3
    assert store.count() == 3
    assert not list(store.log.temporary.iterdir())


def test_a_producer_finds_its_last_note(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert store.last("query/0") is None
    store.append(events([("a", 1, 1)]), Origin("query/0", 4, '{"In": 7}'))
    store.append(events([("a", 2, 2)]), Origin("query/1", 0, '{"In": 8}'))
    fresh = StreamStore(store.declaration)
    assert fresh.last("query/0") == (4, 1, '{"In": 7}')
    for i in range(200):
        fresh.append(events([("a", 3, i)]), Origin(f"p{i}", 0))
    assert fresh.last("p0") == (0, 3, "")
    for i in range(200, REMEMBERED + 3):
        fresh.append(events([("a", 3, i)]), Origin(f"p{i}", 0))
    assert len(store.log.tally().origins) == REMEMBERED
    assert fresh.last("query/0") == (4, 1, '{"In": 7}')
    assert fresh.last("p2") == (0, 5, "")


def test_segments_without_notes_are_read(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]), Origin("query", 0))
    text = store.log.path(1).read_bytes()
    assert b'"origins": {"query": [0, 1]}' in text  # as earlier versions wrote it
    assert StreamStore(store.declaration).last("query") == (0, 1, "")


def test_several_staged_batches_are_one_commit(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    staged = [store.stage(events([(f"k{i}", i, i), ("z", i, -i)])) for i in range(5)]
    staged.append(store.stage(events([])))
    lost = store.stage(events([("lost", 1, 1)]))
    assert store.count() == 0
    assert StreamStore(store.declaration).commit(staged, Origin("query", 0)) == 1
    store.discard([lost])
    expected = [row for i in range(5) for row in ((f"k{i}", i, i), ("z", i, -i))]
    assert sorted(rows_of(store.read()[0])) == sorted(expected)
    assert [row[1] for row in rows_of(store.read()[0]) if row[0] == "z"] == list(range(5))
    assert not list(store.log.temporary.iterdir())
    assert store.commit([]) == 1


def test_how_far_a_reader_goes(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for i in range(6):
        store.append(events([("a", i, j) for j in range(10)]))
    assert [store.advance(0, rows) for rows in (1, 10, 25, 60, 1000, None)] == [1, 1, 2, 6, 6, 6]
    assert [store.advance(4, rows) for rows in (1, 20, None)] == [5, 6, 6]
    assert store.advance(6, 5) == 6
    assert [store.back(rows) for rows in (0, 1, 10, 11, 1000)] == [6, 5, 5, 4, 0]


def test_many_producers_at_once(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("warm", 0, 0)]))

    def produce(number: int) -> None:
        own = StreamStore(store.declaration)
        for i in range(20):
            own.append(events([(f"p{number}", i, i), ("shared", i, number)]))

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rows = rows_of(store.read()[0])
    assert (store.head(), store.count(), len(rows)) == (101, 201, 201)
    for number in range(5):
        assert [row[1] for row in rows if row[0] == f"p{number}"] == list(range(20))
        assert [row[1] for row in rows if row[0] == "shared" and row[2] == number] == list(range(20))


def test_a_batch_of_many_rows_is_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.store.log.BLOCK_ROWS", 100)
    store = make_store(tmp_path)
    table = events([(f"k{i % 5}", i, i) for i in range(1_000)])
    store.append(pa.concat_tables([table.slice(0, 333), table.slice(333)]))
    assert len(store.log.footer(1).blocks) > 10
    found = rows_of(store.read()[0])
    assert sorted(found) == sorted(rows_of(table))
    for i in range(5):
        assert [row[1] for row in found if row[0] == f"k{i}"] == list(range(i, 1_000, 5))


def corrupted(path: Path, at: int) -> None:
    whole = bytearray(path.read_bytes())
    whole[at] ^= 0xFF
    path.write_bytes(bytes(whole))


@pytest.mark.parametrize("where", ["magic", "schema", "block", "footer", "length", "end", "empty", "short", "other"])
def test_a_corrupt_segment_is_named(tmp_path: Path, where: str) -> None:
    store = make_store(tmp_path)
    for i in range(3):
        store.append(events([(f"k{j}", i, j) for j in range(20)]))
    path, footer = store.log.path(2), store.log.footer(2)
    size = path.stat().st_size
    places = {
        "schema": 40,
        "block": footer.blocks[1].offset + 70,
        "footer": size - 60,
        "length": size - 10,
        "end": size - 1,
    }
    if where == "magic":
        corrupted(path, size - 3)
    elif where == "empty":
        path.write_bytes(b"")
    elif where == "short":
        os.truncate(path, size - 5)
    elif where == "other":
        path.write_bytes(store.log.path(1).read_bytes())
    else:
        corrupted(path, places[where])
    fresh = StreamStore(store.declaration)
    with pytest.raises(EpisodeDataError) as error:
        fresh.read()
    assert str(path) in str(error.value)
    assert "corrupt" in str(error.value)
    with pytest.warns(UserWarning, match="is left out"):
        found, position = fresh.read(skip_corrupt=True)
    assert (position, fresh.skipped) == (3, {path})
    times = found.column("t").to_pylist()
    assert times.count(0) == times.count(2) == 20
    assert times.count(1) < 20
    assert rows_of(fresh.read(2)[0])  # what comes after it can be read
    with pytest.raises(EpisodeDataError, match="corrupt"):
        fresh.archive()
    with pytest.warns(UserWarning, match="is left out"):
        assert StreamStore(store.declaration).archive(skip_corrupt=True) == len(times)
    assert store.archived.manifest().skipped == 1
    assert len(rows_of(store.table())) == len(times)


def test_a_corrupt_last_segment_does_not_stop_producers(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]), Origin("query", 0))
    store.append(events([("a", 2, 2)]), Origin("query", 1))
    corrupted(store.log.path(2), store.log.path(2).stat().st_size - 30)
    fresh = StreamStore(store.declaration)
    assert fresh.append(events([("a", 2, 2)]), Origin("query", 1)) == 3  # what was lost is stored again
    assert fresh.append(events([("a", 1, 1)]), Origin("query", 0)) == 3
    with pytest.warns(UserWarning, match="left out"):
        assert rows_of(fresh.read(skip_corrupt=True)[0]) == [("a", 1, 1), ("a", 2, 2)]


def test_a_segment_that_is_missing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for i in range(3):
        store.append(events([("a", i, i)]))
    store.log.path(2).unlink()
    for read in (lambda: StreamStore(store.declaration).read(), lambda: StreamStore(store.declaration).archive()):
        with pytest.raises(EpisodeDataError, match="is missing"):
            read()


def test_stores_of_other_kinds_are_not_opened_here(tmp_path: Path) -> None:
    store = make_store(tmp_path, using="kafka", options={"kafka.bootstrap.servers": "h:1", "topic": "t"})
    with pytest.raises(EpisodeAnalysisError.__mro__[1], match="Spark reads them"):
        open_store(store.declaration)


def test_what_killed_producers_left_goes_after_a_day(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    old, new = store.stage(events([("a", 2, 2)])), store.stage(events([("a", 3, 3)]))
    os.utime(old.path, (0, 0))
    store.tidy()
    assert [path.name for path in store.log.temporary.iterdir()] == [Path(new.path).name]


def test_without_a_key_there_is_one_lane_in_order_of_arrival(tmp_path: Path) -> None:
    store = make_store(tmp_path, key=())
    draw = np.random.default_rng(3)
    rows: list[Any] = [(str(draw.integers(9)), int(draw.integers(100)), i) for i in range(500)]
    store.append(events(rows))
    assert rows_of(store.read()[0]) == rows


def test_a_stream_that_was_dropped_meanwhile(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    staged = store.stage(events([("a", 2, 2)]))
    Catalog(tmp_path).drop("Live")
    with pytest.raises(EpisodeDataError, match="has gone"):
        store.append(events([("a", 2, 2)]))
    with pytest.raises(EpisodeDataError, match="has gone"):
        store.commit([staged])


def test_large_values_are_several_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.store.log.BLOCK_BYTES", 5_000)
    monkeypatch.setattr("episode.store.archive.CHUNK_BYTES", 20_000)
    monkeypatch.setattr("episode.store.upkeep.FEWEST", 100)
    store = make_store(tmp_path, key=())
    rows: list[Any] = [("x" * (i % 7) * 300, i, i) for i in range(100)]
    store.append(events(rows))
    assert len(store.log.footer(1).blocks) > 10
    assert rows_of(store.read()[0]) == rows
    store.archive()
    assert len(store.archived.manifest().files) > 3
    assert sorted(rows_of(store.table())) == sorted(rows)
