"""Random queries over imprecise time, and random events for them (hypothesis).

`imprecise_cases()` draws a SEQ of single classes and closures with conjuncts and perhaps a RETURN, as a tree and as
text, with events that have intervals, the granularity of time and a threshold. All is small enough for the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from hypothesis import strategies as st

from episode.lang.events.syntax import Closure, EventClass, EventPattern, EventQuery, Reach, Sequence, Strategy
from episode.lang.syntax import Scalar
from tests.reference.event_patterns import Event
from tests.reference.event_trees import aggregate, at, closure, column, each, every, last, query, render, where, whole
from tests.reference.imprecise import ImpreciseEvent, ImpreciseMatch, class_of, imprecise_matches, places_of

T = TypeVar("T")
GRANULARITIES = [1, 1, 1, 2, 3]
THRESHOLDS = [None, None, Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(1), Fraction(1, 100)]


@dataclass(frozen=True)
class ImpreciseCase:
    """text: the query without a clause about time, granularity or confidence. threshold: None where there is none."""

    query: EventQuery
    text: str
    events: list[ImpreciseEvent]
    typed: bool
    key: str | None
    granularity: int
    threshold: Fraction | None

    def member(self, place: EventClass, event: Event) -> bool:
        return not self.typed or event.values["type"] == place.name

    def matches(self, *, threshold: bool = True) -> list[ImpreciseMatch]:
        """The oracle's answer. threshold=False: all that are possible."""
        key = self.key
        return imprecise_matches(
            self.query,
            self.events,
            member=self.member,
            key=None if key is None else lambda event: event.values[key],
            granularity=self.granularity,
            threshold=self.threshold if threshold else None,
        )

    def names(self) -> list[tuple[str, bool]]:
        """The variables in order of appearance, as written; True for those of closures."""
        return [(class_of(place).variable, isinstance(place, Closure)) for place in places_of(self.query.pattern)]

    def correlated(self) -> ImpreciseCase:
        """The same with a conjunct about each closure that always holds and makes it correlated."""
        ordered = [
            where("({} >= 0 OR {} IS NULL)", aggregate("count", name, None, Reach.CURRENT), each(name, "x"))
            for name, closed in self.names()
            if closed
        ]
        changed = replace(self.query, conditions=(*self.query.conditions, *ordered))
        return replace(self, query=changed, text=render(changed, sase=True))


@st.composite
def imprecise_cases(
    draw: st.DrawFn, max_events: int = 6, max_points: int = 4, *, weights: bool = True
) -> ImpreciseCase:
    """weights: some events have a distribution of their own (else all are uniform)."""
    typed = draw(st.sampled_from([True, True, True, False]))
    maker = _Maker(draw, typed)
    pattern = maker.pattern()
    tree = query(
        pattern,
        *maker.conditions(),
        same=draw(st.sampled_from([(), (), (), ("k",)])),
        strategy=draw(st.sampled_from([None, Strategy.ANY])),
        within=draw(st.sampled_from([None, 6, 4, 8, 3, 2])),
        returns=draw(st.sampled_from([None, None, maker.returns()])),
    )
    granularity = draw(st.sampled_from(GRANULARITIES))
    return ImpreciseCase(
        tree,
        render(tree, sase=True),
        draw(imprecise_events(max_events, max_points, granularity, like=pattern, weights=weights)),
        typed,
        draw(st.sampled_from([None, None, "k"])),
        granularity,
        draw(st.sampled_from(THRESHOLDS)),
    )


@st.composite
def imprecise_events(
    draw: st.DrawFn,
    max_events: int,
    max_points: int,
    granularity: int = 1,
    *,
    like: EventPattern | None = None,
    weights: bool = True,
) -> list[ImpreciseEvent]:
    """In order of arrival, which is neither that of lo nor that of hi. Intervals need not be multiples of the grain."""
    script = [class_of(place).name for place in places_of(like)] if like else []
    drawn: list[ImpreciseEvent] = []
    middle = 0
    for position in range(draw(st.sampled_from([max_events, max_events - 1, max_events // 2, 0]))):
        middle += granularity * draw(st.sampled_from([1, 1, 2, 0, -1]))
        points = draw(st.sampled_from([*range(1, max_points + 1), max_points]))
        lo = middle + draw(st.sampled_from([0, 0, 0, 1, -1]))
        hi = lo + granularity * (points - 1) + draw(st.integers(0, granularity - 1))
        kind = script.pop(0) if script and draw(st.sampled_from([True, True, True, False])) else None
        if kind is None or kind not in "ABCD":
            kind = draw(st.sampled_from(["B", "A", "B", "C", "D"]))
        values = {
            "type": kind,
            "k": draw(st.sampled_from([1, 1, 1, 1, 2, None])),
            "x": draw(st.sampled_from([2, 1, 3, 2, 1, 0, None])),
            "y": draw(st.sampled_from([1, 2, 0, None])),
            "s": draw(st.sampled_from(["u", "u", "v", None])),
        }
        own = draw(_weights(points)) if weights and draw(st.sampled_from([False, False, True])) else None
        drawn.append(ImpreciseEvent(position, lo, hi, values, own))
    return drawn


@st.composite
def _weights(draw: st.DrawFn, points: int) -> tuple[Fraction, ...]:
    """Sixteenths, so that doubles have them exactly; a point may be impossible."""
    cuts = sorted(draw(st.lists(st.integers(0, 16), min_size=points - 1, max_size=points - 1)))
    return tuple(Fraction(b - a, 16) for a, b in zip([0, *cuts], [*cuts, 16], strict=True))


class _Maker:
    """Draws a SEQ with at most two closures, and conjuncts about it."""

    def __init__(self, draw: st.DrawFn, typed: bool) -> None:
        self.draw = draw
        self.typed = typed
        self.singles: list[str] = []
        self.lists: list[str] = []

    def any_of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))

    def pattern(self) -> Sequence:
        parts: list[EventPattern] = []
        for _ in range(self.any_of(3, 2, 3, 4, 1)):
            if len(self.lists) < 2 and self.any_of(True, False):
                place = self.one(self.lists)
                parts.append(closure(place, self.any_of("+", "+", "*", "^2"), groups=False))
            else:
                parts.append(self.one(self.singles))
        return Sequence(tuple(parts))

    def one(self, names: list[str]) -> EventClass:
        variable = f"v{len(self.singles) + len(self.lists) + 1}"
        names.append(variable)
        return EventClass(self.any_of(*"ABBC") if self.typed else variable.upper(), variable)

    def conditions(self) -> list[Scalar]:
        kinds = [self.single, self.pair] * (2 * bool(self.singles))
        kinds += [self.each, self.back, self.running, self.all_of, self.all_of] * bool(self.lists)
        return [self.any_of(*kinds)() for _ in range(self.any_of(1, 0, 2))]

    def comparison(self) -> str:
        return self.any_of(">=", "<=", "<>", "<", ">", "=")

    def single(self) -> Scalar:
        return where(f"{{}} {self.comparison()} {self.any_of(1, 2)}", column(self.any_of(*self.singles), "x"))

    def pair(self) -> Scalar:
        first, second = self.any_of(*self.singles), self.any_of(*self.singles)
        return where(f"{{}} {self.comparison()} {{}}", column(first, "x"), column(second, "y"))

    def each(self) -> Scalar:
        own = each(self.any_of(*self.lists), "x")
        if self.singles and self.any_of(True, False):
            return where(f"{{}} {self.comparison()} {{}}", own, column(self.any_of(*self.singles), "x"))
        return where(f"{{}} {self.comparison()} {self.any_of(1, 2)}", own)

    def back(self) -> Scalar:
        name = self.any_of(*self.lists)
        return where(f"{{}} {self.comparison()} {{}}", each(name, "x"), each(name, "x", back=self.any_of(1, 1, 2)))

    def running(self) -> Scalar:
        name, function = self.any_of(*self.lists), self.any_of("max", "sum", "min", "count", "avg")
        if self.any_of(True, False):
            before = aggregate(function, name, "x", Reach.BEFORE)
            return where(f"{{}} {self.comparison()} {{}}", each(name, "x"), before)
        return where(f"{{}} {self.comparison()} 3", aggregate(function, name, "x", Reach.CURRENT))

    def all_of(self) -> Scalar:
        name = self.any_of(*self.lists)
        functions = [aggregate(function, name, "x") for function in ("count", "sum", "avg", "max", "min")]
        atom = self.any_of(*functions, aggregate("count", name), at(name, 1, "x"), at(name, 2, "x"), last(name, "x"))
        return where(f"{{}} {self.comparison()} {self.any_of(1, 2, 3)}", atom)

    def returns(self) -> tuple[Scalar, ...]:
        items = [where("{}", column(name, "x")) for name in self.singles]
        for name in self.lists:
            atoms = [whole(name), every(name, "x"), aggregate("sum", name, "x"), aggregate("first_value", name, "x")]
            items.append(where("{}", self.any_of(*atoms, last(name, "x"))))
        return tuple(items)
