"""Which small files of an archive are joined: neighbours in order of arrival, so that this order stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from episode.store.manifest import ArchivedFile

TARGET_ROWS = 1 << 22
"""Files of half as many rows are large enough."""
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
    rows = 0
    for file in reversed(files):
        if run and (file.rows > RATIO * rows or rows + file.rows > TARGET_ROWS):
            break
        run.insert(0, file)
        rows += file.rows
    if len(run) >= FEWEST:
        yield run


def _all_small(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    run: list[ArchivedFile] = []
    for file in [*files, None]:
        full = file is None or file.rows * 2 > TARGET_ROWS or sum(one.rows for one in run) + file.rows > TARGET_ROWS
        if full:
            if len(run) > 1:
                yield run
            run = []
        if file is not None and file.rows * 2 <= TARGET_ROWS:
            run.append(file)
