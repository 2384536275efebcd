"""The archive: every event once, in order, by partitions and statistics; compaction, expiry, what a kill leaves."""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.store import archive as archive_module
from episode.store.archive import Archive
from episode.store.manifest import DAY, HOUR, ArchivedFile, Manifests, choose_partitioning
from episode.store.stream import StreamStore
from episode.store.upkeep import TARGET_ROWS, runs_of
from tests.support.stores import Row, events, in_plain_files, make_store, rows_of

NO_GRACE = {"log_retain": "0 seconds"}


def some(begin: int, count: int, keys: int = 5, seed: int = 1) -> list[Row]:
    draw = random.Random(seed * 1000 + begin)
    return [(f"k{draw.randrange(keys)}", begin + draw.randrange(20), begin + i) for i in range(count)]


def test_every_event_once_before_and_after(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    rows: list[Row] = []
    for i in range(6):
        rows += (new := some(i * 10, 30))
        store.append(events(new))
        if i % 2:
            assert store.archive() == 60
        assert sorted(rows_of(store.table())) == sorted(rows_of(store.read()[0])) == sorted(rows)
        assert store.count() == len(rows)
    assert store.archive() == 0
    assert sorted(in_plain_files(store)) == sorted(rows)


def test_files_are_sorted_by_key_time_and_arrival(tmp_path: Path) -> None:
    store = make_store(tmp_path, options={"partition": "100"})
    rows = [row for i in range(4) for row in some(i * 5, 300, keys=20, seed=i)]
    for start in range(0, len(rows), 250):
        store.append(events(rows[start : start + 250]))
    store.archive()
    (file,) = store.archived.manifest().files
    found = rows_of(store.archived.read(file, ["k", "t", "v"]))
    assert [row[:2] for row in found] == sorted(row[:2] for row in rows)
    assert Counter(found) == Counter(rows)


def test_equal_times_of_a_key_keep_their_order(tmp_path: Path) -> None:
    store = make_store(tmp_path, options=NO_GRACE)
    draw = random.Random(4)
    rows = [(f"k{draw.randrange(3)}", draw.randrange(4), i) for i in range(400)]
    for start in range(0, 400, 20):
        store.append(events(rows[start : start + 20]))
        if start % 60 == 0:
            store.archive()
    expected = {
        key: sorted((row for row in rows if row[0] == key), key=lambda row: row[1]) for key in ("k0", "k1", "k2")
    }
    for whole in (False, True):
        if whole:
            store.archive()
            assert store.compact() > 1
            assert len(store.archived.manifest().files) == 1
        for key, wanted in expected.items():
            assert rows_of(store.history().read(pa.table({"k": [key]}), 0, 9, ["k", "t", "v"])) == wanted


def test_row_groups_have_statistics_of_key_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("episode.store.parquet.ROW_GROUP", 100)
    store = make_store(tmp_path, options={"partition": "1000000"})
    store.append(events([(f"k{i % 10}", i, i) for i in range(1_000)]))
    store.archive()
    (path,) = store.archived.directory.glob("*=*/*.parquet")
    metadata = pq.read_metadata(path)
    assert metadata.num_row_groups == 10
    for i in range(10):
        keys = metadata.row_group(i).column(0).statistics
        assert (keys.min, keys.max) == (f"k{i}", f"k{i}")
        assert metadata.row_group(i).column(1).statistics.has_min_max


@pytest.mark.parametrize(
    ("rows", "span", "unit", "width"),
    [
        (1_000, 30 * DAY, "day", DAY),
        (10_000_000, DAY, "day", DAY),
        (100_000_000, DAY, "hour", HOUR),
        (900_000, HOUR // 10, "day", DAY),
        (10_000_000, HOUR // 10, "hour", HOUR),
        (1, 0, "day", DAY),
    ],
)
def test_partitions_by_rate(tmp_path: Path, rows: int, span: int, unit: str, width: int) -> None:
    store = make_store(tmp_path, "k STRING, t TIMESTAMP")
    scheme = choose_partitioning(store.declaration, rows, 0, span)
    assert (scheme.unit, scheme.column, scheme.width) == (unit, unit, width)


def test_names_of_partitions(tmp_path: Path) -> None:
    by_day = make_store(tmp_path / "1", "k STRING, t DATE, day INT")
    assert choose_partitioning(by_day.declaration, 1, 0, 0).directory(-1) == "archive_day=1969-12-31"
    by_hour = make_store(tmp_path / "2", "k STRING, t TIMESTAMP_NTZ", options={"partition": "hour"})
    assert choose_partitioning(by_hour.declaration, 1, 0, 0).directory(25) == "hour=1970-01-02-01"
    by_range = make_store(tmp_path / "3")
    scheme = choose_partitioning(by_range.declaration, 4_000_000, 0, 1_000)
    assert scheme.directory(int(scheme.places(np.array([-1]))[0])) == f"range={-scheme.width}"
    assert choose_partitioning(by_range.declaration, 10**9, 0, 2**63 - 1).width <= 10**18


def test_late_events_go_to_their_partition(tmp_path: Path) -> None:
    store = make_store(tmp_path, options={"partition": "10"})
    store.append(events([("a", 5, 1), ("a", 25, 2)]))
    store.archive()
    store.append(events([("a", 3, 3), ("a", -3, 4)]))
    store.archive()
    names = {path.name for path in store.archived.directory.iterdir() if "=" in path.name}
    assert names == {"range=0", "range=20", "range=-10"}
    assert rows_of(store.history().read(None, -100, 100, ["t"])) == [(-3,), (3,), (5,), (25,)]


def test_the_log_is_let_go_but_never_its_last_segment(tmp_path: Path) -> None:
    store = make_store(tmp_path, options=NO_GRACE)
    for i in range(5):
        store.append(events([("a", i, i)]))
    store.archive()
    assert store.log.numbers() == [5]
    fresh = StreamStore(store.declaration)
    assert (fresh.head(), fresh.count(), fresh.append(events([("a", 9, 9)]))) == (5, 5, 6)
    kept = make_store(tmp_path / "kept")
    kept.append(events([("a", 1, 1)]))
    kept.append(events([("a", 1, 1)]))
    kept.archive()
    assert kept.log.numbers() == [1, 2]


def test_positions_are_read_from_the_archive_where_the_log_has_gone(tmp_path: Path) -> None:
    store = make_store(tmp_path, options={**NO_GRACE, "partition": "7"})
    batches = [some(i * 3, 25, seed=i) for i in range(12)]
    for i, rows in enumerate(batches):
        store.append(events(rows))
        if i in (3, 7, 8):
            store.archive()
            store.compact()
    for after in range(13):
        for until in range(after, 13):
            found, position = store.read(after, until)
            assert position == until
            assert Counter(rows_of(found)) == Counter(row for rows in batches[after:until] for row in rows)
    by_lane = [row for lane in range(3) for row in rows_of(store.read(2, 11, lanes=[lane])[0])]
    assert Counter(by_lane) == Counter(row for rows in batches[2:11] for row in rows)
    assert [row[0] for row in rows_of(store.read(0, columns=["v"])[0])].count(0) == 1


def test_how_far_a_reader_goes_in_the_archive(tmp_path: Path) -> None:
    store = make_store(tmp_path, options=NO_GRACE)
    for i in range(9):
        store.append(events(some(i, 10)))
        if i % 3 == 2:
            store.archive()
    assert store.log.numbers() == [9]
    assert [store.advance(0, rows) for rows in (1, 30, 60, 85, 1000)] == [3, 3, 6, 6, 9]
    position, seen = 0, 0
    while position < 9:
        position = store.advance(position, 15)
        seen += 1
    assert seen == 3


def test_a_run_that_is_larger_than_what_is_sorted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "CHUNK_ROWS", 50)
    monkeypatch.setattr("episode.store.log.BLOCK_ROWS", 30)
    store = make_store(tmp_path)
    rows: list[Row] = []
    for i in range(5):
        rows += (new := some(i, 70, seed=i))
        store.append(events(new))
    assert store.archive() == 350
    assert store.archived.manifest().archived_to == 5
    assert Counter(rows_of(store.table())) == Counter(in_plain_files(store)) == Counter(rows)


# ---- compaction ------------------------------------------------------------------------------------


def files_of(*rows: int, partition: str = "day=x") -> list[ArchivedFile]:
    return [ArchivedFile(f"{partition}/{i}.parquet", count, 1, 0, 0, i, i) for i, count in enumerate(rows)]


@pytest.mark.parametrize(
    ("rows", "joined"),
    [
        ([10, 10, 10], []),
        ([10, 10, 10, 10], [[0, 1, 2, 3]]),
        ([1000, 10, 10, 10], []),
        ([1000, 10, 10, 10, 10], [[1, 2, 3, 4]]),
        ([80, 40, 10, 10], [[0, 1, 2, 3]]),
        ([TARGET_ROWS, TARGET_ROWS, 5, 5, 5, 5], [[2, 3, 4, 5]]),
    ],
)
def test_which_files_are_joined_as_they_come(rows: list[int], joined: list[list[int]]) -> None:
    assert [[file.first for file in run] for run in runs_of(files_of(*rows))] == joined


def test_all_small_files_are_joined_in_order() -> None:
    half = TARGET_ROWS // 2
    found = [
        [file.first for file in run] for run in runs_of(files_of(5, 5, half + 1, 7, half, half, half, 9), whole=True)
    ]
    assert found == [[0, 1], [3, 4], [5, 6]]


def test_files_of_different_partitions_are_not_joined() -> None:
    assert not list(runs_of(files_of(5, partition="a") + files_of(5, partition="b"), whole=True))


def test_events_are_copied_a_few_times_however_many_files_come() -> None:
    files: list[ArchivedFile] = []
    copied = 0
    for i in range(1_000):
        files.append(ArchivedFile(f"p/{i}.parquet", 10, 1, 0, 0, i, i))
        for run in runs_of(files):
            copied += sum(file.rows for file in run)
            at = files.index(run[0])
            files[at : at + len(run)] = [ArchivedFile(f"p/{i}m.parquet", sum(f.rows for f in run), 1, 0, 0, i, i)]
    assert len(files) < 20
    assert copied < 10 * 10_000


def test_archiving_often_leaves_few_files(tmp_path: Path) -> None:
    store = make_store(tmp_path, options=NO_GRACE)
    rows: list[Row] = []
    for i in range(40):
        rows += (new := some(0, 5, seed=i))
        store.append(events(new))
        store.archive()
    assert len(store.archived.manifest().files) < 10
    assert Counter(in_plain_files(store)) == Counter(rows) == Counter(rows_of(store.table()))
    assert store.compact() > 1
    assert len(store.archived.manifest().files) == 1
    assert Counter(in_plain_files(store)) == Counter(rows)
    store.tidy()
    assert not list(store.archived.trash.iterdir())


def test_a_snapshot_outlives_compaction_for_a_while(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for i in range(3):
        store.append(events(some(0, 5, seed=i)))
        store.archive()
    snapshot = store.snapshot()
    store.append(events(some(0, 5, seed=9)))
    store.archive()
    store.compact()
    rows = [row for part in snapshot.parts for batch in store.read_part(part) for row in batch.to_pylist()]
    assert len(rows) == 15


# ---- expiry ----------------------------------------------------------------------------------------


def test_retain_lets_old_events_go(tmp_path: Path) -> None:
    store = make_store(tmp_path, retain=20, options={**NO_GRACE, "partition": "10"})
    store.append(events([("a", t, t) for t in range(50)]))
    assert store.expire() == 0  # not archived yet
    store.archive()
    assert store.expire() == 20
    assert store.count() == 30
    assert sorted(row[1] for row in rows_of(store.table())) == sorted(row[1] for row in in_plain_files(store))
    assert min(row[1] for row in rows_of(store.table())) == 20
    assert store.expire() == 0
    assert {path.name for path in store.archived.directory.iterdir() if "=" in path.name} == {
        "range=20",
        "range=30",
        "range=40",
    }


def test_retain_without_an_archive(tmp_path: Path) -> None:
    store = make_store(tmp_path, archive=None, retain=15)
    for t in range(0, 50, 10):
        store.append(events([("a", t, t), ("b", t + 5, t)]))
    assert store.expire() == 6
    assert (store.count(), store.log.numbers(), store.head()) == (4, [4, 5], 5)
    assert sorted(row[1] for row in rows_of(store.read()[0])) == [30, 35, 40, 45]
    assert store.advance(0, 1) == 3
    assert len(rows_of(store.history().read(None, 0, 100, ["t"]))) == 4
    assert len(rows_of(store.table())) == 4
    with pytest.raises(EpisodeAnalysisError, match="has no archive"):
        store.archive()
    with pytest.raises(EpisodeAnalysisError, match="has no archive"):
        store.compact()


def test_an_event_of_the_far_future_does_not_empty_the_archive(tmp_path: Path) -> None:
    store = make_store(tmp_path, "k STRING, t TIMESTAMP", retain="1 day")
    now = int(np.datetime64("now", "us").astype(int))
    store.append(pa.table({"k": ["a", "a"], "t": pa.array([now, now + 10**15], pa.timestamp("us", tz="UTC"))}))
    store.archive()
    assert store.expire() == 0


# ---- kills, at every step --------------------------------------------------------------------------


class Killed(BaseException):
    """Stands in for kill -9: nothing in the program handles it."""


STEPS = ["rename", "link", "unlink"]


@pytest.mark.parametrize("action", ["archive", "compact", "expire"])
@pytest.mark.parametrize("step", range(1, 8))
def test_killed_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, step: int) -> None:
    """The process dies at the n-th change of a name; the next one loses and repeats nothing."""
    store = make_store(tmp_path, retain=30, options={**NO_GRACE, "partition": "10"})
    rows: list[Row] = []
    for i in range(3):
        rows += (new := [(f"k{j % 3}", 10 * i + j, j) for j in range(20)])
        store.append(events(new))
        store.archived.extend(lambda manifest: store._arrivals(manifest, False), store._partitioning)
    rows += (new := [("k0", t, t) for t in range(35, 50)])
    store.append(events(new))
    count = 0

    def counted(name: str):  # type: ignore[no-untyped-def]
        original = getattr(os, name)

        def called(*given: object, **more: object) -> object:
            nonlocal count
            count += 1
            if count == step:
                raise Killed
            return original(*given, **more)

        return called

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, counted(name))
        with suppress(Killed):
            getattr(store, action)()
    fresh = StreamStore(store.declaration)
    limit = 19 if action == "expire" else -1
    complete = Counter(row for row in rows if row[1] > limit)

    def check(found: list[Row]) -> None:
        assert Counter(row for row in found if row[1] > limit) == complete
        assert Counter(found) <= Counter(rows)

    check(rows_of(fresh.table()))
    check(rows_of(fresh.read()[0]))
    seen = Counter(in_plain_files(fresh))
    assert seen <= Counter(rows)  # nothing twice, whatever was left
    fresh.archive()
    check(rows_of(fresh.table()))
    check(in_plain_files(fresh))
    assert fresh.count() == fresh.table().num_rows
    assert not list(fresh.archived.staging.iterdir())


def test_two_archivers_take_turns(tmp_path: Path) -> None:
    store = make_store(tmp_path, options=NO_GRACE)
    stop = threading.Event()

    def archiving() -> None:
        own = StreamStore(store.declaration)
        while not stop.is_set():
            own.archive()
            own.compact()

    threads = [threading.Thread(target=archiving) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        rows: list[Row] = []
        for i in range(20):
            rows += (new := some(i, 10, seed=i))
            store.append(events(new))
            assert Counter(rows_of(store.table())) == Counter(rows)
            assert store.count() == len(rows)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    store.archive()
    assert Counter(in_plain_files(store)) == Counter(rows)


def test_a_manifest_is_published_once(tmp_path: Path) -> None:
    one, other = Manifests(tmp_path), Manifests(tmp_path)
    made = one.current().next_version(archived_to=3)
    assert one.publish(made)
    assert not other.publish(made)
    assert other.current() == made
    for _ in range(40):
        one.publish(one.current().next_version())
    assert other.current().version == 41
    assert len(list(tmp_path.iterdir())) < 20


def test_a_corrupt_manifest_is_named(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    store.archive()
    (path,) = (store.archived.directory / "_manifest").glob("*.json")
    path.write_text("{")
    with pytest.raises(EpisodeDataError, match="manifest"):
        Archive(store.declaration).manifest()


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    store.archive()
    (path,) = store.archived.directory.glob("*=*/*.parquet")
    path.unlink()
    with pytest.raises(EpisodeDataError) as error:
        store.table()
    assert path.name in str(error.value)


def test_a_store_that_was_idle_while_segments_went(tmp_path: Path) -> None:
    """Its last known commit, and those after it, have left the log."""
    idle = make_store(tmp_path, options=NO_GRACE)
    idle.append(events([("a", 1, 1)]))
    assert idle.head() == 1
    busy = StreamStore(idle.declaration)
    for i in range(3):
        busy.append(events([("a", 2 + i, i)]))
    busy.archive()
    assert idle.head() == 4
    assert idle.append(events([("a", 9, 9)])) == 5
    assert idle.count() == len(rows_of(idle.table())) == 5


@pytest.mark.parametrize("where", ["data", "footer", "end", "empty"])
def test_a_corrupt_file_is_named(tmp_path: Path, where: str) -> None:
    store = make_store(tmp_path)
    store.append(events(some(0, 1_000)))
    store.archive()
    (path,) = store.archived.directory.glob("*=*/*.parquet")
    whole = bytearray(path.read_bytes())
    at = {"data": 200, "footer": len(whole) - 100, "end": len(whole) - 2, "empty": 0}[where]
    whole[at] ^= 0xFF
    path.write_bytes(b"" if where == "empty" else bytes(whole))
    for read in (store.table, lambda: store.history().read(None, 0, 100, ["k", "t", "v"]), store.compact):
        if read == store.compact:
            store.append(events(some(0, 10)))
            store.archive()
        with pytest.raises(EpisodeDataError) as error:
            read()
        assert path.name in str(error.value)
        assert "corrupt" in str(error.value)
