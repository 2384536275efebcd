"""Reports of queries in all languages: their numbers are those of the query."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import episode
from episode.queries.origins import origin_of
from episode.see.reports.data import Report
from episode.see.reports.gathering import NOT_INSTALLED, Extents, NoExtents, extents_of, gather

pytestmark = pytest.mark.spark

ROWS = """
    SELECT * FROM t MATCH_RECOGNIZE (
      PARTITION BY k ORDER BY ts {order} MEASURES FIRST(B.v) AS first_low {rows}
      PATTERN (A B{{2,}}) DEFINE B AS B.v < PREV(B.v)) {further}"""
EVENTS = "PATTERN A; B WHERE A.v > B.v + 7 WITHIN 40 seconds RETURN A.v AS v"
SITUATIONS = "DEFINE low AS v < 4, high AS v >= 4 PATTERN low meets high WITHIN 5 minutes RETURN max(high.v) AS most"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    count = 400
    keys = rng.choice(["x", "y", "z"], size=count, p=[0.5, 0.3, 0.2]).tolist()
    times = pd.Timestamp("2026-03-02", tz="UTC") + pd.to_timedelta(np.cumsum(rng.integers(1, 9, size=count)), unit="s")
    values = [None if one == 0 else int(one) for one in rng.integers(0, 10, size=count)]
    keys = [None if number % 50 == 0 else key for number, key in enumerate(keys)]
    return pa.table({"k": keys, "ts": pa.array(times.to_pydatetime(), pa.timestamp("us", tz="UTC")), "v": values})


@pytest.fixture
def t(spark, table):
    return spark.createDataFrame(table.to_pandas().astype({"v": "Int64"}).replace({np.nan: None}))


def report_of(frame, plots: int = 0) -> Report:
    return gather(frame, None, plots, 5)


def spans(frame) -> pd.DataFrame:
    """Keys, starts and ends of the matches by the query's own option."""
    return frame.toPandas()


def check(report: Report, expected: pd.DataFrame, start: str, end: str, key: str | None = "k") -> None:
    """A report against the rows of matches, counted by pandas."""
    (pattern,) = report.patterns
    found = pattern.found
    assert found is not None
    assert found.matches == len(expected) > 0
    lengths = (expected[end] - expected[start]).dt.total_seconds() * 1e6
    assert found.lengths[0] == lengths.min()
    assert found.lengths[4] == lengths.max()
    assert found.lengths[5] == pytest.approx(lengths.mean())
    for histogram, values in (
        (found.over_time, expected[start].astype("datetime64[us]").astype("int64")),
        (found.by_length, lengths),
    ):
        assert histogram is not None
        numbers = np.floor((values - histogram.bins.origin) / histogram.bins.width).astype(int)
        assert histogram.counts == numbers.value_counts().to_dict()
        assert all(0 <= number < histogram.bins.count for number in histogram.counts)
    if key is not None:
        counts = expected[key].value_counts(dropna=False)
        assert found.keys == len(counts)
        assert {row.key[0]: row.matches for row in found.top_keys} == {
            None if pd.isna(name) else name: count for name, count in counts.items()
        }


@pytest.mark.parametrize(("order", "rows"), [("", ""), ("", "ALL ROWS PER MATCH"), ("DESC", "")])
def test_row_patterns(t, order: str, rows: str) -> None:
    result = episode.sql(ROWS.format(order=order, rows=rows, further=""), t=t)
    report = report_of(result)
    options = episode.Options(match_times=True)
    expected = episode.sql(ROWS.format(order=order, rows="", further=""), t=t, options=options).toPandas()
    check(report, expected, "match_start", "match_end")
    found = report.patterns[0].found
    assert found is not None
    assert report.result.rows == (len(expected) if not rows else found.rows)


def test_the_statement_around_a_pattern_changes_the_result_alone(t, tmp_path: Path) -> None:
    text = ROWS.format(order="", rows="", further="WHERE first_low > 5")
    result = episode.sql(text, t=t)
    path = episode.report(result, tmp_path / "r.html", title="Falls", plots=0)
    page = path.read_text()
    assert page.count("<h1>Falls</h1>") == 1
    every = episode.sql(ROWS.format(order="", rows="", further=""), t=t).count()
    assert f"found {every} times" in page
    assert f"makes {result.count()} rows of them" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_event_patterns(t) -> None:
    result = episode.match(t, EVENTS, time="ts", key="k")
    expected = episode.match(t, EVENTS.replace("A.v AS v", "A.k AS k"), time="ts", key="k").toPandas()
    check(report_of(result), expected, "match_start", "match_end")


def test_conditions_that_spark_tests_on_matches_count(t) -> None:
    text = "PATTERN A; B+; C WHERE A.v > C.v + 3 AND sum(B.v) % 2 = 0 WITHIN 20 seconds RETURN C.k AS k"
    result = episode.match(t, text, time="ts", key="k")
    check(report_of(result), result.toPandas(), "match_start", "match_end")


def test_situation_patterns(t) -> None:
    result = episode.match(t, SITUATIONS, time="ts", key="k")
    expected = episode.match(t, SITUATIONS.split(" RETURN")[0], time="ts", key="k").toPandas()
    check(report_of(result), expected, "match_start", "detected_at")


def test_pairs_for_which_all_conditions_hold(t) -> None:
    text = """
        SELECT l.k AS k, match_start, match_end
        FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS a
            AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)) AS l,
          t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS b
            AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+) DEFINE B AS B.v > PREV(B.v)) AS m
        WHERE l.k = m.k AND a % 2 = b % 2 AND RECENCY = 60 seconds"""
    result = episode.sql(text, t=t)
    report = report_of(result)
    check(report, result.toPandas(), "match_start", "match_end")
    assert report.patterns[0].many == "pairs"
    assert len(report.patterns[0].inputs) == 1


def test_patterns_without_matches_of_their_own(t) -> None:
    counted = episode.match(t, "PATTERN SEQ(A a, B+ b[]) WITHIN 5 seconds AGGREGATE count(*) AS n", time="ts", key="k")
    windows = episode.sql(
        """SELECT k, count(*) OVER w AS n FROM t WINDOW w AS (PARTITION BY k ORDER BY ts
           ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B+) DEFINE B AS B.v < PREV(B.v))""",
        t=t,
    )
    for result in (counted, windows):
        origin = origin_of(result)
        assert isinstance(extents_of(origin, origin.pattern()), NoExtents)
        report = report_of(result)
        assert report.patterns[0].found is None
        assert report.result.rows == result.count()


def test_what_the_input_holds(t, table: pa.Table) -> None:
    report = report_of(episode.sql(ROWS.format(order="", rows="", further=""), t=t))
    (part,) = report.patterns[0].inputs
    data = table.to_pandas()
    assert part.rows == len(data)
    assert part.keys == (4, data["k"].value_counts(dropna=False).max())
    columns = {one.name: one for one in part.columns}
    assert columns["k"].nulls == data["k"].isna().sum()
    assert columns["v"].nulls == data["v"].isna().sum()
    assert (columns["v"].least, columns["v"].greatest) == ("1", "9")
    assert [one.role for one in part.columns] == ["key", "time", "value"]


def test_empty_matches_have_a_key_and_no_time(t) -> None:
    text = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES count(*) AS n
              PATTERN (B*) DEFINE B AS B.v < PREV(B.v))"""
    result = episode.sql(text, t=t)
    found = report_of(result).patterns[0].found
    assert found is not None
    rows = result.toPandas()
    assert found.matches == len(rows)
    assert found.placed == (rows["n"] > 0).sum()


def test_several_patterns_each_have_their_sections(t, tmp_path: Path) -> None:
    one = ROWS.format(order="", rows="", further="")
    page = episode.report(episode.sql(f"({one}) UNION ALL ({one})", t=t), tmp_path / "r.html", plots=0).read_text()
    assert re.findall(r'<section id="([\w-]+)"', page) == [
        "query", "matches-1", "matches-2", "result", "input", "plan", "timings",
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore:MATCH_RECOGNIZE has no ORDER BY")
def test_numbers_as_times_and_no_order(spark) -> None:
    data = pa.table({"n": list(range(60)), "v": [number % 7 for number in range(60)]})
    text = "SELECT * FROM t MATCH_RECOGNIZE ({} MEASURES count(*) AS c PATTERN (A B{{2}}) DEFINE B AS B.v > 2)"
    found = report_of(episode.sql(text.format("ORDER BY n"), t=data, spark=spark)).patterns[0].found
    assert found is not None
    assert not found.clock.clock
    assert found.lengths[0] == 2.0
    assert found.keys == 0
    found = report_of(episode.sql(text.format(""), t=data, spark=spark)).patterns[0].found
    assert found is not None
    assert found.placed == 0
    assert found.over_time is None


def test_pictures(t, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert")
    result = episode.sql(ROWS.format(order="", rows="", further=""), t=t)
    pictures = report_of(result, plots=3).patterns[0].pictures
    assert [one.why for one in pictures][:1] == ["The longest match"]
    assert len({one.what for one in pictures}) == 3
    assert all(one.svg is not None and one.svg.startswith("<svg") for one in pictures)
    origin = origin_of(result)
    extents = extents_of(origin, origin.pattern())
    assert isinstance(extents, Extents)
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    part = report_of(result, plots=3).patterns[0]
    assert (part.pictures, part.no_pictures) == ((), NOT_INSTALLED)


def test_what_cannot_be_reported(t, spark, rocksdb, tmp_path: Path) -> None:
    result = episode.sql(ROWS.format(order="", rows="", further=""), t=t)
    with pytest.raises(episode.EpisodeAnalysisError, match="is a directory"):
        episode.report(result, tmp_path)
    with pytest.raises(episode.EpisodeAnalysisError, match="There is no directory"):
        episode.report(result, tmp_path / "a" / "b.html")
    with pytest.raises(episode.EpisodeAnalysisError, match="a number from 0 on"):
        episode.report(result, tmp_path / "b.html", plots=-1)
    with pytest.raises(episode.EpisodeAnalysisError, match="is not known"):
        episode.report(result.limit(1), tmp_path / "b.html")
    t.write.parquet(str(tmp_path / "t"))
    stream = spark.readStream.schema(t.schema).parquet(str(tmp_path / "t"))
    live = episode.match(stream, EVENTS, time="ts", key="k", options=episode.Options(watermark="1 second"))
    with pytest.raises(episode.EpisodeUnsupportedError, match="a stream, which does not end"):
        episode.report(live, tmp_path / "b.html")
    assert not (tmp_path / "b.html").exists()


def test_what_is_kept_already_stays_kept(t) -> None:
    result = episode.sql(ROWS.format(order="", rows="", further=""), t=t).persist()
    report_of(result)
    assert result.storageLevel.useMemory
    result.unpersist()
    report_of(result)
    assert not result.storageLevel.useMemory
