"""Reasons that a situation pattern has no match.

First the situations one by one: is each of them there, and does it last as long as it must? Then the relations: the
engine matches one constraint after the other, and the first with which it finds nothing is the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import NamedTuple

from episode.lang.situations.syntax import Constraint, SituationQuery
from episode.plan.run_options import RunOptions
from episode.queries.inspecting import Inspected
from episode.queries.language import Given, Input
from episode.queries.languages.situations import BoundSituationPattern, SituationPatterns
from episode.queries.reasons.finding import Expectation, Finding
from episode.queries.reasons.situation_failures import SituationFailures
from episode.queries.reasons.situation_trials import SituationTrials, SituationWords, runs_of
from episode.queries.reasons.trials import (
    FOUND,
    Keep,
    KeyEvents,
    Question,
    TimeRange,
    ask,
    step_count,
    tally,
    try_steps,
)


def reasons(inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
    """Find out what keeps matches from being in a range of time: from the start of one to when it is detected."""
    return ask(SituationQuestion.of, inspected, asked)


class ConstraintStep(NamedTuple):
    """A constraint, in a query with the constraints before it and the situations that they are about."""

    query: SituationQuery
    constraint: Constraint


def steps_of(query: SituationQuery) -> Iterator[ConstraintStep]:
    """Build up the query constraint by constraint, each next to those before it if possible."""
    left, taken = list(query.constraints), list[Constraint]()
    while left:
        symbols = {symbol for one in taken for symbol in (one.left, one.right)}
        following = next((one for one in left if {one.left, one.right} & symbols), left[0])
        left.remove(following)
        taken.append(following)
        symbols |= {following.left, following.right}
        definitions = tuple(one for one in query.definitions if one.symbol in symbols)
        yield ConstraintStep(replace(query, definitions=definitions, constraints=tuple(taken)), following)


@dataclass(frozen=True)
class SituationQuestion(Question[SituationQuery, BoundSituationPattern]):
    """A situation pattern that is asked about."""

    language = SituationPatterns()

    @staticmethod
    def of(query: SituationQuery, events: Input, given: Given, run: RunOptions) -> SituationQuestion:
        """Bind a query to its input, without anything to return."""
        return SituationQuestion(replace(query, returns=()), events, given, run)

    @property
    def times(self) -> tuple[str, str | None]:
        return self.bound.plan.time, None

    def answer(self, events: KeyEvents, place: TimeRange, zone: tzinfo | None, keep: Keep | None) -> Iterator[Finding]:
        plan = self.bound.plan
        words = SituationWords(events.table, plan.time, plan.time_type, zone, self.query, events.end)
        trials = SituationTrials(self.bind, events, dict(self.run.arguments), ())
        every = slice(0, len(events.end))
        batch = trials.batch(trials.columns(plan.derived, every), plan.input_columns, every)
        trials = replace(trials, runs=runs_of(plan, batch))
        found = trials.candidates(self.query, place, whole=False, most=FOUND)
        if len(found):
            yield words.report_match(found)
            return
        failures = SituationFailures(trials, words, plan.within, plan, place.wider(plan.within))
        missing = [one for number in range(len(self.query.definitions)) for one in failures.situation(number)]
        yield from missing or self._relations(failures, place)

    def _relations(self, failures: SituationFailures, place: TimeRange) -> list[Finding]:
        """Report the first constraint with which nothing is left."""
        attempt = try_steps(
            steps_of(self.query), lambda query: failures.trials.candidates(query, failures.around, whole=True)
        )
        passed, words = attempt.passed, failures.words
        steps = [step_count(words.constraint(step.constraint), found) for step, found in passed]
        if attempt.failed is None:
            answers = [words.report_elsewhere(passed[-1][1], place)]
        else:
            answers = failures.relation(*attempt.failed, passed[-1][1] if passed else None)
            steps.append(step_count(words.constraint(attempt.failed.constraint), None))
        if not any(one.kind == "window" for one in answers):
            answers += failures.outside_window(self.query, place, "Found")
        return [*answers, tally("constraint by constraint", steps, [""] * len(steps))]
