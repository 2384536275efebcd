"""Types of columns as they are declared, and as stores hold them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError
from episode.store.declaration import arrow_type, columns_of, spark_type


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("STRING", pa.string()),
        ("Long", pa.int64()),
        ("integer", pa.int32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("TIMESTAMP_NTZ", pa.timestamp("us")),
        ("DATE", pa.date32()),
        ("decimal(10, 2)", pa.decimal128(10, 2)),
        ("DECIMAL", pa.decimal128(10, 0)),
        ("array<double>", pa.list_(pa.float64())),
        ("MAP<STRING, array<INT>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("struct<lat: double, `a b` string>", pa.struct([("lat", pa.float64()), ("a b", pa.string())])),
    ],
)
def test_types(text: str, expected: pa.DataType) -> None:
    assert arrow_type(text) == expected


@pytest.mark.parametrize(
    "text", ["money", "decimal(50, 2)", "decimal(2, 5)", "array<>", "array<int, int>", "", "VARCHAR(3)"]
)
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(EpisodeAnalysisError):
        arrow_type(text)


def test_names_of_types_are_those_of_spark() -> None:
    assert [spark_type(text) for text in ("LONG", "byte", "numeric(5)")] == ["bigint", "tinyint", "decimal(5,0)"]


@pytest.mark.parametrize(
    "columns",
    [
        "symbol STRING, price DECIMAL(10, 2)",
        {"symbol": "string", "price": "decimal(10,2)"},
        [("symbol", "STRING"), ("price", "dec(10,2)")],
        pa.schema([("symbol", pa.large_string()), ("price", pa.decimal128(10, 2))]),
    ],
)
def test_columns_in_every_form(columns: object) -> None:
    assert columns_of(columns) == (("symbol", "string"), ("price", "decimal(10,2)"))  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", ["symbol", "symbol STRING,", "3 int", [("a",)], [("a", 3)]])
def test_what_are_no_columns(columns: object) -> None:
    with pytest.raises(EpisodeAnalysisError):
        columns_of(columns)  # type: ignore[arg-type]
