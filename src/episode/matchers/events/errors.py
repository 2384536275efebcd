"""Errors in the data of an event pattern, which name the event and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episode.errors import EpisodeDataError
from episode.matchers.events.records import TooManyRecords
from episode.matchers.protocol import EventBatch, StateLimit
from episode.plan.events.aggregated import AggregatedPlan
from episode.plan.events.plan import EventPlan

if TYPE_CHECKING:
    from episode.matchers.events.counting import NotCounted


def _error(plan: EventPlan | AggregatedPlan, events: EventBatch, row: int, what: str, hint: str) -> EpisodeDataError:
    names = dict.fromkeys([*plan.keys, plan.times.end])
    return plan.source.error(EpisodeDataError, f"{events.values_at(row, names)} {what}.", plan.source.pattern, hint)


def too_many_held(
    plan: EventPlan | AggregatedPlan, events: EventBatch, row: int, count: int, limit: StateLimit
) -> EpisodeDataError:
    """A key holds more than it may."""
    what = f"holds {count:,} events of its window; max_state_rows is {limit.rows:,}"
    hint = "Shorten WITHIN, raise max_state_rows, or give such events up: when_full='drop'."
    return _error(plan, events, row, what, hint)


def explosion(plan: EventPlan, events: EventBatch, row: int, many: TooManyRecords) -> EpisodeDataError:
    """More at one time than a round may have."""
    what = f"is in a window with more than {many.limit:,} {many.what}"
    hint = "Shorten WITHIN, narrow the conditions, relate the events by [attribute], or use skip-till-next-match."
    return _error(plan, events, row, what, hint)


def fruitless(plan: EventPlan, events: EventBatch, row: int, budget: int) -> EpisodeDataError:
    """The construction has taken too many steps without finding a match."""
    what = f"is in a choice of single events where more than {budget:,} choices of closure events were tried"
    hint = (
        "Compare an aggregate of the closure with single events or numbers, as sum(b[].x) > 5: then choices that "
        "cannot come to it are not tried. Or shorten WITHIN, narrow the conditions on each event, or raise "
        "Tuning(step_budget=…)."
    )
    return _error(plan, events, row, f"{what} without a match", hint)


def budget_spent(plan: EventPlan, events: EventBatch, row: int, budget: int) -> EpisodeDataError:
    """The automaton has taken too many steps from one event."""
    why = "a closure under skip-till-any-match takes every choice of events"
    hint = "Shorten WITHIN, narrow the conditions, use skip-till-next-match, or raise Tuning(step_budget=…)."
    return _error(plan, events, row, f"starts more than {budget:,} steps of matching ({why})", hint)


def too_many_matches(plan: EventPlan, events: EventBatch, row: int, near: float) -> EpisodeDataError:
    """A collapsed match stands for more matches than a decimal can hold."""
    what = f"is in a collapsed match that stands for about {near:.2g} matches, and DECIMAL(38, 0) has 38 digits"
    return _error(plan, events, row, what, "Tuning(counts='double') gives the numbers as doubles.")


def not_counted(plan: EventPlan, events: EventBatch, error: NotCounted) -> EpisodeDataError:
    """The matches of a collapsed match are more than can be counted one by one."""
    return _error(plan, events, error.row, f"is in a collapsed match {error.what}", f"{error.hint} Or shorten WITHIN.")
