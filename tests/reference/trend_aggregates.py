"""The oracle for aggregates over all matches: enumerate the matches, then fold.

`aggregate_matches(query, events, aggregates, member=…)` takes the matches from the oracle for event patterns (so the
inputs are small) and says for each group what every aggregate gives:

* count(*) counts matches;
* f(a.x), where a is a single event, folds x over all matches;
* f(b[].x), where b is a closure, folds x over all pairs of a match and an event of b in it; count(b[]) counts them.

Nulls are skipped, as in SQL; over nothing, count is 0 and everything else null. A variable that is not part of a match
(of an alternative that was not taken) contributes nothing. Numbers are exact: whole numbers and fractions, a finite
double being the fraction that it is; so avg is a fraction, and who compares doubles with it does so with a tolerance.

Matches are grouped by the key, then by attributes of single variables (GROUP BY; nulls are a group, and the attribute
of a variable that is not part of the match is null), then by the multiple of d at or before their end (EVERY d: those
with te in [k*d, (k+1)*d)). A group without matches does not appear; `over_nothing` says what its values would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from episode.lang.events.syntax import EventQuery, Strategy
from tests.reference.event_patterns import Event, Match, Member, _read, matches
from tests.reference.scalars import grouping, rank


@dataclass(frozen=True)
class TrendAggregate:
    """function: count, sum, avg, min or max. column None: count(b[]) or count(a); variable None too: count(*)."""

    function: str
    variable: str | None = None
    column: str | None = None


Group = tuple[Any, ...]  # the key if there is one, the values of GROUP BY, the start of the EVERY interval


def aggregate_matches(
    query: EventQuery,
    events: list[Event],
    aggregates: Iterable[TrendAggregate],
    *,
    member: Member,
    key: Callable[[Event], object] | None = None,
    group_by: tuple[tuple[str, str], ...] = (),
    every: int | None = None,
    strategy: Strategy | None = None,
    within: int | None = None,
) -> dict[Group, tuple[Any, ...]]:
    """Group -> the value of each aggregate. group_by: (variable, column) of single variables."""
    groups: dict[Group, list[Match]] = {}
    for match in matches(query, events, member=member, key=key, strategy=strategy, within=within):
        group: list[Any] = []
        if key is not None:
            group.append(grouping(key(_events(match)[0])))
        group += [grouping(_single(match, variable, column)) for variable, column in group_by]
        if every is not None:
            group.append(match.te // every * every)
        groups.setdefault(tuple(group), []).append(match)
    return {group: fold(together, aggregates) for group, together in groups.items()}


def fold(together: list[Match], aggregates: Iterable[TrendAggregate]) -> tuple[Any, ...]:
    return tuple(_folded(aggregate, together) for aggregate in aggregates)


def over_nothing(aggregates: Iterable[TrendAggregate]) -> tuple[Any, ...]:
    return fold([], aggregates)


def _folded(aggregate: TrendAggregate, together: list[Match]) -> Any:
    if aggregate.variable is None:
        assert aggregate.function == "count"
        return len(together)
    taken = [event for match in together for event in _bound(match, aggregate.variable)]
    if aggregate.column is None:
        assert aggregate.function == "count"
        return len(taken)
    values = [_read(event, (aggregate.column,)) for event in taken]
    values = [value for value in values if value is not None]
    if aggregate.function == "count":
        return len(values)
    if not values:
        return None
    match aggregate.function:
        case "sum":
            return _sum(values)
        case "avg":
            return _sum(values) / len(values)
        case "min":
            return min(values, key=rank)
        case "max":
            return max(values, key=rank)
    raise NotImplementedError(aggregate.function)


def _sum(values: list[Any]) -> Fraction:
    return sum((Fraction(value) for value in values), start=Fraction(0))


def _events(match: Match) -> list[Event]:
    return [event for name in match.events for event in _bound(match, name)]


def _bound(match: Match, variable: str) -> tuple[Event, ...]:
    bound = match.events.get(variable.lower(), ())
    return bound if isinstance(bound, tuple) else (bound,)


def _single(match: Match, variable: str, column: str) -> Any:
    bound = match.events.get(variable.lower())
    assert not isinstance(bound, tuple), "GROUP BY takes attributes of single variables"
    return None if bound is None else _read(bound, (column,))
