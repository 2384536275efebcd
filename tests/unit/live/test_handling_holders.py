"""Holds events between the input and the matching loop of a live task: batches joined, and limits kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from episode.live.input_source import HeldCount, InputHolder
from episode.live.protocol import InputBatch
from tests.unit.live.scripted import numbers


def events(first: int, end: int, *, reached: bool = True, source: int = 0, barrier: bool = False) -> InputBatch:
    late_by = np.full(end - first, first - 1) if reached else None
    return InputBatch(pa.table({"n": np.arange(first, end)}), {"s": end}, end, float(end), late_by, source, barrier)


def test_slices_are_joined_up_to_a_number_of_events() -> None:
    holder = InputHolder()
    for first in range(0, 50, 10):
        holder.put(events(first, first + 10))
    found = holder.take(35)
    assert found is not None
    assert numbers([found]) == list(range(30))
    assert (found.after, found.watermark, found.appended) == ({"s": 30}, 30, 10.0)
    assert found.reached is not None
    assert found.reached.tolist() == [-1] * 10 + [9] * 10 + [19] * 10
    assert (holder.waiting, holder.taken, holder.events) == (20, 30, 50)


def test_a_slice_that_is_too_large_comes_alone() -> None:
    holder = InputHolder()
    holder.put(events(0, 10))
    holder.put(events(10, 11))
    found = holder.take(5)
    assert found is not None
    assert found.rows == 10


def test_what_was_taken_is_done_when_more_is_asked_for() -> None:
    holder = InputHolder()
    holder.put(events(0, 10))
    assert holder.take(5) is not None
    assert holder.events == 10
    assert holder.take(5) is None
    assert holder.events == 0


def test_slices_are_not_joined_where_that_would_change_what_is_late() -> None:
    holder = InputHolder()
    for batch in (events(0, 5, reached=False), events(5, 9, reached=False), events(9, 10)):
        holder.put(batch)
    assert [holder.take(100).rows for _ in range(3)] == [5, 4, 1]  # type: ignore[union-attr]


def test_slices_of_two_streams_are_not_joined() -> None:
    holder = InputHolder()
    holder.put(events(0, 5))
    holder.put(events(5, 9, source=1))
    assert [holder.take(100).rows for _ in range(2)] == [5, 4]  # type: ignore[union-attr]


def test_nothing_is_joined_after_a_barrier() -> None:
    holder = InputHolder()
    holder.put(events(0, 5))
    holder.put(events(5, 7, barrier=True))
    holder.put(events(7, 9))
    first = holder.take(100)
    assert first is not None
    assert (first.rows, first.barrier) == (7, True)


def test_time_that_goes_on_takes_no_room() -> None:
    holder = InputHolder()
    holder.put(events(0, 5))
    for end in range(6, 1000):
        holder.put(
            InputBatch(pa.table({"n": pa.array([], pa.int64())}), {"s": end}, end, float(end), np.zeros(0, np.int64))
        )
    found = holder.take(100)
    assert found is not None
    assert (found.rows, found.after, found.watermark, found.appended) == (5, {"s": 999}, 999, 5.0)
    assert not holder


def test_time_that_goes_on_first_is_a_slice_of_its_own() -> None:
    holder = InputHolder()
    holder.put(events(5, 5))
    found = holder.take(100)
    assert found is not None
    assert (found.rows, found.watermark) == (0, 5)


def test_the_average_counts_what_is_held_with_each_event() -> None:
    held = HeldCount()
    held.note(10, 10)
    held.note(30, 50)
    held.note(0, 70)
    assert (held.average, held.most) == ((10 * 10 + 30 * 50) / 40, 70)
    assert HeldCount().average == 0
