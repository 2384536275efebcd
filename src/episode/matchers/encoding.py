"""Arrow columns in the lanes of the machine: int64, float64, and ranks of strings, binary and wide decimals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import (
    decimal_low_words,
    from_binaries,
    int64_values,
    numbers,
    one_chunk,
    raw_values,
    valid_mask,
)
from episode.plan.types import lane_of


@dataclass
class Lanes:
    """The machine's view of a table.

    ints int64[:, n], floats float64[:, n], valid uint8[:, n]; `at` gives the row of a column in its lane's matrix,
    `valid_at` its row in `valid` (-1: no nulls). Rows after the input columns are free for computed columns.
    words_at: the row of the low words of a column of wide decimals; the high words come after it.
    ranks: rank of each constant string among the values of its type. ranked: by type, its values, and their places in
    the order of ranks.
    """

    ints: np.ndarray
    floats: np.ndarray
    valid: np.ndarray
    at: dict[str, int] = field(default_factory=dict)
    valid_at: dict[str, int] = field(default_factory=dict)
    words_at: dict[str, int] = field(default_factory=dict)
    ranks: dict[tuple[str, object], int] = field(default_factory=dict)
    ranked: dict[str, tuple[pa.Array, np.ndarray]] = field(default_factory=dict)
    int_rows: int = 0
    float_rows: int = 0
    valid_rows: int = 0

    @property
    def layout(self) -> tuple[object, ...]:
        """The place of everything: programs are the same for lanes with the same layout."""
        places = (tuple(one.items()) for one in (self.at, self.valid_at, self.words_at, self.ranks))
        return *places, self.int_rows, self.float_rows, self.valid_rows

    def next_int(self) -> int:
        """Take the next free row of `ints`."""
        self.int_rows += 1
        return self.int_rows - 1

    def next_valid(self) -> int:
        """Take the next free row of `valid`."""
        self.valid_rows += 1
        return self.valid_rows - 1

    def next_float(self) -> int:
        """Take the next free row of `floats`."""
        self.float_rows += 1
        return self.float_rows - 1


def is_float_lane(type_: str) -> bool:
    """Whether values of a type are held in the lane of floats."""
    return lane_of(type_) == "float"


def encode(
    table: pa.Table,
    columns: dict[str, str],
    null_tests: Iterable[str],
    constants: Iterable[tuple[str, object]],
    computed: tuple[int, int],
    words: Collection[str] = (),
) -> Lanes:
    """Encode `columns` (name → Spark type) into lanes. null_tests: columns of which only validity is needed.

    constants: (type, value) of the code lane. computed: how many int and float columns to leave room for. words:
    columns of wide decimals to hold in words.
    """
    n = table.num_rows
    by_lane: dict[str, list[str]] = {"int": [], "float": [], "code": []}
    for name, type_ in columns.items():
        lane = lane_of(type_)
        assert lane is not None, f"{name} of {type_} has no lane"
        by_lane[lane].append(name)
    ints = np.empty((len(by_lane["int"]) + len(by_lane["code"]) + 2 * len(words) + computed[0], n), np.int64)
    floats = np.empty((len(by_lane["float"]) + computed[1], n), np.float64)
    masks: list[np.ndarray] = []
    lanes = Lanes(ints, floats, np.empty((0, n), np.uint8))

    def note_nulls(name: str, array: pa.Array) -> None:
        if array.null_count == 0:
            lanes.valid_at[name] = -1
        else:
            lanes.valid_at[name] = len(masks)
            masks.append(valid_mask(array).view(np.uint8))

    for name in by_lane["int"]:
        array = one_chunk(table.column(name))
        lanes.at[name] = row = lanes.next_int()
        ints[row] = as_int64(array)
        note_nulls(name, array)
    for name in by_lane["float"]:
        array = one_chunk(table.column(name))
        lanes.at[name] = row = lanes.next_float()
        values = array.cast(pa.float64())  # those under nulls are arbitrary
        floats[row] = raw_values(pc.fill_null(values, 0.0) if values.null_count else values, np.float64)
        note_nulls(name, array)
    groups: dict[str, tuple[list[str], list[tuple[str, object]]]] = defaultdict(lambda: ([], []))
    for name in by_lane["code"]:
        groups[rank_type(columns[name])][0].append(name)
    for type_, value in constants:
        groups[rank_type(type_)][1].append((type_, value))
    for type_, group in groups.items():
        lanes.ranked[type_] = _encode_group(table, *group, lanes, note_nulls)
    for name in words:
        array = one_chunk(table.column(name))
        lanes.words_at[name] = row = lanes.next_int()
        ints[row], ints[lanes.next_int()] = decimal_words(array)
    for name in (*words, *null_tests):
        if name not in lanes.valid_at:
            note_nulls(name, one_chunk(table.column(name)))
    lanes.valid = np.ones((len(masks) + sum(computed), n), np.uint8)
    for row, mask in enumerate(masks):
        lanes.valid[row] = mask
    lanes.valid_rows = len(masks)
    return lanes


def rank_type(type_: str) -> str:
    """The type among whose values those of a type in the code lane have a rank."""
    return "string" if lane_of(type_) == "code" and not type_.startswith(("binary", "decimal")) else type_


def as_int64(array: pa.Array) -> np.ndarray:
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.int64)
    if pa.types.is_decimal(array.type):
        return decimal_low_words(array.cast(pa.decimal128(array.type.precision, array.type.scale)))
    return int64_values(array)


def decimal_words(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return (low words, high words) of decimals, both as int64."""
    values = raw_values(array.cast(pa.decimal128(array.type.precision, array.type.scale)), np.int64)
    return np.ascontiguousarray(values[0::2]), np.ascontiguousarray(values[1::2])


def _encode_group(table, names, constants, lanes, note_nulls) -> tuple[pa.Array, np.ndarray]:  # type: ignore[no-untyped-def]
    """Encode ranks in byte order over the values of all columns and constants of one type; return these, in order."""
    encoded = []
    for name in names:
        array = one_chunk(table.column(name))
        if not pa.types.is_dictionary(array.type) or array.dictionary.null_count:
            array = (array.dictionary_decode() if pa.types.is_dictionary(array.type) else array).dictionary_encode()
        values = array.dictionary
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.cast(pa.large_string()).view(pa.large_binary())  # bytes compare as Spark compares strings
        encoded.append(pa.DictionaryArray.from_arrays(array.indices, values, safe=False))
        note_nulls(name, array)
    parts = [array.dictionary for array in encoded]
    if constants:
        kind = parts[0].type if parts else pa.large_binary()
        values = [value.encode() if isinstance(value, str) else value for _, value in constants]
        parts.append(from_binaries(values).cast(kind))
    universe = pc.unique(pa.chunked_array(parts))
    order = raw_values(pc.sort_indices(universe), np.uint64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    for name, array in zip(names, encoded, strict=True):
        lanes.at[name] = row = lanes.next_int()
        lookup = np.zeros(1, np.int64)
        if len(array.dictionary):
            lookup = ranks[raw_values(pc.index_in(array.dictionary, universe), np.int32)]
        indices = array.indices if array.null_count == 0 else array.indices.fill_null(0)
        lanes.ints[row] = lookup[numbers(indices)]
    if constants:
        places = ranks[raw_values(pc.index_in(parts[-1], universe), np.int32)]
        for constant, place in zip(constants, places, strict=True):
            lanes.ranks[constant] = int(place)
    return universe, order
