"""Rows written as JSON: they are read again as they were, and by anybody."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.matchers.json_columns import JsonColumns
from episode.matchers.json_values import keys, objects

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("long", pa.int64()),
        ("tiny", pa.int8()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("yes", pa.bool_()),
        ("price", pa.decimal128(12, 3)),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
    ]
)
VALUES = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(),
        "long": st.none() | st.integers(-(2**63), 2**63 - 1),
        "tiny": st.none() | st.integers(-128, 127),
        "double": st.none() | st.floats(),
        "float": st.none() | st.floats(width=32),
        "yes": st.none() | st.booleans(),
        "price": st.none() | st.decimals(-(10**8), 10**8, places=3),
        "day": st.none() | st.dates(),
        "ts": st.none() | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(timezone.utc)),
        "local": st.none() | st.datetimes(),
    }
)


@given(st.lists(VALUES, max_size=5))
def test_what_is_written_is_read_again(rows: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    written = objects(table).to_pylist()
    found = JsonColumns(SCHEMA).read([line.encode() for line in written])
    assert repr(found.to_pylist()) == repr(table.to_pylist())
    for line, row in zip(written, table.to_pylist(), strict=True):
        assert {name for name, value in row.items() if value is not None} == json.loads(line).keys()


def test_the_form() -> None:
    table = pa.table(
        {
            "a b": pa.array(['x"\\\n\x01é', None]),
            "v": [1.0, float("nan")],
            "d": [Decimal("1.50"), None],
            "ts": pa.array([datetime(2026, 11, 1, 1, 2, 3, 4), None], pa.timestamp("us", "UTC")),
            "day": [date(2026, 11, 1), None],
            "blob": [b"x", None],
            "list": [["a", None], []],
            "struct": [{"p": 1, "q": None}, None],
        }
    )
    assert objects(table).to_pylist() == [
        '{"a b":"x\\"\\\\\\n\\u0001é","v":1.0,"d":1.50,"ts":"2026-11-01T01:02:03.000004Z","day":"2026-11-01",'
        '"blob":"eA==","list":["a",null],"struct":{"p":1}}',
        '{"v":"NaN","list":[]}',
    ]
    assert keys(table, ("a b",)).to_pylist() == ['x"\\\n\x01é', None]
    assert keys(table, ("v", "day")).to_pylist() == ['["1.0","2026-11-01"]', '["NaN",null]']


def test_no_maps() -> None:
    with pytest.raises(EpisodeUnsupportedError, match="MAP"):
        objects(pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}))
