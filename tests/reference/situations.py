"""The oracle for situation patterns: slow, obvious Python written straight from the rules.

`matches(pattern, events)` answers what a pattern means for small inputs (about a dozen events per key). It has two
detections, and a check of the second one:

* `complete_matches` puts complete situations into the places of the pattern in every way;
* `earliest_matches` asks after every instant which matches no continuation of the events can take back, and goes
  through the continuations one by one, as lists of events (`_continuations` says why a finite number is enough);
* `detection_time` is the paper's answer to the same question: Table 2 of "TPStream: low-latency and high-throughput
  temporal pattern matching on event streams", section 5.3.1, as a function of the time stamps of a complete match.

It shares nothing with the engine, not even syntax trees. Times are whole numbers; those of continuations are fractions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Union

Time = Union[int, Fraction]


@dataclass(frozen=True)
class Event:
    """values: column -> value. Events are in order of arrival."""

    time: Time
    values: dict[str, Any]
    key: Any = None


@dataclass(frozen=True)
class Definition:
    """symbol AS column, a column of True, False or None. The limits of the duration are both inclusive."""

    symbol: str
    column: str
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True)
class Constraint:
    """One of the relations holds between left and right."""

    left: str
    right: str
    relations: frozenset[str]


@dataclass(frozen=True)
class Value:
    """An item of RETURN. column: None for count(*), start, end and duration."""

    symbol: str
    function: str
    column: str | None = None


@dataclass(frozen=True)
class Pattern:
    """detect: "earliest" or "complete"."""

    definitions: tuple[Definition, ...]
    constraints: tuple[Constraint, ...]
    within: int | None = None
    values: tuple[Value, ...] = ()
    detect: str = "earliest"


@dataclass(frozen=True)
class Match:
    """starts: symbol -> start of its situation, which identifies the match among those of the key."""

    key: Any
    starts: dict[str, Time]
    detected_at: Time
    values: tuple


def matches(pattern: Pattern, events: list[Event]) -> list[Match]:
    """All matches of all keys, in no particular order."""
    detect = {"earliest": earliest_matches, "complete": complete_matches}[pattern.detect]
    keys: dict[Any, list[Event]] = {}
    for event in events:
        keys.setdefault(event.key, []).append(event)
    return [match for of_key in keys.values() for match in detect(pattern, sorted(of_key, key=lambda e: e.time))]


# ---- situations -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Situation:
    """[start, end), with the events of its run. end: None while it lasts."""

    symbol: str
    start: Time
    end: Time | None
    events: tuple[Event, ...]


def situations(definition: Definition, events: list[Event]) -> list[Situation]:
    """The situations in the events of one key, in order. One that lasts is given whatever its duration will be."""
    found: list[Situation] = []
    run: list[Event] = []
    for event in events:
        if event.values[definition.column] is True:
            run.append(event)
        elif run:
            found.append(Situation(definition.symbol, run[0].time, event.time, tuple(run)))
            run = []
    if run:
        found.append(Situation(definition.symbol, run[0].time, None, tuple(run)))
    return [situation for situation in found if situation.end is None or _has_duration(definition, situation)]


def _has_duration(definition: Definition, situation: Situation) -> bool:
    duration = situation.end - situation.start
    if duration == 0:
        return False
    if definition.at_least is not None and duration < definition.at_least:
        return False
    return definition.at_most is None or duration <= definition.at_most


# ---- relations ------------------------------------------------------------------------------------

Holds = Callable[[Situation, Situation], bool]

# Table 1 of the paper. Its `finishes` is the mirror of Allen's.
_TABLE_1: dict[str, Holds] = {
    "before": lambda a, b: a.end < b.start,
    "meets": lambda a, b: a.end == b.start,
    "overlaps": lambda a, b: a.start < b.start < a.end < b.end,
    "starts": lambda a, b: a.start == b.start and a.end < b.end,
    "during": lambda a, b: b.start < a.start and a.end < b.end,
    "finishes": lambda a, b: a.start < b.start < a.end and a.end == b.end,
    "equals": lambda a, b: a.start == b.start and a.end == b.end,
}

MIRROR = {
    "before": "after",
    "meets": "met-by",
    "overlaps": "overlapped-by",
    "starts": "started-by",
    "during": "contains",
    "finishes": "finished-by",
    "equals": "equals",
}
MIRROR |= {mirror: relation for relation, mirror in MIRROR.items()}
RELATIONS = tuple(MIRROR)


def relation_holds(relation: str, a: Situation, b: Situation) -> bool:
    """Whether `a relation b`, for situations that have ended."""
    if relation in _TABLE_1:
        return _TABLE_1[relation](a, b)
    return _TABLE_1[MIRROR[relation]](b, a)


def relation_of(a: Situation, b: Situation) -> str:
    """The one relation that holds, for situations that have ended."""
    (relation,) = (relation for relation in RELATIONS if relation_holds(relation, a, b))
    return relation


Chosen = dict[str, Situation]  # one situation for every symbol


def _constraints_hold(pattern: Pattern, chosen: Chosen) -> bool:
    return all(
        any(relation_holds(relation, chosen[c.left], chosen[c.right]) for relation in c.relations)
        for c in pattern.constraints
    )


# ---- complete detection ---------------------------------------------------------------------------


def complete_matches(pattern: Pattern, events: list[Event]) -> list[Match]:
    """The matches of one key, each when all its situations have ended. events: in order of time."""
    found = []
    for chosen in complete_choices(pattern, events):
        detected_at = max(situation.end for situation in chosen.values())
        if _fits(pattern, chosen, detected_at):
            found.append(_match(pattern, chosen, detected_at, events))
    return found


def complete_choices(pattern: Pattern, events: list[Event]) -> Iterator[Chosen]:
    """Every choice of complete situations that satisfies the constraints; the window is not looked at."""
    symbols = [definition.symbol for definition in pattern.definitions]
    complete = [
        [situation for situation in situations(definition, events) if situation.end is not None]
        for definition in pattern.definitions
    ]
    for choice in itertools.product(*complete):
        chosen = dict(zip(symbols, choice))
        if _constraints_hold(pattern, chosen):
            yield chosen


def _fits(pattern: Pattern, chosen: Chosen, detected_at: Time) -> bool:
    least_start = min(situation.start for situation in chosen.values())
    return pattern.within is None or detected_at - least_start <= pattern.within


def _match(pattern: Pattern, chosen: Chosen, detected_at: Time, events: list[Event]) -> Match:
    return Match(
        events[0].key,
        {symbol: situation.start for symbol, situation in chosen.items()},
        detected_at,
        tuple(_value(value, chosen[value.symbol]) for value in pattern.values),
    )


# ---- earliest detection ---------------------------------------------------------------------------


def earliest_matches(pattern: Pattern, events: list[Event]) -> list[Match]:
    """The matches of one key, each at the first instant after which every continuation contains it.

    events: in order of time. The last instant of the input is an instant like the others: its events are all there.
    """
    found = []
    certain: set[tuple[Time, ...]] = set()
    for now in instants(events):
        prefix = [event for event in events if event.time <= now]
        for starts in _certain_starts(pattern, prefix, known=certain):
            certain.add(tuple(starts.values()))
            chosen = {d.symbol: _starting_at(starts[d.symbol], d, prefix) for d in pattern.definitions}
            if _fits(pattern, chosen, now):
                found.append(_match(pattern, chosen, now, prefix))
    return found


def instants(events: list[Event]) -> list[Time]:
    return sorted({event.time for event in events})


def _certain_starts(pattern: Pattern, prefix: list[Event], known: set[tuple[Time, ...]]) -> Iterator[dict[str, Time]]:
    """The matches, by the starts of their situations, that are in every continuation of the prefix, without `known`."""
    pattern, prefix = _with_own_columns(pattern, prefix)
    # One continuation first, in which everything ends at once: what it does not contain is not certain.
    for chosen in complete_choices(pattern, _continued(pattern, prefix, {})):
        starts = {symbol: situation.start for symbol, situation in chosen.items()}
        if tuple(starts.values()) in known:
            continue
        if all(_contains(events, pattern, starts) for events in _continuations(pattern, prefix, starts)):
            yield starts


def _with_own_columns(pattern: Pattern, events: list[Event]) -> tuple[Pattern, list[Event]]:
    """The same with a column for each symbol: what comes is independent, even for symbols of the same column."""
    definitions = tuple(replace(definition, column=definition.symbol) for definition in pattern.definitions)
    return replace(pattern, definitions=definitions), [
        Event(event.time, {d.symbol: event.values[d.column] for d in pattern.definitions}, event.key)
        for event in events
    ]


def _contains(events: list[Event], pattern: Pattern, starts: dict[str, Time]) -> bool:
    """Whether the situations with these starts are complete in the events, and a match."""
    chosen = {}
    for definition in pattern.definitions:
        situation = _starting_at(starts[definition.symbol], definition, events)
        if situation is None or situation.end is None:
            return False
        chosen[definition.symbol] = situation
    return _constraints_hold(pattern, chosen)


def _starting_at(start: Time, definition: Definition, events: list[Event]) -> Situation | None:
    return next((situation for situation in situations(definition, events) if situation.start == start), None)


def _continuations(pattern: Pattern, prefix: list[Event], starts: dict[str, Time]) -> Iterator[list[Event]]:
    """Continuations of the prefix, enough of them to tell whether the situations with these starts are a match in all.

    Whether they are a match depends on their starts, which are known, and on their ends. The ends of those that have
    ended are known, and so is that the others end after the present. What is open is

    * how the ends of those that last compare with each other, and
    * how each end compares with the times at which the situation reaches a limit of its duration.

    Those times cut the future into gaps. Move the ends of any continuation to other places in the gaps in which they
    are, so that their order and coincidences stay, and both kinds of comparison come out as before. With n situations
    that last, a gap has n different ends in it at most. So it is enough to try, for each end, each of n places (here
    n + 1) in every gap, and the times between the gaps. What else the events of a continuation say does not matter:
    situations that begin later are not those of the match, and of a symbol whose situation has ended, any later one is
    another situation.

    Ends just after the present and ends in the far future come first, since they refute most.
    """
    now = prefix[-1].time
    lasting: list[str] = []
    limits: set[Time] = set()
    for definition in pattern.definitions:
        situation = _starting_at(starts[definition.symbol], definition, prefix)
        if situation.end is None:
            lasting.append(definition.symbol)
            durations = [limit for limit in (definition.at_least, definition.at_most) if limit is not None]
            limits |= {situation.start + duration for duration in durations if situation.start + duration > now}
    places = len(lasting) + 1
    borders = [now, *sorted(limits)]
    gaps = [_between(low, high, places) for low, high in itertools.pairwise(borders)]
    gaps.append([borders[-1] + distance for distance in (Fraction(1, 8), 1, 30, 1000, 1001)[:places]])
    everywhere = [*borders[1:], *(place for gap in gaps for place in gap)]
    for choices in (gaps[0], gaps[-1], everywhere) if limits else (gaps[0],):
        for ends in itertools.product(choices, repeat=len(lasting)):
            yield _continued(pattern, prefix, dict(zip(lasting, ends)))


def _between(low: Time, high: Time, places: int) -> list[Time]:
    return [low + (high - low) * Fraction(place, places + 1) for place in range(1, places + 1)]


def _continued(pattern: Pattern, prefix: list[Event], ends: dict[str, Time]) -> list[Event]:
    """The prefix with later events, at which the situations that last end as said, and others at once."""
    later = sorted(set(ends.values())) or [prefix[-1].time + Fraction(1, 8)]
    return prefix + [
        Event(time, {d.symbol: d.symbol in ends and time < ends[d.symbol] for d in pattern.definitions})
        for time in later
    ]


# ---- earliest detection by the paper's table ------------------------------------------------------

# Table 2 of the paper (t_d of a relation), and the same for the mirrors.
_TABLE_2: dict[str, Callable[[Situation, Situation], Time]] = {
    "before": lambda a, b: b.start,
    "meets": lambda a, b: b.start,
    "starts": lambda a, b: a.end,
    "equals": lambda a, b: a.end,
    "started-by": lambda a, b: b.end,
    "overlaps": lambda a, b: a.end,
    "finishes": lambda a, b: a.end,
    "contains": lambda a, b: b.end,
    "after": lambda a, b: a.start,
    "met-by": lambda a, b: a.start,
    "overlapped-by": lambda a, b: b.end,
    "finished-by": lambda a, b: b.end,
    "during": lambda a, b: a.end,
}

PREFIX_GROUPS = tuple(
    frozenset(group)
    for group in (
        ("before", "meets"),
        ("starts", "equals", "started-by"),
        ("overlaps", "finishes", "contains"),
        ("after", "met-by"),
        ("overlapped-by", "finished-by", "during"),
    )
)


def detection_time(pattern: Pattern, chosen: Chosen, times: list[Time]) -> Time:
    """t_d of a match whose situations have ended: the greatest of its constraints' and its situations' times.

    times: the instants of the key, at one of which a deferred start (section 5.3.2) is noticed.
    """
    by_constraint = [_constraint_time(c, chosen[c.left], chosen[c.right]) for c in pattern.constraints]
    by_situation = [_available(definition, chosen[definition.symbol], times) for definition in pattern.definitions]
    return max(by_constraint + by_situation)


def _constraint_time(constraint: Constraint, a: Situation, b: Situation) -> Time:
    relation = relation_of(a, b)
    if any(relation in group and group <= constraint.relations for group in PREFIX_GROUPS):
        return max(a.start, b.start)
    return _TABLE_2[relation](a, b)


def _available(definition: Definition, situation: Situation, times: list[Time]) -> Time:
    """When a situation may be in a match: from its start, its deferred start or, with AT MOST, its end on."""
    if definition.at_most is not None:
        return situation.end
    if definition.at_least is not None:
        return min(time for time in times if time - situation.start >= definition.at_least)
    return situation.start


# ---- values ---------------------------------------------------------------------------------------


def _value(value: Value, situation: Situation) -> Any:
    """situation: as it is at detected_at, with its events so far."""
    if value.function == "start":
        return situation.start
    if value.function == "end":
        return situation.end
    if value.function == "duration":
        return None if situation.end is None else situation.end - situation.start
    if value.column is None:
        return len(situation.events)
    column = [event.values[value.column] for event in situation.events]
    if value.function == "first":
        return column[0]
    if value.function == "last":
        return column[-1]
    present = [item for item in column if item is not None]
    if value.function == "count":
        return len(present)
    return _AGGREGATES[value.function](present) if present else None


def _sum(items: list) -> Any:
    """Null where it is no bigint."""
    total = sum(items)
    return None if isinstance(total, int) and not -(2**63) <= total < 2**63 else total


def _average(items: list) -> float:
    """Of doubles, as they are added up one by one."""
    return sum(map(float, items)) / len(items)


def _deviation(items: list) -> float | None:
    """The sample standard deviation."""
    if len(items) == 1:
        return None
    mean = _average(items)
    return math.sqrt(sum((item - mean) ** 2 for item in items) / (len(items) - 1))


_AGGREGATES: dict[str, Callable[[list], Any]] = {
    "sum": _sum,
    "avg": _average,
    "min": min,
    "max": max,
    "stddev": _deviation,
}
