"""Row patterns in windows at work: every row comes out once, however the rows come in and the matches go out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeUnsupportedError
from episode.lang.statement import parse_statement
from episode.matchers.rows import arrays as work
from episode.matchers.rows.windows import WindowSpec
from episode.matchers.running import run
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema

TYPES = {"k": "bigint", "ts": "bigint", "v": "bigint"}
ROWS = pa.table({"k": [ts % 3 for ts in range(60)], "ts": range(60), "v": [(7 * ts) % 11 for ts in range(60)]})


def spec_of(search: str, skip: str, frame: str) -> WindowSpec:
    statement = parse_statement(f"""
        SELECT ids OVER w, count(*) OVER w FROM t WINDOW w AS (
          PARTITION BY k ORDER BY ts MEASURES array_agg(ts) AS ids ROWS BETWEEN CURRENT ROW AND {frame} FOLLOWING
          AFTER MATCH SKIP {skip} {search} PATTERN (A B+) DEFINE B AS v > PREV(v)
        )
    """)
    return WindowSpec(plan_window(statement.windowed[0].windows[0], InputSchema(TYPES)), ROWS.schema)


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    return table.sort_by("ts").to_pylist()


@pytest.mark.parametrize("search", ["INITIAL", "SEEK"])
@pytest.mark.parametrize("frame", ["UNBOUNDED", "3"])
def test_pieces_and_restored_states_give_the_same_rows(search: str, frame: str) -> None:
    spec = spec_of(search, "PAST LAST ROW", frame)
    whole = sorted_rows(run(spec, ROWS))
    assert [row["ts"] for row in whole] == list(range(60))
    pieces = [ROWS.slice(0, 7), ROWS.slice(7, 20), ROWS.slice(27)]
    assert sorted_rows(run(spec, pieces)) == whole
    assert sorted_rows(run(spec, pieces, restore=True)) == whole


@pytest.mark.parametrize("search", ["INITIAL", "SEEK"])
@pytest.mark.parametrize("skip", ["PAST LAST ROW", "TO NEXT ROW"])
def test_matches_are_handed_out_in_rounds(search: str, skip: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few matches at once, rows come out in several tables, each once."""
    spec = spec_of(search, skip, "UNBOUNDED")
    many = pa.concat_tables(
        [ROWS.set_column(1, "ts", pa.array(range(60 * at, 60 * at + 60), pa.int64())) for at in range(60)]
    )
    whole = run(spec, many)
    monkeypatch.setattr(work, "MOST_MATCHES", 1)
    monkeypatch.setattr(work, "MOST_ROWS", 1)
    assert sorted_rows(run(spec, many)) == sorted_rows(whole)
    assert len(whole) == len(many)


def test_names_of_columns() -> None:
    found = episode.sql_local(
        """
        SELECT t.ts, low OVER w, count(*) OVER w, low  OVER w + 1, -low OVER w AS minus, low OVER w shown,
          count( * ) OVER w
        FROM t WINDOW w AS (
          ORDER BY ts MEASURES min(v) AS low ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B)
        )
        """,
        t=ROWS.slice(0, 2),
    )
    assert found.column_names == ["ts", "low", "count(*)", "low + 1", "minus", "shown", "count( * )"]
    assert [row["minus"] for row in found.to_pylist()] == [0, None]


def test_what_needs_spark_in_process() -> None:
    window = "WINDOW w AS (ORDER BY ts ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B))"
    for query in (
        f"SELECT count(*) OVER w FROM t WHERE v > 3 {window}",
        f"SELECT count(*) OVER w FROM t {window} ORDER BY ts",
        f"SELECT count(*) OVER w FROM (SELECT * FROM t) {window}",
        f"SELECT count(*) OVER w, rank() OVER x FROM t {window}, x AS (ORDER BY ts)",
    ):
        with pytest.raises(EpisodeUnsupportedError, match="needs Spark"):
            episode.sql_local(query, t=ROWS)
