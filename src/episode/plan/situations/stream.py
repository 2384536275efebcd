"""What a situation pattern needs to run over a stream, checked at plan time."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, warn
from episode.plan.event_time import EventTime
from episode.plan.situations.plan import SituationPlan


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
