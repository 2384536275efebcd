"""Situation patterns over streams: what they need, checked at plan time, and how long after its times a match may be
reported."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, warn
from episode.plan.delays import Delays, column_at_event, plain_values
from episode.plan.event_time import EventTime
from episode.plan.situations.plan import SituationPlan
from episode.plan.situations.returns import DETECTED_AT, MatchMoment, SituationMoment


def event_time_of(plan: SituationPlan, limited: bool) -> EventTime:
    """The event time of a stream of events. limited: is the number of rows that a key may hold?"""
    if plan.within is None:
        _check_unbounded(plan, limited)
    return EventTime(plan.time, plan.time_type)


def _check_unbounded(plan: SituationPlan, limited: bool) -> None:
    """Without WITHIN every finished situation is held: refused where situations are not even related."""
    parts = plan.components
    if len(parts) > 1:
        groups = " and ".join("{" + ", ".join(part) + "}" for part in parts)
        raise plan.source.error(
            EpisodeAnalysisError,
            f"The pattern is not connected ({groups}), and over a stream it needs WITHIN: without it every situation "
            "is paired with all that come after it.",
            plan.source.pattern,
            "Write for example WITHIN 10 minutes after the pattern, or relate the situations.",
        )
    if not limited:
        warn(
            "The state of this stream is not bounded: every finished situation is held. "
            "Add WITHIN, or set Options(max_state_rows=…)."
        )


def situation_pattern_delays(plan: SituationPlan) -> Delays:
    """The delay of every output column that holds times of the match.

    A match is reported at the instant `detected_at`, which WITHIN relates to its earliest time.
    """
    delays: Delays = {}
    for name, atom in plain_values(plan.measures):
        if isinstance(atom, MatchMoment):
            delays[name] = 0 if atom.name == DETECTED_AT else plan.within
        elif isinstance(atom, SituationMoment) or column_at_event(atom) == plan.time:
            delays[name] = plan.within
    return delays
