"""Upkeep of stores: joins small files of an archive, and removes old segments of a log by RETAIN."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from episode.store.files import lock_file, replace_file, seal, sync_path, temporary_path, unseal
from episode.store.log import Log
from episode.store.manifest import ArchivedFile
from episode.store.segment import CorruptSegment

# Choosing small files to join: neighbours in order of arrival, so that this order stays.

TARGET_ROWS = 1 << 22
TARGET_BYTES = 1 << 28
"""Files of half as many rows, or bytes, are large enough."""
FEWEST = 4
"""Files that are worth joining while more arrive."""
RATIO = 2
"""An older file is joined if it has at most RATIO times the rows of all newer ones together."""


def runs_of(files: Sequence[ArchivedFile], *, whole: bool = False) -> Iterator[list[ArchivedFile]]:
    """Yield files to join, partition by partition, in order of arrival."""
    partitions: dict[str, list[ArchivedFile]] = {}
    for file in files:
        partitions.setdefault(file.partition, []).append(file)
    for inside in partitions.values():
        yield from _all_small(inside) if whole else _newest(inside)


def _newest(files: Sequence[ArchivedFile]) -> Iterator[list[ArchivedFile]]:
    """Yield the newest files, back to the first that is much larger than those after it: an event is copied again only
    once its file has grown by a part."""
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
    """Whether files are small enough for one."""
    return _rows(files) <= TARGET_ROWS and sum(file.bytes for file in files) <= TARGET_BYTES


# RETAIN of a stream without an archive: old segments leave the log, and a note holds the last one that did.


@dataclass(frozen=True)
class Expiry:
    """Commits up to `to`, with `rows` rows in all, have expired."""

    to: int = 0
    rows: int = 0


def read_expiry(log: Log) -> Expiry:
    try:
        return unseal(_note(log), "The note of what has expired,", lambda found: Expiry(**found))
    except FileNotFoundError:
        return Expiry()


def expire_log(log: Log, before: int) -> int:
    """Remove segments, but never the last, whose events are all before a time; return the number of events."""
    with lock_file(log.directory.parent / "expiry.lock"):
        found = read_expiry(log)
        expired = found
        for number in log.numbers()[:-1]:
            try:
                footer = log.footer(number)
            except CorruptSegment:
                break
            if footer.greatest is not None and footer.greatest >= before:
                break
            expired = Expiry(number, footer.tally.rows)
        if expired.to > found.to:
            # Before segments are removed: if the process is killed, the next one removes those noted.
            replace_file(_note(log), seal(asdict(expired)), temporary_path(log.temporary, ".json"))
            sync_path(log.directory.parent)
        log.remove_to(expired.to)
        return expired.rows - found.rows


def _note(log: Log) -> Path:
    return log.directory.parent / "expired.json"
