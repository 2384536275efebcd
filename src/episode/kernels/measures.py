"""Measures: navigation and aggregates over finished matches, for one row per match or for every row of it.

A match m covers rows start[m] .. start[m] + length[m] - 1; path[path_from[m] + i] is the instruction that took its
i-th row, label_of[instruction] its label. Output row j stands at position out_position[j] of match out_match[j];
output rows of a match are consecutive and in order. Position -1: the row has no match (empty match, unmatched row).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import decimals
from episode.kernels import opcodes as oc
from episode.kernels.aggregates import finished, fold
from episode.kernels.outcomes import MATCHED, UNMATCHED


@njit(cache=True, nogil=True)
def output_rows(kind, length, path_from, path, excluded, show_empty, one_row):
    """(out_match, out_position): the rows to output; position is the last one in ONE ROW mode."""
    total = 0
    for m in range(len(kind)):
        if kind[m] == MATCHED:
            if one_row:
                total += 1
            else:
                for i in range(length[m]):
                    total += not excluded[path[path_from[m] + i]]
        elif kind[m] == UNMATCHED or show_empty:
            total += 1
    out_match = np.empty(total, np.int64)
    out_position = np.empty(total, np.int64)
    at = 0
    for m in range(len(kind)):
        if kind[m] == MATCHED:
            if one_row:
                out_match[at], out_position[at] = m, length[m] - 1
                at += 1
            else:
                for i in range(length[m]):
                    if not excluded[path[path_from[m] + i]]:
                        out_match[at], out_position[at] = m, i
                        at += 1
        elif kind[m] == UNMATCHED or show_empty:
            out_match[at], out_position[at] = m, -1
            at += 1
    return out_match, out_position


@njit(cache=True, nogil=True)
def navigate(first, offset, shift, final, everywhere, members, out_match, out_position,
             start, length, path_from, path, label_of, part_lo, part_hi):  # fmt: skip
    """(row, label) of a navigation for every output row; -1 where there is none.

    everywhere: rows of every label count; else members uint8[labels]. part_lo, part_hi: partition bounds by match.
    """
    total = len(out_match)
    rows = np.full(total, -1, np.int64)
    labels = np.full(total, -1, np.int32)
    found_at = np.empty(64, np.int64)
    count = 0
    upto = 0
    current = -1
    final_position = -1
    for j in range(total):
        m, position = out_match[j], out_position[j]
        if position < 0:
            continue
        origin = path_from[m]
        fresh = m != current
        if fresh:
            current, count, upto = m, 0, 0
        limit = length[m] - 1 if final else position
        found = -1
        if everywhere:
            candidate = offset if first else limit - offset
            if 0 <= candidate <= limit:
                found = candidate
        elif final:
            if fresh:
                final_position = -1
                left = offset
                for i in range(length[m]):
                    at = i if first else length[m] - 1 - i
                    if members[label_of[path[origin + at]]]:
                        if left == 0:
                            final_position = at
                            break
                        left -= 1
            found = final_position
        else:
            while upto <= position:
                if members[label_of[path[origin + upto]]]:
                    if count >= len(found_at):
                        bigger = np.empty(2 * len(found_at), np.int64)
                        bigger[:count] = found_at
                        found_at = bigger
                    found_at[count] = upto
                    count += 1
                upto += 1
            index = offset if first else count - 1 - offset
            if 0 <= index < count:
                found = found_at[index]
        if found < 0:
            continue
        row = start[m] + found + shift
        if shift != 0 and (row < part_lo[m] or row >= part_hi[m]):
            continue
        rows[j] = row
        inside = row - start[m]
        if 0 <= inside < length[m]:
            labels[j] = label_of[path[origin + inside]]
    return rows, labels


@njit(cache=True, nogil=True)
def aggregate(function, floating, has_column, has_nulls, values_i, values_f, valid, final, everywhere, members,
              out_match, out_position, start, length, path_from, path, label_of):  # fmt: skip
    """(int result, float result, is it null?) of an aggregate for every output row.

    MIN_BY and MAX_BY give the row of the extreme value (the last of equal ones) as int result, -1 where there is none.
    """
    total = len(out_match)
    extreme = function == oc.MIN_BY or function == oc.MAX_BY
    out_i = np.full(total, -1 if extreme else 0, np.int64)
    out_f = np.zeros(total, np.float64)
    out_null = np.ones(total, np.bool_)
    current = -1
    upto = 0
    count, whole, real, more = np.int64(0), np.int64(0), 0.0, 0.0
    for j in range(total):
        m, position = out_match[j], out_position[j]
        if position < 0:
            continue
        if m != current:
            current, upto = m, 0
            count, whole, real, more = np.int64(0), np.int64(0), 0.0, 0.0
        limit = length[m] - 1 if final else position
        while upto <= limit:
            row = start[m] + upto
            if (everywhere or members[label_of[path[path_from[m] + upto]]]) and (not has_nulls or valid[row] != 0):
                whole_value = values_i[row] if has_column and not floating else 0
                real_value = values_f[row] if has_column and floating else 0.0
                count, whole, real, more = fold(
                    function, floating, count, whole, real, more, whole_value, real_value, row
                )
            upto += 1
        if not extreme:
            out_i[j], out_f[j], out_null[j] = finished(function, floating, count, whole, real, more)
        elif count > 0:
            out_i[j], out_null[j] = np.int64(more), False
    return out_i, out_f, out_null


@njit(cache=True, nogil=True)
def sum_decimals(low, high, has_nulls, valid, final, everywhere, members, out_match, out_position,
                 start, length, path_from, path, label_of):  # fmt: skip
    """(low words, high words, counts) of sums of decimals for every output row: see `kernels.decimals`."""
    total = len(out_match)
    out_low = np.zeros(total, np.uint64)
    out_high = np.zeros(total, np.int64)
    out_n = np.zeros(total, np.int64)
    current = -1
    upto = 0
    n = np.int64(0)
    sum_low = np.uint64(0)
    sum_high = np.int64(0)
    for j in range(total):
        m, position = out_match[j], out_position[j]
        if position < 0:
            continue
        if m != current:
            current, upto, n, sum_low, sum_high = m, 0, np.int64(0), np.uint64(0), np.int64(0)
        limit = length[m] - 1 if final else position
        while upto <= limit:
            row = start[m] + upto
            if (everywhere or members[label_of[path[path_from[m] + upto]]]) and (not has_nulls or valid[row] != 0):
                n += 1
                sum_low, sum_high = decimals.add(sum_low, sum_high, low[row], high[row])
            upto += 1
        out_low[j], out_high[j], out_n[j] = sum_low, sum_high, n
    return out_low, out_high, out_n


@njit(cache=True, nogil=True)
def divide_decimals(low, high, counts, factor):
    """(low words, high words) of averages: sums times factor by counts. Counts of 0 give 0."""
    out_low = np.zeros(len(low), np.uint64)
    out_high = np.zeros(len(low), np.int64)
    for j in range(len(low)):
        if counts[j] > 0:
            out_low[j], out_high[j] = decimals.average(low[j], high[j], counts[j], factor)
    return out_low, out_high


@njit(cache=True, nogil=True)
def collect(
    has_nulls, valid, final, everywhere, members, out_match, out_position, start, length, path_from, path, label_of
):
    """(offsets, rows, labels): the rows that an array aggregate gathers for every output row."""
    total = len(out_match)
    offsets = np.zeros(total + 1, np.int64)
    rows = np.empty(1024, np.int64)
    labels = np.empty(1024, np.int32)
    used = 0
    for j in range(total):
        m, position = out_match[j], out_position[j]
        if position >= 0:
            limit = length[m] - 1 if final else position
            for i in range(limit + 1):
                row = start[m] + i
                label = label_of[path[path_from[m] + i]]
                if (everywhere or members[label]) and (not has_nulls or valid[row] != 0):
                    if used >= len(rows):
                        bigger_rows, bigger_labels = np.empty(2 * used, np.int64), np.empty(2 * used, np.int32)
                        bigger_rows[:used], bigger_labels[:used] = rows, labels
                        rows, labels = bigger_rows, bigger_labels
                    rows[used], labels[used] = row, label
                    used += 1
        offsets[j + 1] = used
    return offsets, rows[:used], labels[:used]
