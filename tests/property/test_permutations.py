"""PERMUTE is the alternation of all orders of its parts, in lexicographic order (SQL:2016)."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from tests.reference.generate import COLUMNS, permutations
from tests.reference.row_patterns import Exploded, evaluate
from tests.support.rows import finished, run_whole, spec_of
from tests.unit.plan.rows.test_program import program_of, ways

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
LABELS = ["A", "B", "C"]
MEASURES = "FIRST(ts) AS first, count(*) AS rows, array_agg(CLASSIFIER()) AS labels, MATCH_NUMBER() AS number"


CONDITIONS = ["v < 2", "v > 0", "v <> 1", "v <> 0", "TRUE", "v = 1", "v <= LAST(A.v)", "count(A.*) < 2"]
"""Many rows satisfy several of them, so that a part can match in several ways; the last two depend on the path."""


@st.composite
def clauses(draw: st.DrawFn) -> tuple[str, str]:
    """A clause with PERMUTE, and the same clause with the orders written out."""
    permuted, written_out = draw(permutations(LABELS))
    defined = ", ".join(f"{label} AS {draw(st.sampled_from(CONDITIONS))}" for label in LABELS)
    mode = draw(st.sampled_from(["", "", "", "MAXIMAL MATCH", "ALL MATCHES"]))
    skip = draw(st.sampled_from(["PAST LAST ROW", "TO NEXT ROW"]))
    before = f"ORDER BY ts MEASURES {MEASURES} AFTER MATCH SKIP {skip} {mode}"
    # The last alternative has all labels, so that each has a place for its condition; it is hardly ever taken.
    first, second = (f"{before} PATTERN ({text} | A B C $) DEFINE {defined}" for text in (permuted, written_out))
    return first, second


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, Any]]:
    values = draw(st.lists(st.sampled_from([0, 1, 2, 1]), min_size=3, max_size=6))
    return [{"k": 1, "ts": ts, "v": v, "f": 0.5, "s": "a"} for ts, v in enumerate(values)]


@SETTINGS
@given(permutations(LABELS))
def test_the_ways_through_permute_are_those_through_its_orders(texts: tuple[str, str]) -> None:
    """Whatever the conditions are: all matches of up to 5 rows, in order of preference."""
    permuted, written_out = (list(dict.fromkeys(islice(ways(program_of(text), 5), 20_000))) for text in texts)
    assert permuted[:200] == written_out[:200]


@SETTINGS
@given(clauses(), tables())
def test_permute_is_its_orders_written_out(texts: tuple[str, str], rows: list[dict[str, Any]]) -> None:
    permuted, written_out = (_rows(text, rows) for text in texts)
    assert permuted == written_out
    try:
        expected = evaluate(parse_clause(texts[0]), rows, columns=list(COLUMNS), budget=30_000)
    except (Exploded, ArithmeticError, RecursionError):  # beyond the oracle: says nothing
        return
    assert permuted == expected


def _rows(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    try:
        spec = spec_of(text)
        return finished(spec, run_whole(spec, rows))
    except EpisodeUnsupportedError:  # too many orders, or a condition that needs Spark
        assume(False)
        raise


@pytest.mark.slow
@settings(SETTINGS, max_examples=2_000)
@given(clauses(), tables())
def test_permute_is_its_orders_written_out_at_length(texts: tuple[str, str], rows: list[dict[str, Any]]) -> None:
    test_permute_is_its_orders_written_out.hypothesis.inner_test(texts, rows)
