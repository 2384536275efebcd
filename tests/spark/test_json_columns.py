"""Records of JSON are read by live tasks as Spark's from_json reads them in micro-batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from episode.matchers.json_columns import JsonColumns
from episode.store.declaration import arrow_type

pytestmark = pytest.mark.spark

RECORDS = [
    '{"x": 1}',
    '{"x": -7, "y": 3}',
    ' {"y": {"x": 5, "z": [1, {"x": 2}, "}"]}, "x": "a b"}',
    '{"x": null}',
    "{}",
    "",
    "   ",
    "no json",
    "[1]",
    '[{"x": 1}]',
    '{"x": 1',
    '{"x": 1,}',
    '{"x": 1, "y": [1,}',
    '{"x": 1, "y": tru}',
    '{"x" 1}',
    '{"x": 1} {"x": 2}',
    '{"x": 1} rest',
    '{"x": 1, "x": 2}',
    '{"x": 1, "x": null}',
    '{"X": 1}',
    "{'x': 'it''s'}",
    "{'x': 'a\"b'}",
    '{"x": 01}',
    '{"x": +1}',
    '{"x": 1.}',
    '{"x": .5}',
    '{"x": 1.0}',
    '{"x": 1.50}',
    '{"x": 2.675}',
    '{"x": -2.675}',
    '{"x": 1e3}',
    '{"x": 12345678.9}',
    '{"x": 0.00001}',
    '{"x": 1e400}',
    '{"x": 127}',
    '{"x": 128}',
    '{"x": 300}',
    '{"x": 32768}',
    '{"x": 2147483648}',
    '{"x": 9223372036854775807}',
    '{"x": 9223372036854775808}',
    '{"x": 123456789012345678901234567890}',
    '{"x": NaN}',
    '{"x": -INF}',
    '{"x": "NaN"}',
    '{"x": "-Infinity"}',
    '{"x": "1.5"}',
    '{"x": "1,234.5"}',
    '{"x": "12"}',
    '{"x": ""}',
    '{"x": true}',
    '{"x": "true"}',
    '{"x": false}',
    '{"x": {"a": 1, "b": [1, 2]}}',
    '{"x": [1, 2, "a b"]}',
    '{"x": "a\\"b\\\\c\\n\\u00e9\\/"}',
    '{"x": "ä€😀"}',
    '{"x": "\\ud83d\\ude00"}',
    '{"x": "a\\qb"}',
    '{"x": "line\nbreak"}',
    '{"x": "2026-11-01T12:34:56.123456Z"}',
    '{"x": "2026-11-01T12:34:56.1Z"}',
    '{"x": "2026-11-01 12:34:56"}',
    '{"x": "2026-11-01T12:34:56.123456789+02:30"}',
    '{"x": "2026-11-01T12:34:56-08:00"}',
    '{"x": "2026-11-01T12:34:56+01"}',
    '{"x": "2026-11-01T12:34:56+0100"}',
    '{"x": "2026-11-01 12:34:56 UTC"}',
    '{"x": "2026-11-01 12:34:56 Europe/Berlin"}',
    '{"x": "2026-11-01"}',
    '{"x": "2026-11"}',
    '{"x": "2026"}',
    '{"x": "2026-1-2"}',
    '{"x": "2026-1-2 3:4:5"}',
    '{"x": "2026-11-01T12:34"}',
    '{"x": "2026-11-01T12"}',
    '{"x": "2026-02-30"}',
    '{"x": "2024-02-29T23:59:59.999999Z"}',
    '{"x": "1969-12-31T23:59:59.5Z"}',
    '{"x": "0001-01-01T00:00:00Z"}',
    '{"x": "2026-11-01T24:00:00Z"}',
    '{"x": "2026-11-01T12:60:00Z"}',
    '{"x": "2026-11-01x"}',
    '{"x": "20261101"}',
    '{"x": 1700000000}',
    '{"x": 1700000000.5}',
]
TYPES = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(38,0)",
    "date", "timestamp", "timestamp_ntz",
)  # fmt: skip


@pytest.mark.parametrize(("type_", "zone"), [*((type_, "UTC") for type_ in TYPES), ("timestamp", "Europe/Berlin")])
def test_every_record_is_read_as_spark_does(spark: SparkSession, type_: str, zone: str) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        lines = spark.createDataFrame([(i, record) for i, record in enumerate(RECORDS)], "i int, value string")
        event = F.from_json("value", f"x {type_}").alias("e")
        expected = lines.select("i", event).select("i", "e.x").orderBy("i").toArrow().column("x")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    found = JsonColumns(pa.schema([("x", arrow_type(type_))]), zone).read([record.encode() for record in RECORDS])
    ours, theirs = found.column("x"), expected.cast(found.schema.field("x").type)
    if type_ == "date":  # Python's dates end before Spark's
        ours, theirs = ours.cast(pa.int32()), theirs.cast(pa.int32())
    compared = zip(RECORDS, ours.to_pylist(), theirs.to_pylist(), strict=True)
    differing = [(record, one, other) for record, one, other in compared if repr(one) != repr(other)]
    assert differing == []
