"""The result of a rule is the same JSON in process, in a batch, in a stream and in live tasks, for every type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.support.json_form import INTERVALS, VALUES, lexical
from tests.support.streams import Files

import episode
from episode import Options, StreamOptions, Tuning, streams
from episode.spark.batch import rules as rule_results

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("rocksdb", "elsewhere")]
END = 1_000_000
GIVEN = {"time": "ts", "key": "k"}


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """A session in another time zone: no result shows it."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, "Europe/Berlin")
    yield
    spark.conf.set(name, str(before))


def events(columns: dict[str, tuple[pa.DataType, str, Any, str]]) -> pa.Table:
    """A row with a value in every column, one with nulls, and for streams one that ends them."""
    values = {name: pa.array([value, None, None], kind) for name, (kind, _, value, _) in columns.items()}
    return pa.table({"k": [1, 1, 9], "ts": [1, 2, END + 1000], **values})


def rule(columns: dict[str, tuple[pa.DataType, str, Any, str]]) -> str:
    measures = ", ".join(f"A.{name} AS {name}" for name in columns)
    return f"MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES {measures} PATTERN (A) DEFINE A AS ts < {END})"


def expected(columns: dict[str, tuple[pa.DataType, str, Any, str]]) -> list[Any]:
    full = ",".join(f'"{name}":{text}' for name, (_, _, _, text) in columns.items())
    nulls = ",".join(f'"{name}":null' for name in columns)
    return [lexical(f'{{"k":1,{full}}}'), lexical(f'{{"k":1,{nulls}}}')]


def ddl() -> str:
    return ", ".join(["k BIGINT, ts BIGINT", *(f"{name} {sql}" for name, (_, sql, _, _) in VALUES.items())])


def test_in_process() -> None:
    columns = {**VALUES, **INTERVALS}
    found = episode.match_all_local(events(columns), {"r": rule(columns)}).table
    assert [lexical(text) for text in found["result"].to_pylist()] == expected(columns)


@pytest.mark.parametrize("variant", [True, False], ids=["VARIANT", "JSON"])
def test_a_batch(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, variant: bool) -> None:
    columns = {**VALUES, **INTERVALS}
    if not variant:
        monkeypatch.setattr(rule_results, "has_variant", lambda frame: False)
        columns.pop("dust")  # Spark's to_json writes small decimals with an exponent
    matches = episode.match_all(events(columns), {"r": rule(columns)}, spark=spark).frame
    shown = "to_json(result)" if variant else "result"
    rows = matches.orderBy("match_start").selectExpr(f"{shown} AS result").collect()
    assert [lexical(row.result) for row in rows] == expected(columns)


def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    files = Files(spark, tmp_path, ddl())
    files.add(events(VALUES))
    matches = episode.match_all(
        files.stream(),
        {"r": rule(VALUES)},
        log=tmp_path / "log",
        look_every=None,
        options=Options(watermark=5, tuning=Tuning(shards=2), stream=StreamOptions(end=END)),
        **GIVEN,
    )
    files.run(matches)
    written = files.matches().orderBy("match_start")
    rows = written.selectExpr("to_json(result) AS result", "schema_of_variant(result:three) AS three").collect()
    assert [lexical(row.result) for row in rows] == expected(VALUES)
    assert rows[0].three == "DOUBLE"


def test_live_tasks(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    streams.create("Given", ddl(), time="ts", key="k", delay=5)
    streams.append("Given", events(VALUES))
    query = episode.start_rules(
        "Given", {"r": rule(VALUES)}, into="Found", spark=spark, tasks=1, options=Options(stream=StreamOptions(end=END))
    )
    assert query.awaitTermination(120)
    found, _ = streams.read("Found")
    assert [lexical(text) for text in found.sort_by("match_start")["result"].to_pylist()] == expected(VALUES)
