"""The values of partition keys by their codes: so that a match of any rule can say whose it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import concat, from_bytes, plain, take, to_bytes
from episode.matchers.protocol import EventBatch, StateChunk

KEYS_VERSION = 1
_NAME, _CODE = "key_values", "__episode_code"


class KeyValues:
    """The keys of which something is known. keys: their columns, as they come out."""

    def __init__(self, keys: pa.Schema) -> None:
        self.schema = keys
        self.codes = np.empty(0, np.int64)
        self.values = keys.empty_table()
        self._changed = False

    def take(self, events: EventBatch) -> None:
        """The keys of new events."""
        first = events.bounds[:-1]
        new = first[~np.isin(events.key[first], self.codes)]
        if len(new) and self.schema.names:
            found = plain(take(events.table.select(self.schema.names), new)).cast(self.schema)
            self.values = concat([self.values, found])
            self.codes = np.concatenate([self.codes, events.key[new]])
            self._changed = True

    def of(self, codes: np.ndarray) -> list[pa.ChunkedArray]:
        """The columns of keys with these codes."""
        if not self.schema.names:
            return []
        order = np.argsort(self.codes)
        places = order[np.searchsorted(self.codes, codes, sorter=order)]
        return list(take(self.values, places).columns)

    def keep(self, live: np.ndarray) -> None:
        """Forget all other keys: their codes may be given to new ones."""
        wanted = np.isin(self.codes, live)
        if not wanted.all():
            self.codes, self.values = self.codes[wanted], self.values.filter(pa.array(wanted)).combine_chunks()
            self._changed = True

    def changes(self) -> tuple[StateChunk, ...]:
        if not self._changed:
            return ()
        self._changed = False
        table = self.values.append_column(_CODE, pa.array(self.codes, pa.int64()))
        return (StateChunk(_NAME, KEYS_VERSION, to_bytes(table)),)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        for chunk in chunks:
            if chunk.name == _NAME:
                table = from_bytes(chunk.data)
                self.codes = table.column(_CODE).to_numpy()
                self.values = table.drop_columns(_CODE)
