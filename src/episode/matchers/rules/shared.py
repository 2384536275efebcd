"""What rules have in common, found once for a set of them: classes of rows, equal demands, columns in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from episode.matchers.demand import ClassDemand
from episode.matchers.prepare import Needs
from episode.matchers.protocol import Demands, MatcherSpec
from episode.matchers.rules.batches import Asked, together
from episode.matchers.rules.classes import ClassIndex
from episode.matchers.rules.prefixes import Beginning, CommonPrefix, common_prefixes

MOST_COMPUTED = 16
"""Values of single rows that are computed for all rules together; a rule with others computes its own."""


@dataclass(frozen=True)
class Place:
    """The part of one rule. asked: the number of its demand; None: it is fed all rows as they are. shares: are
    columns in lanes that it shares with others?"""

    asked: int | None
    shares: bool = False

    @property
    def turn(self) -> tuple[int, bool]:
        """Rules of equal demands are fed one after the other."""
        return -1 if self.asked is None else self.asked, self.shares


@dataclass(frozen=True)
class SharedPlan:
    """index: classes of rows. asked: the distinct demands. needs: what rules of all rows need of them, together.
    places: by rule. prefixes: those that several rules have."""

    index: ClassIndex
    asked: tuple[Asked, ...]
    needs: Needs | None
    places: tuple[Place, ...]
    prefixes: tuple[CommonPrefix, ...] = ()


def plan_apart(rules: int) -> SharedPlan:
    """Plan rules that share nothing: each is fed all rows, and evaluates its own conditions."""
    return shared_plan([None] * rules)


def shared_plan(specs: Sequence[MatcherSpec | None]) -> SharedPlan:
    """Find what rules over the same rows have in common. None: a rule that shares nothing."""
    demands: list[ClassDemand | None] = [one.demand if isinstance(one, Demands) else None for one in specs]
    index = ClassIndex(demand for demand in demands if demand is not None)
    common, beginnings = common_prefixes(specs, index, demands)
    asked, numbers = _numbered(specs, demands, index, beginnings)
    shared: list[Needs] = []
    computed: dict[object, None] = {}
    places = []
    for spec, number in zip(specs, numbers, strict=True):
        needs: Needs | None = getattr(spec, "needs", None)
        shares = needs is not None and number is not None and _all_rows(asked[number].demand)
        if needs is not None and shares:
            every = computed | dict.fromkeys(needs.computed)
            shares = len(every) <= MOST_COMPUTED
            if shares:
                computed = every
                shared.append(needs)
        places.append(Place(number, shares))
    return SharedPlan(index, asked, together(shared) if shared else None, tuple(places), common)


def _all_rows(demand: ClassDemand) -> bool:
    """Is a rule fed all rows, at least in a feed that is not the only one?"""
    return demand.followed or not demand.sparse


def _numbered(
    specs: Sequence[MatcherSpec | None],
    demands: Sequence[ClassDemand | None],
    index: ClassIndex,
    beginnings: Sequence[Beginning | None],
) -> tuple[tuple[Asked, ...], list[int | None]]:
    """The distinct demands, and the number of each rule's own."""
    found: dict[Any, _Demanded] = {}
    numbers: list[int | None] = []
    numbered = iter(index.numbered)
    for spec, demand, beginning in zip(specs, demands, beginnings, strict=True):
        if spec is None or demand is None:
            numbers.append(None)
            continue
        which = next(numbered), replace(demand, classes=()), beginning
        one = found.setdefault(which, _Demanded(len(found), demand))
        one.columns.update(dict.fromkeys(spec.input_columns))
        one.beyond.update(dict.fromkeys(getattr(spec, "columns_beyond", spec.input_columns)))
        numbers.append(one.number)
    asked = [
        Asked(classes, one.demand, tuple(one.columns), tuple(one.beyond), beginning)
        for (classes, _, beginning), one in found.items()
    ]
    return tuple(asked), numbers


@dataclass
class _Demanded:
    number: int
    demand: ClassDemand
    columns: dict[str, None] = field(default_factory=dict)
    beyond: dict[str, None] = field(default_factory=dict)
