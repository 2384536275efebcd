"""What a slice is fed after packing: its own rows and its overlap, whatever the tasks and chunks of rows."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.matchers.columns import concat, key_hashes
from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.slices.keys import SlicedKey, SlicedKeys
from episode.matchers.slices.routing import trim_to_slice
from episode.matchers.slices.slicing import Overlap, bounds_between
from tests.support.slices import fed_rows

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
SHARDS = 3

rows = st.lists(
    st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(-4, 20)), st.sampled_from("xyz")), max_size=40
)
overlaps = st.builds(Overlap, st.integers(0, 6), st.integers(0, 4), st.integers(0, 6), st.integers(0, 4))
cut_lists = st.lists(st.integers(-6, 22), max_size=5, unique=True).map(sorted)
orders = st.sampled_from(
    [
        (OrderKey("t"),),
        (OrderKey("t"), OrderKey("s", ascending=False)),
        (OrderKey("t", ascending=False, nulls_first=False), OrderKey("s")),
    ]
)


def table_of(given: list[tuple[int, int | None, str]]) -> pa.Table:
    keys, times, texts = zip(*given, strict=True) if given else ((), (), ())
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "t": pa.array(times, pa.int64()),
            "s": pa.array(texts, pa.string()),
            "row": pa.array(range(len(given)), pa.int64()),
        }
    )


@SETTINGS
@given(
    rows, overlaps, cut_lists, cut_lists, orders, st.booleans(), st.lists(st.integers(0, 40), max_size=3),
    st.integers(30, 2000), st.sampled_from([0, 100, 10_000]),
)  # fmt: skip
def test_slices_are_fed_their_rows_and_overlaps(
    given: list[tuple[int, int | None, str]],
    overlap: Overlap,
    first_cuts: list[int],
    second_cuts: list[int],
    order: tuple[OrderKey, ...],
    keyed: bool,
    splits: list[int],
    flush_bytes: int,
    hold_bytes: int,
) -> None:
    table = table_of(given)
    input_order = InputOrder(("k",) if keyed else (), order)
    if keyed:
        hashes = {key: int(key_hashes(pa.table({"k": [key]}), ("k",))[0]) for key in (0, 1)}
        cut = [SlicedKey(hashes[0], tuple(first_cuts)), SlicedKey(hashes[1], tuple(second_cuts))]
        keys = tuple(sorted(cut, key=lambda key: key.hash))
    else:
        hashes = {0: 0}
        keys = (SlicedKey(0, tuple(first_cuts)),)
    sliced = SlicedKeys(keys, overlap, first=SHARDS if keyed else 0)
    packing = Packing(input_order, SHARDS if keyed else 1, flush_bytes, sliced=sliced)

    found = by_unit(table, packing, splits)
    for unit, tables in found.items():
        part = sliced.slice_of(unit)
        if part is None:
            assert {row["k"] for one in tables for row in one.to_pylist()} <= {2}
        else:
            fed = list(trim_to_slice(tables, input_order, part.bounds, overlap, hold_bytes))
            assert in_order(concat(fed), input_order) == expected(
                table, input_order, keys[part.key], hashes, part.number, overlap
            )
    owned = [place for place, key in enumerate(keys) for _ in range(key.slices)]
    for number, place in enumerate(owned):
        part = sliced.slice_of(sliced.first + number)
        assert part is not None
        assert part.key == place
        if sliced.first + number not in found:
            assert not expected(table, input_order, keys[place], hashes, part.number, overlap)


def by_unit(table: pa.Table, packing: Packing, splits: list[int]) -> dict[int, list[pa.Table]]:
    """The envelopes of several tasks, each with a part of the rows, sorted as Spark does."""
    places = [0, *sorted(min(split, len(table)) for split in splits), len(table)]
    envelopes = []
    for task, (begin, end) in enumerate(pairwise(places)):
        for batch in pack([table.slice(begin, end - begin)], packing, task):
            opened = [rows for _, rows in unpack([batch])]
            envelopes += list(
                zip(batch.column("shard").to_pylist(), batch.column("origin").to_pylist(), opened, strict=True)
            )
    envelopes.sort(key=lambda envelope: envelope[:2])
    return {unit: [rows for _, _, rows in group] for unit, group in groupby(envelopes, key=lambda one: one[0])}


def in_order(table: pa.Table, input_order: InputOrder) -> list[int]:
    """The numbers of rows, in the order in which a matcher sees them."""
    return events_of(table, input_order, KeyCoder(input_order.keys)).table.column("row").to_pylist()


def expected(
    table: pa.Table,
    input_order: InputOrder,
    key: SlicedKey,
    hashes: dict[int, int],
    number: int,
    overlap: Overlap,
) -> list[int]:
    """The rows of a key, sorted whole, of which a slice takes a stretch."""
    if input_order.keys:
        wanted = next(value for value, hashed in hashes.items() if hashed == key.hash)
        table = table.filter(pa.array(np.array(table.column("k").to_pylist(), np.int64) == wanted))
    if not len(table):
        return []
    ordered = events_of(table, input_order, KeyCoder(input_order.keys)).table
    times = order_image(ordered, input_order.order[0]).time()
    begin, end = fed_rows(times, bounds_between(key.cuts)[number], overlap)
    return ordered.column("row").to_pylist()[begin:end]
