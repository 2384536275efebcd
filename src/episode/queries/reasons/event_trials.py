"""Queries tried out over the events of one key by the engine itself, as far as the first candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.lang.events import syntax
from episode.lang.events.syntax import EventClass, EventQuery, Negation, classes_of
from episode.matchers.events.matcher import EventPatternMatcher
from episode.matchers.events.output import FoundMatches, given_lists
from episode.matchers.events.search import MOST_RECORDS
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.projection import Derivation, Projection
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.plan.events.names import MARK
from episode.plan.events.plan import EventPlan
from episode.plan.events.returns import MATCH_END, MATCH_START
from episode.plan.expressions import Current, Load
from episode.plan.output import PlannedMeasure
from episode.plan.result import Result
from episode.queries.languages.events import BoundEventPattern
from episode.queries.reasons.event_steps import parts_of

MOST = 10_000
"""Candidates that are counted; where there are more, an answer says 'at least'."""
ROUND_RECORDS = 1 << 17
"""Records of one round: small rounds come to their first candidates sooner."""
IN_RANGE = "__episode_in_range"


@dataclass(frozen=True)
class Events:
    """The events of one key in their order. start, end: their times as integers; first, last: between these, matches
    were expected to begin. derived: columns that were computed for the pattern, by their SQL."""

    table: pa.Table
    start: np.ndarray
    end: np.ndarray
    first: int | None
    last: int | None
    derived: dict[str, pa.ChunkedArray]

    @property
    def in_range(self) -> np.ndarray:
        """Which events begin where a match was expected to begin."""
        found = np.ones(len(self.start), np.bool_)
        if self.first is not None:
            found &= self.start >= self.first
        return found if self.last is None else found & (self.start <= self.last)

    def between(self, least: int | None, greatest: int | None) -> slice:
        """The rows of events that end between two times, both included."""
        low = 0 if least is None else int(np.searchsorted(self.end, least, side="left"))
        high = len(self.end) if greatest is None else int(np.searchsorted(self.end, greatest, side="right"))
        return slice(low, max(low, high))

    def asked_at(self, first: int | None, last: int | None) -> Events:
        """The same, asked for another range."""
        return replace(self, first=first, last=last)

    def beginning(self, most: int) -> Events:
        """Asked for matches that begin with so many events of the range at most."""
        inside = np.flatnonzero(self.in_range)
        return self if len(inside) <= most else self.asked_at(self.first, int(self.start[inside[most]]))

    def at(self, rows: np.ndarray) -> Events:
        """Some of them."""
        taken = pa.array(rows)
        derived = {sql: column.take(taken) for sql, column in self.derived.items()}
        table = self.table.take(taken)
        return replace(self, table=table, start=self.start[rows], end=self.end[rows], derived=derived)


@dataclass(frozen=True)
class Candidates:
    """What satisfies a query and begins in the range. Candidate i has the events offsets[i]:offsets[i + 1] of `rows`,
    with the names of their variables. more: there may be more than these. values: what RETURN gives, where it asks for
    something."""

    offsets: np.ndarray
    rows: np.ndarray
    names: np.ndarray
    start: np.ndarray
    end: np.ndarray
    more: bool = False
    values: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def passes(self) -> bool:
        """Is there one? Where there was too much to search, it counts as found."""
        return self.more or len(self) > 0

    def events(self, number: int) -> dict[str, list[int]]:
        """The rows of one candidate, by variable."""
        found: dict[str, list[int]] = {}
        for at in range(int(self.offsets[number]), int(self.offsets[number + 1])):
            found.setdefault(str(self.names[at]), []).append(int(self.rows[at]))
        return found

    def rows_of(self, number: int) -> frozenset[int]:
        return frozenset(self.rows[self.offsets[number] : self.offsets[number + 1]].tolist())


Bind = Callable[[EventQuery], BoundEventPattern]
Keep = Callable[[pa.Table, Sequence[str]], np.ndarray]
"""For which rows of a matcher's output conditions hold that only Spark evaluates."""


@dataclass(frozen=True)
class Trials:
    """Tries queries. bind: plans one over the input of the query that is asked about. keep: None where there is no
    Spark."""

    bind: Bind
    events: Events
    arguments: dict[str, object]
    keep: Keep | None = None

    def over(self, events: Events) -> Trials:
        return replace(self, events=events)

    def candidates(self, query: EventQuery, most: int = MOST, exact: bool = False) -> Candidates:
        """At most so many candidates of a query, the first ones that the engine comes to. exact: where there is too
        much to search, that is the error that the query itself has; else there is no telling."""
        bound = self.bind(replace(query, returns=query.returns or ()))
        within = bound.plan.within
        rows = self._rows(query, within)
        plan, table = self._restricted(bound.plan, query, rows)
        records = MOST_RECORDS if exact else ROUND_RECORDS
        spec = EventPatternSpec(plan.for_workers(), table.schema, bound.step_budget, most_records=records)
        batch = EventBatch(
            table.select(list(plan.input_columns)).combine_chunks(),
            np.zeros(table.num_rows, np.int64),
            np.ascontiguousarray(self.events.end[rows]),
        )
        matcher = spec.open()
        result = bound.result if query.returns or plan.keeps else None
        found: list[Candidates] = []
        count, more = 0, False
        try:
            for _, lists in matcher.matches_in(batch, END_OF_TIME):
                some = self._kept(matcher, batch, lists, rows.start, result, most - count)
                if len(some):
                    found.append(some)
                    count += len(some)
                if count >= most or some.more:
                    more = True
                    break
        except EpisodeDataError:
            if exact:
                raise
            more = True
        return _joined(found, more)

    def _rows(self, query: EventQuery, within: int | None) -> slice:
        """The events that matches which begin in the range can depend on."""
        events = self.events
        least, greatest = events.first, events.last
        if not _begins_with_an_event(query):
            least = None if within is None or least is None else least - within
        return events.between(least, None if within is None or greatest is None else greatest + within)

    def _restricted(self, plan: EventPlan, query: EventQuery, rows: slice) -> tuple[EventPlan, pa.Table]:
        """The events as the plan reads them; its first event is one of the range, where the pattern has a first one."""
        table = self.events.table.slice(rows.start, rows.stop - rows.start)
        for sql, name in plan.derived:
            known = self.events.derived.get(sql)
            if known is not None:
                table = table.append_column(name, known.slice(rows.start, rows.stop - rows.start))
            else:
                table = Derivation.compile([(sql, name)], table.schema, self.arguments)(table)
        first = _first_event(query)
        if first is None or first not in plan.local:
            return plan, table
        table = table.append_column(IN_RANGE, pa.array(self.events.in_range[rows]))
        local = {**plan.local, first: (*plan.local[first], Load(IN_RANGE, Current(0), "boolean"))}
        columns = (*plan.input_columns, IN_RANGE)
        return replace(plan, local=local, input_columns=columns, types={**plan.types, IN_RANGE: "boolean"}), table

    def _kept(
        self,
        matcher: EventPatternMatcher,
        batch: EventBatch,
        found: FoundMatches,
        base: int,
        result: Result | None,
        room: int,
    ) -> Candidates:
        """Of some matches those that begin in the range, with what RETURN gives for them."""
        offsets, rows, variables = found.lists
        begin = offsets[:-1]
        start = np.minimum.reduceat(self.events.start[rows + base], begin)
        end = np.maximum.reduceat(self.events.end[rows + base], begin)
        keep = np.ones(len(found), np.bool_)
        if self.events.first is not None:
            keep &= start >= self.events.first
        if self.events.last is not None:
            keep &= start <= self.events.last
        which = np.flatnonzero(keep)
        values, full = None, False
        if result is None or not result.conditions:
            full, which = len(which) > room, which[:room]
        if result is not None and len(which):
            lists = _selected(offsets, rows, variables, which)
            some = FoundMatches(len(which), lambda: given_lists(*lists))
            matched = pa.concat_tables(matcher.output.tables(batch, some))
            holds = self._holds(result, matched)
            which = which[holds]
            full = full or len(which) > room
            asked = [one for one in result.columns if one.name not in (MATCH_START, MATCH_END)]
            which = which[:room]
            matched = matched.filter(pa.array(holds)).slice(0, room)
            values = self._evaluated(result, asked, matched) if asked else None
        offsets_, rows_, variables_ = _selected(offsets, rows, variables, which)
        called = np.array([name.split(MARK)[0] for name in matcher.plan.variables], object)
        return Candidates(
            offsets_, rows_.astype(np.int64) + base, called[variables_], start[which], end[which], full, values
        )

    def _holds(self, result: Result, matched: pa.Table) -> np.ndarray:
        """Where the conditions hold that are tested on whole matches."""
        if not result.conditions:
            return np.ones(matched.num_rows, np.bool_)
        try:
            tests = self._evaluated(result, result.conditions, matched)
        except EpisodeUnsupportedError:
            if self.keep is None:
                raise
            return self.keep(matched, [one.sql for one in result.conditions])
        return np.asarray(reduce(pc.and_, [one.fill_null(False) for one in tests.columns]))

    def _evaluated(self, result: Result, measures: Sequence[PlannedMeasure], matched: pa.Table) -> pa.Table:
        """Expressions over the output of a matcher; an error where one of them needs Spark."""
        columns = [(one.name, result.computed(one)) for one in measures]
        return Projection.compile(columns, matched.schema, (), self.arguments)(matched)


def _selected(
    offsets: np.ndarray, rows: np.ndarray, variables: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some matches of lists."""
    lengths = np.diff(offsets)[which]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(offsets[:-1][which] - new[:-1], lengths) + np.arange(new[-1])
    return new, rows[at], variables[at]


def _joined(found: list[Candidates], more: bool) -> Candidates:
    if not found:
        nothing = np.zeros(0, np.int64)
        return Candidates(np.zeros(1, np.int64), nothing, np.zeros(0, object), nothing, nothing, more)
    lengths = np.concatenate([np.diff(one.offsets) for one in found])
    tables = [one.values for one in found if one.values is not None]
    return Candidates(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([one.rows for one in found]),
        np.concatenate([one.names for one in found]),
        np.concatenate([one.start for one in found]),
        np.concatenate([one.end for one in found]),
        more,
        pa.concat_tables(tables) if tables else None,
    )


def _begins_with_an_event(query: EventQuery) -> bool:
    """Does nothing before its first event count?"""
    pattern = query.pattern
    return isinstance(pattern, EventClass) or (
        isinstance(pattern, syntax.Sequence) and isinstance(parts_of(pattern)[0], EventClass)
    )


def _first_event(query: EventQuery) -> str | None:
    """The variable of the event that begins every match, where there is one such variable and it has one place."""
    if not isinstance(query.pattern, (EventClass, syntax.Sequence)):
        return None
    first = next((part for part in parts_of(query.pattern) if not isinstance(part, Negation)), None)
    if not isinstance(first, EventClass):
        return None
    places = [one for one in classes_of(query.pattern) if one.variable == first.variable]
    return first.variable if len(places) == 1 else None
