"""From matches as lists of events to tables of output columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, PathLabels, output_tables
from episode.matchers.codes import MATCHED
from episode.matchers.columns import take
from episode.matchers.events.records import EventsOfMatches, FoundRecords
from episode.matchers.prepare import Needs, Prepared, needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import Group, InSequence, Leaf
from episode.plan.expressions import Current, Load
from episode.plan.output import ColumnAtPlace, Extreme, OutputAtom, RowPlace

MOST_EVENTS = 1 << 19
"""Events of the matches that are emitted as one table; a single match may have more."""


@dataclass
class FoundMatches:
    """Matches as lists of events with their variables: match i has events offsets[i]:offsets[i + 1] of `rows`.

    The lists are made on first use. final: the number of matches that each collapsed match stands for. confidence: of
    each match, if time is imprecise. alike: have all matches the same variables, in the same order?
    """

    count: int
    make: Callable[[], EventsOfMatches]
    final: pa.Array | None = None
    confidence: np.ndarray | None = None
    alike: bool = False

    @staticmethod
    def of_lists(
        offsets: np.ndarray,
        rows: np.ndarray,
        variables: np.ndarray,
        final: pa.Array | None = None,
        confidence: np.ndarray | None = None,
        alike: bool = False,
    ) -> FoundMatches:
        """Matches whose lists exist already."""
        return FoundMatches(len(offsets) - 1, lambda: (offsets, rows, variables), final, confidence, alike)

    def __len__(self) -> int:
        return self.count

    @cached_property
    def lists(self) -> EventsOfMatches:
        return self.make()

    def parts(self, most_events: int) -> Iterator[FoundMatches]:
        """Successive matches that have about `most_events` events together."""
        offsets, rows, variables = self.lists
        at = 0
        while at < self.count:
            end = int(np.searchsorted(offsets, offsets[at] + most_events, side="right")) - 1
            end = max(end, at + 1)
            low, high = int(offsets[at]), int(offsets[end])
            lists = offsets[at : end + 1] - low, rows[low:high], variables[low:high]
            final = None if self.final is None else self.final.slice(at, end - at)
            confidence = None if self.confidence is None else self.confidence[at:end]
            yield FoundMatches.of_lists(*lists, final, confidence, self.alike)
            at = end


def is_flat(found: FoundRecords) -> bool:
    """Has each match one event of every variable?"""
    return not found.groups and found.rows.min(initial=0) >= 0


def flatten(plan: EventPlan, found: FoundRecords) -> EventsOfMatches:
    """Single events and groups of each match, one after the other: (offsets, rows, variables)."""
    number = {name: index for index, name in enumerate(plan.variables)}
    count = len(found.rows)
    codes = np.array([number[name] for name in found.variables], np.int32)
    if is_flat(found):
        width = len(codes)
        return np.arange(count + 1, dtype=np.int64) * width, found.rows.reshape(-1), np.tile(codes, count)
    present = found.rows >= 0
    match = [np.nonzero(present)[0]]
    rows = [found.rows[present]]
    variables = [np.tile(codes, (count, 1))[present]]
    for name, (offsets, members) in found.groups.items():
        match.append(np.repeat(np.arange(count), np.diff(offsets)))
        rows.append(members)
        variables.append(np.full(len(members), number[name], np.int32))
    which = np.concatenate(match)
    order = np.argsort(which, kind="stable")
    offsets = np.searchsorted(which[order], np.arange(count + 1)).astype(np.int64)
    return offsets, np.concatenate(rows)[order], np.concatenate(variables)[order]


def times_at_ends(plan: EventPlan) -> dict[OutputAtom, OutputAtom]:
    """The start and the end of a match as times of single events, if the tree begins and ends with one: in place of the
    least and the greatest time of all events."""
    tree, times = plan.tree, plan.times
    if not isinstance(tree, InSequence) or plan.construction is not None or times.imprecise is not None:
        return {}
    found: dict[OutputAtom, OutputAtom] = {}
    ends = (
        ("min", tree.places[0], tree.gaps[0], times.start or times.end),
        ("max", tree.places[-1], tree.gaps[-1], times.end),
    )
    for function, place, gap, column in ends:
        if isinstance(place, Leaf) and not any(isinstance(item, Group) for item in gap):
            time = Load(column, Current(0), times.type)
            at = RowPlace(frozenset((place.variable,)), True, 0, 0, True)
            found[Extreme(function, None, True, time, time)] = ColumnAtPlace(column, at)
    return found


class EventOutput:
    """Makes the tables of a matcher's matches."""

    def __init__(self, plan: EventPlan, schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        self.needs: Needs = needs_of(plan)
        labels = np.arange(len(plan.variables), dtype=np.int64)
        self.path = PathLabels(labels, np.zeros(len(labels), np.bool_))
        self.keyed = False
        self.equivalents = times_at_ends(plan)

    def tables(self, events: EventBatch, found: FoundMatches) -> Iterator[pa.Table]:
        """Matches as rows, in tables of bounded size."""
        prepared = None
        for part in found.parts(MOST_EVENTS):
            if prepared is None and len(part.lists[1]) > len(events):
                prepared = prepare(self.plan, self.needs, events.table, events.key)
            yield from self._tables(events, part, prepared)

    def _tables(self, events: EventBatch, found: FoundMatches, prepared: Prepared | None) -> Iterator[pa.Table]:
        """prepared: of all events, of which matches have many times as many; else the events of matches, one after the
        other, are a table in which a match is a run of rows."""
        count = len(found)
        offsets, rows, variables = found.lists
        table, member = events.table, rows.astype(np.int32, copy=False) if prepared is not None else None
        if prepared is None:
            table = take(table, rows)
            prepared = prepare(self.plan, self.needs, table, np.zeros(len(rows), np.int64))
        matches = MatchRows(
            np.full(count, MATCHED, np.uint8),
            offsets[:-1],
            np.diff(offsets),
            np.ones(count, np.int64),
            offsets,
            variables,
            offsets[:-1],
            offsets[1:],
            found.final,
            found.confidence,
            events.key[rows[offsets[:-1]]] if self.keyed else None,
            member,
            found.alike or _are_alike(offsets, variables),
            self.equivalents,
        )
        yield from output_tables(self.plan, self.schema, self.path, table, prepared, matches)


def _are_alike(offsets: np.ndarray, variables: np.ndarray) -> bool:
    """Have all matches the same variables, in the same order?"""
    lengths = np.diff(offsets)
    if not len(lengths) or lengths.min() != lengths.max():
        return False
    by_match = variables.reshape(len(lengths), -1)
    return bool((by_match == by_match[0]).all())
