"""What can be wrong with the data of a situation pattern: errors that say where, and what would be right."""

from __future__ import annotations

from episode.errors import EpisodeDataError
from episode.matchers.limits import StateLimit
from episode.matchers.protocol import EventBatch
from episode.plan.situations.plan import SituationPlan


def _error(plan: SituationPlan, message: str, hint: str) -> EpisodeDataError:
    return plan.source.error(EpisodeDataError, message, plan.source.pattern, hint)


def too_many_held(plan: SituationPlan, count: int, limit: StateLimit) -> EpisodeDataError:
    """A key holds more than it may."""
    return _error(
        plan,
        f"A partition holds {count:,} situations of its window; max_state_rows is {limit.rows:,}.",
        "Shorten WITHIN, raise max_state_rows, or give such situations up: when_full='drop'.",
    )


def explosion(plan: SituationPlan, events: EventBatch, row: int, most: int) -> EpisodeDataError:
    """More matches at one instant than there may be."""
    names = dict.fromkeys([*plan.keys, plan.time])
    return _error(
        plan,
        f"{events.values_at(row, names)} completes more than {most:,} matches at once.",
        "Shorten WITHIN, or narrow the pattern: `before` and `after` pair all situations of a window.",
    )
