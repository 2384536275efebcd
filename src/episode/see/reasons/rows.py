"""Reasons that a row pattern has no match: the attempts that begin at a place, and what ended each of them.

The matches of the key are those of the matcher itself, run in this process. Attempts that found none are made again,
step by step, with the same conditions (`matchers.rows.explorer`); the findings are about these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.lang.rows.syntax import MatchMode, MatchRecognize
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.explorer import WINDOW, Explorer, FailedWay, Path, instructions_of
from episode.matchers.rows.matches import PartitionMatches, RowMatch, TriedStarts, find_tried_starts, matches_of
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.rows.stepwise import ConjunctReading, ConjunctReadings
from episode.plan.expressions import Load
from episode.plan.rows.conditions import LabelConjunct, plan_conjuncts
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import END
from episode.plan.types import is_event_time
from episode.see.inspecting import Inspected
from episode.see.reasons.finding import Expectation, Finding, later
from episode.see.reasons.row_words import RowWords, clock_value

Conjuncts = Mapping[str, tuple[LabelConjunct, ...]]
"""The parts of the conditions of labels."""
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
class RowAttempts:
    """Attempts over the rows of one key. made: the matches of the query; tried: the start rows that it tried. readings:
    the conditions at which attempts fail."""

    plan: RowPatternPlan
    made: PartitionMatches
    tried: TriedStarts
    explorer: Explorer
    readings: ConjunctReadings

    @staticmethod
    def of(spec: RowPatternSpec, plan: RowPatternPlan, events: EventBatch, conjuncts: Conjuncts) -> RowAttempts:
        """Match the events, which are all of one key."""
        made = matches_of(spec, events)
        readings = ConjunctReadings(plan, events, conjuncts)
        return RowAttempts(plan, made, find_tried_starts(spec, events, made), Explorer.of(readings.trial), readings)

    def by_promise(self, starts: np.ndarray) -> np.ndarray:
        """Return start rows that offer a first label of the pattern, and then the others."""
        trial = self.explorer.trial
        offers = (trial.bits[starts] & trial.program.first_bits) != 0
        return starts if trial.program.nullable else np.concatenate([starts[offers], starts[~offers]])

    def attempt(self, start: int, steps: int) -> RowAttempt:
        """Explore a start row, in at most a number of steps."""
        number = self.made.before(start)
        matches = self.made.beginning_at(start)
        if matches:
            return self.explore_further(start, number, matches, min(steps, FEW_STEPS))
        attempt = self.explore(start, number, steps)
        if not attempt.accepted:
            return attempt
        attempt = replace(attempt, skipped_by=self.tried.skipped_by(start))
        if attempt.skipped_by is None and self.plan.settings.mode is MatchMode.INCREMENTAL:
            attempt = replace(attempt, ended_by=self.made.ending_at(start + attempt.accepted[0].length - 1))
        return attempt

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
        incremental = self.plan.settings.mode is MatchMode.INCREMENTAL
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

    def readings_at(self, attempt: RowAttempt, failure: FailedWay) -> list[ConjunctReading]:
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


def _match(start: int, path: Path) -> RowMatch:
    return RowMatch(start, tuple(instructions_of(path)))


MOST_STARTS = 5_000
"""Start rows that are tried."""
MOST_STEPS = 80_000
"""Steps of all attempts together."""


def reasons(inspected: Inspected, asked: Expectation) -> tuple[Finding, ...]:
    """Find out how far the attempts that begin at the asked place came, and what ended them."""
    plan: Any = inspected.plan
    clause, events = inspected.placed.query, inspected.events
    schema = replace(events.input(clause, inspected.placed.run).schema, names=events.names)
    conjuncts = plan_conjuncts(clause, schema, plan)
    between = (None, _read_until(plan, asked))
    read = [one.value for parts in conjuncts.values() for part in parts for one in part.values]
    reported = dict.fromkeys(one.column for one in read if isinstance(one, Load))  # the matcher may not need these
    table = inspected.rows(asked.key, between, [name for name in reported if name in schema.columns])
    return reasons_over(clause, plan, conjuncts, table, asked, inspected.source.zone, live=inspected.live)


def _read_until(plan: RowPatternPlan, asked: Expectation) -> Any:
    """Return the last time whose rows can matter: twice the window, to see matches that are a little too long."""
    anchored = any(instruction.operation == END for instruction in plan.program.instructions)
    if plan.within is None or asked.last is None or anchored or plan.lookahead or not plan.order[0].ascending:
        return None
    return later(asked.last, 2 * plan.within) if is_event_time(plan.types[plan.order[0].column]) else None


def reasons_over(
    clause: MatchRecognize,
    plan: RowPatternPlan,
    conjuncts: Conjuncts,
    table: pa.Table,
    asked: Expectation,
    zone: str | None = None,
    *,
    live: bool = False,
    most_starts: int = MOST_STARTS,
    most_steps: int = MOST_STEPS,
) -> tuple[Finding, ...]:
    """Answer over the rows of one key. zone: of the clock that times are shown by. live: may further rows come?
    most_starts, most_steps: of the attempts; the answer tells if they are not enough."""
    spec = RowPatternSpec(plan.for_workers(), table.schema, plan.step_budget)
    events = events_of(table, spec.input_order, KeyCoder(spec.input_order.keys))
    if len(events) == 0:
        of_key = ", ".join(f"{name} = {clock_value(value)}" for name, value in asked.key.items())
        there = f"There are no rows{f' with {of_key}' if of_key else ''}"
        return (Finding("no rows", f"{there} up to the asked place." if asked.last is not None else f"{there}."),)
    attempts = RowAttempts.of(spec, plan, events, conjuncts)
    words = RowWords(clause, plan, events, attempts, zone, live)
    starts, notes = _starts(plan, events, asked, words)
    return (*notes, *_findings(attempts, starts, words, most_starts, most_steps))


def _starts(
    plan: RowPatternPlan, events: EventBatch, asked: Expectation, words: RowWords
) -> tuple[np.ndarray, list[Finding]]:
    """Return the rows at the asked place; if a single time has none, the nearest one, with a finding."""
    if not plan.order or (asked.first is None and asked.last is None):
        return np.arange(len(events)), []
    column = events.table.column(plan.order[0].column)

    def holds(compare: Any, value: Any) -> np.ndarray:
        return np.asarray(compare(column, pa.scalar(value, column.type)).fill_null(False))

    inside = np.ones(len(events), np.bool_)
    for value, compare in ((asked.first, pc.greater_equal), (asked.last, pc.less_equal)):
        if value is not None:
            inside &= holds(compare, value)
    found = np.flatnonzero(inside)
    if len(found):
        return found, []
    place = asked.first if asked.first is not None else asked.last
    before, after = (np.flatnonzero(holds(compare, place)) for compare in (pc.less, pc.greater))
    if not plan.order[0].ascending:
        before, after = before[:1], after[-1:]
    near = [*(int(row) for row in before[-1:]), *(int(row) for row in after[:1])]
    alone = asked.first is not None and asked.first == asked.last
    nearest = words.nearest(near, place) if alone else None
    return np.array([] if nearest is None else [nearest], np.int64), [words.no_rows_at(near, nearest)]


def _findings(
    attempts: RowAttempts, starts: np.ndarray, words: RowWords, most_starts: int, most_steps: int
) -> Iterator[Finding]:
    chosen = attempts.by_promise(starts)[:most_starts]
    made: list[RowAttempt] = []
    left = most_steps
    for at, start in enumerate(chosen):
        attempt = attempts.attempt(int(start), max(left // (len(chosen) - at), left // 4))
        left = max(0, left - attempt.steps)
        made.append(attempt)
    yield from words.findings(made)
    unseen = len(starts) - len(chosen)
    partly = sum(not attempt.complete for attempt in made)
    if unseen or partly:
        yield words.limit(len(starts), unseen, partly, most_starts, most_steps)
