"""What rules have in common, found once for a set of them: classes of rows, equal demands, columns in lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from episode.matchers.demand import Demand
from episode.matchers.prepare import Needs
from episode.matchers.protocol import Demands, MatcherSpec
from episode.matchers.rules.batches import Asked, together
from episode.matchers.rules.classes import ClassIndex

MOST_COMPUTED = 16
"""So many values of single rows are computed for all rules together; rules with others compute theirs themselves."""


@dataclass(frozen=True)
class Place:
    """What one rule has of it. asked: the number of its demand; None: it is fed all rows as they are. shares: are
    columns in lanes that it shares with others?"""

    asked: int | None
    shares: bool = False


@dataclass(frozen=True)
class SharedPlan:
    """index: classes of rows. asked: the distinct demands. needs: what rules of all rows need of them, together.
    places: by rule."""

    index: ClassIndex
    asked: tuple[Asked, ...]
    needs: Needs | None
    places: tuple[Place, ...]


def shared_plan(specs: Sequence[MatcherSpec]) -> SharedPlan:
    """Of rules over the same rows."""
    demands = [one.demand if isinstance(one, Demands) else None for one in specs]
    index = ClassIndex(demand for demand in demands if demand is not None)
    asked, numbers = _numbered(specs, demands, index)
    shared: list[Needs] = []
    computed: dict[object, None] = {}
    places = []
    for spec, number in zip(specs, numbers, strict=True):
        needs: Needs | None = getattr(spec, "needs", None)
        shares = needs is not None and number is not None and (asked[number].followed or not asked[number].sparse)
        if needs is not None and shares:
            every = computed | dict.fromkeys(needs.computed)
            shares = len(every) <= MOST_COMPUTED
            if shares:
                computed = every
                shared.append(needs)
        places.append(Place(number, shares))
    return SharedPlan(index, asked, together(shared) if shared else None, tuple(places))


def _numbered(
    specs: Sequence[MatcherSpec], demands: Sequence[Demand | None], index: ClassIndex
) -> tuple[tuple[Asked, ...], list[int | None]]:
    """The distinct demands, and the number of each rule's own."""
    found: dict[Any, _Demanded] = {}
    numbers: list[int | None] = []
    numbered = iter(index.numbered)
    for spec, demand in zip(specs, demands, strict=True):
        if demand is None:
            numbers.append(None)
            continue
        which = next(numbered), demand.required, demand.sparse, demand.followed
        one = found.setdefault(which, _Demanded(len(found), demand))
        one.columns.update(dict.fromkeys(spec.input_columns))
        one.beyond.update(dict.fromkeys(getattr(spec, "columns_beyond", spec.input_columns)))
        numbers.append(one.number)
    asked = [
        Asked(
            classes, tuple(map(bool, one.demand.classes)), required, sparse, followed, tuple(one.columns),
            tuple(one.beyond),
        )  # fmt: skip
        for (classes, required, sparse, followed), one in found.items()
    ]
    return tuple(asked), numbers


@dataclass
class _Demanded:
    number: int
    demand: Demand
    columns: dict[str, None] = field(default_factory=dict)
    beyond: dict[str, None] = field(default_factory=dict)
