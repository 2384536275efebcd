"""The oracle for event patterns: slow, obvious Python written straight from the semantics.

`matches(query, events, member=…)` answers what a query means for small inputs (about ten events). Skip-till-any-match
and the two contiguities go by brute force:

1. put events into the places of the pattern in every way that its structure allows (classes, order of a sequence);
2. fill ZStream's groups, which depend on all other places;
3. keep what has different events in all places, fits the window, agrees on [attr], satisfies every conjunct, is not
   negated, and under contiguity lies side by side.

Skip-till-next-match follows the runs, event by event, with their forks.

It shares nothing with the engine but the syntax tree. Where the rules are short, the reading taken is stated at the
place. Times are whole numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Union

from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventAggregate,
    EventAtom,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Reach,
    Sequence,
    Strategy,
    WholeEvent,
    children,
    classes_of,
)
from episode.lang.syntax import Scalar
from tests.reference.scalars import aggregate_value, compare, fail, give_null, grouping, scalar_value


@dataclass(frozen=True)
class Event:
    """position: its place in the input, which is in order of (te, arrival). values: column -> value."""

    position: int
    ts: int
    te: int
    values: dict[str, Any] = field(compare=False)


Bound = Union[Event, tuple[Event, ...]]
Bindings = dict[str, Bound]  # by the variable's name in lower case


@dataclass(frozen=True)
class Match:
    """events: for each variable in the match (lower case) its event, or under a closure its events, perhaps none.

    Variables of alternatives that were not taken, and negated ones, are not in it.
    """

    events: Bindings
    ts: int
    te: int


Member = Callable[[EventClass, Event], bool]


def matches(
    query: EventQuery,
    events: list[Event],
    *,
    member: Member,
    strategy: Strategy | None = None,
    key: Callable[[Event], object] | None = None,
    within: int | None = None,
) -> list[Match]:
    """All matches, in no particular order. `events` are in order of (te, arrival); what the query says goes first."""
    strategy = query.strategy or strategy or Strategy.ANY
    within = within if query.within is None else query.within.amount
    query = replace(query, conditions=tuple(_with_all_selected(one, query.pattern) for one in query.conditions))
    partitions: dict[Any, list[Event]] = {}
    for event in events:
        # Null keys form a partition, and so do NaN keys.
        partitions.setdefault(None if key is None else grouping(key(event)), []).append(event)
    found: list[Match] = []
    for partition in partitions.values():
        search = _Search(query, partition, member, strategy, within)
        wholes = search.next_matches() if strategy is Strategy.NEXT else search.any_matches()
        for whole in wholes:
            span = _span(_events(whole))
            found.append(Match(_bindings(whole), *span))
    return found


def returned(query: EventQuery, match: Match) -> tuple:
    """What RETURN gives for a match, then the match's ts and te. Structs are dicts, arrays lists, null is None."""
    if query.returns is None:
        # Every variable that is not negated, in order of appearance.
        names = dict.fromkeys(_name(place) for place in _positive_classes(query.pattern))
        values = [_structs(match.events.get(name)) for name in names]
    else:
        values = [_value(item.expression, match.events, None, failing=True) for item in query.returns]
    return (*values, match.ts, match.te)


def _name(place: EventClass) -> str:
    return place.variable.lower()


def _positive_classes(pattern: EventPattern) -> Iterator[EventClass]:
    if isinstance(pattern, EventClass):
        yield pattern
    elif not isinstance(pattern, Negation):
        for part in children(pattern):
            yield from _positive_classes(part)


# ---- patterns filled with events ------------------------------------------------------------------


@dataclass(frozen=True)
class One:
    """A class, with its event."""

    place: EventClass
    event: Event


@dataclass(frozen=True)
class Ordered:
    """A sequence."""

    parts: tuple[Filled, ...]


@dataclass(frozen=True)
class Unordered:
    """A conjunction."""

    parts: tuple[Filled, ...]


@dataclass(frozen=True)
class Repeated:
    """A closure in SASE's meaning, once through its inside for each round."""

    closure: Closure
    rounds: tuple[Filled, ...]


@dataclass(frozen=True)
class Group:
    """A closure in ZStream's meaning; without events until all other places have theirs."""

    closure: Closure
    events: tuple[Event, ...] = ()

    @property
    def place(self) -> EventClass:
        if not isinstance(self.closure.part, EventClass):
            raise NotImplementedError("a group of something else than a class")
        return self.closure.part


@dataclass(frozen=True)
class Absent:
    """A negation: no events."""

    negation: Negation


Filled = Union[One, Ordered, Unordered, Repeated, Group, Absent]


def _ones(filled: Filled) -> list[One]:
    match filled:
        case One():
            return [filled]
        case Ordered(parts) | Unordered(parts) | Repeated(_, parts):
            return [one for part in parts for one in _ones(part)]
        case Group(_, events):
            return [One(filled.place, event) for event in events]
        case Absent():
            return []


def _events(filled: Filled) -> list[Event]:
    return [one.event for one in _ones(filled)]


def _span(events: list[Event]) -> tuple[int, int]:
    return min(event.ts for event in events), max(event.te for event in events)


def _bindings(filled: Filled) -> Bindings:
    match filled:
        case One(place, event):
            return {_name(place): event}
        case Ordered(parts) | Unordered(parts):
            return {name: bound for part in parts for name, bound in _bindings(part).items()}
        case Repeated(closure):
            # Every variable inside is a list, with an entry for each round that has an event for it.
            ones = _ones(filled)
            return {
                _name(place): tuple(one.event for one in ones if _name(one.place) == _name(place))
                for place in classes_of(closure.part)
            }
        case Group(_, events):
            return {_name(filled.place): events}
        case Absent():
            return {}


@dataclass(frozen=True)
class Hole:
    """A group or a negation between its neighbours: left is the te of the one before, right the ts of the one after.

    None where there is no neighbour on that side: the window bounds it there.
    """

    filled: Group | Absent
    left: int | None
    right: int | None

    def encloses(self, events: list[Event], whole: tuple[int, int], within: int | None) -> bool:
        """Strictly between the neighbours; without one, from te(match) - w or to ts(match) + w, both inclusive."""
        ts, te = _span(events)
        if self.left is not None:
            begins = ts > self.left
        else:
            begins = within is None or ts >= whole[1] - within
        if self.right is not None:
            ends = te < self.right
        else:
            ends = within is None or te <= whole[0] + within
        return begins and ends


def _holes(filled: Filled, left: int | None = None, right: int | None = None) -> Iterator[Hole]:
    match filled:
        case Group() | Absent():
            yield Hole(filled, left, right)
        case Ordered(parts):
            # The neighbours are the nearest parts that have events: whatever has none is looked through. Parts
            # follow one another strictly, so that the nearest before ends last and the nearest after begins first.
            for i, part in enumerate(parts):
                before = _events(Ordered(parts[:i]))
                after = _events(Ordered(parts[i + 1 :]))
                yield from _holes(part, _span(before)[1] if before else left, _span(after)[0] if after else right)
        case Unordered(parts):
            # The conjunction's own neighbours count.
            for part in parts:
                yield from _holes(part, left, right)


def _grouped(filled: Filled, groups: dict[str, tuple[Event, ...]]) -> Filled:
    """The same with the events of its groups."""
    match filled:
        case Group(closure):
            return Group(closure, groups[_name(filled.place)])
        case Ordered(parts):
            return Ordered(tuple(_grouped(part, groups) for part in parts))
        case Unordered(parts):
            return Unordered(tuple(_grouped(part, groups) for part in parts))
    return filled


# ---- the search -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """The events of one key, in order."""

    query: EventQuery
    events: list[Event]
    member: Member
    strategy: Strategy
    within: int | None

    def any_matches(self) -> Iterator[Filled]:
        for places in self.filled(self.query.pattern, None):
            for whole in self.with_groups(places):
                if self.holds(whole) and self.contiguous(_events(whole)):
                    yield whole

    # 1. every way to fill the places

    def filled(self, pattern: EventPattern, after: int | None) -> Iterator[Filled]:
        """The pattern with events in its places, all of which begin strictly after the given time."""
        match pattern:
            case EventClass():
                for event in self.events:
                    if (after is None or event.ts > after) and self.member(pattern, event):
                        yield One(pattern, event)
            case Sequence(parts):
                for ordered in self.in_order(parts, after):
                    yield Ordered(ordered)
            case Conjunction(parts):
                for combination in itertools.product(*(list(self.filled(part, after)) for part in parts)):
                    yield Unordered(combination)
            case Disjunction(parts):
                # Union all: what several alternatives find is found several times.
                for part in parts:
                    yield from self.filled(part, after)
            case Negation():
                yield Absent(pattern)
            case Closure(groups=True) if self.strategy is Strategy.ANY:
                yield Group(pattern)
            case Closure():
                # SASE's meaning, which is also that of every closure under the other strategies.
                for rounds in self.rounds(pattern, 0, after):
                    yield Repeated(pattern, rounds)

    def in_order(self, parts: tuple[EventPattern, ...], after: int | None) -> Iterator[tuple[Filled, ...]]:
        """Each part begins strictly after the parts before it have ended; a part without events does not count."""
        if not parts:
            yield ()
            return
        for first in self.filled(parts[0], after):
            for rest in self.in_order(parts[1:], _ended(first, after)):
                yield (first, *rest)

    def rounds(self, closure: Closure, done: int, after: int | None) -> Iterator[tuple[Filled, ...]]:
        """Any number of rounds that the closure allows, each strictly after the one before."""
        if done >= _needed(closure):
            yield ()
        if _may_go_on(closure, done):
            for first in self.filled(closure.part, after):
                for rest in self.rounds(closure, done + 1, _ended(first, after)):
                    yield (first, *rest)

    # 2. groups

    def with_groups(self, places: Filled) -> Iterator[Filled]:
        """Each group is chosen given the events of all places that are not groups."""
        if isinstance(places, Group):
            yield from self.alone(places)
            return
        others = _events(places)
        if not others:
            return  # a match has at least one event
        names, choices = [], []
        for hole in _holes(places):
            if isinstance(hole.filled, Group):
                qualifying = tuple(event for event in self.events if self.qualifies(event, hole, places))
                names.append(_name(hole.filled.place))
                choices.append(_groups(hole.filled.closure, qualifying))
        if _have_neighbours(places):
            yield from self.with_neighbouring_groups(places)
            return
        for chosen in itertools.product(*choices):
            yield _grouped(places, dict(zip(names, chosen)))

    def with_neighbouring_groups(self, places: Filled) -> Iterator[Filled]:
        """Groups side by side bound each other: every choice of events for all of them that has each group complete.

        Complete: all events that qualify between its neighbours, where a group counts with its events, if it has any.
        """
        holes = [hole for hole in _holes(places) if isinstance(hole.filled, Group)]
        names = [_name(hole.filled.place) for hole in holes]
        qualifying = [tuple(event for event in self.events if self.qualifies(event, hole, places)) for hole in holes]
        span = _span(_events(places))
        for chosen in itertools.product(*(list(_subsets(events)) for events in qualifying)):
            whole = _grouped(places, dict(zip(names, chosen)))
            bounded = [hole for hole in _holes(whole) if isinstance(hole.filled, Group)]
            if all(
                hole.filled.events == tuple(event for event in events if hole.encloses([event], span, self.within))
                and len(hole.filled.events) >= _needed(hole.filled.closure)
                for hole, events in zip(bounded, qualifying, strict=True)
            ):
                yield whole

    def alone(self, group: Group) -> Iterator[Filled]:
        """A closure that is all of the pattern: every qualifying event starts a group, of itself and those after it.

        After it is by (te, arrival); of events that last, one that began before the starting event is not after it.
        `^n`: the first n of them.
        """
        name, n = _name(group.place), group.closure.count
        about_each = [c for c in self.query.conditions if _per_event(c, name, set())]
        for start in self.events:
            qualifying = tuple(
                event
                for event in self.events[self.events.index(start) :]
                if event.ts >= start.ts
                and (self.within is None or event.te <= start.ts + self.within)
                and self.member(group.place, event)
                and self.agree([start, event])
                and all(_holds(c, {name: (event,)}) for c in about_each)
            )
            if start in qualifying and len(qualifying) >= (n or 1):
                yield Group(group.closure, qualifying[:n])

    def qualifies(self, event: Event, hole: Hole, places: Filled) -> bool:
        """Of the class, in no other place, between the neighbours; [attr] and the per-event conjuncts hold."""
        assert isinstance(hole.filled, Group)
        others = _events(places)
        name = _name(hole.filled.place)
        groups = {_name(hole.filled.place) for hole in _holes(places) if isinstance(hole.filled, Group)}
        bindings = {**_bindings(places), name: (event,)}
        return (
            self.member(hole.filled.place, event)
            and event not in others
            and hole.encloses([event], _span(others), self.within)
            and self.agree([*others, event])
            and all(_holds(c, bindings) for c in self.query.conditions if _per_event(c, name, groups - {name}))
        )

    # 3. what a match must satisfy

    def holds(self, whole: Filled, *, trailing: bool = True) -> bool:
        """Everything but contiguity. trailing=False leaves out negations that stand last."""
        events, bindings = _events(whole), _bindings(whole)
        if not events:
            return False  # a match has at least one event
        holes = [hole for hole in _holes(whole) if isinstance(hole.filled, Absent)]
        negated = {name for hole in holes for name in _negated_names(hole)}
        return (
            len(set(events)) == len(events)  # an event fills at most one place
            and self.fits(events)
            and self.agree(events)
            and all(_holds(c, bindings) for c in self.query.conditions if not _variables(c) & negated)
            and not any(self.negates(hole, whole) for hole in holes if trailing or hole.right is not None)
        )

    def fits(self, events: list[Event]) -> bool:
        ts, te = _span(events)
        return self.within is None or te - ts <= self.within

    def agree(self, events: list[Event]) -> bool:
        """[attr]: equal in all events, and not null."""
        for same in self.query.same:
            values = [_read(event, same.path) for event in events]
            if any(value is None or compare(value, values[0]) != 0 for value in values):
                return False
        return True

    def negates(self, hole: Hole, whole: Filled) -> bool:
        """Some events of the negated class or sub-pattern lie in the hole.

        They count if they are not events of the match, have its [attr], and the conjuncts about them hold.
        """
        assert isinstance(hole.filled, Absent)
        events, bindings, names = _events(whole), _bindings(whole), _negated_names(hole)
        for negating in self.filled(hole.filled.negation.part, None):
            them = _events(negating)
            if (
                not set(them) & set(events)
                and len(set(them)) == len(them)
                and hole.encloses(them, _span(events), self.within)
                and self.agree([*events, *them])
                and all(
                    _holds(c, {**bindings, **_bindings(negating)})
                    for c in self.query.conditions
                    if _variables(c) & names
                )
            ):
                return True
        return False

    def contiguous(self, events: list[Event]) -> bool:
        """The chosen events are adjacent among all rows of the key, or among those that share their [attr]."""
        if self.strategy is Strategy.ANY:
            return True
        rows = self.events
        if self.strategy is Strategy.PARTITION:
            rows = [row for row in rows if self.agree([*events, row])]
        places = sorted(rows.index(event) for event in events)
        return places == list(range(places[0], places[0] + len(places)))

    # skip-till-next-match

    def next_matches(self) -> Iterator[Filled]:
        # A union of whole patterns: each of them has its own runs.
        for pattern in _united(self.query.pattern):
            runs = _Runs(self, [_Way(self, items) for items in _alternatives(pattern)])
            for start in range(len(self.events)):
                yield from runs.matches_from(start)


def _have_neighbours(filled: Filled) -> bool:
    match filled:
        case Ordered(parts):
            side_by_side = (isinstance(a, Group) and isinstance(b, Group) for a, b in itertools.pairwise(parts))
            return any(side_by_side) or any(_have_neighbours(part) for part in parts)
        case Unordered(parts):
            return any(_have_neighbours(part) for part in parts)
    return False


def _subsets(events: tuple[Event, ...]) -> Iterator[tuple[Event, ...]]:
    for size in range(len(events) + 1):
        yield from itertools.combinations(events, size)


def _ended(filled: Filled, after: int | None) -> int | None:
    events = _events(filled)
    return _span(events)[1] if events else after


def _needed(closure: Closure) -> int:
    return closure.minimum if closure.count is None else closure.count


def _may_go_on(closure: Closure, done: int) -> bool:
    return closure.count is None or done < closure.count


def _groups(closure: Closure, qualifying: tuple[Event, ...]) -> list[tuple[Event, ...]]:
    """`*`, `+`: all of them; `^n`: every n successive ones."""
    n = closure.count
    if n is not None:
        return [qualifying[i : i + n] for i in range(len(qualifying) - n + 1)]
    return [qualifying] if len(qualifying) >= closure.minimum else []


def _negated_names(hole: Hole) -> set[str]:
    assert isinstance(hole.filled, Absent)
    return {_name(place) for place in classes_of(hole.filled.negation)}


# ---- runs of skip-till-next-match -----------------------------------------------------------------


def _united(pattern: EventPattern) -> list[EventPattern]:
    match pattern:
        case Disjunction(parts):
            return [one for part in parts for one in _united(part)]
        case Sequence((part,)):
            return _united(part)
    return [pattern]


def _alternatives(pattern: EventPattern) -> list[tuple[EventPattern, ...]]:
    """The pattern without disjunctions (those inside closures remain) and without nested sequences."""
    match pattern:
        case Sequence(parts):
            choices = itertools.product(*(_alternatives(part) for part in parts))
            return [tuple(itertools.chain(*choice)) for choice in choices]
        case Disjunction(parts):
            return [items for part in parts for items in _alternatives(part)]
        case Conjunction():
            raise ValueError("a conjunction with a strategy other than skip-till-any-match")
    return [(pattern,)]


@dataclass(frozen=True)
class Fork:
    """One way that a run has gone.

    parts: what the items of the pattern hold so far, up to the one that took the last event.
    rest: the classes that the round of a closure still needs, where it is under way.
    """

    parts: tuple[Filled, ...] = ()
    rest: tuple[EventPattern, ...] = ()

    @property
    def events(self) -> list[Event]:
        return _events(Ordered(self.parts))


@dataclass(frozen=True)
class _Runs:
    """A run per start event, and one more wherever an event can be taken in several ways. A fork goes all ways through
    the pattern that have its places in common."""

    search: _Search
    ways: list[_Way]

    def matches_from(self, start: int) -> list[Filled]:
        """The matches of the run that starts at this event, with its forks; none if it fits no first place."""
        events = self.search.events
        forks = self.taken(Fork(), self.ways, events[start])
        found: list[Filled] = []
        for event in [*events[start + 1 :], None]:
            # A fork ends with its own first complete match; the others go on. Negations that stand last are decided
            # afterwards, when the window has passed.
            under_way = []
            for fork, ways in forks:
                complete = [way.whole(fork) for way in ways if way.is_complete(fork)]
                found += [whole for whole in complete if self.search.holds(whole)]
                if not complete:
                    under_way.append((fork, ways))
            if event is not None:
                forks = [new for fork, ways in under_way for new in self.taken(fork, ways, event) or [(fork, ways)]]
        return found

    def taken(self, fork: Fork, ways: list[_Way], event: Event) -> list[tuple[Fork, list[_Way]]]:
        """Every way to take the event; none: the event is skipped. Ways that cannot take what another can are left."""
        found: list[tuple[Fork, list[_Way]]] = []
        for way in ways:
            for following in way.taken(fork, event):
                for other, others in found:
                    if other == following and way not in others and others[0].shares(way, len(following.parts)):
                        others.append(way)
                        break
                else:
                    found.append((following, [way]))
        return found


@dataclass(frozen=True, eq=False)
class _Way:
    """A way through the pattern; items: classes, closures and negations, in order."""

    search: _Search
    items: tuple[EventPattern, ...]

    def shares(self, other: _Way, count: int) -> bool:
        return all(one is two for one, two in zip(self.items[:count], other.items[:count], strict=True))

    def taken(self, fork: Fork, event: Event) -> list[Fork]:
        """Every way to take the event; none: the event is skipped."""
        if fork.parts and event.ts <= _span(fork.events)[1]:
            return []
        return [following for following in self.moves(fork, event) if self.qualifies(following)]

    def moves(self, fork: Fork, event: Event) -> Iterator[Fork]:
        """Where the event could go by its class."""
        parts = fork.parts
        last = parts[-1] if parts else None
        if fork.rest:
            # In the middle of a round only its next class.
            assert isinstance(last, Repeated)
            (*rounds, latest), place = last.rounds, fork.rest[0]
            assert isinstance(place, EventClass)
            assert isinstance(latest, Ordered)
            if self.search.member(place, event):
                longer = Ordered((*latest.parts, One(place, event)))
                yield Fork((*parts[:-1], Repeated(last.closure, (*rounds, longer))), fork.rest[1:])
            return
        if isinstance(last, Repeated):
            # TAKE
            if _may_go_on(last.closure, len(last.rounds)):
                yield from self.begun(parts[:-1], last, event)
            if len(last.rounds) < _needed(last.closure):
                return
        # PROCEED to the next place; `*` may be passed over.
        for item in self.items[len(parts) :]:
            match item:
                case Negation():
                    parts = (*parts, Absent(item))
                case EventClass():
                    if self.search.member(item, event):
                        yield Fork((*parts, One(item, event)))
                    return
                case Closure():
                    yield from self.begun(parts, Repeated(item, ()), event)
                    if _needed(item) > 0:
                        return
                    parts = (*parts, Repeated(item, ()))

    def begun(self, parts: tuple[Filled, ...], loop: Repeated, event: Event) -> Iterator[Fork]:
        """A further round of the closure begins with the event, in each of the alternatives inside it."""
        for body in _alternatives(loop.closure.part):
            place = body[0]
            assert isinstance(place, EventClass)
            if self.search.member(place, event):
                rounds = (*loop.rounds, Ordered((One(place, event),)))
                yield Fork((*parts, Repeated(loop.closure, rounds)), body[1:])

    def qualifies(self, fork: Fork) -> bool:
        """Window, [attr], and what is decided now that the last event has been taken: conjuncts and negations."""
        search, so_far = self.search, Ordered(fork.parts)
        bindings = _bindings(so_far)
        names = {_name(place) for item in self.items for place in classes_of(item)}
        negated = {_name(place) for item in self.items if isinstance(item, Negation) for place in classes_of(item)}
        for condition in search.query.conditions:
            applies = _variables(condition) <= names and not _variables(condition) & negated
            if applies and self.is_decided(condition, fork, set()) and not _holds(condition, bindings):
                return False
        for hole in _holes(so_far):
            assert isinstance(hole.filled, Absent)
            own = _negated_names(hole)
            decided = hole.left is not None or self.is_at_end(fork)  # standing first: its bound is te(match) - w
            for condition in search.query.conditions:
                if _variables(condition) & own and _variables(condition) <= names:
                    decided = decided and self.is_decided(condition, fork, own)
            if decided and search.negates(hole, so_far):
                return False
        return search.fits(fork.events) and search.agree(fork.events)

    def is_decided(self, condition: Scalar, fork: Fork, negated: set[str]) -> bool:
        return all(self.is_known(atom, fork) for atom in _atoms(condition) if atom.variable.lower() not in negated)

    def is_known(self, atom: EventAtom, fork: Fork) -> bool:
        """Later events of the run cannot change the atom (or add to it: b[i] has its say as each event is taken)."""
        current = len(fork.parts) - 1
        [place] = [
            i
            for i, item in enumerate(self.items)
            if atom.variable.lower() in {_name(inside) for inside in classes_of(item)}
        ]
        if place != current or isinstance(self.items[place], EventClass):
            return place <= current
        # Inside the closure. b[k] is known once there are k events.
        if isinstance(atom, EventColumn) and atom.index is Index.AT:
            bound = _bindings(fork.parts[-1])[atom.variable.lower()]
            return isinstance(bound, tuple) and len(bound) >= atom.number
        # What is about all of the closure is known after it; at the end of the pattern after each event that may
        # be the last one.
        if isinstance(atom, EventAggregate) and atom.reach is Reach.ALL:
            return self.is_at_end(fork)
        if isinstance(atom, EventColumn) and atom.index is Index.LAST:
            return self.is_at_end(fork)
        return True

    def is_at_end(self, fork: Fork) -> bool:
        """The last place of the pattern has all the events that it needs."""
        following = self.items[len(fork.parts) :]
        return self.has_enough(fork) and all(isinstance(item, Negation) for item in following)

    def has_enough(self, fork: Fork) -> bool:
        last = fork.parts[-1] if fork.parts else None
        return not fork.rest and not (isinstance(last, Repeated) and len(last.rounds) < _needed(last.closure))

    def is_complete(self, fork: Fork) -> bool:
        """Nothing more is needed, and everything holds but the negations that stand last."""
        if not fork.parts or not self.has_enough(fork):
            return False
        optional = [isinstance(i, Negation) or (isinstance(i, Closure) and _needed(i) == 0) for i in self.items]
        return all(optional[len(fork.parts) :]) and self.search.holds(self.whole(fork), trailing=False)

    def whole(self, fork: Fork) -> Filled:
        following: list[Filled] = []
        for item in self.items[len(fork.parts) :]:
            if isinstance(item, Negation):
                following.append(Absent(item))
            elif isinstance(item, Closure):
                following.append(Repeated(item, ()))
        return Ordered((*fork.parts, *following))


# ---- conditions -----------------------------------------------------------------------------------


def _atoms(condition: Scalar) -> list[EventAtom]:
    return [atom for _, atom in condition.atoms]


def _variables(condition: Scalar) -> set[str]:
    return {atom.variable.lower() for atom in _atoms(condition)}


def _iterates(atom: EventAtom) -> bool:
    """The atom is about one event of a closure after the other; a bare `b.x` means `b[i].x`."""
    if isinstance(atom, EventColumn):
        return atom.index in (Index.PLAIN, Index.EACH, Index.BACK)
    return isinstance(atom, EventAggregate) and atom.reach is not Reach.ALL


def _with_all_selected(condition: Scalar, pattern: EventPattern) -> Scalar:
    """`c.x < max(b[..i].x)`: c is compared with all selected b, where it stands after them and there is no other i."""

    def meant(atom: Any) -> Any:
        if not isinstance(atom, EventAggregate) or atom.reach is not Reach.CURRENT:
            return atom
        own = [other for other in _atoms(condition) if other.variable.lower() == atom.variable.lower()]
        goes_through = any(
            _iterates(other) and not (isinstance(other, EventAggregate) and other.reach is Reach.CURRENT)
            for other in own
        )
        after = any(_stands_behind(pattern, atom.variable.lower(), other) for other in _variables(condition))
        return replace(atom, reach=Reach.ALL) if after and not goes_through else atom

    return replace(condition, atoms=tuple((name, meant(atom)) for name, atom in condition.atoms))


def _stands_behind(pattern: EventPattern, closed: str, other: str) -> bool:
    match pattern:
        case EventClass() | Closure():
            return False
        case Sequence(parts):
            for first, second in itertools.combinations(parts, 2):
                if closed in map(_name, classes_of(first)) and other in map(_name, classes_of(second)):
                    return True
    return any(_stands_behind(part, closed, other) for part in children(pattern))


def _per_event(condition: Scalar, name: str, other_groups: set[str]) -> bool:
    """A conjunct that says of one event alone whether it qualifies for the group of this variable.

    What reaches further into its own group (`b[i-1]`, `b[1]`, aggregates) or into another one is tested on the whole.
    """
    own = [atom for atom in _atoms(condition) if atom.variable.lower() == name]
    single = all(isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH) for atom in own)
    return bool(own) and single and not _variables(condition) & other_groups


def _holds(condition: Scalar, bindings: Bindings) -> bool:
    if not _variables(condition) <= set(bindings):
        return True  # about a variable that is not part of this match: not applied
    iterated = {
        atom.variable.lower()
        for atom in _atoms(condition)
        if _iterates(atom) and isinstance(bindings[atom.variable.lower()], tuple)
    }
    if not iterated:
        return _value(condition, bindings, None) is True
    [name] = iterated  # one closure at most
    bound = bindings[name]
    assert isinstance(bound, tuple)
    return all(_value(condition, bindings, i) is True for i in range(_first(condition), len(bound) + 1))


def _first(condition: Scalar) -> int:
    """b[i-k] asks for i > k, b[..i-1] for i > 1: nothing is demanded of the events before."""
    first = 1
    for atom in _atoms(condition):
        if isinstance(atom, EventColumn) and atom.index is Index.BACK:
            first = max(first, atom.number + 1)
        if isinstance(atom, EventAggregate) and atom.reach is Reach.BEFORE:
            first = max(first, 2)
    return first


# ---- values ---------------------------------------------------------------------------------------


def _value(scalar: Scalar, bindings: Bindings, i: int | None, *, failing: bool = False) -> Any:
    """`i` counts from 1; None where nothing is iterated. In RETURN a division by zero fails, in WHERE it is null."""
    atoms = dict(scalar.atoms)
    return scalar_value(scalar.tree, lambda name: _atom(atoms[name], bindings, i), fail if failing else give_null)


def _atom(atom: EventAtom, bindings: Bindings, i: int | None) -> Any:
    bound = bindings.get(atom.variable.lower())
    if bound is None:
        return None  # not part of the match: even a count is null
    match atom:
        case EventAggregate():
            return _aggregated(atom, bound, i)
        case WholeEvent(_, Index.AT | Index.LAST):
            return _structs(_chosen(atom.index, atom.number, bound, i))
        case WholeEvent():
            return _structs(bound)
        case EventColumn(_, index) if isinstance(bound, Event) or index not in (Index.PLAIN, Index.ALL) or i:
            event = _chosen(index, atom.number, bound, i)
            return None if event is None else _read(event, atom.path)
        case EventColumn():
            assert isinstance(bound, tuple)
            return [_read(event, atom.path) for event in bound]  # the values of a closure, nulls kept


def _chosen(index: Index, number: int, bound: Bound, i: int | None) -> Event | None:
    if isinstance(bound, Event):
        return bound
    match index:
        case Index.AT:
            place = number
        case Index.LAST:
            place = len(bound)
        case Index.BACK:
            assert i is not None
            place = i - number
        case _:
            assert i is not None
            place = i
    return bound[place - 1] if 1 <= place <= len(bound) else None


def _aggregated(aggregate: EventAggregate, bound: Bound, i: int | None) -> Any:
    events = (bound,) if isinstance(bound, Event) else bound
    match aggregate.reach:
        case Reach.BEFORE:
            assert i is not None
            events = events[: i - 1]
        case Reach.CURRENT:
            assert i is not None
            events = events[:i]
    if not aggregate.arguments:
        return len(events)
    name = aggregate.variable.lower()
    inputs = [tuple(_value(argument, {name: event}, None) for argument in aggregate.arguments) for event in events]
    return aggregate_value(aggregate.function, inputs, give_null)


def _structs(bound: Bound | None) -> Any:
    if bound is None:
        return None
    return bound.values if isinstance(bound, Event) else [event.values for event in bound]


def _read(event: Event, path: tuple[str, ...]) -> Any:
    """The column, whatever its case, then its struct fields; a field of null is null."""
    column = next(name for name in event.values if name.lower() == path[0].lower())
    value = event.values[column]
    for part in path[1:]:
        value = None if value is None else value[part]
    return value
