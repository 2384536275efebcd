"""Imprecise time in words: which times events can have, of what kind closures are, what the threshold spares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from episode.plan.types import is_integer

if TYPE_CHECKING:
    from episode.plan.events.plan import EventPlan

SECOND = 1_000_000


def imprecise_lines(plan: EventPlan) -> list[str]:
    """Lines of explain; none where time is precise."""
    imprecise, times = plan.imprecise, plan.times.imprecise
    if imprecise is None or times is None:
        return []
    how = f"with the probabilities of {times.probabilities}" if times.probabilities else "all as probable"
    width = "" if times.width is None else f", at most {_duration(plan, times.width)} apart"
    lines = [
        f"  imprecise time: between {plan.times.start} and {plan.times.end}{width}, "
        f"every {_duration(plan, times.granularity)}, {how}"
    ]
    for one in imprecise.closures:
        if one.why is None:
            lines.append(f"    {one.variable}: uncorrelated, a set of events (nothing depends on their order)")
        else:
            lines.append(f"    {one.variable}: correlated, events in order, every order a match ({one.why})")
    spared = "those that cannot be in order or in the window are given up as soon as that is known"
    if imprecise.threshold > 0:
        spared = (
            "a prefix below that is given up with all its extensions, whose confidence is no higher "
            "(the nearer to 1, the more is spared)"
        )
    least = f"at least {imprecise.threshold:g}" if imprecise.threshold > 0 else "above 0"
    lines.append(f"    confidence {least}: {spared}")
    return lines


def imprecise_state(plan: EventPlan) -> str:
    """What is held for matches to come."""
    assert plan.times.imprecise is not None
    width = plan.times.imprecise.width
    if width is None:
        return "not bounded: there is no WIDTH (a table is matched as a whole; a stream is refused)"
    return f"the events that qualify for a variable, of the last window and {_duration(plan, width)} per partition"


def _duration(plan: EventPlan, units: int) -> str:
    if is_integer(plan.times.type):
        return f"{units:,}"
    return f"{units / SECOND:,.6g} s"
