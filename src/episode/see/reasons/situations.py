"""Reasons that a situation pattern has no match: a missing situation, a duration, a relation, the window.

First the situations one by one: is each of them there, and does it last as long as it must? Then the relations: the
engine matches one constraint after the other, and the first with which it finds nothing is the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeError
from episode.lang.situations import allen
from episode.lang.situations.allen import Relation, mirror, relation_of, relations_of
from episode.lang.situations.syntax import Constraint, SituationColumn, SituationDefinition, SituationQuery
from episode.matchers.projection import Projection
from episode.plan.options import RunOptions
from episode.plan.output import ScalarColumn
from episode.plan.situations.plan import SituationPlan
from episode.queries.language import Given, Input
from episode.queries.languages.situations import SituationPatterns
from episode.see.inspecting import Inspected
from episode.see.reasons.finding import Expectation, Finding, list_values
from episode.see.reasons.situation_trials import (
    SituationCandidates,
    SituationRuns,
    SituationTrials,
    SituationWords,
    runs_of,
)
from episode.see.reasons.trials import (
    COMPARISONS,
    FOUND,
    WIDER,
    Failures,
    Keep,
    KeyEvents,
    Question,
    TimeRange,
    ask,
    nearest_row,
    step_count,
    tally,
    try_steps,
)
from episode.words import count_of

NEIGHBOURS = 32
"""Situations before and after another one with which it is compared for the nearest pair."""
MOST_COMPARED = 10_000
Times = np.ndarray | int
Intervals = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Situations: their starts, their ends, and whether they last."""


@dataclass(frozen=True)
class SituationFailures(Failures[SituationTrials, SituationWords]):
    """Findings on situations and their relations. around: where all situations of a match at the asked place are."""

    plan: SituationPlan
    around: TimeRange

    def situation(self, number: int) -> list[Finding]:
        """Report that a situation is missing, or that none has a duration that is allowed."""
        definition = self.words.query.definitions[number]
        symbol = definition.symbol
        early = self.trials.runs[number].meeting(self.around)
        if len(early) == 0:
            return [self._missing(definition)]
        runs = early.beginning_in(self.around)
        if len(runs) == 0:
            return [self._too_early(definition, early)]
        at_least, at_most = self.plan.at_least[number], self.plan.at_most[number]
        allowed = runs.long_enough(at_least, at_most)
        if len(allowed) == 0:
            return [self._wrong_duration(definition, runs, at_least, at_most)]
        if (not self.plan.eager or at_most is not None) and allowed.lasting.all():
            run = self.words.run(symbol, allowed, 0)
            message = f"{run}, at the end of the events: it is part of a match only when it has ended."
            return [Finding("unfinished", message, definition.span, self.words.time_at(int(allowed.start[0])), {}, 1)]
        return []

    def _missing(self, definition: SituationDefinition) -> Finding:
        values, row = self._nearest_value(definition)
        near = "" if row is None else f"; nearest: {list_values(values)} at {self.words.moment(row)}"
        text = definition.condition.original
        message = f"{definition.symbol} is missing: {text} is never true{self._where()}{near}."
        at = None if row is None else self.words.time(row)
        return Finding("missing", message, definition.condition.span, at, values, 0, {"symbol": definition.symbol})

    def _too_early(self, definition: SituationDefinition, runs: SituationRuns) -> Finding:
        """Report that all situations began more than a window before the place."""
        last = len(runs) - 1
        start, first = int(runs.start[last]), self.around.first
        assert first is not None
        run = self.words.run(definition.symbol, runs, last)
        message = f"{run} began too early for a match at this place, by {self.words.length(first - start)}: WITHIN."
        data: dict[str, object] = {"symbol": definition.symbol, "excess": first - start}
        return Finding("window", message, self.plan.window, self.words.time_at(start), {}, len(runs), data)

    def _wrong_duration(
        self, definition: SituationDefinition, runs: SituationRuns, at_least: int | None, at_most: int | None
    ) -> Finding:
        durations = runs.end - runs.start
        short = np.zeros(len(runs), np.int64) if at_least is None else np.maximum(at_least - durations, 0)
        long = np.zeros(len(runs), np.int64) if at_most is None else np.maximum(durations - at_most, 0)
        nearest = int(np.argmin(np.maximum(short, long)))
        duration, off = int(durations[nearest]), int(max(short[nearest], long[nearest]))
        kind, word, wanted, limit = "too long", "AT MOST", at_most, definition.at_most
        if short[nearest] > 0:
            kind, word, wanted, limit = "too short", "AT LEAST", at_least, definition.at_least
        assert wanted is not None
        assert limit is not None
        length, symbol = self.words.length, definition.symbol
        message = (
            f"None of {count_of(len(runs), 'situation')} {symbol} is of a duration that is allowed; nearest: "
            f"{self.words.run(symbol, runs, nearest)}, {length(duration)}, is {kind} by {length(off)} "
            f"({word} {length(wanted)})."
        )
        data: dict[str, object] = {"symbol": symbol, "duration": duration, "off": off}
        return Finding(kind, message, limit.span, self.words.time_at(int(runs.start[nearest])), {}, len(runs), data)

    def _where(self) -> str:
        times = self.words.times
        if self.around == TimeRange() or len(times) == 0:
            return ""
        rows = self.around.rows(times)
        if rows.start == rows.stop:
            return " at this place, which has no events"
        first, last = int(times[rows.start]), int(times[rows.stop - 1])
        return f" between {self.words.moment_at(first)} and {self.words.moment_at(last)}"

    def _nearest_value(self, definition: SituationDefinition) -> tuple[dict[str, object], int | None]:
        """Return the values of the event that comes closest to a comparison, and its row."""
        rows = self.around.rows(self.words.times)
        tree = definition.condition.tree
        if rows.start == rows.stop or not isinstance(tree, COMPARISONS):
            return {}, None
        table = self.words.table.slice(rows.start, rows.stop - rows.start)
        columns = {name.lower(): name for name in table.column_names}
        paths = {name: one.path for name, one in definition.condition.atoms if isinstance(one, SituationColumn)}
        read = {columns[path[0].lower()]: None for path in paths.values() if path[0].lower() in columns}

        def with_columns(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column) and node.name in paths:
                return exp.column(exp.to_identifier(columns.get(paths[node.name][0].lower(), ""), quoted=True))
            return node

        try:
            sides = [("", ScalarColumn(side.copy().transform(with_columns))) for side in (tree.this, tree.expression)]
            found = Projection.compile(sides, table.schema, (), self.trials.arguments)(table)
            one, other = (side.cast(pa.float64()).to_numpy() for side in found.columns)
        except (EpisodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
            return {}, None  # sides that are not numbers have no nearest row
        row = nearest_row(one, other, table.num_rows)
        if row is None:
            return {}, None
        return {name: table.column(name)[row].as_py() for name in read}, rows.start + row

    def relation(
        self, query: SituationQuery, constraint: Constraint, before: SituationCandidates | None
    ) -> list[Finding]:
        """Report a constraint with which nothing is left. before: what satisfies those before it."""
        text = self.words.constraint(constraint)
        late = self.outside_window(query, self.around, f"Found as far as {text}", whole=True)
        if late:
            return late
        near = self._near(query, text)
        mask = allen.mask(constraint.relations)
        a, b = self._pairs(constraint, before)
        total = None if before is None else len(before)
        if len(a[0]) == 0:
            nothing = f"{text} holds for no pair of situations."
            return [Finding("relation", nothing, constraint.span, count=total), *near]
        off = distances(mask, a[:2], b[:2])
        fails = bool((off > 0).any())
        nearest = int(np.argmin(np.where(off == 0, np.iinfo(np.int64).max, off) if fails else off))
        one, other = ((int(side[0][nearest]), int(side[1][nearest])) for side in (a, b))
        left, right = constraint.left, constraint.right
        first = self.words.situation(left, *one, bool(a[2][nearest]))
        second = self.words.situation(right, *other, bool(b[2][nearest]))
        at = self.words.time_at(one[0])
        if not fails:
            message = f"{text} is not certain: {first}, and {second}."
            return [Finding("unfinished", message, constraint.span, at, count=total), *near]
        miss = miss_of(mask, one, other)
        names = {"a": left, "b": right}
        ends = [f"{names[end[0]]}.{end[2:]}" for end in (miss.one, miss.other)]
        needed = "equal" if miss.how == "=" else "be before"
        message = (
            f"{text} does not hold for any candidate; nearest: {first} is in the relation {miss.actual.value} "
            f"to {second}. For {miss.nearest.value}, {ends[0]} would have to {needed} {ends[1]}; it is off by "
            f"{self.words.length(miss.off)}."
        )
        data: dict[str, object] = {
            "left": [*map(self.words.time_at, one)],
            "right": [*map(self.words.time_at, other)],
            "actual": miss.actual.value,
            "nearest": miss.nearest.value,
            "off": miss.off,
        }
        return [Finding("relation", message, constraint.span, at, {}, total, data), *near]

    def _near(self, query: SituationQuery, text: str) -> list[Finding]:
        """Report what satisfies the constraints outside of where a match at this place could be."""
        if self.within is None or self.around == TimeRange():
            return []
        found = self.trials.candidates(query, self.around.wider(self.within * WIDER), whole=True)
        return [self.words.report_elsewhere(found, self.around, f"As far as {text}, the")] if len(found) else []

    def _pairs(self, constraint: Constraint, before: SituationCandidates | None) -> tuple[Intervals, Intervals]:
        """Return pairs of situations that a constraint may be about: those of candidates with those near them."""
        known = () if before is None else before.symbols
        left, right = self._situations(constraint.left, before), self._situations(constraint.right, before)
        if constraint.left in known and constraint.right in known:
            return left, right
        if constraint.right in known:
            one, other = _neighbours(right, left)
            return other, one
        return _neighbours(left, right)

    def _situations(self, symbol: str, before: SituationCandidates | None) -> Intervals:
        """Return the situations of candidates, or all around the place with a duration that is allowed."""
        if before is not None and symbol in before.symbols:
            index = before.symbols.index(symbol)
            start, end, lasting = (each[:, index] for each in (before.starts, before.ends, before.lasting))
            end = np.where(lasting, np.maximum(before.end, start + 1), end)
            return start[:MOST_COMPARED], end[:MOST_COMPARED], lasting[:MOST_COMPARED]
        number = self.plan.symbols.index(symbol)
        runs = self.trials.runs[number].meeting(self.around).beginning_in(self.around)
        runs = runs.long_enough(self.plan.at_least[number], self.plan.at_most[number])
        return runs.start, np.maximum(runs.end, runs.start + 1), runs.lasting

    def outside_window(
        self, query: SituationQuery, place: TimeRange, opening: str, whole: bool = False
    ) -> list[Finding]:
        """Report the shortest match that takes longer than the window. whole: only those at the place as a whole."""
        if whole:
            place = place.wider(None if self.within is None else self.within * (WIDER - 1))
        late = self.late_candidate(
            query, lambda wider: self.trials.candidates(wider, place, whole=whole), opening, self.words.match
        )
        return [] if late is None else [replace(late[0], at=self.words.time_at(late[1]))]


def _neighbours(some: Intervals, others: Intervals) -> tuple[Intervals, Intervals]:
    """Pair each of some situations with the others that begin nearest to it."""
    start = some[0][:MOST_COMPARED]
    at = np.searchsorted(others[0], start)[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS)
    mine, theirs = np.nonzero((at >= 0) & (at < len(others[0])))
    which = at[mine, theirs]
    return (some[0][mine], some[1][mine], some[2][mine]), (others[0][which], others[1][which], others[2][which])


REQUIRED: dict[Relation, tuple[tuple[str, str, str], ...]] = {
    Relation.BEFORE: (("a.end", "<", "b.start"),),
    Relation.MEETS: (("a.end", "=", "b.start"),),
    Relation.OVERLAPS: (("a.start", "<", "b.start"), ("b.start", "<", "a.end"), ("a.end", "<", "b.end")),
    Relation.STARTS: (("a.start", "=", "b.start"), ("a.end", "<", "b.end")),
    Relation.DURING: (("b.start", "<", "a.start"), ("a.end", "<", "b.end")),
    Relation.FINISHES: (("a.start", "<", "b.start"), ("b.start", "<", "a.end"), ("a.end", "=", "b.end")),
    Relation.EQUALS: (("a.start", "=", "b.start"), ("a.end", "=", "b.end")),
}
"""Comparisons of endpoints that make up each relation: Table 1 of TPStream."""
TURNED = {"a.start": "b.start", "a.end": "b.end", "b.start": "a.start", "b.end": "a.end"}


def comparisons_of(relation: Relation) -> tuple[tuple[str, str, str], ...]:
    """Return the comparisons of the endpoints of a and b that make up a relation."""
    if relation in REQUIRED:
        return REQUIRED[relation]
    return tuple((TURNED[one], how, TURNED[other]) for one, how, other in REQUIRED[mirror(relation)])


@dataclass(frozen=True)
class RelationMiss:
    """A pair that has none of the allowed relations: the least change of an endpoint that would make one of them hold.

    actual: the relation that it has. nearest: the allowed one that it is closest to. one, how, other: the comparison of
    endpoints that is farthest from holding for that; off: by how much."""

    actual: Relation
    nearest: Relation
    one: str
    how: str
    other: str
    off: int


def distances(mask: int, a: tuple[Times, Times], b: tuple[Times, Times]) -> np.ndarray:
    """Measure how far pairs of (start, end) are from the nearest relation of a mask; 0: one holds."""
    found = []
    for relation in relations_of(mask):
        found.append(np.max([_violation(comparison, a, b) for comparison in comparisons_of(relation)], axis=0))
    return np.asarray(np.min(found, axis=0))


def _violation(comparison: tuple[str, str, str], a: tuple[Times, Times], b: tuple[Times, Times]) -> np.ndarray:
    one, how, other = comparison
    ends = {"a.start": a[0], "a.end": a[1], "b.start": b[0], "b.end": b[1]}
    difference = np.asarray(ends[one]) - np.asarray(ends[other])
    return np.abs(difference) if how == "=" else np.maximum(difference + 1, 0)


def miss_of(mask: int, a: tuple[int, int], b: tuple[int, int]) -> RelationMiss:
    """Find out what keeps one pair from all relations of a mask."""
    misses = []
    for relation in relations_of(mask):
        worst = max(comparisons_of(relation), key=lambda comparison: int(_violation(comparison, a, b)))
        misses.append(RelationMiss(relation_of(*a, *b), relation, *worst, int(_violation(worst, a, b))))
    return min(misses, key=lambda miss: miss.off)


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
class SituationQuestion(Question[SituationQuery, SituationPlan]):
    """A situation pattern that is asked about."""

    language = SituationPatterns()

    @staticmethod
    def of(query: SituationQuery, events: Input, given: Given, run: RunOptions) -> SituationQuestion:
        """Bind a query to its input, without anything to return."""
        return SituationQuestion(replace(query, returns=()), events, given, run)

    @property
    def times(self) -> tuple[str, str | None]:
        return self.plan.time, None

    def answer(self, events: KeyEvents, place: TimeRange, zone: tzinfo | None, keep: Keep | None) -> Iterator[Finding]:
        plan = self.plan
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
