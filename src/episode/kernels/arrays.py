"""Array programs: what conditions make of arrays of values of the running match, before their own program runs.

A step is a row of `code` like a machine instruction: an operation and its operands. Values (run_i, run_f, run_n: int,
float, is it null?) stand after the running aggregates. An array is a row of the work arrays after those of the
running aggregates, so that the matcher has no more arguments to carry through its loop: elements in agg_i or agg_f (by
lane), is it null? in agg_n, whose last column holds the size, and in agg_m the row that the element comes from, or -1.
Steps:

EVALUATE value, program from, to, result, float      a machine program
RESET value                                          the place before the first
EACH_ROW set, place, nav, end                        next row of labels of the set, or to the end of the loop
EACH array, place, value, nav, end, float            next element, or to the end of the loop
BACK step                                            again
CLEAR array
COLLECT array, set, column, validity, float          the values of a column on the rows of labels, nulls left out
PUSH array, value, keep, no nulls, nav, float        keep: a value that must be true, or -1
ARRANGE array, source, arrangement, float
SIZE value, array
ELEMENT value, array, place, float                   null where there is none
CONTAINS value, array, sought value, float           null if it is not there but a null is, or if it is null
ORDER value, array, array, float                     -1, 0, 1
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import opcodes as oc
from episode.kernels.comparing import compare_floats, compare_ints
from episode.kernels.machine import run

_POSITIVE = np.int64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True, nogil=True)
def run_arrays(
    begin, end, start, row, number, path, label_of, sets, label_codes, nav_rows, nav_labels, code, ri, rf, rn, key,
    cols_i, cols_f, valid, const_i, const_f, run_i, run_f, run_n, array_i, array_f, array_row, array_null,
):  # fmt: skip
    """Run the steps begin..end for the match of rows start..row, whose labels are those of its path."""
    last = array_null.shape[1] - 1
    at = begin
    while at < end:
        step = code[at, 0]
        a, b, c, d = code[at, 1], code[at, 2], code[at, 3], code[at, 4]
        e, f = code[at, 5], code[at, 6]
        at += 1
        if step == oc.EVALUATE:
            run(code, b, c, ri, rf, rn, 1, row, key, cols_i, cols_f, valid, const_i, const_f, nav_rows, nav_labels,
                run_i, run_f, run_n, number + 1)  # fmt: skip
            run_n[a] = rn[d, 0]
            if e:
                run_f[a] = rf[d, 0]
            else:
                run_i[a] = ri[d, 0]
        elif step == oc.RESET:
            run_i[a] = -1
            run_n[a] = 0
        elif step == oc.EACH_ROW:
            place = run_i[b] + 1
            while place <= row - start and not sets[a, label_of[path[place]]]:
                place += 1
            run_i[b] = place
            if place > row - start:
                at = d
            else:
                nav_rows[c] = start + place
                nav_labels[c] = label_codes[label_of[path[place]]]
        elif step == oc.EACH:
            run_i[b] += 1
            place = run_i[b]
            if place >= array_null[a, last]:
                at = e
            else:
                run_n[c] = array_null[a, place]
                if f:
                    run_f[c] = array_f[a, place]
                else:
                    run_i[c] = array_i[a, place]
                nav_rows[d] = np.int64(array_row[a, place])
        elif step == oc.BACK:
            at = a
        elif step == oc.CLEAR:
            array_null[a, last] = 0
        elif step == oc.COLLECT:
            size = 0
            for place in range(row - start + 1):
                if sets[b, label_of[path[place]]] and (d < 0 or valid[d, start + place] != 0):
                    if e:
                        array_f[a, size] = cols_f[c, start + place]
                    else:
                        array_i[a, size] = cols_i[c, start + place]
                    array_null[a, size] = 0
                    array_row[a, size] = start + place
                    size += 1
            array_null[a, last] = size
        elif step == oc.PUSH:
            if (c < 0 or (run_n[c] == 0 and run_i[c] != 0)) and not (d and run_n[b]):
                size = array_null[a, last]
                if f:
                    array_f[a, size] = run_f[b]
                else:
                    array_i[a, size] = run_i[b]
                array_null[a, size] = run_n[b]
                array_row[a, size] = nav_rows[e] if e >= 0 else -1
                array_null[a, last] = size + 1
        elif step == oc.ARRANGE:
            _arrange(a, b, c, d, array_i, array_f, array_null, array_row)
        elif step == oc.SIZE:
            run_i[a], run_n[a] = array_null[b, last], 0
        elif step == oc.ELEMENT:
            place = run_i[c]
            run_n[a] = 1
            if run_n[c] == 0 and 0 <= place < array_null[b, last]:
                run_n[a] = array_null[b, place]
                if d:
                    run_f[a] = array_f[b, place]
                else:
                    run_i[a] = array_i[b, place]
        elif step == oc.CONTAINS:
            size = array_null[b, last]
            run_i[a], run_n[a] = 0, run_n[c] != 0 and size > 0
            if run_n[c] == 0:
                for place in range(size):
                    if array_null[b, place]:
                        run_n[a] = 1
                    elif compare_floats(array_f[b, place], run_f[c]) == 0 if d else array_i[b, place] == run_i[c]:
                        run_i[a], run_n[a] = 1, 0
                        break
        else:
            run_i[a], run_n[a] = _order(b, c, d, array_i, array_f, array_null), 0


@njit(cache=True, nogil=True)
def _arrange(target, source, arrangement, is_float, array_i, array_f, array_null, array_row):
    """Array target: the elements of source in another order, or each once."""
    last = array_null.shape[1] - 1
    size = array_null[source, last]
    order = np.arange(size)
    if arrangement == oc.REVERSED:
        order = order[::-1].copy()
    else:
        keys = array_i[source, :size].copy()
        if is_float:
            reals = array_f[source, :size].copy()
            for place in range(size):
                if reals[place] != reals[place]:
                    reals[place] = np.nan
                elif reals[place] == 0.0:
                    reals[place] = 0.0
            keys = reals.view(np.int64)
            for place in range(size):
                if keys[place] < 0:
                    keys[place] ^= _POSITIVE
        for place in range(size):
            if array_null[source, place]:
                keys[place] = 0
        sorted_ = np.argsort(keys, kind="mergesort")
        if arrangement == oc.DISTINCT:
            first = np.zeros(size, np.bool_)
            null_seen = False
            before = -1
            for at in range(size):
                place = sorted_[at]
                if array_null[source, place]:
                    first[place] = not null_seen
                    null_seen = True
                else:
                    first[place] = before < 0 or keys[before] != keys[place]
                    before = place
            order = np.flatnonzero(first)
        else:
            nulls = 0
            for place in range(size):
                nulls += array_null[source, place] != 0
            at_null = 0 if arrangement == oc.ASCENDING_NULLS_FIRST else size - nulls
            at_value = nulls if arrangement == oc.ASCENDING_NULLS_FIRST else 0
            for at in range(size):
                place = sorted_[size - 1 - at] if arrangement == oc.DESCENDING else sorted_[at]
                if array_null[source, place]:
                    order[at_null] = place
                    at_null += 1
                else:
                    order[at_value] = place
                    at_value += 1
    for at in range(len(order)):
        place = order[at]
        if is_float:
            array_f[target, at] = array_f[source, place]
        else:
            array_i[target, at] = array_i[source, place]
        array_null[target, at] = array_null[source, place]
        array_row[target, at] = array_row[source, place]
    array_null[target, last] = len(order)


@njit(cache=True, nogil=True)
def _order(left, right, is_float, array_i, array_f, array_null):
    """-1, 0 or 1: the first difference decides; a null is less than a value, a shorter array than a longer one."""
    last = array_null.shape[1] - 1
    for place in range(min(array_null[left, last], array_null[right, last])):
        order = array_null[right, place] - array_null[left, place]
        if array_null[left, place] == 0 and array_null[right, place] == 0:
            if is_float:
                order = compare_floats(array_f[left, place], array_f[right, place])
            else:
                order = compare_ints(array_i[left, place], array_i[right, place])
        if order != 0:
            return order
    return compare_ints(array_null[left, last], array_null[right, last])
