"""Envelopes without Spark: what is packed comes out, every key in one shard, in order of arrival."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.columns import concat
from episode.matchers.envelope import Packing, group_shards, pack, unpack
from episode.matchers.protocol import InputOrder, OrderKey

INT64 = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
INT16 = st.none() | st.integers(-(2**15), 2**15 - 1)
ROW = st.tuples(INT64, INT16, INT64, st.none() | st.text(max_size=3), st.none() | st.booleans())
TYPES = (pa.int64(), pa.int16(), pa.timestamp("us", "UTC"), pa.string(), pa.bool_())
BY_KEY = InputOrder(("a",), (OrderKey("c"),))


def through(tables, packing):
    """(shard, rows) of each envelope, sorted as Spark sorts them."""
    batches = list(pack(tables, packing, 3))
    envelopes = pa.Table.from_batches(batches).sort_by([("shard", "ascending"), ("origin", "ascending")])
    return list(unpack(envelopes.to_batches())), envelopes


def table_of(rows):
    columns = list(zip(*rows, strict=True)) or [()] * 5
    raw = [pa.array(c, pa.int64() if pa.types.is_timestamp(t) else t) for c, t in zip(columns, TYPES, strict=True)]
    return pa.table({name: c.cast(t) for name, c, t in zip("abcde", raw, TYPES, strict=True)})


@given(st.lists(ROW, min_size=1, max_size=60), st.integers(1, 5), st.sampled_from([40, 500, 10**6]), st.booleans())
def test_rows_survive_and_keys_stay_together(rows, shards, flush, keyed):
    table = table_of(rows).append_column("at", pa.array(np.arange(len(rows))))
    order = BY_KEY if keyed else InputOrder((), ())
    found, _ = through([table], Packing(order, shards if keyed else 1, flush))
    assert all(piece.schema.equals(table.schema) for _, piece in found)
    merged = pa.concat_tables([piece for _, piece in found])
    assert merged.sort_by("at").cast(table.schema).equals(table.combine_chunks())
    shard_of = {}
    for shard, piece in found:
        assert 0 <= shard < shards
        for key in piece["a"].to_pylist():
            assert shard_of.setdefault(key, shard) == shard
    for shard in set(shard_of.values()):
        at = [row for number, piece in found if number == shard for row in piece["at"].to_pylist()]
        assert at == sorted(at)


def test_envelopes_say_when_their_events_are():
    table = pa.table({"a": [1, 2, 1, 2], "c": pa.array([5, 7, 3, 9], pa.timestamp("us"))})
    found, envelopes = through([table], Packing(BY_KEY, 1000))
    spans = zip(envelopes["first_time"].to_pylist(), envelopes["last_time"].to_pylist(), strict=True)
    assert sorted(spans) == [(3, 5), (7, 9)]
    assert envelopes["origin"].to_pylist() == [3 << 32] * 2
    assert [len(piece) for _, piece in found] == [2, 2]


@pytest.mark.parametrize("order", [InputOrder(("a",), ()), InputOrder(("a",), (OrderKey("s"),))])
def test_without_a_lasting_order_there_is_no_span(order):
    _, envelopes = through([pa.table({"a": [1], "s": ["x"]})], Packing(order, 2))
    assert envelopes["first_time"].to_pylist() == envelopes["last_time"].to_pylist() == [None]


def test_every_type_travels():
    table = pa.table(
        {
            "a": pa.array([10**12, 10**12 + 7]),
            "small": pa.array([-1, None], pa.int8()),
            "date": pa.array([datetime.date(2024, 1, 1), None]),
            "duration": pa.array([datetime.timedelta(days=-1), datetime.timedelta(days=1)], pa.duration("us")),
            "time": pa.array([datetime.time(1, 2, 3), None], pa.time64("ns")),
            "decimal": pa.array([Decimal("1.5"), None], pa.decimal128(10, 2)),
            "double": [float("nan"), -0.0],
            "binary": [b"", None],
            "list": [[1, None], None],
            "struct": [{"x": 1}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "void": pa.nulls(2),
            "nothing": pa.nulls(2, pa.int32()),
        }
    )
    found, _ = through([table], Packing(InputOrder(("a",), ()), 4))
    merged = pa.concat_tables([piece for _, piece in found]).sort_by("a") if len(found) > 1 else found[0][1]
    assert merged.schema.equals(table.schema)
    assert repr(merged.to_pylist()) == repr(table.to_pylist())


@pytest.mark.parametrize("distinct", [3, 200, 40_000])
def test_dictionaries_travel_while_they_are_small(distinct):
    rows = 50_000
    strings = pa.array([f"s{i}" for i in range(distinct)] + [None])
    table = pa.table({"k": strings.take(pa.array(np.arange(rows) % (distinct + 1))), "at": np.arange(rows)})
    encoded = table.set_column(0, "k", table["k"].dictionary_encode())
    found, _ = through([encoded.slice(0, 30_000), encoded.slice(30_000)], Packing(InputOrder(("k",), ()), 8))
    kinds = {piece.schema.field("k").type for _, piece in found}
    assert kinds == ({pa.string()} if distinct == 40_000 else {pa.dictionary(pa.int32(), pa.string())})
    assert concat([piece for _, piece in found]).sort_by("at").cast(table.schema).to_pylist() == table.to_pylist()


def test_small_shards_are_grouped_and_never_cut():
    pieces = [(shard, pa.table({"v": np.arange(10)})) for shard in (0, 0, 1, 2, 2, 2, 3)]
    groups = [[len(table) for table in group] for group in group_shards(pieces, 200)]
    assert groups == [[10, 10, 10], [10, 10, 10], [10]]
    assert [len(list(group)) for group in group_shards(pieces, 1)] == [2, 1, 3, 1]
    assert list(group_shards([], 1)) == []
