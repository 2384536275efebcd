"""What the attempts of a row pattern came to, start row by start row: the matcher's matches, and the ways explored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from episode.lang.rows.syntax import MatchMode
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.exploring import WINDOW, Explorer, FailedWay, Path, instructions_of
from episode.matchers.rows.made import Made, RowMatch, Tried, matches_of, tried_by
from episode.matchers.rows.readings import Reading, Readings
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.rows.conjuncts import Conjunct
from episode.plan.rows.plan import RowPatternPlan

MOST_WAYS = 4
"""So many other ways through the pattern are looked for, where one of them is a match,"""
FEW_STEPS = 500
"""in so many steps."""


@dataclass(frozen=True)
class Attempt:
    """What was found from one start row.

    matches: those that the query has. others: ways through the pattern that are none of them. accepted: a way through
    the pattern that is no match, because of `skipped_by`, or because `ended_by` has the same last row. failures: those
    at the last row that was looked at; refused: by label the farthest failure of its condition, and how many there
    were. too_long: a way through the pattern that only WITHIN forbids, the shortest. empty: is there an
    empty match, which INCREMENTAL MATCH does not report? complete: was all looked at?
    """

    start: int
    number: int
    matches: tuple[RowMatch, ...] = ()
    others: tuple[RowMatch, ...] = ()
    accepted: tuple[RowMatch, ...] = ()
    failures: tuple[FailedWay, ...] = ()
    refused: tuple[tuple[FailedWay, int], ...] = ()
    too_long: RowMatch | None = None
    empty: bool = False
    skipped_by: RowMatch | None = None
    ended_by: RowMatch | None = None
    steps: int = 0
    complete: bool = True


@dataclass(frozen=True)
class Outcomes:
    """Makes attempts, and looks at their conditions."""

    plan: RowPatternPlan
    explorer: Explorer
    readings: Readings

    def found(self, start: int, number: int, matches: Sequence[RowMatch], steps: int) -> Attempt:
        """A start row with matches: which other ways through the pattern are there?"""
        explored = self.explorer.explore(start, number, steps, ways=MOST_WAYS + len(matches), alike=True)
        known = {self._labels(match) for match in matches}
        others: dict[tuple[str, ...], RowMatch] = {}
        for _, path in explored.accepted:
            match = _match(start, path)
            others.setdefault(self._labels(match), match)
        left = tuple(match for labels, match in others.items() if labels not in known and labels)
        return Attempt(start, number, tuple(matches), left, steps=explored.steps)

    def explored(self, start: int, number: int, steps: int) -> Attempt:
        """A start row without a match: how far do the ways from it lead?"""
        incremental = self.plan.rules.mode is MatchMode.INCREMENTAL
        explored = self.explorer.explore(start, number, steps, ways=steps if incremental else 1)
        if not explored.complete and not explored.failures:
            # A loop that takes very many rows: what would come after it has not been tried yet.
            spent, explored = explored.steps, self.explorer.explore(start, number, steps, reluctant=True)
            explored = replace(explored, steps=explored.steps + spent, complete=False)
        accepted = [path for depth, path in explored.accepted if depth or not incremental]
        too_long, spent = None, explored.steps
        if not accepted and any(kind == WINDOW for kind, _ in explored.failures):
            beyond = self.explorer.explore(start, number, max(0, steps - spent), windowed=False, shortest=True)
            spent += beyond.steps
            too_long = _match(start, beyond.accepted[0][1]) if beyond.accepted else None
        return Attempt(
            start,
            number,
            accepted=tuple(_match(start, path) for path in accepted),
            failures=tuple(explored.failures.values()),
            refused=tuple(explored.refused.values()),
            too_long=too_long,
            empty=len(accepted) < len(explored.accepted),
            steps=spent,
            complete=explored.complete,
        )

    def readings_at(self, attempt: Attempt, failure: FailedWay) -> list[Reading]:
        """What the conjuncts of the label say of the row that was not taken."""
        trial = self.readings.trial
        trial.begin(attempt.start, attempt.number)
        for instruction in (*instructions_of(failure.path), failure.instruction):
            trial.take(instruction)
        return self.readings.at_last_row(self.label(failure.instruction))

    def label(self, instruction: int) -> str:
        return self.plan.program.instructions[instruction].label

    def _labels(self, match: RowMatch) -> tuple[str, ...]:
        return tuple(self.label(instruction) for instruction in match.instructions)


@dataclass(frozen=True)
class RowAttempts:
    """The attempts over the rows of one key. made: the matches of the query; tried: what it made of start rows."""

    plan: RowPatternPlan
    made: Made
    tried: Tried
    outcomes: Outcomes

    @staticmethod
    def of(
        spec: RowPatternSpec,
        plan: RowPatternPlan,
        events: EventBatch,
        conjuncts: Mapping[str, tuple[Conjunct, ...]],
    ) -> RowAttempts:
        """Match the events, which are all of one key."""
        made = matches_of(spec, events)
        readings = Readings(plan, events, conjuncts)
        outcomes = Outcomes(plan, Explorer.of(readings.trial), readings)
        return RowAttempts(plan, made, tried_by(spec, events, made), outcomes)

    def promising(self, starts: np.ndarray) -> np.ndarray:
        """Start rows that offer a first label of the pattern, and then the others."""
        trial = self.outcomes.explorer.trial
        offers = (trial.bits[starts] & trial.program.first_bits) != 0
        return starts if trial.program.nullable else np.concatenate([starts[offers], starts[~offers]])

    def attempt(self, start: int, steps: int) -> Attempt:
        """What became of a start row, explored in at most so many steps."""
        number = self.made.before(start)
        matches = self.made.beginning_at(start)
        if matches:
            return self.outcomes.found(start, number, matches, min(steps, FEW_STEPS))
        attempt = self.outcomes.explored(start, number, steps)
        if not attempt.accepted:
            return attempt
        attempt = replace(attempt, skipped_by=self.tried.skipped_by(start))
        if attempt.skipped_by is None and self.plan.rules.mode is MatchMode.INCREMENTAL:
            attempt = replace(attempt, ended_by=self.made.ending_at(start + attempt.accepted[0].length - 1))
        return attempt


def _match(start: int, path: Path) -> RowMatch:
    return RowMatch(start, tuple(instructions_of(path)))
