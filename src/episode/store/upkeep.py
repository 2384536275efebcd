"""Upkeep of stores: small files of an archive are joined, and old segments leave a log by RETAIN."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from episode.store.files import aside, locked, sealed, sync_directory, unseal
from episode.store.log import Log
from episode.store.manifest import ArchivedFile
from episode.store.segment import CorruptSegment

# Which small files of an archive are joined: neighbours in order of arrival, so that this order stays.


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


# RETAIN of a stream without an archive: old segments leave the log, and a note says up to which.


@dataclass(frozen=True)
class Expired:
    """Commits up to `to`, with so many rows in all, have expired."""

    to: int = 0
    rows: int = 0


def read_expired(log: Log) -> Expired:
    """What the note says."""
    try:
        return unseal(_note(log), "The note of what has expired,", lambda found: Expired(**found))
    except FileNotFoundError:
        return Expired()


def expire_log(log: Log, before: int) -> int:
    """Remove segments, from the oldest on, whose events are all before a time; how many events. The last one stays."""
    with locked(log.directory.parent / "expiry.lock"):
        found = read_expired(log)
        expired = found
        for number in log.numbers()[:-1]:
            try:
                footer = log.footer(number)
            except CorruptSegment:
                break
            if footer.greatest is not None and footer.greatest >= before:
                break
            expired = Expired(number, footer.tally.rows)
        if expired.to > found.to:
            _write(log, expired)
        log.remove_to(expired.to)
        return expired.rows - found.rows


def _note(log: Log) -> Path:
    return log.directory.parent / "expired.json"


def _write(log: Log, expired: Expired) -> None:
    """The note comes first: a killed process leaves segments that are noted, and the next one removes them."""
    temporary = aside(log.temporary, ".json")
    with open(temporary, "xb") as file:
        file.write(sealed(asdict(expired)))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, _note(log))
    sync_directory(log.directory.parent)
