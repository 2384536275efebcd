"""Order images against Python's comparison under Spark's rules; events grouped and ordered."""

import datetime
import itertools
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.matchers import ordering
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import event_batches, events_of, has_lasting_image, order_image
from episode.matchers.protocol import InputOrder, OrderKey

UTC = datetime.timezone.utc
ASCENDING_VALUES = {
    pa.bool_(): [False, True],
    pa.int8(): [-128, 0, 127],
    pa.int32(): [-(2**31), -1, 0, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.float32(): [float("-inf"), -1.5, 0.0, 1e-30, float("inf"), float("nan")],
    pa.float64(): [float("-inf"), -1e300, -1e-300, 0.0, 5e-324, 2.0, float("inf"), float("nan")],
    pa.decimal128(18, 3): [Decimal("-999999999999999.999"), Decimal("-0.001"), Decimal(0), Decimal("12.5")],
    pa.decimal128(38, 2): [Decimal("-1e30"), Decimal("-0.01"), Decimal("2"), Decimal("10"), Decimal("1e30")],
    pa.string(): ["", "A", "B", "a", "ab", "é", "😀"],
    pa.binary(): [b"", b"\x00", b"\x7f", b"\x80", b"\xff\x00"],
    pa.date32(): [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)],
    pa.timestamp("us"): [datetime.datetime(1, 1, 1), datetime.datetime(1970, 1, 1), datetime.datetime(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime.datetime(1950, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 1, tzinfo=UTC)],
    pa.duration("us"): [datetime.timedelta(-1), datetime.timedelta(0), datetime.timedelta(microseconds=1)],
    pa.time64("ns"): [datetime.time(0), datetime.time(23, 59, 59, 999999)],
}


@pytest.mark.parametrize("kind", ASCENDING_VALUES, ids=str)
@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
def test_every_atomic_type_is_ordered_as_spark_orders_it(kind, ascending, nulls_first):
    values = ASCENDING_VALUES[kind]
    expected = values if ascending else values[::-1]
    expected = [None, None, *expected] if nulls_first else [*expected, None, None]
    mixed = expected[1::2] + expected[0::2]
    table = pa.table({"v": pa.array(mixed, kind), "at": np.arange(len(mixed))})
    order = InputOrder((), (OrderKey("v", ascending, nulls_first),))
    events = events_of(table, order, KeyCoder(()))
    assert repr(events.table["v"].to_pylist()) == repr(pa.array(expected, kind).to_pylist())
    assert (events.time[1:] >= events.time[:-1]).all()
    assert all(column.num_chunks == 1 for column in events.table.columns)


def test_images_of_times_are_microseconds():
    def image(values, kind):
        return order_image(pa.table({"t": pa.array(values, kind)}), OrderKey("t")).values.tolist()

    assert image([datetime.date(1970, 1, 2), datetime.date(1969, 12, 31)], pa.date32()) == [86400000000, -86400000000]
    assert image([1, -1], pa.timestamp("s")) == [1000000, -1000000]
    assert image([1, -1], pa.timestamp("ms", "UTC")) == [1000, -1000]
    assert image([1999, -1], pa.timestamp("ns")) == [1, -1]
    assert image([7], pa.timestamp("us")) == [7]
    assert image([-7], pa.int16()) == [-7]


def test_zeros_are_equal_and_arrival_decides():
    table = pa.table({"v": [0.0, -0.0, 0.0], "at": [1, 2, 3]})
    assert events_of(table, InputOrder((), (OrderKey("v"),)), KeyCoder(())).table["at"].to_pylist() == [1, 2, 3]


def test_time_under_descending_order_grows_along_the_order():
    table = pa.table({"t": [1, 3, 2]})
    events = events_of(table, InputOrder((), (OrderKey("t", ascending=False),)), KeyCoder(()))
    assert events.table["t"].to_pylist() == [3, 2, 1]
    assert events.time.tolist() == [~3, ~2, ~1]


CELL = st.none() | st.integers(-2, 2)
FLAGS = st.tuples(st.booleans(), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELL, CELL, CELL), max_size=40), st.lists(FLAGS, min_size=0, max_size=2))
def test_events_are_grouped_by_key_and_sorted_within(rows, flags):
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    table = pa.table({name: pa.array(c, pa.int64()) for name, c in zip("kab", columns, strict=True)})
    table = table.append_column("at", pa.array(np.arange(len(rows))))
    keys = tuple(OrderKey(name, *flag) for name, flag in zip("ab", flags, strict=False))
    events = events_of(table, InputOrder(("k",), keys), KeyCoder(("k",)))
    found = events.table.to_pylist()

    def rank(row):
        result = []
        for key in keys:
            value = row[key.column]
            result.append((value is None) != key.nulls_first)
            result.append(0 if value is None else value if key.ascending else -value)
        return (*result, row["at"])

    groups = {}
    for row in sorted(table.to_pylist(), key=rank):
        groups.setdefault(row["k"], []).append(row)
    seen = list(dict.fromkeys(row["k"] for row in found))
    assert found == [row for key in seen for row in groups[key]]
    assert len(set(zip(events.key.tolist(), (row["k"] for row in found), strict=True))) == len(groups)
    same_key = events.key[1:] == events.key[:-1]
    assert (events.time[1:] >= events.time[:-1])[same_key].all()


def test_sorted_input_is_not_copied():
    table = pa.table({"k": [1, 1, 2], "t": [1, 2, 1]})
    events = events_of(table, InputOrder(("k",), (OrderKey("t"),)), KeyCoder(("k",)))
    assert events.table["t"].chunk(0).buffers()[1].address == table["t"].chunk(0).buffers()[1].address
    assert events.time.tolist() == [1, 2, 1]


def test_without_order_rows_keep_their_arrival_and_have_time_zero():
    table = pa.table({"k": ["b", "a", "b"], "at": [1, 2, 3]})
    events = events_of(table, InputOrder(("k",), ()), KeyCoder(("k",)))
    assert events.table["at"].to_pylist() == [1, 3, 2]
    assert events.time.tolist() == [0, 0, 0]


def test_a_null_event_time_is_an_error_with_column_and_count():
    table = pa.table({"ts": [1, None, None]})
    order = InputOrder((), (OrderKey("ts"),), needs_time=True)
    with pytest.raises(EpisodeDataError, match=r"2 of the 3 rows of a shard have no event time: column ts is null"):
        events_of(table, order, KeyCoder(()))


def test_a_start_that_is_null_or_after_the_end_is_an_error():
    order = InputOrder((), (OrderKey("te"),), needs_time=True, start="ts")
    ends = pa.array([datetime.date(2026, 3, 2)] * 3)
    fine = pa.array([datetime.date(2026, 3, 1)] * 2 + [datetime.date(2026, 3, 2)])
    assert len(events_of(pa.table({"ts": fine, "te": ends}), order, KeyCoder(()))) == 3
    null = pa.array([None, *fine[1:]], pa.date32())
    with pytest.raises(EpisodeDataError, match=r"1 of the 3 rows of a shard have no start: column ts is null"):
        events_of(pa.table({"ts": null, "te": ends}), order, KeyCoder(()))
    after = pa.array([fine[0].as_py(), datetime.date(2026, 3, 4), datetime.date(2026, 3, 5)])
    with pytest.raises(
        EpisodeDataError, match=r"2 of the 3 rows .* start after their end, .* ts 2026-03-04 and te 2026-03-02"
    ):
        events_of(pa.table({"ts": after, "te": ends}), order, KeyCoder(()))


def test_columns_of_all_kinds_are_carried_through():
    table = pa.table(
        {
            "t": [2, 1],
            "bool": [True, False],
            "nulls": pa.array([None, 1], pa.int32()),
            "list": [[1], [2, 3]],
            "struct": [{"a": 1}, None],
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "void": pa.nulls(2),
            "decimal": pa.array([Decimal(1), Decimal(2)], pa.decimal128(38, 0)),
        }
    )
    events = events_of(table, InputOrder((), (OrderKey("t"),)), KeyCoder(()))
    assert events.table.to_pylist() == table.to_pylist()[::-1]
    assert events.table.schema == table.schema


def test_dictionaries_become_plain():
    column = pa.chunked_array([pa.array(["b", None]).dictionary_encode(), pa.array(["a", "b"]).dictionary_encode()])
    table = pa.table({"s": column, "t": [4, 3, 2, 1]})
    for keys, order in [(("s",), "t"), ((), "s"), ((), "t")]:
        events = events_of(table, InputOrder(keys, (OrderKey(order),)), KeyCoder(keys))
        assert events.table.schema == pa.schema([("s", pa.string()), ("t", pa.int64())])
        assert sorted(events.table.to_pylist(), key=lambda row: -row["t"]) == table.to_pylist()
    assert events_of(table, InputOrder((), (OrderKey("s"),)), KeyCoder(())).table["t"].to_pylist() == [3, 2, 4, 1]


def test_ordering_by_nested_columns_is_refused():
    with pytest.raises(EpisodeUnsupportedError, match="column v"):
        order_image(pa.table({"v": [[1]]}), OrderKey("v"))


def test_ranks_do_not_last():
    assert has_lasting_image(pa.timestamp("us"))
    assert not has_lasting_image(pa.string())
    assert not has_lasting_image(pa.decimal128(38, 0))


@pytest.mark.parametrize("arrival", ["any", "by time", "by key and time"])
@pytest.mark.parametrize("rows", [1, 40, 1000])
def test_batches_of_whole_keys_are_the_events_in_pieces(rows, arrival, monkeypatch):
    monkeypatch.setattr(ordering, "FEW", 0)
    draw = np.random.default_rng(rows)
    n = 300
    key, ts = draw.integers(0, 12, n), draw.permutation(n)
    if arrival != "any":
        order = np.lexsort([ts] if arrival == "by time" else [ts, key])
        key, ts = key[order], ts[order]
    table = pa.table(
        {
            "key": key.astype(np.int32),
            "ts": ts,
            "value": draw.random(n),
            "small": pa.array(draw.integers(0, 99, n), pa.int16()),
            "name": pa.array([str(one) for one in ts]),
            "missing": pa.array([None if one % 3 else int(one) for one in ts], pa.int64()),
        }
    )
    table = pa.concat_tables([table.slice(0, 100), table.slice(100)])
    given = InputOrder(("key",), (OrderKey("ts"),))
    whole = events_of(table, given, KeyCoder(given.keys))
    pieces = list(event_batches(table, given, KeyCoder(given.keys), rows=rows))
    assert pa.concat_tables([piece.table for piece in pieces]).equals(whole.table)
    assert whole.table.equals(table.sort_by([("key", "ascending"), ("ts", "ascending")]))
    for name in ("key", "time"):
        assert np.concatenate([getattr(piece, name) for piece in pieces]).tolist() == getattr(whole, name).tolist()
    sizes = [len(piece) for piece in pieces]
    assert all(len(set(piece.key)) == 1 or len(piece) <= rows for piece in pieces)
    assert all(one + other > rows for one, other in itertools.pairwise(sizes))
    assert all(set(one.key).isdisjoint(other.key) for one, other in itertools.pairwise(pieces))
