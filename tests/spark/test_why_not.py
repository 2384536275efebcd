"""`episode.why_not` on Spark: what may be asked, over tables and declared streams, and the forms of the answer."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import episode
from episode.store.catalog import Catalog
from episode.store.stream import open_store

FALLS = """
    SELECT * FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts
      MEASURES A.v AS a
      PATTERN (A B B) DEFINE B AS B.v < PREV(B.v) AND upper(note) <> :word)"""
BEGIN = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
T = pa.table(
    {
        "k": ["x", "y", "x", None, "x"],
        "ts": [BEGIN + timedelta(seconds=n) for n in (1, 1, 2, 2, 3)],
        "v": [3, 2, 2, 1, 5],
        "note": list("abcde"),
    }
)
WORD = {"word": "Q"}


def test_a_dataframe_and_its_text_are_asked_alike(spark: SparkSession) -> None:
    frame = episode.sql(FALLS, WORD, spark=spark, t=T)
    zone = spark.conf.get("spark.sql.session.timeZone")
    for time in (BEGIN + timedelta(seconds=1), str((BEGIN + timedelta(seconds=1)).astimezone().replace(tzinfo=None))):
        if isinstance(time, str) and zone not in ("UTC", "Etc/UTC"):
            continue
        for answer in (
            episode.why_not(frame, of="x", at=time),
            episode.query(FALLS, args=WORD, spark=spark, t=T).why_not(of={"K": "x"}, at=time),
            episode.why_not(frame, of=["x"], between=(time, time), pattern=1),
        ):
            (finding,) = answer.findings
            assert finding.values == {"B.v": 5, "PREV(B.v)": 2}
            assert finding.at == BEGIN + timedelta(seconds=3)
            assert "B.v 5 < PREV(B.v) 2 is false" in str(answer)
            assert str(answer).splitlines()[0].startswith("Row pattern with k = x at 2026-01-05")


def test_what_spark_computes_has_values_too(spark: SparkSession) -> None:
    answer = episode.query(FALLS, args={"word": "C"}, spark=spark, t=T).why_not(of="x", at=BEGIN + timedelta(seconds=1))
    assert "upper(note 'c') <> :word is false" in answer.findings[0].message


def test_the_forms_of_an_answer(spark: SparkSession) -> None:
    answer = episode.query(FALLS, args=WORD, spark=spark, t=T).why_not(of="x")
    lines = str(answer).splitlines()
    marked = next(at for at, line in enumerate(lines) if "PATTERN (A B B) DEFINE" in line)
    assert lines[marked + 1].strip() == "^" * len("B.v < PREV(B.v)")
    told = json.loads(json.dumps(answer.to_dict()))
    first = told["answers"][0]["findings"][0]
    assert first["text"] == "B.v < PREV(B.v)"
    assert first["values"] == {"B.v": 5, "PREV(B.v)": 2}
    assert "<li><b>condition</b>: B failed" in answer._repr_html_()
    assert "B.v &lt; PREV(B.v)" in answer._repr_html_()


def test_a_null_key_and_keys_without_rows(spark: SparkSession) -> None:
    frame = episode.sql(FALLS, WORD, spark=spark, t=T)
    assert episode.why_not(frame, of={"k": None}).findings[0].kind == "end of rows"
    assert episode.why_not(frame, of="z").findings[0].message == "There are no rows with k = 'z'."


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"Which key\? The events are partitioned by k"),
        ({"of": "x", "at": 5}, "at=5 does not fit the column ts of type timestamp"),
        ({"of": "x", "at": "soon"}, "at='soon' does not fit"),
        ({"of": "x", "between": 5}, "between=5: two times are needed"),
        ({"of": "x", "at": BEGIN, "between": (BEGIN, None)}, "at= and between= are both given"),
        ({"of": "x", "between": (BEGIN, BEGIN - timedelta(1))}, "the last time comes before the first"),
        ({"of": "x", "pattern": 2}, "the query has 1 pattern"),
        ({"of": {"q": 1}}, "partitioned by k"),
    ],
)
def test_what_cannot_be_asked(spark: SparkSession, given: dict[str, object], said: str) -> None:
    frame = episode.sql(FALLS, WORD, spark=spark, t=T)
    with pytest.raises(episode.EpisodeAnalysisError, match=said):
        episode.why_not(frame, **given)  # type: ignore[arg-type]


def test_row_patterns_in_windows_are_refused(spark: SparkSession) -> None:
    text = """SELECT k, first(v) OVER w FROM t WINDOW w AS (PARTITION BY k ORDER BY ts
              ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B) DEFINE B AS B.v < A.v)"""
    with pytest.raises(episode.EpisodeUnsupportedError, match="why_not cannot answer for"):
        episode.query(text, spark=spark, t=T).why_not(of="x")


def test_both_patterns_of_a_correlation_are_asked(spark: SparkSession) -> None:
    table = pa.table({"k": ["x"] * 4, "ts": [1, 2, 3, 4], "v": [4, 3, 3, 5]})
    clause = (
        "MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS a {} MATCH PATTERN (A B) DEFINE B AS B.v {} A.v)"
    )
    live = episode.query(clause.format("INCREMENTAL", ">"), episode.Events(table), spark=spark)
    archive = episode.query(clause.format("MAXIMAL", "<"), episode.Events(table), spark=spark)
    pairs = live.correlate(archive, recency=2).run()
    one, other = episode.why_not(pairs, of="x", at=3).answers
    assert (one.role, one.asked.first, one.asked.last) == ("live", 3, 3)
    assert (other.role, other.asked.first, other.asked.last) == ("archive", 1, 3)
    assert one.findings[0].kind == "found"
    assert [finding.kind for finding in other.findings] == ["found", "condition"]
    (one, _) = episode.why_not(pairs, of={"live": "x", "archive": "z"}, at=1).answers
    assert "B.v 3 > A.v 4 is false" in one.findings[0].message


def test_times_without_a_zone_and_long_windows(spark: SparkSession) -> None:
    """Rows long after the window are not read, and times without a zone are not those of the machine."""
    times = [datetime(2026, 1, 5, 10) + timedelta(seconds=n) for n in (0, 1, 2, 3, 900)]
    table = pa.table({"ts": times, "v": [5, 4, 3, 2, 9]})
    text = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS a PATTERN (A B+ C) WITHIN 2 seconds
              DEFINE B AS B.v < PREV(B.v), C AS C.v > A.v)"""
    answer = episode.query(text, spark=spark, t=table).why_not(at="2026-01-05 10:00:00")
    assert answer.findings[0].message.startswith("WITHIN 2 seconds had ended at 2026-01-05 10:00:03")
    longer = text.replace("2 seconds", "10 minutes")
    answer = episode.query(longer, spark=spark, t=table).why_not(at="2026-01-05 10:00:00")
    assert "outside WITHIN 10 minutes by 5 min." in answer.findings[0].message


@pytest.mark.parametrize("archived", [True, False])
def test_declared_streams_are_asked_in_their_past(
    spark: SparkSession, rocksdb: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archived: bool
) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    episode.sql(
        "CREATE STREAM Ticks (k STRING, ts BIGINT, v INT) TIME ts KEY k DELAY 5"
        + (" ARCHIVE AS TicksArchive" if archived else ""),
        spark=spark,
    )
    store = open_store(Catalog(tmp_path / "catalog").find("ticks"))
    store.append(pa.table({"k": ["x", "x"], "ts": [1, 2], "v": pa.array([4, 3], pa.int32())}))
    if archived:
        store.archive()
    store.append(pa.table({"k": ["x", "y"], "ts": [3, 3], "v": pa.array([3, 1], pa.int32())}))
    text = """SELECT * FROM Ticks MATCH_RECOGNIZE (
        PARTITION BY k MEASURES A.v AS a PATTERN (A B B) WITHIN 100 DEFINE B AS B.v < PREV(B.v))"""
    query = episode.query(text, spark=spark)
    answer = query.why_not(of="x", at=1)
    assert "B failed at 3: B.v 3 < PREV(B.v) 3 is false." in answer.findings[0].message
    assert "The rows of the key so far end at 3" in query.why_not(of="x", at=3).findings[0].message
