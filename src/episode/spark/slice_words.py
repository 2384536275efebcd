"""Slices of time in words, for explain."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import OrderKey
from episode.matchers.sliced_keys import SlicedKey, SlicedKeys
from episode.matchers.slicing import LAST_TIME, Overlap
from episode.words import count_of

_SHOWN_CUTS, _SHOWN_KEYS = 4, 5
_EPOCH = datetime(1970, 1, 1)
_UNITS = ((86_400_000_000, "day"), (3_600_000_000, "hour"), (60_000_000, "minute"), (1_000_000, "second"))


def slice_words(sliced: SlicedKeys, order: OrderKey, kind: pa.DataType, seen: str) -> list[str]:
    """Which keys are cut, into how many slices and where; what overlaps; and how it was found out."""
    lines = [f"slices: {_key_words(key, order, kind)}" for key in sliced.keys[:_SHOWN_KEYS]]
    if len(sliced.keys) > _SHOWN_KEYS:
        lines.append(f"slices: {len(sliced.keys) - _SHOWN_KEYS:,} more keys, {sliced.count:,} slices in all")
    lines.append(f"overlap: {_overlap_words(sliced.overlap, kind)}")
    lines.append(f"sketch: {seen}; by it, keys and cuts were chosen")
    return lines


def large_slice_words(size: float, budget: int, chained: bool) -> str:
    """What becomes of slices that are larger than what a task holds."""
    large, held = f"{size / 2**20:,.3g} MiB", f"{budget / 2**20:,.3g} MiB"
    how = "cut further by its task" if chained else "matched piece by piece"
    return f"memory: a slice has up to {large} of events, a task holds {held} at once: it is spilled, and {how}"


def _key_words(key: SlicedKey, order: OrderKey, kind: pa.DataType) -> str:
    cuts = [time_words(cut, order, kind) for cut in key.cuts]
    shown = cuts if len(cuts) <= _SHOWN_CUTS else [*cuts[: _SHOWN_CUTS - 1], "…", cuts[-1]]
    whole = f"{key.name} (about {key.share:.0%} of the rows)" if key.name else "all rows"
    return f"{whole} in {key.slices:,} slices of time, cut at {', '.join(shown)}"


def _overlap_words(overlap: Overlap, kind: pa.DataType) -> str:
    parts = []
    for time, rows, side in (
        (overlap.before_time, overlap.before_rows, "before"),
        (overlap.after_time, overlap.after_rows, "after"),
    ):
        found = [span_words(time, kind)] if time else []
        found += [count_of(rows, "row")] if rows else []
        if found:
            parts.append(f"{' and '.join(found)} {side} it")
    if not parts:
        return "none: matches of a slice depend on its own rows alone"
    return f"a slice is matched with {', '.join(parts)}: so far its matches may depend on rows of other slices"


def span_words(span: int, kind: pa.DataType) -> str:
    """A length of time; a number, where time is one."""
    if not pa.types.is_temporal(kind):
        return f"{span:,}"
    for length, unit in _UNITS:
        if span % length == 0:
            return count_of(span // length, unit)
    return f"{span / 1_000_000:,.6g} seconds"


def time_words(image: int, order: OrderKey, kind: pa.DataType) -> str:
    """The value of an order column that has this image."""
    value = image if order.ascending else ~image
    if pa.types.is_floating(kind):
        return f"{np.int64(value ^ ((value >> 63) & LAST_TIME)).view(np.float64):g}"
    if pa.types.is_decimal(kind):
        return str(Decimal(value).scaleb(-kind.scale))
    if not (pa.types.is_timestamp(kind) or pa.types.is_date32(kind)):
        return str(value)
    try:
        moment = _EPOCH + timedelta(microseconds=value)
    except OverflowError:
        return f"{value:,} microseconds"
    if pa.types.is_date32(kind) and value % _UNITS[0][0] == 0:
        return str(moment.date())
    return f"{moment}{' UTC' if kind.tz is not None else ''}"
