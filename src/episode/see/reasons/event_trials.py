"""Searches for candidates of an event pattern by the engine itself, up to the first ones; events in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError, EpisodeUnsupportedError
from episode.lang.events import syntax
from episode.lang.events.syntax import (
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Negation,
    classes_of,
    event_atoms,
)
from episode.matchers.events.matcher import MOST_RECORDS, EventPatternMatcher
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.projection import Projection
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.plan.events.alternatives import MARK
from episode.plan.events.plan import EventPlan
from episode.plan.events.returns import MATCH_END, MATCH_START
from episode.plan.expressions import Current, Load
from episode.plan.output import PlannedMeasure, Result
from episode.see.reasons.event_steps import EventStep, parts_of
from episode.see.reasons.finding import Words, list_values
from episode.see.reasons.trials import MOST, Candidates, Keep, TimeRange, Trials
from episode.words import join_words

ROUND_RECORDS = 1 << 17
"""Records of one round: small rounds come to their first candidates sooner."""
IN_RANGE = "__episode_in_range"
MOST_COLUMNS = 4
"""Columns of an event that are shown if no condition reads one."""


@dataclass(frozen=True)
class EventCandidates(Candidates):
    """Candidates that begin in the range. Candidate i has the events offsets[i]:offsets[i + 1] of `rows`, whose
    variables are in `names`. values: the columns of RETURN, if there are any."""

    offsets: np.ndarray
    rows: np.ndarray
    names: np.ndarray
    values: pa.Table | None = None

    def events(self, number: int) -> dict[str, list[int]]:
        """Return the rows of one candidate, by variable."""
        found: dict[str, list[int]] = {}
        for at in range(int(self.offsets[number]), int(self.offsets[number + 1])):
            found.setdefault(str(self.names[at]), []).append(int(self.rows[at]))
        return found

    def rows_of(self, number: int) -> frozenset[int]:
        """Return the rows of one candidate."""
        return frozenset(self.rows[self.offsets[number] : self.offsets[number + 1]].tolist())


@dataclass(frozen=True)
class EventTrials(Trials[EventQuery, EventPlan]):
    """Searches for candidates that begin in a range. keep: None without Spark."""

    range: TimeRange
    keep: Keep | None = None

    @property
    def in_range(self) -> np.ndarray:
        """Mask of the events that begin in the range."""
        return self.range.holds(self.events.start, self.events.start)

    def at(self, first: int | None, last: int | None) -> EventTrials:
        return replace(self, range=TimeRange(first, last))

    def beginning(self, most: int) -> EventTrials:
        """Search the range up to a number of its events."""
        inside = np.flatnonzero(self.in_range)
        return self if len(inside) <= most else self.at(self.range.first, int(self.events.start[inside[most]]))

    def candidates(self, query: EventQuery, most: int = MOST, exact: bool = False) -> EventCandidates:
        """Return the first candidates that the engine finds, at most a number of them. exact: raise the error that the
        query itself has if there is too much to search."""
        planned = self.bind(replace(query, returns=query.returns or ()))
        within = planned.within
        rows = self._rows(query, within)
        plan, table = self._restrict(planned, query, rows)
        records = MOST_RECORDS if exact else ROUND_RECORDS
        spec = EventPatternSpec(plan.for_workers(), table.schema, plan.step_budget, most_records=records)
        batch = self.batch(table, plan.input_columns, rows)
        matcher = spec.open()
        result = planned.result if query.returns or plan.keeps else None
        found: list[EventCandidates] = []
        count, more = 0, False
        try:
            for _, lists in matcher.matches_in(batch, END_OF_TIME):
                some = self._keep_in_range(matcher, batch, lists, rows.start, result, most - count)
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
        return _join_candidates(found, more)

    def _rows(self, query: EventQuery, within: int | None) -> slice:
        """Return the events that matches which begin in the range can depend on."""
        reach, pattern = self.range.wider(within), query.pattern
        if isinstance(pattern, (EventClass, syntax.Sequence)) and isinstance(parts_of(pattern)[0], EventClass):
            reach = replace(reach, first=self.range.first)  # nothing before its first event is part of a match
        return reach.rows(self.events.end)

    def _restrict(self, plan: EventPlan, query: EventQuery, rows: slice) -> tuple[EventPlan, pa.Table]:
        """Return the events that the plan reads. If the pattern has a first event, the plan asks it to be in range."""
        table = self.columns(plan.derived, rows)
        first = _first_event(query)
        if first is None or first not in plan.local:
            return plan, table
        table = table.append_column(IN_RANGE, pa.array(self.in_range[rows]))
        local = {**plan.local, first: (*plan.local[first], Load(IN_RANGE, Current(0), "boolean"))}
        columns = (*plan.input_columns, IN_RANGE)
        return replace(plan, local=local, input_columns=columns, types={**plan.types, IN_RANGE: "boolean"}), table

    def _keep_in_range(
        self,
        matcher: EventPatternMatcher,
        batch: EventBatch,
        found: FoundMatches,
        base: int,
        result: Result | None,
        room: int,
    ) -> EventCandidates:
        """Return those of some matches that begin in the range, with the columns of RETURN."""
        offsets, rows, variables = found.lists
        begin = offsets[:-1]
        start = np.minimum.reduceat(self.events.start[rows + base], begin)
        end = np.maximum.reduceat(self.events.end[rows + base], begin)
        which = np.flatnonzero(self.range.holds(start, start))
        values, full = None, False
        if result is None or not result.conditions:
            full, which = len(which) > room, which[:room]
        if result is not None and len(which):
            some = FoundMatches.of_lists(*_select_lists(offsets, rows, variables, which))
            matched = pa.concat_tables(matcher.output.tables(batch, some))
            holds = self._holds(result, matched)
            full = full or int(np.count_nonzero(holds)) > room
            which = which[holds][:room]
            asked = [one for one in result.columns if one.name not in (MATCH_START, MATCH_END)]
            values = self._evaluate(result, asked, matched.filter(pa.array(holds)).slice(0, room)) if asked else None
        offsets_, rows_, variables_ = _select_lists(offsets, rows, variables, which)
        called = np.array([name.split(MARK)[0] for name in matcher.plan.variables], object)
        return EventCandidates(
            start[which], end[which], full, offsets_, rows_.astype(np.int64) + base, called[variables_], values
        )

    def _holds(self, result: Result, matched: pa.Table) -> np.ndarray:
        """Test the conditions on whole matches."""
        if not result.conditions:
            return np.ones(matched.num_rows, np.bool_)
        try:
            tests = self._evaluate(result, result.conditions, matched)
        except EpisodeUnsupportedError:
            if self.keep is None:
                raise
            return self.keep(matched, [one.sql for one in result.conditions])
        return np.asarray(reduce(pc.and_, [one.fill_null(False) for one in tests.columns]))

    def _evaluate(self, result: Result, measures: Sequence[PlannedMeasure], matched: pa.Table) -> pa.Table:
        """Evaluate expressions over the output of a matcher. Raises an error if one of them needs Spark."""
        columns = [(one.name, result.scalar_column(one)) for one in measures]
        return Projection.compile(columns, matched.schema, (), self.arguments)(matched)


def _select_lists(
    offsets: np.ndarray, rows: np.ndarray, variables: np.ndarray, which: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.diff(offsets)[which]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.repeat(offsets[:-1][which] - new[:-1], lengths) + np.arange(new[-1])
    return new, rows[at], variables[at]


def _join_candidates(found: list[EventCandidates], more: bool) -> EventCandidates:
    if not found:
        nothing = np.zeros(0, np.int64)
        return EventCandidates(nothing, nothing, more, np.zeros(1, np.int64), nothing, np.zeros(0, object))
    columns = ((one.start, one.end, np.diff(one.offsets), one.rows, one.names) for one in found)
    start, end, lengths, rows, names = map(np.concatenate, zip(*columns, strict=True))
    tables = [one.values for one in found if one.values is not None]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return EventCandidates(start, end, more, offsets, rows, names, pa.concat_tables(tables) if tables else None)


def _first_event(query: EventQuery) -> str | None:
    """Return the variable of the event that begins every match, if it is a single one with a single place."""
    if not isinstance(query.pattern, (EventClass, syntax.Sequence)):
        return None
    first = next((part for part in parts_of(query.pattern) if not isinstance(part, Negation)), None)
    if not isinstance(first, EventClass):
        return None
    places = [one for one in classes_of(query.pattern) if one.variable == first.variable]
    return first.variable if len(places) == 1 else None


@dataclass(frozen=True)
class EventWords(Words):
    """Events and candidates in words. tables: if each class has its table, the columns of its events by their names
    there. keys: columns that are the same in all rows."""

    query: EventQuery
    tables: Mapping[str, Mapping[str, str]]
    keys: tuple[str, ...]

    def values(self, variable: str, row: int) -> dict[str, object]:
        """Return the columns of an event that conditions read of its variable; if they read none, its first columns."""
        columns = self._columns(variable)
        read = [
            atom.path[0]
            for condition in self.query.conditions
            for atom in event_atoms(condition)
            if isinstance(atom, EventColumn) and atom.variable.lower() == variable.lower()
        ]
        names = [columns[name.lower()] for name in dict.fromkeys(read) if name.lower() in columns]
        if not names:
            names = [one for one in columns.values() if one[1] not in (self.time_column, *self.keys)][:MOST_COLUMNS]
        return {name: self.table.column(column)[row].as_py() for name, column in names}

    def event(self, variable: str, row: int) -> str:
        """Return `B at 10:04 (v = 3)`."""
        values = list_values(self.values(variable, row))
        return f"{variable} at {self.moment(row)}{f' ({values})' if values else ''}"

    def candidate(self, events: Mapping[str, Sequence[int]]) -> str:
        """Return the events of a candidate; of a closure their number, the first and the last."""
        return join_words([self._some(name, rows) for name, rows in events.items()])

    def step(self, step: EventStep) -> str:
        """Return the part, or the condition, that a step adds."""
        if step.condition is not None:
            return step.condition.original
        assert step.part is not None
        return self.text_of(step.part)

    def text_of(self, pattern: EventPattern) -> str:
        """Return a part of the pattern as the query writes it."""
        text = self.query.source.text_at(pattern.span)
        if text:
            return " ".join(text.split())
        names = " | ".join(one.variable for one in classes_of(pattern))
        return f"!{names}" if isinstance(pattern, Negation) else names

    def _some(self, name: str, rows: Sequence[int]) -> str:
        if len(rows) == 1:
            return self.event(name, rows[0])
        return f"{len(rows):,} {name} from {self.moment(rows[0])} to {self.moment(rows[-1])}"

    def _columns(self, variable: str) -> dict[str, tuple[str, str]]:
        """Return the attributes of a variable by lower-cased name: each one's name, and its column of the table."""
        own: Mapping[str, str] = {name: name for name in self.table.column_names}
        if self.tables:
            one = next(one for one in classes_of(self.query.pattern) if one.variable.lower() == variable.lower())
            own = self.tables[one.name]
        present = set(self.table.column_names)
        return {name.lower(): (name, column) for name, column in own.items() if column in present}
