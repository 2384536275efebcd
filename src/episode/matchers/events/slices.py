"""Event patterns in slices of time: how far before a slice events may matter, and which decisions are the slice's.

A slice owns the matches that are *decided* in its times: with their last event, or, where something stands after it,
when their window has passed. That is what a stream hands out between two watermarks, so a slice is a stream that begins
in the middle: nothing after its times matters, and before them what a stream would hold there.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.events.imprecise import imprecise_horizon
from episode.matchers.events.rounds import horizon_of
from episode.matchers.protocol import END_OF_TIME
from episode.matchers.slicing import Overlap, SliceBounds, Slicing, Unsliced
from episode.matchers.times import NEVER
from episode.plan.events.aggregated import AggregatedPlan, OverMatches
from episode.plan.events.plan import EventPlan, Strategy

NO_WINDOW = "without WITHIN a match may have events of any time"


@dataclass(frozen=True)
class Decisions:
    """The times of decisions that a slice owns: later than `done` (NEVER: all) and not later than `until`."""

    done: int
    until: int


def decisions_of(bounds: SliceBounds) -> Decisions:
    """At the least of all times a stream decides nothing yet: what is decided there, is the next slice's."""
    done = NEVER if bounds.first is None else max(NEVER, bounds.first - 1)
    return Decisions(done, END_OF_TIME if bounds.last is None else max(NEVER, bounds.last - 1))


def event_slicing(plan: EventPlan) -> Slicing | Unsliced:
    """The events before a slice that its matches may have, or be prevented by."""
    if plan.within is None:
        return _by_length(plan)
    horizon = horizon_of(plan)
    if plan.times.imprecise is not None:
        if plan.times.imprecise.width is None:
            return Unsliced("without WIDTH the times of an event may be any time apart")
        horizon = imprecise_horizon(horizon, plan.times.imprecise.width)
    return Slicing(Overlap(before_time=horizon.back))


def _by_length(plan: EventPlan) -> Slicing | Unsliced:
    """Without a window only neighbouring events are near each other, as many as a match can have."""
    automaton = plan.automaton
    if plan.strategy not in (Strategy.STRICT, Strategy.PARTITION) or automaton is None:
        return Unsliced(NO_WINDOW)
    if automaton.looks_before or automaton.waits:
        return Unsliced("without WITHIN a negation before or after a match reaches to any time")
    longest = automaton.longest
    if longest is None:
        return Unsliced("without WITHIN a match with a closure may have any number of events")
    return Slicing(Overlap(before_rows=longest - 1))


def aggregated_slicing(plan: AggregatedPlan) -> Slicing | Unsliced:
    """Aggregates of a bucket are its slice's whose times the bucket ends in: all of its events are fed to that one."""
    if plan.within is None:
        return Unsliced(NO_WINDOW)
    if plan.every is None:
        return Unsliced("without EVERY aggregates are over all matches of a key")
    if plan.doubles or any(map(_adds_doubles, plan.values)):
        return Unsliced("sums of doubles are rounded in the order in which they are added up")
    return Slicing(Overlap(before_time=plan.within + plan.every - 1))


def _adds_doubles(value: OverMatches) -> bool:
    return value.function in ("sum", "avg") and value.argument is not None and value.argument.type == "double"
