"""Chains of matches: AFTER MATCH SKIP says at which row the search goes on, and so which start rows are tried.

Places are rows counted from the first one that a slice of time owns. All arrays are by place: following int64: where
the search goes on after a start row; counts int64: its matches; ends int64: the place after its longest match.
"""

from __future__ import annotations

from numba import njit

from episode.kernels.outcomes import TIMED_OUT, UNMATCHED


@njit(cache=True, nogil=True)
def links_of(
    kind, start, length, number, path_from, path, emit_timed_out, first, places, to_label, to_first, label_of, members,
    place, following, counts, ends,
):  # fmt: skip
    """Where the search goes on after matches (see `kernels.rows.arrays.Found`), by start row with a match.

    The last four are filled, and have room for as many as there are matches: place int64: of the start row, and what is
    said above of it. first: the row whose place is 0; places: how many there are. to_label: does it go on at the first
    (to_first) or last row with a label, and not past the last row? members uint8[labels]: is it one of these? After a
    match without such a row after its first one, which is an error wherever the chain comes to it, it goes on at the
    next row. Returns how many were filled.
    """
    last = -1
    for i in range(len(start)):
        at = start[i] - first
        if at < 0 or at >= places or kind[i] == UNMATCHED or (emit_timed_out and number[i] == TIMED_OUT):
            continue
        if last < 0 or place[last] != at:
            last += 1
            place[last], following[last], counts[last], ends[last] = at, at + 1, 0, 0
        counts[last] += 1
        if length[i] == 0 or at + length[i] <= ends[last]:
            continue
        ends[last] = following[last] = at + length[i]
        if to_label:
            found = 0
            for row in range(length[i]):
                if members[label_of[path[path_from[i] + row]]]:
                    found = row
                    if to_first:
                        break
            following[last] = at + max(1, found)
    return last + 1


@njit(cache=True, nogil=True)
def visit(following, counts, ends, clean, is_met, before):
    """The chain from place 0 on: is_met bool: the places where another chain may join it; before int64: how many of its
    matches start before a place. clean: only where none of its earlier matches reaches beyond the place.
    """
    at, cover, count = 0, 0, 0
    while at < len(following):
        is_met[at] = not clean or cover <= at
        cover = max(cover, ends[at])
        before[at] = count
        count += counts[at]
        for passed in range(at + 1, min(following[at], len(following))):
            before[passed] = count
        at = following[at]


@njit(cache=True, nogil=True)
def join(following, counts, ends, tried, is_met, joins, matches, cover):
    """Of chains from each place of a stretch: how far they are known (joins int64, a place), how many matches they have
    until there (matches int64), and the place after all of these (cover int64).

    A chain is known up to where it joins the one that `visit` went along, leaves the stretch, or comes to a place that
    was not tried (bool) as a start.
    """
    for at in range(len(following) - 1, -1, -1):
        joins[at], matches[at], cover[at] = at, 0, 0
        if is_met[at] or not tried[at]:
            continue
        to = following[at]
        joins[at], matches[at], cover[at] = to, counts[at], ends[at]
        if to < len(following):
            joins[at] = joins[to]
            matches[at] += matches[to]
            cover[at] = max(cover[at], cover[to])


@njit(cache=True, nogil=True)
def adopt(following, counts, ends, begin, all_following, all_counts, all_ends, tried):
    """The places that the chain from one of them comes to, put among those of other chains, up to one tried before."""
    at = begin
    while at < len(following) and not tried[at]:
        tried[at] = True
        all_following[at], all_counts[at], all_ends[at] = following[at], counts[at], ends[at]
        at = following[at]
