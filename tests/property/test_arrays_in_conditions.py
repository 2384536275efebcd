"""Arrays that conditions collect from the match so far: the matcher and the oracle agree, whole and in pieces."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episode.lang.rows.parser import parse_clause
from tests.reference import row_patterns as oracle
from tests.support.rows import finished, run_in_pieces, run_whole, spec_of

NUMBERS = [
    "array_agg(A.v)", "array_agg(v)", "collect_set(B.v)", "array_agg(A.v + 1)", "array_agg(U.v)", "array(A.v, B.v)",
    "array(v, LAST(v, 1), FIRST(B.v))", "array(PREV(v), v + 1, 3)", "array(max(B.v), v, NULL)",
]  # fmt: skip
REALS = ["array_agg(A.f)", "collect_set(f)", "array_agg(B.f * 2)", "array(A.f, B.f)", "array(f, sum(f), 1.5E0)"]
STRINGS = [
    "array_agg(A.s)", "collect_set(s)", "array_agg(CLASSIFIER())", "array_agg(CLASSIFIER(U))", "array(A.s, B.s, 'b')",
]  # fmt: skip
ARRAYS = [
    "{xs}", "filter({xs}, x -> x > {x})", "filter({xs}, (x, i) -> i % 2 = 0)", "array_distinct({xs})",
    "array_sort({xs})", "sort_array({xs}, false)", "reverse({xs})", "slice({xs}, 2, 2)", "slice({xs}, -2, 2)",
    "array_remove({xs}, {one})", "array_append({xs}, {x})", "array_prepend({xs}, {x})", "concat({xs}, {ys})",
    "({xs} || {ys})", "array_union({xs}, {ys})", "array_intersect({xs}, {ys})", "array_except({xs}, {ys})",
    "array_compact(array_append({xs}, {x}))", "sort_array(array_append({xs}, {x}))",
    "array_sort(array_append({xs}, {x}))", "array_distinct(concat(array({x}, {x}), {xs}))",
    "filter({xs}, x -> exists({ys}, y -> y < x))", "transform({xs}, x -> greatest(x, {x}))",
    "transform({xs}, (x, i) -> CASE WHEN i > 0 THEN x END)",
]  # fmt: skip
CONDITIONS = [
    "size({zs}) <= 2", "array_contains({zs}, {x})", "NOT array_contains({zs}, {x})", "array_position({zs}, {x}) < 2",
    "array_min({zs}) <= {x}", "array_max({zs}) > {x}", "element_at({zs}, 1) <= {x}", "try_element_at({zs}, -2) IS NULL",
    "{zs}[1] IS NULL OR {zs}[0] <= {x}", "get({zs}, cast(size({zs}) - 1 AS bigint)) = {x}",
    "exists({zs}, z -> z > {x})", "forall({zs}, z -> z <= {x})",
    "arrays_overlap({zs}, {ys})", "NOT arrays_overlap({zs}, array({x}))", "{zs} = {ys}",
    "{zs} <= array({x}, {x})", "{zs} <> {xs}", "{zs} <=> array({x})", "cardinality({zs}) + array_size({ys}) < 4",
    "aggregate({zs}, 0, (n, z) -> CASE WHEN z > {x} THEN n + 1 ELSE n END) < 2",
    "reduce({zs}, 1, (n, z) -> n * 2, n -> n - 1) < 6", "forall({zs}, z -> array_contains({ys}, z))",
]  # fmt: skip
NESTED = [
    "exists(array_agg(A.v), x -> exists(array_agg(B.v), y -> array_contains(array_agg(v), y + 1) AND y > x))",
    "forall(array_agg(v), x -> size(filter(array_agg(U.v), y -> y >= x AND array_contains(array_agg(A.v), y))) < 3)",
    "aggregate(array_agg(v), 0, (n, x) -> n + size(array_distinct(filter(array_agg(B.v), y -> y <= x)))) < 4",
    "exists(array_agg(f), x -> forall(array_agg(A.f), y -> array_contains(array_agg(U.f), y) AND x <= y))",
]
"""Lambdas inside lambdas, with arrays that depend on the inner one alone."""
EXTREMES = [
    "max_by({a}, {b}) <= {x}", "min_by({a}, {b}) >= {x}", "max_by({a}, {b}) IS NULL OR min_by({a}, {b}) <> {x}",
]  # fmt: skip
PATTERNS = ["(A | B)+", "A (A | B)* C?", "(B | A){2,4}", "B? A+ B+"]

rows_of = st.lists(
    st.tuples(
        st.sampled_from([None, 1, 2, 3, 4]),
        st.sampled_from([None, -0.0, 0.0, 1.5, 2.0, float("nan"), float("inf")]),
        st.sampled_from([None, "a", "b", "A", "ab"]),
    ),
    min_size=1,
    max_size=7,
)


@st.composite
def conditions(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 7)) == 7:
        return draw(st.sampled_from(NESTED))
    kinds = [(NUMBERS, ["2", "v", "LAST(v, 1)"]), (REALS, ["1.5", "f", "PREV(f)"]), (STRINGS, ["'a'", "s", "B.s"])]
    sources, values = draw(st.sampled_from(kinds))
    x = draw(st.sampled_from(values))
    xs, ys = draw(st.sampled_from(sources)), draw(st.sampled_from(sources))
    zs = draw(st.sampled_from(ARRAYS)).format(xs=xs, ys=ys, x=x, one=values[0])
    if draw(st.booleans()):
        zs = draw(st.sampled_from(ARRAYS)).format(xs=zs, ys=ys, x=x, one=values[0])
    return draw(st.sampled_from(CONDITIONS)).format(xs=xs, ys=ys, zs=zs, x=x)


@st.composite
def extremes(draw: st.DrawFn) -> str:
    label = draw(st.sampled_from(["", "A.", "B.", "U."]))
    column, value = draw(
        st.sampled_from([("v", "2"), ("f", "1.5"), ("s", "'a'"), ("v + 1", "v"), ("CLASSIFIER", "'A'")])
    )
    by = draw(st.sampled_from(["v", "f", "s", "-v", "CLASSIFIER"]))

    def written(name: str) -> str:
        if name == "CLASSIFIER":
            return f"CLASSIFIER({label.rstrip('.')})"
        return f"-{label}{name[1:]}" if name.startswith("-") else f"{label}{name}"

    return draw(st.sampled_from(EXTREMES)).format(a=written(column), b=written(by), x=value)


def check(condition: str, pattern: str, values: list[tuple[Any, ...]], other: str | None, cuts: list[int]) -> None:
    text = (
        f"ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS b, count(A.*) AS n AFTER MATCH SKIP TO NEXT ROW "
        f"PATTERN ({pattern}) SUBSET U = (A, B) DEFINE A AS {condition}" + (f", B AS {other}" if other else "")
    )
    rows = [{"k": 1, "ts": ts, "v": v, "f": f, "s": s} for ts, (v, f, s) in enumerate(values)]
    expected = oracle.evaluate(parse_clause(text), rows, columns=["k", "ts", "v", "f", "s"])
    spec = spec_of(text)
    assert finished(spec, run_whole(spec, rows)) == expected
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    pieces = list(itertools.pairwise(bounds))
    assert finished(spec, run_in_pieces(spec, rows, pieces, restore=True)) == expected


@given(
    conditions(), st.sampled_from(PATTERNS), rows_of, st.none() | conditions(), st.lists(st.integers(0, 7), max_size=2)
)
def test_arrays(condition: str, pattern: str, values: list, other: str | None, cuts: list[int]) -> None:
    check(condition, pattern, values, other, cuts)


@given(extremes(), st.sampled_from(PATTERNS), rows_of, st.none() | extremes(), st.lists(st.integers(0, 7), max_size=2))
def test_the_value_of_an_extreme(
    condition: str, pattern: str, values: list, other: str | None, cuts: list[int]
) -> None:
    check(condition, pattern, values, other, cuts)


@pytest.mark.parametrize(
    ("array", "condition"), [*((array, "{zs} <= {ys}") for array in ARRAYS), *(("{xs}", each) for each in CONDITIONS)]
)
def test_each_function(array: str, condition: str) -> None:
    values = [(1, 0.5, "a"), (3, 2.0, "b"), (None, None, None), (3, 1.5, "b"), (2, float("nan"), "a")]
    for source, x, one in (
        ("array_agg(A.v)", "v", "3"),
        ("array_agg(f)", "1.5", "1.5"),
        ("collect_set(A.s)", "s", "'b'"),
        ("array(v, LAST(v, 1))", "v", "3"),
    ):
        zs = array.format(xs=source, ys=source, x=x, one=one)
        check(condition.format(xs=source, ys=source, zs=zs, x=x), "A+ B?", values, None, [2])


@pytest.mark.parametrize("condition", NESTED)
def test_lambdas_inside_lambdas(condition: str) -> None:
    values = [(1, 0.5, "a"), (3, 2.0, "b"), (None, None, None), (3, 1.5, "b"), (2, float("nan"), "a"), (4, 0.5, "a")]
    for pattern in PATTERNS:
        check(condition, pattern, values, "v > 1", [2])


LONG = settings(max_examples=1_000)


@pytest.mark.slow
@LONG
@given(
    conditions(), st.sampled_from(PATTERNS), rows_of, st.none() | conditions(), st.lists(st.integers(0, 7), max_size=2)
)
def test_arrays_at_length(condition: str, pattern: str, values: list, other: str | None, cuts: list[int]) -> None:
    check(condition, pattern, values, other, cuts)
