"""Grouping by key and ordering within keys, as permutations of row numbers; linear wherever possible.

Shapes used throughout: codes int32[n] dense key codes in 0..n_keys-1; images int64[k, n], the k order columns as
order-preserving integers, most significant first; order int64[n], a permutation; starts int64[n_keys + 1], where
each key's rows begin in the permutation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import BOOL, I32, I64, U8, U64, Value
from episode.native.running import compiled_for

SMALL = 32
"""Rows of a key that are sorted by insertion."""
WIDE = 1 << 16
"""Rows of a key from which on digits have 11 bits instead of 8."""
_DIGITS = 1 << 11
WIDTHS = {1: U8, 4: I32, 8: I64}
"""Types by their bytes: values that can be spread."""

_TYPES: ArrayTypes = {
    "codes": (I32, False), "images": (I64, False), "starts": (I64, True), "place": (I64, True), "order": (I64, True),
    "disordered": (U8, True), "digits": (U64, True), "rows": (I64, True), "counts": (I64, True),
}  # fmt: skip


def group(codes: np.ndarray, n_keys: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort by code (stable counting sort): return (order, starts)."""
    starts, order = np.zeros(n_keys + 1, np.int64), np.empty(len(codes), np.int64)
    compiled_for(grouping_program)([codes, starts, np.empty(n_keys, np.int64), order])
    return order, starts


class Grouped(NamedTuple):
    """Rows by code, those of a key in order. as_arrived: whether the rows of every key are in order of arrival."""

    order: np.ndarray
    starts: np.ndarray
    as_arrived: bool


def order_rows(codes: np.ndarray, n_keys: int, images: np.ndarray) -> Grouped | None:
    """Order rows by code, then by their images, equal ones by arrival; None if they are in this order."""
    n, flat = len(codes), images.reshape(-1)
    if compiled_for(checking_program, len(images))([codes, flat]):
        return None
    starts, order = np.zeros(n_keys + 1, np.int64), np.empty(n, np.int64)
    room = (np.empty(2 * n, np.uint64), np.empty(2 * n, np.int64), np.empty(_DIGITS + 1, np.int64))
    given = [codes, flat, starts, np.empty(n_keys, np.int64), order, np.zeros(n_keys, np.uint8), *room]
    sorted_keys = compiled_for(ordering_program, len(images))(given)
    return Grouped(order, starts, sorted_keys == 0)


def spread(codes: np.ndarray, starts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the values by code, those of a key in order of arrival: reading rows one after the other is faster than
    looking up each in its order. values: integers of 8, 32 or 64 bits."""
    out = np.empty_like(values)
    compiled_for(spreading_program, values.dtype.itemsize)([codes, starts[:-1].copy(), values, out])
    return out


def spans_of(times: np.ndarray, groups: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest time of each of n groups (int64[n]); of groups without rows, the extremes.

    times int64[rows]; groups int32[rows].
    """
    limits = np.iinfo(np.int64)
    first, last = np.full(n, limits.max), np.full(n, limits.min)
    compiled_for(spans_program)([times, groups, first, last])
    return first, last


def grouping_program() -> Program:
    s = entry_scope("group", _TYPES, "codes", "starts", "place", "order")
    _count(s)
    with s.f.loop(0, s.codes.length) as row:
        _put(s, row)
    s.f.give(0)
    return s.program


def checking_program(columns: int) -> Program:
    """Check that rows are contiguous by ascending code, and each key's rows in order of `columns` columns."""
    s = entry_scope("is_ordered", _TYPES, "codes", "images")
    f = s.f
    with f.loop(1, s.codes.length) as row:
        before, now = s.codes[row - 1], s.codes[row]
        f.give_if((before > now) | (before.equals(now) & _is_after(s, row - 1, row, columns)), 0)
    f.give(1)
    return s.program


def ordering_program(columns: int) -> Program:
    """Group rows by code, and sort those of a key by `columns` columns, unless they are in order."""
    s = entry_scope(
        "order", _TYPES, "codes", "images", "starts", "place", "order", "disordered", "digits", "rows", "counts"
    )
    f = s.f
    n = s.codes.length
    _count(s)
    with f.loop(0, n) as row:
        at = _put(s, row)
        key = s.codes[row].to(I64)
        with f.when(at > s.starts[key]):
            before = s.order[at - 1]
            s.disordered[key] = s.disordered[key] | _is_after(s, before, row, columns).to(U8)
    sorted_keys = f.variable("sorted_keys", 0)
    with f.loop(0, s.disordered.length) as key:
        with f.when(s.disordered[key].differs(0)):
            sorted_keys.set(sorted_keys + 1)
            low, high = s.starts[key], s.starts[key + 1]
            for column in reversed(range(columns)):
                with f.either(high - low <= SMALL) as otherwise:
                    s.call("insertion_sort", _emit_insertion_sort, low, high, n * column)
                    otherwise()
                    s.call("radix_sort", _emit_radix_sort, low, high, n * column)
    f.give(sorted_keys)
    return s.program


def spreading_program(width: int) -> Program:
    program = Program("spread")
    f = program.function("run")
    codes, place = f.array("codes", I32), f.array("place", I64, writable=True)
    values, out = f.array("values", WIDTHS[width]), f.array("out", WIDTHS[width], writable=True)
    with f.loop(0, codes.length) as row:
        key = codes[row].to(I64)
        at = place[key]
        out[at] = values[row]
        place[key] = at + 1
    f.give(0)
    return program


def spans_program() -> Program:
    program = Program("spans")
    f = program.function("run")
    times, groups = f.array("times", I64), f.array("groups", I32)
    first, last = f.array("first", I64, writable=True), f.array("last", I64, writable=True)
    with f.loop(0, times.length) as row:
        group, time = groups[row].to(I64), times[row]
        first[group] = f.least(first[group], time)
        last[group] = f.greatest(last[group], time)
    f.give(0)
    return program


def _is_after(s: Scope, one: Value, other: Value, columns: int) -> Value:
    """Whether the image of a row is after that of another."""
    f = s.f
    n = s.codes.length
    after = f.constant(False, BOOL)
    for column in reversed(range(columns)):
        its, others = s.images[n * column + one], s.images[n * column + other]
        after = (its > others) | (its.equals(others) & after)
    return after


def _count(s: Scope) -> None:
    """Compute the start of each key's rows (`starts` and `place`): the running sum of the counts per code."""
    f = s.f
    with f.loop(0, s.codes.length) as row:
        after = s.codes[row].to(I64) + 1
        s.starts[after] = s.starts[after] + 1
    total = f.variable("total", 0)
    with f.loop(0, s.place.length) as key:
        s.place[key] = total
        total.set(total + s.starts[key + 1])
        s.starts[key + 1] = total


def _put(s: Scope, row: Value) -> Value:
    """Put a row behind those of its key that came before it; return its place."""
    key = s.codes[row].to(I64)
    at = s.place[key]
    s.order[at] = row
    s.place[key] = at + 1
    return at


def _emit_insertion_sort(s: Scope, low: Value, high: Value, image: Value) -> None:
    """Sort order[low:high] by the image that begins at `image`, stably."""
    f = s.f
    with f.loop(low + 1, high) as at:
        row = s.order[at]
        value = s.images[image + row]
        to = f.variable("to", at)
        with f.during(lambda: to > low) as placed:
            before = s.order[to - 1]
            f.jump_if(s.images[image + before] <= value, placed)
            s.order[to] = before
            to.set(to - 1)
        s.order[to] = row
    f.give(0)


def _emit_radix_sort(s: Scope, low: Value, high: Value, image: Value) -> None:
    """Sort order[low:high] by LSD radix sort (stable), with only the digits that the range of the values needs.

    digits, rows: two halves, which change roles with every digit.
    """
    f = s.f
    n = high - low
    first = s.images[image + s.order[low]]
    smallest, largest = f.variable("smallest", first), f.variable("largest", first)
    with f.loop(low + 1, high) as at:
        value = s.images[image + s.order[at]]
        smallest.set(f.least(smallest, value))
        largest.set(f.greatest(largest, value))
    base = smallest.bits_as(U64)
    spread = f.variable("spread", largest.bits_as(U64) - base)
    f.give_if(spread.equals(0), 0)
    with f.loop(0, n) as at:
        row = s.order[low + at]
        s.rows[at] = row
        s.digits[at] = s.images[image + row].bits_as(U64) - base
    bits = f.select(n < WIDE, 8, 11)
    size = f.value(1) << bits
    mask = size.to(U64) - 1
    shift, here, there = f.variable("shift", 0), f.variable("here", 0), f.variable("there", n)
    with f.during(lambda: spread.differs(0)):
        by, source, target = shift.to(U64), here.value, there.value
        _spread_by_digit(s, source, target, n, by, mask, size)
        here.set(target)
        there.set(source)
        shift.set(shift + bits)
        spread.set(spread >> bits.to(U64))
    with f.loop(0, n) as at:
        s.order[low + at] = s.rows[here + at]
    f.give(0)


def _spread_by_digit(s: Scope, source: Value, target: Value, n: Value, by: Value, mask: Value, size: Value) -> None:
    """Do one round of the radix sort: from `source` to `target`, by the digit at a shift."""
    f = s.f
    with f.loop(0, size + 1) as digit:
        s.counts[digit] = 0
    with f.loop(source, source + n) as at:
        after = (s.digits[at] >> by & mask).to(I64) + 1
        s.counts[after] = s.counts[after] + 1
    with f.loop(0, size) as digit:
        s.counts[digit + 1] = s.counts[digit + 1] + s.counts[digit]
    with f.loop(source, source + n) as at:
        value = s.digits[at]
        digit = (value >> by & mask).to(I64)
        to = s.counts[digit]
        s.counts[digit] = to + 1
        s.digits[target + to] = value
        s.rows[target + to] = s.rows[at]
