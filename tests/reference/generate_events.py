"""Random event patterns and random events for them (hypothesis).

`cases()` draws a query, as a tree and as text, with its events and options. Every query is valid, and small enough
for the oracle to answer in milliseconds. What the rules leave open is left out unless `Features` asks for it.

The events have the columns COLUMNS. Either the column `type` gives the class, or the names are aliases of any row
and conditions narrow them down, so that classes overlap.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hypothesis import strategies as st

from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventAtom,
    EventClass,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Reach,
    Sequence,
    Strategy,
    children,
    classes_of,
)
from episode.lang.syntax import Scalar
from tests.reference import event_patterns
from tests.reference.event_patterns import Event, Match
from tests.reference.event_trees import (
    aggregate,
    at,
    closure,
    column,
    each,
    every,
    last,
    query,
    render,
    where,
    whole,
)

__all__ = ["COLUMNS", "Case", "Features", "cases", "events", "render"]

COLUMNS = ["type", "k", "x", "y", "s"]
HUGE = [2**62, -(2**62), 2**63 - 1, -(2**63)]
T = TypeVar("T")


@dataclass(frozen=True)
class Features:
    """What may appear beyond the plain cases."""

    negation_in_alternatives: bool = True  # SEQ(A, ~B, C) | D
    closure_of_disjunction: bool = False  # SEQ(A, (B | C)+, D)
    closures_related: bool = False  # b[i].x > count(d[]), where b and d are both groups
    groups_in_one_conjunction: bool = False  # (A; B*; C) & (D; E*; F), where an event may be of both groups
    late_negation: bool = False  # ~B whose condition is about an event after its right neighbour, with next-match
    decided_at_end: bool = False  # sum(b[].x) > 3 for a closure that stands last, with next-match
    intervals: bool = False  # events that last
    huge: bool = False  # integers near the limits of bigint
    alternatives: bool = False  # most parts of a sequence are alternatives
    closure_alone: bool = False  # the pattern is a closure, or has one as an alternative
    neighbouring_groups: bool = False  # the pattern is A; B*; C*; D, perhaps with more groups and more around them
    shared_in_closure: bool = False  # (B e | C e)+
    nested_negations: bool = False  # ~SEQ(A, ~B, C)
    edge_negations: bool = False  # the pattern is SEQ(A, SEQ(~X, B)+, C), perhaps with more around the closure
    nested_closures: bool = False  # SEQ(SEQ(A, B+)+, C), and closures of alternatives that have closures
    groups_of_alternatives: bool = False  # A; (B | C)+; D
    rich_negations: bool = False  # ~SEQ(A, B+), ~(SEQ(A, B) | C)
    negation_in_closure: bool = False  # SEQ(A, ~B, C)+
    choosing: bool = False  # the pattern is SEQ(A, B+, C), with closures that choose, perhaps more and negations


PLAIN = Features()
# The language closed under alternatives, negation and closure.
CLOSED = Features(
    closure_of_disjunction=True,
    nested_closures=True,
    groups_of_alternatives=True,
    rich_negations=True,
    negation_in_closure=True,
    shared_in_closure=True,
    nested_negations=True,
)
EVERYTHING = Features(
    closure_of_disjunction=True,
    closures_related=True,
    groups_in_one_conjunction=True,
    late_negation=True,
    decided_at_end=True,
    intervals=True,
    alternatives=True,
)


@dataclass(frozen=True)
class Case:
    """typed: the column `type` gives the class; else the classes are aliases of any row. key: a column or None.

    strategy: an option beside the query; the query may have one itself.
    """

    query: EventQuery
    text: str
    events: list[Event]
    typed: bool
    key: str | None
    strategy: Strategy | None

    def member(self, place: EventClass, event: Event) -> bool:
        return not self.typed or event.values["type"] == place.name

    def matches(self, of: EventQuery | None = None) -> list[Match]:
        """The oracle's answer, for the query or another reading of its text."""
        key = self.key
        return event_patterns.matches(
            of or self.query,
            self.events,
            member=self.member,
            strategy=self.strategy,
            key=None if key is None else lambda event: event.values[key],
        )


@st.composite
def cases(draw: st.DrawFn, features: Features = PLAIN, max_events: int = 8, strategy: Strategy | None = None) -> Case:
    """strategy: this one only; None: any of them."""
    chosen = strategy or draw(st.sampled_from(STRATEGIES))
    typed = draw(st.sampled_from([True, True, True, False]))
    key = draw(st.sampled_from([None, None, None, "k"]))
    in_query = draw(st.booleans())
    pattern = _Maker(draw, chosen, typed, features).pattern()
    if (chosen is Strategy.ANY or not in_query) and not features.neighbouring_groups:
        pattern = _with_legal_groups(pattern, features)
    # Partition contiguity needs [attr] or a key.
    same = draw(st.sampled_from([(), (), (), ("k",), ("s",), ("k", "s")]))
    if chosen is Strategy.PARTITION and not same and key is None:
        same = ("k",)
    conditions = _Conditions(draw, pattern, chosen, features)
    tree = query(
        pattern,
        *([] if typed else conditions.narrowing()),
        *conditions.several(),
        same=same,
        strategy=chosen if in_query else None,
        within=draw(st.sampled_from([None, 6, 8, 4, 10, 5, 3])),
        returns=draw(st.sampled_from([conditions.returns, lambda: None]))(),
    )
    return Case(
        tree,
        render(tree, sase=draw(st.booleans())),
        draw(events(max_events if typed else max_events - 2, like=pattern, features=features)),
        typed,
        key,
        None if in_query else chosen,
    )


STRATEGIES = [Strategy.ANY] * 3 + [Strategy.NEXT] * 2 + [Strategy.STRICT, Strategy.PARTITION]


# ---- events ---------------------------------------------------------------------------------------


@st.composite
def events(
    draw: st.DrawFn, max_events: int = 8, *, like: EventPattern | None = None, features: Features = PLAIN
) -> list[Event]:
    """In order of (te, arrival), with equal times. like: most types come as the classes of this pattern do."""
    huge, intervals = HUGE if features.huge else [], features.intervals
    fewest = draw(st.sampled_from([max_events - 2, max_events - 1, max_events // 2, 0]))
    row = st.fixed_dictionaries(
        {
            "k": st.sampled_from([1, 1, 1, 1, 1, 1, 2, None]),
            "x": st.sampled_from([2, 1, 3, 2, 1, 0, 3, 2, None, *huge, *huge]),
            "y": st.sampled_from([1, 2, 0, 1, 2, None, *huge]),
            "s": st.sampled_from(["u", "u", "u", "u", "v", None]),
        }
    )
    script = [one.name for one in classes_of(like) if one.name in "ABCD"] if like else []
    drawn: list[Event] = []
    te = 0
    for position, values in enumerate(draw(st.lists(row, min_size=fewest, max_size=max_events))):
        te += draw(st.sampled_from([1, 1, 0, 2, 1]))
        ts = te - draw(st.sampled_from([0, 0, 1, 2])) if intervals else te
        kind = draw(st.sampled_from([*([script[0]] * 9 if script else []), "A", "B", "C", "D", None]))
        if script and kind == script[0] and draw(st.sampled_from([True, True, False])):
            script.pop(0)
        drawn.append(Event(position, ts, te, {"type": kind, **values}))
    return drawn


# ---- patterns -------------------------------------------------------------------------------------


@dataclass
class _Maker:
    """Draws a pattern. zstream: closures are groups here, which is so outside SEQ."""

    draw: st.DrawFn
    strategy: Strategy
    typed: bool
    features: Features
    names: int = 0
    closures: int = 0
    places: int = 0
    defaults: set[str] = field(default_factory=set)

    def any_of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))

    def pattern(self) -> EventPattern:
        kinds = ["sequence"] * 7 + ["either", "either", "one"]
        kinds += ["both", "both", "closure"] if self.strategy is Strategy.ANY else []
        zstream = self.any_of(True, False)
        if self.features.closure_alone and self.strategy is Strategy.ANY:
            alone = self.closure(zstream=True)
            return alone if self.any_of(True, True, False) else Disjunction((self.one(), alone))
        if self.features.neighbouring_groups and self.strategy is Strategy.ANY:
            return self.neighbours()
        if self.features.edge_negations:
            return self.around_edges()
        if self.features.choosing and self.strategy is Strategy.ANY:
            first = self.choosing()
            return Disjunction((first, self.choosing())) if self.any_of(True, *[False] * 7) else first
        match self.any_of(*kinds):
            case "either":
                return self.either(zstream=zstream, inside=zstream, depth=1)
            case "both":
                return self.both(zstream=zstream, inside=zstream, depth=1)
            case "one":
                return self.one()
            case "closure":
                return self.closure(zstream=True)
        return self.sequence(zstream=zstream, depth=2, most=4)

    def neighbours(self) -> EventPattern:
        def group() -> EventPattern:
            inside = self.alternatives() if self.features.groups_of_alternatives else self.one()
            return closure(inside, self.any_of("*", "*", "+", "+", "^2"), groups=True)

        groups: list[EventPattern] = [group() for _ in range(self.any_of(2, 2, 3))]
        if self.any_of(True, *[False] * 4):
            groups.insert(1, Negation(self.one()))
        sequence = Sequence((self.one(), *groups, self.one()))
        match self.any_of("plain", "plain", "after", "not", "either", "first", "last", "nested"):
            case "after":
                return Sequence((*sequence.parts, self.one()))
            case "not":
                return Sequence((*sequence.parts, self.negation()))
            case "either":
                return Disjunction((sequence, self.one()))
            case "first":
                return Sequence(sequence.parts[1:])
            case "last":
                return Sequence(sequence.parts[:-1])
            case "nested":
                return Sequence((Sequence(sequence.parts[:2]), *sequence.parts[2:]))
        return sequence

    def around_edges(self) -> EventPattern:
        """Repetitions that begin or end with a negation."""

        def round_() -> EventPattern:
            parts = [self.one() for _ in range(self.any_of(1, 1, 2))]
            return self.any_of(
                Sequence((self.negation(), *parts)),
                Sequence((*parts, self.negation())),
                Sequence((self.negation(), *parts, self.negation())),
            )

        inside = Disjunction((round_(), self.one())) if self.any_of(True, *[False] * 4) else round_()
        loop = closure(inside, self.any_of("+", "+", "*", "^2"), groups=False)
        match self.any_of("plain", "plain", "not", "loop", "round"):
            case "not":
                return Sequence((self.one(), self.negation(), loop, self.one()))
            case "loop":
                return Sequence((self.one(), closure(self.one(), "*", groups=False), loop, self.one()))
            case "round":
                return closure(Sequence((self.one(), loop, self.one())), "+", groups=False)
        return Sequence((self.one(), loop, self.one()))

    def alternatives(self) -> EventPattern:
        """Of a closure: of one variable, or of one each."""
        first = self.one()
        shared = self.features.shared_in_closure and self.any_of(True, False)
        return Disjunction((first, self.one(first.variable if shared else None)))

    def choosing(self) -> EventPattern:
        def loop() -> Closure:
            return closure(self.one(), self.any_of("+", "+", "+", "*", "^2"), groups=False)

        def perhaps(*kinds: str) -> list[EventPattern]:
            match self.any_of("", "", "", *kinds):
                case "not":
                    return [
                        Negation(
                            Disjunction((self.one(), self.one())) if self.any_of(True, *[False] * 5) else self.one()
                        )
                    ]
                case "loop":
                    return [loop()]
                case "one":
                    return [self.one()]
                case "either":
                    return [Disjunction((self.one(), self.one()))]
            return []

        return Sequence(
            (
                *perhaps("not", "loop", "loop"),
                self.one(),
                *perhaps("not", "not"),
                loop(),
                *perhaps("not", "loop", "one", "either"),
                self.one(),
                *perhaps("not", "one"),
            )
        )

    def one(self, variable: str | None = None) -> EventClass:
        self.names += 1
        self.places += 1
        name = self.any_of(*"ABCD") if self.typed else f"T{self.names}"
        if variable is None and name not in self.defaults and self.any_of(True, False):
            self.defaults.add(name)
            return EventClass(name, name)
        return EventClass(name, variable or f"v{self.names}")

    def sequence(
        self, *, zstream: bool, depth: int, most: int = 2, negation: bool = True, shared: tuple[str, ...] = ()
    ) -> Sequence:
        """At least one of the parts is a place that needs an event. shared: variables that may be used once more."""
        length = self.any_of(3, 2, most)
        certain = self.any_of(*range(length))
        parts: list[EventPattern] = []
        left = list(shared)
        for i in range(length):
            kind = "one" if i == certain else self.kind(depth, negation)
            match kind:
                case "one":
                    reused = left.pop() if left and self.any_of(True, False) else None
                    parts.append(self.one(reused))
                case "closure":
                    parts.append(self.closure(zstream))
                case "negation":
                    parts.append(self.negation())
                case "sequence":
                    parts.append(self.sequence(zstream=zstream and self.any_of(True, False), depth=depth - 1))
                case "either":
                    parts.append(self.either(zstream=zstream, inside=True, depth=depth - 1))
                case "both":
                    parts.append(self.both(zstream=zstream, inside=True, depth=depth - 1))
        return Sequence(tuple(parts))

    def kind(self, depth: int, negation: bool) -> str:
        kinds = ["one"] * 4
        if self.closures < 2:
            kinds += ["closure"] * 5
        if negation:
            kinds += ["negation"] * 3
        if depth and self.places < 4:
            kinds += ["sequence", "either"] + ["either"] * (12 * self.features.alternatives)
            kinds += ["both"] if self.strategy is Strategy.ANY else []
        return self.any_of(*kinds)

    def closure(self, zstream: bool) -> Closure:
        self.closures += 1
        inside: EventPattern
        kinds = ["one"] * 4
        if not zstream:
            kinds += ["sequence"] + ["either"] * self.features.closure_of_disjunction
            kinds += ["nested", "nested", "nested"] * self.features.nested_closures
            kinds += ["negation"] * self.features.negation_in_closure
        else:
            kinds += ["either", "either"] * self.features.groups_of_alternatives
        match self.any_of(*kinds):
            case "sequence":
                inside = Sequence((self.one(), self.one()))
            case "either":
                inside = self.alternatives()
            case "nested":
                inside = self.with_closure()
                if self.any_of(True, *[False] * 4):
                    inside = closure(self.one(), self.any_of("+", "+", "*", "^2"), groups=False)
                return closure(inside, self.any_of("+", "*", "^2", "^2"), groups=False)
            case "negation":
                inside = Sequence((self.one(), self.negation(), self.one()))
            case _:
                inside = self.one()
        return closure(inside, self.any_of("+", "*", "^2", "+", "*", "^1"), groups=zstream)

    def with_closure(self) -> EventPattern:
        """What has a closure in it, and may be repeated."""
        inner = closure(self.one(), self.any_of("+", "+", "*", "^2"), groups=False)
        match self.any_of("after", "after", "before", "either", "two"):
            case "after":
                return Sequence((self.one(), inner))
            case "before":
                return Sequence((inner, self.one()))
            case "either":
                return Disjunction((inner, self.one()))
        return Sequence((inner, closure(self.one(), self.any_of("+", "*"), groups=False)))

    def negation(self) -> Negation:
        kinds = ["one"] * 5 + ["sequence", "either"] + ["both"] * (self.strategy is Strategy.ANY)
        kinds += ["closure", "closure", "closure", "union", "union", "union"] * self.features.rich_negations
        kinds += ["nested"] * (5 * self.features.nested_negations)
        match self.any_of(*kinds):
            case "nested":
                return Negation(self.with_negation())
            case "closure":
                return Negation(self.with_closure())
            case "union":
                return Negation(Disjunction((Sequence((self.one(), self.one())), self.one())))
            case "sequence":
                return Negation(Sequence((self.one(), self.one())))
            case "either":
                return Negation(Disjunction((self.one(), self.one())))
            case "both":
                return Negation(Conjunction((self.one(), self.one())))
        return Negation(self.one())

    def with_negation(self) -> EventPattern:
        """A sequence with a negation of classes in it."""
        classes = self.any_of(self.one(), self.one(), Disjunction((self.one(), self.one())))
        first = self.one() if self.any_of(True, True, False) else closure(self.one(), "+", groups=False)
        match self.any_of("between", "between", "last", "first"):
            case "last":
                return Sequence((first, Negation(classes)))
            case "first":
                return Sequence((Negation(classes), first))
        return Sequence((first, Negation(classes), self.one()))

    def either(self, *, zstream: bool, inside: bool, depth: int) -> Disjunction:
        """Variables of one alternative may be used in another. inside: closures may stand here as they are."""
        parts: list[EventPattern] = []
        for _ in range(self.any_of(2, 2, 3)):
            used = tuple(dict.fromkeys(name for part in parts for name in _singles(part)))
            kinds = ["one"] * 3 + ["sequence"] * (3 * bool(depth)) + ["closure"] * (inside and self.closures < 2)
            match self.any_of(*kinds):
                case "sequence":
                    negation = self.features.negation_in_alternatives
                    parts.append(self.sequence(zstream=zstream, depth=0, negation=negation, shared=used))
                case "closure":
                    parts.append(self.closure(zstream))
                case _:
                    reused = self.any_of(*used) if used and self.any_of(True, False) else None
                    parts.append(self.one(reused))
        return Disjunction(tuple(parts))

    def both(self, *, zstream: bool, inside: bool, depth: int) -> Conjunction:
        parts: list[EventPattern] = [self.one()]
        for _ in range(self.any_of(1, 1, 2)):
            kinds = ["one", "one", "negation", *(["sequence", "either"] * bool(depth))]
            match self.any_of(*kinds, *["closure"] * (inside and self.closures < 2)):
                case "one":
                    parts.append(self.one())
                case "sequence":
                    parts.append(self.sequence(zstream=zstream, depth=0))
                case "either":
                    parts.append(self.either(zstream=zstream, inside=inside, depth=0))
                case "closure":
                    parts.append(self.closure(zstream))
                case "negation":
                    parts.append(self.negation())
        return Conjunction(tuple(self.draw(st.permutations(parts))))


# ---- where groups may stand -----------------------------------------------------------------------


def _with_legal_groups(pattern: EventPattern, features: Features) -> EventPattern:
    """Groups become single events until the pattern is one that skip-till-any-match allows."""
    kept = [one.variable for loop in _nodes(pattern, Closure) if loop.groups for one in classes_of(loop)]
    while not _has_legal_groups(_with_groups(pattern, kept), features):
        kept.pop()
    return _with_groups(pattern, kept)


def _with_groups(pattern: EventPattern, kept: list[str]) -> EventPattern:
    match pattern:
        case Closure(groups=True):
            return pattern if all(one.variable in kept for one in classes_of(pattern)) else pattern.part
        case Sequence(parts) | Conjunction(parts) | Disjunction(parts):
            return replace(pattern, parts=tuple(_with_groups(part, kept) for part in parts))
    return pattern


def _has_legal_groups(pattern: EventPattern, features: Features) -> bool:
    """No two groups side by side, not first and last, and not the same events in two groups of a conjunction."""
    for sequence in _nodes(pattern, Sequence):
        places = [part for part in sequence.parts if not isinstance(part, Negation)]
        for left, right in itertools.pairwise(places):
            if any(last for _, last in _ends(left)) and any(first for first, _ in _ends(right)):
                return False
    for conjunction in _nodes(pattern, Conjunction):
        groups = [loop for loop in _nodes(conjunction, Closure) if loop.groups]
        if len(groups) > 1 and not features.groups_in_one_conjunction:
            return False
    alternatives = pattern.parts if isinstance(pattern, Disjunction) else (pattern,)
    return all(isinstance(part, Closure) or (True, True) not in _ends(part) for part in alternatives)


def _ends(pattern: EventPattern) -> set[tuple[bool, bool]]:
    """Does it begin with a group, does it end with one? In each of the ways through the pattern."""
    match pattern:
        case Closure():
            return {(pattern.groups, pattern.groups)}
        case Sequence(parts):
            ends = [_ends(part) for part in parts if not isinstance(part, Negation)]
            return {(first, last) for first, _ in ends[0] for _, last in ends[-1]} if len(ends) > 1 else ends[0]
        case Conjunction(parts):
            ways = itertools.product(*(_ends(part) for part in parts if not isinstance(part, Negation)))
            return {(any(first for first, _ in way), any(last for _, last in way)) for way in ways}
        case Disjunction(parts):
            return {ends for part in parts for ends in _ends(part)}
    return {(False, False)}


def _singles(pattern: EventPattern) -> Iterator[str]:
    """Variables of places that are neither negated nor in a closure."""
    if isinstance(pattern, EventClass):
        yield pattern.variable
    elif not isinstance(pattern, (Negation, Closure)):
        for part in children(pattern):
            yield from _singles(part)


def _listed(pattern: EventPattern) -> Iterator[str]:
    """Variables in closures, without those that are negated."""
    if isinstance(pattern, Closure):
        yield from (one.variable for one in event_patterns._positive_classes(pattern))
    elif not isinstance(pattern, Negation):
        for part in children(pattern):
            yield from _listed(part)


def _nodes(pattern: EventPattern, kind: type[T]) -> list[T]:
    below = [node for part in children(pattern) for node in _nodes(part, kind)]
    return [pattern, *below] if isinstance(pattern, kind) else below


# ---- conditions and RETURN ------------------------------------------------------------------------


class _Conditions:
    """Draws conjuncts about the variables of a pattern."""

    def __init__(self, draw: st.DrawFn, pattern: EventPattern, strategy: Strategy, features: Features) -> None:
        self.draw = draw
        self.pattern = pattern
        self.strategy = strategy
        self.features = features
        self.singles = list(dict.fromkeys(_singles(pattern)))
        self.lists = list(dict.fromkeys(_listed(pattern)))
        self.negated_lists = {
            name for no in _nodes(pattern, Negation) for name in _listed(no.part) if name not in self.lists
        }
        self.negated = [[one.variable for one in classes_of(no)] for no in _nodes(pattern, Negation)]
        inner = [no for outer in _nodes(pattern, Negation) for no in _nodes(outer.part, Negation)]
        self.negated_inside = {one.variable for no in inner for one in classes_of(no)}

    def any_of(self, *choices: T) -> T:
        return self.draw(st.sampled_from(choices))

    def comparison(self) -> str:
        return self.any_of(">=", "<=", ">=", "<=", "=", "<>", "<", ">", "<>")

    def number(self) -> int:
        return self.any_of(1, 2, 0, 3)

    def several(self) -> list[Scalar]:
        kinds: list[Callable[[], Scalar | None]] = [self.single] * 2 + [self.pair] * 3
        kinds += [self.each, self.back, self.running, self.all_of, self.all_of] * bool(self.lists)
        kinds += [self.about_negated] * (3 * bool(self.negated))
        drawn = [self.any_of(*kinds)() for _ in range(self.any_of(1, 0, 2, 1, 0, 3))]
        return [condition for condition in drawn if condition is not None]

    def narrowing(self) -> list[Scalar]:
        """Aliases: most of them are one class, or have certain values."""
        conditions = []
        for name in dict.fromkeys(one.variable for one in classes_of(self.pattern)):
            template = self.any_of("{} <> 'D'", "", "{} IN ('A', 'B')", "{} <> 'A'", "", "{} = 'B'")
            if template:
                conditions.append(where(template, column(name, "type")))
        return conditions

    def single(self) -> Scalar | None:
        if not self.singles:
            return None
        name = self.any_of(*self.singles)
        o, n = self.comparison(), self.number()
        x, y = column(name, "x"), column(name, "y")
        return self.any_of(
            where(f"{{}} {o} {n}", x),
            where(f"{{}} {o} {{}}", x, y),
            where("{} BETWEEN 1 AND 2", y),
            where(f"({{}} {o} {n} OR {{}} IS NULL)", x, y),
            where("{} = 'u'", column(name, "s")),
            where("NOT {} IN (0, 3)", x),
            where("COALESCE({}, {}) > 0", x, y),
        )

    def pair(self) -> Scalar | None:
        if not self.singles:
            return None
        first = self.any_of(*self.singles)
        second = self.any_of(*[name for name in self.singles if name != first] or self.singles)
        return self.relation(column(first, "x"), column(second, "y" if first == second else self.any_of("x", "y")))

    def relation(self, left: EventAtom, right: EventAtom) -> Scalar:
        o = self.comparison()
        return self.any_of(
            where(f"{{}} {o} {{}}", left, right),
            where(f"{{}} {o} {{}}", left, right),
            where("{} + {} >= 3", left, right),
            where("ABS({} - {}) <= 1", left, right),
            where("{} <= {} * 2", left, right),
        )

    def each(self) -> Scalar:
        name = self.any_of(*self.lists)
        own = self.any_of(each(name, "x"), column(name, "x"), each(name, "y"))
        others: list[EventAtom] = [column(single, "x") for single in self.singles]
        if self.features.closures_related:
            others += [aggregate("count", other) for other in self.lists if other != name]
            others += [at(other, 1, "x") for other in self.lists if other != name]
        if others and self.any_of(True, False):
            return self.relation(own, self.any_of(*others))
        return self.any_of(where(f"{{}} {self.comparison()} {self.number()}", own), where("{} <> 'v'", each(name, "s")))

    def back(self) -> Scalar:
        name = self.any_of(*self.lists)
        return self.relation(each(name, "x"), each(name, self.any_of("x", "x", "y"), back=self.any_of(1, 1, 2)))

    def running(self) -> Scalar:
        name = self.any_of(*self.lists)
        function = self.any_of("max", "sum", "min", "count", "avg")
        if self.any_of(True, False):
            return self.relation(each(name, "x"), aggregate(function, name, "x", Reach.BEFORE))
        n, so_far = self.any_of(2, 3, 4), aggregate(function, name, "x", Reach.CURRENT)
        if self.singles and self.any_of(True, False):
            return self.relation(column(self.any_of(*self.singles), "x"), so_far)
        return where(f"{{}} {self.any_of('<=', '<=', '>=')} {n}", so_far)

    def all_of(self) -> Scalar | None:
        """About a closure as a whole: aggregates, b[k], b[last]."""
        name = self.any_of(*self.lists)
        atom = self.whole_list(name)
        if not self.features.decided_at_end and self.strategy is Strategy.NEXT and self.stands_last(name):
            return None
        if self.singles and self.any_of(True, False, False):
            return self.relation(column(self.any_of(*self.singles), "x"), atom)
        return where(f"{{}} {self.comparison()} {self.number()}", atom)

    def whole_list(self, name: str) -> EventAtom:
        return self.any_of(
            aggregate("count", name),
            aggregate("count", name, "x"),
            aggregate("sum", name, "x"),
            aggregate("avg", name, "x"),
            aggregate("max", name, "y"),
            aggregate("min", name, "x"),
            at(name, 1, "x"),
            at(name, 2, "x"),
            last(name, "x"),
        )

    def stands_last(self, name: str) -> bool:
        """Nothing certainly follows the closure of this variable in some way through the pattern."""
        for items in event_patterns._alternatives(self.pattern):
            places = [item for item in items if not isinstance(item, Negation)]
            while places and isinstance(places[-1], Closure):
                if name in [one.variable for one in classes_of(places[-1])]:
                    return True
                if places.pop().minimum:
                    break
        return False

    def about_negated(self) -> Scalar:
        names = self.any_of(*self.negated)
        name = self.any_of(*names)
        if name in self.negated_lists and self.any_of(True, False):
            if self.any_of(True, False):
                return self.relation(each(name, "x"), each(name, "x", back=1))
            return where(f"{{}} {self.comparison()} {self.number()}", self.whole_list(name))
        others: list[EventAtom] = [
            self.whole_list(other) if other in self.negated_lists else column(other, "x")
            for other in names
            if other != name and not (name in self.negated_lists and other in self.negated_inside)
        ]
        late = self.features.late_negation or self.strategy is not Strategy.NEXT
        singles = self.singles if late else self.decided_with(names)
        others += [column(single, "x") for single in singles] * 2
        if late:
            others += [self.whole_list(other) for other in self.lists]
        if others and self.any_of(True, True, False):
            return self.relation(column(name, "x"), self.any_of(*others))
        return where(f"{{}} {self.comparison()} {self.number()}", column(name, self.any_of("x", "y")))

    def decided_with(self, names: list[str]) -> list[str]:
        """Single variables before the negation, and the one right after it if it is single."""
        order = list(dict.fromkeys(one.variable for one in classes_of(self.pattern)))
        end = max(order.index(name) for name in names)
        return [name for name in order[: end + 2] if name in self.singles]

    def returns(self) -> tuple[Scalar, ...]:
        """One to four items."""
        items: list[Scalar] = []
        for _ in range(self.any_of(2, 3, 1, 4)):
            if self.lists and (not self.singles or self.any_of(True, False)):
                items.append(self.returned_list(self.any_of(*self.lists)))
            elif self.singles:
                items.append(self.returned_single(self.any_of(*self.singles)))
        return tuple(items) or (where("1"),)

    def returned_list(self, name: str) -> Scalar:
        functions = ["count", "sum", "avg", "min", "max", "collect_list", "first_value", "last_value", "stddev_pop"]
        atoms = [
            whole(name),
            whole(name, Index.ALL),
            whole(name, Index.AT, 1),
            whole(name, Index.LAST),
            every(name, "x"),
            column(name, "s"),
            at(name, 2, "x"),
            last(name, "s"),
            aggregate("count", name),
            *(aggregate(function, name, "x") for function in functions),
        ]
        if self.any_of(True, False, False, False):
            return where("{} - {}", aggregate("max", name, "x"), aggregate("min", name, "x"))
        return where("{}", self.any_of(*atoms))

    def returned_single(self, name: str) -> Scalar:
        other = self.any_of(*self.singles)
        return self.any_of(
            where("{}", whole(name)),
            where("{}", column(name, "x")),
            where("{}", column(name, "s")),
            where("{} + {}", column(name, "x"), column(other, "y")),
            where("{} IS NULL", column(name, "x")),
            where("CASE WHEN {} > 1 THEN {} END", column(name, "x"), column(other, "s")),
        )
