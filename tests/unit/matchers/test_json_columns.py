"""Records of JSON as columns; that they are what Spark reads is in tests/spark/test_json_columns.py."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.matchers.json_columns import JsonColumns

SCHEMA = pa.schema([("name", pa.string()), ("count", pa.int64()), ("value", pa.float64()), ("good", pa.bool_())])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
RECORDS = st.dictionaries(st.sampled_from(SCHEMA.names) | st.text(max_size=3), VALUES, max_size=6)


def fitting(value: Any, type_: pa.DataType) -> Any:
    """A value of a record in a column, written down plainly; Ellipsis: not compared (texts of other values)."""
    if value is None:
        return None
    if pa.types.is_string(type_):
        return value if isinstance(value, str) else ...
    if pa.types.is_boolean(type_):
        return value if isinstance(value, bool) else None
    if pa.types.is_int64(type_):
        return value if type(value) is int and -(2**63) <= value < 2**63 else None
    if type(value) in (int, float):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    specials = {"NaN": math.nan, "INF": math.inf, "Infinity": math.inf, "-INF": -math.inf, "-Infinity": -math.inf}
    return specials.get(value) if isinstance(value, str) else None


@given(st.lists(RECORDS, max_size=8), st.booleans(), st.sampled_from([None, 0, 3]))
def test_random_records(records: list[dict[str, Any]], ascii_only: bool, indent: int | None) -> None:
    written = [json.dumps(one, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace") for one in records]
    records = [json.loads(one) for one in written]
    found = JsonColumns(SCHEMA).read(written)
    for field in SCHEMA:
        for record, value in zip(records, found.column(field.name).to_pylist(), strict=True):
            expected = fitting(record.get(field.name), field.type)
            assert expected is ... or repr(value) == repr(expected)


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_any_bytes_are_read(records: list[bytes]) -> None:
    assert JsonColumns(SCHEMA).read([*records, b'{"name": "a"}']).column("name").to_pylist()[-1] == "a"


@given(RECORDS)
def test_no_beginning_of_a_record_is_one(record: dict[str, Any]) -> None:
    written = json.dumps(record).encode()
    cut = [written[:end] for end in range(len(written))]
    found = JsonColumns(SCHEMA).read(cut)
    assert all(found.column(name).null_count == len(cut) for name in SCHEMA.names)


def test_bytes_that_are_no_text() -> None:
    found = JsonColumns(SCHEMA).read([b'{"name": "a\xff"}', None, b'{"name": "b"}'])
    assert found.column("name").to_pylist() == ["a�", None, "b"]


def test_no_records() -> None:
    assert JsonColumns(SCHEMA).read([]).num_rows == 0


def test_nesting_has_an_end() -> None:
    deep = b'{"count": 1, "x": ' + b"[" * 600 + b"]" * 600 + b"}"
    fair = b'{"count": 1, "x": ' + b"[" * 400 + b"]" * 400 + b"}"
    assert JsonColumns(SCHEMA).read([deep, fair]).column("count").to_pylist() == [None, 1]


@pytest.mark.parametrize("type_", [pa.binary(), pa.list_(pa.int64())])
def test_what_is_not_read(type_: pa.DataType) -> None:
    with pytest.raises(EpisodeUnsupportedError, match="cannot be read from JSON by a live task"):
        JsonColumns(pa.schema([("x", type_)]))
