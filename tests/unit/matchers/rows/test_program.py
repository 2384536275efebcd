"""Which conditions are sieves, and that they find the start rows that cannot match."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.matchers.rows import matcher as row_matcher
from episode.matchers.rows.program import sieves_of
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


@pytest.mark.parametrize(
    ("order", "define", "expected"),
    [
        ("ts", "C.ts <= A.ts + 9", True),
        ("ts", "A.ts + 9 > C.ts", True),
        ("ts", "C.ts >= A.ts + 9", False),
        ("ts", "C.v <= A.v", False),
        ("v DESC, ts", "C.v > A.v - 9", True),
        ("v DESC, ts", "C.v < A.v - 9", False),
    ],
)
def test_conditions_on_the_order_are_decided_by_the_first_candidate(order: str, define: str, expected: bool) -> None:
    (sieve,) = sieves_of(spec_of(f"ORDER BY {order} MEASURES A.v AS a PATTERN (A B*? C) DEFINE C AS {define}").plan)
    assert sieve.first_decides == expected


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
