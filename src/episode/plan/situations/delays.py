"""How long after its times a match of a situation pattern may be reported."""

from __future__ import annotations

from episode.plan.delays import Delays, plain_values
from episode.plan.expressions import Load
from episode.plan.output import ColumnAtPlace, Extreme
from episode.plan.situations.plan import SituationPlan
from episode.plan.situations.returns import DETECTED_AT, MatchMoment, SituationMoment


def situation_pattern_delays(plan: SituationPlan) -> Delays:
    """The delay of every output column that holds times of the match.

    A match is reported at the instant `detected_at`, which WITHIN relates to its earliest time.
    """
    delays: Delays = {}
    for name, atom in plain_values(plan.measures):
        if isinstance(atom, MatchMoment):
            delays[name] = 0 if atom.name == DETECTED_AT else plan.within
        elif isinstance(atom, SituationMoment) or _column(atom) == plan.time:
            delays[name] = plan.within
    return delays


def _column(atom: object) -> str | None:
    """The column whose value at one event an atom is."""
    if isinstance(atom, ColumnAtPlace):
        return atom.column
    if isinstance(atom, Extreme) and isinstance(atom.value, Load) and atom.by == atom.value:
        return atom.value.column
    return None
