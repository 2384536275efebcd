"""How long after its time a match may be reported: what a further pattern over the matches of a stream must know.

Times of matches are named by the column of the output in which they stand. The delay of such a column is the least d
for which the following always holds: when the watermark has reached W, every match that is still to be reported has a
time later than W - d in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from episode.plan.expressions import Load
from episode.plan.output import ColumnAtPlace, Extreme, MeasurePlan
from episode.plan.schema import quote

UNBOUNDED = None
"""The delay of a time that has no bound."""

Delays = dict[str, int | None]
"""Delays of the output's times, in units of event time; UNBOUNDED where a match may be reported at any later time."""


def plain_values(measures: MeasurePlan) -> Iterator[tuple[str, Any]]:
    """Measures that are nothing but one value of the match: their names and the atoms that deliver the values."""
    atoms: dict[str, Any] = {quote(name): atom for atom, name in measures.atoms.items()}
    for measure in measures.measures:
        atom = atoms.get(measure.sql.strip(" \n\t()"))
        if atom is not None:
            yield measure.name, atom


def column_at_event(atom: object) -> str | None:
    """The column whose value at one event an atom is."""
    if isinstance(atom, ColumnAtPlace):
        return atom.column
    if isinstance(atom, Extreme) and isinstance(atom.value, Load) and atom.by == atom.value:
        return atom.value.column
    return None


def widest(delays: Iterable[int | None]) -> int | None:
    """The delay that holds for all of them; that of no time at all has no bound."""
    known = list(delays)
    return UNBOUNDED if not known or UNBOUNDED in known else max(one for one in known if one is not None)
