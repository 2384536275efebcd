"""Chains: events of several classes that follow each other within a window, by time alone.

Shapes: bits uint64[rows], the classes of each row; masks uint64[places], those of each place of the chain, in order;
from_ int64[partitions + 1]; start, end, time int64[rows], ascending by end within a partition.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels.times import window_end, window_start


@njit(cache=True, nogil=True)
def viable(bits, masks, from_, start, end, window, whole, out):
    """In `out`, the bits without those of events that no match can hold, by time alone.

    masks uint64[places]: the variables of each place that every match must fill, in order. An event stays in a place if
    events of all earlier places come before it and of all later places after it, and the tightest such chain fits the
    window. (Ties are let through; the joins are exact.) Unless `whole`, later places are not asked for: their events
    may still come.
    """
    places = len(masks)
    everything = np.uint64(0)
    for p in range(places):
        everything |= masks[p]
    best, some = np.empty(places, np.int64), np.empty(places, np.bool_)
    for g in range(len(from_) - 1):
        some[:] = False
        for row in range(from_[g], from_[g + 1]):
            out[row] = bits[row]
            if bits[row] & everything:
                gone = np.uint64(0)
                oldest = window_start(end[row], window)
                for p in range(places - 1, -1, -1):
                    if bits[row] & masks[p]:
                        begins = start[row] if p == 0 else best[p - 1]
                        if (p > 0 and not some[p - 1]) or begins < oldest:
                            gone |= masks[p]
                        elif not some[p] or begins > best[p]:
                            best[p], some[p] = begins, True
                out[row] &= ~gone
        if not whole:
            continue
        some[:] = False
        for row in range(from_[g + 1] - 1, from_[g] - 1, -1):
            if out[row] & everything:
                gone = np.uint64(0)
                newest = window_end(start[row], window)
                for p in range(places):
                    if out[row] & masks[p]:
                        last = p == places - 1
                        ends = end[row] if last else best[p + 1]
                        if not (last or some[p + 1]) or ends > newest:
                            gone |= masks[p]
                        elif not some[p] or ends < best[p]:
                            best[p], some[p] = ends, True
                out[row] &= ~gone


@njit(cache=True, nogil=True)
def near_chains(bits, in_chain, others, from_, time, window):
    """Rows that may matter to matches: those of a chain, and those of other classes within the window of one.

    in_chain, others: bits of the chain's classes, and of the others.
    """
    kept = np.zeros(len(bits), np.bool_)
    for g in range(len(from_) - 1):
        low, high = from_[g], from_[g + 1]
        some, last = False, np.int64(0)
        for row in range(low, high):
            if bits[row] & in_chain:
                kept[row] = True
                some, last = True, time[row]
            elif bits[row] & others and some and last >= window_start(time[row], window):
                kept[row] = True
        some = False
        for row in range(high - 1, low - 1, -1):
            if bits[row] & in_chain:
                some, last = True, time[row]
            elif bits[row] & others and some and last <= window_end(time[row], window):
                kept[row] = True
    return kept
