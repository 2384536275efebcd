"""Producers that the footers of segments no longer name: the last batch of each, in a small file.

The footer of the last segment names the producers that were active last. Before a commit drops one from there, its last
batch is written here, so that a batch is recognised however long ago its producer appended, and a commit costs the same
however many producers there were.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from episode.store.files import aside, sealed, sync_directory, unseal
from episode.store.segment import LastBatch


class Producers:
    """The files, in a directory. temporary: where they are written first."""

    def __init__(self, directory: Path, temporary: Path, sync: bool) -> None:
        self.directory, self.temporary, self.sync = directory, temporary, sync

    def find(self, producer: str) -> LastBatch | None:
        """The last batch of a producer, if it is here."""
        try:
            return unseal(self._path(producer), "The note of a producer", lambda found: _last(found, producer))
        except FileNotFoundError:
            return None

    def keep(self, lasts: Mapping[str, LastBatch]) -> None:
        """Write the last batches of producers down to the disk."""
        if not lasts:
            return
        self.directory.mkdir(exist_ok=True)
        for producer, last in lasts.items():
            temporary = aside(self.temporary, ".json")
            with open(temporary, "xb") as file:
                file.write(sealed({"producer": producer, **last._asdict()}))
                file.flush()
                if self.sync:
                    os.fsync(file.fileno())
            os.replace(temporary, self._path(producer))
        if self.sync:
            sync_directory(self.directory)

    def _path(self, producer: str) -> Path:
        name = hashlib.sha256(producer.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.directory / f"{name}.json"


def _last(found: dict[str, Any], producer: str) -> LastBatch:
    if found.pop("producer") != producer:
        raise ValueError("it is that of another producer")
    return LastBatch(**found)
