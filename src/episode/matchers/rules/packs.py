"""Chunks of many matchers' states in few: every chunk costs a call of Spark's state store.

All that is new in one snapshot goes into one pack. Packs of similar size are written together again, and a pack of
which most is gone gives its rest to the newest one: so there are few packs, a chunk is written a few times at most, and
the packs are never much larger than what is in them. An index lists the chunks that count, with the pack of each.

See decision 167.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.protocol import Snapshot, StateChunk

PACK_VERSION = 1
_INDEX, _PACK = "index", "pack."
_FEW = 4


@dataclass
class _Pack:
    """names: of the chunks in it that count. size: in bytes, of all that is in it. saved: has a snapshot got it?"""

    number: int
    names: set[str] = field(default_factory=set)
    size: int = 0
    saved: bool = False

    @property
    def name(self) -> str:
        return f"{_PACK}{self.number}"


class Packs:
    """The chunks that make up a state, and in which pack each of them is."""

    def __init__(self) -> None:
        self.chunks: dict[str, StateChunk] = {}
        self._packs: list[_Pack] = []
        self._place: dict[str, _Pack] = {}
        self._next = 0

    def update(self, put: Iterable[StateChunk], removed: Iterable[str]) -> Snapshot:
        """Put and remove chunks; return what is to be written and removed."""
        new, gone, is_changed = self._new_pack(), [], False
        for name in removed:
            is_changed |= self.chunks.pop(name, None) is not None
            self._leave(name)
        for chunk in put:
            self.chunks[chunk.name] = chunk
            self._enter(chunk.name, new)
        for pack in [pack for pack in self._packs if 2 * self._live(pack) <= pack.size]:
            self._move(pack, new)
            gone.append(pack)
        if new.names:
            self._packs.append(new)
        while len(self._packs) > _FEW and 2 * self._packs[-1].size > self._packs[-2].size:
            merged = self._new_pack()
            for pack in self._packs[-2:]:
                self._move(pack, merged)
                gone.append(pack)
            self._packs.append(merged)
        written = [pack for pack in self._packs if not pack.saved]
        if not (written or gone or is_changed):
            return Snapshot()
        for pack in written:
            pack.saved = True
        return Snapshot(
            (self._index(), *map(self._pack_chunk, written)), tuple(pack.name for pack in gone if pack.saved)
        )

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        by_name = {chunk.name: chunk for chunk in chunks}
        if _INDEX not in by_name:
            return
        index = _read(by_name[_INDEX])
        packs = {number: _Pack(number, saved=True) for number in sorted(set(index["pack"]))}
        place = dict(zip(index["name"], index["pack"], strict=True))
        for number, pack in packs.items():
            columns = _read(by_name[pack.name])
            for name, version, data in zip(columns["name"], columns["version"], columns["data"], strict=True):
                pack.size += len(data)
                if place.get(name) == number:
                    self.chunks[name] = StateChunk(name, version, data)
                    self._place[name] = pack
                    pack.names.add(name)
        self._packs = list(packs.values())
        self._next = max(packs, default=-1) + 1

    def _new_pack(self) -> _Pack:
        self._next += 1
        return _Pack(self._next - 1)

    def _enter(self, name: str, pack: _Pack) -> None:
        self._leave(name)
        self._place[name] = pack
        pack.names.add(name)
        pack.size += len(self.chunks[name].data)

    def _leave(self, name: str) -> None:
        pack = self._place.pop(name, None)
        if pack is not None:
            pack.names.remove(name)

    def _move(self, pack: _Pack, to: _Pack) -> None:
        for name in sorted(pack.names):
            self._enter(name, to)
        self._packs.remove(pack)

    def _live(self, pack: _Pack) -> int:
        return sum(len(self.chunks[name].data) for name in pack.names)

    def _index(self) -> StateChunk:
        names = sorted(self._place)
        numbers = pa.array([self._place[name].number for name in names], pa.int64())
        return _chunk(_INDEX, {"name": pa.array(names, pa.string()), "pack": numbers})

    def _pack_chunk(self, pack: _Pack) -> StateChunk:
        chunks = [self.chunks[name] for name in sorted(pack.names)]
        columns = {
            "name": pa.array([chunk.name for chunk in chunks], pa.string()),
            "version": pa.array([chunk.version for chunk in chunks], pa.int32()),
            "data": pa.array([chunk.data for chunk in chunks], pa.large_binary()),
        }
        return _chunk(pack.name, columns)


def _chunk(name: str, columns: dict[str, pa.Array]) -> StateChunk:
    return StateChunk(name, PACK_VERSION, to_bytes(pa.table(columns)))


def _read(chunk: StateChunk) -> dict[str, list]:
    check_version(chunk, PACK_VERSION)
    return dict(from_bytes(chunk.data).to_pydict())


def check_version(chunk: StateChunk, version: int) -> None:
    """Raise an error for a chunk of a format that this version does not read."""
    if chunk.version != version:
        raise EpisodeDataError(
            f"The state of format {chunk.version} cannot be read; this version reads format {version}."
        )
