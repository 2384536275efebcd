"""`explain` in all its formats, and analyses of row patterns, with Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import episode
from episode import Options, Tuning

pytestmark = pytest.mark.spark

COUNT = 3000
EVENTS = pa.table(
    {
        "k": [f"k{at % 7}" for at in range(COUNT)],
        "ts": list(range(COUNT)),
        "v": [at * 7919 % 101 for at in range(COUNT)],
        "kind": ["ABC"[at * 31 % 3] for at in range(COUNT)],
    }
)
CLAUSE = """
    PARTITION BY k ORDER BY ts MEASURES count(A.*) AS a, count(B.*) AS b {more}
    PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)"""
ROWS = f"SELECT * FROM t MATCH_RECOGNIZE ({CLAUSE.format(more='')})"
LIVE, ARCHIVE = (
    f"MATCH_RECOGNIZE ({CLAUSE.format(more=f'AFTER MATCH SKIP TO NEXT ROW {mode} MATCH')})"
    for mode in ("INCREMENTAL", "MAXIMAL")
)


@pytest.mark.parametrize("shards", [None, 3])
def test_an_analysis_of_rows(spark: SparkSession, tmp_path: Path, shards: int | None) -> None:
    """In one task, and in several: the counts are those of the result."""
    path = tmp_path / "t.parquet"
    pq.write_table(EVENTS, path)
    options = None if shards is None else Options(tuning=Tuning(shards=shards))
    found = episode.sql(ROWS, spark=spark, options=options, t=str(path)).collect()
    plan = episode.explain(ROWS, spark=spark, options=options, analyze=True, t=str(path))
    assert f"of the input, {COUNT:,} rows, {len(found):,} matches" in plan
    assert f"      A: {sum(row.a for row in found):,}; any row" in plan
    assert f"      B: {sum(row.b for row in found):,}; " in plan
    for part in ("attempts: at ", "match  B: ", "time in tasks: ", "scan or unpack", "analyzed: the whole run"):
        assert part in plan
    parts = int(plan.partition("  run: ")[2].partition(" part")[0])
    assert (parts == 1) == (shards is None)


def test_an_analysis_of_a_window(spark: SparkSession) -> None:
    text = """
        SELECT k, ts, low OVER w FROM t WINDOW w AS (
          PARTITION BY k ORDER BY ts MEASURES LAST(B.v) AS low
          ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS B.v < PREV(B.v))"""
    matches = sum(row.low is not None for row in episode.sql(text, spark=spark, t=EVENTS).collect())
    plan = episode.explain(text, spark=spark, analyze=True, t=EVENTS)
    assert f"{COUNT:,} rows, {matches:,} matches" in plan


@pytest.mark.parametrize("analyze", [False, True])
def test_all_languages_as_pictures(spark: SparkSession, analyze: bool) -> None:
    event = "PATTERN A; B; C WHERE A.v < B.v WITHIN 300"
    situation = "DEFINE A AS v > 50, B AS v < 40 PATTERN A before B; A meets B WITHIN 30"
    live, archive = (episode.query(text, episode.Events(EVENTS), spark=spark) for text in (LIVE, ARCHIVE))
    pictures = [
        episode.explain(ROWS, spark=spark, t=EVENTS, analyze=analyze, format="svg"),
        episode.query(event, episode.Events(EVENTS, time="ts", key="k", type_column="kind"), spark=spark).explain(
            analyze=analyze, format="svg"
        ),
        episode.query(situation, episode.Events(EVENTS, time="ts", key="k"), spark=spark).explain(
            analyze=analyze, format="svg"
        ),
        live.correlate(archive, recency=9, on="k").explain(analyze=analyze, format="svg"),
    ]
    expected = [
        ("rows in matches", "Time in tasks") if analyze else ("row-local",),
        ("in fact", "What the joins did") if analyze else ("about 10.0 per window", "not chosen"),
        ("found ", "by the statistics of the busiest part") if analyze else ("A before B", "not chosen"),
        ("Estimated for", "factors over") if analyze else ("RECENCY 9", "live pattern"),
    ]
    for picture, words in zip(pictures, expected, strict=True):
        ElementTree.fromstring(picture)
        for word in words:
            assert word in picture


def test_the_code_of_all_languages(spark: SparkSession) -> None:
    event = "PATTERN A; B WHERE A.v < B.v WITHIN 300"
    situation = "DEFINE A AS v > 50, B AS v < 40 PATTERN A before B WITHIN 30"
    events = episode.Events(EVENTS, time="ts", key="k")
    native = {"analyze": True, "format": "native"}
    live, archive = (episode.query(text, episode.Events(EVENTS), spark=spark) for text in (LIVE, ARCHIVE))
    for text in (
        episode.explain(ROWS, spark=spark, t=EVENTS, **native),
        episode.query(event, replace(events, type_column="kind"), spark=spark).explain(**native),
        episode.query(situation, events, spark=spark).explain(**native),
        live.correlate(archive, recency=9, on="k").explain(**native),
    ):
        assert "function run(" in text
        assert " ms to " in text


def test_a_page_of_a_statement(spark: SparkSession) -> None:
    page = episode.explain(f"SELECT * FROM ({ROWS}) UNION ALL ({ROWS})", spark=spark, t=EVENTS, format="html")
    assert page.count("<svg") == 2
    assert episode.explain("SELECT 1", spark=spark) == "No pattern in this statement: Spark evaluates all of it."
    assert "No pattern in this statement" in episode.explain("SELECT 1", spark=spark, format="svg")
    with pytest.raises(episode.EpisodeAnalysisError, match="format='pdf'"):
        episode.explain(ROWS, spark=spark, t=EVENTS, format="pdf")


def test_no_events_at_all(spark: SparkSession) -> None:
    plan = episode.explain(ROWS, spark=spark, t=EVENTS.slice(0, 0), analyze=True)
    assert "run: there were no events" in plan
    ElementTree.fromstring(episode.explain(ROWS, spark=spark, t=EVENTS.slice(0, 0), analyze=True, format="svg"))
