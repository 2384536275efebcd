"""Extents of matches, for every language: the key, the start and the end of a match, next to its own output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from episode.plan.output import ATOM_PREFIX, ColumnAtPlace, MeasurePlan, OutputAtom, Place, RowAggregate
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote

Plan = TypeVar("Plan", bound=PatternPlan)
FIRST, LAST = Place(None, True, 0, 0, True), Place(None, False, 0, 0, True)
COUNT = RowAggregate("count", None, True, None, "bigint")


@dataclass(frozen=True)
class Extent:
    """Expressions over the values that a matcher delivers. key: by column of the input. start, end: None if matches
    have no times; time: the type of both. count: the value that counts the rows of a match, which is not delivered
    unless someone adds it; None if matches have no rows."""

    key: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    end: str | None = None
    time: str | None = None
    count: OutputAtom | None = None


def with_atoms(plan: Plan, atoms: Mapping[str, OutputAtom]) -> tuple[Plan, dict[str, str]]:
    """The plan of a pattern that delivers further values, and the expressions of these, by the names given."""
    measures = plan.measures
    known = dict(measures.atoms)
    places: dict[str, str] = {}
    for name, atom in atoms.items():
        if atom not in known:
            numbers = (int(one.removeprefix(ATOM_PREFIX)) for one in known.values())
            known[atom] = f"{ATOM_PREFIX}{max(numbers, default=-1) + 1}"
        places[name] = quote(known[atom])
    return replace(plan, output=replace(plan.output, measures=MeasurePlan(measures.measures, known))), places


def measure_named(plan: PatternPlan, name: str) -> str:
    """The expression of a measure of the plan."""
    return next(one.sql for one in plan.measures.measures if one.name == name)


def key_at(plan: PatternPlan, place: Place) -> dict[str, OutputAtom]:
    """The key columns of a match, as one of its rows has them."""
    return {name: ColumnAtPlace(name, place) for name in plan.keys}
