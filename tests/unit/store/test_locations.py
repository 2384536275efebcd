"""A stream that is created again at its LOCATION: with the columns that are stored, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.store.catalog import Catalog
from episode.store.declaration import declare
from episode.store.stream import StreamStore
from tests.support.stores import events, in_plain_files, rows_of

STORED = "k STRING, t BIGINT, v DOUBLE"
ROWS = [("a", 1, 1), ("b", 2, 2), ("c", 3, 3)]


def stored(place: Path, archived: bool, logged: bool) -> dict[str, Any]:
    """Events in the log, the archive, or both; the declaration is dropped."""
    given: dict[str, Any] = {"time": "t", "key": "k", "archive": "Past", "lanes": 3, "location": str(place / "here")}
    given["options"] = {"log_retain": "0 seconds"}
    store = StreamStore(Catalog(place).create(declare("Live", STORED, **given)))
    store.append(events(ROWS[:2]))
    if archived:
        store.append(events(ROWS[2:]))
        store.archive()
        if not logged:
            for number in store.log.numbers():
                store.log.path(number).unlink()
    Catalog(place).drop("Live")
    return given


@pytest.mark.parametrize(("archived", "logged"), [(True, True), (False, True), (True, False)])
@pytest.mark.parametrize(
    ("columns", "changed", "says"),
    [
        (f"{STORED}, extra INT", {}, "extra INT is declared, and is not stored"),
        ("k STRING, t BIGINT", {}, "v DOUBLE is stored, and is not declared"),
        ("k STRING, t BIGINT, v STRING", {}, "v is stored as DOUBLE and declared as STRING"),
        ("k STRING, t TIMESTAMP, v DOUBLE", {}, "t is stored as BIGINT and declared as TIMESTAMP"),
        ("t BIGINT, k STRING, v DOUBLE", {}, "the columns are stored in the order k, t, v"),
        (STORED, {"key": ()}, "KEY is stored as k and declared as none"),
        (STORED, {"lanes": 4}, "lanes is stored as 3 and declared as 4"),
    ],
)
def test_other_columns_are_refused(
    tmp_path: Path, columns: str, changed: dict[str, Any], says: str, archived: bool, logged: bool
) -> None:
    given = stored(tmp_path, archived, logged)
    if not logged and "lanes" in changed:
        pytest.skip("an archive has no lanes")
    with pytest.raises(EpisodeAnalysisError) as error:
        Catalog(tmp_path).create(declare("Live", columns, **{**given, **changed}))
    assert says in str(error.value)
    assert given["location"] in str(error.value)
    assert "another LOCATION" in str(error.value)
    assert Catalog(tmp_path).names() == []


def test_another_time_is_refused(tmp_path: Path) -> None:
    given: dict[str, Any] = {"archive": "Past", "location": str(tmp_path / "here")}
    store = StreamStore(Catalog(tmp_path).create(declare("Live", "t BIGINT, u BIGINT", time="t", **given)))
    store.append(pa.table({"t": [1], "u": [2]}))
    for _ in range(2):
        Catalog(tmp_path).drop("Live")
        with pytest.raises(EpisodeAnalysisError, match="TIME is stored as t and declared as u"):
            Catalog(tmp_path).create(declare("Live", "t BIGINT, u BIGINT", time="u", **given))
        Catalog(tmp_path).create(store.declaration)
        store.archive()


@pytest.mark.parametrize(("archived", "logged"), [(True, True), (False, True)])
def test_the_same_columns_are_accepted(tmp_path: Path, archived: bool, logged: bool) -> None:
    given = stored(tmp_path, archived, logged)
    catalog = Catalog(tmp_path)
    store = StreamStore(catalog.create(declare("Other", STORED, **{**given, "archive": "Other2", "delay": 5})))
    store.append(events([("d", 4, 4)]))
    expected = [*(ROWS if archived else ROWS[:2]), ("d", 4, 4)]
    assert sorted(rows_of(store.table())) == sorted(rows_of(store.read()[0])) == expected
    store.archive()
    assert sorted(rows_of(store.table())) == sorted(in_plain_files(store)) == expected
    assert store.count() == len(expected)


def test_without_and_with_an_archive(tmp_path: Path) -> None:
    """Events that expired before the stream had an archive are neither missed nor counted."""
    given: dict[str, Any] = {"time": "t", "key": "k", "lanes": 2, "location": str(tmp_path / "here"), "retain": 10}
    catalog = Catalog(tmp_path)
    store = StreamStore(catalog.create(declare("Live", "k STRING, t BIGINT, v BIGINT", **given)))
    for t in (1, 2, 50, 51):
        store.append(events([("a", t, t)]))
    assert store.expire() == 2
    catalog.drop("Live")
    store = StreamStore(catalog.create(declare("Live", "k STRING, t BIGINT, v BIGINT", archive="Past", **given)))
    for _ in range(2):
        assert [row[1] for row in rows_of(store.table())] == [50, 51]
        assert [row[1] for row in rows_of(store.read()[0])] == [50, 51]
        assert store.count() == 2
        store.archive()
    assert sorted(row[1] for row in in_plain_files(store)) == [50, 51]


def test_a_producer_of_the_stream_before(tmp_path: Path) -> None:
    """It was opened before the stream was dropped and created again: what it appends is not mixed in."""
    catalog = Catalog(tmp_path)
    given: dict[str, Any] = {"time": "t", "key": "k", "lanes": 3}
    old = StreamStore(catalog.create(declare("Live", STORED, **given)))
    old.append(events(ROWS))
    catalog.drop("Live")
    new = StreamStore(catalog.create(declare("Live", "k STRING, t BIGINT, v STRING", **given)))
    new.append(pa.table({"k": ["a"], "t": [1], "v": ["x"]}))
    with pytest.raises(EpisodeDataError):
        old.append(events(ROWS))
    assert new.read()[0].column("v").to_pylist() == ["x"]


def test_dropped_events_do_not_come_back(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    given: dict[str, Any] = {"time": "t", "key": "k"}
    store = StreamStore(catalog.create(declare("Live", STORED, **given)))
    store.append(events(ROWS))
    catalog.drop("Live")
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    assert StreamStore(catalog.create(declare("Live", STORED, **given))).count() == 0
