"""Event patterns over imprecise time without Spark: random cases of the oracle run by the Matcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import Interval, classes_of
from episode.lang.syntax import Duration
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import run
from episode.matchers.times import NEVER
from episode.plan.events.classes import EventClasses
from episode.plan.events.imprecise import imprecise_times
from episode.plan.events.plan import plan_event_pattern
from episode.plan.schema import InputSchema
from tests.reference.generate_imprecise import ImpreciseCase
from tests.reference.imprecise import ImpreciseEvent
from tests.support.events import Bound, bound, returning_positions

TYPES = {"pos": "bigint", "lo": "bigint", "hi": "bigint", "p": "array<double>", "type": "string", "k": "bigint",
         "x": "bigint", "y": "bigint", "s": "string"}  # fmt: skip
ARROW = {"bigint": pa.int64(), "string": pa.string(), "array<double>": pa.list_(pa.float64())}
SCHEMA = pa.schema([(name, ARROW[type_]) for name, type_ in TYPES.items()])

Found = dict[Bound, float]


def spec_of_text(
    text: str, *, typed: bool = True, key: str | None = None, granularity: int = 1, weights: bool = False,
    width: int | None = None, confidence: str | None = None, **options: Any,
) -> EventPatternSpec:  # fmt: skip
    """A query that returns the positions of its events, beside what it returns itself."""
    written = parse_event_query(with_confidence(text, confidence))
    positions = returning_positions(written).returns or ()
    query = replace(written, returns=(*(written.returns or ()), *positions))
    schema = InputSchema(TYPES)
    widest = None if width is None else Duration(width, None)
    interval = Interval("lo", "hi", "p" if weights else None, Duration(granularity, None), widest)
    classes = EventClasses(
        query, schema, "type" if typed else None, {}, {one.variable: one for one in classes_of(query.pattern)}
    )
    plan = plan_event_pattern(query, classes, imprecise_times(query, schema, interval), () if key is None else (key,))
    return EventPatternSpec(plan, SCHEMA, **options)


def with_confidence(text: str, confidence: str | None) -> str:
    """The query with a CONFIDENCE, before its RETURN."""
    if confidence is None:
        return text
    before, returns, after = text.partition(" RETURN ")
    return f"{before} CONFIDENCE >= {confidence}{returns}{after}"


def spec_of_case(case: ImpreciseCase, **options: Any) -> EventPatternSpec:
    weights = any(event.weights is not None for event in case.events)
    threshold = None if case.threshold is None else repr(float(case.threshold))
    return spec_of_text(
        case.text, typed=case.typed, key=case.key, granularity=case.granularity, weights=weights, confidence=threshold,
        **options,
    )  # fmt: skip


def table_of(events: Sequence[ImpreciseEvent], granularity: int = 1) -> pa.Table:
    """Events as rows; all have probabilities."""
    rows = []
    for e in events:
        p = [float(weight) for _, weight in e.points(granularity)]
        rows.append({"pos": e.position, "lo": e.ts, "hi": e.te, "p": p, **e.values})
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def found_in(spec: EventPatternSpec, output: pa.Table) -> Found:
    """Matches, each with its confidence; none comes twice."""
    name = next(one.sql.strip("`") for one in spec.plan.measures.measures if one.name == "confidence")
    matches = bound(spec, output)
    found = dict(zip(matches, output.column(name).to_pylist(), strict=True))
    assert len(found) == len(matches)
    return found


def run_case(
    spec: EventPatternSpec, pieces: list[list[ImpreciseEvent]], granularity: int = 1, *, restore: bool = False
) -> Found:
    """Feed pieces of events, each complete up to its latest time, with the state written and read between them."""
    ends = [max((e.te for e in piece), default=NEVER) for piece in pieces[:-1]] + [END_OF_TIME]
    tables = [table_of(piece, granularity) for piece in pieces]
    return found_in(spec, run(spec, tables, until=ends, restore=restore))
