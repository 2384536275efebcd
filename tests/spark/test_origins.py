"""What a DataFrame of matches knows of its query, and the rows of one key of its input."""

from __future__ import annotations

import pyarrow as pa
import pytest

import episode
from episode.queries.origins import origin_of
from episode.see.inspecting import patterns_at

ROWS = """
    SELECT * FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B+) DEFINE B AS B.v < A.v)"""
T = pa.table({"k": ["x", "y", "x", None, "x"], "ts": [1, 1, 2, 2, 3], "v": [3, 2, 2, 1, 1], "note": list("abcde")})


def test_a_statement_knows_its_patterns(spark) -> None:
    twice = f"SELECT * FROM ({ROWS}) UNION ALL ({ROWS})"
    origin = origin_of(episode.sql(twice, spark=spark, t=T))
    assert origin.text == twice
    assert len(origin.patterns) == 2
    assert origin.pattern(2).source.span.start > origin.pattern(1).source.span.start
    with pytest.raises(episode.EpisodeAnalysisError, match="2 patterns"):
        origin.pattern()
    with pytest.raises(episode.EpisodeAnalysisError, match="pattern=3: the query has 2 patterns"):
        origin.pattern(3)


def test_calls_of_match_and_correlate_know_theirs(spark) -> None:
    found = episode.match(T, "PATTERN A; B WHERE A.v > B.v WITHIN 5", time="ts", key="k", spark=spark)
    assert origin_of(found).pattern().language.name == "event pattern"
    live = episode.query("PATTERN A; B WHERE A.v > B.v WITHIN 5", episode.Events(T, time="ts", key="k"), spark=spark)
    pairs = live.correlate(live, recency=5).run()
    both = patterns_at(origin_of(pairs).pattern())
    assert [one.keys for one in both] == [("k",), ("k",)]


def test_frames_of_others_are_refused(spark) -> None:
    frame = episode.sql(ROWS, spark=spark, t=T)
    for wrong, what in ((frame.limit(1), "this DataFrame"), (5, "a int"), (spark.range(1), "this DataFrame")):
        with pytest.raises(episode.EpisodeAnalysisError, match=f"The query of {what} is not known"):
            origin_of(wrong)


def test_rows_of_one_key(spark) -> None:
    (pattern,) = patterns_at(origin_of(episode.sql(ROWS, spark=spark, t=T)).pattern())
    assert pattern.keys == ("k",)
    assert pattern.time == "ts"
    rows = pattern.rows(pattern.key_of("x"), further=["note"]).sort_by("ts")
    assert rows.column("v").to_pylist() == [3, 2, 1]
    assert rows.column("note").to_pylist() == ["a", "c", "e"]
    assert pattern.rows(pattern.key_of("x"), between=(2, None)).num_rows == 2
    assert pattern.rows(pattern.key_of(None)).column("v").to_pylist() == [1]
    assert pattern.rows(pattern.key_of({"K": "x"}), most=2).num_rows == 2
    assert pattern.keys_by_rows(1).to_pylist() == [{"k": "x", "rows": 3}]
    for wrong in ({"q": 1}, {"k": 1, "q": 2}, ["x", "y"]):
        with pytest.raises(episode.EpisodeAnalysisError, match="partitioned by k"):
            pattern.key_of(wrong)


def test_streams_cannot_be_looked_at_twice(spark, rocksdb, tmp_path) -> None:
    T.to_pandas().to_parquet(tmp_path / "t.parquet")
    stream = spark.readStream.schema("k string, ts bigint, v bigint, note string").parquet(str(tmp_path))
    found = episode.sql(ROWS, spark=spark, t=stream, options=episode.Options(watermark=1))
    (pattern,) = patterns_at(origin_of(found).pattern())
    with pytest.raises(episode.EpisodeAnalysisError, match="a stream, which cannot be looked at twice"):
        pattern.rows({"k": "x"})
