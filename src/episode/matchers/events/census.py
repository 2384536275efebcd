"""Statistics of a round of events: how many there are of each variable, and how often conditions hold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from episode.matchers.events.code.arrays import WINDOW, settings_of
from episode.matchers.events.code.partners import partners_program
from episode.matchers.events.comparisons import comparison_of
from episode.matchers.events.looking import hold
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Round
from episode.matchers.times import EVER
from episode.native.running import compiled_for
from episode.plan.events.conditions import JoinTest
from episode.plan.expressions import Apply


@dataclass(frozen=True)
class Census:
    """Events per window as an event sees them: if few partitions have most of the events, those count.

    seen: of each variable; seen_rows: of all rows; rows: of each variable."""

    seen: list[float]
    seen_rows: float
    rows: list[np.ndarray]


def take_census(round_: Round, variables: int, window: int, pause: int) -> Census:
    """The windows of a partition are those that its events with any variable fill: a pause between two of them counts
    for `pause` at the most."""
    bits, from_, first = round_.bits[round_.rows], round_.from_, int(round_.from_[0])
    windows = _windows_filled(round_, np.flatnonzero(bits) + first, window, pause)
    rows = [np.flatnonzero(bits & np.uint64(1 << number)) + first for number in range(variables)]
    seen = []
    for mine in rows:
        here = np.diff(np.searchsorted(mine, from_))
        seen.append(_total(here * (here / windows)) / max(1, len(mine)))
    sizes = np.diff(from_)
    filled, sizes = sizes > 0, sizes[sizes > 0]
    if window < EVER:
        ends = round_.end[from_[1:][filled] - 1].astype(np.float64) - round_.end[from_[:-1][filled]].astype(np.float64)
        spanned = np.maximum(1.0, ends / window)
    else:
        spanned = np.ones(len(sizes))
    return Census(seen, _total(sizes * (sizes / spanned)) / max(1, len(bits)), rows)


def _windows_filled(round_: Round, rows: np.ndarray, window: int, pause: int) -> np.ndarray:
    """By partition; rows: those of any variable."""
    groups = len(round_.from_) - 1
    if window == EVER:
        return np.ones(groups)
    group = np.searchsorted(round_.from_, rows, side="right") - 1
    apart = np.minimum(np.diff(round_.end[rows].astype(np.float64)), pause)
    apart[group[1:] != group[:-1]] = 0.0
    return np.maximum(1.0, np.bincount(group[1:], apart, groups) / window)


def _total(numbers: np.ndarray) -> float:
    """The sum from the first number to the last: the same however many there are."""
    return float(np.add.accumulate(numbers)[-1]) if len(numbers) else 0.0


def share_that_holds(
    arrays: EventArrays, round_: Round, test: JoinTest, rows: dict[str, np.ndarray], window: int, dice: np.ndarray
) -> tuple[int, int]:
    """(how many, of how many) sampled combinations of rows, within a window of each other, pass a test.

    dice float64[variables, n] in [0, 1): which rows of the first variable, and which of the others near those.
    """
    names = tuple(sorted(test.variables))
    first = rows[names[0]][(dice[0] * len(rows[names[0]])).astype(np.int64)]
    others = [
        _partners(first, rows[name], round_, window, dice[number]) for number, name in enumerate(names[1:], start=1)
    ]
    matrix = np.stack([first, *others], axis=1).astype(np.int32)
    matrix = matrix[(matrix >= 0).all(axis=1)]
    if len(names) == 2 and comparison_of(test.expression) is not None:
        held = _compare(arrays, test, names, matrix)
    else:
        held = hold(arrays.pair_tests((test,), names, ()), arrays.lanes, matrix)
    return int(np.count_nonzero(held)), len(matrix)


def _partners(chosen: np.ndarray, others: np.ndarray, round_: Round, window: int, dice: np.ndarray) -> np.ndarray:
    beside = np.empty(len(chosen), np.int64)
    given = {
        "chosen": chosen, "others": others, "from_": round_.from_, "end": round_.end, "dice": dice, "beside": beside,
        "settings": settings_of({WINDOW: window}),
    }  # fmt: skip
    compiled_for(partners_program).run(given)
    return beside


_COMPARE: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def _compare(arrays: EventArrays, test: JoinTest, names: tuple[str, ...], matrix: np.ndarray) -> np.ndarray:
    """Of each pair of rows, does a comparison of them hold? A few pairs need no code of their own."""
    comparison = comparison_of(test.expression)
    assert comparison is not None
    assert isinstance(test.expression, Apply)
    valid = np.ones(len(matrix), np.bool_)
    values = []
    for side in (comparison.left, comparison.right):
        assert side.at is not None
        assert side.at.labels is not None
        (name,) = side.at.labels
        rows = matrix[:, names.index(name)]
        lane, check = arrays.operand(side.expression)
        if check >= 0:
            valid &= arrays.lanes.valid[check][rows] != 0
        values.append(
            _ordered(arrays.lanes.floats[lane][rows]) if comparison.floating else arrays.lanes.ints[lane][rows]
        )
    return valid & _COMPARE[test.expression.operation](*values)


def _ordered(values: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of floats: NaN last, zeros alike."""
    bits = (values + 0.0).view(np.int64)
    return np.where(np.isnan(values), EVER, bits ^ ((bits >> 63) & EVER))
