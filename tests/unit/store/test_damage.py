"""Damaged, lost and foreign files: what can be read is read, the rest is an EpisodeError that names the file."""

from __future__ import annotations

import errno
import os
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from episode import streams
from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError
from episode.store.catalog import Catalog
from episode.store.declaration import declare
from episode.store.stream import StreamStore
from tests.support.stores import COLUMNS, Row, events, make_store, rows_of

ROWS = [(f"k{i}", i, i) for i in range(30)]


def flipped(path: Path, place: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1 << bit
    path.write_bytes(data)


def unwarned(read: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read()


# ---- lanes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_whole_lanes_of_a_damaged_segment_are_read(tmp_path: Path, lanes: int, seed: int) -> None:
    """By lane, before and after archiving: in each lane in turn, and in several at once."""
    draw = random.Random(seed)
    for number in range(lanes + 2):
        place = tmp_path / str(number)
        store = make_store(place, lanes=lanes, options={"sync": "false"})
        for start in (0, 10, 20):
            store.append(events(ROWS[start : start + 10]))
        path, blocks = store.log.path(2), store.log.footer(2).blocks
        damaged = {number} if number < lanes else {lane for lane in range(lanes) if draw.random() < 0.6}
        for block in blocks:
            if block.lane in damaged:
                flipped(path, block.offset + draw.randrange(block.length), draw.randrange(8))
        whole = [rows_of(store.read(1, 2, lanes=[lane])[0]) for lane in range(lanes) if lane not in damaged]
        expected = Counter(ROWS[:10] + ROWS[20:] + [row for rows in whole for row in rows])
        left_out = bool(damaged & {block.lane for block in blocks})

        fresh = StreamStore(store.declaration)
        before = unwarned(lambda store=fresh: rows_of(store.read(skip_corrupt=True)[0]))
        assert Counter(before) == expected
        assert Counter(unwarned(lambda store=fresh: rows_of(store.table(skip_corrupt=True)))) == expected
        assert bool(fresh.skipped) == left_out
        if left_out:
            with pytest.raises(EpisodeDataError, match="the checksum of lane"):
                fresh.archive()
        unwarned(lambda store=fresh: store.archive(skip_corrupt=True))
        assert fresh.archived.manifest().skipped == left_out
        assert Counter(rows_of(fresh.table())) == expected
        assert fresh.count() == len(before)
        for one in fresh.log.numbers()[:-1]:
            fresh.log.path(one).unlink()
        assert Counter(rows_of(fresh.read()[0])) == expected


def test_what_is_left_out_is_reported(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events(ROWS))
    path, block = store.log.path(1), store.log.footer(1).blocks[1]
    flipped(path, block.offset + 5)
    with pytest.warns(
        UserWarning, match=f"{path} is corrupt: the checksum of lane {block.lane} is wrong. This lane is"
    ):
        store.read(skip_corrupt=True)
    assert store.skipped == {path}


# ---- lost segments -----------------------------------------------------------------------------------


@pytest.mark.parametrize("archived", [0, 2, 4])
def test_a_lost_number_is_not_given_again(tmp_path: Path, archived: int) -> None:
    """A store that knows of the commit right before the lost one neither fills the hole nor overlooks it."""
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    early, reader = StreamStore(store.declaration), StreamStore(store.declaration)
    assert early.head() == reader.head() == 1
    for t in (2, 3, 4):
        store.append(events([("a", t, t)]))
        if t == archived:
            store.archive()
    store.log.path(2).unlink()
    assert early.append(events([("a", 5, 5)])) == 5
    assert reader.head() == 5
    expected = [("a", t, t) for t in range(1, 6)]
    if archived:  # it is in the archive, though the log has segments before it
        assert rows_of(reader.read()[0]) == expected
        assert rows_of(streams.read("Live", 1, catalog=tmp_path)[0]) == expected[1:]
        assert sorted(rows_of(reader.table())) == expected
    else:
        for read in (reader.read, reader.table, reader.archive, lambda: reader.read(1)):
            with pytest.raises(EpisodeDataError, match=r"00002\.seg is missing"):
                read()
    assert rows_of(reader.read(2)[0]) == expected[2:]


def test_the_last_segment_is_lost(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for t in (1, 2, 3):
        store.append(events([("a", t, t)]))
    store.log.path(3).unlink()
    fresh = StreamStore(store.declaration)
    assert fresh.head() == 3
    assert fresh.append(events([("a", 4, 4)])) == 4
    with pytest.raises(EpisodeDataError, match=r"00003\.seg is missing"):
        fresh.read()
    assert rows_of(fresh.read(3)[0]) == [("a", 4, 4)]


def test_all_segments_are_lost(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    store.log.path(1).unlink()
    fresh = StreamStore(store.declaration)
    for done in (fresh.read, fresh.count, lambda: fresh.append(events([("a", 1, 1)]))):
        with pytest.raises(EpisodeDataError, match=r"00001\.seg is missing"):
            done()


def test_a_mark_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for t in (1, 2):
        store.append(events([("a", t, t)]))
    for place in range(store.log.lock.stat().st_size):
        whole = store.log.lock.read_bytes()
        flipped(store.log.lock, place)
        assert StreamStore(store.declaration).head() == 2
        store.log.lock.write_bytes(whole)


def test_segments_that_were_not_on_the_disk(tmp_path: Path) -> None:
    """sync 'false': after a loss of power the last ones may be missing, which is no error."""
    store = make_store(tmp_path, options={"sync": "false"})
    for t in (1, 2, 3):
        store.append(events([("a", t, t)]))
    store.log.path(3).unlink()
    fresh = StreamStore(store.declaration)
    assert rows_of(fresh.read()[0]) == [("a", 1, 1), ("a", 2, 2)]
    assert fresh.append(events([("a", 4, 4)])) == 3


# ---- expiry ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-1e6, 0.0, 1e6])
def test_the_clock_does_not_decide_what_expires(tmp_path: Path, shift: float) -> None:
    """Segments of a time to come, because the clock was set back: count, read and expire agree."""
    store = make_store(tmp_path, archive=None, retain=5)
    for t in range(15):
        store.append(events([("a", t, t)]))
        moment = store.log.path(t + 1).stat().st_mtime + shift
        os.utime(store.log.path(t + 1), (moment, moment))
    gone = store.expire()
    assert store.count() == 15 - gone == len(rows_of(store.read()[0])) == len(rows_of(store.table()))
    assert (gone, store.expire()) == (9, 0)


def test_killed_between_the_note_and_the_files(tmp_path: Path) -> None:
    store = make_store(tmp_path, archive=None, retain=5)
    for t in range(15):
        store.append(events([("a", t, t)]))
    with mock.patch.object(type(store.log), "remove_to", side_effect=KeyboardInterrupt), suppress(KeyboardInterrupt):
        store.expire()
    fresh = StreamStore(store.declaration)
    expected = [("a", t, t) for t in range(9, 15)]
    assert fresh.count() == 6
    assert rows_of(fresh.read()[0]) == rows_of(fresh.table()) == expected
    assert rows_of(fresh.history().read(None, 0, 99, ["k", "t", "v"])) == expected
    assert fresh.expire() == 0
    assert len(fresh.log.numbers()) == 6


# ---- files of others, and directories that cannot be written ------------------------------------------


def operations(catalog: Path) -> dict[str, Callable[[], Any]]:
    """Everything that one does with a stream, with its rows where it gives some."""

    def store() -> StreamStore:
        return streams.store_of("Live", catalog)

    def read(**given: Any) -> list[Row]:
        return rows_of(streams.read("Live", catalog=catalog, **given)[0])

    return {
        "read": read,
        "read after": lambda: read(after=1, limit=3),
        "skip": lambda: read(skip_corrupt=True),
        "table": lambda: rows_of(store().table()),
        "history": lambda: rows_of(store().history().read(None, 0, 99, ["k", "t", "v"])),
        "count": lambda: streams.count("Live", catalog=catalog),
        "tail": lambda: [rows_of(table) for table, _ in streams.tail("Live", 0, follow=False, catalog=catalog)],
        "last": lambda: store().last("feed"),
        "names": lambda: streams.names(catalog=catalog),
        "describe": lambda: streams.describe("Past", catalog=catalog),
        "append": lambda: streams.append("Live", events([("z", 99, 99)]), catalog=catalog),
        "by origin": lambda: streams.append(
            "Live", events([("z", 99, 99)]), origin=streams.Origin("f", 1), catalog=catalog
        ),
        "archive": lambda: streams.archive("Live", catalog=catalog),
        "compact": lambda: streams.compact("Live", catalog=catalog),
        "expire": lambda: streams.expire("Live", catalog=catalog),
        "create": lambda: streams.create("Live2", COLUMNS, time="t", catalog=catalog),
        "drop": lambda: streams.drop("Live", catalog=catalog),
    }


WRITING = ("append", "by origin", "archive", "compact", "create", "drop")


@contextmanager
def read_only() -> Iterator[None]:
    """As if the file system was mounted so: root may write to a directory of any mode."""
    real_open, real_os_open = open, os.open

    def refuse(path: Any, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    def opened(path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        return refuse(path) if set(mode) & set("wax+") else real_open(path, mode, *given, **named)

    def os_opened(path: Any, flags: int, *given: Any, **named: Any) -> int:
        writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        return refuse(path) if writing else real_os_open(path, flags, *given, **named)  # type: ignore[return-value]

    refused = dict.fromkeys(("mkdir", "rename", "replace", "link", "unlink", "utime", "rmdir"), refuse)
    with mock.patch.multiple(os, open=os_opened, **refused), mock.patch("builtins.open", opened):
        yield


@pytest.mark.parametrize("what", operations(Path()))
def test_a_store_that_is_read_only(tmp_path: Path, what: str) -> None:
    store = make_store(tmp_path, options={"log_retain": "0 seconds"}, retain=2)
    for t in range(4):
        store.append(events([("a", t, t)]))
        if t == 2:
            store.archive()
    done = operations(tmp_path)[what]
    with read_only():
        if what in (*WRITING, "expire"):
            with pytest.raises(EpisodeDataError, match="Read-only file system") as error:
                done()
            assert str(tmp_path) in str(error.value)
        else:
            done()


def test_files_of_others_are_not_ours(tmp_path: Path) -> None:
    store = make_store(tmp_path, options={"log_retain": "0 seconds"})
    store.append(events(ROWS[:10]))
    store.archive()
    store.append(events(ROWS[10:]))
    root = Path(store.declaration.location)
    strays = ["log/abc.seg", "log/7.seg", "log/notes.txt", "archive/_manifest/zzz.json", "archive/_manifest/3.json"]
    strays += ["archive/_staging/x", "archive/_trash/x", "archive/range=0/x.txt", "tmp/x.seg", "x", "producers/x"]
    directories = ["log/directory", "archive/_staging/directory", "archive/_trash/directory", "tmp/directory"]
    for name in strays:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("not ours")
        os.utime(root / name, (0, 0))
    for name in directories:
        (root / name).mkdir()
        os.utime(root / name, (0, 0))
    (tmp_path / "not a name.json").write_text("{")
    for what, done in operations(tmp_path).items():
        if what != "drop":
            done()
    assert Counter(rows_of(StreamStore(store.declaration).table())) == Counter([*ROWS, ("z", 99, 99), ("z", 99, 99)])
    assert all((root / name).exists() for name in (*strays, *directories))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log/00000000000000000002.seg", b"x"),
        ("archive/_manifest/00000000000000000009.json", b"{}"),
        ("archive/_manifest/00000000000000000001.json", b"[]"),
        ("archive/_manifest/00000000000000000001.json", b"[" * 100_000),
        ("expired.json", b"x"),
        ("expired.json", b'{"to": "x", "row": 5}'),
        ("log/00000000000000000002.seg", None),
        ("archive/_manifest/00000000000000000009.json", None),
    ],
)
def test_files_of_our_names_that_are_not_ours(tmp_path: Path, name: str, content: bytes | None) -> None:
    """content: None is a directory."""
    store = make_store(tmp_path, archive="Past")
    store.append(events(ROWS))
    store.archive()
    path = Path(store.declaration.location) / name
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    fresh = StreamStore(store.declaration)
    with pytest.raises(EpisodeDataError) as error:
        _ = fresh.table(), fresh.read()
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "given", [{"after": "x"}, {"after": -1}, {"after": 1.5}, {"until": "x"}, {"limit": "x"}, {"lanes": ["x"]}]
)
def test_arguments_that_are_not_numbers(tmp_path: Path, given: dict[str, Any]) -> None:
    make_store(tmp_path).append(events(ROWS))
    with pytest.raises(EpisodeAnalysisError, match="is a whole number from 0 on"):
        streams.read("Live", catalog=tmp_path, **given)


def test_half_a_surrogate_pair(tmp_path: Path) -> None:
    make_store(tmp_path)
    with pytest.raises(EpisodeDataError, match=r"Row 2: k = '\\ud800' does not fit the type STRING"):
        streams.append("Live", [{"k": "a", "t": 1, "v": 1}, {"k": "\ud800", "t": 1, "v": 1}], catalog=tmp_path)
    for columns, location in (("`\ud800` STRING, t BIGINT", None), (COLUMNS, "/tmp/\ud800")):
        with pytest.raises(EpisodeError):
            Catalog(tmp_path).create(declare("Other", columns, time="t", location=location))
    assert Catalog(tmp_path).names() == ["Live"]


def test_a_pandas_frame_with_half_a_surrogate_pair(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    make_store(tmp_path)
    with pytest.raises(EpisodeError):
        streams.append("Live", pandas.DataFrame({"k": ["\ud800"], "t": [1], "v": [1]}), catalog=tmp_path)


@pytest.mark.parametrize("seed", range(40))
def test_an_archive_file_with_a_flipped_bit(tmp_path: Path, seed: int) -> None:
    """An error in words with the path, or the right rows."""
    draw = random.Random(seed)
    store = make_store(tmp_path, options={"log_retain": "0 seconds", "sync": "false"})
    store.append(events(ROWS))
    store.archive()
    (file,) = store.archived.manifest().files
    path = store.archived.directory / file.path
    for _ in range(10):
        whole = path.read_bytes()
        flipped(path, draw.randrange(len(whole)), draw.randrange(8))
        for read in (store.table, lambda: store.history().read(None, 0, 99, ["k", "t", "v"])):
            found: pa.Table | None = None
            try:
                found = read()
            except EpisodeDataError as error:
                assert str(path) in str(error)  # noqa: PT017
            assert found is None or sorted(rows_of(found)) == sorted(ROWS)
        path.write_bytes(whole)
