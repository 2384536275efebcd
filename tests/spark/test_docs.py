"""The documents are true: their code runs, and prints what stands below it."""

from __future__ import annotations

import re
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import episode
from episode import samples

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs"
PRICES = {"ACME": [20, 18, 15, 17, 21, 21, 19, 22], "BOLT": [7, 6, 8]}
LOG = [
    (1, "A", "n", 1), (2, "B", "n", 10), (3, "B", "s", 20), (4, "C", "n", 5), (5, "B", "n", 15),
    (6, "B", "n", 25), (7, "D", "n", 2), (8, "A", "s", 3), (9, "C", "s", 8), (10, "D", "s", 4),
]  # fmt: skip
STOCK = [
    (1, "IBM", 100.0, 10), (2, "Sun", 20.0, 5), (3, "Google", 95.0, 70), (4, "IBM", 95.0, 3), (5, "Google", 92.0, 80),
    (6, "Oracle", 40.0, 2), (7, "IBM", 70.0, 4), (8, "Google", 110.0, 60), (9, "Sun", 25.0, 1), (10, "IBM", 130.0, 9),
]  # fmt: skip
PLANT = [
    ("m1", 1, 60, "closed", 10), ("m1", 2, 85, "closed", 10), ("m1", 3, 90, "open", 60), ("m1", 4, 88, "open", 60),
    ("m1", 5, 70, "open", 60), ("m1", 6, 65, "closed", 60), ("m1", 7, 82, "closed", 20), ("m1", 8, 91, "open", 20),
    ("m1", 9, 93, "closed", 20), ("m1", 10, 70, "closed", 20), ("m1", 11, 70, "open", 20), ("m1", 12, 84, "open", 70),
    ("m1", 13, 86, "open", 70), ("m1", 14, 60, "closed", 70), ("m2", 1, 60, "closed", 10), ("m2", 2, 90, "open", 10),
    ("m2", 3, 91, "open", 60), ("m2", 4, 92, "closed", 60), ("m2", 5, 70, "closed", 60), ("m2", 6, 60, "open", 60),
]  # fmt: skip
MACHINES = """
    SELECT machine, timestamp(ts) AS ts, temp, door FROM VALUES
      (1, '2026-01-01 00:00:00', 70, 'closed'), (1, '2026-01-01 00:01:00', 85, 'closed'),
      (1, '2026-01-01 00:03:00', 95, 'open'), (1, '2026-01-01 00:04:00', 90, 'closed'),
      (1, '2026-01-01 00:05:00', 75, 'closed'), (2, '2026-01-01 00:00:00', 70, 'closed'),
      (2, '2026-01-01 00:02:00', 84, 'closed'), (2, '2026-01-01 00:08:00', 60, 'closed'),
      (2, '2026-01-01 01:00:00', 60, 'closed')
    AS machines(machine, ts, temp, door)
"""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """Language and text of the fenced blocks, in order."""
    return BLOCK.findall((DOCS / document).read_text(encoding="utf-8"))


def queries_with_results(document: str) -> list[tuple[str, str]]:
    """Every sql block that has a text block directly below it."""
    found = blocks(document)
    return [
        (text, below) for (kind, text), (next_kind, below) in pairwise(found) if (kind, next_kind) == ("sql", "text")
    ]


def queries(document: str) -> list[str]:
    return [text for kind, text in blocks(document) if kind == "sql"]


def used(query: str, tables: dict[str, Any]) -> dict[str, Any]:
    """The tables that a query names: others are refused."""
    return {name: table for name, table in tables.items() if re.search(rf"\b{name}\b", query)}


@pytest.fixture(scope="module")
def tables() -> dict[str, object]:
    rows = [
        f"('{symbol}', {tick}, {price})" for symbol, prices in PRICES.items() for tick, price in enumerate(prices, 1)
    ]
    ticks = episode.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS ticks(symbol, tick, price)")
    return {"ticks": ticks, "acme": ticks.where("symbol = 'ACME'").drop("symbol")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [*queries_with_results("reference-match-recognize.md"), *queries_with_results("reference-windows.md")],
)
def test_reference(query: str, expected: str, tables: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    episode.sql(query, **used(query, tables)).show(truncate=False)
    assert capsys.readouterr().out.strip() == expected.strip()


@pytest.mark.parametrize("document", ["reference-event-patterns.md", "how-plans-are-chosen.md"])
def test_event_patterns(
    document: str, spark: SparkSession, rocksdb: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = {
        "log": spark.createDataFrame(LOG, "ts int, kind string, host string, x int"),
        "stock": spark.createDataFrame(STOCK, "ts int, name string, price double, volume int"),
    }
    check_document(document, spark, tables, tmp_path, capsys)


@pytest.mark.parametrize("document", ["reference-situations.md", "from-events-to-situations.md"])
def test_situation_patterns(
    document: str, spark: SparkSession, rocksdb: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant = spark.createDataFrame(PLANT, "machine string, ts int, temp int, door string, load int").coalesce(1)
    check_document(document, spark, {"plant": plant}, tmp_path, capsys)


def test_correlation(spark: SparkSession, rocksdb: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
    rows = [("X", ts, price) for ts, price in enumerate(prices)]
    ticks = spark.createDataFrame(rows, "symbol string, ts int, price int").coalesce(1)
    check_document("reference-correlation.md", spark, {"ticks": ticks}, tmp_path, capsys)


def test_recency(
    spark: SparkSession,
    rocksdb: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPISODE_CATALOG", str(tmp_path / "catalog"))
    check_document("recency.md", spark, {}, tmp_path, capsys)


def test_rules(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_document("rules.md", spark, {}, tmp_path, capsys)


def test_cluster_monitoring(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(DOCS.parent))  # it imports from the examples
    check_document("cluster-monitoring.md", spark, {}, tmp_path, capsys)


def check_document(
    document: str, spark: SparkSession, tables: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The Python of a document is one program, its SQL runs over the same tables; each prints the text below it."""
    names: dict[str, object] = {"episode": episode, "spark": spark, **tables}
    (tmp_path / "incoming").mkdir()
    for (kind, text), (next_kind, below) in pairwise([*blocks(document), ("", "")]):
        if kind == "python":
            (tmp_path / "part.py").write_text(text.replace("incoming/", str(tmp_path / "incoming")))
            names = runpy.run_path(str(tmp_path / "part.py"), names)
        elif kind == "sql":
            show(text, tables)
        output = capsys.readouterr().out
        if kind in ("python", "sql") and next_kind == "text":
            assert _in_any_order(output) == _in_any_order(below), text


def _in_any_order(output: str) -> list[str]:
    """The lines, rows of tables sorted: matches come in any order."""
    lines, rows = [], []
    for line in output.strip("\n").split("\n"):
        if line.startswith("|"):
            rows.append(line)
            continue
        lines += [*sorted(rows), line]
        rows = []
    return lines + sorted(rows)


def show(query: str, tables: dict[str, object]) -> None:
    try:
        episode.sql(query, **used(query, tables)).show(truncate=False)
    except episode.EpisodeError as error:
        print(f"error: {error}")


def test_tutorial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All Python of the tutorial is one program; its text blocks appear in its output, in order."""
    program = "".join(text for kind, text in blocks("tutorial.md") if kind == "python")
    expected = [text for kind, text in blocks("tutorial.md") if kind == "text"]
    (tmp_path / "tutorial.py").write_text(program.replace("episode-samples", str(tmp_path)))
    runpy.run_path(str(tmp_path / "tutorial.py"))
    output = capsys.readouterr().out
    for text in expected:
        before, found, output = output.partition(text)
        assert found, f"not in the output:\n{text}\nbut:\n{before}"


@pytest.mark.parametrize("query", queries("how-to.md"))
def test_how_to(query: str, samples_directory: Path) -> None:
    ticks, clicks = str(samples_directory / "ticks.parquet"), str(samples_directory / "clicks.parquet")
    tables = {"ticks": ticks, "clicks": clicks, "machines": episode.sql(MACHINES)}
    assert episode.sql(query, **used(query, tables)).limit(1).collect()


def test_how_to_in_python(samples_directory: Path, tmp_path: Path) -> None:
    """The Python of the recipes is one program over the same two tables; its last table is not empty."""
    program = "".join(text for kind, text in blocks("how-to.md") if kind == "python")
    (tmp_path / "how_to.py").write_text(program)
    clicks = episode.sql("SELECT * FROM clicks", clicks=str(samples_directory / "clicks.parquet"))
    names = runpy.run_path(str(tmp_path / "how_to.py"), {"episode": episode, "clicks": clicks})
    assert names["twice"].limit(1).collect()


def test_spark_clients(spark: SparkSession, tmp_path: Path) -> None:
    """The Python of the page is one program, over a table of ticks."""
    rows = [("a", ts, price) for ts, price in enumerate([20, 18, 16, 21, 22])]
    ticks = spark.createDataFrame(rows, "symbol string, ts int, price int")
    ticks.createOrReplaceTempView("ticks")
    program = "".join(text for kind, text in blocks("spark-clients.md") if kind == "python")
    (tmp_path / "page.py").write_text(program)
    try:
        names = runpy.run_path(str(tmp_path / "page.py"), {"spark": spark, "ticks": ticks})
        assert [tuple(row) for row in names["dips"].collect()] == [("a", 1, 3, 16)]
        assert [row.n for row in names["busy"].collect()] == [5]
        assert [tuple(row) for row in names["lowest"].collect()] == [("a", 16)]
    finally:
        episode.uninstall()
        spark.conf.unset("spark.episode.leaveToSpark")
        for view in ("ticks", "dips"):
            spark.catalog.dropTempView(view)


def test_readme(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The Python of the README can be pasted as it is, and prints what stands below it."""
    check_document("../README.md", spark, {}, tmp_path, capsys)


def test_the_log_says_how_a_table_is_read(tables: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    """As the recipe says."""
    with caplog.at_level("INFO", logger="episode"):
        episode.sql(
            "SELECT * FROM acme MATCH_RECOGNIZE (ORDER BY tick MEASURES A.tick AS t PATTERN (A))", acme=tables["acme"]
        )
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("episode.spark", "INFO")
    assert record.getMessage().startswith("pattern over a table: scan: ")


@pytest.fixture(scope="module")
def samples_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("samples")
    samples.write(directory)
    return directory
