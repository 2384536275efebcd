"""The manifest of an archive: its files in partitions by time, and which commits of the log are in them.

See decision 114.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeError
from episode.plan.types import is_integer
from episode.store.declaration import Declaration
from episode.store.files import Mark, publish_new, read_mark, seal, space_needed, unseal, write_mark
from episode.words import DAY

# Partitions by time: days or hours, or ranges if event time is an integer.

HOUR = 3_600_000_000
HOURLY_RATE = 24_000_000
"""Events a day from which on an archive has a directory for each hour."""
RANGE_ROWS = 4_000_000
"""Events that a range of integer time should hold."""


@dataclass(frozen=True)
class Partitioning:
    """column: the name of the partition directories' column. width: of a partition, in units of event time."""

    column: str
    width: int
    unit: str

    def places(self, times: np.ndarray) -> np.ndarray:
        """Return the number of the partition of each time (int64)."""
        return np.floor_divide(times, self.width)

    def directory(self, place: int) -> str:
        if self.unit == "range":
            return f"{self.column}={place * self.width}"
        text = str(np.datetime64(place, "D" if self.unit == "day" else "h"))
        return f"{self.column}={text.replace('T', '-')}"

    def split(self, table: pa.Table, times: np.ndarray) -> Iterator[tuple[str, pa.Table]]:
        """Yield (directory, its rows in the given order) for each partition."""
        places = self.places(times)
        if not len(places):
            return
        if places[0] == places[-1] and (places == places[0]).all():
            yield self.directory(int(places[0])), table
            return
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        cuts = np.concatenate([[0], np.flatnonzero(np.diff(ordered)) + 1, [len(ordered)]])
        for begin, end in pairwise(cuts.tolist()):
            yield self.directory(int(ordered[begin])), table.take(pa.array(order[begin:end]))


def choose_partitioning(declaration: Declaration, rows: int, least: int, greatest: int) -> Partitioning:
    """Choose the partitioning of a stream with this many rows between two times, unless an option sets it."""
    wish = declaration.options.get("partition", "").lower()
    if is_integer(declaration.time_type):
        width = int(wish) if wish else _range(rows, greatest - least)
        return Partitioning(_column(declaration, "range"), width, "range")
    days = max(1, greatest - least) / DAY
    unit = wish or ("hour" if rows / max(days, 1 / 24) >= HOURLY_RATE and greatest > least else "day")
    return Partitioning(_column(declaration, unit), DAY if unit == "day" else HOUR, unit)


def _range(rows: int, span: int) -> int:
    """A power of ten that holds about RANGE_ROWS events at this rate."""
    wanted = max(1, span) * RANGE_ROWS // max(1, rows)
    return min(10 ** len(str(wanted)), 10**18)


def _column(declaration: Declaration, name: str) -> str:
    taken = {column.lower() for column, _ in declaration.columns}
    while name in taken:
        name = f"archive_{name}"
    return name


# The files of an archive, and which commits of the log are in them. Every change writes a new version, a JSON file that
# appears whole or not at all. The greatest version is current.

FORMAT = 2
"""Since format 2 there are checksums: of the manifest, and of the footers of files."""
_VERSION = re.compile(r"(\d{20})\.json")
KEPT = 16
"""Versions that are kept for readers that have just found them."""


@dataclass(frozen=True)
class ArchivedFile:
    """A Parquet file of the archive. path: below the archive. first, last: the commits whose events are in it.

    footer: the checksum of its footer, which Parquet itself does not have; None in manifests of format 1.
    """

    path: str
    rows: int
    bytes: int
    least: int
    greatest: int
    first: int
    last: int
    footer: int | None = None

    @property
    def partition(self) -> str:
        """The directory that it is in."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class Manifest:
    """One version of an archive.

    archived_to: commits up to this one are archived; logged: rows that were appended up to there.
    files: of one partition, in order of arrival. removed: files that this version no longer has, but the one before.
    skipped: corrupt segments that were left out on request. origin: what else a source keeps of its position.
    """

    version: int = 0
    archived_to: int = 0
    logged: int = 0
    partitioning: Partitioning | None = None
    files: tuple[ArchivedFile, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: int = 0
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def next_version(self, **changes: Any) -> Manifest:
        """Return the next version, with these changes."""
        return replace(self, **{"version": self.version + 1, "removed": (), **changes})


class Manifests:
    """The versions of a manifest, in a directory. The file `last` holds the number of the last one, so that a lost one
    is noticed."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.last = directory, directory / "last"
        self._current = Manifest()

    def current(self) -> Manifest:
        """Return the current version; an empty one if nothing was archived."""
        while True:
            known = read_mark(self.last).last
            version = max(self._versions(), default=0)
            if version < known:
                raise EpisodeDataError(f"The manifest {self._path(known)} is missing.", hint="Restore the file.")
            if version == self._current.version:
                return self._current
            with suppress(FileNotFoundError):  # replaced by later ones since we looked
                self._current = self._read(version)

    def publish(self, manifest: Manifest) -> bool:
        """Write the next version; return False if another process has written it first."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = seal({"format": FORMAT, **asdict(manifest)})
        with space_needed(f"the manifest in {self.directory}"):
            if not publish_new(self._path(manifest.version), text):
                return False
        write_mark(self.last, Mark(manifest.version, manifest.version))
        self._current = manifest
        for version in sorted(self._versions())[:-KEPT]:
            self._path(version).unlink(missing_ok=True)
        return True

    def _versions(self) -> list[int]:
        with suppress(FileNotFoundError):
            found = [_VERSION.fullmatch(path.name) for path in self.directory.iterdir()]
            return [int(match.group(1)) for match in found if match is not None]
        return []

    def _path(self, version: int) -> Path:
        return self.directory / f"{version:020d}.json"

    def _read(self, version: int) -> Manifest:
        path = self._path(version)

        def decode(found: dict[str, Any]) -> Manifest:
            if found.pop("format") not in (1, FORMAT):
                raise EpisodeError(f"{path} is of a format that this version of episode does not read.")
            found["files"] = tuple(ArchivedFile(**file) for file in found["files"])
            found["removed"] = tuple(found["removed"])
            if found["partitioning"] is not None:
                found["partitioning"] = Partitioning(**found["partitioning"])
            manifest = Manifest(**found)
            if manifest.version != version:
                raise ValueError(f"it is that of version {manifest.version}")
            return manifest

        return unseal(path, "The manifest", decode)
