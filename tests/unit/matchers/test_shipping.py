"""What is shipped to the workers is small in every language: the streams of Spark 4.3 fail above a megabyte."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import classes_of
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import MatcherSpec
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import plan_situation_pattern

TERMS = 300
COLUMNS = {"k": "int", "ts": "timestamp", "x": "double"}
SCHEMA = InputSchema(COLUMNS)
ARROW = pa.schema([("k", pa.int32()), ("ts", pa.timestamp("us", tz="UTC")), ("x", pa.float64())])


def terms(column: str) -> str:
    return "(" + " OR ".join(f"{column} = {number}" for number in range(TERMS)) + ")"


def row_pattern() -> MatcherSpec:
    clause = parse_clause(
        f"PARTITION BY k ORDER BY ts MEASURES last(b.x) + {terms('b.x')} AS y PATTERN (a b+) DEFINE b AS {terms('b.x')}"
    )
    return RowPatternSpec(plan_row_pattern(clause, SCHEMA).for_workers(), ARROW)


def event_pattern() -> MatcherSpec:
    query = parse_event_query(f"PATTERN A a; B b WHERE {terms('b.x')} WITHIN 1 minute RETURN {terms('b.x')} AS y")
    classes = EventClasses(query, SCHEMA, by_variable={one.variable: one for one in classes_of(query.pattern)})
    plan = plan_event_pattern(query, classes, EventTimes("ts", None, "timestamp"), ("k",))
    return EventPatternSpec(plan.for_workers(), ARROW)


def situation_pattern() -> MatcherSpec:
    query = parse_situation_query(
        f"DEFINE A AS {terms('x')}, B AS x > 5 PATTERN A before B WITHIN 1 minute RETURN {terms('max(A.x)')} AS y"
    )
    return SituationPatternSpec(plan_situation_pattern(query, SCHEMA, "ts", ("k",)).for_workers(), ARROW)


@pytest.mark.parametrize("spec", [row_pattern, event_pattern, situation_pattern])
def test_a_long_condition_ships_few_bytes(spec: type) -> None:
    shipped = cloudpickle.dumps(spec())
    assert len(shipped) < 40_000
    assert b"sqlglot" not in shipped
    assert not any(tree in shipped for tree in (b"MatchRecognize", b"EventQuery", b"SituationQuery", b"Scalar"))


@pytest.mark.parametrize("spec", [row_pattern, event_pattern, situation_pattern])
def test_what_is_shipped_belongs_to_the_same_state(spec: type) -> None:
    one = spec()
    assert pickle.loads(cloudpickle.dumps(one)).fingerprint == one.fingerprint
