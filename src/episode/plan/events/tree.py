"""The logical tree of an event pattern: flattened, simplified, with negations and groups in the gaps between places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Union

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    Sequence,
    classes_of,
    nodes_of,
)
from episode.lang.syntax import Span
from episode.plan.events.alternatives import are_copies, is_of_classes, parts_if
from episode.plan.events.conditions import Conjunct, JoinTest, is_per_event, split_tests

if TYPE_CHECKING:
    from episode.plan.events.binding import BoundEventQuery


@dataclass(frozen=True)
class Leaf:
    """One event of a variable."""

    variable: str

    @property
    def parts(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Absent:
    """A negation: no record of `node` between the neighbours. name: its name in messages and plans."""

    node: Node
    name: str


@dataclass(frozen=True)
class Group:
    """A closure in ZStream's meaning; count None takes all qualifying events.

    follows: the rest of a closure that is a whole alternative, in the order of events after the place before it, which
    is the first event of the closure. Of these, `count` are the first ones.
    chosen: of a closure in SASE's meaning, all events that a choice may have; groups next to it do not bound it.
    others: of a group of alternatives, their further variables; an event is of the first that it qualifies for.
    """

    variable: str
    minimum: int
    count: int | None
    follows: bool = False
    chosen: bool = False
    others: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable, *self.others)


Gap = tuple[Union[Absent, Group], ...]


@dataclass(frozen=True)
class InSequence:
    """Places in order; gaps[i] precedes places[i], the last gap follows all of them."""

    places: tuple[Node, ...]
    gaps: tuple[Gap, ...]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.places


@dataclass(frozen=True)
class Together:
    """Conjunction; the negations in it forbid events between the conjunction's own neighbours."""

    parts: tuple[Node, ...]
    absent: tuple[Absent, ...] = ()


@dataclass(frozen=True)
class OneOf:
    parts: tuple[Node, ...]


Node = Union[Leaf, InSequence, Together, OneOf]


def variables_of(node: Node | Absent | Group) -> tuple[str, ...]:
    """Variables of single events in a node, in order; negated ones and groups are not among them."""
    if isinstance(node, Leaf):
        return (node.variable,)
    if isinstance(node, Group):
        return node.variables
    parts = (node.node,) if isinstance(node, Absent) else node.parts
    return tuple(name for part in parts for name in variables_of(part))


def edges_of(node: Node) -> Gap:
    if isinstance(node, InSequence):
        return node.gaps[0] + node.gaps[-1]
    return node.absent if isinstance(node, Together) else ()


def gap_before(node: Node, place: int) -> Gap | None:
    """The items between a part of a sequence and the one before it; None for other nodes."""
    return node.gaps[place] if isinstance(node, InSequence) else None


def first_variables(node: Node) -> tuple[str, ...]:
    """Variables whose event begins every match that it is part of, as far as groups do not begin it; of a conjunction
    any event may be the first one, and none is listed."""
    if isinstance(node, Leaf):
        return (node.variable,)
    first = node.places[:1] if isinstance(node, InSequence) else node.parts if isinstance(node, OneOf) else ()
    return tuple(name for part in first for name in first_variables(part))


def nodes_in(node: Node) -> Iterator[Node]:
    """The node and all nodes below it."""
    yield node
    for part in node.parts:
        yield from nodes_in(part)


def items_in(tree: Node) -> Iterator[Absent | Group]:
    """All negations and groups of a tree."""
    for node in nodes_in(tree):
        yield from chain(*node.gaps) if isinstance(node, InSequence) else edges_of(node)


def is_open_ended(node: Node) -> bool:
    """Does a negation or a group follow the last single event, in some way through the tree?"""
    if isinstance(node, InSequence):
        return bool(node.gaps[-1]) or is_open_ended(node.places[-1])
    return bool(edges_of(node)) or any(is_open_ended(part) for part in node.parts)


# ---- rewriting ----------------------------------------------------------------------------------------


@dataclass
class Rewriting:
    """A simplified pattern, and what was done to it, for explain."""

    pattern: EventPattern
    steps: list[str]


def simplify(pattern: EventPattern) -> Rewriting:
    """An equivalent pattern with fewer or cheaper operators: disjunctions cost least, conjunctions most."""
    steps: list[str] = []
    return Rewriting(_simplify(pattern, steps), steps)


def _simplify(pattern: EventPattern, steps: list[str]) -> EventPattern:
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=_simplify(pattern.part, steps))
    kind = type(pattern)
    parts: list[EventPattern] = []
    for part in pattern.parts:
        part = _simplify(part, steps)
        if isinstance(part, kind):
            steps.append(f"{kind.__name__.lower()} inside {kind.__name__.lower()} flattened")
            parts += part.parts
        else:
            parts.append(part)
    if isinstance(pattern, Conjunction) and len(parts) > 1:
        negated = [part for part in parts if isinstance(part, Negation)]
        if len(negated) > 1 and all(is_of_classes(part.part) for part in negated):
            classes = tuple(one for part in negated for one in parts_if(Disjunction, part.part))
            joined = Negation(Disjunction(classes, negated[0].span), negated[0].span)
            shown = " & ".join(f"!{_variables_text(part.part)}" for part in negated)
            steps.append(f"{shown} → !({' | '.join(_variables_text(one) for one in classes)})")
            parts = [part for part in parts if not isinstance(part, Negation)] + [joined]
    if isinstance(pattern, Sequence):
        parts = _joined_negations(parts, steps)
    if len(parts) == 1:
        return parts[0]
    return kind(tuple(parts), pattern.span)


def _joined_negations(parts: list[EventPattern], steps: list[str]) -> list[EventPattern]:
    """`A; !B; !C; D` → `A; !(B | C); D`."""
    out: list[EventPattern] = []
    for part in parts:
        before = out[-1] if out else None
        if (
            isinstance(part, Negation)
            and isinstance(before, Negation)
            and is_of_classes(part.part)
            and is_of_classes(before.part)
        ):
            classes = (*parts_if(Disjunction, before.part), *parts_if(Disjunction, part.part))
            one, other, both = _variables_text(before.part), _variables_text(part.part), map(_variables_text, classes)
            steps.append(f"!{one}; !{other} → !({' | '.join(both)})")
            out[-1] = Negation(Disjunction(classes, before.span), before.span)
        else:
            out.append(part)
    return out


def _variables_text(pattern: EventPattern) -> str:
    names = [one.variable for one in classes_of(pattern)]
    return names[0] if len(names) == 1 else f"({' | '.join(names)})"


# ---- the logical tree -----------------------------------------------------------------------------------


def logical_tree(query: EventQuery, pattern: EventPattern) -> Node:
    """The tree of a simplified pattern. A closure in SASE's meaning is a group of all that it may choose from."""
    return _Builder(query).node(pattern)


@dataclass
class _Builder:
    query: EventQuery
    negations: int = 0

    def node(self, pattern: EventPattern) -> Node:
        if isinstance(pattern, EventClass):
            return Leaf(pattern.variable)
        if isinstance(pattern, Disjunction):
            return OneOf(tuple(self.node(part) for part in pattern.parts))
        if isinstance(pattern, Conjunction):
            parts = [part for part in pattern.parts if not isinstance(part, Negation)]
            absent = tuple(self._absent(part) for part in pattern.parts if isinstance(part, Negation))
            if len(parts) == 1 and not absent:
                return self.node(parts[0])
            return Together(tuple(self.node(part) for part in parts), absent)
        if isinstance(pattern, Sequence):
            return self._sequence(pattern.parts)
        message = "A closure or negation cannot be on its own here."
        hint = "Put it into a sequence, between other events: A; B*; C."
        raise self.query.source.error(EpisodeUnsupportedError, message, pattern.span, hint)

    def _sequence(self, parts: tuple[EventPattern, ...]) -> Node:
        places: list[Node] = []
        gaps: list[list[Absent | Group]] = [[]]
        for part in parts:
            if isinstance(part, Negation):
                gaps[-1].append(self._absent(part))
            elif isinstance(part, Closure):
                gaps[-1].append(self._group(part, places))
            elif isinstance(part, Conjunction) and all(isinstance(inner, Negation) for inner in part.parts):
                gaps[-1] += [self._absent(inner) for inner in part.parts if isinstance(inner, Negation)]
            else:
                places.append(self.node(part))
                gaps.append([])
        if len(places) == 1 and not any(gaps):
            return places[0]
        if not places:
            span = Span(parts[0].span.start, parts[-1].span.end)
            hint = "Put them into a sequence with single events: A; B*; C."
            message = "Closures and negations need a single event next to them."
            raise self.query.source.error(EpisodeUnsupportedError, message, span, hint)
        return InSequence(tuple(places), tuple(tuple(gap) for gap in gaps))

    def _absent(self, negation: Negation) -> Absent:
        self.negations += 1
        inner = negation.part
        if any(isinstance(part, (Negation, Closure)) for part in nodes_of(inner)):
            message = "A negation inside a negation, and a closure inside one, are not evaluated."
            hint = "Negate a class, a choice of classes, a sequence or a conjunction of classes."
            raise self.query.source.error(EpisodeUnsupportedError, message, negation.span, hint)
        return Absent(self.node(inner), "!" + _variables_text(inner))

    def _group(self, closure: Closure, before: list[Node]) -> Group:
        name, *others = (one.variable for one in classes_of(closure.part))
        if not closure.groups:
            assert not others
            return Group(name, closure.count or closure.minimum, None, chosen=True)
        follows = bool(before) and are_copies(variables_of(before[-1])[0], name)
        return Group(name, closure.minimum, closure.count, follows, others=tuple(others))


# Conditions as tests of a tree of joins: of single events, of negating events, of the events of a group.


@dataclass(frozen=True)
class TreeTests:
    """related: between single events. absent, group: what makes an event a negating one (by name of the negation), or
    one of a group (by variable)."""

    related: tuple[JoinTest, ...] = ()
    absent: dict[str, tuple[JoinTest, ...]] = field(default_factory=dict)
    group: dict[str, tuple[JoinTest, ...]] = field(default_factory=dict)

    @property
    def all(self) -> list[JoinTest]:
        return [*self.related, *(test for parts in (*self.absent.values(), *self.group.values()) for test in parts)]


def tree_tests(bound: BoundEventQuery, tree: Node, related: list[Conjunct], kept: list[Conjunct]) -> TreeTests:
    """The tests of the conditions; those that Spark has to test on the matches are added to `kept`."""
    tests: list[JoinTest] = []
    absent = [item for item in items_in(tree) if isinstance(item, Absent)]
    by_absent: dict[str, list[JoinTest]] = {one.name: [] for one in absent}
    owner = {name: one.name for one in absent for name in variables_of(one)}
    groups = [item for item in items_in(tree) if isinstance(item, Group)]
    by_group: dict[str, list[JoinTest]] = {name: [] for group in groups for name in group.variables}
    for conjunct in related:
        negated = conjunct.variables & bound.negated
        if negated:
            owners = {owner[name] for name in negated}
            if len(owners) > 1 or conjunct.whole:
                what, hint = "relate a negated event to a group", "Compare it with single events."
                if len(owners) > 1:
                    what, hint = "relate the events of two negations", "Negate a sequence of both."
                message, span = f"A condition cannot {what}.", conjunct.scalar.span
                raise bound.query.source.error(EpisodeUnsupportedError, message, span, hint)
            expression = bound.scalars.compile(conjunct.scalar, None)
            if expression is None:
                raise bound.scalars.not_evaluated(conjunct.scalar)
            by_absent[owners.pop()] += split_tests(expression, conjunct.text)
        elif conjunct.iterated is not None and not conjunct.whole and is_per_event(conjunct):
            expression = bound.scalars.compile(conjunct.scalar, None)
            if expression is None or conjunct.variables & bound.closures != {conjunct.iterated}:
                raise bound.scalars.not_evaluated(conjunct.scalar)
            by_group[conjunct.iterated] += split_tests(expression, conjunct.text)
        elif conjunct.variables & (bound.closures | bound.alone):
            kept.append(conjunct)
        else:
            expression = bound.scalars.compile(conjunct.scalar, None)
            if expression is None:
                kept.append(conjunct)
            else:
                tests += split_tests(expression, conjunct.text)
    return TreeTests(
        tuple(tests),
        {name: tuple(parts) for name, parts in by_absent.items()},
        {name: tuple(parts) for name, parts in by_group.items()},
    )
