"""Events from before those that are fed: what an archive has of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa


@runtime_checkable
class History(Protocol):
    """The archived events of the archive pattern's stream. Picklable: workers read it themselves.

    It has every event of the stream up to any time that was asked for, or at least all that are older than those fed;
    events that are fed as well are never asked for again.
    """

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        """The events with lo <= time <= hi, of each key in order of (time, arrival).

        keys: a row for each key, its columns the key columns of the correlation; None: of all keys. Times are images of
        event time (microseconds, or the integer itself). columns: of the correlation's input, keys and time among them.
        Pruned by time and key; events of other keys may come along, they are passed over.
        """
        ...

    def earliest(self) -> int | None:
        """A time before which there is no event; None: there is none at all."""
        ...

    def latest(self) -> int | None:
        """A time after which there is no event; None: there is none at all."""
        ...


@dataclass(frozen=True)
class MappedHistory:
    """A history by the names that columns have in the correlation's input. names: (column of the
    correlation's input, the history's own column)."""

    history: History
    names: tuple[tuple[str, str], ...]

    def read(self, keys: pa.Table | None, lo: int, hi: int, columns: Sequence[str]) -> pa.Table:
        own = dict(self.names)
        asked = None if keys is None else keys.rename_columns([own[name] for name in keys.column_names])
        wanted = [own[name] for name in columns]
        found = self.history.read(asked, lo, hi, list(dict.fromkeys(wanted)))
        return pa.Table.from_arrays([found.column(name) for name in wanted], names=list(columns))

    def earliest(self) -> int | None:
        return self.history.earliest()

    def latest(self) -> int | None:
        return self.history.latest()
