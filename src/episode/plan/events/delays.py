"""How long after its times a match of an event pattern may be reported."""

from __future__ import annotations

from episode.plan.delays import UNBOUNDED, Delays, plain_values
from episode.plan.events.plan import EventPlan
from episode.plan.expressions import Load
from episode.plan.output import MATCH_END, ColumnAtPlace, Extreme


def event_pattern_delays(plan: EventPlan) -> Delays:
    """The delay of every output column that holds times of the match's events.

    A match is reported with its last event; where the pattern waits, when its window has passed. Where time is
    imprecise, intervals reach beyond the window by their width, at either end.
    """
    longest = plan.within
    if plan.times.imprecise is not None and longest is not None:
        width = plan.times.imprecise.width
        longest = UNBOUNDED if width is None else longest + 2 * width
    times = {plan.times.end, plan.times.start}
    delays: Delays = {}
    for name, atom in plain_values(plan.measures):
        if isinstance(atom, ColumnAtPlace):
            column = atom.column
        elif isinstance(atom, Extreme) and isinstance(atom.value, Load) and atom.by == atom.value:
            column = atom.value.column
        else:
            continue
        if column in times:
            of_match = name == MATCH_END and isinstance(atom, Extreme) and atom.labels is None
            delays[name] = 0 if of_match and not plan.waits else longest
    return delays
