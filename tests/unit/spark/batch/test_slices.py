"""What explain says of slices: times as times, and long lists shortened."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey
from episode.matchers.slices.keys import SlicedKey, SlicedKeys
from episode.matchers.slices.slicing import Overlap
from episode.spark.batch.slices import slice_words, span_words, time_words

MOMENT = datetime(2026, 3, 2, 9, 30)


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (MOMENT, pa.timestamp("us", "UTC"), "2026-03-02 09:30:00 UTC"),
        (MOMENT, pa.timestamp("us"), "2026-03-02 09:30:00"),
        (MOMENT.date(), pa.date32(), "2026-03-02"),
        (-17, pa.int64(), "-17"),
        (2.5, pa.float64(), "2.5"),
        (-2.5, pa.float64(), "-2.5"),
        (Decimal("12.34"), pa.decimal128(10, 2), "12.34"),
    ],
)
def test_times_come_back_from_their_images(value: object, kind: pa.DataType, said: str, ascending: bool) -> None:
    order = OrderKey("t", ascending)
    image = int(order_image(pa.table({"t": pa.array([value], kind)}), order).time()[0])
    assert time_words(image, order, kind) == said


@pytest.mark.parametrize(
    ("span", "said"),
    [(60_000_000, "1 minute"), (7_200_000_000, "2 hours"), (90_000_000, "90 seconds"), (1_500, "0.0015 seconds")],
)
def test_lengths_of_time(span: int, said: str) -> None:
    assert span_words(span, pa.timestamp("us", "UTC")) == said
    assert span_words(span, pa.int64()) == f"{span:,}"


def test_many_cuts_and_many_keys_are_shortened() -> None:
    keys = tuple(SlicedKey(number, tuple(range(1, 9)), f"k = {number}", 0.1) for number in range(7))
    lines = slice_words(SlicedKeys(keys, Overlap(before_rows=1, after_time=5), 4), OrderKey("t"), pa.int64(), "seen")
    assert lines[0] == "slices: k = 0 (about 10% of the rows) in 9 slices of time, cut at 1, 2, 3, …, 8"
    assert lines[5] == "slices: 2 more keys, 63 slices in all"
    assert lines[6].startswith("overlap: a slice is matched with 1 row before it, 5 after it")
    assert lines[7] == "sketch: seen; by it, keys and cuts were chosen"


def test_without_an_overlap() -> None:
    sliced = SlicedKeys((SlicedKey(0, (5,)),), Overlap(), 0)
    lines = slice_words(sliced, OrderKey("t"), pa.int64(), "seen")
    assert lines[0] == "slices: all rows in 2 slices of time, cut at 5"
    assert lines[1].startswith("overlap: none")
