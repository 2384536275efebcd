"""What an event pattern needs to run over a stream, checked at plan time."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError
from episode.plan.event_time import EventTime
from episode.plan.events.imprecise import WIDER
from episode.plan.events.plan import EventPlan


def event_time_of(plan: EventPlan) -> EventTime:
    """The event time of a stream of events; a clear error where every event would be held forever."""
    if plan.within is None:
        raise plan.source.error(
            EpisodeAnalysisError,
            "An event pattern over a stream needs WITHIN: without it every event is held forever.",
            plan.source.pattern,
            "Write for example WITHIN 10 minutes after the conditions.",
        )
    if plan.times.imprecise is not None and plan.times.imprecise.width is None:
        raise plan.source.error(
            EpisodeAnalysisError,
            "Imprecise time over a stream needs WIDTH: without it every event is held forever.",
            plan.source.pattern,
            WIDER,
        )
    return EventTime(plan.times.end, plan.times.type)
