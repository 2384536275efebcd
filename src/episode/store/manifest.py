"""The manifest of an archive: which files it has, and which commits of the log are in them.

Every change is a new version, a JSON file of its own, that appears whole or not at all. The greatest version holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from episode.errors import EpisodeDataError, EpisodeError
from episode.store.files import publish_new, space_needed
from episode.store.partitioning import Partitioning

FORMAT = 1
KEPT = 16
"""Versions that stay, for readers that have just found them."""


@dataclass(frozen=True)
class ArchivedFile:
    """A Parquet file of the archive. path: below the archive. first, last: the commits whose events are in it."""

    path: str
    rows: int
    bytes: int
    least: int
    greatest: int
    first: int
    last: int

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
    """The versions of a manifest, in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._current = Manifest()

    def current(self) -> Manifest:
        """The version that holds; an empty one where nothing was archived."""
        while True:
            version = max(self._versions(), default=0)
            if version == self._current.version:
                return self._current
            with suppress(FileNotFoundError):  # replaced by later ones since we looked
                self._current = self._read(version)

    def publish(self, manifest: Manifest) -> bool:
        """Make a version hold, unless another process was quicker."""
        self.directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, **asdict(manifest)})
        with space_needed(f"the manifest in {self.directory}"):
            if not publish_new(self._path(manifest.version), text.encode()):
                return False
        self._current = manifest
        for version in sorted(self._versions())[:-KEPT]:
            with suppress(FileNotFoundError):
                self._path(version).unlink()
        return True

    def _versions(self) -> list[int]:
        with suppress(FileNotFoundError):
            return [int(path.stem) for path in self.directory.iterdir() if path.suffix == ".json"]
        return []

    def _path(self, version: int) -> Path:
        return self.directory / f"{version:020d}.json"

    def _read(self, version: int) -> Manifest:
        path = self._path(version)
        try:
            found = json.loads(path.read_bytes())
            if found.pop("format") != FORMAT:
                raise EpisodeError(f"{path} is of a format that this version of episode does not read.")
            found["files"] = tuple(ArchivedFile(**file) for file in found["files"])
            found["removed"] = tuple(found["removed"])
            if found["partitioning"] is not None:
                found["partitioning"] = Partitioning(**found["partitioning"])
            return Manifest(**found)
        except (ValueError, KeyError, TypeError) as error:
            raise EpisodeDataError(f"The manifest {path} is corrupt: {error}.", hint="Restore the file.") from None
