"""The studio's endpoints over a session: tables, checks, runs, cancelling, what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from starlette.testclient import TestClient
from tests.support.waiting import wait_until

from episode.see.studio import tables as gallery
from episode.see.studio.app import Access, application
from episode.see.studio.studio import Studio, open_studio

pytestmark = pytest.mark.spark

T = pa.table({"k": ["x", "x", "x", "y", "y"], "ts": [1, 2, 3, 1, 2], "v": [3, 2, 1, 5, 4]})
FALLS = """SELECT * FROM t MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES FIRST(ts) AS began, COUNT(*) AS n
  PATTERN (A B+) DEFINE B AS B.v < PREV(B.v))
ORDER BY k"""
LONG = "SELECT count(*) AS n FROM range(100000000) a CROSS JOIN range(100000000) b WHERE a.id % 7 = b.id % 11"


@pytest.fixture(scope="module")
def studio(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    opened = open_studio(spark, {"t": T}, tmp_path_factory.mktemp("samples"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def client(studio: Studio) -> TestClient:
    access = Access(8350)
    made = TestClient(application(studio, access), base_url="http://127.0.0.1:8350")
    assert made.post("/api/enter", json={"token": access.token}).status_code == 204
    return made


def ended(client: TestClient, text: str) -> dict[str, Any]:
    """A run that is over."""
    answer = client.post("/api/runs", json={"text": text})
    assert answer.status_code == 201
    return waited(client, answer.json()["id"])


def waited(client: TestClient, name: str) -> dict[str, Any]:
    wait_until(lambda: client.get(f"/api/runs/{name}").json()["state"] != "running")
    run: dict[str, Any] = client.get(f"/api/runs/{name}").json()
    return run


def test_tables_and_their_columns(client: TestClient) -> None:
    found = client.get("/api/tables").json()
    assert [(one["name"], one["sample"]) for one in found["tables"]] == [
        ("t", False),
        ("ticks", True),
        ("clicks", True),
        ("readings", True),
    ]
    assert found["tables"][0]["columns"][0] == {"name": "k", "type": "string"}
    assert len(found["examples"]) == len(gallery.EXAMPLES)


def test_a_preview(client: TestClient) -> None:
    found = client.get("/api/tables/t").json()
    assert found["rows"][0] == ["x", 1, 3]
    assert [one["numeric"] for one in found["columns"]] == [False, True, True]
    wrong = client.get("/api/tables/tickz")
    assert wrong.status_code == 400
    assert "Did you mean ticks?" in wrong.json()["problem"]["text"]


@pytest.mark.parametrize("example", gallery.EXAMPLES, ids=lambda one: one.name)
def test_examples_are_right_as_they_stand(client: TestClient, example: gallery.Example) -> None:
    found = client.post("/api/check", json={"text": example.text}).json()
    assert found["problem"] is None
    assert found["columns"]


def test_a_mistake_has_its_place(client: TestClient) -> None:
    text = FALLS.replace("B.v <", "B.w <")
    problem = client.post("/api/check", json={"text": text}).json()["problem"]
    assert text[problem["position"] : problem["position"] + problem["length"]] == "B.w"
    assert problem["kind"] == "analysis"
    assert "^^^" in problem["text"]


def test_a_mistake_of_the_statement_has_its_place(client: TestClient) -> None:
    text = FALLS.replace("SELECT *", "SELECT q")
    problem = client.post("/api/check", json={"text": text}).json()["problem"]
    assert text[problem["position"] :].startswith("q")


def test_a_check_knows_the_columns_of_the_result(client: TestClient) -> None:
    found = client.post("/api/check", json={"text": FALLS}).json()
    assert found["columns"] == [
        {"name": "k", "type": "string"},
        {"name": "began", "type": "bigint"},
        {"name": "n", "type": "bigint"},
    ]
    assert client.post("/api/check", json={"text": " "}).json()["empty"] is True


def test_a_run(client: TestClient) -> None:
    run = ended(client, FALLS)
    assert (run["state"], run["rows"], run["total"], run["more"]) == ("done", 2, 2, False)
    assert run["patterns"] == [{"number": 1, "language": "row pattern", "keys": ["k"], "time": "ts", "start": 36}]
    rows = client.get(f"/api/runs/{run['id']}/rows?from=1&count=5").json()["rows"]
    assert rows == [["y", 1, 2]]
    assert run["id"] in [one["id"] for one in client.get("/api/runs").json()["runs"]]


def test_a_run_that_fails(client: TestClient) -> None:
    run = ended(client, "SELECT raise_error('no way') FROM t")
    assert run["state"] == "failed"
    assert "no way" in run["problem"]["message"]


def test_more_rows_than_are_kept(client: TestClient) -> None:
    run = ended(client, "SELECT id FROM range(25000)")
    assert (run["rows"], run["more"], run["total"]) == (10_000, True, None)
    assert client.post(f"/api/runs/{run['id']}/count").json() == {"total": 25_000}


@pytest.mark.parametrize("at_once", [True, False])
def test_a_run_is_cancelled(client: TestClient, at_once: bool) -> None:
    name = client.post("/api/runs", json={"text": LONG}).json()["id"]
    wait_until(lambda: at_once or (client.get(f"/api/runs/{name}").json()["progress"] or {"total": 1})["total"])
    client.post(f"/api/runs/{name}/cancel")
    run = waited(client, name)
    assert run["state"] == "cancelled"
    assert run["problem"] is None


def test_keys_and_plan(client: TestClient) -> None:
    run = ended(client, FALLS)
    keys = client.get(f"/api/runs/{run['id']}/keys").json()
    assert keys == {
        "columns": ["k"],
        "keys": [{"key": {"k": "x"}, "rows": 3}, {"key": {"k": "y"}, "rows": 2}],
        "more": False,
    }
    for analyze in (False, True):
        plan = client.post(f"/api/runs/{run['id']}/plan", json={"analyze": analyze}).json()["html"]
        assert "<svg" in plan
        assert ("attempts" in plan) == analyze


def test_a_query_without_a_pattern_has_nothing_to_look_at(client: TestClient) -> None:
    run = ended(client, "SELECT 1 AS one")
    answer = client.post(f"/api/runs/{run['id']}/plan", json={})
    assert answer.status_code == 400
    assert "no pattern" in answer.json()["problem"]["message"]


def test_a_plot(client: TestClient) -> None:
    run = ended(client, FALLS)
    found = client.post(f"/api/runs/{run['id']}/plot", json={"of": {"k": "y"}, "width": 500}).json()
    assert found["key"] == {"k": "y"}
    assert found["asks"] == "number"
    assert found["spec"]["vconcat"]
    assert found["spec"]["description"].startswith("y")
    wrong = client.post(f"/api/runs/{run['id']}/plot", json={"choose": "nicest"})
    assert wrong.status_code == 400
    assert "nicest" in wrong.json()["problem"]["message"]


def test_a_report(client: TestClient) -> None:
    run = ended(client, FALLS)
    answer = client.post(f"/api/runs/{run['id']}/report", json={})
    assert answer.headers["content-disposition"] == 'attachment; filename="episode-report.html"'
    assert "MATCH_RECOGNIZE" in answer.text


def test_why_not(client: TestClient) -> None:
    run = ended(client, FALLS)
    answer = client.post(f"/api/runs/{run['id']}/why-not", json={"of": {"k": "x"}, "at": 3, "pattern": 1}).json()
    assert answer["answers"][0]["findings"]
    assert "k = " in answer["text"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("CREATE TABLE u AS SELECT 1", "CREATE"),
        ("INSERT INTO u SELECT 1", "INSERT"),
        ("WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM a", "INSERT"),
        ("SET spark.x = 1", "SET"),
        ("SELECT reflect('java.lang.System', 'getProperty', 'user.home')", "reflect"),
        ("SELECT `reflect`('java.lang.System', 'getProperty', 'user.home')", "`reflect`"),
        ("SELECT IDENTIFIER('ref' || 'lect')('java.lang.System', 'lineSeparator')", "IDENTIFIER"),
        ("SELECT TRANSFORM (k) USING 'cat' AS (a) FROM t", "SELECT"),
        ("SHOW STREAMS", "SHOW"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
    ],
)
def test_only_queries_are_run(client: TestClient, text: str, word: str) -> None:
    for problem in (client.post("/api/check", json={"text": text}).json()["problem"], ended(client, text)["problem"]):
        assert problem["kind"] == "unsupported"
        assert text[problem["position"] :].startswith(word)


def test_other_files_and_tables_are_not_read(client: TestClient, spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "secret"))
    spark.read.parquet(str(tmp_path / "secret")).createOrReplaceTempView("studio_secret")
    try:
        for text in (
            f"SELECT * FROM parquet.`{tmp_path}/secret`",
            "SELECT * FROM studio_secret",
            "SELECT (SELECT max(id) FROM studio_secret) AS found FROM t",
            "SELECT * FROM t WHERE ts IN (SELECT id FROM studio_secret)",
            "WITH s AS (SELECT * FROM studio_secret) SELECT * FROM s",
            """SELECT * FROM (SELECT id, id AS ts FROM studio_secret) MATCH_RECOGNIZE (
                ORDER BY ts MEASURES A.id AS found PATTERN (A) DEFINE A AS TRUE)""",
            "FROM studio_secret ORDER BY id PATTERN A; B WITHIN 5",
        ):
            assert (
                "not one of the tables" in client.post("/api/check", json={"text": text}).json()["problem"]["message"]
            )
            run = ended(client, text)
            assert run["state"] == "failed"
            assert "not one of the tables" in run["problem"]["message"]
            assert run["columns"] == []
            assert client.get(f"/api/runs/{run['id']}/rows").json()["rows"] == []
            assert client.get(f"/api/runs/{run['id']}/keys").status_code == 400
    finally:
        spark.catalog.dropTempView("studio_secret")


def test_a_notebook_runs_the_query_again(client: TestClient) -> None:
    answer = client.post("/api/notebook", json={"text": FALLS})
    assert "attachment" in answer.headers["content-disposition"]
    cells = answer.json()["cells"]
    assert any("matches = episode.sql(query, t=t)" in cell["source"] for cell in cells)


def test_a_stream_of_spark(client: TestClient, spark: SparkSession, tmp_path: Path) -> None:
    pa.parquet.write_table(T, tmp_path / "t.parquet")
    stream = spark.readStream.schema("k string, ts bigint, v bigint").parquet(str(tmp_path))
    query = stream.writeStream.format("memory").queryName("studio_stream").start()
    try:
        query.processAllAvailable()
        (found,) = [one for one in client.get("/api/streams").json()["streams"] if one["name"] == "studio_stream"]
        assert (found["kind"], found["active"], found["events"]) == ("Spark stream", True, 5)
        assert found["columns"] == ["k", "ts", "v"]
        assert len(found["latest"]) == 5
    finally:
        query.stop()
