"""Aggregates over all matches without Spark: a query over a few events, its rows as {group: values}."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.matchers.events.aggregated import AggregatedSpec
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.running import run
from episode.matchers.times import NEVER
from episode.plan.events.aggregated import BUCKET_END, GroupedBy, plan_aggregated
from episode.plan.events.classes import EventClasses
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema
from tests.support.events import SCHEMA, TYPES, table_of

Rows = dict[tuple[Any, ...], tuple[Any, ...]]


def aggregated_spec(
    text: str, *, key: str | None = None, types: dict[str, str] = TYPES, schema: pa.Schema = SCHEMA,
    time: str = "te", doubles: bool = False, type_column: str | None = "type", **options: Any,
) -> AggregatedSpec:  # fmt: skip
    query = parse_event_query(text)
    classes = EventClasses(query, InputSchema(types), type_column)
    times = EventTimes(time, None, types[time])
    plan = plan_aggregated(query, classes, times, () if key is None else (key,), doubles=doubles)
    return AggregatedSpec(plan, schema, **options)


def rows_of(spec: AggregatedSpec, output: pa.Table) -> Rows:
    """Keys, groups and the start of the bucket; then the aggregates, exact ones as fractions."""
    plan = spec.plan
    grouped = [group.name for group in plan.groups]
    keyed = {group.column for group in plan.groups if group.of is GroupedBy.KEY}
    first = [name for name in plan.keys if name not in keyed]
    names = [*first, *grouped, *(name for name in plan.before if name not in (*first, *grouped, BUCKET_END))]
    found: Rows = {}
    for row in output.to_pylist():
        group = tuple(row[name] for name in names)
        assert group not in found
        found[group] = tuple(row[measure.sql.strip().strip("`")] for measure in plan.measures.measures)
    return found


def run_aggregated(spec: AggregatedSpec, pieces: Sequence[list[Any]], restore: bool = False) -> Rows:
    """Feed pieces of events (each complete up to its last time), with the state written and read between them."""
    ends = [max((e.te for e in piece), default=NEVER) for piece in pieces[:-1]] + [END_OF_TIME]
    return rows_of(spec, run(spec, [table_of(piece) for piece in pieces], until=ends, restore=restore))


def exact(value: Any) -> Any:
    """A number as a fraction."""
    return value if value is None or isinstance(value, (str, bool)) else Fraction(value)
