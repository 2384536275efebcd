"""The oracle for recency correlation: nested loops straight from Definitions 5 to 9 of the PCQ paper.

"Efficiently correlating complex events over live and archived data streams" (DEBS 2011), section 2. The matches of
both sides are those of the oracles of their languages over the whole input, found once and for all: nothing is cut at
the end of a region. So there is one right answer, whatever strategy, order, cache or buffer an engine has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from episode.lang.events.syntax import EventQuery, Strategy
from episode.lang.rows.parser import parse_clause
from episode.lang.rows.syntax import MatchRecognize, Measure
from tests.reference import event_patterns, row_patterns, situations
from tests.reference.scalars import grouping

Row = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """A match of one side, an event in the words of the paper.

    start, end: its t_s and t_e; null for an empty match, which happened at no time.
    key: the values of the columns that its pattern is partitioned by. values: what the pattern says of the match.
    """

    start: int | None
    end: int | None
    key: Row
    values: tuple


@dataclass(frozen=True)
class Pair:
    """A live match with an archive match that is recent for it. Its times are those after Definition 9."""

    live: Found
    archive: Found

    @property
    def start(self) -> int:
        return self.archive.start  # type: ignore[return-value]

    @property
    def end(self) -> int:
        return self.live.end  # type: ignore[return-value]


# ---- the definitions ------------------------------------------------------------------------------


def happened_before(first: Found, second: Found) -> bool:
    """Definition 6."""
    if first.start is None or second.start is None:
        return False
    return first.end < second.end and first.start < second.start  # type: ignore[operator]


def recent(event: Found, distance: int, stream: Iterable[Found]) -> Iterator[Found]:
    """Definition 8."""
    for other in stream:
        if happened_before(other, event) and event.end - other.start <= distance:  # type: ignore[operator]
            yield other


def correlated(live: list[Found], archive: list[Found], distance: int, on: Sequence[str] = ()) -> list[Pair]:
    """Definition 9, where the join predicate says that the columns `on`, which partition both, are equal.

    As for partitions, null is equal to null: a condition of a query that says otherwise is tested on the pairs.
    """

    def joins(one: Found, other: Found) -> bool:
        return all(grouping(one.key[name]) == grouping(other.key[name]) for name in on)

    return [Pair(one, other) for one in live for other in recent(one, distance, archive) if joins(one, other)]


def in_order(pairs: list[Pair]) -> list[Pair]:
    """Definition 5. Pairs with equal times stay as they are."""
    return sorted(pairs, key=lambda pair: (pair.start, pair.end))


# ---- the matches of a side ------------------------------------------------------------------------


def row_matches(
    clause: MatchRecognize, rows: list[Row], *, columns: list[str], time: str, budget: int | None = None
) -> list[Found]:
    """Of a clause with ONE ROW PER MATCH: the values are the row that is printed."""
    timed = replace(clause, measures=(*clause.measures, *_times_of_a_match(time)))
    found = []
    for printed in row_patterns.evaluate(timed, rows, columns=columns, budget=budget):
        start, end = printed.pop("match_start"), printed.pop("match_end")
        key = {key.column.path[-1]: printed[key.column.path[-1]] for key in clause.partition_by}
        found.append(Found(start, end, key, tuple(printed.items())))
    return found


@cache
def _times_of_a_match(time: str) -> tuple[Measure, ...]:
    return parse_clause(f"MEASURES min({time}) AS match_start, max({time}) AS match_end PATTERN (A)").measures


def event_matches(
    query: EventQuery,
    events: list[event_patterns.Event],
    *,
    member: event_patterns.Member,
    strategy: Strategy | None = None,
    key: str | None = None,
) -> list[Found]:
    """The values are the positions of the events of each variable."""
    found = []
    by_key = None if key is None else lambda event: event.values[key]
    for match in event_patterns.matches(query, events, member=member, strategy=strategy, key=by_key):
        groups = {
            name: (bound,) if isinstance(bound, event_patterns.Event) else bound for name, bound in match.events.items()
        }
        positions = tuple((name, tuple(event.position for event in group)) for name, group in sorted(groups.items()))
        any_event = next(event for group in groups.values() for event in group)
        partition = {} if key is None else {key: any_event.values[key]}
        found.append(Found(match.ts, match.te, partition, tuple(item for item in positions if item[1])))
    return found


def situation_matches(
    pattern: situations.Pattern, events: list[situations.Event], *, key: str | None = None
) -> list[Found]:
    """A match begins with the first of its situations and ends when it is detected."""
    return [
        Found(min(match.starts.values()), match.detected_at, {} if key is None else {key: match.key}, match.values)  # type: ignore[arg-type]
        for match in situations.matches(pattern, events)
    ]
