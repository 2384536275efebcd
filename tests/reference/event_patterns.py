"""The oracle for event patterns: slow, obvious Python written straight from the semantics.

`matches(query, events, member=…)` answers what a query means for small inputs (about ten events). Skip-till-any-match
and the two contiguities go by brute force:

1. put events into the places of the pattern in every way that its structure allows (classes, order of a sequence);
2. fill ZStream's groups, which depend on all other places;
3. keep what has different events in all places, fits the window, agrees on [attr], satisfies every conjunct, is not
   negated, and under contiguity lies side by side.

Skip-till-next-match follows the runs, event by event, with their forks.

The language is closed: sequences, alternatives, negations and closures may stand inside one another. Readings taken
where the rules are silent:

* A closure repeats its inside round by round, each strictly after the one before; every round has at least one event.
  The variables inside are lists of all their events, whatever the round and however deep: b[i-1] is the b before b[i],
  perhaps of the round before. The same events in the same places are one match, however they fall into rounds:
  SEQ(A* a[], B+ b[])+ finds a1 b2 b3 once. An inside that may be empty adds nothing: (B* b[])+ needs an event.
* ZStream's closure of alternatives, A; (B | C)+; D, groups all events that qualify for one of them; each is in the list
  of the first alternative that it qualifies for. Sequences are repeated in rounds in either form. A group inside a
  round reaches to the events of the match that are next to it, of this round or another.
* A negated pattern forbids every match of it in its place, whatever the strategy of the query: any choice of events
  (under skip-till-any-match of ZStream's form: the groups of it) that are not events of the match, lie strictly between
  the neighbours (inside the window where there is none), agree on [attr] and satisfy the conjuncts about them. It has
  at least one event. A negation inside a round has the nearest events of the match as neighbours, those of the rounds
  before and after among them. A negation inside a negated pattern narrows that down: ~SEQ(A, ~B, C) forbids an A and a
  C that have no B between them.

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
    nodes_of,
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
    ones: tuple[One, ...] = ()

    @property
    def places(self) -> list[EventClass]:
        """The class, or those of the alternatives."""
        return list(_positive_classes(self.closure.part))


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
        case Group(_, ones):
            return list(ones)
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
        case Repeated(closure) | Group(closure):
            # Every variable inside is a list, with an entry for each event that it has in any round.
            ones = _ones(filled)
            return {
                _name(place): tuple(one.event for one in ones if _name(one.place) == _name(place))
                for place in _positive_classes(closure.part)
            }
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
        case Ordered(parts) | Repeated(_, parts):
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


def _grouped(filled: Filled, groups: Iterator[tuple[One, ...]]) -> Filled:
    """The same with the events of its groups, which come in the order of the holes."""
    match filled:
        case Group(closure):
            return Group(closure, next(groups))
        case Ordered(parts):
            return Ordered(tuple(_grouped(part, groups) for part in parts))
        case Unordered(parts):
            return Unordered(tuple(_grouped(part, groups) for part in parts))
        case Repeated(closure, rounds):
            return Repeated(closure, tuple(_grouped(part, groups) for part in rounds))
    return filled


@dataclass(frozen=True)
class Around:
    """What a negated pattern stands in: the match, its span, and the bounds of the negation's hole."""

    whole: Filled = Ordered(())
    span: tuple[int, int] | None = None
    left: int | None = None
    right: int | None = None


NOTHING = Around()


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
                seen = set()
                for rounds in self.rounds(pattern, 0, after):
                    repeated = Repeated(pattern, rounds)
                    if _choice(repeated) not in seen:
                        seen.add(_choice(repeated))
                        yield repeated

    def in_order(self, parts: tuple[EventPattern, ...], after: int | None) -> Iterator[tuple[Filled, ...]]:
        """Each part begins strictly after the parts before it have ended; a part without events does not count."""
        if not parts:
            yield ()
            return
        for first in self.filled(parts[0], after):
            for rest in self.in_order(parts[1:], _ended(first, after)):
                yield (first, *rest)

    def rounds(self, closure: Closure, done: int, after: int | None) -> Iterator[tuple[Filled, ...]]:
        """Any number of rounds that the closure allows, each strictly after the one before and with an event."""
        if done >= _needed(closure):
            yield ()
        if _may_go_on(closure, done):
            for first in self.filled(closure.part, after):
                if not _events(first):
                    continue
                for rest in self.rounds(closure, done + 1, _ended(first, after)):
                    yield (first, *rest)

    # 2. groups

    def with_groups(self, places: Filled, around: Around = NOTHING) -> Iterator[Filled]:
        """Each group is chosen given the events of all places that are not groups. around: for a negated pattern."""
        if isinstance(places, Group) and around.span is None:
            yield from self.alone(places)
            return
        others = [*_events(around.whole), *_events(places)]
        if not others:
            return  # a match has at least one event
        span = around.span or _span(others)
        holes = [hole for hole in _holes(places, around.left, around.right) if isinstance(hole.filled, Group)]
        qualifying = [self.qualifying(hole, holes, places, around, span) for hole in holes]
        if _have_neighbours(places):
            yield from self.with_neighbouring_groups(places, around, qualifying, span)
            return
        choices = (_groups(hole.filled.closure, ones) for hole, ones in zip(holes, qualifying, strict=True))
        for chosen in itertools.product(*choices):
            yield _grouped(places, iter(chosen))

    def with_neighbouring_groups(
        self, places: Filled, around: Around, qualifying: list[tuple[One, ...]], span: tuple[int, int]
    ) -> Iterator[Filled]:
        """Groups side by side bound each other: every choice of events for all of them that has each group complete.

        Complete: all events that qualify between its neighbours, where a group counts with its events, if it has any;
        of `^n`, any n successive ones of them.
        """
        for chosen in itertools.product(*(list(_subsets(ones)) for ones in qualifying)):
            whole = _grouped(places, iter(chosen))
            bounded = [hole for hole in _holes(whole, around.left, around.right) if isinstance(hole.filled, Group)]
            if all(
                hole.filled.ones
                in _groups(
                    hole.filled.closure,
                    tuple(one for one in ones if hole.encloses([one.event], span, self.within)),
                )
                for hole, ones in zip(bounded, qualifying, strict=True)
            ):
                yield whole

    def alone(self, group: Group) -> Iterator[Filled]:
        """A closure that is all of the pattern: every qualifying event starts a group, of itself and those after it.

        After it is by (te, arrival); of events that last, one that began before the starting event is not after it.
        `^n`: the first n of them.
        """
        n = group.closure.count
        for start in self.events:
            after = [
                event
                for event in self.events[self.events.index(start) :]
                if event.ts >= start.ts
                and (self.within is None or event.te <= start.ts + self.within)
                and self.agree([start, event])
            ]
            ones = tuple(one for event in after for one in self.in_group(group, event, set(), {}))
            if any(one.event == start for one in ones) and len(ones) >= (n or 1):
                yield Group(group.closure, ones[:n])

    def qualifying(
        self, hole: Hole, holes: list[Hole], places: Filled, around: Around, span: tuple[int, int]
    ) -> tuple[One, ...]:
        """Of the class, in no other place, between the neighbours; [attr] and the per-event conjuncts hold."""
        assert isinstance(hole.filled, Group)
        others = [*_events(around.whole), *_events(places)]
        groups = {_name(place) for other in holes for place in other.filled.places}  # type: ignore[union-attr]
        bindings = {**_bindings(around.whole), **_bindings(places)}
        return tuple(
            one
            for event in self.events
            if event not in others and hole.encloses([event], span, self.within) and self.agree([*others, event])
            for one in self.in_group(hole.filled, event, groups, bindings)
        )

    def in_group(self, group: Group, event: Event, groups: set[str], bindings: Bindings) -> list[One]:
        """The event in the first of the group's places for which it qualifies; none: it is not of the group."""
        for place in group.places:
            name = _name(place)
            about_it = [c for c in self.query.conditions if _per_event(c, name, groups - {name})]
            if self.member(place, event) and all(_holds(c, {**bindings, name: (event,)}) for c in about_it):
                return [One(place, event)]
        return []

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
            and not any(
                self.negates(hole, whole, _span(events)) for hole in holes if trailing or hole.right is not None
            )
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

    def negates(self, hole: Hole, whole: Filled, span: tuple[int, int]) -> bool:
        """Some events of the negated class or sub-pattern lie in the hole. span: that of the match.

        They count if they are not events of the match, have its [attr], and the conjuncts about them hold.
        """
        assert isinstance(hole.filled, Absent)
        around = Around(whole, span, hole.left, hole.right)
        return any(
            self.is_negating(negating, hole, whole, span)
            for places in self.filled(hole.filled.negation.part, None)
            for negating in self.with_groups(places, around)
        )

    def is_negating(self, negating: Filled, hole: Hole, whole: Filled, span: tuple[int, int]) -> bool:
        events, them, bindings = _events(whole), _events(negating), {**_bindings(whole), **_bindings(negating)}
        inner = [one for one in _holes(negating, hole.left, hole.right) if isinstance(one.filled, Absent)]
        negated_inside = {name for one in inner for name in _negated_names(one)}
        about_them = [c for c in self.query.conditions if _variables(c) & _negated_names(hole)]
        return (
            bool(them)
            and not set(them) & set(events)
            and len(set(them)) == len(them)
            and hole.encloses(them, span, self.within)
            and self.agree([*events, *them])
            and all(_holds(c, bindings) for c in about_them if not _variables(c) & negated_inside)
            and not any(self.negates(one, Unordered((whole, negating)), span) for one in inner)
        )

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
    """Does nothing but negations stand between two groups?"""
    match filled:
        case Ordered():
            parts = [part for part in _in_line(filled) if not isinstance(part, Absent)]
            side_by_side = (isinstance(a, Group) and isinstance(b, Group) for a, b in itertools.pairwise(parts))
            return any(side_by_side) or any(_have_neighbours(part) for part in parts)
        case Unordered(parts) | Repeated(_, parts):
            return any(_have_neighbours(part) for part in parts)
    return False


def _in_line(filled: Filled) -> list[Filled]:
    """The parts of a sequence, and of sequences in it."""
    if isinstance(filled, Ordered):
        return [one for part in filled.parts for one in _in_line(part)]
    return [filled]


def _subsets(ones: tuple[One, ...]) -> Iterator[tuple[One, ...]]:
    for size in range(len(ones) + 1):
        yield from itertools.combinations(ones, size)


def _choice(filled: Filled) -> tuple[tuple[int, Event], ...]:
    """Which events are in which places, whatever the rounds."""
    return tuple((id(one.place), one.event) for one in _ones(filled))


def _ended(filled: Filled, after: int | None) -> int | None:
    events = _events(filled)
    return _span(events)[1] if events else after


def _needed(closure: Closure) -> int:
    return closure.minimum if closure.count is None else closure.count


def _may_go_on(closure: Closure, done: int) -> bool:
    return closure.count is None or done < closure.count


def _groups(closure: Closure, qualifying: tuple[One, ...]) -> list[tuple[One, ...]]:
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
    round: where that one is a closure, how far the last of its rounds has come.
    """

    parts: tuple[Filled, ...] = ()
    round: Round | None = None

    @property
    def events(self) -> list[Event]:
        return _events(Ordered(self.parts))


@dataclass(frozen=True)
class Round:
    """A round of a closure is a small run: items are those of the alternative of the closure's inside that it takes."""

    items: tuple[EventPattern, ...]
    fork: Fork


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
        seen: set[tuple[_Way, tuple]] = set()
        for event in [*events[start + 1 :], None]:
            # A fork ends with its own first complete match; the others go on. Negations that stand last are decided
            # afterwards, when the window has passed.
            under_way = []
            for fork, ways in forks:
                complete = [way for way in ways if way.is_complete(fork)]
                for way in complete:
                    whole = way.whole(fork)
                    # However they fall into rounds, the same events in the same places are one match.
                    if (way, _choice(whole)) not in seen and self.search.holds(whole):
                        seen.add((way, _choice(whole)))
                        found.append(whole)
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
        return [following for following in self.moves(self.items, fork, event) if self.qualifies(following)]

    def moves(self, items: tuple[EventPattern, ...], fork: Fork, event: Event) -> Iterator[Fork]:
        """Where the event could go by its class. items: of the pattern, or of a round of a closure."""
        parts = fork.parts
        if fork.round is not None:
            last = parts[-1]
            assert isinstance(last, Repeated)
            *rounds, _ = last.rounds
            # On in the round that is under way.
            for further in self.moves(fork.round.items, fork.round.fork, event):
                longer = Repeated(last.closure, (*rounds, Ordered(further.parts)))
                yield Fork((*parts[:-1], longer), Round(fork.round.items, further))
            if not _has_all(fork.round.items, fork.round.fork):
                return
            finished = Repeated(last.closure, (*rounds, _finished(fork.round.items, fork.round.fork)))
            # TAKE
            if _may_go_on(last.closure, len(last.rounds)):
                yield from self.begun(parts[:-1], finished, event)
            if len(last.rounds) < _needed(last.closure):
                return
            parts = (*parts[:-1], finished)
        # PROCEED to the next place; `*` may be passed over.
        for item in items[len(parts) :]:
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
            for begun in self.moves(body, Fork(), event):
                rounds = (*loop.rounds, Ordered(begun.parts))
                yield Fork((*parts, Repeated(loop.closure, rounds)), Round(body, begun))

    def qualifies(self, fork: Fork) -> bool:
        """Window, [attr], and what is decided now that the last event has been taken: conjuncts and negations."""
        search, so_far = self.search, Ordered(fork.parts)
        bindings = _bindings(so_far)
        names = {_name(place) for item in self.items for place in classes_of(item)}
        negated = {
            _name(place)
            for item in self.items
            for node in nodes_of(item)
            if isinstance(node, Negation)
            for place in classes_of(node)
        }
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
            if decided and search.negates(hole, so_far, _span(fork.events)):
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
        return _has_enough(fork) and all(isinstance(item, Negation) for item in following)

    def is_complete(self, fork: Fork) -> bool:
        """Nothing more is needed, and everything holds but the negations that stand last."""
        return bool(fork.parts) and _has_all(self.items, fork) and self.search.holds(self.whole(fork), trailing=False)

    def whole(self, fork: Fork) -> Filled:
        return _finished(self.items, fork)


def _has_enough(fork: Fork) -> bool:
    """The last place that has events needs no more of them."""
    if fork.round is None:
        return True
    last = fork.parts[-1]
    assert isinstance(last, Repeated)
    return _has_all(fork.round.items, fork.round.fork) and len(last.rounds) >= _needed(last.closure)


def _has_all(items: tuple[EventPattern, ...], fork: Fork) -> bool:
    """Nothing that comes after the places with events needs an event."""
    return _has_enough(fork) and all(
        isinstance(item, Negation) or (isinstance(item, Closure) and _needed(item) == 0)
        for item in items[len(fork.parts) :]
    )


def _finished(items: tuple[EventPattern, ...], fork: Fork) -> Ordered:
    """What has been taken, with the negations and empty closures that come after it."""
    parts = list(fork.parts)
    if fork.round is not None:
        last = parts[-1]
        assert isinstance(last, Repeated)
        parts[-1] = Repeated(last.closure, (*last.rounds[:-1], _finished(fork.round.items, fork.round.fork)))
    for item in items[len(parts) :]:
        if isinstance(item, Negation):
            parts.append(Absent(item))
        elif isinstance(item, Closure):
            parts.append(Repeated(item, ()))
    return Ordered(tuple(parts))


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
