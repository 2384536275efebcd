"""Values of named parameters: their types, constants in conditions, windows, and what is wrong with them."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.events.parser import parse_event_query
from episode.lang.lexer import tokenize
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.plan.expressions import Constant, Expression, walk
from episode.plan.options import RunOptions
from episode.plan.parameters import check_arguments, constant_of
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages import language_of

TYPES = {"k": "bigint", "ts": "timestamp", "v": "double", "s": "string"}
ROWS = "ORDER BY ts MEASURES B.v AS b PATTERN (A B) WITHIN :w DEFINE A AS v > :x, B AS B.v > A.v + :x"
EVENTS = "PATTERN A; B WHERE A.v > :x AND B.v > A.v + :x WITHIN :w"
SITUATIONS = "DEFINE A AS v > :x, B AS v < :x PATTERN A before B WITHIN :w"


@pytest.mark.parametrize(
    ("value", "constant"),
    [
        (5, Constant(5, "int")),
        (-(2**31), Constant(-(2**31), "int")),
        (2**31, Constant(2**31, "bigint")),
        (2.5, Constant(2.5, "double")),
        (Decimal("12.50"), Constant(1250, "decimal(4,2)")),
        (Decimal("-0.01"), Constant(-1, "decimal(2,2)")),
        (Decimal("1E+3"), Constant(1000, "decimal(4,0)")),
        (Decimal(10**20), Constant(10**20, "decimal(21,0)")),
        (Decimal("-12345678901234567890.123456789"), Constant(-12345678901234567890123456789, "decimal(29,9)")),
        (Decimal(10**38), None),
        ("a'b", Constant("a'b", "string")),
        (True, Constant(1, "boolean")),
        (None, Constant(None, "void")),
        (date(1970, 1, 3), Constant(2, "date")),
        (timedelta(seconds=2, microseconds=1), Constant(2_000_001, "interval day to second")),
        (datetime(1969, 12, 31, 23, 59, 59, 5, timezone.utc), Constant(-999_995, "timestamp")),
    ],
)
def test_values_have_the_types_of_spark(value: object, constant: Constant | None) -> None:
    assert constant_of(value) == constant


def bound(query: Any, **arguments: object) -> Any:
    given = Given() if language_of(query).name == "row pattern" else Given(time="ts")
    return language_of(query).bind(query, Input(InputSchema(TYPES, arguments=arguments)), given, RunOptions())


def constants(*expressions: Expression) -> set[Constant]:
    return {node for one in expressions for node in walk(one) if isinstance(node, Constant)}


def test_row_patterns() -> None:
    plan = bound(parse_clause(ROWS), x=2.5, w=timedelta(minutes=1))
    conditions = [part for one in plan.conditions.values() for part in (*one.row_local, *one.residual)]
    assert constants(*conditions) == {Constant(2.5, "double")}
    assert plan.within == 60_000_000


def test_event_patterns() -> None:
    plan = bound(parse_event_query(EVENTS), x=2.5, w="1 minute")
    local = [part for parts in plan.local.values() for part in parts]
    assert constants(*local, *(test.expression for test in plan.tests)) == {Constant(2.5, "double")}
    assert plan.within == 60_000_000


def test_situation_patterns() -> None:
    plan = bound(parse_situation_query(SITUATIONS), x=2.5, w=timedelta(minutes=1))
    conditions = [part for one in plan.conditions.values() for part in one.row_local]
    assert constants(*conditions) == {Constant(2.5, "double")}
    assert plan.within == 60_000_000


LIMITED = "DEFINE A AS v > 1 AT LEAST :d, B AS v < 1 {} PATTERN A before B WITHIN :w"


@pytest.mark.parametrize(
    ("limit", "arguments", "expected"),
    [
        ("AT MOST :e", {"d": "5 seconds", "e": timedelta(seconds=9)}, ((5_000_000, None), (None, 9_000_000))),
        ("BETWEEN :d AND 30s", {"d": timedelta(seconds=4)}, ((4_000_000, 4_000_000), (None, 30_000_000))),
        ("BETWEEN :d AND :e", {"d": "4s", "e": "1 minute"}, ((4_000_000, 4_000_000), (None, 60_000_000))),
        ("AT LEAST :e AND AT MOST :e", {"d": "4s", "e": "5s"}, ((4_000_000, 5_000_000), (None, 5_000_000))),
        ("AND v BETWEEN :d AND :e", {"d": "4s", "e": 5}, None),
    ],
)
def test_limits_of_durations(limit: str, arguments: dict[str, object], expected: Any) -> None:
    query = parse_situation_query(LIMITED.format(limit))
    if expected is None:  # SQL's BETWEEN, whose bounds are values
        assert query.definitions[1].at_most is None
        return
    plan = bound(query, w=timedelta(minutes=5), **arguments)
    assert (plan.at_least, plan.at_most) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d": 0, "e": "9s"}, "A duration here must be longer than zero."),
        ({"d": "soon", "e": "9s"}, "Expected a duration"),
        ({"d": 1.5, "e": "9s"}, "The value of :d is not a duration: 1.5."),
        ({"d": "5s", "e": 9}, "One of these durations has a unit of time, the other has none."),
        ({"d": "5s", "e": "4s"}, "The greatest duration of B is below its least."),
        ({"d": "6 minutes", "e": "7 minutes"}, "No match fits WITHIN :w: A lasts at least :d."),
        ({"d": 5, "e": 9}, "The event time ts is of type timestamp; a duration needs a unit."),
    ],
)
def test_limits_that_cannot_be_kept(arguments: dict[str, object], message: str) -> None:
    query = parse_situation_query(LIMITED.format("BETWEEN :d AND :e"))
    with pytest.raises(EpisodeError, match=message.replace(".", r"\.")) as raised:
        bound(query, w=timedelta(minutes=5), **arguments)
    assert raised.value.position is not None


@pytest.mark.parametrize(("text", "parse"), [(ROWS, parse_clause), (EVENTS, parse_event_query)])
@pytest.mark.parametrize("value", [None, "soon", 2.5, timedelta(seconds=-1), "5", 5])
def test_what_is_no_duration(text: str, parse: Any, value: object) -> None:
    with pytest.raises(EpisodeError) as raised:
        bound(parse(text), x=1, w=value)
    assert raised.value.position is not None


def test_a_parameter_without_a_value_is_shown_at_its_place() -> None:
    with pytest.raises(EpisodeAnalysisError, match="There is no value for the parameter :x") as raised:
        bound(parse_clause(ROWS), w=timedelta(1))
    assert ROWS[raised.value.position :].startswith("v > :x") or ROWS[raised.value.position :].startswith(":x")


@pytest.mark.parametrize(
    ("text", "arguments", "message", "position"),
    [
        ("SELECT :limit", {}, "There is no value for the parameter :limit.", 7),
        ("SELECT :limit", {"limt": 1}, "There is no value for the parameter :limit.", 7),
        ("SELECT :x", {"x": 1, "y": 2}, "The query has no parameter :y.", None),
        ("SELECT ':x'", {"x": 1}, "The query has no parameter :x.", None),
        ("SELECT :x", {"x": [1]}, "args: the value of x is a list.", None),
        ("SELECT :x", {"x": 2**63}, f"args: x={2**63} is beyond the numbers of SQL.", None),
        ("SELECT :x", {1: 2}, "args: 1 is not the name of a parameter.", None),
    ],
)
def test_parameters_and_values_belong_together(
    text: str, arguments: dict[Any, Any], message: str, position: int | None
) -> None:
    with pytest.raises(EpisodeError) as raised:
        check_arguments(text, tokenize(text), arguments)
    assert (raised.value.message, raised.value.position) == (message, position)
