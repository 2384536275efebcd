"""Subqueries where there is no Spark: refused with their place, in MEASURES, DEFINE and windows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import episode

TABLE = pa.table({"id": [1, 2], "v": [3, 4]})
PATTERN = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY id MEASURES {} AS m PATTERN (A) DEFINE A AS {})"
WINDOW = (
    "SELECT m OVER w FROM t WINDOW w AS (ORDER BY id MEASURES {} AS m ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING "
    "PATTERN (A) DEFINE A AS {})"
)


@pytest.mark.parametrize("text", [PATTERN, WINDOW])
@pytest.mark.parametrize(
    ("measure", "condition"),
    [("(SELECT 1)", "true"), ("1", "v > (SELECT 1)"), ("1", "v IN (SELECT 1)"), ("1", "EXISTS (SELECT 1)"),
     ("sum(v + (SELECT 1))", "true"), ("1", "LAST(v + (SELECT 1), 1) > 0")],
)  # fmt: skip
def test_in_process(text: str, measure: str, condition: str) -> None:
    query = text.format(measure, condition)
    with pytest.raises(episode.EpisodeUnsupportedError, match="A subquery is not evaluated here") as raised:
        episode.sql_local(query, t=TABLE)
    assert raised.value.position == query.index("SELECT 1")
