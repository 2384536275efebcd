"""Prefixes of sequences that several rules have in common: their events are found once, where that pays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

from episode.matchers.demand import ClassDemand, Prefix, Prefixed
from episode.matchers.protocol import MatcherSpec
from episode.matchers.rules.classes import ClassIndex


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

    def reached(self, counts: Mapping[int, int], partitions: int, span: int) -> float:
        """So many rules would look at all events of the prefix: where what follows it is rare, a rule looks at few of
        them anyway. counts: of the events of classes. span: the time that all events take."""
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
    """Which of the common prefixes a demand begins with, and the demand's class of each of its places."""

    common: int
    at: tuple[int, ...]


def common_prefixes(
    specs: Sequence[MatcherSpec | None], index: ClassIndex, demands: Sequence[ClassDemand | None]
) -> tuple[tuple[CommonPrefix, ...], list[Beginning | None]]:
    """The prefixes that several rules have, and each rule's own: the longest that is shared with another rule."""
    offered = [_offered(spec, demand) for spec, demand in zip(specs, demands, strict=True)]
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
                followers[rule] = _follower(demand, own_classes, length)
                beginnings[rule] = Beginning(len(found), one.at)
                first = tuple(own_classes[at] for at in one.at)
            found.append(CommonPrefix(longest, first, followers))
    return tuple(found), beginnings


def _offered(spec: MatcherSpec | None, demand: ClassDemand | None) -> tuple[Prefix, ...]:
    """The prefixes of a rule that is given single rows only."""
    if demand is None or not demand.sparse or not demand.chain or not isinstance(spec, Prefixed):
        return ()
    return spec.prefixes


def _follower(demand: ClassDemand, classes: tuple[int, ...], length: int) -> Follower:
    after = demand.chain[length:]
    places = tuple(tuple(classes[at] for at in range(len(classes)) if mask >> at & 1) for mask in after)
    return Follower(places, max(1, demand.within))
