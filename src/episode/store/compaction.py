"""Which small files of an archive are joined: neighbours in order of arrival, so that this order stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from episode.store.manifest import ArchivedFile

TARGET_ROWS = 1 << 22
TARGET_BYTES = 1 << 28
"""Files of half as many rows, or bytes, are large enough."""
FEWEST = 4
"""Files that are worth joining while more come."""
RATIO = 2
"""An older file is joined if it has at most so many times the rows of all newer ones together."""


def runs_of(files: Sequence[ArchivedFile], *, whole: bool = False) -> Iterator[list[ArchivedFile]]:
    """Files to be joined, partition by partition, each time in order of arrival."""
    partitions: dict[str, list[ArchivedFile]] = {}
    for file in files:
        partitions.setdefault(file.partition, []).append(file)
    for inside in partitions.values():
        yield from _all_small(inside) if whole else _newest(inside)


def _newest(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    """The newest files, as far back as each is not much larger than those after it: so an event is copied again only
    when the file it is in has grown by a part."""
    run: list[ArchivedFile] = []
    for file in reversed(files):
        if run and (file.rows > RATIO * _rows(run) or not _fit([file, *run])):
            break
        run.insert(0, file)
    if len(run) >= FEWEST:
        yield run


def _all_small(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    run: list[ArchivedFile] = []
    for file in files:
        small = _fit([file, file])
        if not small or not _fit([*run, file]):
            if len(run) > 1:
                yield run
            run = []
        if small:
            run.append(file)
    if len(run) > 1:
        yield run


def _rows(files: Sequence[ArchivedFile]) -> int:
    return sum(file.rows for file in files)


def _fit(files: Sequence[ArchivedFile]) -> bool:
    """Whether they may be one file."""
    return _rows(files) <= TARGET_ROWS and sum(file.bytes for file in files) <= TARGET_BYTES
