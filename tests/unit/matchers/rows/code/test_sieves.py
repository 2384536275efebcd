"""Labels that start rows lack, and what sieves let through, against plain loops."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from episode.matchers.rows.arrays import ATTEMPT_FIELDS, EXTREME_AT, SIFTED
from episode.matchers.rows.code.arrays import ROWS, SETTINGS, UNTIL, WITHIN
from episode.matchers.rows.code.sieves import (
    DISMISSED,
    FAILS,
    LACKING,
    PASSES,
    UNDECIDED,
    SieveColumns,
    begin_sieve,
    keep_sieve,
    seek_labels,
    sift,
)
from episode.matchers.rows.code.waiting_ways import EXTREME, RARE, SIFTED_TO
from episode.native.builder import Scope
from episode.native.ir import Value
from tests.unit.matchers.rows.code.leaves import Leaf

ORDERS = [0b001, 0b011, 0b010, 0b100, 0b110, 0b101]


def arrays_of(bits: np.ndarray, time: np.ndarray, within: int) -> dict[str, np.ndarray]:
    arrays = {
        "bits": bits, "time": time, "rare": np.full(RARE, -1, np.int64), "settings": np.zeros(SETTINGS, np.int64)
    }  # fmt: skip
    arrays["settings"][[WITHIN, ROWS]] = within, len(bits)
    return arrays


# ---- labels ----------------------------------------------------------------------------------------------------------


@lru_cache
def seeking(windowed: bool, final: bool) -> Leaf:
    def seek(s: Scope, *given: Value) -> tuple[Value, Value]:
        found = seek_labels(s, *given, required=2, windowed=windowed, final=final)
        return found.equals(DISMISSED), found.equals(LACKING)

    return Leaf(seek, 3)


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_labels_that_a_start_row_lacks(seed: int, windowed: bool) -> None:
    """Starts in order, rows in pieces; where labels were looked for is handed on."""
    draw = np.random.default_rng(seed)
    n, within, lookahead = 150, int(draw.integers(0, 25)) if windowed else -1, int(draw.integers(0, 3))
    time = np.cumsum(draw.integers(0, 3, n)) - 40
    bits = draw.choice(np.array([1, 2, 4, 1 << 63], np.uint64), n, p=[0.85, 0.05, 0.05, 0.05])
    required = np.array([2 | 1 << 63, 4], np.uint64)
    arrays = {**arrays_of(bits, time, within), "required": required, "seek": np.zeros(2, np.int64)}
    for hi in sorted(draw.integers(1, n, 6).tolist()) + [n]:
        final = hi == n
        available = hi if final else hi - lookahead
        until = int(time[hi - 1]) - int(draw.integers(0, 2))
        arrays["settings"][UNTIL] = until
        for start in range(int(arrays["seek"].min()), available):
            dismissed, lacking = seeking(windowed, final)(arrays, start, available, hi)
            inside = time - time[start] <= within if windowed else np.ones(n, np.bool_)
            offered = [[row for row in range(start, available) if bits[row] & label] for label in required]
            usable = [any(inside[row] for row in rows) for rows in offered]
            over = final or (windowed and (until - time[start] >= within or not inside[:hi].all()))
            if dismissed:
                assert over
                assert not all(usable)
                continue
            assert lacking == any(not rows for rows in offered)
            assert all(usable) or not final
            assert all(usable) or not windowed or available < hi or until - time[start] < within


# ---- sieves ----------------------------------------------------------------------------------------------------------


@lru_cache
def sifting(sieve: SieveColumns, windowed: bool, final: bool) -> Leaf:
    return Leaf(lambda s, *given: sift(s, *given, sieve=sieve, windowed=windowed, final=final), 3)


def order(one: float, other: float) -> int:
    """NaN equals itself, and is greater than everything else."""
    keys = [(value != value, 0 if value != value else value) for value in (one, other)]
    return int(keys[0] > keys[1]) - int(keys[0] < keys[1])


@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(("orders", "rising"), [*((orders, False) for orders in ORDERS), (0b001, True), (0b011, True)])
def test_a_sieve_finds_what_a_loop_finds(
    orders: int, rising: bool, windowed: bool, nulls: bool, is_float: bool
) -> None:
    """Starts in order, rows in pieces; what is known of earlier starts and pieces is handed on. rising: values are in
    order, so that the first candidate decides."""
    draw = np.random.default_rng(orders)
    n = 120
    sieve = SieveColumns.of(
        np.array([-(2**63), is_float, 1, 0 if nulls else -1, 0, 1 if nulls else -1, orders, rising])
    )
    assert sieve.bit == 2**63
    for _ in range(2):
        within = int(draw.integers(1, 90)) if windowed else -1
        time = np.cumsum(draw.integers(0, 3, n))
        values = draw.integers(0, 40, n).astype(np.float64 if is_float else np.int64)
        bound = values + draw.choice([-38, -10, 0, 10, 38], n)
        if is_float:
            values[draw.random(n) < 0.05] = np.nan
        if rising:
            values.sort()
        valid = (draw.random((2, n)) < 0.95).astype(np.uint8) if nulls else np.ones((2, n), np.uint8)
        bits = np.where(draw.random(n) < 0.8, np.uint64(2**63 | 1), np.uint64(1))
        lanes = np.concatenate([bound, values])
        nothing = {"ints": np.zeros(0, np.int64), "floats": np.zeros(0, np.float64)}
        arrays = {**arrays_of(bits, time, within), **nothing, "valid": valid.reshape(-1)}
        arrays["floats" if is_float else "ints"] = lanes
        start, hi = 0, 1
        while start < n:
            until, final = int(time[hi - 1]) - 1, hi == n
            if start >= hi:
                hi = min(n, hi + int(draw.integers(1, 40)))
                continue
            arrays["settings"][UNTIL] = until
            (answer,) = sifting(sieve, windowed, final)(arrays, start, hi, hi)
            passing = [
                row
                for row in range(start + 1, hi)
                if (not windowed or time[row] - time[start] <= within) and bits[row] != 1 and valid[0, row]
                and valid[1, start] and orders >> (order(values[row], bound[start]) + 1) & 1
            ]  # fmt: skip
            over = final or (windowed and (time[hi - 1] - time[start] > within or until - time[start] >= within))
            if answer == UNDECIDED:
                assert not passing
                assert not over
                hi = min(n, hi + int(draw.integers(1, 40)))
                continue
            assert answer == (PASSES if passing else FAILS)
            assert passing or over or not valid[1, start] or rising
            start += int(draw.integers(1, 4))


def test_what_a_sieve_knows_is_kept_by_partition() -> None:
    fields = np.arange(ATTEMPT_FIELDS * 3, dtype=np.int64)
    arrays = {"rare": np.zeros(RARE, np.int64), "opened": fields, "key_lo": np.zeros(3, np.int64)}
    Leaf(lambda s, k: begin_sieve(s, k, kept=True), 1)(arrays, 2)
    assert arrays["rare"][[EXTREME, SIFTED_TO]].tolist() == [EXTREME_AT * 3 + 2, SIFTED * 3 + 2]
    arrays["rare"][[EXTREME, SIFTED_TO]] = 70, 80
    Leaf(keep_sieve, 1)(arrays, 1)
    expected = np.arange(ATTEMPT_FIELDS * 3)
    expected[[EXTREME_AT * 3 + 1, SIFTED * 3 + 1]] = 70, 80
    assert arrays["opened"].tolist() == expected.tolist()
    Leaf(lambda s, k: begin_sieve(s, k, kept=False), 1)(arrays, 0)
    assert arrays["rare"][[EXTREME, SIFTED_TO]].tolist() == [-1, -1]
