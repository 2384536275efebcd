"""Exact codes for partition keys: equal keys have equal codes, in every batch of a coder's life.

A key is split into atoms (see `columns.atoms`). Each atom column, and each pair of a prefix code and the next atom's
code, has a `_Stage`: a dictionary of the values seen so far and their codes. Within a batch, codes are first made local
and dense (by a table if integers span a small range, else by hashing), so that only the batch's distinct values are
looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import ALL_VALID, KeyAtom, atoms, from_values, one_chunk, raw_values, value_range
from episode.matchers.protocol import Snapshot, StateChunk

_SNAPSHOT_VERSION = 1


@dataclass(frozen=True)
class KeyCodes:
    """Codes of one batch.

    local: int32[n], dense within the batch (0 .. count - 1).
    code: int64[count], the lasting code of each local one.
    """

    local: np.ndarray
    code: np.ndarray

    @property
    def count(self) -> int:
        """The number of different keys in the batch."""
        return len(self.code)


class KeyCoder:
    """Gives keys their codes, and remembers them, also across snapshots."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._stages: list[_Stage] = []

    def encode(self, table: pa.Table) -> KeyCodes:
        """Return the key codes of the rows of a table."""
        if not self.keys:
            return KeyCodes(np.zeros(table.num_rows, np.int32), np.zeros(1, np.int64))
        parts = [atom for name in self.keys for atom in atoms(one_chunk(table.column(name)), name)]
        while len(self._stages) < 2 * len(parts) - 1:
            self._stages.append(_Stage())
        local, distinct = _encode_atom(parts[0])
        code = self._stages[0].lookup(distinct)
        for i, atom in enumerate(parts[1:], 1):
            right_local, right_distinct = _encode_atom(atom)
            right_code = self._stages[2 * i - 1].lookup(right_distinct)
            local, pairs = _encode_pairs(local, right_local, len(code), len(right_code))
            packed = code[pairs // len(right_code)] << 32 | right_code[pairs % len(right_code)]
            code = self._stages[2 * i].lookup(pa.array(packed))
        return KeyCodes(local, code)

    def keep(self, live: np.ndarray) -> None:
        """Forget all keys but those with the given codes; a forgotten key's code may be given to a new key."""
        wanted = live
        for i in range(len(self._stages) - 1, 0, -2):
            self._stages[i].keep(wanted)
            pairs = self._stages[i].pairs()
            self._stages[i - 1].keep(pairs & 0xFFFFFFFF)
            wanted = pairs >> 32
        if self._stages:
            self._stages[0].keep(wanted)

    @property
    def size(self) -> int:
        """The number of remembered keys."""
        return len(self._stages[-1].codes) if self._stages else 0

    def snapshot(self) -> Snapshot:
        """Return the dictionaries that have changed, one chunk for each stage."""
        changed = [(i, stage) for i, stage in enumerate(self._stages) if stage.changed]
        for _, stage in changed:
            stage.changed = False
        return Snapshot(tuple(StateChunk(f"keys.{i}", _SNAPSHOT_VERSION, stage.dump()) for i, stage in changed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue with the codes of a snapshot; chunks of other names are ignored."""
        mine = {chunk.name: chunk.data for chunk in chunks if chunk.name.startswith("keys.")}
        self._stages = [_Stage.load(mine[f"keys.{i}"]) for i in range(len(mine))]


@dataclass
class _Stage:
    """A dictionary: values[i] has code codes[i]."""

    values: pa.Array | None = None
    codes: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    changed: bool = False

    def lookup(self, distinct: pa.Array) -> np.ndarray:
        """Return codes of distinct values (int64), new ones for values not seen before."""
        if self.values is None:
            self.values, self.codes = distinct, np.arange(len(distinct))
            self.changed = True
            return self.codes
        found = pc.index_in(distinct, value_set=self.values, skip_nulls=False)
        known = found.is_valid().to_numpy(zero_copy_only=False)
        result = np.empty(len(distinct), np.int64)
        result[known] = self.codes[found.drop_null().to_numpy()]
        if not known.all():
            new = distinct.filter(pa.array(~known))
            used = np.zeros(len(self.codes) + len(new), np.bool_)
            used[self.codes[self.codes < len(used)]] = True
            fresh = np.flatnonzero(~used)[: len(new)]  # the smallest codes that are not in use
            result[~known] = fresh
            self.values = pa.concat_arrays([self.values, new])
            self.codes = np.concatenate([self.codes, fresh])
            self.changed = True
        return result

    def keep(self, live: np.ndarray) -> None:
        """Forget values whose codes are not among the given."""
        if self.values is not None:
            wanted = np.isin(self.codes, live)
            self.changed = self.changed or not wanted.all()
            self.values, self.codes = self.values.filter(pa.array(wanted)), self.codes[wanted]

    def pairs(self) -> np.ndarray:
        """Return the values of a stage of pairs: left code << 32 | right code."""
        return np.empty(0, np.int64) if self.values is None else self.values.to_numpy()

    def dump(self) -> bytes:
        values = self.values if self.values is not None else pa.nulls(0)
        table = pa.table({"value": values, "code": self.codes})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue().to_pybytes()

    @staticmethod
    def load(data: bytes) -> _Stage:
        table = pa.ipc.open_stream(data).read_all()
        values = one_chunk(table.column("value"))
        if pa.types.is_null(values.type):
            return _Stage()
        return _Stage(values, one_chunk(table.column("code")).to_numpy())


def _encode_atom(atom: KeyAtom) -> tuple[np.ndarray, pa.Array]:
    """Return dense codes of an atom column, and its distinct values (int64 or large_binary, and a null)."""
    if atom.strings is None:
        return _encode_ints(atom.values, atom.valid)
    if atom.coded:
        local, places = _encode_ints(atom.values, atom.valid)
        return local, atom.strings.take(places).cast(pa.large_binary())
    encoded = atom.strings.dictionary_encode(null_encoding="encode")
    return raw_values(encoded.indices, np.int32), encoded.dictionary.cast(pa.large_binary())


def _encode_ints(values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, pa.Array]:
    small = _encode_small(values, valid)
    if small is not None:
        return small
    mask = None if valid is ALL_VALID else ~valid
    encoded = pa.array(values, mask=mask).dictionary_encode(null_encoding="encode")
    return raw_values(encoded.indices, np.int32), encoded.dictionary


def _encode_small(values: np.ndarray, valid: np.ndarray) -> tuple[np.ndarray, pa.Array] | None:
    """Encode through a table, if the values span a range that is small for their number."""
    smallest, largest = value_range(values, valid)
    size = largest - smallest + 1
    if size > max(4096, 2 * len(values)):
        return None
    codes, distinct = encode_range(values, valid, smallest, size)
    if len(valid) and not valid.all():
        return codes, pa.array(np.append(distinct, 0), mask=np.arange(len(distinct) + 1) == len(distinct))
    return codes, from_values(pa.int64(), distinct)


def encode_range(values: np.ndarray, valid: np.ndarray, smallest: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dense codes of int64 values that lie in smallest .. smallest + size - 1: (codes int32[n], distinct
    int64[m]).

    Codes follow the order of the values; a null's code is m, one past the last value.
    """
    places = values - smallest if smallest else values
    if len(valid):
        places = np.where(valid, places, size)
    seen = np.zeros(size + 1, np.bool_)
    seen[places] = True
    distinct = np.flatnonzero(seen[:size])
    codes = np.full(size + 1, len(distinct), np.int32)
    codes[distinct] = np.arange(len(distinct), dtype=np.int32)
    return codes.take(places, mode="clip"), distinct + smallest


def _encode_pairs(left: np.ndarray, right: np.ndarray, n_left: int, n_right: int) -> tuple[np.ndarray, np.ndarray]:
    """Return dense codes of pairs of codes, and the distinct pairs as left * n_right + right."""
    if n_right == 1:
        return left, np.arange(n_left)
    pairs = left.astype(np.int64) * n_right + right
    small = _encode_small(pairs, ALL_VALID)
    if small is not None:
        return small[0], raw_values(small[1], np.int64)
    encoded = from_values(pa.int64(), pairs).dictionary_encode()
    return raw_values(encoded.indices, np.int32), raw_values(encoded.dictionary, np.int64)
