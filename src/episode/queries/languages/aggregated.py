"""AGGREGATE of event patterns, bound to its input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.plan.event_time import Delays, EventTime
from episode.plan.events.aggregated import BUCKET_END, BUCKET_START, AggregatedPlan
from episode.plan.events.aggregated_explain import explain_aggregated, explain_aggregated_reports
from episode.plan.output import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from episode.matchers.events.aggregated import AggregatedSpec
    from episode.matchers.protocol import StateLimit


@dataclass(frozen=True)
class BoundAggregatedPattern:
    """Aggregates over all matches of one event pattern."""

    plan: AggregatedPlan

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.plan.input_columns

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        return self.plan.derived

    @property
    def result(self) -> Result:
        """Keys, groups and buckets, then AGGREGATE's columns."""
        measures = self.plan.measures
        return Result(
            source=self.plan.source, measures=measures, columns=tuple(measures.measures), before=self.plan.before
        )

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> AggregatedSpec:
        from episode.matchers.events.aggregated import AggregatedSpec

        return AggregatedSpec(self.plan.for_workers(), schema, limit)

    def event_time(self, limited: bool) -> EventTime:
        """A stream needs buckets, which are over at some time, and a window, which bounds what is held."""
        plan = self.plan
        if plan.every is None:
            raise plan.source.error(
                EpisodeAnalysisError,
                "AGGREGATE over a stream needs EVERY: without it the result is there only at the end of the stream.",
                plan.clause,
                "Write for example EVERY 10 minutes after the aggregates (and GROUP BY).",
            )
        if plan.within is None:
            raise plan.source.error(
                EpisodeAnalysisError,
                "An event pattern over a stream needs WITHIN: without it every event is held forever.",
                plan.source.pattern,
                "Write for example WITHIN 10 minutes after the conditions.",
            )
        return EventTime(plan.times.end, plan.times.type)

    def delays(self) -> Delays:
        """A row is reported when its bucket is over."""
        return {} if self.plan.every is None else {BUCKET_START: self.plan.every, BUCKET_END: 0}

    def explain(self) -> list[str]:
        return explain_aggregated(self.plan)

    def explain_reports(self, reports: list[str]) -> list[str]:
        return explain_aggregated_reports(self.plan, reports)
