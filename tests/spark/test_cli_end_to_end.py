"""The command line with Spark after it: small Parquet in; table, Parquet, CSV and JSON out."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from episode import cli

pytestmark = pytest.mark.spark

V_SHAPE = """
SELECT symbol, init_price, low_price, end_price, rows_in_match
FROM ticks MATCH_RECOGNIZE (
  PARTITION BY symbol
  ORDER BY ts
  MEASURES
    STRT.price AS init_price, LAST(DOWN.price) AS low_price, LAST(UP.price) AS end_price, COUNT(*) AS rows_in_match
  PATTERN (STRT DOWN+ UP+)
  DEFINE DOWN AS DOWN.price < PREV(DOWN.price), UP AS UP.price > PREV(UP.price)
)
ORDER BY symbol, init_price
"""
# a: 10 8 6 7 9 9   one V of five rows      b: 5 4 6 3 4   two V's, the second from the row after the first
PRICES = {"a": [10.0, 8.0, 6.0, 7.0, 9.0, 9.0], "b": [5.0, 4.0, 6.0, 3.5, 3.0, 4.0]}
COLUMNS = ["symbol", "init_price", "low_price", "end_price", "rows_in_match"]
EXPECTED = [("a", 10.0, 6.0, 9.0, 5), ("b", 3.5, 3.0, 4.0, 3), ("b", 5.0, 4.0, 6.0, 3)]


@pytest.fixture(scope="module")
def ticks() -> pa.Table:
    start = datetime(2026, 3, 2, 9, 30, tzinfo=timezone.utc)
    rows = [
        {"symbol": symbol, "ts": start + timedelta(seconds=second), "price": price}
        for symbol, prices in PRICES.items()
        for second, price in enumerate(prices)
    ]
    schema = pa.schema([("symbol", pa.string()), ("ts", pa.timestamp("us", tz="UTC")), ("price", pa.float64())])
    return pa.Table.from_pylist(rows[::-1], schema=schema)  # the order in the file does not matter


@pytest.fixture(scope="module")
def parquet(ticks: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "ticks.parquet"
    pyarrow.parquet.write_table(ticks, path)
    return path


def invoke(*arguments: object, **keywords: Any) -> Any:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(cli.app, list(map(str, arguments)), **keywords)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def run(*arguments: object, **keywords: Any) -> Any:
    result = invoke("run", *arguments, **keywords)
    assert result.exit_code == 0, result.stderr
    return result


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    assert table.column_names == COLUMNS
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_to_the_screen(parquet: Path) -> None:
    result = run(V_SHAPE, "--table", f"ticks={parquet}")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert COLUMNS in lines
    assert ["a", "10.0", "6.0", "9.0", "5"] in lines
    assert "3 rows" in result.stderr


def test_to_parquet(parquet: Path, tmp_path: Path) -> None:
    run(V_SHAPE, "-t", f"ticks={parquet}", "-o", tmp_path / "out")
    assert rows_of(pyarrow.dataset.dataset(tmp_path / "out", format="parquet").to_table()) == EXPECTED


def test_to_csv(parquet: Path, tmp_path: Path) -> None:
    run(V_SHAPE, "-t", f"ticks={parquet}", "-o", tmp_path / "out", "--format", "csv")
    assert rows_of(pyarrow.dataset.dataset(tmp_path / "out", format="csv").to_table()) == EXPECTED


def test_to_json(parquet: Path, tmp_path: Path) -> None:
    run(V_SHAPE, "-t", f"ticks={parquet}", "-o", tmp_path / "out.json")
    files = list((tmp_path / "out.json").glob("part-*.json"))
    found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert sorted(tuple(row[name] for name in COLUMNS) for row in found) == EXPECTED


def test_csv_and_json_lines_to_standard_output(parquet: Path) -> None:
    found = list(csv.DictReader(io.StringIO(run(V_SHAPE, "-t", f"ticks={parquet}", "--format", "csv").stdout)))
    assert [(row["symbol"], float(row["init_price"])) for row in found] == [row[:2] for row in EXPECTED]
    lines = run(V_SHAPE, "-t", f"ticks={parquet}", "--format", "json", "--limit", 1).stdout.splitlines()
    assert [json.loads(line)["low_price"] for line in lines] == [6.0]


def test_an_empty_result(parquet: Path) -> None:
    result = run(V_SHAPE.replace("STRT DOWN+", "STRT DOWN{9}"), "-t", f"ticks={parquet}")
    assert "0 rows" in result.stderr


def test_an_output_is_replaced_on_request_only(parquet: Path, tmp_path: Path) -> None:
    arguments = [V_SHAPE, "-t", f"ticks={parquet}", "-o", tmp_path / "out"]
    run(*arguments, "--limit", 1)
    assert invoke("run", *arguments).exit_code == 2
    run(*arguments, "--overwrite")
    assert rows_of(pyarrow.dataset.dataset(tmp_path / "out", format="parquet").to_table()) == EXPECTED


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_tables_from_csv_and_json(ticks: pa.Table, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"ticks.{suffix}"
    if suffix == "csv":
        pyarrow.csv.write_csv(ticks, path)
    else:
        rows = ({**row, "ts": row["ts"].isoformat()} for row in ticks.to_pylist())
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(V_SHAPE, "-t", f"ticks={path}", "--format", "json")
    assert len(result.stdout.splitlines()) == len(EXPECTED)


def test_the_query_from_a_file_and_from_standard_input(parquet: Path, tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(V_SHAPE)
    from_file = run(tmp_path / "v.sql", "-t", f"ticks={parquet}")
    from_input = run("-", "-t", f"ticks={parquet}", input=V_SHAPE)
    assert from_file.stdout == from_input.stdout != ""


def test_explain(parquet: Path) -> None:
    result = invoke("explain", V_SHAPE, "-t", f"ticks={parquet}")
    assert result.exit_code == 0, result.stderr
    assert "DOWN" in result.stdout


@pytest.mark.parametrize(
    ("wrong", "pointed_at"),
    [
        (V_SHAPE.replace("PATTERN (STRT", "PATTERN (STRT ("), "^"),
        (V_SHAPE.replace("LAST(UP.price)", "LAST(UP.prize)"), "UP.prize"),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain"])
def test_wrong_queries_are_told_with_their_place(parquet: Path, command: str, wrong: str, pointed_at: str) -> None:
    result = invoke(command, wrong, "-t", f"ticks={parquet}")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert pointed_at in result.stderr
    assert "^" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wrong_name_outside_the_clause_is_told(parquet: Path) -> None:
    result = invoke(
        "run", V_SHAPE.replace("ORDER BY symbol, init_price", "ORDER BY nonsense"), "-t", f"ticks={parquet}"
    )
    assert result.exit_code == 2
    assert "nonsense" in result.stderr
    assert "Traceback" not in result.stderr
    assert "org.apache" not in result.stderr


def test_an_unknown_table_is_told() -> None:
    result = invoke("run", V_SHAPE.replace("FROM ticks", "FROM nowhere_to_be_found"))
    assert result.exit_code == 2
    assert "nowhere_to_be_found" in result.stderr


@pytest.mark.parametrize(
    ("url", "reported"),
    [
        ("kafka://127.0.0.1:1/ticks?schema=symbol string", "spark.jars.packages"),
        ("kafka://127.0.0.1:1/ticks?schema=symbol strong", "schema 'symbol strong' of a topic"),
    ],
)
def test_a_topic_that_cannot_be_read_is_reported(url: str, reported: str) -> None:
    result = invoke("run", V_SHAPE, "-t", f"ticks={url}")
    assert result.exit_code == 2
    assert reported in result.stderr
    assert "Traceback" not in result.stderr


def test_an_error_in_the_data_is_told(tmp_path: Path) -> None:
    """A null event time is found first while the query runs, in a worker."""
    path = tmp_path / "ticks.parquet"
    schema = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("price", pa.float64())])
    pyarrow.parquet.write_table(
        pa.table({"ts": [None, datetime(2026, 3, 2)], "price": [1.0, 2.0]}, schema=schema), path
    )
    query = "SELECT * FROM ticks MATCH_RECOGNIZE (ORDER BY ts MEASURES A.price AS p PATTERN (A B) WITHIN 1 MINUTE)"
    result = invoke("run", query, "-t", f"ticks={path}")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "null" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_wide_table_in_a_pipe_is_not_folded(parquet: Path) -> None:
    wide = V_SHAPE.replace(
        "SELECT symbol,", f"SELECT {', '.join(f'repeat(symbol, 40) AS column_{i}' for i in range(9))},"
    )
    result = CliRunner(env={"COLUMNS": "60"}).invoke(cli.app, ["run", wide, "-t", f"ticks={parquet}"])
    lines = result.stdout.splitlines()
    assert [line.count("a" * 40) for line in lines if "aa" in line] == [9]
    assert all(f"column_{i}" in lines[1] for i in range(9))


def test_a_complaint_of_spark_points_at_its_place(parquet: Path) -> None:
    result = invoke(
        "run", V_SHAPE.replace("ORDER BY symbol, init_price", "ORDER BY nonsense"), "-t", f"ticks={parquet}"
    )
    lines = result.stderr.splitlines()
    assert lines[-2:] == ["  11 | ORDER BY nonsense", "                ^^^^^^^^"]
    assert "{" not in result.stderr
