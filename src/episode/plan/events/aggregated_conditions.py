"""Conditions that dynamic programming over events can evaluate, and the places in a match at which they are tested.

In addition to conditions on one event: comparisons of an event with the one before it in the match (a link), and with
the first event. A value is kept for each event, not for each choice of events before it; so a condition that depends on
more than the neighbour or the start is refused, with the reason.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeError, EpisodeUnsupportedError
from episode.lang.events.syntax import EventAggregate, EventColumn, EventQuery, Index, Reach
from episode.plan.events.alternatives import MARK
from episode.plan.events.conditions import Conjunct, EventScalars, all_atoms
from episode.plan.events.consistency import adjacent_form
from episode.plan.expressions import (
    FLIPPED,
    Apply,
    Current,
    Expression,
    Load,
    Navigated,
    at_current_row,
    conjuncts,
    is_comparison,
    walk,
)

if TYPE_CHECKING:
    from episode.plan.events.aggregated import Alternative

WHAT_MAY = (
    "Conditions may be about one event, [attribute], neighbours (b[i].x > b[i-1].x) or the first event "
    "(b[i].x > a.x); for others return the matches and aggregate them in SQL."
)


@dataclass(frozen=True)
class TrendPlace:
    """A place of a match, with one event; repeats: or several in a row; optional: or none."""

    variable: str
    repeats: bool = False
    optional: bool = False


@dataclass(frozen=True)
class LinkTest:
    """`current operation other`, of an event and the one before it in the match, each an expression of its row."""

    operation: str
    current: Expression
    other: Expression
    text: str


@dataclass(frozen=True)
class FirstTest(LinkTest):
    """The same of each event of a variable and the first event of the match."""

    variable: str


@dataclass(frozen=True)
class Link:
    """An event of the second place may come next after one of the first, if the tests hold."""

    source: int
    target: int
    tests: tuple[LinkTest, ...] = ()


def with_tests(
    query: EventQuery, scalars: EventScalars, related: list[Conjunct], alternative: Alternative
) -> Alternative:
    """The alternative with the conditions that relate its events; what it does not mention rests there."""
    names = {place.variable for place in alternative.places}
    links: dict[tuple[int, int], list[LinkTest]] = defaultdict(list)
    first: list[FirstTest] = []
    for conjunct in related:
        if conjunct.variables <= names:
            _Conjunct(query, scalars, conjunct, alternative.places, links, first).place()
    tested = tuple(replace(one, tests=tuple(links[one.source, one.target])) for one in alternative.links)
    return replace(alternative, links=tested, first_tests=tuple(first))


@dataclass
class _Conjunct:
    """One condition, to be assigned to the places at which it is tested."""

    query: EventQuery
    scalars: EventScalars
    conjunct: Conjunct
    places: tuple[TrendPlace, ...]
    links: dict[tuple[int, int], list[LinkTest]]
    first_tests: list[FirstTest]

    def __post_init__(self) -> None:
        self.last = {place.variable: at for at, place in enumerate(self.places)}
        self.first = {place.variable: at for at, place in reversed([*enumerate(self.places)])}

    def place(self) -> None:
        """Assign the condition to its places, or raise an error with the reason why it cannot be tested."""
        conjunct = self.conjunct
        if len(conjunct.variables) == 1 and self._is_record():
            return
        self._refuse_aggregates()
        if conjunct.back > 1:
            raise self._error(f"looks back {conjunct.back} events; a value is kept for each event, not for more")
        if len(conjunct.variables) > 2:
            raise self._error("relates more than two events")
        if len(conjunct.variables) == 1:
            self._of_one(*conjunct.variables)
        else:
            self._of_two()

    def _is_record(self) -> bool:
        """Is it `b[i].x > max(b[..i-1].x)`, which is equivalent to `b[i].x > b[i-1].x`?"""
        (name,) = self.conjunct.variables
        if self.conjunct.iterated is None or self.conjunct.whole:
            return False
        expression = self.scalars.compile(self.conjunct.scalar, name)
        adjacent = None if expression is None else adjacent_form(expression)
        if adjacent is None:
            return False
        before = Navigated(frozenset((name,)), False, 1, 0)
        self._add_neighbours(name, [self._comparison(adjacent, (Current(0),), before)])
        return True

    def _refuse_aggregates(self) -> None:
        for atom in all_atoms(self.conjunct.scalar):
            if isinstance(atom, EventAggregate):
                covered = "all events" if atom.reach is Reach.ALL else "all earlier events"
                name = atom.variable.split(MARK)[0]
                raise self._error(f"depends on {covered} chosen for {name}, and there are as many values as choices")

    def _of_one(self, name: str) -> None:
        indexes = {atom.index for atom in all_atoms(self.conjunct.scalar) if isinstance(atom, EventColumn)}
        if self.conjunct.back != 1 or not indexes <= {Index.EACH, Index.PLAIN, Index.BACK}:
            raise self._error(f"relates events of {name.split(MARK)[0]} that are not neighbours")
        self._add_neighbours(name, self._comparisons(name, Navigated(frozenset((name,)), False, 1, 0)))

    def _add_neighbours(self, name: str, tests: list[LinkTest]) -> None:
        places = {at for at, place in enumerate(self.places) if place.variable == name}
        for at in places:
            if self.places[at].repeats:
                self.links[at, at] += tests
            if at + 1 in places:
                self.links[at, at + 1] += tests

    def _of_two(self) -> None:
        one, other = sorted(self.conjunct.variables, key=lambda name: self.first[name])
        start = self.places[0]
        single = self.first[one] == self.last[one] == 0 and not start.repeats and not start.optional
        indexed = [atom for atom in all_atoms(self.conjunct.scalar) if isinstance(atom, EventColumn)]
        each = all(atom.index in (Index.PLAIN, Index.EACH) for atom in indexed)
        if single and each:
            tests = self._comparisons(other, Navigated(frozenset((one,)), False, 0, 0))
            self.first_tests += [FirstTest(one.operation, one.current, one.other, one.text, other) for one in tests]
            return
        source, target = self.last[one], self.first[other]
        if target != source + 1 or not self._is_neighbourly(indexed, other):
            names = " and ".join(name.split(MARK)[0] for name in (one, other))
            raise self._error(f"relates {names}, which are not neighbours, and neither of them is the first event")
        self.links[source, target] += self._comparisons(other, Navigated(frozenset((one,)), False, 0, 0))

    def _is_neighbourly(self, atoms: list[EventColumn], other: str) -> bool:
        """Are the last event of one and the first of the other meant, and always there?"""
        for atom in atoms:
            name = atom.variable
            place = self.places[self.first[name]]
            several = self.first[name] != self.last[name] or place.repeats
            if place.optional:
                return False
            if not several:
                continue
            first = atom.index is Index.AT and atom.number == 1
            if not (first if name == other else atom.index is Index.LAST):
                return False
        return True

    # ---- comparisons -----------------------------------------------------------------------------------------

    def _comparisons(self, current: str, before: Navigated) -> list[LinkTest]:
        """The condition as comparisons of a value of the current event with one of the event before."""
        expression = self.scalars.compile(self.conjunct.scalar, current)
        if expression is None:
            raise self._error("is evaluated on finished matches only")
        head = Navigated(frozenset((current,)), True, 0, 0)
        return [self._comparison(part, (Current(0), head), before) for part in conjuncts(expression)]

    def _comparison(self, part: Expression, current: tuple[Current | Navigated, ...], before: Navigated) -> LinkTest:
        if isinstance(part, Apply) and is_comparison(part):
            left, right = part.operands
            for one, other, operation in ((left, right, part.operation), (right, left, FLIPPED[part.operation])):
                if _at(one) in current and _at(other) == before:
                    return LinkTest(operation, at_current_row(one), at_current_row(other), self.conjunct.text)
        raise self._error("is not a comparison of a value of one event with a value of another")

    def _error(self, why: str) -> EpisodeError:
        text = " ".join(self.conjunct.text.split())
        message = f"Matches cannot be aggregated without enumerating them: {text} {why}."
        return self.query.source.error(EpisodeUnsupportedError, message, self.conjunct.scalar.span, WHAT_MAY)


def _at(expression: Expression) -> object:
    return next(node.at for node in walk(expression) if isinstance(node, Load))
