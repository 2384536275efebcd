"""Direct scans of files made by pyarrow: constant columns, conditions, row groups left out; no Spark session."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from episode.spark.scan.conditions import AndFilter, ComparisonFilter, Condition, Membership, Nullness, OrFilter
from episode.spark.scan.direct import ParquetScan, scan_of_files
from episode.spark.scan.parquet import DataFile, TableFiles
from episode.spark.scan.storage import LOCAL, Storage

PARTITIONS = pa.table(
    {
        "day": pa.array([date(2024, 1, 1), date(2024, 1, 2), None]),
        "kind": pa.array(["a", None, "c"]),
        "n": pa.array([1, 2, None], pa.int32()),
    }
)
FIELDS = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("missing", pa.int32()),
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("n", pa.int32()),
    ]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFile, ...]:
    """Three files of 1,000 rows in groups of 100, in the order of `id`; each of another partition."""
    folder = tmp_path_factory.mktemp("a b%20#")
    rng = np.random.default_rng(3)
    for number in range(3):
        x = rng.choice([np.nan, 0.0, 1.5, 2.5], 1000)
        table = pa.table(
            {
                "id": np.arange(number * 1000, number * 1000 + 1000),
                "x": pa.array(x, mask=rng.random(1000) < 0.2),
                "S" if number == 1 else "s": pa.array(rng.choice(list("abc"), 1000), mask=rng.random(1000) < 0.2),
                "day": rng.integers(0, 9, 1000),  # Spark's partition column, whatever the file has
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=100)
    return tuple(DataFile(str(folder / f"{number}.parquet"), number) for number in range(3))


def scan(files: tuple[DataFile, ...], columns: dict[str, str], condition: Condition | None = None) -> ParquetScan:
    """columns: delivered name to name in the files."""
    schema = pa.schema([FIELDS.field(name).with_name(given) for given, name in columns.items()])
    found = scan_of_files(TableFiles(LOCAL, files, PARTITIONS, tuple(columns.values()), FIELDS, condition), schema)
    assert isinstance(found, ParquetScan), found
    return found


def rows(found: ParquetScan) -> list[dict[str, Any]]:
    tables = [table for task in found.tasks(2**14, 2, 2) for table in found.read(task)]
    return [row for table in tables for row in table.to_pylist()]


def everything(files: tuple[DataFile, ...]) -> list[dict[str, Any]]:
    """All rows as they should be, read by plain pyarrow."""
    whole = []
    for file in files:
        table = pq.read_table(file.path, partitioning=None).rename_columns(["id", "x", "s", "day"])
        constants = PARTITIONS.slice(file.partition, 1).to_pylist()[0]
        whole += [row | {"missing": None} | constants for row in table.to_pylist()]
    return whole


def comparable(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))


def test_constant_missing_and_renamed_columns(files: tuple[DataFile, ...]) -> None:
    columns = {"id": "id", "letter": "s", "missing": "missing", "day": "day", "kind": "kind", "again": "n", "n": "n"}
    found = scan(files, columns)
    assert rows(found) == [{given: row[name] for given, name in columns.items()} for row in everything(files)]
    kind = next(iter(found.read(found.splits[:1]))).column("kind").type
    assert kind == pa.dictionary(pa.int32(), pa.string())


def test_constant_columns_alone(files: tuple[DataFile, ...]) -> None:
    found = rows(scan(files, {"kind": "kind"}))
    assert [row["kind"] for row in found] == ["a"] * 1000 + [None] * 1000 + ["c"] * 1000


def test_conditions_of_columns_that_are_not_delivered(files: tuple[DataFile, ...]) -> None:
    condition = AndFilter(
        (
            OrFilter((ComparisonFilter("x", ">", pa.scalar(2.0)), ComparisonFilter("kind", "=", pa.scalar("c")))),
            Membership("s", pa.array(["a", "b"])),
        )
    )
    found = scan(files, {"id": "id", "day": "day"}, condition)
    expected = [
        {"id": row["id"], "day": row["day"]}
        for row in everything(files)
        if row["s"] in ("a", "b") and (row["kind"] == "c" or (row["x"] is not None and not row["x"] <= 2.0))
    ]
    assert rows(found) == expected
    assert found.words == (
        "Parquet read directly: 3 files, 3,000 rows, 2 columns; constant in each file: day, kind; "
        "where (x > 2.0 OR kind = 'c') AND s IN ('a', 'b')"
    )


def test_row_groups_are_left_out_by_statistics(files: tuple[DataFile, ...]) -> None:
    condition = AndFilter((ComparisonFilter("id", ">=", pa.scalar(950)), ComparisonFilter("id", "<", pa.scalar(1110))))
    found = scan(files, {"id": "id"}, condition)
    assert [(split.path[-9:], split.first) for split in found.splits] == [
        ("0.parquet", 9), ("1.parquet", 0), ("1.parquet", 1),
    ]  # fmt: skip
    assert (found.rows, found.groups_left_out) == (300, 27)
    assert [row["id"] for row in rows(found)] == list(range(950, 1110))
    assert "27 row groups left out by statistics" in found.words
    nothing = scan(files, {"id": "id"}, ComparisonFilter("missing", "=", pa.scalar(1, pa.int32())))
    assert (nothing.splits, rows(nothing)) == ((), [])
    nulls = scan(files, {"id": "id"}, Nullness("id", null=True))
    assert nulls.splits == ()


def test_random_conditions(files: tuple[DataFile, ...]) -> None:
    rng = np.random.default_rng(8)
    whole = pa.Table.from_pylist(everything(files), FIELDS)
    for _ in range(30):
        low, high = sorted(rng.integers(0, 3000, 2).tolist())
        number = int(rng.integers(1, 3))
        condition = OrFilter(
            (
                AndFilter((ComparisonFilter("id", ">", pa.scalar(low)), ComparisonFilter("id", "<=", pa.scalar(high)))),
                AndFilter((ComparisonFilter("n", "=", pa.scalar(number, pa.int32())), Nullness("x", null=True))),
            )
        )
        ids, n = whole["id"], whole["n"]
        inside = pc.and_(pc.greater(ids, low), pc.less_equal(ids, high))
        wanted = whole.filter(pc.or_kleene(inside, pc.and_kleene(pc.equal(n, number), whole["x"].is_null())))
        found = rows(scan(files, {name: name for name in FIELDS.names}, condition))
        assert list(map(comparable, found)) == list(map(comparable, wanted.to_pylist()))


def test_names_of_several_cases(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "ID": [2]}), tmp_path / "1.parquet")
    table = TableFiles(LOCAL, (DataFile(str(tmp_path / "1.parquet")),), pa.table({}), ("id",), FIELDS)
    schema = pa.schema([FIELDS.field("id")])
    assert "column id is ambiguous" in scan_of_files(table, schema)
    exact = TableFiles(LOCAL, table.files, pa.table({}), ("id",), FIELDS, case_sensitive=True)
    found = scan_of_files(exact, schema)
    assert isinstance(found, ParquetScan)
    assert rows(found) == [{"id": 1}]
    upper = TableFiles(LOCAL, table.files, pa.table({}), ("missing",), FIELDS, case_sensitive=True)
    found = scan_of_files(upper, pa.schema([FIELDS.field("missing")]))
    assert isinstance(found, ParquetScan)
    assert rows(found) == [{"missing": None}]


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"not Parquet")
    table = TableFiles(LOCAL, (DataFile(str(tmp_path / "1.parquet")),), pa.table({}), ("id",), FIELDS)
    assert "a footer cannot be read" in scan_of_files(table, pa.schema([FIELDS.field("id")]))
    odd = replace(table, storage=Storage("s3", "bucket", (("option_of_another_version", 1),)))
    assert "the file system cannot be opened" in scan_of_files(odd, pa.schema([FIELDS.field("id")]))
    none = TableFiles(LOCAL, (), pa.table({}), ("id",), FIELDS)
    assert scan_of_files(none, pa.schema([FIELDS.field("id")])) == "there are no files"
