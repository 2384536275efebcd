"""The oracle for imprecise time: possible worlds, enumerated, in exact fractions.

An event happens at one of the points lo, lo + g, …, up to hi (g is the granularity), each with its probability, and
independently of all other events. A query is a SEQ of single classes and closures under skip-till-any-match, without
negation. `imprecise_matches(query, events, member=…)` is for small inputs: about eight events of a few points each.

1. Put events into the places of the pattern in every way that the classes allow; time does not matter yet.
2. Keep what agrees on [attr] and satisfies every conjunct.
3. The confidence of a match is the probability of the combinations of its own events' times in which each part of
   the pattern lies strictly before the next one and te - ts <= w. (Times of other events cannot change that.)

Closures come in two kinds. A closure is *correlated* where a conjunct or a returned value depends on the order of its
events: b[i-k], b[k], b[last], aggregates over b[..i-1] or b[..i], first and last. Then a match has a sequence of
events, which must happen strictly one after the other, and every order of the same events is another match. Otherwise
the closure is *uncorrelated*: a match has a set of events, listed by (lo, hi, arrival); every one of them lies strictly
between the neighbouring parts, and nothing is demanded among them, so that two of them may happen at one time.

Readings taken: an event fills at most one place. `c.x < max(b[..i].x)` with c after b is about all of b, as with
precise time, and so does not make b correlated. Lists of values (b[].x, collect_list) and whole events (b[]) do not
either.
A match must be possible: one of confidence 0 is never a result, whatever the threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Union

from episode.lang.events.syntax import (
    Closure,
    EventAggregate,
    EventAtom,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Reach,
    Sequence,
    Strategy,
    WholeEvent,
)
from tests.reference.event_patterns import Bindings, Event, Member, _atoms, _holds, _read, _with_all_selected
from tests.reference.scalars import compare, grouping


@dataclass(frozen=True)
class ImpreciseEvent(Event):
    """ts and te are the interval [lo, hi]; position is the order of arrival.

    weights: the probability of each point, which add up to 1; None: all points are equally likely.
    """

    weights: tuple[Fraction, ...] | None = field(default=None, compare=False)

    def points(self, granularity: int = 1) -> list[tuple[int, Fraction]]:
        """Every time at which the event may happen, with its probability."""
        times = list(range(self.ts, self.te + 1, granularity))
        weights = self.weights or (Fraction(1, len(times)),) * len(times)
        assert len(weights) == len(times)
        assert sum(weights) == 1
        return list(zip(times, weights, strict=True))


Place = Union[EventClass, Closure]
Stage = tuple[ImpreciseEvent, ...]  # events that must all happen strictly before those of the next stage


@dataclass(frozen=True)
class ImpreciseMatch:
    """bound: for each variable of the pattern, in order of appearance and as written, the positions of its events."""

    bound: tuple[tuple[str, tuple[int, ...]], ...]
    confidence: Fraction
    events: Bindings = field(compare=False)  # by the variable in lower case


def imprecise_matches(
    query: EventQuery,
    events: list[ImpreciseEvent],
    *,
    member: Member,
    key: Callable[[Event], object] | None = None,
    within: int | None = None,
    granularity: int = 1,
    threshold: Fraction | None = None,
) -> list[ImpreciseMatch]:
    """All matches that are possible and, given a threshold, have at least this confidence; in no particular order."""
    if query.strategy not in (None, Strategy.ANY):
        raise ValueError(f"{query.strategy} with imprecise time")
    places = places_of(query.pattern)
    within = within if query.within is None else query.within.amount
    conditions = tuple(_with_all_selected(one, query.pattern) for one in query.conditions)
    partitions: dict[Any, list[ImpreciseEvent]] = {}
    for event in events:
        partitions.setdefault(None if key is None else grouping(key(event)), []).append(event)
    found = []
    for partition in partitions.values():
        for chosen in _choices(query, places, partition, member):
            together = [event for part in chosen for event in part]
            if not together or len({event.position for event in together}) < len(together):
                continue  # a match has at least one event, and none of them twice
            bindings: Bindings = {
                class_of(place).variable.lower(): part if isinstance(place, Closure) else part[0]
                for place, part in zip(places, chosen, strict=True)
            }
            if not _agree(query, together) or not all(_holds(condition, bindings) for condition in conditions):
                continue
            parts = zip(places, chosen, strict=True)
            stages = [stage for place, part in parts for stage in _stages(query, place, part)]
            probability = confidence(stages, within, granularity)
            if probability > 0 and (threshold is None or probability >= threshold):
                names = [class_of(place).variable for place in places]
                positions = [tuple(event.position for event in part) for part in chosen]
                found.append(ImpreciseMatch(tuple(zip(names, positions, strict=True)), probability, bindings))
    return found


def confidence(stages: list[Stage], within: int | None = None, granularity: int = 1) -> Fraction:
    """The probability that each stage happens strictly before the next, and all of it within the window.

    By enumerating every combination of times. Stages without events do not count.
    """
    events = [event for stage in stages for event in stage]
    possible = Fraction(0)
    for world in itertools.product(*(event.points(granularity) for event in events)):
        time = {event: point for event, (point, _) in zip(events, world, strict=True)}
        in_order = all(
            max(time[event] for event in before) < min(time[event] for event in after)
            for before, after in itertools.pairwise(stage for stage in stages if stage)
        )
        if in_order and (within is None or max(time.values()) - min(time.values()) <= within):
            probability = Fraction(1)
            for _, weight in world:
                probability *= weight
            possible += probability
    return possible


# ---- places of the pattern --------------------------------------------------------------------------


def places_of(pattern: EventPattern) -> list[Place]:
    """The single classes and closures of a SEQ, in order."""
    match pattern:
        case Sequence(parts):
            return [place for part in parts for place in places_of(part)]
        case EventClass():
            return [pattern]
        case Closure(EventClass(), groups=False):
            return [pattern]
    raise NotImplementedError(f"{type(pattern).__name__} with imprecise time")


def class_of(place: Place) -> EventClass:
    inner = place.part if isinstance(place, Closure) else place
    assert isinstance(inner, EventClass)
    return inner


def _choices(
    query: EventQuery, places: list[Place], events: list[ImpreciseEvent], member: Member
) -> Iterator[tuple[Stage, ...]]:
    """Every way to give each place its events, by the classes alone."""
    choices: list[list[Stage]] = []
    for place in places:
        qualifying = [event for event in events if member(class_of(place), event)]
        if isinstance(place, Closure):
            choices.append(list(_of_closure(place, qualifying, is_correlated(query, class_of(place).variable))))
        else:
            choices.append([(event,) for event in qualifying])
    return itertools.product(*choices)


def _of_closure(closure: Closure, qualifying: list[ImpreciseEvent], correlated: bool) -> Iterator[Stage]:
    """Correlated: every sequence of different events; else every set of them, in order of (lo, hi, arrival)."""
    sizes = range(closure.minimum, len(qualifying) + 1) if closure.count is None else [closure.count]
    in_order = sorted(qualifying, key=lambda event: (event.ts, event.te, event.position))
    for size in sizes:
        yield from itertools.permutations(in_order, size) if correlated else itertools.combinations(in_order, size)


def _stages(query: EventQuery, place: Place, events: Stage) -> list[Stage]:
    if isinstance(place, Closure) and is_correlated(query, class_of(place).variable):
        return [(event,) for event in events]
    return [events]


def _agree(query: EventQuery, events: list[ImpreciseEvent]) -> bool:
    """[attr]: equal in all events, and not null."""
    for same in query.same:
        values = [_read(event, same.path) for event in events]
        if any(value is None or compare(value, values[0]) != 0 for value in values):
            return False
    return True


# ---- correlated closures ----------------------------------------------------------------------------


def is_correlated(query: EventQuery, variable: str) -> bool:
    """A conjunct or a returned value depends on the order of this closure's events."""
    scalars = [_with_all_selected(one, query.pattern) for one in query.conditions]
    scalars += [item.expression for item in query.returns or ()]
    atoms = [atom for scalar in scalars for atom in _atoms(scalar)]
    return any(_depends_on_order(atom) for atom in atoms if atom.variable.lower() == variable.lower())


def _depends_on_order(atom: EventAtom) -> bool:
    match atom:
        case EventColumn(_, index) | WholeEvent(_, index):
            return index in (Index.BACK, Index.AT, Index.LAST)
        case EventAggregate(function, _, reach):
            return reach is not Reach.ALL or function in ("first", "first_value", "last", "last_value")


def precise(events: list[ImpreciseEvent], times: tuple[int, ...]) -> list[Event]:
    """One possible world: the events with their times in it, in order of (time, arrival), at their old positions."""
    placed = [replace(event, ts=time, te=time) for event, time in zip(events, times, strict=True)]
    return [Event(e.position, e.ts, e.te, e.values) for e in sorted(placed, key=lambda e: (e.te, e.position))]
