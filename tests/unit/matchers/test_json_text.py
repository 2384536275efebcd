"""Rows as JSON, column by column: what json.loads reads is what the rows have."""

from __future__ import annotations

import json
import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.json_text import json_objects

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "small": (pa.int8(), st.integers(-128, 127)),
    "real": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), TEXTS),
    "list": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=3)),
    "struct": (pa.struct([("a", pa.int32()), ("b", pa.string())]), st.fixed_dictionaries({"a": st.none(), "b": TEXTS})),
    "nested": (
        pa.list_(pa.struct([("x", pa.float64()), ("y", pa.list_(pa.int64()))])),
        st.lists(st.fixed_dictionaries({"x": st.just(1.5), "y": st.lists(st.integers(0, 9), max_size=2)}), max_size=2),
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True))
    rows = draw(st.integers(0, 5))
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS[name][1], min_size=rows, max_size=rows)), COLUMNS[name][0])
        for name in names
    ]
    return pa.table(columns, names=names) if names else pa.table({"x": list(range(rows))})


@given(tables(), st.integers(0, 3))
def test_rows_are_read_as_they_are(table: pa.Table, begin: int) -> None:
    part = table.slice(begin)
    texts = json_objects(part.column_names, part.columns, part.num_rows).to_pylist()
    assert [json.loads(text) for text in texts] == part.to_pylist()


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float64(), -math.inf, '"-Infinity"'),
        (pa.decimal128(10, 2), Decimal("-3.10"), "-3.10"),
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc), '"2026-01-02T03:04:05.000006Z"'),
        (
            pa.timestamp("us", "Europe/Berlin"),
            datetime(2026, 1, 2, tzinfo=timezone.utc),
            '"2026-01-02T00:00:00.000000Z"',
        ),
        (pa.timestamp("us"), datetime(1969, 1, 2), '"1969-01-02T00:00:00.000000"'),
        (pa.date32(), date(2026, 1, 2), '"2026-01-02"'),
        (pa.binary(), b"ab", '"YWI="'),
        (pa.map_(pa.int32(), pa.string()), [(1, "a"), (2, None)], '{"1":"a","2":null}'),
        (pa.dictionary(pa.int32(), pa.string()), "a", '"a"'),
        (pa.null(), None, "null"),
    ],
)
def test_values_of_other_types(kind: pa.DataType, value: object, text: str) -> None:
    assert json_objects(['"x"'], [pa.array([value], kind)], 1).to_pylist() == [f'{{"\\"x\\"":{text}}}']


def test_rows_without_columns() -> None:
    assert json_objects([], [], 2).to_pylist() == ["{}", "{}"]
