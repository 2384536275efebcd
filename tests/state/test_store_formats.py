"""Stores of earlier formats are read, continued, archived, and keep what they know of producers.

`store_formats/<n>` has two: Live (log, archive, producers) and Bare (no archive; its first event has expired). The
number is the format of manifests; in format 2, the first two producers have left the footers.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from episode.store.catalog import Catalog
from episode.store.log import Origin
from episode.store.stream import StreamStore
from tests.support.stores import events, in_plain_files, rows_of

FORMATS = sorted((Path(__file__).parent / "store_formats").iterdir())
ROWS = [("a", 1, 1), ("b", 2, 2), ("c", 3, 3), ("a", 4, 4), ("b", 5, 5), ("c", 6, 6)]


@pytest.fixture(params=FORMATS, ids=lambda path: path.name)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    """A copy of the stores, declared where they are now."""
    shutil.copytree(request.param, tmp_path, dirs_exist_ok=True)
    for path in tmp_path.glob("*.json"):
        found = json.loads(path.read_text())
        found.pop("checksum", None)
        path.write_text(json.dumps({**found, "location": str(tmp_path / found["location"])}))
    return Catalog(tmp_path)


def test_a_stream_with_an_archive(catalog: Catalog) -> None:
    store = StreamStore(catalog.find("Live"))
    assert (store.head(), store.count()) == (4, 6)
    assert sorted(rows_of(store.table())) == sorted(rows_of(store.read()[0])) == sorted(ROWS)
    assert store.append(events([("a", 1, 1)]), Origin("monday", 1)) == 1
    assert store.append(events([("a", 4, 4)]), Origin("tuesday", 7)) == 3
    last = store.last("monday")
    assert last is not None
    assert last.note == "noted"
    assert store.append(events([("d", 7, 7)]), Origin("monday", 2)) == 5
    store.archive()
    store.compact()
    assert sorted(rows_of(store.table())) == sorted(in_plain_files(store)) == sorted([*ROWS, ("d", 7, 7)])
    assert rows_of(store.history().read(None, 2, 4, ["k", "t", "v"])) == ROWS[1:4]


def test_a_stream_without_one(catalog: Catalog) -> None:
    store = StreamStore(catalog.find("Bare"))
    expected = [("a", 100, 2), ("a", 101, 3)]
    assert (store.head(), store.count()) == (3, 2)
    assert rows_of(store.read()[0]) == rows_of(store.table()) == expected
    store.append(events([("a", 200, 4)]))
    assert store.expire() == 2
    assert rows_of(store.read()[0]) == [("a", 200, 4)]


def test_a_stream_is_declared_again_where_it_was(catalog: Catalog) -> None:
    declaration = catalog.find("Live")
    catalog.drop("Live")
    assert StreamStore(catalog.create(declaration)).count() == 6
