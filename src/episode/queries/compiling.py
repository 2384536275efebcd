"""The kernels of every kind of query, compiled ahead of the first one."""

from __future__ import annotations

from episode.lang.events.parser import parse_event_query
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.parser import parse_situation_query
from episode.matchers import warm
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from episode.plan.situations.plan import plan_situation_pattern


def compile_every_kernel() -> None:
    """Plan the samples, and run them."""
    warm.compile_kernels(plan_row_pattern(parse_clause(warm.SAMPLE_CLAUSE), InputSchema(warm.SAMPLE_TYPES)))
    plans = []
    for text in warm.SAMPLE_EVENTS:
        query = parse_event_query(text)
        classes = EventClasses(query, InputSchema(warm.SAMPLE_EVENT_TYPES), "type")
        plans.append(plan_event_pattern(query, classes, EventTimes("ts", None, "bigint")))
    warm.compile_event_kernels(plans)
    schema = InputSchema(warm.SAMPLE_TYPES)
    warm.compile_situation_kernels(
        plan_situation_pattern(parse_situation_query(warm.SAMPLE_SITUATIONS), schema, "ts", ("k",))
    )
