"""Reasons found by trial: the harness of event and situation patterns.

The engine searches the events of a key for candidates of a first part of the query, then of a larger part, and so on.
The first step without a candidate is the reason that nothing matches, so that an answer is what the engine does,
whatever the pattern is made of. A language adds its steps, its search, and what a step without candidates lacks.

See decision 160.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeError
from episode.lang.syntax import Duration
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image, start_image
from episode.matchers.projection import Derivation
from episode.matchers.protocol import EventBatch, InputOrder, OrderKey
from episode.matchers.spark_types import to_spark_types
from episode.plan.options import RunOptions
from episode.queries.language import Given, Input, Language
from episode.see.inspecting import Inspected
from episode.see.reasons.finding import Expectation, Finding, Words, at_least, list_values
from episode.words import plural

MOST = 10_000
"""Candidates that are counted; an answer with more begins with 'at least'."""
FOUND = 100
"""Matches that are counted, if there are some."""
WIDER = 4
"""Multiple of WITHIN that a match may take to be reported as one outside it."""
COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)

Keep = Callable[[pa.Table, Sequence[str]], np.ndarray]
"""For which rows of a matcher's output conditions hold that only Spark evaluates."""


Query = TypeVar("Query")
Plan = TypeVar("Plan")
StepT = TypeVar("StepT", bound=Any)
"""A part of a query, with what it adds to the part before: its `query` is searched by itself."""
Found = TypeVar("Found", bound="Candidates")
TrialsT = TypeVar("TrialsT")
WordsT = TypeVar("WordsT", bound=Words)


@dataclass(frozen=True)
class TimeRange:
    """Times between two integers, both included; None: no bound."""

    first: int | None = None
    last: int | None = None

    def wider(self, reach: int | None) -> TimeRange:
        """Return the range with a reach added on both sides; None: all times."""
        first = None if self.first is None or reach is None else self.first - reach
        return TimeRange(first, None if self.last is None or reach is None else self.last + reach)

    def meets(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Tell which intervals are in the range at least in part."""
        return self.holds(end, start)

    def holds(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Tell which intervals are in the range as a whole."""
        found = np.ones(len(start), np.bool_)
        if self.first is not None:
            found &= start >= self.first
        return found if self.last is None else found & (end <= self.last)

    def rows(self, times: np.ndarray) -> slice:
        """Return the rows whose times, which ascend, are in the range."""
        low = 0 if self.first is None else int(np.searchsorted(times, self.first, side="left"))
        high = len(times) if self.last is None else int(np.searchsorted(times, self.last, side="right"))
        return slice(low, max(low, high))


@dataclass(frozen=True)
class KeyEvents:
    """Events of one key in order. start, end: their times as integers. derived: columns that were computed for the
    pattern, by their SQL."""

    table: pa.Table
    start: np.ndarray
    end: np.ndarray
    derived: Mapping[str, pa.ChunkedArray]

    def take(self, rows: np.ndarray) -> KeyEvents:
        taken = pa.array(rows)
        derived = {sql: column.take(taken) for sql, column in self.derived.items()}
        return KeyEvents(self.table.take(taken), self.start[rows], self.end[rows], derived)


@dataclass(frozen=True)
class Candidates:
    """Matches of a part of the query. start, end: their times. more: there may be more than these."""

    start: np.ndarray
    end: np.ndarray
    more: bool

    def __len__(self) -> int:
        return len(self.start)

    @property
    def passes(self) -> bool:
        """Is there a candidate? If there was too much to search, there may be one."""
        return self.more or len(self) > 0

    def count(self, what: str) -> str:
        """Return `12 candidates` or `at least 10,000 candidates`."""
        return f"{at_least(len(self), self.more)} {plural(2 if self.more else len(self), what)}"

    @property
    def in_all(self) -> str:
        """Number of matches, in brackets; nothing for a single one."""
        return "" if len(self) == 1 and not self.more else f" ({self.count('match')} in all)"


@dataclass(frozen=True)
class Trials(Generic[Query, Plan]):
    """Searches of the events of one key. bind: plans a query over the input of the query that is asked about."""

    bind: Callable[[Query], Plan]
    events: KeyEvents
    arguments: Mapping[str, object]

    def columns(self, derived: Iterable[tuple[str, str]], rows: slice) -> pa.Table:
        """Return the columns of some rows. derived: (SQL, name) of those that a plan computes."""
        size = rows.stop - rows.start
        table = self.events.table.slice(rows.start, size)
        for sql, name in derived:
            known = self.events.derived.get(sql)
            if known is not None:
                table = table.append_column(name, known.slice(rows.start, size))
            else:
                table = Derivation.compile([(sql, name)], table.schema, self.arguments)(table)
        return table

    def batch(self, table: pa.Table, columns: Iterable[str], rows: slice) -> EventBatch:
        """Return some rows as a matcher is fed with them."""
        end = np.ascontiguousarray(self.events.end[rows])
        return EventBatch(table.select(list(columns)).combine_chunks(), np.zeros(table.num_rows, np.int64), end)


@dataclass(frozen=True)
class Attempt(Generic[StepT, Found]):
    """A query built up step by step. passed: the steps that have candidates, with them. failed: the first step that has
    none."""

    passed: tuple[tuple[StepT, Found], ...]
    failed: StepT | None


def try_steps(steps: Iterable[StepT], search: Callable[[Any], Found]) -> Attempt[StepT, Found]:
    """Search step by step up to the first one without candidates. A step that cannot be planned by itself is taken
    together with the next one."""
    passed: list[tuple[StepT, Found]] = []
    for step in steps:
        try:
            found = search(step.query)
        except EpisodeError:
            continue
        if not found.passes:
            return Attempt(tuple(passed), step)
        passed.append((step, found))
    return Attempt(tuple(passed), None)


def step_count(name: str, found: Candidates | None, **more: object) -> dict[str, object]:
    """Return how many candidates a step has left; None: none."""
    left, further = (0, False) if found is None else (len(found), found.more)
    return {"step": name, **more, "left": left, "at_least": further}


def tally(how: str, steps: Sequence[dict[str, object]], notes: Sequence[str]) -> Finding:
    """Report how many candidates each step has left. notes: what is added to each of them in words."""
    texts = [
        f"{one['step']}: {at_least(int(str(one['left'])), bool(one['at_least']))}{note}"
        for one, note in zip(steps, notes, strict=True)
    ]
    return Finding("steps", f"Candidates left {how}: {'; '.join(texts)}.", data={"steps": list(steps)})


def nearest_row(one: np.ndarray, other: np.ndarray, rows: int) -> int | None:
    """Return the row in which two columns of numbers differ least. rows: how many there are."""
    distance = np.broadcast_to(np.abs(one - other), rows)
    return None if np.isnan(distance).all() else int(np.nanargmin(distance))


@dataclass(frozen=True)
class Failures(Generic[TrialsT, WordsT]):
    """Findings on what keeps candidates from being a match. within: WITHIN in units of time."""

    trials: TrialsT
    words: WordsT
    within: int | None

    def late_candidate(
        self, query: Any, search: Callable[[Any], Found], opening: str, describe: Callable[[Found, int], str]
    ) -> tuple[Finding, int] | None:
        """Report the shortest candidate that takes longer than the window, and return its start. opening: how the
        sentence begins. describe: puts a candidate in words."""
        window: Duration | None = query.within
        if window is None or self.within is None or window.parameter is not None:
            return None
        try:
            found = search(replace(query, within=replace(window, amount=window.amount * WIDER)))
        except EpisodeError:
            return None
        if len(found) == 0:
            return None
        shortest = int(np.argmin(found.end - found.start))
        start = int(found.start[shortest])
        took = int(found.end[shortest]) - start
        excess = took - self.within
        if excess <= 0:
            return None
        message = f"{opening}, but outside WITHIN by {self.words.length(excess)}: {describe(found, shortest)}."
        data: dict[str, object] = {"duration": took, "within": self.within, "excess": excess}
        return Finding("window", message, window.span, count=len(found), data=data), start


@dataclass(frozen=True)
class Question(ABC, Generic[Query, Plan]):
    """A pattern that is asked about, with nothing to return. plan: of the query over its input."""

    language: ClassVar[Language[Any]]
    query: Query
    input: Input
    given: Given
    run: RunOptions
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "plan", self.bind(self.query))

    def bind(self, query: Query) -> Plan:
        """Plan a query over the same input."""
        plan: Any = self.language.bind(query, self.input, self.given, self.run)
        return plan

    @property
    @abstractmethod
    def times(self) -> tuple[str, str | None]:
        """The columns with the ends and the starts of events; None: starts are ends."""

    @abstractmethod
    def answer(self, events: KeyEvents, place: TimeRange, zone: tzinfo | None, keep: Keep | None) -> Iterable[Finding]:
        """Find out why the events of a key have no match at a place. zone: of the clock that times are shown by."""

    def times_read(self, asked: Expectation) -> tuple[Any, Any]:
        """Return the least and the greatest time of the events that an answer may depend on; None: no bound."""
        return None, None

    def findings(
        self, table: pa.Table, derived: Mapping[str, str], asked: Expectation, keep: Keep | None = None
    ) -> tuple[Finding, ...]:
        """Answer over the rows of a key, in any order. derived: columns of the table that were computed for the
        pattern, by their SQL. keep: tests the conditions that only Spark evaluates."""
        if table.num_rows == 0:
            of_key = f" with {list_values(asked.key)}" if asked.key else ""
            return (Finding("no events", f"There are no events{of_key}.", count=0),)
        end, start = self.times
        order = InputOrder((), (OrderKey(end),), needs_time=True, start=start)
        batch = events_of(to_spark_types(table), order, KeyCoder(()))
        starts = start_image(batch.table, order)
        columns = {sql: batch.table.column(name) for sql, name in derived.items()}
        given = batch.table.drop_columns(list(derived.values()))
        events = KeyEvents(given, batch.time if starts is None else starts.values, batch.time, columns)
        place = TimeRange(*(self._image(batch.table, value) for value in (asked.first, asked.last)))
        zone = getattr(asked.first if asked.first is not None else asked.last, "tzinfo", None)
        return tuple(self.answer(events, place, zone, keep))

    def _image(self, table: pa.Table, value: Any) -> int | None:
        if value is None:
            return None
        name = self.times[0]
        one = pa.table({name: pa.array([value], table.schema.field(name).type)})
        return int(order_image(one, OrderKey(name)).values[0])


Ask = Callable[[Any, Input, Given, RunOptions], Question[Any, Any]]


def ask(question_of: Ask, inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
    """Read the rows of a key, and answer over them."""
    placed, given = inspected.placed, inspected.events
    events = given.input(placed.query, placed.run)
    question = question_of(placed.query, events, given.given, placed.run)
    table = inspected.rows(asked.key, question.times_read(asked))
    return question.findings(table, dict(inspected.plan.derived), asked, inspected.keep)
