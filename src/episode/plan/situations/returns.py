"""RETURN of a situation pattern: what the matcher delivers, and Spark's part around it.

To the planner of MEASURES a symbol is a label, and the events of its situation so far are the label's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

from episode.lang.situations.syntax import (
    Moment,
    SituationAggregate,
    SituationAtom,
    SituationColumn,
    SituationTime,
    situation_atoms,
)
from episode.lang.syntax import Aggregate, ColumnRef, ReturnItem, Scalar
from episode.plan.measures import Measures
from episode.plan.output import ATOM_PREFIX, ColumnAtPlace, OutputAtom, PlannedMeasure, RowPlace
from episode.plan.places import substitute
from episode.plan.schema import quote

MATCH_START, DETECTED_AT = "match_start", "detected_at"


@dataclass(frozen=True)
class SituationMoment:
    """The start of a symbol's situation, or its end (null while it lasts)."""

    symbol: str
    end: bool


@dataclass(frozen=True)
class MatchMoment:
    """match_start: the least start of its situations. detected_at: when the match became certain."""

    name: str


SituationOutput = Union[OutputAtom, SituationMoment, MatchMoment]


def with_columns(scalar: Scalar, label: str | None) -> Scalar:
    """The scalar with columns of a row pattern (of a label) in place of columns of a situation's events."""
    atoms = []
    for name, atom in scalar.atoms:
        assert isinstance(atom, SituationColumn)
        atoms.append((name, ColumnRef(label, atom.path, atom.span)))
    return replace(scalar, atoms=tuple(atoms))


class SituationReturns(Measures):
    """Plans RETURN."""

    def item(self, item: ReturnItem) -> PlannedMeasure:
        scalar = item.expression
        names = [name for name, _ in scalar.atoms]
        parts = {name: self._situation_sql(atom) for name, atom in zip(names, situation_atoms(scalar))}
        sql = substitute(scalar.text, parts)
        return PlannedMeasure(item.name, sql, scalar.original, item.span)

    def whole(self, symbol: str) -> PlannedMeasure:
        """A symbol without RETURN: its interval."""
        start, end = self._moment(SituationMoment(symbol, False)), self._moment(SituationMoment(symbol, True))
        return PlannedMeasure(symbol, f"named_struct('start', {start}, 'end', {end})", symbol, self.source.span)

    def key(self, symbol: str, column: str) -> PlannedMeasure:
        """A partition column, as any event of the match has it."""
        place = RowPlace(frozenset((symbol,)), True, 0, 0, True)
        return self.measure_of(column, ColumnAtPlace(column, place))

    def times(self) -> list[PlannedMeasure]:
        return [
            PlannedMeasure(name, self._moment(MatchMoment(name)), name, self.source.span)
            for name in (MATCH_START, DETECTED_AT)
        ]

    def _moment(self, atom: SituationMoment | MatchMoment) -> str:
        atoms: dict[SituationOutput, str] = self.atoms  # type: ignore[assignment]
        if atom not in atoms:
            atoms[atom] = f"{ATOM_PREFIX}{len(atoms)}"
        return quote(atoms[atom])

    def _situation_sql(self, atom: SituationAtom) -> str:
        if isinstance(atom, SituationTime):
            start, end = (self._moment(SituationMoment(atom.symbol, end)) for end in (False, True))
            return {Moment.START: start, Moment.END: end, Moment.DURATION: f"({end} - {start})"}[atom.what]
        assert isinstance(atom, SituationAggregate)
        arguments = tuple(with_columns(argument, atom.symbol) for argument in atom.arguments)
        star = None if arguments else atom.symbol
        return f"({self._aggregate(Aggregate(atom.function, arguments, not arguments, star, None, atom.span))})"
