"""A full disk: the producer gets an error, nothing of its batch is stored, and what was stored can be read.

A limit of the size of files stands in for the disk: the system refuses to write beyond it, as it does on a full disk.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from episode.errors import EpisodeDataError
from episode.store.stream import StreamStore
from tests.support.stores import events, in_plain_files, make_store, rows_of


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def many(begin: int) -> list[tuple[str, int, int]]:
    return [(f"k{i % 9}", begin + i, i * 7919) for i in range(5_000)]


@pytest.mark.parametrize("size", [0, 10_000, 100_000])
def test_an_append(tmp_path: Path, size: int) -> None:
    store = make_store(tmp_path)
    store.append(events([("a", 1, 1)]))
    with files_of_at_most(size), pytest.raises(EpisodeDataError, match="There is no space for what was appended"):
        store.append(events(many(0)))
    assert not list(store.log.temporary.iterdir())
    for one in (store, StreamStore(store.declaration)):
        assert rows_of(one.read()[0]) == [("a", 1, 1)]
        assert (one.count(), one.head()) == (1, 1)
    assert store.append(events(many(0))) == 2


def test_the_footer_of_an_append(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    staged = store.stage(events(many(0)))
    with (
        files_of_at_most(Path(staged.path).stat().st_size + 10),
        pytest.raises(EpisodeDataError, match="There is no space"),
    ):
        store.commit([staged])
    assert (store.head(), list(store.log.temporary.iterdir())) == (0, [])


def test_batches_that_are_put_together(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    staged = [store.stage(events(many(i))) for i in range(3)]
    with (
        files_of_at_most(Path(staged[0].path).stat().st_size * 2),
        pytest.raises(EpisodeDataError, match="There is no space"),
    ):
        store.commit(staged)
    assert store.head() == 0
    assert store.commit(staged) == 1  # they are still there, for another try
    assert store.count() == 15_000


@pytest.mark.parametrize(("size", "partition"), [(0, 1_000), (2_000, 1_000), (5_000, 1_000), (8_000, 100)])
def test_an_archive(tmp_path: Path, size: int, partition: int) -> None:
    """With many small partitions, the manifest is what does not fit."""
    store = make_store(tmp_path, options={"log_retain": "0 seconds", "partition": str(partition)})
    rows = [*many(0), *many(5_000)]
    store.append(events(rows))
    store.append(events([("a", 1, 1)]))
    rows.append(("a", 1, 1))
    with files_of_at_most(size), pytest.raises(EpisodeDataError, match="There is no space"):
        store.archive()
    fresh = StreamStore(store.declaration)
    assert sorted(rows_of(fresh.table())) == sorted(rows)
    assert in_plain_files(fresh) == []
    assert fresh.archive() == len(rows)
    assert sorted(rows_of(fresh.table())) == sorted(in_plain_files(fresh)) == sorted(rows)
