"""From a table in order of arrival to an EventBatch: rows grouped by key, each key's rows in the query's order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.columns import (
    ALL_VALID,
    FEW,
    decimal_low_words,
    fixed_values,
    float_bits,
    float_order,
    from_values,
    int64_values,
    is_integral,
    is_narrow_decimal,
    like,
    one_chunk,
    one_chunk_each,
    plain,
    ranks,
    take,
    valid_mask,
)
from episode.matchers.grouping import WIDTHS, Grouped, order_rows, spread
from episode.matchers.keys import KeyCoder
from episode.matchers.protocol import EventBatch, InputOrder, OrderKey
from episode.matchers.times import EVER, NEVER, microseconds_of

BATCH_ROWS = 1 << 19
"""Rows of a batch, unless a single key has more."""


@dataclass(frozen=True)
class OrderImage:
    """An order column as integers that grow along the order (DESC: the complement), with its nulls apart.

    is_column: the values are the column's own buffer.
    """

    values: np.ndarray
    valid: np.ndarray
    nulls_first: bool
    is_column: bool

    def rows(self) -> list[np.ndarray]:
        """Return the image as sort columns: the values, and before them the place of nulls if there are any."""
        if self.valid is ALL_VALID:
            return [self.values]
        place = self.valid if self.nulls_first else ~self.valid
        return [place.astype(np.int64), np.where(self.valid, self.values, 0)]

    def time(self) -> np.ndarray:
        """Return one integer for each row; nulls are the smallest or the largest of all."""
        if self.valid is ALL_VALID:
            return self.values
        return np.where(self.valid, self.values, NEVER if self.nulls_first else EVER)


def order_image(table: pa.Table, order: OrderKey) -> OrderImage:
    """Return the image of one order column."""
    array = one_chunk(table.column(order.column))
    values = _ascending(array, order.column)
    valid = valid_mask(array)
    is_column = order.ascending and valid is ALL_VALID and not values.flags.owndata  # a view of the column
    return OrderImage(values if order.ascending else ~values, valid, order.nulls_first, is_column)


def has_lasting_image(kind: pa.DataType) -> bool:
    """Whether images of this type compare across batches; ranks (strings, wide decimals) do not."""
    return is_integral(kind) or pa.types.is_floating(kind) or is_narrow_decimal(kind)


def _ascending(array: pa.Array, name: str) -> np.ndarray:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _ascending(array.dictionary_decode(), name)
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return microseconds_of(int64_values(array), kind)
    if pa.types.is_floating(kind):
        return float_order(float_bits(array))
    if is_narrow_decimal(kind):
        return decimal_low_words(array)
    if is_integral(kind):
        return int64_values(array)
    if pa.types.is_decimal(kind) or any(test(kind) for test in _BYTES):
        return ranks(array)
    raise EpisodeUnsupportedError(
        f"rows cannot be ordered by column {name} of type {kind}", hint="ORDER BY columns of atomic types."
    )


_BYTES = (
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_large_string,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
)


def events_of(
    table: pa.Table, input_order: InputOrder, coder: KeyCoder, dictionaries: bool = False
) -> EventBatch:  # fmt: skip
    """Group and order the rows of one batch, which come in order of arrival. dictionaries: whether columns keep theirs.

    Time never decreases within a key: under DESC it is the complement (~value) of the column's image.
    """
    (events,) = event_batches(table, input_order, coder, dictionaries, max(1, table.num_rows))
    return events


def event_batches(
    table: pa.Table, input_order: InputOrder, coder: KeyCoder, dictionaries: bool = False, rows: int = BATCH_ROWS
) -> Iterator[EventBatch]:  # fmt: skip
    """Group and order rows as `events_of` does, in batches of whole keys: about `rows` rows each, at least one batch.

    The arrays of a small batch stay in the processor's caches, and their memory is used again for the next one.
    """
    table = one_chunk_each(table)
    images = [order_image(table, key) for key in input_order.order]
    time = _times(images[0], input_order) if images else np.zeros(table.num_rows, np.int64)
    if input_order.start is not None:
        _check_starts(table, time, input_order)
    stacked = _stack([row for image in images for row in image.rows()], table.num_rows)
    keys = coder.encode(table)
    grouped = order_rows(keys.local, keys.count, stacked)
    starts = np.searchsorted(keys.local, np.arange(keys.count + 1)) if grouped is None else grouped.starts
    batch_of = table.slice if grouped is None else _Gathering(table, keys.local, grouped).slice
    for first, last in _ranges_of_keys(starts, rows):
        begin, end = starts[first], starts[last]
        batch = batch_of(begin, end - begin)
        if grouped is None:
            its_time = time[begin:end]
        elif images and images[0].is_column:
            its_time = order_image(batch, input_order.order[0]).values
        else:
            its_time = time.take(grouped.order[begin:end])
        key = np.repeat(keys.code[first:last], np.diff(starts[first : last + 1]))
        yield EventBatch(plain(batch, only_with_nulls=dictionaries), key, its_time)


class _Gathering:
    """Rows of a table by key: columns that can be spread are gathered at once, others when read."""

    def __init__(self, table: pa.Table, codes: np.ndarray, grouped: Grouped) -> None:
        self.table, self.order = table, grouped.order
        self.spread: dict[str, pa.Array] = {}
        if grouped.as_arrived and table.num_rows > FEW:
            for field, column in zip(table.schema, table.columns):
                values = fixed_values(column.chunk(0))
                if values is not None and values.dtype.itemsize in WIDTHS:
                    self.spread[field.name] = from_values(field.type, spread(codes, grouped.starts, values))
        self.others = table.drop_columns(list(self.spread))

    def slice(self, begin: int, length: int) -> pa.Table:
        others = take(self.others, self.order[begin : begin + length])
        if not self.spread:
            return others
        columns = [
            self.spread[name].slice(begin, length) if name in self.spread else others.column(name)
            for name in self.table.column_names
        ]
        return like(self.table, columns)


def _ranges_of_keys(starts: np.ndarray, rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of keys with about `rows` rows each; at least one range."""
    first, keys = 0, len(starts) - 1
    while True:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + rows, "right")) - 1)
        yield first, min(last, keys)
        if last >= keys:
            return
        first = last


def _stack(rows: list[np.ndarray], n: int) -> np.ndarray:
    """Return int64[k, n], without copying a single row."""
    if len(rows) == 1:
        return np.ascontiguousarray(rows[0])[np.newaxis, :]
    return np.stack(rows) if rows else np.empty((0, n), np.int64)


def times_of(table: pa.Table, input_order: InputOrder) -> np.ndarray:
    """Return the rows' times (int64), in order of arrival."""
    return _times(order_image(table, input_order.order[0]), input_order)


def _times(image: OrderImage, input_order: InputOrder) -> np.ndarray:
    if input_order.needs_time and image.valid is not ALL_VALID:
        name = input_order.order[0].column
        nulls = len(image.valid) - int(np.count_nonzero(image.valid))
        raise EpisodeDataError(
            f"{nulls:,} of the {len(image.valid):,} rows of a shard have no event time: column {name} is null",
            hint=f"Leave such rows out: WHERE {name} IS NOT NULL.",
        )
    return image.time()


def start_image(table: pa.Table, input_order: InputOrder) -> OrderImage | None:
    """Return the starts of events that last; None if events have one time."""
    return None if input_order.start is None else order_image(table, OrderKey(input_order.start))


def _check_starts(table: pa.Table, time: np.ndarray, input_order: InputOrder) -> None:
    image = start_image(table, input_order)
    assert image is not None
    start, end, width = input_order.start, input_order.order[0].column, input_order.width
    wrong = np.flatnonzero(image.values > time) if image.valid is ALL_VALID else np.flatnonzero(~image.valid)
    wide = False
    if len(wrong) == 0 and width is not None:
        wide, wrong = True, np.flatnonzero(is_too_wide(image.values, time, width))
    if len(wrong) == 0:
        return
    first, last = (table.column(name)[int(wrong[0])].as_py() for name in (start, end))
    if image.valid is not ALL_VALID:
        reason = f"have no start: column {start} is null"
        if input_order.imprecise:
            reason = f"have no earliest time: column {start} is null, in one of them with {end} {last}"
        hint = f"Leave such rows out (WHERE {start} IS NOT NULL), or take them as instants: coalesce({start}, {end})."
    elif wide:
        reason = "have times that are further apart than the WIDTH of the query, "
        reason += f"one of them {start} {first} and {end} {last}"
        hint = "Give a larger WIDTH, or leave such rows out."
    elif input_order.imprecise:
        reason = f"have an earliest time after the latest, one of them with {start} {first} and {end} {last}"
        hint = f"The time of an event lies between {start} and {end}. Leave such rows out: WHERE {start} <= {end}."
    else:
        reason = f"start after their end, one of them with {start} {first} and {end} {last}"
        hint = f"time= is the end of an event, start= its start. Leave such rows out: WHERE {start} <= {end}."
    raise EpisodeDataError(f"{len(wrong):,} of the {table.num_rows:,} rows of a shard {reason}", hint=hint)


def is_too_wide(start: np.ndarray, end: np.ndarray, width: int) -> np.ndarray:
    """Whether an event's times, which are in order, are further apart than this."""
    return end.view(np.uint64) - start.view(np.uint64) > np.uint64(width)
