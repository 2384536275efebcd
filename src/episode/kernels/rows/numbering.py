"""The order and the numbers of row pattern matches that are found out of order, and where a label is in them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def order_by_length(begin, end, used, number, out_length, out_number, out_path_from, out_path):
    """ALL MATCHES of one start row, shortest first, with their numbers; returns the last number."""
    origin = out_path_from[begin]
    order = np.argsort(out_length[begin:end], kind="mergesort")
    lengths = out_length[begin:end][order]
    sources = out_path_from[begin:end][order]
    copied = out_path[origin:used].copy()
    at = origin
    for i in range(end - begin):
        out_length[begin + i] = lengths[i]
        source = sources[i] - origin
        out_path[at : at + lengths[i]] = copied[source : source + lengths[i]]
        at += lengths[i]
        out_path_from[begin + i + 1] = at
        number += 1
        out_number[begin + i] = number
    return number


@njit(cache=True, nogil=True)
def place_of_label(first, path, begin, length, label_of, sets, which):
    """The first or last row of a match with a label of the set, counted from its first one; -1 if there is none."""
    position = -1
    for i in range(length):
        if sets[which, label_of[path[begin + i]]]:
            position = i
            if first:
                break
    return position


@njit(cache=True, nogil=True)
def number_by_end(pending, pendings, number, out_start, out_length, out_number):
    """INCREMENTAL MATCH: numbers follow the order of the end rows; returns the last number."""
    ends = np.zeros(pendings, np.int64)
    for i in range(pendings):
        ends[i] = out_start[pending[i]] + out_length[pending[i]]
    order = np.argsort(ends, kind="mergesort")
    for i in range(pendings):
        number += 1
        out_number[pending[order[i]]] = number
    return number


@njit(cache=True, nogil=True)
def hold_back(
    at_end, hi, is_taken, first_out, outs, used, pendings, out_kind, out_start, out_length, out_path_from, out_path,
    pending,
):  # fmt: skip
    """INCREMENTAL MATCH where `$` keeps a match from at_end undecided that would end with the last row.

    What ends there from that start on waits with it: it is taken out of the output again. Matches of a partition are
    pending in the order in which they were found. Returns (undecided, outs, used, pendings).
    """
    for i in range(first_out, outs):
        if out_start[i] >= at_end and out_start[i] + out_length[i] == hi:
            gone = out_length[i]
            for at in range(out_path_from[i], used - gone):
                out_path[at] = out_path[at + gone]
            for at in range(i, outs - 1):
                out_kind[at], out_start[at], out_length[at] = out_kind[at + 1], out_start[at + 1], out_length[at + 1]
                out_path_from[at + 1] = out_path_from[at + 2] - gone
            for at in range(pendings - 1):
                pending[at] = first_out + at
            return True, outs - 1, used - gone, pendings - 1
    return not is_taken, outs, used, pendings
