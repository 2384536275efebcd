"""RETAIN of a stream without an archive: old segments leave the log, and a note says up to which."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from episode.store.files import aside, locked, sealed, sync_directory, unseal
from episode.store.log import Log
from episode.store.segment import CorruptSegment


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
