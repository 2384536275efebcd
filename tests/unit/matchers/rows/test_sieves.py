"""Which conditions are sieves, and what they let through, row by row against a plain loop."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from episode.kernels.rows.sifting import FAILS, PASSES, UNDECIDED, hopeless_starts, sift
from episode.matchers.comparing import compare_floats
from episode.matchers.rows import matcher as row_matcher
from episode.matchers.rows.sieves import sieves_of
from episode.matchers.running import run
from tests.support.rows import ARROW_TYPES, spec_of


@pytest.mark.parametrize(
    ("pattern", "define", "expected"),
    [
        ("(A B*? C)", "C AS C.v < A.v - 100", True),
        ("(A B*? C)", "C AS A.f > C.f + 1 AND C.v > 0", True),
        ("(A B*? C)", "C AS C.v = A.v", True),
        ("(A B*? C)", "C AS C.v < B.v", False),  # not the start row
        ("(A B*? C)", "B AS B.v < A.v, C AS C.v > 1", False),  # no match needs B
        ("(A+ B*? C)", "C AS C.v < A.v", False),  # the last A is not the start row
        ("(A B C A)", "C AS C.v < A.v", False),
        ("((A B)+ C)", "C AS C.v < A.v", False),
        ("(A B*? C)", "C AS C.s = A.s", False),  # ranks of strings do not last
        ("(A B*? C)", "C AS C.v < PREV(A.v)", False),
    ],
)
def test_which_conditions_are_sieves(pattern: str, define: str, expected: bool) -> None:
    text = f"ORDER BY ts MEASURES A.v AS a PATTERN {pattern} WITHIN 9 DEFINE {define}"
    assert bool(sieves_of(spec_of(text).plan)) == expected
    assert bool(sieves_of(spec_of(text.replace("WITHIN 9 ", "")).plan)) == expected
    emitting = text.replace("WITHIN 9", "WITHIN 9 EMIT TIMED OUT MATCHES")
    assert not sieves_of(spec_of(emitting).plan)


@pytest.mark.parametrize("orders", [0b001, 0b011, 0b010, 0b100, 0b110, 0b101])
@pytest.mark.parametrize("seed", range(6))
def test_a_sieve_finds_what_a_loop_finds(orders: int, seed: int) -> None:
    """Starts in order, rows in pieces; what is known of earlier starts and pieces is handed on."""
    draw = np.random.default_rng(seed)
    n, within = 300, int(draw.integers(1, 250))
    time = np.cumsum(draw.integers(0, 3, n))
    values = draw.integers(0, 40, (1, n)).astype(np.float64)
    values[0, draw.random(n) < 0.05] = np.nan
    bound = (values + draw.choice([-38, -10, 0, 10, 38], n)).astype(np.float64)
    floats = np.concatenate([values, bound])
    valid = (draw.random((2, n)) < 0.95).astype(np.uint8)
    bits = np.where(draw.random(n) < 0.8, np.uint64(3), np.uint64(1)).astype(np.uint64)
    sieves = np.array([[2, 1, 0, 0, 1, 1, orders]], np.int64)
    start, hi, extreme, sifted = 0, 0, np.int64(-1), np.int64(-1)
    while start < n:
        until, final = int(time[hi - 1]) - 1 if hi else -1, hi == n
        if start >= hi:
            hi = min(n, hi + int(draw.integers(1, 40)))
            continue
        answer, extreme, sifted = sift(
            sieves, start, extreme, sifted, hi, hi, within, until, final, time, bits, np.zeros((0, n), np.int64),
            floats, valid,
        )  # fmt: skip
        passing = [
            row
            for row in range(start + 1, hi)
            if time[row] - time[start] <= within and bits[row] == 3 and valid[0, row] and valid[1, start]
            and orders >> (compare_floats(floats[0, row], floats[1, start]) + 1) & 1
        ]  # fmt: skip
        over = final or bool(time[hi - 1] - time[start] > within) or until - int(time[start]) >= within
        if answer == PASSES:
            assert passing
        elif answer == FAILS:
            assert not passing
            assert over or not valid[1, start]
        else:
            assert answer == UNDECIDED
            assert not passing
            assert not over
            hi = min(n, hi + int(draw.integers(1, 40)))
            continue
        start += int(draw.integers(1, 4))


@pytest.mark.parametrize("orders", [0b001, 0b011, 0b010, 0b100, 0b110, 0b101])
@pytest.mark.parametrize("within", [-1, 0, 7, 60])
def test_all_starts_at_once(orders: int, within: int) -> None:
    draw = np.random.default_rng(orders * 100 + within + 1)
    n = 300
    bounds = np.array([0, 1, 120, 300])
    time = np.cumsum(draw.integers(0, 3, n))
    own, wanted = draw.integers(0, 25, n), draw.integers(0, 25, n) + draw.choice([-20, 0, 20], n)
    wanted = np.clip(wanted, 0, 44)
    is_start, is_candidate = draw.random(n) < 0.7, draw.random(n) < 0.4
    found = hopeless_starts(bounds[:-1], bounds[1:], within, time, is_start, is_candidate, own, wanted, orders)
    for lo, hi in itertools.pairwise(bounds):
        for start in range(lo, hi):
            passing = [
                row
                for row in range(start + 1, hi)
                if is_candidate[row] and (within < 0 or time[row] - time[start] <= within)
                and orders >> (int(np.sign(own[row] - wanted[start])) + 1) & 1
            ]  # fmt: skip
            assert found[start] == bool(is_start[start] and not passing)


@pytest.mark.parametrize("mode", ["", "MAXIMAL MATCH ", "INCREMENTAL MATCH ", "ALL MATCHES "])
@pytest.mark.parametrize("within", ["", " WITHIN 2000"])
def test_starts_that_cannot_match_are_found_together(mode: str, within: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each start row would look through all rows, or its whole window; nulls are no partners."""
    called = []
    sifted = row_matcher.without_hopeless_starts
    monkeypatch.setattr(
        row_matcher,
        "without_hopeless_starts",
        lambda *given: called.append(1) or sifted(*given),  # type: ignore[func-returns-value]
    )
    n = 4_000
    value = np.random.default_rng(3).integers(0, 60, n)
    value[3_500:][value[3_500:] == 7] = 5_000
    ts = np.arange(n)
    columns = {"k": np.zeros(n), "ts": ts, "v": pa.array(value, mask=value == 11), "f": np.zeros(n), "s": [""] * n}
    table = pa.table(
        {name: pa.array(columns[name], from_pandas=True).cast(type_) for name, type_ in ARROW_TYPES.items()}
    )
    text = (
        f"ORDER BY ts MEASURES A.ts AS a, C.ts AS c AFTER MATCH SKIP PAST LAST ROW {mode}"
        f"PATTERN (A B* C){within} DEFINE C AS C.v = A.v - 4995"
    )
    found = run(spec_of(text), table)
    assert called == [1]
    expected, start = [], 0
    while start < n:
        last = min(n, start + 2001) if within else n
        ends = [row for row in range(start + 1, last) if value[row] == 5] if value[start] == 5_000 else []
        if ends:
            expected += [(start, end) for end in (ends if mode[:3] in ("INC", "ALL") else ends[-1:])]
        start = ends[-1] + 1 if ends else start + 1
    assert list(zip(*(column.to_pylist() for column in found.columns[:2]), strict=True)) == expected
    assert expected
