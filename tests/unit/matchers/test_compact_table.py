"""Slim columns come back with the very same bits, and are as narrow as they should be."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.compact import compact_parts, compact_table, restore

CENTS = st.integers(-(10**7), 10**7).map(lambda cents: cents / 100)
DOUBLES = st.one_of(
    st.lists(CENTS, min_size=1),
    st.lists(st.none() | CENTS, min_size=1),
    st.lists(st.none() | st.floats(), min_size=1),
    st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan")]), min_size=1),
    st.lists(st.sampled_from([1e15, 2.0**52, 2.0**53, 0.1, 1e-7]), min_size=1),
)
UNITS = st.sampled_from([1, 1000, 10**6])
INTS = st.one_of(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1).map(sorted),
    st.tuples(st.lists(st.integers(0, 10**9), min_size=1).map(sorted), UNITS).map(lambda p: [v * p[1] for v in p[0]]),
    st.tuples(st.lists(st.none() | st.integers(-5, 5), min_size=1), UNITS).map(
        lambda p: [v if v is None else 7 + v * p[1] for v in p[0]]
    ),
)


def through(column: pa.Array, starts: list[int]) -> pa.Array:
    """A column compacted, cut into slices and restored."""
    compacted, firsts = compact_parts(compact_table(pa.table({"v": column})), np.array(starts))
    columns = [chunk.chunk(0) for chunk in compacted.table.columns]
    batch = pa.RecordBatch.from_arrays(columns, schema=compacted.schema())
    parts = []
    for i, first in enumerate(firsts):
        encoded = {key.encode(): value.encode() for key, value in first.items()}
        parts.append(restore(batch.slice(starts[i], starts[i + 1] - starts[i]), encoded))
    return pa.concat_tables(parts)["v"].combine_chunks()


def bits(column: pa.Array) -> list[int | None]:
    kind = f"int{column.type.bit_width}"
    values = np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]
    valid = column.is_valid().to_pylist()
    return [int(value) if ok else None for value, ok in zip(values, valid, strict=True)]


@given(DOUBLES, st.data())
def test_doubles_come_back_bit_by_bit(values, data):
    column = pa.array(values, pa.float64())
    cut = data.draw(st.integers(0, len(values)))
    starts = sorted({0, cut, len(values)})
    assert bits(through(column, starts)) == bits(column)


@given(INTS, st.data(), st.sampled_from([pa.int64(), pa.timestamp("us", "UTC"), pa.duration("us")]))
def test_integers_come_back(values, data, kind):
    column = pa.array(values, pa.int64()).cast(kind)
    starts = sorted({0, data.draw(st.integers(0, len(values))), len(values)})
    restored = through(column, starts)
    assert restored.type == kind
    assert bits(restored) == bits(column)


@given(st.lists(st.none() | st.integers(-(2**15), 2**15 - 1), min_size=1), st.sampled_from([pa.int16(), pa.int32()]))
def test_short_integers_come_back(values, kind):
    column = pa.array(values, kind)
    assert through(column, [0, len(values)]).equals(column)


@pytest.mark.parametrize(
    ("column", "width"),
    [
        (pa.array(np.arange(1000, dtype=np.int32) % 7), 8),
        (pa.array(np.arange(1000) % 300 + 10**15), 16),
        (pa.array(np.arange(1000) * 10**6, pa.timestamp("us")), 16),
        (pa.array(np.arange(100_000) * 10**6, pa.timestamp("us")), 8),
        (pa.array(np.arange(2000) * 3_000_001), 32),
        (pa.array(np.random.default_rng(1).integers(0, 2**60, 1000)), 64),
        (pa.array(np.arange(1000) % 250 / 100), 8),
        (pa.array(np.random.default_rng(1).integers(2000, 40000, 1000) / 100), 16),
        (pa.array(np.random.default_rng(1).random(1000)), 64),
        (pa.array(["a", "b"] * 500).dictionary_encode(), 8),
    ],
    ids=[
        "small",
        "far away",
        "seconds",
        "many seconds",
        "wide steps",
        "random",
        "few cents",
        "cents",
        "doubles",
        "codes",
    ],
)
def test_columns_are_as_narrow_as_their_values(column, width):
    compacted, _ = compact_parts(compact_table(pa.table({"v": column})), np.array([0, len(column)]))
    kind = compacted.table.schema.field("v").type
    assert (kind.index_type if pa.types.is_dictionary(kind) else kind).bit_width == width
