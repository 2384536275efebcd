"""Matches handed to a function of the driver: in order of arrival, from a stream in the checkpoint.

The position is kept after each call. So a driver that is killed during a call makes it again; else every match is
handed over once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pyarrow as pa

from episode.store.declaration import Declaration
from episode.store.files import aside
from episode.store.stream import StreamStore

Receiver = Callable[[pa.Table], object]

POLL = 0.002
REMOVED_EVERY = 256
"""Commits after which those that were handed over are removed."""


@dataclass(frozen=True)
class Delivery:
    """place: a file with the position. columns: those that the function gets."""

    declaration: Declaration
    place: str
    columns: tuple[str, ...]
    function: Receiver

    def run(self, ending: Event) -> None:
        """Hand over what comes, until `ending` is set and all is handed over."""
        store = StreamStore(self.declaration)
        path = Path(self.place)
        position = int(path.read_text()) if path.exists() else 0
        while True:
            last = ending.is_set()  # what was written before is seen below
            head = store.head()
            for after, batches in store.pages(position, head, columns=self.columns):
                if batches:
                    self.function(pa.Table.from_batches(batches).select(list(self.columns)))
                position = after
                self._keep(path, position)
                if position % REMOVED_EVERY == 0:
                    store.log.remove_to(position, time.time())
            if last and store.head() == head:
                return
            if store.head() == head:
                ending.wait(POLL)

    def _keep(self, path: Path, position: int) -> None:
        temporary = aside(path.parent, ".tmp")
        temporary.write_text(str(position))
        os.replace(temporary, path)
