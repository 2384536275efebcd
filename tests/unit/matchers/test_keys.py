"""Key codes: exact, and the same for a key in every batch."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.matchers.keys import KeyCoder
from episode.matchers.protocol import StateChunk

INTS = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.none() | st.text(max_size=3)
STRUCTS = st.none() | st.fixed_dictionaries({"x": INTS, "y": TEXTS})
STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
ROWS = st.lists(st.tuples(INTS, TEXTS, STRUCTS), max_size=30)


def table_of(rows):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.int64(), pa.string(), STRUCT)
    return pa.table({name: pa.array(c, t) for name, c, t in zip("abc", columns, types, strict=True)})


def codes(coder, table):
    keys = coder.encode(table)
    assert sorted(set(keys.local.tolist())) == list(range(keys.count)), "local codes are dense"
    return keys.code[keys.local].tolist()


def assert_one_code_for_each(values, found):
    assert len(set(zip(map(repr, values), found, strict=True))) == len(set(map(repr, values))) == len(set(found))


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=4), st.sampled_from([("a",), ("b",), ("c",), ("a", "b"), ("b", "c", "a")]))
def test_codes_are_exact_and_lasting_over_batches_and_snapshots(batches, keys):
    coder = KeyCoder(keys)
    values, found = [], []
    chunks: dict[str, StateChunk] = {"other": StateChunk("other", 1, b"")}
    for rows in batches:
        table = table_of(rows)
        found += codes(coder, table)
        values += list(zip(*(table.column(name).to_pylist() for name in keys), strict=True))
        restored = KeyCoder(keys)
        coder.snapshot().apply(chunks)
        restored.restore(list(chunks.values()))
        coder = restored
    assert_one_code_for_each(values, found)


ATOMIC = {
    pa.bool_(): [True, False, None],
    pa.int8(): [-128, 127, None],
    pa.int16(): [-(2**15), 0, None],
    pa.int32(): [-(2**31), 2**31 - 1, None],
    pa.int64(): [-(2**63), 2**63 - 1, None],
    pa.float32(): [0.5, float("inf"), None],
    pa.float64(): [1e300, -0.1, None],
    pa.decimal128(10, 2): [Decimal("1.25"), Decimal("-1.25"), None],
    pa.decimal128(38, 0): [Decimal(10**30), Decimal(10**30 + 1), None],
    pa.string(): ["", "é", None],
    pa.binary(): [b"", b"\x00", None],
    pa.date32(): [datetime.date(1900, 1, 1), datetime.date(2024, 2, 29), None],
    pa.timestamp("us"): [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 0, 1), None],
    pa.timestamp("us", "UTC"): [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), None],
    pa.duration("us"): [datetime.timedelta(0), datetime.timedelta(microseconds=1), None],
    pa.time64("ns"): [datetime.time(0), datetime.time(1), None],
    pa.null(): [None],
}


@pytest.mark.parametrize("kind", ATOMIC, ids=str)
def test_every_atomic_type_can_be_a_key(kind):
    values = ATOMIC[kind]
    table = pa.table({"k": pa.array(values * 3, kind)})
    assert_one_code_for_each(values * 3, codes(KeyCoder(("k",)), table))
    coder = KeyCoder(("k",))
    assert codes(coder, table.slice(1, 2)) + codes(coder, table.slice(3)) == codes(coder, table.slice(1))


def test_floats_have_one_zero_and_one_nan():
    nans = np.array([0x7FF8000000000000, 0x7FF0000000000001, -1], np.int64).view(np.float64)
    found = codes(KeyCoder(("k",)), pa.table({"k": np.concatenate([[0.0, -0.0], nans, [1.0]])}))
    assert found[0] == found[1]
    assert found[2] == found[3] == found[4]
    assert len(set(found)) == 3


def test_dictionaries_have_the_codes_of_their_strings():
    values = ["b", None, "a", "b", "c"]
    coder = KeyCoder(("k",))
    first = codes(coder, pa.table({"k": pa.array(values).dictionary_encode()}))
    assert codes(coder, pa.table({"k": values})) == first
    unused = pa.DictionaryArray.from_arrays(pa.array([2, 2, None]), pa.array(["x", "y", "a"]))
    assert codes(coder, pa.table({"k": unused})) == [first[2], first[2], first[1]]
    doubled = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "a"]))
    assert codes(coder, pa.table({"k": doubled})) == [first[2], first[2]]


def test_a_null_struct_is_not_a_struct_of_nulls():
    column = pa.array([None, {"x": None, "y": None}, None], STRUCT)
    found = codes(KeyCoder(("k",)), pa.table({"k": column}))
    assert found[0] == found[2] != found[1]


def test_without_keys_everything_is_one_key():
    keys = KeyCoder(()).encode(pa.table({"v": [1, 2, 3]}))
    assert keys.count == 1
    assert keys.local.tolist() == [0, 0, 0]


def test_many_wide_keys_of_two_columns():
    rng = np.random.default_rng(3)
    a, b = rng.integers(-(2**62), 2**62, 50_000), rng.integers(0, 2**40, 50_000)
    table = pa.table({"a": np.concatenate([a, a]), "b": np.concatenate([b, b])})
    keys = KeyCoder(("a", "b")).encode(table)
    assert keys.count == 50_000
    assert np.array_equal(keys.local[:50_000], keys.local[50_000:])


def test_forgotten_keys_give_their_codes_to_new_ones():
    coder = KeyCoder(("a", "b"))
    first = codes(coder, table_of([(1, "x", None), (2, "x", None), (3, "y", None)]))
    coder.keep(np.array(first[1:2]))
    again = codes(coder, table_of([(2, "x", None), (4, "z", None), (3, "y", None), (1, "x", None)]))
    assert again[0] == first[1]
    assert sorted(again) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())], ids=str)
def test_arrays_and_maps_are_refused_by_name(kind):
    table = pa.table({"k": pa.array([None], pa.struct([("inner", kind)]))})
    with pytest.raises(EpisodeUnsupportedError, match=r"column k\.inner"):
        KeyCoder(("k",)).encode(table)
