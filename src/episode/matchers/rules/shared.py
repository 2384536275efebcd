"""Parts that the rules of a set have in common, found once: classes of rows, equal demands, columns in lanes.

See decisions 172 and 173.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any

from episode.matchers.prepare import Needs
from episode.matchers.protocol import Demands, MatcherSpec
from episode.matchers.rules.batches import Asked, together
from episode.matchers.rules.classes import ClassIndex
from episode.matchers.screening import ClassDemand, Prefix, Prefixed

MOST_COMPUTED = 16
"""Values of single rows that are computed for all rules together; a rule with others computes its own."""


@dataclass(frozen=True)
class RulePlace:
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
    places: tuple[RulePlace, ...]
    prefixes: tuple[CommonPrefix, ...] = ()


def shared_plan(specs: Sequence[MatcherSpec | None]) -> SharedPlan:
    """Find what rules over the same rows have in common. None: a rule that shares nothing, and is fed all rows."""
    demands: list[ClassDemand | None] = [one.demand if isinstance(one, Demands) else None for one in specs]
    index = ClassIndex(demand for demand in demands if demand is not None)
    common, beginnings = common_prefixes(specs, index, demands)
    asked, numbers = _number_demands(specs, demands, index, beginnings)
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
        places.append(RulePlace(number, shares))
    return SharedPlan(index, asked, together(shared) if shared else None, tuple(places), common)


def _all_rows(demand: ClassDemand) -> bool:
    """Is a rule fed all rows, at least in a feed that is not the only one?"""
    return demand.followed or not demand.sparse


def _number_demands(
    specs: Sequence[MatcherSpec | None],
    demands: Sequence[ClassDemand | None],
    index: ClassIndex,
    beginnings: Sequence[Beginning | None],
) -> tuple[tuple[Asked, ...], list[int | None]]:
    """Return the distinct demands, and the number of each rule's own."""
    found: dict[Any, tuple[int, ClassDemand, dict[str, None], dict[str, None]]] = {}
    numbers: list[int | None] = []
    numbered = iter(index.numbered)
    for spec, demand, beginning in zip(specs, demands, beginnings, strict=True):
        if spec is None or demand is None:
            numbers.append(None)
            continue
        which = next(numbered), replace(demand, classes=()), beginning
        number, _, columns, beyond = found.setdefault(which, (len(found), demand, {}, {}))
        columns.update(dict.fromkeys(spec.input_columns))
        beyond.update(dict.fromkeys(getattr(spec, "columns_beyond", spec.input_columns)))
        numbers.append(number)
    asked = [
        Asked(classes, demand, tuple(columns), tuple(beyond), beginning)
        for (classes, _, beginning), (_, demand, columns, beyond) in found.items()
    ]
    return tuple(asked), numbers


# Prefixes of sequences that several rules have in common: their events are found once, where that pays.


@dataclass(frozen=True)
class Follower:
    """The places after the prefix of one rule: the classes of each, by their numbers; and the rule's window."""

    places: tuple[tuple[int, ...], ...]
    within: int


@dataclass(frozen=True)
class CommonPrefix:
    """A prefix of several rules, with the longest of their windows. classes: the number of each place's class. rules:
    by their numbers, what follows the prefix in each."""

    prefix: Prefix
    classes: tuple[int, ...]
    rules: Mapping[int, Follower]

    def expected_rules(self, counts: Mapping[int, int], partitions: int, span: int) -> float:
        """Estimate the number of rules that would look at all events of the prefix: if what follows it is rare, a rule
        looks at few of them anyway. counts: of the events of classes. span: the time that all events take."""
        total = 0.0
        for follower in self.rules.values():
            windows = partitions * span / min(follower.within, span)
            share = 1.0
            for place in follower.places:
                share *= 1.0 - exp(-sum(counts[one] for one in place) / windows)
            total += share
        return total


@dataclass(frozen=True)
class Beginning:
    """Beginning of a demand: the number of its common prefix, and the demand's class of each of the prefix's places."""

    common: int
    at: tuple[int, ...]


def common_prefixes(
    specs: Sequence[MatcherSpec | None], index: ClassIndex, demands: Sequence[ClassDemand | None]
) -> tuple[tuple[CommonPrefix, ...], list[Beginning | None]]:
    """The prefixes that several rules have, and each rule's own: the longest that is shared with another rule."""
    offered = [_offered_prefixes(spec, demand) for spec, demand in zip(specs, demands, strict=True)]
    numbered = iter(index.numbered)
    classes = [None if demand is None else next(numbered) for demand in demands]
    found: list[CommonPrefix] = []
    beginnings: list[Beginning | None] = [None] * len(specs)
    for length in sorted({len(one.at) for own in offered for one in own}, reverse=True):
        by_same: dict[object, dict[int, Prefix]] = {}
        for rule, own in enumerate(offered):
            for one in own:
                if len(one.at) == length and beginnings[rule] is None:
                    by_same.setdefault(one.same, {})[rule] = one
        for rules in by_same.values():
            if len(rules) < 2:
                continue
            longest = max(rules.values(), key=lambda one: one.within)
            followers = {}
            for rule, one in rules.items():
                demand, own_classes = demands[rule], classes[rule]
                assert demand is not None
                assert own_classes is not None
                places = [
                    tuple(one for at, one in enumerate(own_classes) if mask >> at & 1) for mask in demand.chain[length:]
                ]
                followers[rule] = Follower(tuple(places), max(1, demand.within))
                beginnings[rule] = Beginning(len(found), one.at)
                first = tuple(own_classes[at] for at in one.at)
            found.append(CommonPrefix(longest, first, followers))
    return tuple(found), beginnings


def _offered_prefixes(spec: MatcherSpec | None, demand: ClassDemand | None) -> tuple[Prefix, ...]:
    """The prefixes of a rule that is given single rows only."""
    if demand is None or not demand.sparse or not demand.chain or not isinstance(spec, Prefixed):
        return ()
    return spec.prefixes
