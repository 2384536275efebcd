"""A history by the names that columns have in the correlation's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from episode.matchers.correlation.history import History


@dataclass(frozen=True)
class MappedHistory:
    """names: (column of the correlation's input, the history's own column)."""

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
