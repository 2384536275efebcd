"""Attempts of a row pattern, start row by start row: the matches of the matcher, and the ways explored."""

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
"""Other ways through the pattern that are searched for, if one of them is a match."""
FEW_STEPS = 500
"""Steps of that search."""


@dataclass(frozen=True)
class RowAttempt:
    """Ways through the pattern from one start row.

    matches: those of the query. others: ways that are not among them. accepted: a way that is not a match, because of
    `skipped_by`, or because `ended_by` has the same last row. failures: at the last row that was reached; refused: by
    label the farthest failure of its condition, and how many there were. too_long: the shortest way that only WITHIN
    forbids. empty: is there an empty match, which INCREMENTAL MATCH does not report? complete: was everything searched?
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
class RowExploration:
    """Explores start rows, and evaluates the conditions at which an attempt failed."""

    plan: RowPatternPlan
    explorer: Explorer
    readings: Readings

    def explore_further(self, start: int, number: int, matches: Sequence[RowMatch], steps: int) -> RowAttempt:
        """Search for other ways from a start row that has matches."""
        explored = self.explorer.explore(start, number, steps, ways=MOST_WAYS + len(matches), alike=True)
        known = {self._labels(match) for match in matches}
        others: dict[tuple[str, ...], RowMatch] = {}
        for _, path in explored.accepted:
            match = _match(start, path)
            others.setdefault(self._labels(match), match)
        left = tuple(match for labels, match in others.items() if labels not in known and labels)
        return RowAttempt(start, number, tuple(matches), left, steps=explored.steps)

    def explore(self, start: int, number: int, steps: int) -> RowAttempt:
        """Find out how far the ways from a start row without a match lead."""
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
        return RowAttempt(
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

    def readings_at(self, attempt: RowAttempt, failure: FailedWay) -> list[Reading]:
        """Evaluate the conjuncts of a label at the row that was not taken."""
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
    """Attempts over the rows of one key. made: the matches of the query; tried: the start rows that it tried."""

    plan: RowPatternPlan
    made: Made
    tried: Tried
    exploration: RowExploration

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
        exploration = RowExploration(plan, Explorer.of(readings.trial), readings)
        return RowAttempts(plan, made, tried_by(spec, events, made), exploration)

    def by_promise(self, starts: np.ndarray) -> np.ndarray:
        """Return start rows that offer a first label of the pattern, and then the others."""
        trial = self.exploration.explorer.trial
        offers = (trial.bits[starts] & trial.program.first_bits) != 0
        return starts if trial.program.nullable else np.concatenate([starts[offers], starts[~offers]])

    def attempt(self, start: int, steps: int) -> RowAttempt:
        """Explore a start row, in at most a number of steps."""
        number = self.made.before(start)
        matches = self.made.beginning_at(start)
        if matches:
            return self.exploration.explore_further(start, number, matches, min(steps, FEW_STEPS))
        attempt = self.exploration.explore(start, number, steps)
        if not attempt.accepted:
            return attempt
        attempt = replace(attempt, skipped_by=self.tried.skipped_by(start))
        if attempt.skipped_by is None and self.plan.rules.mode is MatchMode.INCREMENTAL:
            attempt = replace(attempt, ended_by=self.made.ending_at(start + attempt.accepted[0].length - 1))
        return attempt


def _match(start: int, path: Path) -> RowMatch:
    return RowMatch(start, tuple(instructions_of(path)))
