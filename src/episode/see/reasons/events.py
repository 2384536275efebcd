"""Reasons that an event pattern has no match.

The engine tries the pattern step by step over the events of the key (`event_steps`, `event_trials`), and
`event_failures` tells what the first step without candidates lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

import numpy as np

from episode.errors import EpisodeError, EpisodeUnsupportedError
from episode.lang.events.syntax import Closure, EventClass, EventQuery, Strategy
from episode.plan.events.alternatives import with_groups_between_places
from episode.plan.events.plan import EventPlan
from episode.plan.options import RunOptions
from episode.queries.language import Given, Input
from episode.queries.languages.events import EventPatterns, strategy_of
from episode.see.inspecting import Inspected
from episode.see.reasons.event_failures import EventFailures
from episode.see.reasons.event_steps import (
    COMPONENT,
    CONDITION,
    GROUP,
    EventStep,
    alternatives_of,
    is_single,
    on_single_round,
    parts_of,
    steps_of,
    with_choice,
)
from episode.see.reasons.event_trials import EventCandidates, EventTrials, EventWords
from episode.see.reasons.finding import Expectation, Finding, earlier
from episode.see.reasons.trials import (
    FOUND,
    WIDER,
    Attempt,
    Keep,
    KeyEvents,
    Question,
    TimeRange,
    ask,
    step_count,
    tally,
    try_steps,
)

FURTHER = 20_000
"""Events of the range with which a match may begin, if nothing matches: reasons are sought for these."""

EventAttempt = Attempt[EventStep, EventCandidates]


def reasons(inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
    """Find out what keeps matches from beginning in a range of time."""
    return ask(EventQuestion.of, inspected, asked)


@dataclass(frozen=True)
class EventQuestion(Question[EventQuery, EventPlan]):
    """An event pattern that is asked about. Its strategy is in the query."""

    language = EventPatterns()

    @staticmethod
    def of(query: EventQuery, events: Input, given: Given, run: RunOptions) -> EventQuestion:
        """Bind a query to its input, without anything to return."""
        if query.input.interval is not None or given.interval is not None:
            message = "why_not cannot answer for a pattern of imprecise events."
            hint = "Ask it of the pattern over one column of time."
            raise query.source.error(EpisodeUnsupportedError, message, query.source.pattern, hint)
        strategy = query.strategy or strategy_of(given.strategy) or Strategy.ANY
        query = replace(query, strategy=strategy, returns=(), collapsed=None, aggregate=None)
        given = replace(given, strategy=None)
        run = replace(run, tuning=replace(run.tuning, closure="auto", counts="exact"), correlated=False)
        return EventQuestion(query, events, given, run)

    @property
    def strategy(self) -> Strategy:
        assert self.query.strategy is not None
        return self.query.strategy

    @property
    def times(self) -> tuple[str, str | None]:
        return self.plan.times.end, self.plan.times.start

    def times_read(self, asked: Expectation) -> tuple[Any, Any]:
        within = self.plan.within
        if within is None:
            return None, None
        least = None if asked.first is None else earlier(asked.first, within * WIDER)
        return least, None if asked.last is None else earlier(asked.last, -within * WIDER)

    def answer(self, events: KeyEvents, place: TimeRange, zone: tzinfo | None, keep: Keep | None) -> Iterable[Finding]:
        tables = {name: one.columns for name, one in self.input.tables.items()}
        plan = self.plan
        words = EventWords(events.table, plan.times.end, plan.times.type, zone, self.query, tables, plan.keys)
        trials = EventTrials(self.bind, events, dict(self.run.arguments), place, keep)
        if place.first is not None and place.first == place.last and not trials.in_range.any():
            nearest = int(np.argmin(np.abs(events.start - place.first)))
            trials = trials.at(int(events.start[nearest]), int(events.start[nearest]))
            message = "No event begins at this time. What follows is about the nearest one, at"
            yield Finding("no events", f"{message} {words.moment(nearest)}.", at=words.time(nearest))
        yield from self._answer(trials, words)

    def _answer(self, trials: EventTrials, words: EventWords) -> list[Finding]:
        found = trials.candidates(self.query, FOUND, exact=True)
        if len(found):
            return [_report_match(found, words)]
        whole, trials = trials.range, trials.beginning(FURTHER)
        failures = EventFailures(trials, words, self.plan.within, self.strategy)
        answers: list[Finding] = []
        pattern = self.query.pattern
        if self.strategy is not Strategy.NEXT:
            pattern = with_groups_between_places(pattern)
        alternatives = alternatives_of(pattern)
        tallies = []
        for number, alternative in enumerate(alternatives):
            attempt = self.attempt(trials, replace(self.query, pattern=alternative))
            answers += self._failure(attempt, failures, alternative is not self.query.pattern)
            tallies.append(_tally_steps(attempt, failures, number + 1 if len(alternatives) > 1 else None))
        if not any(one.kind == "window" for one in answers):
            late = failures.outside_window(self.query, whole=True)
            answers += [] if late is None else [late]
        answers += self._matches_of_any_strategy(trials, words)
        if whole.last != trials.range.last:
            bound = f"All this is about the first {FURTHER:,} events of the range that was asked for."
            answers.append(Finding("bound", bound))
        return [*answers, *tallies]

    def attempt(self, trials: EventTrials, query: EventQuery) -> EventAttempt:
        """Find out how far a pattern without alternatives at its outside comes."""
        return try_steps(steps_of(query, self.strategy), trials.candidates)

    def _failure(self, attempt: EventAttempt, failures: EventFailures, is_alternative: bool) -> list[Finding]:
        step = attempt.failed
        last, before = attempt.passed[-1] if attempt.passed else (None, None)
        if step is None:
            return [_report_undecided(attempt, is_alternative, self.query)]
        if step.kind == COMPONENT:
            assert step.part is not None
            if not is_single(step.part):
                inner = self._failures_inside(step, failures.stretch(before), failures)
                if inner:
                    return inner
            return failures.component(step, before)
        assert last is not None
        assert before is not None
        if step.kind == CONDITION:
            return failures.condition(step, before, last.query)
        return failures.group(step, before) if step.kind == GROUP else failures.negation(step, before)

    def _failures_inside(self, step: EventStep, stretch: EventTrials, failures: EventFailures) -> list[Finding]:
        """Report what a component that is a pattern lacks, if it has no match by itself; of a closure, what one round
        lacks."""
        found: list[Finding] = []
        assert step.part is not None
        inner = replace(failures, trials=stretch)
        part, query = step.part, step.query
        if isinstance(part, Closure):
            query, part = on_single_round(query, part), part.part
        for alternative in alternatives_of(part):
            query = replace(query, pattern=alternative)
            if isinstance(alternative, EventClass):
                missing, _ = inner.missing_event(query, alternative, stretch, 1)
                if missing is None:
                    return []
                found.append(missing)
                continue
            if parts_of(alternative) == (alternative,):
                return []
            attempt = self.attempt(stretch, query)
            if attempt.failed is None:
                return []
            found += self._failure(attempt, inner, True)
        return found

    def _matches_of_any_strategy(self, trials: EventTrials, words: EventWords) -> list[Finding]:
        """Report a match that skip-till-any-match finds."""
        if self.strategy is Strategy.ANY:
            return []
        query = replace(self.query, strategy=Strategy.ANY, pattern=with_choice(self.query.pattern))
        try:
            found = trials.candidates(query)
        except EpisodeError:
            return []
        if len(found) == 0:
            return []
        number = int(np.argmin(found.end - found.start))
        events = found.events(number)
        message = f"{self.strategy.value} does not find {words.candidate(events)}; skip-till-any-match does"
        at, rows = None, found.rows_of(number)
        if self.strategy is Strategy.NEXT:
            other = self._event_taken_instead(trials, events)
            if other is not None:
                name, row, instead = other
                at, taken = words.time(instead), words.event(name, instead)
                message += f": {taken} came first and was taken in place of {words.event(name, row)}"
        else:
            between = [row for row in range(min(rows), max(rows)) if row not in rows]
            if between:
                at = words.time(between[0])
                names = [name for name, some in events.items() if min(some) > between[0]]
                shown = words.event(names[0], between[0]).removeprefix(f"{names[0]} ") if names else ""
                message += f": the event {shown} lies between"
        span = self.query.strategy_span
        data = {"strategy": self.strategy.value}
        return [Finding("strategy", f"{message}.", span if span.end > span.start else None, at, data=data)]

    def _event_taken_instead(self, trials: EventTrials, events: Mapping[str, list[int]]) -> tuple[str, int, int] | None:
        """Return the first event of a match that skip-till-next-match does not take: its variable, its row, and the row
        that is taken."""
        first = min(row for rows in events.values() for row in rows)
        for step, _ in self.attempt(trials, self.query).passed:
            found = trials.candidates(step.query)
            runs = [
                one for one in map(found.events, range(min(len(found), FOUND))) if first in min(one.values(), key=min)
            ]
            for name in runs[0] if runs else {}:
                taken = [rows for one in runs for rows in one.get(name, [])]
                mine = events.get(name, [])
                if taken and mine and not set(taken) & set(mine):
                    return name, mine[0], taken[0]
        return None


def _report_match(found: EventCandidates, words: EventWords) -> Finding:
    number = int(np.argmin(found.start))
    events = found.events(number)
    row = min(row for rows in events.values() for row in rows)
    data: dict[str, object] = {
        "events": {name: [words.time(row) for row in rows] for name, rows in events.items()},
        "at_least": found.more,
    }
    message = f"There is a match: {words.candidate(events)}{found.in_all}."
    return Finding("found", message, at=words.time(row), count=len(found), data=data)


def _report_undecided(attempt: EventAttempt, is_alternative: bool, query: EventQuery) -> Finding:
    """Report that every step has candidates, as far as they were searched."""
    if is_alternative and not any(found.more and len(found) == 0 for _, found in attempt.passed):
        message = "This alternative would match by itself, but another one takes its events first."
        return Finding("strategy", message, attempt.passed[-1][0].query.pattern.span)
    message = (
        "There is no match, but too many combinations of events to find the part of the pattern that none satisfies."
    )
    return Finding("bound", message, query.source.pattern)


def _tally_steps(attempt: EventAttempt, failures: EventFailures, number: int | None) -> Finding:
    """Report what each step has left, and how many events are of the class of a component and qualify by themselves."""
    steps, notes = list[dict[str, object]](), list[str]()
    before: EventCandidates | None = None
    tried = [*attempt.passed, *([] if attempt.failed is None else [(attempt.failed, None)])]
    for step, found in tried:
        one, note = step_count(failures.words.step(step), found, kind=step.kind), ""
        if step.kind == COMPONENT and isinstance(step.part, EventClass):
            events = failures.numbers(step.query, step.part, failures.stretch(before))
            one["events"], one["qualifying"], some = events
            note = f" (of {some})"
        steps.append(one)
        notes.append(note)
        before = found
    return tally(f"step by step{'' if number is None else f' of alternative {number}'}", steps, notes)
