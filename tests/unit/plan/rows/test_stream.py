"""`Options(match_times=True)`: two measures that a clause gets beside its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.parser import parse_clause
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.stream import with_match_times
from episode.plan.schema import InputSchema
from tests.support.rows import ARROW_TYPES, SPARK_TYPES, finished, run_whole

PATTERN = "PATTERN (A B+) DEFINE A AS v = 0, B AS v > 0"
ROWS = [{"k": 1, "ts": ts, "v": v, "f": None, "s": None} for ts, v in [(10, 1), (20, 2), (30, 0), (40, 3), (50, 4)]]


def rows_of(text: str) -> list[dict[str, Any]]:
    clause = with_match_times(parse_clause(text), SPARK_TYPES)
    spec = RowPatternSpec(plan_row_pattern(clause, InputSchema(SPARK_TYPES)), pa.schema(list(ARROW_TYPES.items())))
    return finished(spec, run_whole(spec, ROWS))


@pytest.mark.parametrize(
    ("order", "start", "end"), [("ts", 30, 50), ("ts ASC", 30, 50), ("ts DESC", 10, 30), ("k, ts", 1, 1)]
)
@pytest.mark.parametrize("rows", ["", "ALL ROWS PER MATCH"])
def test_the_least_and_the_greatest_time(order: str, start: int, end: int, rows: str) -> None:
    found = rows_of(f"ORDER BY {order} MEASURES count(*) AS n {rows} {PATTERN}")
    assert {(row["match_start"], row["match_end"]) for row in found} == {(start, end)}
    assert len(found) == (3 if rows else 1)


@pytest.mark.parametrize("name", ["match_start", "match_end", "Match_End"])
def test_a_measure_of_the_same_name(name: str) -> None:
    text = f"ORDER BY ts MEASURES count(*) AS n, B.v AS {name} {PATTERN}"
    with pytest.raises(EpisodeAnalysisError, match=f"A measure cannot be called {name} where") as raised:
        with_match_times(parse_clause(text), SPARK_TYPES)
    error = raised.value
    assert (error.position, error.length) == (text.index("B.v"), len(f"B.v AS {name}"))
    assert error.hint is not None
    assert "another name" in error.hint


@pytest.mark.parametrize(
    "text",
    [f"PARTITION BY t.match_end ORDER BY ts {PATTERN}", f"ORDER BY ts ALL ROWS PER MATCH {PATTERN}"],
)
def test_a_column_of_the_same_name(text: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match="The output has a column match_end already"):
        with_match_times(parse_clause(text), ["ts", "v", "match_end"])


def test_a_column_that_does_not_come_out() -> None:
    clause = with_match_times(parse_clause(f"ORDER BY ts {PATTERN}"), ["ts", "v", "match_end"])
    assert [measure.name for measure in clause.measures] == ["match_start", "match_end"]


def test_without_an_order() -> None:
    with pytest.raises(EpisodeAnalysisError, match="needs an ORDER BY"):
        with_match_times(parse_clause(PATTERN), SPARK_TYPES)


@pytest.mark.parametrize(("timed_out", "delay"), [("", 0), (" EMIT TIMED OUT MATCHES", 6)])
def test_the_delay_of_the_end_of_a_match_that_may_time_out(timed_out: str, delay: int) -> None:
    """A match of fixed length is decided with its last row; one that times out, when its window has passed."""
    types = {"ts": "bigint", "v": "bigint"}
    clause = parse_clause(f"ORDER BY ts MEASURES A.v AS v PATTERN (A B) WITHIN 6{timed_out} DEFINE A AS A.v < 2")
    plan = plan_row_pattern(with_match_times(clause, types), InputSchema(types))
    assert plan.delays()["match_end"] == delay
