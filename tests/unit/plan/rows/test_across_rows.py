"""What a condition may do with the values of several rows, as docs/reference-match-recognize.md lists it."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeUnsupportedError
from episode.lang.rows.parser import parse_clause
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema

TYPES = {"ts": "timestamp", "d": "date", "v": "int", "f": "double", "s": "string", "b": "boolean", "c": "decimal(9,2)"}
EVALUATED = [
    "A.v + B.v - A.v * B.v / A.v > A.v % B.v", "A.v div B.v = 1", "-(A.v + B.v) < 0", "abs(A.f - B.f) < 1",
    "sqrt(A.f + B.f) + exp(A.f - B.f) + ln(A.f / B.f) + power(A.f, B.f) > pow(A.f, B.v)", "A.c + B.c > A.c - B.c",
    "A.s = B.s", "A.s <> B.s", "A.s < B.s", "A.v <= B.v", "A.f > B.f", "A.f >= B.f", "A.s <=> B.s",
    "B.f BETWEEN A.f AND A.f + 1", "B.v IN (A.v, A.v + 1)", "(A.v + B.v) IS NULL", "(A.v > B.v) IS NOT TRUE",
    "isnan(A.f - B.f)", "A.v > B.v AND A.b OR NOT B.b", "CASE WHEN A.v > B.v THEN A.b ELSE B.b END",
    "CASE A.v WHEN B.v THEN true END", "if(A.v > B.v, A.b, B.b)", "coalesce(A.b, B.b)", "nvl(A.b, B.b)",
    "ifnull(A.b, B.b)", "nullif(A.v, B.v) = 1", "least(A.v, B.v) = 1", "greatest(A.v, B.v) = 1",
    "B.ts - A.ts > INTERVAL 1 HOUR", "B.d - A.d > INTERVAL '1' DAY", "B.ts > A.ts + INTERVAL 5 MINUTES",
    "B.d > A.d + 2", "datediff(B.d, A.d) > 2", "timestampdiff(HOUR, A.ts, B.ts) > 2",
    "timestampdiff(DAY, A.ts, B.ts) > 2", "A.v IS DISTINCT FROM B.v", "nullif(A.s, B.s) IS NULL",
    "B.ts - A.d > INTERVAL 1 HOUR", "A.d - B.ts > INTERVAL 1 HOUR",
    "CAST(A.v + B.v AS bigint) > 1", "CAST(A.v + B.v AS double) > 1", "CAST(A.ts AS bigint) > CAST(B.ts AS bigint)",
    "B.f > avg(A.f)", "array_contains(array_agg(A.v), B.v)",
]  # fmt: skip
REFUSED = [
    "round(B.f - A.f) > 0", "floor(B.f - A.f) > 0", "A.s || B.s = 'xy'", "B.s LIKE A.s", "A.v & B.v = 1",
    "CAST(A.f + B.f AS int) > 2",
]  # fmt: skip


def plan(condition: str) -> None:
    text = f"ORDER BY ts MEASURES A.v AS v PATTERN (A B) DEFINE B AS {condition}"
    plan_row_pattern(parse_clause(text), InputSchema(TYPES))


@pytest.mark.parametrize("condition", EVALUATED)
def test_evaluated(condition: str) -> None:
    plan(condition)


@pytest.mark.parametrize("condition", REFUSED)
def test_refused_when_the_query_is_built(condition: str) -> None:
    with pytest.raises(EpisodeUnsupportedError, match="The condition of B relates several rows in a way") as raised:
        plan(condition)
    assert raised.value.position is not None
