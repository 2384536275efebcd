"""Types of machine expressions are Spark's (ANSI rules); what the machine does not evaluate, and what nobody does."""

from __future__ import annotations

import pytest

from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.lang.rows.scalar import parse_scalar
from episode.lang.syntax import ColumnRef
from episode.plan.compilable import LONGEST_LIST, Mistake, NativeCompiler, NotCompilable
from episode.plan.expressions import Constant, Current, Expression, Load
from episode.plan.types import as_decimal, decimal_of, is_event_time, lane_of, wider_integer

COLUMNS = {
    "t": "tinyint", "h": "smallint", "i": "int", "l": "bigint", "f": "float", "d": "double", "m": "decimal(10,2)",
    "n": "decimal(5,3)", "w": "decimal(38,10)", "s": "string", "b": "boolean", "y": "date", "ts": "timestamp",
    "tn": "timestamp_ntz", "g": "interval day to second", "o": "interval month", "x": "binary", "a": "array<int>",
    "r": "struct<x:int>",
}  # fmt: skip


def compiled(text: str, utc: bool = True) -> Expression:
    scalar = parse_scalar(Cursor(text, tokenize(text)), frozenset())
    atoms = dict(scalar.atoms)

    def resolve(name: str) -> Expression:
        atom = atoms[name]
        assert isinstance(atom, ColumnRef)
        return Load(atom.path[0], Current(0), COLUMNS[atom.path[0]])

    return NativeCompiler(resolve, lambda node: None, utc).compile(scalar.tree)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        # literals
        ("1", "int"), ("2147483648", "bigint"), ("1.50", "decimal(3,2)"), ("0.001", "decimal(3,3)"), ("1e3", "double"),
        ("'a'", "string"), ("TRUE", "boolean"), ("NULL", "void"), ("-1", "int"),
        ("INTERVAL '1' DAY", "interval day to second"),
        # integers
        ("t + t", "tinyint"), ("t + h", "smallint"), ("i + l", "bigint"), ("i * i", "int"), ("i % l", "bigint"),
        ("i / i", "double"), ("i DIV i", "bigint"), ("-h", "smallint"), ("abs(l)", "bigint"),
        # floats
        ("f + f", "float"), ("f / f", "double"), ("f + i", "double"), ("d % l", "double"), ("-f", "float"),
        ("abs(d)", "double"),
        # decimals
        ("m + m", "decimal(11,2)"), ("m + n", "decimal(12,3)"), ("m * n", "decimal(16,5)"), ("m - 1", "decimal(11,2)"),
        ("n * i", "decimal(16,3)"), ("m + 0.5", "decimal(11,2)"), ("m + d", "double"), ("m / d", "double"),
        ("-m", "decimal(10,2)"), ("-w", "decimal(38,10)"),
        ("m / m", "decimal(23,13)"), ("m * m * m", "decimal(32,6)"), ("1.5 * l", "decimal(23,1)"),
        ("l / 3.0", "decimal(27,6)"), ("m / 3", "decimal(14,6)"), ("w / 3", "decimal(38,10)"),
        ("l * 1.0 / l", "decimal(38,16)"),
        ("m + l", "decimal(23,2)"), ("d + w", "double"), ("sqrt(w)", "double"), ("abs(w)", "decimal(38,10)"),
        ("9223372036854775808", "decimal(19,0)"), ("1234567890.1234567891", "decimal(20,10)"),
        # time
        ("ts - ts", "interval day to second"), ("ts - y", "interval day to second"),
        ("y - tn", "interval day to second"),
        ("DATE '2024-01-02'", "date"), ("TIMESTAMP '2024-01-02 00:00:00'", "timestamp"),
        ("y > '2024-01-02'", "boolean"),
        ("CAST(ts AS timestamp_ntz)", "timestamp_ntz"), ("y - y", "interval day"), ("y + i", "date"), ("y - 1", "date"),
        ("ts + INTERVAL '1' HOUR", "timestamp"), ("INTERVAL '1' DAY + tn", "timestamp_ntz"), ("ts - g", "timestamp"),
        ("g + g", "interval day to second"), ("timestampdiff(SECOND, ts, ts)", "bigint"), ("datediff(y, y)", "int"),
        ("unix_seconds(ts)", "bigint"), ("CAST(ts AS bigint)", "bigint"),
        # comparison and logic
        ("i < d", "boolean"), ("m = i", "boolean"), ("s >= 'a'", "boolean"), ("s = s", "boolean"), ("w = w", "boolean"),
        ("d > w", "boolean"), ("m = l", "boolean"), ("w <=> i", "boolean"), ("w BETWEEN l AND 0.5", "boolean"),
        ("i = NULL", "boolean"), ("x <=> x", "boolean"), ("o < o", "boolean"), ("b AND NULL", "boolean"),
        ("NOT b", "boolean"),
        ("i BETWEEN 1 AND d", "boolean"), ("s IN ('a', s)", "boolean"), ("s IS NULL", "boolean"),
        ("b IS NOT TRUE", "boolean"),
        ("isnan(f)", "boolean"),
        # choices
        ("CASE WHEN b THEN i ELSE l END", "bigint"), ("CASE i WHEN 1 THEN d END", "double"), ("IF(b, i, NULL)", "int"),
        ("coalesce(i, d)", "double"), ("coalesce(NULL, ts)", "timestamp"), ("nullif(l, 1)", "bigint"),
        ("greatest(t, i)", "int"),
        ("least(d, m)", "double"), ("nvl(b, TRUE)", "boolean"),
        # functions
        ("sqrt(i)", "double"), ("power(i, 2)", "double"), ("ln(m)", "double"), ("exp(f)", "double"),
        ("CAST(i AS bigint)", "bigint"),
        ("CAST(m AS double)", "double"), ("CAST(NULL AS date)", "date"), ("i::int", "int"), ("mod(i, l)", "bigint"),
    ],
)  # fmt: skip
def test_types(text: str, type_: str) -> None:
    assert compiled(text).type == type_


@pytest.mark.parametrize(
    "text",
    ["i + s", "s + s", "i + NULL", "m % m", "w + w", "w * m", "a IS NULL", "w * w",
     "f DIV f", "y > ts", "s > i",
     "a = a", "r = r", "i < b", f"1{'0' * 38}", f"0.{'1' * 39}", "concat(s, s)", "s LIKE 'a'",
     "s || s", "a[0]",
     "r.x.y = 1", "CAST(d AS int)", "CAST(s AS date)", "CAST(l AS int)", "INTERVAL '1' MONTH",
     "INTERVAL '1-2' YEAR TO MONTH",
     "abs(s)", "-s", "isnan(i)", "coalesce(i, s)", "coalesce(w, d)", "timestampdiff(MONTH, ts, ts)",
     "datediff(ts, y)", "unix_seconds(y)",
     "b IS DISTINCT FROM a", "i BETWEEN SYMMETRIC 1 AND 2", "transform(a, z -> z)", "s AND b", "datediff(y)",
     "(i, l)", "b = 1",
     f"i IN ({', '.join(map(str, range(LONGEST_LIST + 1)))})", f"coalesce({', '.join('i' * (LONGEST_LIST + 1))})"],
)  # fmt: skip
def test_left_to_spark(text: str) -> None:
    with pytest.raises(NotCompilable):
        compiled(text)


@pytest.mark.parametrize(
    "text", ["NOT i", "b AND d", "b OR ts", "CASE WHEN i THEN 1 END", "IF(a, 1, 2)", "NOT (m + 1)"]
)
def test_conditions_that_are_none(text: str) -> None:
    with pytest.raises(Mistake, match="condition is needed"):
        compiled(text)


def test_days_follow_the_calendar_of_the_session() -> None:
    assert compiled("ts + INTERVAL '1' HOUR", utc=False).type == "timestamp"
    assert compiled("tn + INTERVAL '1' DAY", utc=False).type == "timestamp_ntz"
    for text in ("ts + INTERVAL '1' DAY", "ts - g"):
        with pytest.raises(NotCompilable, match="daylight saving"):
            compiled(text, utc=False)


@pytest.mark.parametrize(
    ("text", "value"),
    [("-5", -5), ("1.50", 150), ("-0.5", -5), ("1e3", 1000.0), ("TRUE", 1), ("NULL", None), ("'it''s'", "it's"),
     ("INTERVAL '1.5' SECOND", 1_500_000), ("INTERVAL 2 HOURS", 7_200_000_000), ("INTERVAL '-1' DAY", -86_400_000_000)],
)  # fmt: skip
def test_constants(text: str, value: object) -> None:
    expression = compiled(text)
    assert isinstance(expression, Constant)
    assert expression.value == value


def test_long_chains_are_flat() -> None:
    expression = compiled(" AND ".join(f"i <> {i}" for i in range(2_000)))
    assert len(expression.operands) == 2_000


@pytest.mark.parametrize(
    ("type_", "lane"),
    [("tinyint", "int"), ("boolean", "int"), ("date", "int"), ("timestamp_ntz", "int"), ("time(6)", "int"),
     ("void", "int"),
     ("interval day to second", "int"), ("interval year", "int"), ("float", "float"), ("decimal(18,2)", "int"),
     ("decimal(19,2)", "code"), ("string", "code"), ("varchar(3)", "code"), ("char(3)", "code"), ("binary", "code"),
     ("string collate UTF8_LCASE", None), ("interval", None), ("array<int>", None), ("map<int,int>", None),
     ("variant", None)],
)  # fmt: skip
def test_lanes(type_: str, lane: str | None) -> None:
    assert lane_of(type_) == lane


def test_small_questions_about_types() -> None:
    assert decimal_of("decimal(10, 2)") == (10, 2)
    assert decimal_of("double") is None
    assert (as_decimal("int"), as_decimal("bigint"), as_decimal("double")) == ((10, 0), (20, 0), None)
    assert wider_integer("smallint", "tinyint") == "smallint"
    assert [is_event_time(type_) for type_ in ("date", "bigint", "timestamp", "double", "string")] == [True] * 3 + [
        False
    ] * 2


@pytest.mark.parametrize("text", ["ts - ts", "ts - tn", "timestampdiff(HOUR, ts, ts)", "CAST(ts AS timestamp_ntz)"])
def test_differences_in_a_zone_with_daylight_saving_need_local_times(text: str) -> None:
    with pytest.raises(NotCompilable):
        compiled(text, utc=False)
