"""The past of a stream: what is asked for, in order, and little else is read."""

from __future__ import annotations

import pickle
import random
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from episode.errors import EpisodeDataError
from episode.matchers.correlation.archive import History
from episode.store import parquet as row_groups
from episode.store.history import ParquetHistory, StoreHistory
from episode.store.stream import StreamStore
from tests.support.stores import Row, events, make_store, rows_of

COLUMNS = ["k", "t", "v"]


def expected(rows: list[Row], keys: set[str | None] | None, lo: int, hi: int) -> list[Row]:
    return sorted(
        (row for row in rows if (keys is None or row[0] in keys) and lo <= row[1] <= hi), key=lambda row: row[1]
    )


def by_key(rows: list[Row]) -> dict[object, list[Row]]:
    return {key: [row for row in rows if row[0] == key] for key in {row[0] for row in rows}}


def keys_of(*keys: str | None) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.string())})


@pytest.fixture
def filled(tmp_path: Path) -> tuple[StreamStore, list[Row]]:
    """Events of six keys, one of them null: archived, compacted in part, and not yet archived."""
    store = make_store(tmp_path, options={"log_retain": "0 seconds", "partition": "25"})
    draw = random.Random(7)
    rows: list[Row] = []
    for i in range(10):
        new = [
            (draw.choice(["a", "b", "c", "d", "e", None]), 10 * i + draw.randrange(12), len(rows) + j)
            for j in range(40)
        ]
        rows += new
        store.append(events(new))
        if i in (2, 4, 6):
            store.archive()
        if i == 4:
            store.compact()
    return store, rows


@pytest.mark.parametrize("keys", [None, {"a"}, {"b", "e"}, {None}, {"c", None}, {"zz"}, set()])
def test_rows_of_keys_between_times(filled: tuple[StreamStore, list[Row]], keys: set[str | None] | None) -> None:
    store, rows = filled
    history = pickle.loads(pickle.dumps(store.history()))
    for lo, hi in ((0, 200), (15, 40), (30, 30), (70, 95), (500, 600), (40, 15)):
        given = None if keys is None else keys_of(*sorted(keys, key=str))
        found = rows_of(history.read(given, lo, hi, COLUMNS))
        wanted = expected(rows, keys, lo, hi)
        assert [row[1] for row in found] == [row[1] for row in wanted]
        assert by_key(found) == by_key(wanted)


def test_it_is_a_history(filled: tuple[StreamStore, list[Row]]) -> None:
    store, rows = filled
    assert isinstance(store.history(), History)
    assert isinstance(ParquetHistory((".",), "t"), History)
    assert store.history().earliest() == min(row[1] for row in rows)
    assert make_store(store.archived.directory / "other").history().earliest() is None


def test_a_history_sees_what_comes_later(filled: tuple[StreamStore, list[Row]]) -> None:
    store, rows = filled
    history = store.history()
    for i in range(4):
        new: list[Row] = [("a", 60 + i, 10_000 + i)]
        store.append(events(new))
        rows += new
        if i % 2:
            store.archive()
            store.compact()
        assert by_key(rows_of(history.read(keys_of("a"), 50, 80, COLUMNS))) == by_key(expected(rows, {"a"}, 50, 80))
    assert len(history.indexes) <= len(store.archived.manifest().files)


def test_only_what_is_needed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.store.parquet.ROW_GROUP", 100)
    store = make_store(tmp_path, options={"partition": "1000"}, lanes=8)
    store.append(events([(f"k{i % 10}", i, i) for i in range(10_000)]))
    store.archive()
    store.append(events([(f"k{i % 10}", 10_000 + i, i) for i in range(1_000)]))
    history = store.history()
    found = history.read(keys_of("k3"), 4_000, 4_999, COLUMNS)
    assert found.num_rows == 100
    assert (history.scanned.groups, history.scanned.rows) == (1, 100)
    history = store.history()
    assert history.read(keys_of("k3"), 10_000, 10_999, COLUMNS).num_rows == 100
    assert history.scanned.groups == 1  # a block of one lane
    history = store.history()
    assert history.read(None, 500, 1_500, COLUMNS).num_rows == 1_001
    assert history.scanned.rows == 2_000


def test_keys_that_are_not_the_streams_own(filled: tuple[StreamStore, list[Row]]) -> None:
    store, rows = filled
    found = rows_of(store.history().read(pa.table({"v": [3, 50, 399]}), 0, 200, COLUMNS))
    assert sorted(found, key=str) == sorted((row for row in rows if row[2] in (3, 50, 399)), key=str)


def test_a_corrupt_segment_is_not_passed_over(filled: tuple[StreamStore, list[Row]]) -> None:
    store, _ = filled
    path = store.log.path(store.head())
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(EpisodeDataError, match="corrupt"):
        StoreHistory(store.declaration).read(None, 0, 200, COLUMNS)


# ---- plain Parquet ---------------------------------------------------------------------------------


def plain_rows() -> list[Row]:
    draw = random.Random(3)
    return [(draw.choice("abcdef"), i // 3, i) for i in range(3_000)]


@pytest.mark.parametrize("layout", ["file", "directory", "by key"])
def test_plain_files(tmp_path: Path, layout: str) -> None:
    rows = plain_rows()
    table = events(rows)
    root = tmp_path / "data"
    if layout == "file":
        pq.write_table(table, root, row_group_size=200)
    elif layout == "directory":
        root.mkdir()
        for i in range(5):
            pq.write_table(table.slice(600 * i, 600), root / f"part-{i}.parquet", row_group_size=200)
        (root / "_SUCCESS").touch()
    else:
        pq.write_to_dataset(table, root, partition_cols=["k"])
    history = pickle.loads(pickle.dumps(ParquetHistory((str(root),), "t", ("k",))))
    assert history.earliest() == 0
    for keys in (None, {"a"}, {"b", "z"}):
        given = None if keys is None else keys_of(*sorted(keys))
        found = rows_of(history.read(given, 100, 300, COLUMNS))
        assert by_key(found) == by_key(expected(rows, keys, 100, 300))
        assert [row[1] for row in found] == sorted(row[1] for row in found)
    if layout == "by key":
        fresh = ParquetHistory((str(root),), "t", ("k",))
        fresh.read(keys_of("a"), 0, 10_000, COLUMNS)
        assert len(fresh.indexes) == 1


@pytest.mark.parametrize(
    ("unit", "options"),
    [
        ("us", {}),
        ("ms", {"coerce_timestamps": "ms"}),
        ("ns", {"use_deprecated_int96_timestamps": True}),
        ("ns", {"version": "2.6"}),
    ],
)
def test_times_in_every_unit(tmp_path: Path, unit: str, options: dict[str, object]) -> None:
    """Times of INT96, as Spark writes them unless it is told otherwise, have no statistics: they are found once."""
    table = pa.table(
        {
            "k": ["a", "b"] * 500,
            "t": pa.array([i * 10**6 for i in range(1_000)], pa.timestamp("us")).cast(pa.timestamp(unit)),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100, **options)
    schema = pa.schema([("k", pa.string()), ("t", pa.timestamp("us", tz="UTC"))])
    history = ParquetHistory((str(tmp_path),), "t", ("k",), schema)
    found = history.read(keys_of("a"), 250 * 10**6, 349 * 10**6, ["k", "t"])
    assert found.schema == schema
    assert (found.num_rows, history.scanned.groups, history.scanned.groups_of) == (50, 2, 10)
    assert history.read(keys_of("a"), 250 * 10**6, 349 * 10**6, ["k", "t"]) == found


def test_null_times_are_passed_over(tmp_path: Path) -> None:
    pq.write_table(events([("a", None, 1), ("a", 5, 2)]), tmp_path / "t.parquet")
    history = ParquetHistory((str(tmp_path),), "t", ("k",))
    assert rows_of(history.read(None, -(2**63), 2**63 - 1, COLUMNS)) == [("a", 5, 2)]


def test_no_files(tmp_path: Path) -> None:
    with pytest.raises(EpisodeDataError, match="no Parquet files"):
        ParquetHistory((str(tmp_path),), "t").read(None, 0, 1, ["t"])


def test_the_past_up_to_a_commit(filled: tuple[StreamStore, list[Row]]) -> None:
    """It stays what it was, whatever comes, and wherever its events are."""
    store, rows = filled
    for step in range(2):
        for until in range(11):
            history = pickle.loads(pickle.dumps(store.history(until)))
            wanted = expected(rows[: 40 * until], {"a", None}, 10, 80)
            assert by_key(rows_of(history.read(keys_of("a", None), 10, 80, COLUMNS))) == by_key(wanted)
            assert until or history.earliest() is history.latest() is None
        if step == 0:
            store.append(events([("a", 20, 20), ("a", 21, 21)]))
            store.archive()
            store.compact()
    latest = store.history(3).latest()
    assert latest is not None
    assert latest >= max(row[1] for row in rows[:120])


def test_indexes_are_remembered_until_a_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history is sent anew with each task; a process reads each footer once."""
    remembered = lru_cache(2)(row_groups._remembered_index.__wrapped__)
    monkeypatch.setattr(row_groups, "_remembered_index", remembered)
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        pq.write_table(events([(name, 5, 1)]), tmp_path / name / "part.parquet")
    paths = (str(tmp_path / "x"), str(tmp_path / "y"))
    read = []
    original = row_groups.index_of
    monkeypatch.setattr(row_groups, "index_of", lambda path, *more: read.append(path) or original(path, *more))
    for _ in range(3):
        assert len(rows_of(ParquetHistory(paths, "t", ("k",)).read(None, 0, 9, COLUMNS))) == 2
    assert len(read) == 2
    pq.write_table(events([("z", 7, 1), ("z", 8, 1)]), tmp_path / "y" / "part.parquet")
    assert rows_of(ParquetHistory(paths, "t", ("k",)).read(keys_of("z"), 7, 9, COLUMNS)) == [("z", 7, 1), ("z", 8, 1)]
    assert len(read) == 3
    assert remembered.cache_info().currsize == 2
