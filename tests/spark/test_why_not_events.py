"""`episode.why_not` of event and situation patterns on Spark: keys, times, tables of classes, what Spark evaluates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import episode

BEGIN = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
SECONDS = [0, 1, 2, 3, 4, 60]
T = pa.table(
    {
        "k": ["x"] * 6,
        "ts": [BEGIN + timedelta(seconds=n) for n in SECONDS],
        "type": ["A", "B", "B", "C", "D", "D"],
        "v": [5, 3, 4, 9, 1, 2],
        "note": ["p", "q", "r", "s", "t", "u"],
    }
)


def asked(spark: SparkSession, pattern: str, **place: object) -> episode.WhyNot:
    found = episode.match(T, pattern, time="ts", key="k", type_column="type", spark=spark)
    return episode.why_not(found, of="x", **place)  # type: ignore[arg-type]


def test_times_have_a_zone_and_durations_units(spark: SparkSession) -> None:
    answer = asked(spark, "PATTERN C; D WHERE D.v > 1 WITHIN 30 seconds", at=BEGIN + timedelta(seconds=3))
    missing, window, _ = answer.findings
    assert missing.kind == "missing"
    assert missing.values == {"D.v": 1}
    assert missing.at == BEGIN + timedelta(seconds=4)
    assert window.kind == "window"
    assert window.data["excess"] == 27_000_000
    assert "outside WITHIN by 27 s" in str(answer)


def test_conditions_that_spark_computes(spark: SparkSession) -> None:
    """Of single events before matching, of groups after it."""
    answer = asked(spark, "PATTERN A; B WHERE upper(B.note) = 'Z' WITHIN 1 minute", at=BEGIN)
    assert answer.findings[0].kind == "missing"
    assert answer.findings[0].data["condition"] == "upper(B.note) = 'Z'"
    found = asked(spark, "PATTERN A; B+ b; C WHERE b[i].v > b[i-1].v WITHIN 1 minute")
    assert found.findings[0].kind == "found"
    answer = asked(spark, "PATTERN A; B+ b; C WHERE b[i].v < b[i-1].v WITHIN 1 minute", at=BEGIN)
    assert answer.findings[0].kind == "condition"
    assert answer.findings[0].values == {"b[].v": [3, 4]}


def test_a_table_for_each_class(spark: SparkSession) -> None:
    text = "PATTERN buy; !hold; sell WHERE sell.price > buy.price AND hold.much > 1 WITHIN 9"
    buy = pa.table({"ts": [1, 5], "price": [3, 4]})
    sell = pa.table({"ts": [3, 8], "price": [9, 2]})
    hold = pa.table({"ts": [2], "much": [7]})
    found = episode.match(text, time="ts", spark=spark, buy=buy, sell=sell, hold=hold)
    answer = episode.why_not(found, at=1)
    assert answer.findings[0].kind == "negated"
    assert answer.findings[0].values == {"hold.much": 7}
    assert answer.findings[0].at == 2


def test_situations(spark: SparkSession) -> None:
    text = "DEFINE hot AS v > 2 AT LEAST 9 seconds, calm AS v < 2 PATTERN hot before calm WITHIN 1 minute"
    found = episode.match(T, text, time="ts", key="k", spark=spark)
    finding = episode.why_not(found, of="x", at=BEGIN + timedelta(seconds=3)).findings[0]
    assert finding.kind == "too short"
    assert "is too short by 5 s (AT LEAST 9 s)" in finding.message
    assert finding.at == BEGIN


@pytest.mark.parametrize(
    "pattern", ["PATTERN A; B WITHIN 9 seconds", "DEFINE A AS v > 1, B AS v > 2 PATTERN A before B"]
)
def test_a_key_without_events(spark: SparkSession, pattern: str) -> None:
    found = episode.match(
        T, pattern, time="ts", key="k", spark=spark, **({"type_column": "type"} if "DEFINE" not in pattern else {})
    )
    assert episode.why_not(found, of="z").findings[0].message == "There are no events with k = 'z'."
