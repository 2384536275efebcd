"""Random queries for aggregates over all matches, and random events for them (hypothesis).

`trend_cases()` draws a SEQ of single classes and closures under skip-till-any-match with the conditions that dynamic
programming over events can follow: about one event, between neighbours in a closure (b[i], b[i-1]), and [attr].
`beyond=True` adds others: between single variables, between a closure and a single variable, over a whole closure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st

from episode.lang.events.syntax import Closure, EventClass, EventPattern, EventQuery, Reach, Sequence, Strategy
from episode.lang.syntax import Scalar
from tests.reference.event_patterns import Event, Match, matches
from tests.reference.event_trees import aggregate, closure, column, each, query, render, where
from tests.reference.generate_events import events
from tests.reference.trend_aggregates import Group, TrendAggregate, aggregate_matches

T = TypeVar("T")


@dataclass(frozen=True)
class TrendCase:
    """text: the query without AGGREGATE, which `clause` has. group_by: (variable, column); named: by AS."""

    query: EventQuery
    text: str
    events: list[Event]
    key: str | None
    lists: frozenset[str]
    aggregates: tuple[TrendAggregate, ...]
    group_by: tuple[tuple[str, str], ...]
    every: int | None
    named: bool = False

    @property
    def clause(self) -> str:
        """AGGREGATE count(*) AS g0, sum(b[].x) AS g1 GROUP BY a.s EVERY 5"""
        items = [f"{self.item(one)} AS g{n}" for n, one in enumerate(self.aggregates)]
        grouped = [
            f"{variable}.{column}{f' AS by{n}' if self.named else ''}"
            for n, (variable, column) in enumerate(self.group_by)
        ]
        return (
            f"AGGREGATE {', '.join(items)}"
            + (f" GROUP BY {', '.join(grouped)}" if grouped else "")
            + (f" EVERY {self.every}" if self.every is not None else "")
        )

    def item(self, one: TrendAggregate) -> str:
        if one.variable is None:
            return "count(*)"
        brackets = "[]" if one.variable in self.lists else ""
        return f"{one.function}({one.variable}{brackets}{f'.{one.column}' if one.column else ''})"

    def member(self, place: EventClass, event: Event) -> bool:
        return bool(event.values["type"] == place.name)

    def matches(self) -> list[Match]:
        key = self.key
        by = None if key is None else lambda event: event.values[key]
        return matches(self.query, self.events, member=self.member, key=by)

    def expected(self) -> dict[Group, tuple[Any, ...]]:
        key = self.key
        return aggregate_matches(
            self.query,
            self.events,
            self.aggregates,
            member=self.member,
            key=None if key is None else lambda event: event.values[key],
            group_by=self.group_by,
            every=self.every,
        )


@st.composite
def trend_cases(draw: st.DrawFn, max_events: int = 9, *, beyond: bool = False) -> TrendCase:
    maker = _Maker(draw, beyond)
    pattern = maker.pattern()
    tree = query(
        pattern,
        *maker.conditions(),
        same=draw(st.sampled_from([(), (), (), ("k",), ("s",)])),
        strategy=draw(st.sampled_from([None, Strategy.ANY])),
        within=draw(st.sampled_from([None, 6, 8, 4, 10, 5, 3])),
    )
    return TrendCase(
        tree,
        render(tree, sase=True),
        draw(events(max_events, like=pattern)),
        draw(st.sampled_from([None, None, "k"])),
        frozenset(maker.lists),
        maker.aggregates(),
        maker.group_by(),
        draw(st.sampled_from([None, None, 3, 5])),
        draw(st.booleans()),
    )


class _Maker:
    """Draws a SEQ with one or two closures, conjuncts about it, and aggregates."""

    def __init__(self, draw: st.DrawFn, beyond: bool) -> None:
        self.draw = draw
        self.beyond = beyond
        self.singles: list[str] = []
        self.lists: list[str] = []

    def any_of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))

    def pattern(self) -> Sequence:
        length = self.any_of(3, 2, 3, 4, 1)
        looped = self.any_of(*range(length))
        parts: list[EventPattern] = []
        for i in range(length):
            if i == looped or (len(self.lists) < 2 and self.any_of(True, False, False)):
                parts.append(self.loop())
            else:
                parts.append(self.one(self.singles))
        return Sequence(tuple(parts))

    def loop(self) -> Closure:
        return closure(self.one(self.lists), self.any_of("+", "+", "+", "*"), groups=False)

    def one(self, names: list[str]) -> EventClass:
        variable = f"v{len(self.singles) + len(self.lists) + 1}"
        names.append(variable)
        return EventClass(self.any_of(*"ABBCD"), variable)

    def conditions(self) -> list[Scalar]:
        kinds = [self.local, self.local, self.adjacent, self.adjacent, self.adjacent]
        kinds += [self.pair, self.anchored, self.over_all] * self.beyond
        return [self.any_of(*kinds)() for _ in range(self.any_of(1, 0, 2))]

    def comparison(self) -> str:
        return self.any_of(">=", "<=", ">", "<", "=", "<>")

    def local(self) -> Scalar:
        name = self.any_of(*self.singles, *self.lists)
        own = each(name, "x") if name in self.lists else column(name, "x")
        return where(f"{{}} {self.comparison()} {self.any_of(1, 2, 0)}", own)

    def adjacent(self) -> Scalar:
        name = self.any_of(*self.lists)
        left, right = each(name, "x"), each(name, self.any_of("x", "x", "y"), back=1)
        if self.any_of(True, False):
            return where(f"{{}} {self.comparison()} {{}}", right, left)
        return where(f"{{}} {self.comparison()} {{}}", left, right)

    def pair(self) -> Scalar:
        if not self.singles:
            return self.local()
        first, second = self.any_of(*self.singles), self.any_of(*self.singles)
        return where(f"{{}} {self.comparison()} {{}}", column(first, "x"), column(second, "y"))

    def anchored(self) -> Scalar:
        if not self.singles:
            return self.local()
        own, other = each(self.any_of(*self.lists), "x"), column(self.any_of(*self.singles), "x")
        return where(f"{{}} {self.comparison()} {{}}", own, other)

    def over_all(self) -> Scalar:
        name, function = self.any_of(*self.lists), self.any_of("max", "sum", "min", "count", "avg")
        if self.any_of(True, False):
            return where(f"{{}} {self.comparison()} {self.any_of(1, 2, 3)}", aggregate(function, name, "x"))
        before = aggregate(function, name, "x", Reach.BEFORE)
        return where(f"{{}} {self.comparison()} {{}}", each(name, "x"), before)

    def aggregates(self) -> tuple[TrendAggregate, ...]:
        """count(*) and up to three others."""
        names = [*self.singles, *self.lists]
        drawn = [TrendAggregate("count")]
        for _ in range(self.any_of(2, 1, 3, 0)):
            name = self.any_of(*names)
            if name in self.lists and self.any_of(True, False, False):
                drawn.append(TrendAggregate("count", name))
            else:
                function = self.any_of("sum", "min", "max", "avg", "count")
                drawn.append(TrendAggregate(function, name, self.any_of("x", "x", "y")))
        return tuple(drawn)

    def group_by(self) -> tuple[tuple[str, str], ...]:
        if not self.singles or self.any_of(True, True, False):
            return ()
        return ((self.any_of(*self.singles), self.any_of("s", "k", "x")),)
