"""Attacks on what SECURITY.md says of the studio, over its endpoints: each test names the sentence it attacks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from starlette.testclient import TestClient

from episode.see.studio import tables as gallery
from episode.see.studio.app import Access, application
from episode.see.studio.studio import open_studio
from episode.spark.confinement import Confinement

pytestmark = pytest.mark.spark

PAGE = re.sub(r"\s+", " ", (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8"))
T = pa.table({"k": ["x", "x", "y"], "ts": [1, 2, 1], "v": [3, 2, 5]})
CALL = "('java.lang.System', 'getProperty', 'user.home')"
MEASURE = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES {} AS m PATTERN (A B))"


def says(sentence: str) -> None:
    assert sentence in PAGE


@pytest.fixture(scope="module")
def client(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    studio = open_studio(spark, {"t": T}, tmp_path_factory.mktemp("studio"), samples=False)
    access = Access(8351)
    made = TestClient(application(studio, access), base_url="http://127.0.0.1:8351")
    assert made.post("/api/enter", json={"token": access.token}).status_code == 204
    yield made
    studio.close()


def ended(client: TestClient, text: str) -> dict[str, Any]:
    name = client.post("/api/runs", json={"text": text}).json()["id"]
    while (run := client.get(f"/api/runs/{name}").json())["state"] == "running":
        pass
    return run


def refusals(client: TestClient, text: str) -> list[dict[str, Any]]:
    """What a check and a run say of a text, of which neither may accept it."""
    run = ended(client, text)
    found = [client.post("/api/check", json={"text": text}).json()["problem"], run["problem"]]
    assert run["state"] == "failed"
    assert all(found), text
    return found


# ---- only queries ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT /*+ x('*/') */ reflect{CALL} AS v -- '",
        f"SELECT /*+ x('*/') */ `Reflect`{CALL} AS v -- '",
        f"SELECT 1 -- a\r, reflect{CALL}",
        f"SELECT 1, 'a' -- \\\n' \n, reflect{CALL}",
        f"SELECT 2 */*'*/ reflect{CALL} -- '",
        f"SELECT system.builtin.java_method{CALL}",
        f"SELECT builtin.try_reflect{CALL}",
        f"SELECT IDENTIFIER('ref' || 'lect'){CALL}",
        f"SELECT transform(array(1), x -> reflect{CALL}) AS v",
        f"SELECT (SELECT max(reflect{CALL}) FROM t) AS v",
        f"SELECT sum(v) OVER w FROM t WINDOW w AS (PARTITION BY reflect{CALL})",
        f"WITH a AS (SELECT reflect{CALL} AS v) SELECT * FROM a",
        f"VALUES (reflect{CALL})",
        f"FROM t |> EXTEND reflect{CALL} AS r",
        f"SELECT * FROM t LATERAL VIEW explode(array(reflect{CALL})) e AS x",
        f"SELECT * FROM stack(1, reflect{CALL})",
        MEASURE.format(f"reflect{CALL}"),
        MEASURE.format(f"concat('a', java_method{CALL})"),
        "WITH q AS (SELECT /*+ x('*/') */ 1 AS a) SELECT TRANSFORM(a) USING 'id' AS (b string) FROM q -- ' )",
        "SELECT * FROM (SELECT TRANSFORM(k) USING 'id' AS (b string) FROM t)",
        "WITH q AS (SELECT /*+ x('*/') */ 1 AS a) INSERT INTO studio_target SELECT a FROM q -- ' )",
        "FROM t INSERT INTO studio_target SELECT v",
        "BEGIN SELECT 1; END",
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "DECLARE x = 1",
        "SET VAR x = 1",
        "CACHE TABLE x AS SELECT 1",
        "SELECT '${env:PATH}' AS p",
        MEASURE.format("'${system:user.home}'"),
    ],
)
def test_only_queries_and_nothing_that_calls_a_program(client: TestClient, spark: SparkSession, text: str) -> None:
    says("**Only queries.** Every part of the plan must be on a list of parts that ask.")
    says("`reflect`, `java_method`, `try_reflect`")
    for problem in refusals(client, text):
        assert problem["kind"] in ("unsupported", "syntax"), problem


def test_nothing_is_written_while_one_types(client: TestClient, tmp_path: Path) -> None:
    says("is judged before, by Spark's own parsed plan, also while one types")
    for text in (
        f"WITH q AS (SELECT 1 AS a) INSERT OVERWRITE LOCAL DIRECTORY '{tmp_path}/y' USING csv SELECT a FROM q",
        f"WITH q AS (SELECT /*+ x('*/') */ 1 AS a) INSERT OVERWRITE DIRECTORY '{tmp_path}/z' USING csv "
        "SELECT a FROM q -- ' )",
    ):
        refusals(client, text)
    assert list(tmp_path.iterdir()) == []


# ---- only given tables -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets(spark: SparkSession) -> Iterator[None]:
    made = spark.createDataFrame([("TOPSECRET", 1)], "s string, ts int")
    made.createOrReplaceTempView("secret_view")
    made.createOrReplaceGlobalTempView("secret_everywhere")
    spark.createDataFrame(spark.sparkContext.parallelize([("TOPSECRET", 1)]), "s string, ts int").createTempView("rdd")
    yield
    for name in ("secret_view", "rdd"):
        spark.catalog.dropTempView(name)
    spark.catalog.dropGlobalTempView("secret_everywhere")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM secret_view",
        "SELECT * FROM rdd",
        "SELECT * FROM SECRET_VIEW AS t",
        "SELECT * FROM global_temp.secret_everywhere",
        "TABLE secret_view",
        "SELECT * FROM t WHERE k IN (SELECT s FROM secret_view)",
        "SELECT (SELECT max(s) FROM secret_view) FROM t",
        "SELECT * FROM t, LATERAL (SELECT * FROM secret_view)",
        "WITH a AS (SELECT * FROM secret_view) SELECT * FROM a",
        "WITH secret_view AS (SELECT * FROM secret_view) SELECT * FROM secret_view",
        "SELECT * FROM secret_view, (WITH secret_view AS (SELECT 1) SELECT * FROM secret_view) AS b",
        "WITH a AS (SELECT * FROM secret_view), secret_view AS (SELECT 1) SELECT * FROM a",
        "WITH secret_view AS (SELECT '' AS s) SELECT max(v) OVER w FROM t "
        "WINDOW w AS (PARTITION BY (SELECT max(s) FROM secret_view))",
        "FROM t |> UNION ALL (SELECT s, ts, ts FROM secret_view)",
        "SELECT * FROM IDENTIFIER('secret' || '_view')",
        "SELECT * FROM secret_view MATCH_RECOGNIZE (ORDER BY ts MEASURES A.s AS m PATTERN (A))",
        "FROM secret_view ORDER BY ts PATTERN A; B WITHIN 5",
        MEASURE.format("(SELECT max(s) FROM secret_view)"),
        "SELECT * FROM parquet.`/etc/passwd`",
        "SELECT * FROM text.`/etc/passwd`",
        "SELECT * FROM python_worker_logs()",
        "SELECT from_avro(CAST(k AS BINARY), '{}', map('avroSchemaUrl', 'file:/etc/passwd')) FROM t",
    ],
)
def test_only_given_tables(client: TestClient, secrets: None, text: str) -> None:
    says("temporary and global temporary views that were not given are refused")
    says("functions that can open files (those of Avro and Protobuf), table functions that read")
    for problem in refusals(client, text):
        assert "TOPSECRET" not in json.dumps(problem)


def test_common_tables_hide_views_where_they_are_seen(client: TestClient, secrets: None) -> None:
    says("or a common table of the query that is visible there")
    run = ended(client, "WITH secret_view AS (SELECT 'mine' AS s) SELECT s FROM secret_view")
    assert client.get(f"/api/runs/{run['id']}/rows").json()["rows"] == [["mine"]]


# ---- functions and variables -------------------------------------------------------------------------


def test_functions_and_variables_of_the_session(client: TestClient, spark: SparkSession) -> None:
    says("all functions that the session registered are refused, also if they have the name of a built-in one")
    says("**No variables of the session.**")
    before = ended(client, "SELECT upper('a') AS u")
    spark.udf.register("leak", lambda: "TOPSECRET")
    spark.udf.register("upper", lambda text: "TOPSECRET")
    spark.sql("CREATE TEMPORARY FUNCTION leak_sql() RETURNS STRING RETURN 'TOPSECRET'")
    spark.sql("CREATE TEMPORARY FUNCTION leak_table() RETURNS TABLE (s STRING) RETURN SELECT 'TOPSECRET'")
    spark.sql("DECLARE secret_variable = 'TOPSECRET'")
    try:
        for text in (
            "SELECT leak()",
            "SELECT session.leak()",
            "SELECT upper('a')",
            "SELECT leak_sql()",
            "SELECT * FROM leak_table()",
            "SELECT * FROM t LATERAL VIEW leak_table() x",
            MEASURE.format("leak_sql()"),
            "SELECT secret_variable",
            "SELECT system.session.secret_variable",
            "SELECT * FROM t WHERE secret_variable = k",
        ):
            for problem in refusals(client, text):
                assert "TOPSECRET" not in json.dumps(problem)
    finally:
        for name in ("leak", "leak_sql", "leak_table"):
            spark.sql(f"DROP TEMPORARY FUNCTION {name}")
        spark.sql("DROP TEMPORARY FUNCTION session.upper")
        spark.sql("DROP TEMPORARY VARIABLE secret_variable")
    assert before["state"] == ended(client, "SELECT upper('a') AS u")["state"] == "done"


# ---- what must stay possible -------------------------------------------------------------------------


def test_queries_over_given_tables_are_not_refused(client: TestClient, spark: SparkSession) -> None:
    """Examples of Spark's own functions, and the forms of queries: the lists are not too short."""
    confinement, refused = Confinement(spark), set()
    registry = spark._jsparkSession.sessionState().functionRegistry()
    names = registry.listFunction()
    for name in (names.apply(at) for at in range(names.size())):
        for text in re.findall(r"^\s*> (SELECT .*?);\s*$", registry.lookupFunction(name).get().getExamples(), re.M):
            if confinement.statement(text, ()) is not None:
                refused.add(name.funcName())
    assert refused <= {"reflect", "java_method", "try_reflect", "current_path"} | {
        name for name in refused if "avro" in name or "protobuf" in name
    }
    for text in (
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "SELECT k, count(*) AS n FROM t GROUP BY ALL HAVING count(*) > 0 ORDER BY ALL LIMIT 5",
        "SELECT * FROM t PIVOT (sum(v) FOR k IN ('x', 'y'))",
        "SELECT * FROM t UNPIVOT (a FOR b IN (ts, v))",
        "SELECT /*+ BROADCAST(u) */ t.* FROM t JOIN t AS u USING (k) LEFT ANTI JOIN t AS w ON t.v < w.v",
        "FROM t |> WHERE v > 1 |> AGGREGATE sum(v) AS s GROUP BY k |> ORDER BY k",
        "SELECT lag(v) OVER w, sum(v) OVER (PARTITION BY k ORDER BY ts) FROM t WINDOW w AS (ORDER BY ts)",
        "SELECT * FROM t TABLESAMPLE (50 PERCENT) UNION ALL SELECT * FROM VALUES ('a', 1, 2) AS s(k, ts, v)",
        "SELECT e, x.col FROM explode(array(2)) AS x LATERAL VIEW explode(array(1)) AS e",
        "SELECT * EXCEPT (v), CASE WHEN v > 1 THEN 'a' END AS c, EXTRACT(DAY FROM INTERVAL 1 DAY) AS d FROM t",
        "SELECT * FROM t WHERE (k, v) IN (SELECT k, max(v) FROM t GROUP BY k) AND EXISTS (SELECT 1 FROM t AS u)",
    ):
        assert client.post("/api/check", json={"text": text}).json()["problem"] is None, text


# ---- requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"text": ' * 100_000,
        b'{"text": "\\ud800"}',
        b'{"token": "\\udfff", "text": ""}',
        b"\xff",
        b"1",
    ],
)
@pytest.mark.parametrize("path", ["/api/check", "/api/enter", "/api/runs"])
def test_bodies_that_are_no_requests(client: TestClient, path: str, body: bytes) -> None:
    says("bodies of requests that are not JSON and texts that are not Unicode are refused with an error")
    assert client.post(path, content=body).status_code == 400


def test_numbers_in_addresses(client: TestClient) -> None:
    run = ended(client, "SELECT 1 AS one")
    assert client.get(f"/api/runs/{run['id']}/rows?from={'9' * 5000}").status_code == 400


def test_examples_of_the_page_are_queries(spark: SparkSession) -> None:
    confinement = Confinement(spark)
    for example in gallery.EXAMPLES:
        if "MATCH_RECOGNIZE" not in example.text and example.text.lstrip().upper().startswith("SELECT"):
            assert confinement.statement(example.text, ("ticks", "clicks", "readings")) is None
