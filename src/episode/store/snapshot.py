"""A stream as of one moment: files of the archive, then the commits that it does not have; each event once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from episode.store.manifest import ArchivedFile


@dataclass(frozen=True)
class FilePart:
    """A file of the archive."""

    file: ArchivedFile


@dataclass(frozen=True)
class LogPart:
    """Commits of the log: those after one and up to another."""

    after: int
    until: int


Part = Union[FilePart, LogPart]


@dataclass(frozen=True)
class Snapshot:
    """files: of the archive up to the commit archived_to; the commits after it, up to head, are in the log.

    Its parts may be sent to other processes, whose stores read them.
    """

    files: tuple[ArchivedFile, ...]
    archived_to: int
    head: int

    @property
    def parts(self) -> list[Part]:
        """The files, and the log as one part."""
        parts: list[Part] = [FilePart(file) for file in self.files]
        if self.archived_to < self.head:
            parts.append(LogPart(self.archived_to, self.head))
        return parts
