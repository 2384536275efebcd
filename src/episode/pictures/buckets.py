"""Points that a screen can show: of the rows in each of its columns the first, the least, the greatest, the last."""

from __future__ import annotations

import numpy as np


def line_rows(x: np.ndarray, y: np.ndarray, view: tuple[float, float], buckets: int) -> np.ndarray:
    """Return the places (int64) of the rows that a line through all rows of the view needs, in the order of x.

    All of them where these are no more than four for each bucket. Rows without a value are left out, the neighbours of
    the view are in, so that the line goes on to its edges.
    """
    order = ascending(x)
    low, high = np.searchsorted(x[order], view[0], "left"), np.searchsorted(x[order], view[1], "right")
    at = order[max(low - 1, 0) : high + 1]
    at = at[~np.isnan(y[at])]
    if len(at) <= 4 * buckets:
        return at
    edges = _edges(x[at], view, buckets)
    values = y[at]
    lengths = np.diff(np.append(edges, len(at)))
    kept = [edges, np.append(edges[1:], len(at)) - 1]
    for extreme in (np.minimum, np.maximum):
        best = np.repeat(extreme.reduceat(values, edges), lengths)
        candidates = np.flatnonzero(values == best)
        kept.append(candidates[np.searchsorted(candidates, edges)])
    return at[np.unique(np.concatenate(kept))]


def thin_rows(x: np.ndarray, group: np.ndarray, view: tuple[float, float], buckets: int, most: int) -> np.ndarray:
    """Return the places (int64) of the rows in the view: all, or if they are many the first of a group in a bucket."""
    order = ascending(x)
    low, high = np.searchsorted(x[order], view[0], "left"), np.searchsorted(x[order], view[1], "right")
    at = order[low:high]
    if len(at) <= most:
        return at
    pair = _bucket(x[at], view, buckets) * (int(group.max(initial=0)) + 1) + group[at]
    return at[np.sort(np.unique(pair, return_index=True)[1])]


def ascending(x: np.ndarray) -> np.ndarray:
    """Return the places (int64) of numbers in their order, without those of NaN."""
    at = np.flatnonzero(~np.isnan(x))
    return at if np.all(np.diff(x[at]) >= 0) else at[np.argsort(x[at], kind="stable")]


def _bucket(x: np.ndarray, view: tuple[float, float], buckets: int) -> np.ndarray:
    """Return the bucket of each row; rows before and after the view have their own buckets."""
    width = max(view[1] - view[0], 1e-9)
    inside = np.clip((x - view[0]) / width * buckets, 0, buckets - 1).astype(np.int64)
    return np.where(x < view[0], -1, np.where(x > view[1], buckets, inside))


def _edges(x: np.ndarray, view: tuple[float, float], buckets: int) -> np.ndarray:
    """Return where the rows of the buckets begin."""
    return np.flatnonzero(np.diff(_bucket(x, view, buckets), prepend=-2))


def lanes_of(first: np.ndarray, last: np.ndarray, gap: float) -> np.ndarray:
    """Return for intervals in order of their starts the lowest lane (int64) in which each is free of those before."""
    ends: list[float] = []
    found = np.zeros(len(first), np.int64)
    for at, (begin, end) in enumerate(zip(first, last)):
        lane = next((one for one, until in enumerate(ends) if until + gap <= begin), len(ends))
        ends[lane : lane + 1] = [float(end)]
        found[at] = lane
    return found
