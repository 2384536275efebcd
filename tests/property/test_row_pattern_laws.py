"""The laws for row patterns: oracle equality, chunk invariance, shard invariance."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from tests.reference.generate import COLUMNS, clauses, tables
from tests.reference.row_patterns import Exploded, evaluate
from tests.support.rows import finished as finished_or_not
from tests.support.rows import run_in_pieces, run_whole, spec_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


def canonical(rows: list[dict[str, Any]], ordered_within: str | None = None) -> list[tuple]:
    """Rows as comparable tuples, partitions in any order."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else round(value, 9) + 0.0
        return tuple(plain(part) for part in value) if isinstance(value, list) else value

    return sorted((tuple((name, plain(value)) for name, value in row.items()) for row in rows), key=repr)


def expectation(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]] | type[Exception]:
    """The oracle's rows, or the kind of error it raises; cases it cannot decide are given up."""
    try:
        return evaluate(parse_clause(text), rows, columns=list(COLUMNS), budget=30_000)
    except EpisodeDataError:
        return EpisodeDataError
    except (Exploded, NotImplementedError, ArithmeticError, RecursionError):  # beyond the oracle: says nothing
        assume(False)
        raise


def finished(spec: Any, output: Any) -> list[dict[str, Any]]:
    """Measures that only Spark can finish are left to the tests with Spark."""
    try:
        return finished_or_not(spec, output)
    except (NotImplementedError, ArithmeticError):
        assume(False)
        raise


def planned(text: str) -> Any:
    """The spec; combinations that are refused at plan time are none of this test's."""
    try:
        return spec_of(text)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)


@SETTINGS
@given(clauses(), tables())
def test_equals_the_oracle(text: str, rows: list[dict[str, Any]]) -> None:
    spec = planned(text)
    expected = expectation(text, rows)
    if expected is EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            run_whole(spec, rows)
        return
    actual = finished(spec, run_whole(spec, rows))
    assert canonical(actual) == canonical(expected)


@SETTINGS
@given(clauses(), tables(max_rows=14), st.data())
def test_chunks_do_not_matter(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    spec = planned(text)
    if spec.plan.order and not (spec.plan.order[0].column == "ts" and spec.plan.order[0].ascending):
        assume(False)
    if len(spec.plan.order) > 1:
        assume(False)
    rows = sorted(rows, key=lambda row: row["ts"]) if spec.plan.order else rows
    borders = [i for i in range(1, len(rows)) if not spec.plan.order or rows[i]["ts"] != rows[i - 1]["ts"]]
    cuts = sorted(data.draw(st.sets(st.sampled_from(borders)))) if borders else []
    pieces = list(zip([0, *cuts], [*cuts, len(rows)], strict=True))
    restore = data.draw(st.booleans())
    try:
        whole = canonical(finished(spec, run_whole(spec, rows)))
    except EpisodeDataError:
        with pytest.raises(EpisodeDataError):
            run_in_pieces(spec, rows, pieces, restore)
        return
    assert canonical(finished(spec, run_in_pieces(spec, rows, pieces, restore))) == whole


@SETTINGS
@given(clauses(), tables(max_rows=14), st.integers(2, 4))
def test_shards_do_not_matter(text: str, rows: list[dict[str, Any]], shards: int) -> None:
    spec = planned(text)
    assume(spec.plan.keys == ("k",))
    try:
        whole = canonical(finished(spec, run_whole(spec, rows)))
    except EpisodeDataError:
        assume(False)
    parts = [[row for row in rows if hash(row["k"]) % shards == shard] for shard in range(shards)]
    split = [row for part in parts for row in finished(spec, run_whole(spec, part))]
    assert canonical(split) == whole


LONG = settings(SETTINGS, max_examples=1_000)


@pytest.mark.slow
@LONG
@given(clauses(), tables())
def test_equals_the_oracle_at_length(text: str, rows: list[dict[str, Any]]) -> None:
    test_equals_the_oracle.hypothesis.inner_test(text, rows)


@pytest.mark.slow
@LONG
@given(clauses(), tables(max_rows=14), st.data())
def test_chunks_do_not_matter_at_length(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    test_chunks_do_not_matter.hypothesis.inner_test(text, rows, data)


@pytest.mark.parametrize(
    "pattern",
    ["(A (A $))", "(A A $ | A A)", "(A+ $)", "(A (A $)?)", "(A* (B | C | A))"],
)
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW"])
def test_incremental_matches_at_the_end_of_a_piece(pattern: str, skip: str) -> None:
    """Matches that `$` holds back come once the input has ended; those that came before are numbered, not repeated."""
    text = (
        f"ORDER BY ts MEASURES MATCH_NUMBER() AS number, FIRST(ts) AS first, LAST(ts) AS last "
        f"AFTER MATCH SKIP {skip} INCREMENTAL MATCH PATTERN {pattern} DEFINE A AS A.v <= 2, B AS B.v <= 1"
    )
    text = text if "B" in pattern else text.replace(", B AS B.v <= 1", "")
    rows = [{"k": 1, "ts": ts, "v": ts % 3, "f": 0.5, "s": "a"} for ts in range(7)]
    spec = planned(text)
    expected = canonical(expectation(text, rows))
    assert canonical(finished(spec, run_whole(spec, rows))) == expected
    for cut in range(1, 7):
        for restore in (False, True):
            assert canonical(finished(spec, run_in_pieces(spec, rows, [(0, cut), (cut, 7)], restore))) == expected
