"""Collapsed results in process: what comes out, and what is refused."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import episode
from episode import EpisodeAnalysisError, EpisodeDataError, EpisodeSyntaxError, Options, Tuning

QUERY = "PATTERN SEQ(A a, B+ b[], C c) WITHIN 500"
GIVEN = {"time": "ts", "type_column": "type"}


def events(count: int) -> pa.Table:
    types = ["A", *["B"] * count, "C"]
    return pa.table({"ts": list(range(count + 2)), "type": types, "x": [float(n) for n in range(count + 2)]})


@pytest.mark.parametrize("count", [10, 33, 100])
def test_numbers_are_exact(count: int) -> None:
    found = episode.match_local(events(count), f"{QUERY} RETURN COLLAPSED b[].ts AS bs", **GIVEN)
    assert found.column_names == ["bs", "match_start", "match_end", "matches"]
    assert found.column("matches").to_pylist() == [Decimal(2**count - 1)]
    assert found.column("bs").to_pylist() == [list(range(1, count + 1))]


def test_numbers_beyond_decimals() -> None:
    with pytest.raises(EpisodeDataError, match=r"about 8e\+59 matches, and DECIMAL\(38, 0\) has 38 digits"):
        episode.match_local(events(199), f"{QUERY} RETURN COLLAPSED a.ts", **GIVEN)
    options = Options(tuning=Tuning(counts="double"))
    found = episode.match_local(events(199), f"{QUERY} RETURN COLLAPSED a.ts", options=options, **GIVEN)
    assert found.column("matches").to_pylist() == [pytest.approx(2.0**199)]


def test_what_is_counted_one_by_one_has_a_budget() -> None:
    query = QUERY.replace("WITHIN", "WHERE sum(b[].x) > 3 WITHIN") + " RETURN COLLAPSED a.ts"
    assert episode.match_local(events(8), query, **GIVEN).column("matches").to_pylist() == [Decimal(251)]
    with pytest.raises(EpisodeDataError, match=r"more than 100 matches; they are counted one by one because of sum\(b"):
        episode.match_local(events(8), query, options=Options(tuning=Tuning(step_budget=100)), **GIVEN)


def test_options_that_have_no_meaning_together() -> None:
    with pytest.raises(EpisodeAnalysisError, match="this query does not count them"):
        episode.match_local(events(2), QUERY, options=Options(tuning=Tuning(counts="double")), **GIVEN)
    with pytest.raises(EpisodeAnalysisError, match="sets how choices are made"):
        episode.match_local(
            events(2), f"{QUERY} RETURN COLLAPSED", options=Options(tuning=Tuning(closure="runs")), **GIVEN
        )
    with pytest.raises(EpisodeSyntaxError, match="cannot be called matches"):
        episode.match_local(events(2), f"{QUERY} RETURN COLLAPSED a.ts AS matches", **GIVEN)
