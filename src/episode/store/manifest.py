"""The manifest of an archive: which files it has, and which commits of the log are in them.

Every change is a new version, a JSON file of its own, that appears whole or not at all. The greatest version holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from episode.errors import EpisodeDataError, EpisodeError
from episode.store.files import Mark, publish_new, read_mark, sealed, space_needed, unseal, write_mark
from episode.store.partitioning import Partitioning

FORMAT = 2
"""Since format 2 there are checksums: of the manifest, and of the footers of files."""
_VERSION = re.compile(r"(\d{20})\.json")
KEPT = 16
"""Versions that stay, for readers that have just found them."""


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
        """Events in the archive."""
        return sum(file.rows for file in self.files)

    def changed(self, **changes: Any) -> Manifest:
        """The next version."""
        return replace(self, **{"version": self.version + 1, "removed": (), **changes})


class Manifests:
    """The versions of a manifest, in a directory. The file `last` says which is the last, so that none gets lost."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.last = directory, directory / "last"
        self._current = Manifest()

    def current(self) -> Manifest:
        """The version that holds; an empty one where nothing was archived."""
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
        """Make a version hold, unless another process was quicker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = sealed({"format": FORMAT, **asdict(manifest)})
        with space_needed(f"the manifest in {self.directory}"):
            if not publish_new(self._path(manifest.version), text):
                return False
        write_mark(self.last, Mark(manifest.version, manifest.version))
        self._current = manifest
        for version in sorted(self._versions())[:-KEPT]:
            with suppress(FileNotFoundError):
                self._path(version).unlink()
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

        def made(found: dict[str, Any]) -> Manifest:
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

        return unseal(path, "The manifest", made)
