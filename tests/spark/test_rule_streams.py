"""Rules over a stream that change while it runs, through Structured Streaming."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.support.changing_rules import FAILING, SCHEMA, TEXTS, Row, Version, alone, as_rows
from tests.support.streams import Files, counters

import episode
from episode.api import Options
from episode.plan.options import StreamOptions, Tuning

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb")]
END = 100_000
DDL = "k long, ts long, v long, type string"


def events(count: int, seed: int = 3, first: int = 1) -> list[dict[str, Any]]:
    import random

    draw = random.Random(seed)
    return [
        {"k": draw.randrange(6), "ts": first + i, "v": draw.randrange(5), "type": draw.choice("ABC")}
        for i in range(count)
    ]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


class Running:
    """A stream with a folder of rules: one run, up to the last file, after each change."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.files = Files(spark, place / "stream", DDL)
        self.rows: list[dict[str, Any]] = []
        (place / "rules").mkdir()

    def rule(self, name: str, text: str | None) -> None:
        path = self.place / "rules" / f"{name}.pattern"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)

    def matches(self) -> Any:
        options = Options(watermark=5, tuning=Tuning(shards=3), stream=StreamOptions(end=END))
        return episode.match_all(
            self.files.stream(), self.place / "rules", time="ts", key="k", type_column="type",
            log=self.place / "log", look_every=None, options=options,
        )  # fmt: skip

    def run(self, rows: list[dict[str, Any]], pieces: int = 1) -> Any:
        self.files.add_in_pieces(table_of(rows), pieces)
        self.rows += [row for row in rows if row["ts"] < END]
        matches = self.matches()
        self.query = self.files.run(matches)
        return matches

    def finish(self) -> Any:
        return self.run([{"k": 99, "ts": 2 * END, "v": 0, "type": "A"}])

    def expected(self, rules: pa.Table) -> Counter[Row]:
        """What the versions give alone in the times that are reported for them."""
        found: Counter[Row] = Counter()
        for row in rules.to_pylist():
            if row["status"] in ("active", "replaced", "removed"):
                after = -(2**62) if row["active_from"] is None else row["active_from"] - 1
                found.update(
                    alone(Version(row["name"], row["text"], after, row["active_until"]), table_of(self.rows), END)
                )
        return found

    def found(self) -> Counter[Row]:
        return as_rows([row.asDict() for row in self.files.matches().collect()])


def test_rules_change_between_micro_batches_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    running = Running(spark, tmp_path)
    running.rule("rising", TEXTS[0])
    running.rule("pair", TEXTS[2])
    running.run(events(60, 1), pieces=3)
    running.rule("pair", TEXTS[3])  # replaced
    running.rule("states", TEXTS[4])  # added
    running.run(events(60, 2, first=61), pieces=2)
    running.rule("rising", None)  # removed
    running.rule("broken", "PATTERN SEQ(A a, B b) RETURN x.v")
    with pytest.warns(episode.EpisodeWarning, match="broken"):
        running.run(events(60, 3, first=121), pieces=2)
    with pytest.warns(episode.EpisodeWarning, match="broken"):
        matches = running.finish()
    rules = matches.rules()
    status = {(row["name"], row["version"]): row["status"] for row in rules.to_pylist()}
    assert status == {
        ("pair", 1): "replaced", ("rising", 2): "removed", ("pair", 3): "active", ("states", 4): "active",
        ("broken", None): "refused",
    }  # fmt: skip
    by_version = {row["version"]: row for row in rules.to_pylist()}
    assert by_version[1]["active_from"] is None
    assert by_version[3]["active_from"] == by_version[1]["active_until"] + 1 > 0
    assert "x is not a variable" in by_version[None]["error"]
    assert running.found() == running.expected(rules)
    assert len({row[0] for row in running.found()}) == 3


def test_a_rule_that_fails_on_data_is_set_aside_and_counted(spark: SparkSession, tmp_path: Path) -> None:
    running = Running(spark, tmp_path)
    running.rule("rising", TEXTS[0])
    running.rule("failing", FAILING[0])
    running.run(events(60, 1), pieces=2)
    matches = running.finish()
    rules = {row["name"]: row for row in matches.rules().to_pylist()}
    assert rules["rising"]["failed_keys"] == 0
    assert rules["failing"]["failed_keys"] == 6
    assert max(one.observedMetrics["episode"]["skipped_keys"] for one in running.query.recentProgress) == 6
    assert "SKIP" in rules["failing"]["error"]
    expected = running.expected(matches.rules().filter(pa.array([name == "rising" for name in rules])))
    assert Counter({row: n for row, n in running.found().items() if row[0] == "rising"}) == expected
    assert counters(running.query)["late"] == 0


def test_rules_of_a_table_over_a_stream_with_its_own_watermark(spark: SparkSession, tmp_path: Path) -> None:
    """Event time is a timestamp, the rules are in Parquet, and one rule's matches come typed."""
    files = Files(spark, tmp_path, DDL)
    files.add_in_pieces(table_of(events(60, 1)), 3)
    files.add(table_of([{"k": 99, "ts": 5_000, "v": 0, "type": "A"}]))
    stream = files.stream().withColumn("ts", F.timestamp_millis("ts")).withWatermark("ts", "5 milliseconds")
    texts = {"pair": "PATTERN SEQ(A a, B b) WHERE b.v > a.v WITHIN 10 milliseconds RETURN a.ts AS first, b.v AS v"}
    rules = pa.table({"name": ["pair", "off"], "text": [texts["pair"], "PATTERN"], "enabled": [True, False]})
    pq.write_table(rules, tmp_path / "rules.parquet")
    matches = episode.match_all(
        stream, str(tmp_path / "rules.parquet"), time="ts", key="k", type_column="type", log=tmp_path / "log",
        look_every=None, options=Options(tuning=Tuning(shards=2)),
    )  # fmt: skip
    assert dict(matches.frame.dtypes)["match_start"] == "timestamp"
    assert "1 rule (1 event pattern) over one input" in matches.explain()
    typed = matches.of("pair")
    times = [("match_start", "timestamp"), ("match_end", "timestamp")]
    assert typed.dtypes == [("first", "timestamp"), ("v", "bigint"), *times]
    files.run(typed)
    table = spark.createDataFrame([tuple(row.values()) for row in events(60, 1)], DDL)
    alone_ = episode.match(
        table.withColumn("ts", F.timestamp_millis("ts")), texts["pair"], time="ts", key="k", type_column="type"
    )
    found = sorted(tuple(row) for row in files.matches().select("first", "v").collect())
    assert found == sorted(tuple(row)[:2] for row in alone_.select("first", "v").collect())
    assert found
    with pytest.raises(episode.EpisodeError, match="There is no rule other"):
        matches.of("other")


def test_what_is_said_where_rules_over_a_stream_cannot_be_planned(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, DDL)
    files.add(table_of(events(3)))
    given: dict[str, Any] = {"time": "ts", "key": "k", "options": Options(watermark=5)}
    with pytest.raises(episode.EpisodeError, match="need a rule log"):
        episode.match_all(files.stream(), {"one": TEXTS[0]}, **given)
    with pytest.raises(episode.EpisodeError, match="is for rules over a stream"):
        episode.match_all(table_of(events(3)), {"one": TEXTS[0]}, log=tmp_path / "log", spark=spark)
    with pytest.raises(episode.EpisodeError, match="is not for rules over a stream"):
        episode.match_all(files.stream(), {"one": TEXTS[0]}, log=tmp_path / "log", **{**given, "time": ("ts", "v")})
    with pytest.raises(episode.EpisodeError, match="look_every"):
        episode.match_all(files.stream(), {"one": TEXTS[0]}, log=tmp_path / "log", look_every=0, **given)


def test_another_stream_or_log_does_not_go_on_with_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    running = Running(spark, tmp_path)
    running.rule("rising", TEXTS[0])
    running.run(events(20, 1))
    (tmp_path / "log").rename(tmp_path / "old")
    with pytest.raises(Exception, match="belongs to another query"):
        running.run(events(20, 2, first=21))
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "old").rename(tmp_path / "log")
    other = episode.match_all(
        running.files.stream().drop("type"), tmp_path / "rules", time="ts", key="k", log=tmp_path / "log",
        look_every=None, options=Options(watermark=5, tuning=Tuning(shards=3), stream=StreamOptions(end=END)),
    )  # fmt: skip
    with pytest.raises(Exception, match="belongs to another query"):
        running.files.run(other)
