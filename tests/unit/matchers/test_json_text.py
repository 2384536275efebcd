"""Rows as JSON, column by column, against values written one by one."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from episode.matchers.json_columns import JsonColumns
from episode.matchers.json_text import JsonForm, json_objects, json_texts, key_texts
from tests.support.json_form import INTERVALS, VALUES, naive_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALARS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.int8(), st.integers(-128, 127)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
    (pa.binary(), st.binary(max_size=7)),
    (pa.decimal128(12, 3), st.decimals(-(10**8), 10**8, places=3)),
    (pa.decimal128(38, 20), st.decimals(-(10**17), 10**17, places=20)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.just(timezone.utc))),
    (pa.duration("us"), st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6))),
]


def nested(inner: tuple[pa.DataType, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    kind, values = inner[0], st.none() | inner[1]
    return st.sampled_from(
        [
            inner,
            (pa.list_(kind), st.lists(values, max_size=3)),
            (pa.struct([("a", kind), ("b", pa.string())]), st.fixed_dictionaries({"a": values, "b": TEXTS})),
            (
                pa.map_(pa.int32(), kind),
                st.lists(st.tuples(st.integers(0, 9), values), max_size=2, unique_by=lambda one: one[0]),
            ),
        ]
    )


KINDS = st.sampled_from(SCALARS).flatmap(nested).flatmap(nested)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 4))
    kinds = draw(st.lists(KINDS, max_size=3))
    columns = [
        pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind) for kind, values in kinds
    ]
    names = [f'{at}"é' for at in range(len(kinds))]
    return pa.table(columns, names=names) if names else pa.table({"x": pa.array(range(rows), pa.int64())})


@given(tables(), st.integers(0, 3))
def test_rows_are_written_as_values_one_by_one(table: pa.Table, begin: int) -> None:
    part = table.slice(begin)
    texts = json_objects(part.column_names, part.columns, part.num_rows).to_pylist()
    assert texts == [naive_json(row, pa.struct(list(table.schema))) for row in part.to_pylist()]
    for text in texts:
        json.loads(text)


@pytest.mark.parametrize("name", [*VALUES, *INTERVALS])
def test_the_form_of_each_type(name: str) -> None:
    kind, _, value, text = {**VALUES, **INTERVALS}[name]
    column = pa.array([value, None], kind)
    assert json_texts(column).to_pylist() == [text, None]
    assert json_objects(["x"], [column], 2).to_pylist() == [f'{{"x":{text}}}', '{"x":null}']
    assert naive_json(column[0].as_py(), kind) == text


def test_dictionaries_nulls_and_nothing() -> None:
    assert json_texts(pa.array(["a", None, "a"]).dictionary_encode()).to_pylist() == ['"a"', None, '"a"']
    assert json_texts(pa.nulls(1)).to_pylist() == [None]
    assert json_texts(pa.array([[({"a": 1}, 2)]], pa.map_(pa.struct([("a", pa.int8())]), pa.int8()))).to_pylist() == [
        '{"{\\"a\\":1}":2}'
    ]
    assert json_objects([], [], 2).to_pylist() == ["{}", "{}"]


def test_other_forms() -> None:
    """Without nulls, as Spark's to_json; and with exponents, so that Spark's parse_json takes DOUBLEs as such."""
    table = pa.table({"a": [None, 1.5], "s": [{"p": 1, "q": None}, None], "l": [[None, 2.0], []]})
    assert json_objects(table.column_names, table.columns, 2, JsonForm(nulls=False)).to_pylist() == [
        '{"s":{"p":1},"l":[null,2.0]}',
        '{"a":1.5,"l":[]}',
    ]
    numbers = pa.array([3.0, 1e8, float("nan"), None])
    assert json_texts(numbers, JsonForm(exponents=True)).to_pylist() == ["3.0E0", "1.0E8", '"NaN"', None]


def test_keys() -> None:
    names, numbers, days = pa.array(['x"', None]), pa.array([1.0, float("nan")]), pa.array([0, None], pa.date32())
    assert key_texts([names]).to_pylist() == ['x"', None]
    assert key_texts([numbers, days]).to_pylist() == ['["1.0","1970-01-01"]', '["NaN",null]']
    assert key_texts([names, numbers]).to_pylist() == ['["x\\"","1.0"]', '[null,"NaN"]']


@given(st.data())
def test_what_is_written_is_read_again(data: st.DataObject) -> None:
    """By live tasks, from a topic."""
    columns = [one for one in SCALARS if not pa.types.is_binary(one[0]) and not pa.types.is_duration(one[0])]
    schema = pa.schema([(str(at), kind) for at, (kind, _) in enumerate(columns)])
    rows = data.draw(
        st.lists(st.fixed_dictionaries({str(at): st.none() | one for at, (_, one) in enumerate(columns)}), max_size=3)
    )
    table = pa.Table.from_pylist(rows, schema)
    written = json_objects(table.column_names, table.columns, len(rows), JsonForm(nulls=False)).to_pylist()
    assert repr(JsonColumns(schema).read([line.encode() for line in written]).to_pylist()) == repr(table.to_pylist())
