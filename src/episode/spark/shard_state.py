"""The chunks of a shard's state in Spark's state store.

Every call of the state store goes to the JVM and back. So while the chunks of a shard are small they are all kept in
one value, written anew with every step; once they are not, each is an entry of a map, and a step writes what is new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.protocol import Snapshot, StateChunk

SMALL = 1 << 16
"""Bytes of chunks up to which they are kept in one value."""


class ChunkMap(Protocol):
    """Spark's map state of (name) by (version, data)."""

    def iterator(self) -> Iterator[tuple[tuple[str], tuple[int, bytes]]]: ...

    def updateValue(self, key: tuple[str], value: tuple[int, bytes]) -> None: ...

    def removeKey(self, key: tuple[str]) -> None: ...


@dataclass
class ShardChunks:
    """What the state of a shard consists of. small: all chunks by name; None: they are in the map, for good."""

    small: dict[str, StateChunk] | None

    @staticmethod
    def read(small: bytes, large: ChunkMap) -> tuple[ShardChunks, list[StateChunk]]:
        """The chunks that were written last. small: what `change` gave."""
        if not small:
            return ShardChunks(None), [StateChunk(name, v, bytes(data)) for (name,), (v, data) in large.iterator()]
        columns = from_bytes(bytes(small)).to_pydict()
        chunks = [StateChunk(*one) for one in zip(columns["name"], columns["version"], columns["data"], strict=True)]
        return ShardChunks({chunk.name: chunk for chunk in chunks}), chunks

    def change(self, changes: Snapshot, large: ChunkMap) -> bytes:
        """Write what has changed; what is to be kept in the one value: nothing where the chunks are in the map."""
        if self.small is None:
            for name in changes.removed:
                large.removeKey((name,))
            self._enter(changes.put, large)
            return b""
        changes.apply(self.small)
        if sum(len(chunk.data) for chunk in self.small.values()) <= SMALL:
            return _together(list(self.small.values()))
        self._enter(tuple(self.small.values()), large)
        self.small = None
        return b""

    def _enter(self, chunks: tuple[StateChunk, ...], large: ChunkMap) -> None:
        for chunk in chunks:
            large.updateValue((chunk.name,), (chunk.version, chunk.data))


def _together(chunks: list[StateChunk]) -> bytes:
    names, versions, data = ([getattr(one, name) for one in chunks] for name in ("name", "version", "data"))
    columns = [pa.array(names, pa.string()), pa.array(versions, pa.int32()), pa.array(data, pa.binary())]
    return to_bytes(pa.Table.from_arrays(columns, names=["name", "version", "data"]))
