"""Why an event pattern has no match at a place.

The engine tries the pattern step by step over the events of the key (`event_steps`, `event_trials`): the first step for
which it finds no candidate is the reason, and `event_failures` says what it lacks. So what is said is what the engine
does, whatever the pattern is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeError, EpisodeUnsupportedError
from episode.lang.events.syntax import Closure, EventClass, EventQuery, Strategy
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image, start_image
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.spark_types import retyped
from episode.plan.events.names import with_groups_between_places
from episode.plan.run_options import RunOptions
from episode.queries.inspecting import Inspected
from episode.queries.language import Given, Input
from episode.queries.languages.events import BoundEventPattern, EventPatterns, strategy_of
from episode.queries.reasons.event_failures import FURTHER, WIDER, Failures
from episode.queries.reasons.event_steps import (
    COMPONENT,
    CONDITION,
    GROUP,
    Step,
    alternatives_of,
    choosing,
    is_single,
    of_one_round,
    parts_of,
    steps_of,
)
from episode.queries.reasons.event_trials import Candidates, Events, Keep, Trials
from episode.queries.reasons.event_words import Words
from episode.queries.reasons.finding import Asked, Finding
from episode.queries.reasons.times import earlier
from episode.queries.reasons.wording import counted, no_events

FOUND = 100
"""Matches that are counted where there are some."""


def reasons(inspected: Inspected, asked: Asked) -> tuple[Finding, ...]:
    """What keeps matches from beginning in a range of time."""
    placed, frame = inspected.placed, inspected.events.frame
    query = placed.query
    question = Question.of(
        query, inspected.events.input(frame.sparkSession, query, placed.run), inspected.events.given, placed.run
    )
    table = inspected.rows(asked.key, question.times_read(asked))

    def keep(matched: pa.Table, conditions: Sequence[str]) -> np.ndarray:
        from episode.spark.kept_matches import kept_matches

        return kept_matches(frame.sparkSession, matched, conditions, placed.run.arguments)

    return question.findings(table, dict(inspected.bound.derived), inspected.keys, asked, keep)


@dataclass(frozen=True)
class Attempt:
    """A pattern built up step by step. passed: the steps that have candidates, with them. failed: the first one that
    has none."""

    passed: tuple[tuple[Step, Candidates], ...]
    failed: Step | None


@dataclass(frozen=True)
class Question:
    """An event pattern that is asked about, bound to its input: its strategy is in the query; nothing is returned."""

    query: EventQuery
    input: Input
    given: Given
    run: RunOptions
    bound: BoundEventPattern

    @staticmethod
    def of(query: EventQuery, events: Input, given: Given, run: RunOptions) -> Question:
        if query.input.interval is not None or given.interval is not None:
            raise query.source.error(
                EpisodeUnsupportedError,
                "why_not cannot answer for a pattern of imprecise events.",
                query.source.pattern,
                "Ask it of the pattern over one column of time.",
            )
        strategy = query.strategy or strategy_of(given.strategy) or Strategy.ANY
        query = replace(query, strategy=strategy, returns=(), collapsed=None, aggregate=None)
        given = replace(given, strategy=None)
        run = replace(run, closure="auto", collapsed=False, exact=True, correlated=False)
        bound = EventPatterns().bind(query, events, given, run)
        assert isinstance(bound, BoundEventPattern)
        return Question(query, events, given, run, bound)

    @property
    def strategy(self) -> Strategy:
        assert self.query.strategy is not None
        return self.query.strategy

    def bind(self, query: EventQuery) -> BoundEventPattern:
        """Another query over the same input."""
        bound = EventPatterns().bind(query, self.input, self.given, self.run)
        assert isinstance(bound, BoundEventPattern)
        return bound

    def times_read(self, asked: Asked) -> tuple[Any, Any]:
        """The times of the events that an answer may depend on."""
        within = self.bound.plan.within
        if within is None:
            return None, None
        least = None if asked.first is None else earlier(asked.first, within * WIDER)
        return least, None if asked.last is None else earlier(asked.last, -within * WIDER)

    def findings(
        self,
        table: pa.Table,
        derived: Mapping[str, str],
        keys: tuple[str, ...],
        asked: Asked,
        keep: Keep | None = None,
    ) -> tuple[Finding, ...]:
        """table: the rows of the key, in any order. derived: columns in it that were computed for the pattern, by their
        SQL. keep: tests the conditions that only Spark evaluates."""
        if table.num_rows == 0:
            return (no_events(asked.key),)
        times = self.bound.plan.times
        order = InputOrder((), (OrderKey(times.end),), needs_time=True, start=times.start)
        batch = events_of(retyped(table), order, KeyCoder(()))
        starts = start_image(batch.table, order)
        first, last = (self._image(batch.table, value) for value in (asked.first, asked.last))
        columns = {sql: batch.table.column(name) for sql, name in derived.items()}
        plain = batch.table.drop_columns(list(derived.values()))
        start = batch.time if starts is None else starts.values
        events = Events(plain, start, batch.time, first, last, columns)
        zone = getattr(asked.first if asked.first is not None else asked.last, "tzinfo", None)
        tables = {name: one.columns for name, one in self.input.tables.items()}
        words = Words(self.query, plain, times.end, times.type, tables, keys, zone)
        said: list[Finding] = []
        if first is not None and first == last and not events.in_range.any():
            nearest = int(np.argmin(np.abs(events.start - first)))
            events = events.asked_at(int(events.start[nearest]), int(events.start[nearest]))
            message = (
                f"No event begins at this time. What follows is about the nearest one, at {words.moment(nearest)}."
            )
            said = [Finding("no events", message, at=words.time(nearest))]
        return (*said, *self._answer(Trials(self.bind, events, dict(self.run.arguments), keep), words))

    def _image(self, table: pa.Table, value: Any) -> int | None:
        """A time as an integer."""
        if value is None:
            return None
        name = self.bound.plan.times.end
        one = pa.table({name: pa.array([value], table.schema.field(name).type)})
        return int(order_image(one, OrderKey(name)).values[0])

    def _answer(self, trials: Trials, words: Words) -> list[Finding]:
        found = trials.candidates(self.query, FOUND, exact=True)
        if len(found):
            return [_found(found, words)]
        whole, trials = trials.events, trials.over(trials.events.beginning(FURTHER))
        failures = Failures(trials, self.strategy, self.bound.plan.within, words)
        answers: list[Finding] = []
        pattern = self.query.pattern
        if self.strategy is not Strategy.NEXT:
            pattern = with_groups_between_places(pattern)
        alternatives = alternatives_of(pattern)
        tallies = []
        for number, alternative in enumerate(alternatives):
            attempt = self.attempt(trials, replace(self.query, pattern=alternative))
            answers += self._failure(attempt, failures, alternative is not self.query.pattern)
            tallies.append(_tally(attempt, failures, number + 1 if len(alternatives) > 1 else None))
        if not any(one.kind == "window" for one in answers):
            late = failures.outside_window(self.query, whole=True)
            answers += [] if late is None else [late]
        answers += self._by_another_strategy(trials, words)
        if whole.last != trials.events.last:
            answers.append(
                Finding("bound", f"All this is about the first {FURTHER:,} events of the range that was asked for.")
            )
        return [*answers, *tallies]

    def attempt(self, trials: Trials, query: EventQuery) -> Attempt:
        """How far a pattern without alternatives at its outside comes. A step that cannot be planned by itself is taken
        with the next one."""
        passed: list[tuple[Step, Candidates]] = []
        for step in steps_of(query, self.strategy):
            try:
                found = trials.candidates(step.query)
            except EpisodeError:
                continue
            if not found.passes:
                return Attempt(tuple(passed), step)
            passed.append((step, found))
        return Attempt(tuple(passed), None)

    def _failure(self, attempt: Attempt, failures: Failures, is_alternative: bool) -> list[Finding]:
        step = attempt.failed
        last, before = attempt.passed[-1] if attempt.passed else (None, None)
        if step is None:
            return [_undecided(attempt, is_alternative, self.query)]
        if step.kind == COMPONENT:
            assert step.part is not None
            if not is_single(step.part):
                inner = self._inside(step, failures.stretch(before), failures)
                if inner:
                    return inner
            return failures.component(step, before)
        assert last is not None
        assert before is not None
        if step.kind == CONDITION:
            return failures.condition(step, before, last.query)
        return failures.group(step, before) if step.kind == GROUP else failures.negation(step, before)

    def _inside(self, step: Step, stretch: Trials, failures: Failures) -> list[Finding]:
        """Of a component that is a pattern itself: what it lacks, if it has no match by itself; of a closure, what one
        round lacks."""
        found: list[Finding] = []
        assert step.part is not None
        inner = replace(failures, trials=stretch)
        part, query = step.part, step.query
        if isinstance(part, Closure):
            query, part = of_one_round(query, part), part.part
        for alternative in alternatives_of(part):
            query = replace(query, pattern=alternative)
            if isinstance(alternative, EventClass):
                lacking, _ = inner.lacking(query, alternative, stretch, 1)
                if lacking is None:
                    return []
                found.append(lacking)
                continue
            if parts_of(alternative) == (alternative,):
                return []
            attempt = self.attempt(stretch, query)
            if attempt.failed is None:
                return []
            found += self._failure(attempt, inner, True)
        return found

    def _by_another_strategy(self, trials: Trials, words: Words) -> list[Finding]:
        """What matches where any events may be passed over."""
        if self.strategy is Strategy.ANY:
            return []
        query = replace(self.query, strategy=Strategy.ANY, pattern=choosing(self.query.pattern))
        try:
            found = trials.candidates(query)
        except EpisodeError:
            return []
        if len(found) == 0:
            return []
        number = int(np.argmin(found.end - found.start))
        events = found.events(number)
        message = f"{self.strategy.value} does not find {words.candidate(events)}; skip-till-any-match does"
        at, data = None, {"strategy": self.strategy.value}
        rows = found.rows_of(number)
        if self.strategy is Strategy.NEXT:
            other = self._taken_instead(trials, events)
            if other is not None:
                name, row, instead = other
                at = words.time(instead)
                message += (
                    f": {words.event(name, instead)} came first and was taken in place of {words.event(name, row)}"
                )
        else:
            between = [row for row in range(min(rows), max(rows)) if row not in rows]
            if between:
                at = words.time(between[0])
                names = [name for name, some in events.items() if min(some) > between[0]]
                shown = words.event(names[0], between[0]).removeprefix(f"{names[0]} ") if names else ""
                message += f": the event {shown} lies between"
        span = self.query.strategy_span
        return [Finding("strategy", f"{message}.", span if span.end > span.start else None, at, data=data)]

    def _taken_instead(self, trials: Trials, events: Mapping[str, list[int]]) -> tuple[str, int, int] | None:
        """The first event of a match that skip-till-next-match does not take: its variable, its row, what is taken."""
        first = min(row for rows in events.values() for row in rows)
        for step, _ in self.attempt(trials, self.query).passed:
            found = trials.candidates(step.query)
            runs = [
                one for one in map(found.events, range(min(len(found), FOUND))) if first in one.get(_first(one), [])
            ]
            for name in runs[0] if runs else {}:
                taken = [rows for one in runs for rows in one.get(name, [])]
                mine = events.get(name, [])
                if taken and mine and not set(taken) & set(mine):
                    return name, mine[0], taken[0]
        return None


def _first(events: Mapping[str, list[int]]) -> str:
    """The variable of the first event."""
    return min(events, key=lambda name: min(events[name]))


def _found(found: Candidates, words: Words) -> Finding:
    number = int(np.argmin(found.start))
    events = found.events(number)
    row = min(row for rows in events.values() for row in rows)
    many = (
        "" if len(found) == 1 and not found.more else f" ({counted(len(found), found.more, 'match', 'matches')} in all)"
    )
    data: dict[str, object] = {
        "events": {name: [words.time(row) for row in rows] for name, rows in events.items()},
        "at_least": found.more,
    }
    message = f"There is a match: {words.candidate(events)}{many}."
    return Finding("found", message, at=words.time(row), count=len(found), data=data)


def _undecided(attempt: Attempt, is_alternative: bool, query: EventQuery) -> Finding:
    """Every step has candidates, as far as they were searched."""
    if is_alternative and not any(found.more and len(found) == 0 for _, found in attempt.passed):
        message = "This alternative would match by itself, but another one takes its events first."
        return Finding("strategy", message, attempt.passed[-1][0].query.pattern.span)
    message = "There is no match, but too many combinations of events to say which part of the pattern none satisfies."
    return Finding("bound", message, query.source.pattern)


def _tally(attempt: Attempt, failures: Failures, number: int | None) -> Finding:
    """What was left after each step; of components also how many events are of the class and qualify by themselves."""
    steps: list[dict[str, object]] = []
    words, lines = failures.words, []
    tried = [*attempt.passed, *([] if attempt.failed is None else [(attempt.failed, None)])]
    for place, (step, found) in enumerate(tried):
        left, more = (0, False) if found is None else (len(found), found.more)
        one: dict[str, object] = {"step": _named(step, words), "kind": step.kind, "left": left, "at_least": more}
        text = f"{one['step']}: {'at least ' if more else ''}{left:,}"
        if step.kind == COMPONENT and isinstance(step.part, EventClass):
            stretch = failures.stretch(tried[place - 1][1] if place else None)
            one["events"], one["qualifying"], some = failures.numbers(step.query, step.part, stretch)
            text += f" (of {some})"
        steps.append(one)
        lines.append(text)
    which = "" if number is None else f" of alternative {number}"
    return Finding("steps", f"Candidates left step by step{which}: {'; '.join(lines)}.", data={"steps": steps})


def _named(step: Step, words: Words) -> str:
    if step.condition is not None:
        return step.condition.original
    assert step.part is not None
    return words.written(step.part)
