"""Projections: their schema is that of what they give, they are compiled once, travel, and refuse at a place."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.syntax import Source, Span
from episode.matchers import projection as projections
from episode.matchers.projection import ConstantColumn, CopiedColumn, Derivation, Projection, Projections
from episode.plan.compilable import NeedsSpark
from episode.plan.output import ScalarColumn

SCHEMA = pa.schema(
    [
        ("a", pa.int32()),
        ("s", pa.large_string()),
        ("l", pa.list_(pa.int64())),
        ("p", pa.struct([("X", pa.float64()), ("y", pa.struct([("z", pa.string())]))])),
        ("d", pa.decimal128(30, 2)),
        ("t", pa.timestamp("us", tz="UTC")),
        ("code", pa.dictionary(pa.int8(), pa.string())),
    ]
)
ROWS = pa.Table.from_pylist(
    [
        {"a": 1, "s": "x", "l": [1, 2], "p": {"X": 1.0, "y": {"z": "u"}}, "d": Decimal("1.50"), "t": 0, "code": "c"},
        {"a": None, "s": "y", "l": [], "p": None, "d": None, "t": 1, "code": None},
        {"a": 3, "s": None, "l": None, "p": {"X": None, "y": None}, "d": Decimal("2.00"), "t": None, "code": "c"},
    ],
    schema=SCHEMA,
)
TABLE = pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)])
"""In two chunks."""


@pytest.mark.parametrize(
    ("sql", "expected", "kind"),
    [
        ("a + 1", [2, None, 4], pa.int32()),
        ("S", ["x", "y", None], pa.string()),
        ("code", ["c", None, "c"], pa.string()),
        ("p.x", [1.0, None, None], pa.float64()),
        ("p.y.z", ["u", None, None], pa.string()),
        ("size(l) + 1", [3, 1, None], pa.int32()),
        ("try_element_at(l, -1)", [2, None, None], pa.int64()),
        ("CASE WHEN a > 1 THEN p.y.z WHEN a = 1 THEN s ELSE 'k' END", ["x", "k", None], pa.string()),
        ("CASE WHEN a > 1 THEN l END", [None, None, None], pa.list_(pa.int64())),
        ("coalesce(s, 'q')", ["x", "y", "q"], pa.string()),
        ("greatest(s, 'y')", ["y", "y", "y"], pa.string()),
        ("CAST(a AS STRING)", ["1", None, "3"], pa.string()),
        ("CAST(d AS DECIMAL(3, 1))", [Decimal("1.5"), None, Decimal("2.0")], pa.decimal128(3, 1)),
        ("d + 1", [Decimal("2.50"), None, Decimal("3.00")], pa.decimal128(31, 2)),
        ("named_struct('n', a)", [{"n": 1}, {"n": None}, {"n": 3}], pa.struct([("n", pa.int32())])),
        ("l IS NOT NULL AND s IS NULL", [False, False, False], pa.bool_()),
        ("NULL", [None, None, None], pa.null()),
        ("'text'", ["text"] * 3, pa.string()),
        (":given * 2", [10, 10, 10], pa.int32()),
    ],
)
def test_values_and_their_types(sql: str, expected: list[Any], kind: pa.DataType) -> None:
    made = Projection.compile([("v", ScalarColumn.of(sql))], SCHEMA, (), {"given": 5})
    found = pickle.loads(pickle.dumps(made))(TABLE)
    assert found.column("v").to_pylist() == expected
    assert made.schema == found.schema == made(TABLE.slice(0, 0)).schema == pa.schema([("v", kind)])


def test_columns_are_copied_widened_and_the_same_in_every_row() -> None:
    columns = [
        ("s", CopiedColumn("S")),
        ("wide", CopiedColumn("a", pa.int64())),
        ("no", ConstantColumn(None, pa.string())),
    ]
    made = Projection.compile(columns, SCHEMA, [ScalarColumn.of("a > 0"), ScalarColumn.of("s = 'x' OR NULL")])
    assert made.schema == pa.schema([("s", pa.string()), ("wide", pa.int64()), ("no", pa.string())])
    assert made(TABLE).to_pylist() == [{"s": "x", "wide": 1, "no": None}]
    assert made.holds(TABLE).to_pylist() == [True, False, False]


def test_one_after_the_other() -> None:
    first = Projection.compile([("b", ScalarColumn.of("a * 2"))], SCHEMA, [ScalarColumn.of("a IS NOT NULL")])
    both = Projections((first,)).then([("c", ScalarColumn.of("b + :x"))], {"x": 1})
    assert both.schema == pa.schema([("c", pa.int32())])
    assert both(TABLE).to_pylist() == [{"c": 3}, {"c": 7}]


def test_derived_columns_come_after_the_others() -> None:
    made = Derivation.compile([("a + 1", "more"), ("p.X", "x")], SCHEMA)
    found = made(TABLE)
    assert found.schema == made.schema
    assert found.column_names == [*SCHEMA.names, "more", "x"]
    assert found.select(["more", "x"]).to_pylist()[0] == {"more": 2, "x": 1.0}
    assert Derivation.compile([], SCHEMA)(TABLE) is TABLE


def test_expressions_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Projection.compile([("v", ScalarColumn.of("a + size(l)"))], SCHEMA, [ScalarColumn.of("s <> 'z'")])

    def compiled(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(projections, "ScalarCompiler", compiled)
    assert made(TABLE).column("v").to_pylist() == [3, None]


# ---- what is refused -------------------------------------------------------------------------------------------------

TEXT = "SELECT sha2(s, 256) FROM t"
SPAN = Span(7, 19)


def written(sql: str) -> ScalarColumn:
    return ScalarColumn.of(sql, "sha2(s, 256)", Source(TEXT), SPAN)


@pytest.mark.parametrize("sql", ["sha2(s, 256)", "upper(s) = 'X' AND a > 1", "named_struct('n', sha2(s, 256))", "zz"])
def test_what_needs_spark_has_a_place(sql: str) -> None:
    with pytest.raises(NeedsSpark) as raised:
        Projection.compile([("v", written(sql))], SCHEMA)
    error = raised.value
    assert (error.what, error.why, error.position, error.length) == ("sha2(s, 256)", NeedsSpark.EXPRESSION, 7, 12)
    seen = error.as_error({NeedsSpark.EXPRESSION: "Do this."})
    assert type(seen) is EpisodeUnsupportedError
    assert (seen.message, seen.source, seen.hint) == ("sha2(s, 256) needs Spark.", TEXT, "Do this.")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_days_outside_utc() -> None:
    with pytest.raises(NeedsSpark) as raised:
        Projection.compile([("v", written("t + INTERVAL 2 DAYS"))], SCHEMA, utc=False)
    assert raised.value.why == NeedsSpark.ZONE
    Projection.compile([("v", written("t + INTERVAL 2 DAYS"))], SCHEMA)


@pytest.mark.parametrize(
    ("sql", "message"), [("a", "must be true or false, but this is of type int"), ("a AND TRUE", "condition is needed")]
)
def test_conditions_are_true_or_false(sql: str, message: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match=message) as raised:
        Projection.compile([], SCHEMA, [written(sql)])
    assert raised.value.position == 7


def test_arrays_of_different_lengths() -> None:
    sql = "CAST(arrays_zip(l, m) AS ARRAY<STRUCT<x: BIGINT, y: BIGINT>>)"
    table = pa.table({"l": [[1, 2], None], "m": [[3, 4], None]})
    made = Projection.compile([("v", ScalarColumn.of(sql))], table.schema)
    assert made(table).column("v").to_pylist() == [[{"x": 1, "y": 3}, {"x": 2, "y": 4}], None]
    with pytest.raises(EpisodeUnsupportedError, match="different lengths"):
        made(pa.table({"l": [[1]], "m": [[2, 3]]}))
