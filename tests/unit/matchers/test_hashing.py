"""Hashes: the same in every release, for every way a key may be stored, and evenly spread."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.matchers import hashing
from episode.matchers.columns import key_hashes
from episode.native.ir import I32, I64
from tests.unit.native.runs import run_all_ways

MASK = 2**64 - 1
NOTHING = np.empty(0, np.bool_)


def mix(x):
    x = ((x ^ (x >> 33)) * 0xFF51AFD7ED558CCD) & MASK
    x = ((x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53) & MASK
    return x ^ (x >> 33)


def naive_bytes(value):
    result = (len(value) * 0x9E3779B97F4A7C15) & MASK
    whole = len(value) // 8 * 8
    for at in range(0, whole, 8):
        result = mix(result ^ int.from_bytes(value[at : at + 8], "little"))
    return result ^ int.from_bytes(value[whole:], "little")


def naive(columns, row):
    result = 0x243F6A8885A308D3
    for column in columns:
        value = column[row]
        if value is None:
            word = 0xD1B54A32D192ED03
        elif isinstance(value, bytes):
            word = naive_bytes(value)
        else:
            word = value & MASK
        result = mix((result * 0x9E3779B97F4A7C15 + word) & MASK)
    return result


def hashes(**columns):
    return key_hashes(pa.table(columns), tuple(columns)).tolist()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(max_size=30)), min_size=1)
)
def test_hashes_equal_the_naive_ones(rows):
    columns = [list(column) for column in zip(*rows, strict=True)]
    found = hashes(a=pa.array(columns[0], pa.int64()), b=pa.array(columns[1], pa.binary()))
    assert found == [naive(columns, i) for i in range(len(rows))]


def test_hashes_are_those_of_the_first_release():
    assert hashes(k=pa.array([0, 1, None])) == [naive([[0, 1, None]], i) for i in range(3)]
    assert hashing.shards_of(np.array(hashes(k=["AAPL", "IBM", "MSFT", ""]), np.uint64), 1000).tolist() == SHARDS


SHARDS = [270, 275, 756, 134]


def test_the_width_of_a_type_does_not_matter():
    wide = hashes(k=pa.array([-1, 5, None], pa.int64()))
    assert all(hashes(k=pa.array([-1, 5, None], kind)) == wide for kind in (pa.int8(), pa.int16(), pa.int32()))
    text = hashes(k=["a", "", None, "longer than eight"])
    for kind in (pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()):
        assert hashes(k=pa.array(["a", "", None, "longer than eight"]).cast(kind)) == text
    assert hashes(k=pa.array(["a", "", None, "longer than eight"]).dictionary_encode()) == text
    assert hashes(k=pa.array([None, None], pa.string()).dictionary_encode()) == [text[2]] * 2


def test_slices_and_chunks_hash_like_whole_columns():
    column = pa.array(["x", None, "yy", "zzz", "x" * 100])
    whole = hashes(k=column)
    assert hashes(k=column.slice(2)) == whole[2:]
    assert hashes(k=pa.chunked_array([column.slice(0, 2), column.slice(2)])) == whole


def test_equal_floats_hash_equal():
    nans = np.array([0x7FF8000000000000, 0x7FF0000000000001, -1], np.int64).view(np.float64)
    found = hashes(k=pa.array(np.concatenate([[0.0, -0.0], nans])))
    assert found[0] == found[1]
    assert found[2] == found[3] == found[4] != found[0]


def test_shards_are_evenly_used():
    shards = hashing.shards_of(np.array(hashes(k=np.arange(100_000)), np.uint64), 64)
    counts = np.bincount(shards, minlength=64)
    assert counts.min() > 1300
    assert counts.max() < 1850


def test_salts_are_unrelated():
    table = pa.table({"k": np.arange(10_000)})
    first = hashing.shards_of(key_hashes(table, ("k",)), 16)
    second = hashing.shards_of(key_hashes(table, ("k",), salt=1), 16)
    counts = np.bincount(second[first == 3], minlength=16)
    assert counts.min() > 15


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.binary(max_size=20)), max_size=8),
    st.sampled_from([(np.int32, I32), (np.int64, I64)]),
)
def test_the_code_does_the_same_in_all_ways(rows, kinds):
    dtype, type_ = kinds
    numbers, texts = [[row[at] for row in rows] for at in (0, 1)]
    before = hashing.start(len(rows))
    values = np.array([one or 0 for one in numbers], np.int64)
    valid = np.array([one is not None for one in numbers], np.uint8)
    _, (found, *_) = run_all_ways(hashing.numbers_program(True), [before, values, valid])
    assert found.tolist() == [naive([numbers], i) for i in range(len(rows))]
    offsets = np.cumsum([0, *(len(one or b"") for one in texts)]).astype(dtype)
    data = np.frombuffer(b"".join(one or b"" for one in texts), np.uint8)
    valid = np.array([one is not None for one in texts], np.uint8)
    _, (found, *_) = run_all_ways(hashing.bytes_program(True, type_), [before, offsets, data, valid])
    assert found.tolist() == [naive([texts], i) for i in range(len(rows))]
    _, (found, *_) = run_all_ways(hashing.bytes_program(False, type_), [before, offsets, data])
    assert found.tolist() == [naive([[one or b"" for one in texts]], i) for i in range(len(rows))]
    _, (words, *_) = run_all_ways(hashing.words_program(type_), [np.empty(len(rows), np.int64), offsets, data])
    assert words.view(np.uint64).tolist() == [naive_bytes(one or b"") for one in texts]
    _, (_, shards) = run_all_ways(hashing.shards_program(), [found, np.empty(len(rows), np.int32)], 7)
    assert shards.tolist() == [(one >> 32) * 7 >> 32 for one in found.tolist()]


@given(st.lists(st.floats(width=64) | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_floats_have_one_zero_and_one_nan(values):
    bits = np.array([np.float64(one).view(np.int64) if isinstance(one, float) else one for one in values], np.int64)
    floats = bits.view(np.float64).tolist()
    nan, found = np.float64("nan").view(np.int64), hashing.normalize_floats(bits)
    assert found.tolist() == [nan if v != v else 0 if v == 0 else b for v, b in zip(floats, bits.tolist(), strict=True)]
