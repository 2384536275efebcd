"""Event patterns over streams: what they need, checked at plan time, and how long after its times a match may be
reported."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError
from episode.plan.delays import UNBOUNDED, Delays, column_at_event, plain_values
from episode.plan.event_time import EventTime
from episode.plan.events.imprecise import WIDER
from episode.plan.events.plan import EventPlan
from episode.plan.output import MATCH_END, Extreme


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


def event_pattern_delays(plan: EventPlan) -> Delays:
    """The delay of every output column that holds times of the match's events.

    A match is reported with its last event; where the pattern waits, when its window has passed. Where time is
    imprecise, intervals reach beyond the window by their width, at either end.
    """
    longest = plan.within
    if plan.times.imprecise is not None and longest is not None:
        width = plan.times.imprecise.width
        longest = UNBOUNDED if width is None else longest + 2 * width
    times = {plan.times.end} if plan.times.start is None else {plan.times.end, plan.times.start}
    delays: Delays = {}
    for name, atom in plain_values(plan.measures):
        if column_at_event(atom) in times:
            of_match = name == MATCH_END and isinstance(atom, Extreme) and atom.labels is None
            delays[name] = 0 if of_match and not plan.waits else longest
    return delays
