"""Plots of results: of all languages, from SQL and from calls, of tables of any size."""

from __future__ import annotations

import pyarrow as pa
import pytest

import episode
from episode.see.pictures import choosing
from episode.see.pictures.plotting import look

FALL = """
    SELECT a FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts MEASURES A.v AS a PATTERN (A B+) DEFINE B AS upper(note) <> 'Z' AND B.v < A.v)"""
T = pa.table(
    {
        "k": ["x", "y", "x", None, "x", "x", "y"],
        "ts": [1, 1, 2, 2, 3, 9, 3],
        "v": [3, 2, 2, 1, 1, 0, 1],
        "note": list("abcdezg"),
    }
)


def test_a_row_pattern_that_puts_out_no_labels(spark) -> None:
    result = episode.sql(FALL, spark=spark, t=T)
    chart = episode.plot(result, width=500, height=120)
    spec = chart.to_dict()
    assert spec["title"]["text"] == "x: 1 match of A B+"
    rows = spec["datasets"]["rows"]
    assert [(row["x"], row["y"], row["label"]) for row in rows] == [(1, 3, "A"), (2, 2, "B"), (3, 1, "B")]
    assert len(spec["datasets"]["line"]) == 4
    assert look(result, of={"k": None}).title == "k null: no match of A B+"
    assert look(result, of="y").chosen is not None


def test_tables_that_are_too_large_to_choose_from(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "ALL_KEYS", 3)
    found = look(episode.sql(FALL, spark=spark, t=T))
    assert found.key == {"k": "x"} or found.key == {"k": "y"}
    assert found.notes == ("Chosen for the longest match of the first 2 matches that Spark found.",)
    assert found.key == {"k": "x"} or found.chosen is not None
    none = look(episode.sql(FALL.replace("B.v < A.v", "B.v < -5"), spark=spark, t=T))
    assert none.key == {"k": "x"}
    assert none.notes == ("There is no match; this key has the most rows.",)


def test_keys_that_are_too_long_are_cut(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_ROWS", 3)
    found = look(episode.sql(FALL, spark=spark, t=T), of="x")
    assert len(found.tables["line"]) == 3
    assert found.notes == ("Only the first 3 of 4 rows are looked at; between=… shows others.",)
    later = look(episode.sql(FALL, spark=spark, t=T), of="x", between=(2, None))
    assert [row["x"] for row in later.tables["line"]] == [2, 3, 9]


def test_one_of_several_patterns(spark) -> None:
    result = episode.sql(f"{FALL} UNION ALL {FALL.replace('B+', 'B')}", spark=spark, t=T)
    with pytest.raises(episode.EpisodeAnalysisError, match="2 patterns"):
        episode.plot(result)
    assert look(result, pattern=2, of="x").title == "x: 1 match of A B"


def test_an_event_pattern_with_conditions_that_spark_tests(spark) -> None:
    text = "PATTERN A; B+; C WHERE A.v > B.v AND crc32(string(sum(B.v))) > 0 WITHIN 5 RETURN A.v"
    events = pa.table({"ts": [1, 2, 3, 4], "type": list("ABBC"), "v": [3, 2, 1, 0]})
    found = look(episode.match(events, text, time="ts", type_column="type", spark=spark))
    assert found.total == 1
    assert found.lanes == ("A", "B", "C")
    assert [row["variable"] for row in found.tables["taken"]] == ["A", "B", "B", "C"]
    tables = {name: events.filter(pa.compute.equal(events["type"], name)).drop(["type"]) for name in "ABC"}
    apart = look(episode.match(text, time="ts", spark=spark, tables=tables))
    assert [row["variable"] for row in apart.tables["taken"]] == ["A", "B", "B", "C"]


def test_keys_that_spark_chooses_in_other_languages(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "ALL_KEYS", 1)
    events = pa.table({"k": list("xxyyy"), "ts": [1, 2, 1, 2, 9], "type": list("ABCAB"), "v": [3, 2, 1, 0, 5]})
    text = "PATTERN A; B+; !C WHERE crc32(string(sum(B.v))) > 0 WITHIN 8 RETURN A.v"
    found = look(episode.match(events, text, time="ts", key="k", type_column="type", spark=spark))
    assert found.key == {"k": "y"}
    assert found.notes == ("Chosen for the longest match of the first 2 matches that Spark found.",)
    text = "DEFINE a AS v > 0, b AS type = 'B' PATTERN a overlaps b; a before b; a meets b; a contains b; a finishes b"
    found = look(episode.match(events, text, time="ts", key="k", spark=spark))
    assert set(found.key) == {"k"}


def test_situations(spark) -> None:
    readings = pa.table({"m": [1] * 5, "ts": [0, 1, 2, 3, 4], "temp": [70, 85, 95, 90, 75], "door": list("ccocc")})
    text = "DEFINE hot AS temp > 80, open AS door = 'o' PATTERN hot contains open; hot overlaps open WITHIN 9"
    found = look(episode.match(readings, text, time="ts", key="m", spark=spark))
    assert [row["text"] for row in found.tables["relations"]] == ["hot contains open"]
    assert found.tables["detections"][0]["text"] == "detected 1 before the end"


RECENT = """
    SELECT l.k, fell, rose FROM
      t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS fell AFTER MATCH SKIP TO NEXT ROW
        INCREMENTAL MATCH PATTERN (A B) DEFINE B AS B.v < A.v) AS l,
      t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES C.v AS rose AFTER MATCH SKIP TO NEXT ROW
        MAXIMAL MATCH PATTERN (C D) DEFINE D AS D.v > C.v) AS a
    WHERE l.k = a.k AND crc32(string(rose)) >= 0 AND rose < fell AND RECENCY = 5"""
WAVES = pa.table({"k": ["x"] * 7 + ["y"], "ts": [1, 2, 3, 4, 5, 6, 20, 1], "v": [1, 3, 3, 3, 2, 2, 1, 0]})


def test_correlated_patterns(spark) -> None:
    result = episode.sql(RECENT, spark=spark, t=WAVES)
    assert result.count() == 1
    found = look(result)
    assert found.title == "x: 1 pair of A B after C D"
    assert [(row["x"], row["y"], row["label"]) for row in found.tables["rows"]] == [
        (4, 3, "live"), (5, 2, "live"), (1, 1, "archive"), (2, 3, "archive"),
    ]  # fmt: skip
    assert [(row["lane"], row["x"], row["x2"]) for row in found.tables["matches"]] == [
        ("archive", 1, 2),
        ("live", 4, 5),
    ]
    assert [(row["x"], row["x2"], row["text"]) for row in found.tables["recency"]] == [(0, 5, "recency: 5")]
    episode.plot(result).to_dict()


def test_correlated_tables(spark) -> None:
    falls = "PATTERN A; B WHERE A.v > B.v WITHIN 1 RETURN A.k AS k, B.v AS low"
    rises = "PATTERN C; D WHERE C.v < D.v WITHIN 1 RETURN C.key AS key, D.v AS high"
    live = episode.query(falls, episode.Events(WAVES, time="ts", key="k"), spark=spark)
    other = WAVES.rename_columns(["key", "at", "v"])
    archive = episode.query(rises, episode.Events(other, time="at", key="key"), spark=spark)
    result = live.correlate(archive, recency=5, on={"k": "key"}, where="high > low").run()
    assert result.count() == 1
    for found in (look(result), look(result, of="x")):
        bars = [(row["lane"], row["x"], row["x2"]) for row in found.tables["matches"]]
        assert bars == [("archive", 1, 2), ("live", 4, 5)]
    assert look(live.correlate(archive, recency=1, on={"k": "key"}).run()).total == 0


def test_what_is_not_drawn(spark) -> None:
    windowed = episode.sql(
        """SELECT k, ts, count(*) OVER w AS n FROM t WINDOW w AS (PARTITION BY k ORDER BY ts
           ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B) DEFINE B AS B.v < A.v)""",
        spark=spark,
        t=T,
    )
    with pytest.raises(episode.EpisodeUnsupportedError, match="A row pattern in a window is not drawn"):
        episode.plot(windowed)
    with pytest.raises(episode.EpisodeAnalysisError, match="The query of this DataFrame is not known"):
        episode.plot(windowed.limit(1))
    with pytest.raises(episode.EpisodeAnalysisError, match="height=5"):
        episode.plot(windowed, height=5)
