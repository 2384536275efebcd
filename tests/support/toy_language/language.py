"""The language: one object with hooks."""

from __future__ import annotations

from typing import Any

from episode.lang.syntax import NOWHERE
from episode.plan.event_time import time_column
from episode.plan.options import RunOptions
from episode.plan.output import LAST, ColumnAtPlace, Labels, MeasurePlan, Output, PlannedMeasure
from episode.plan.pattern import OrderColumn
from episode.plan.schema import key_columns, quote
from episode.plan.sections import Section, fact
from episode.queries.language import Given, Input, Language
from episode.see.reasons.finding import Finding
from tests.support.toy_language.matcher import EveryPlan, EverySpec
from tests.support.toy_language.syntax import GRAMMAR, EveryRows


class EveryLanguage(Language[EveryRows]):
    syntax = EveryRows
    plans = (EveryPlan,)
    name = "row count"
    called = "the row count"
    arguments = frozenset({"time", "key"})
    times = ("at", "at")
    grammar = GRAMMAR

    def source(self, query: EveryRows) -> Any:
        return query.source

    def bind(self, query: EveryRows, events: Input, given: Given, run: RunOptions) -> EveryPlan:
        time = time_column(query.source, events.schema, given.time, "Give time='ts'.")
        keys = key_columns(events.schema, given.key)
        names = {**{key: key for key in keys}, time: "at"}
        measures = [PlannedMeasure(name, quote(f"__{name}"), name, NOWHERE) for name in names.values()]
        atoms = {ColumnAtPlace(column, LAST): f"__{name}" for column, name in names.items()}
        return EveryPlan(
            source=query.source,
            output=Output(Labels((), {}), MeasurePlan(measures, atoms)),
            keys=keys,
            order=(OrderColumn(time),),
            input_columns=(*keys, time),
            derived=(),
            types=dict(events.schema.columns),
            within=None,
            number=query.number,
        )

    def spec(self, plan: EveryPlan, schema: Any, limit: Any = None) -> EverySpec:
        return EverySpec(plan.for_workers(), schema)

    def section(self, plan: EveryPlan, reports: Any = None, query: Any = None) -> Section:
        return Section(f"EVERY {plan.number} ROWS", (fact("counts", "the rows of each key"),), ())

    def reasons(self, inspected: Any, asked: Any) -> tuple[Finding, ...]:
        rows = inspected.rows(asked.key).num_rows
        return (Finding("missing", f"The key has {rows} rows, and each {inspected.plan.number}th is a match."),)
