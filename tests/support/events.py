"""Event patterns without Spark: a query over a few events, run by its Matcher, its matches as positions of events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import (
    Closure,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Strategy,
    children,
    classes_of,
)
from episode.lang.syntax import ReturnItem, Scalar
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import LocalRun, run
from episode.matchers.times import NEVER
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema

TYPES = {"pos": "bigint", "ts": "bigint", "te": "bigint", "type": "string", "k": "bigint", "x": "bigint",
         "y": "bigint", "s": "string"}  # fmt: skip
ARROW = {"bigint": pa.int64(), "string": pa.string(), "double": pa.float64()}
SCHEMA = pa.schema([(name, ARROW[type_]) for name, type_ in TYPES.items()])
POSITION = "pos"

Bound = tuple[tuple[str, tuple[int, ...]], ...]


def _under(pattern: EventPattern, kind: type) -> set[str]:
    if isinstance(pattern, kind):
        return {one.variable for one in classes_of(pattern)}
    return {name for part in children(pattern) for name in _under(part, kind)}


def returning_positions(query: EventQuery) -> EventQuery:
    """The query with the positions of every variable's events in place of its RETURN."""
    closures, negated = _under(query.pattern, Closure), _under(query.pattern, Negation)
    items = []
    for name in dict.fromkeys(one.variable for one in classes_of(query.pattern)):
        if name in negated:
            continue
        index = Index.ALL if name in closures else Index.PLAIN
        scalar = Scalar("__episode_0", None, (("__episode_0", EventColumn(name, index, 0, (POSITION,))),))  # type: ignore[arg-type]
        items.append(ReturnItem(scalar, f"out_{name}"))
    return replace(query, returns=tuple(items))


def spec_of(
    text: str, *, typed: bool = True, key: str | None = None, strategy: Strategy | None = None, lasting: bool = False,
    types: dict[str, str] = TYPES, schema: pa.Schema = SCHEMA, closure: str = "auto", **options: Any,
) -> EventPatternSpec:  # fmt: skip
    query = returning_positions(parse_event_query(text))
    columns = InputSchema(types)
    classes = EventClasses(
        query, columns, "type" if typed else None, {}, {one.variable: one for one in classes_of(query.pattern)}
    )
    times = EventTimes("te", "ts" if lasting else None, "bigint")
    plan = plan_event_pattern(query, classes, times, () if key is None else (key,), strategy, closure)
    return EventPatternSpec(plan, schema, **options)


def table_of(events: Iterable[Any]) -> pa.Table:
    """Events of the oracle as rows."""
    rows = [{POSITION: e.position, "ts": e.ts, "te": e.te, **e.values} for e in events]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def run_whole(spec: EventPatternSpec, events: list[Any]) -> list[Bound]:
    return run_in_pieces(spec, [events], restore=False)


def run_in_pieces(spec: EventPatternSpec, pieces: list[list[Any]], restore: bool) -> list[Bound]:
    """Feed pieces of events (each complete up to its last time), with the state written and read between them."""
    ends = [max((e.te for e in piece), default=NEVER) for piece in pieces[:-1]] + [END_OF_TIME]
    return bound(spec, run(spec, [table_of(piece) for piece in pieces], until=ends, restore=restore))


def bound(spec: EventPatternSpec, output: pa.Table) -> list[Bound]:
    """Positions of each variable's events, per match."""
    columns = []
    for measure in spec.plan.measures.measures:
        if measure.name.startswith("out_"):
            name = measure.sql.removesuffix(" END").split()[-1].strip("`")
            columns.append((measure.name[len("out_") :], output.column(name).to_pylist()))
    return [tuple((name, _positions(values[row])) for name, values in columns) for row in range(output.num_rows)]


def _positions(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def events_until(
    spec: EventPatternSpec, *, chunks: int, per_chunk: int, classes: str = "ABCD"
) -> Iterable[tuple[int, int]]:
    """(held rows, matches) after each chunk of a steady stream: one event per unit of time, classes in turn."""
    running = LocalRun(spec)
    for chunk in range(chunks):
        times = range(chunk * per_chunk, (chunk + 1) * per_chunk)
        rows = [
            {POSITION: t, "ts": t, "te": t, "type": classes[t % len(classes)], "k": 1, "x": 1, "y": 1, "s": "a"}
            for t in times
        ]
        found = running.feed(pa.Table.from_pylist(rows, schema=SCHEMA), times[-1])
        yield running.matcher.state_rows, found.num_rows
