"""Situation patterns without Spark: a query over a few events, run by its Matcher, its matches as tuples of values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from episode.lang.situations.parser import parse_situation_query
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import run
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import COMPLETE, plan_situation_pattern
from tests.reference.generate_situations import Case
from tests.reference.situations import Event

TYPES = {"k": "string", "t": "bigint", "a": "boolean", "b": "boolean", "c": "boolean", "d": "boolean", "x": "double",
         "n": "bigint", "s": "string"}  # fmt: skip
ARROW = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64(), "boolean": pa.bool_()}
SCHEMA = pa.schema([(name, ARROW[type_]) for name, type_ in TYPES.items()])

Row = tuple[Any, ...]
"""RETURN's values, match_start, detected_at."""


def spec_of(text: str, detect: str = "earliest", **options: Any) -> SituationPatternSpec:
    query = parse_situation_query(text)
    plan = plan_situation_pattern(query, InputSchema(TYPES), "t", query.input.partition_by, detect != COMPLETE)
    return SituationPatternSpec(plan, SCHEMA, **options)


def table_of(events: Iterable[Event]) -> pa.Table:
    """Events of the oracle as rows."""
    rows = [{"k": None if e.key is None else str(e.key), "t": e.time, **e.values} for e in events]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def run_whole(spec: SituationPatternSpec, events: list[Event]) -> list[Row]:
    return run_in_pieces(spec, [events], restore=False)


def run_in_pieces(spec: SituationPatternSpec, pieces: list[list[Event]], restore: bool) -> list[Row]:
    """Feed pieces of events, with the state written and read between them. A piece may end inside an instant: then it
    is complete only up to the time before."""
    ends = []
    for number in range(1, len(pieces)):
        following = [event.time for later in pieces[number:] for event in later]
        ends.append(int(min(following, default=END_OF_TIME)) - 1)
    until = [*ends, END_OF_TIME]
    return rows_of(spec, run(spec, [table_of(piece) for piece in pieces], until=until, restore=restore))


def rows_of(spec: SituationPatternSpec, output: pa.Table) -> list[Row]:
    """RETURN's values: columns of the matcher, and differences of two of them (Spark computes those)."""
    columns = []
    for measure in spec.plan.measures.measures:
        names = re.findall(r"`([^`]+)`", measure.sql)
        values = [output.column(name).to_pylist() for name in names]
        if len(names) == 2:
            end, start = values
            columns.append([None if e is None or s is None else e - s for e, s in zip(end, start, strict=True)])
        else:
            (column,) = values
            columns.append(column)
    return list(zip(*columns, strict=True)) if columns else []


def expected(case: Case) -> list[Row]:
    """The oracle's matches in the same form."""
    return [(*match.values, min(match.starts.values()), match.detected_at) for match in case.matches()]
