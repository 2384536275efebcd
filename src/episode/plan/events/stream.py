"""What an event pattern needs to run over a stream, checked at plan time."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError
from episode.plan.events.plan import EventPlan
from episode.plan.stream import EventTime


def event_time_of(plan: EventPlan) -> EventTime:
    """The event time of a stream of events; a clear error where every event would be held forever."""
    query = plan.query
    if plan.within is None:
        raise EpisodeAnalysisError(
            "An event pattern over a stream needs WITHIN: without it every event is held forever.",
            source=query.source,
            position=query.pattern_span.start,
            length=query.pattern_span.end - query.pattern_span.start,
            hint="Write for example WITHIN 10 minutes after the conditions.",
        )
    return EventTime(plan.times.end, plan.times.type)
