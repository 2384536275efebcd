"""`why_not` of row patterns against the oracle: what it says fails is what keeps the match from being, and where there
is a match it says so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, assume, given, note, settings

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.lang.keys import scalar_of
from episode.lang.rows.parser import parse_clause
from episode.lang.rows.scalar import conjuncts_of
from episode.lang.rows.syntax import Anchor, Label, MatchMode, MatchRecognize, Pattern
from episode.lang.syntax import Source
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.rows.explorer import AT_END, AT_START, CONDITION, END_OF_ROWS, WINDOW, instructions_of
from episode.matchers.rows.stepwise import UNKNOWN
from episode.plan.options import RunOptions
from episode.plan.rows.conditions import plan_conjuncts
from episode.plan.rows.inputs import known_names
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.schema import InputSchema
from episode.queries.language import Given as NothingGiven
from episode.queries.language import Input
from episode.queries.languages.rows import RowPatterns
from episode.see.reasons.finding import Expectation
from episode.see.reasons.rows import RowAttempt, RowAttempts, reasons_over
from tests.reference.generate import COLUMNS, Given, clauses, tables
from tests.reference.row_patterns import Exploded, Found, Path, Step, _Attempts, _Budget, _ordered, _Paths, _Table
from tests.support.rows import SPARK_TYPES, spec_of, table_in

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
ONE_KEY = Given(partitions=("",))
BUDGET = 30_000
MANY, STEPS = 1_000_000, 5_000


@dataclass(frozen=True)
class Traced(_Paths):
    """The oracle's paths, with where they end. forced: a label and a row where its condition is taken to hold."""

    ends: dict[tuple[str, str, int], Path] = field(default_factory=dict)
    forced: frozenset[tuple[str, int]] = frozenset()
    windowed: bool = True

    def fits(self, path: Path) -> bool:
        return not self.windowed or super().fits(path)

    def _after(self, pattern: Pattern, path: Path, excluded: bool) -> Iterator[Path]:
        if isinstance(pattern, Label):
            longer, at = (*path, Step(pattern.name, excluded)), self.position(path)
            if at == len(self.rows):
                self.ends.setdefault((END_OF_ROWS, pattern.name, at), path)
            elif not self.fits(longer):
                self.ends.setdefault((WINDOW, pattern.name, at), path)
            elif (pattern.name, at) in self.forced or self.holds(pattern.name, longer):
                yield longer
            else:
                self.ends.setdefault((CONDITION, pattern.name, at), path)
            return
        found = False
        for longer in super()._after(pattern, path, excluded):
            found = True
            yield longer
        if isinstance(pattern, Anchor) and not found:
            self.ends.setdefault((AT_START if pattern.at_start else AT_END, "", self.position(path)), path)

    def farthest(self) -> tuple[int, set[tuple[str, str]]]:
        """The last row that was looked at, and what ended there."""
        row = max((row for _, _, row in self.ends), default=-1)
        return row, {(kind, label) for kind, label, at in self.ends if at == row}


class Case:
    """One clause over one table, asked of both."""

    def __init__(self, text: str, rows: list[dict[str, Any]]) -> None:
        self.clause: MatchRecognize = parse_clause(text)
        try:
            spec = spec_of(text)
        except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
            note(str(error))
            assume(False)
        table = _Table(list(COLUMNS))
        self.rows = _ordered(self.clause, rows, table)
        self.oracle = _Attempts(self.clause, self.rows, table, _Budget(BUDGET))
        schema = InputSchema(SPARK_TYPES)
        plan = RowPatterns().bind(self.clause, Input(schema), NothingGiven(), RunOptions())
        assert isinstance(plan, RowPatternPlan)
        self.plan, self.table = plan, table_in(spec, rows)
        self.conjuncts = plan_conjuncts(self.clause, schema, plan)
        try:
            self.expected = [one for one in self.oracle.findings() if isinstance(one, Found)]
        except EpisodeDataError:
            assume(False)
        events = events_of(self.table, spec.input_order, KeyCoder(()))
        self.attempts = RowAttempts.of(spec, plan, events, self.conjuncts)

    def traced(self, attempt: RowAttempt, windowed: bool = True, forced: tuple[str, int] | None = None) -> Traced:
        incremental = self.clause.match_mode is MatchMode.INCREMENTAL
        return Traced(
            self.clause, self.rows, self.oracle.table, attempt.start, None if incremental else attempt.number + 1,
            _Budget(BUDGET), forced=frozenset([] if forced is None else [forced]), windowed=windowed,
        )  # fmt: skip

    def labels(self, instructions: tuple[int, ...] | list[int]) -> tuple[str, ...]:
        return tuple(self.attempts.label(at) for at in instructions)


@SETTINGS
@given(clauses(given=ONE_KEY), tables(max_rows=8))
def test_equals_the_oracle(text: str, rows: list[dict[str, Any]]) -> None:
    try:
        case = Case(text, rows)
        for start in range(len(case.rows)):
            check_attempt(case, case.attempts.attempt(start, MANY))
    except (Exploded, NotImplementedError, ArithmeticError, RecursionError):  # beyond the oracle: says nothing
        assume(False)


def check_attempt(case: Case, attempt: RowAttempt) -> None:
    expected = [one for one in case.expected if one.start == attempt.start]
    assert [case.labels(one.instructions) for one in attempt.matches] == [
        tuple(step.label for step in one.path) for one in expected
    ]
    traced = case.traced(attempt)
    incremental = case.clause.match_mode is MatchMode.INCREMENTAL
    ways = [path for path in traced.complete() if path or not incremental]
    if expected:
        explored = case.attempts.explore(attempt.start, attempt.number, MANY)
        assert case.labels(explored.accepted[0].instructions) == tuple(step.label for step in ways[0])
        check_others(case, attempt)
        return
    assert bool(ways) == bool(attempt.accepted)
    if ways:
        check_passed_over(case, attempt, ways)
    else:
        check_failures(case, attempt, traced)


def check_others(case: Case, attempt: RowAttempt) -> None:
    """Other ways are ways, and none of the matches."""
    traced = case.traced(attempt)
    every = {tuple(step.label for step in path) for path in traced.complete()}
    reported = {case.labels(match.instructions) for match in attempt.matches}
    others = {case.labels(match.instructions) for match in attempt.others}
    assert others <= every - reported
    longer = case.attempts.explore_further(attempt.start, attempt.number, attempt.matches, STEPS)
    if longer.steps < STEPS:
        assert bool(longer.others) == bool(every - reported - {()})


def check_passed_over(case: Case, attempt: RowAttempt, ways: list[Path]) -> None:
    """A way through the pattern that is no match: the row was not tried, or what ends there begins earlier."""
    first = tuple(step.label for step in ways[0])
    assert case.labels(attempt.accepted[0].instructions) == first
    if attempt.skipped_by is not None:
        begin, number = attempt.skipped_by.start, case.attempts.made.before(attempt.skipped_by.start)
        incremental = case.clause.match_mode is MatchMode.INCREMENTAL
        paths = case.oracle.chosen(begin, None if incremental else number + 1)
        assert begin < attempt.start < case.oracle.resume(begin, [path for path in paths if path or not incremental])
    else:
        assert case.clause.match_mode is MatchMode.INCREMENTAL
        assert attempt.ended_by is not None
        end = attempt.start + len(first) - 1
        assert any(
            one.start == attempt.ended_by.start and one.start + len(one.path) - 1 == end for one in case.expected
        )
        assert attempt.ended_by.start < attempt.start


def check_failures(case: Case, attempt: RowAttempt, traced: Traced) -> None:
    row, ends = traced.farthest()
    kinds = {
        (one.kind, case.attempts.label(one.instruction) if one.kind not in (AT_START, AT_END) else "")
        for one in attempt.failures
    }
    assert kinds == ends
    assert {one.row for one in attempt.failures} <= {row}
    for failure in attempt.failures:
        if failure.kind == CONDITION:
            label = case.attempts.label(failure.instruction)
            check_condition(case, attempt, label, failure)
            freed = case.traced(attempt, forced=(label, row))
            matched = any(True for _ in freed.complete())
            assert matched or freed.farthest()[0] > row
    beyond = case.traced(attempt, windowed=False)
    lengths = [len(path) for path in beyond.complete() if path]
    cut = any(kind == WINDOW for kind, _ in ends)
    assert (attempt.too_long is not None) == (cut and bool(lengths))
    if attempt.too_long is not None:
        assert attempt.too_long.length == min(lengths)


def check_condition(case: Case, attempt: RowAttempt, label: str, failure: Any) -> None:
    """Each conjunct is as the oracle has it, and so are the values in it."""
    path = tuple(Step(one, False) for one in (*case.labels(instructions_of(failure.path)), label))
    view = case.traced(attempt).view(path)
    definition = next(one for one in case.clause.definitions if one.label == label)
    parts = conjuncts_of(definition.condition, case.clause.source, frozenset(known_names(case.clause)))
    readings = case.attempts.readings_at(attempt, failure)
    assert len(readings) == len(parts)
    assert not all(one.holds is True for one in readings)
    for reading, part in zip(readings, parts, strict=True):
        assert reading.holds == view.value(part)
        for span, value in reading.values:
            atom = next(atom for _, atom in part.atoms if atom.span == span)
            if value is not UNKNOWN:
                assert alike(value, view.value(scalar_of(atom, "")))


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, (int, float)):
        return (math.isnan(one) and math.isnan(other)) or math.isclose(one, other, rel_tol=1e-9) or one == other
    return one == other


@SETTINGS
@given(clauses(given=ONE_KEY), tables(max_rows=8))
def test_findings_can_be_said(text: str, rows: list[dict[str, Any]]) -> None:
    """Whatever is asked, there is an answer in words, and each speaks of a place in the query."""
    try:
        case = Case(text, rows)
    except (Exploded, NotImplementedError, ArithmeticError, RecursionError):
        assume(False)
        raise
    findings = reasons_over(case.clause, case.plan, case.conjuncts, case.table, Expectation({}, None, None))
    assert findings
    source: Source = case.clause.source
    for finding in findings:
        assert finding.to_dict(source)["message"].endswith(".")
        if finding.span is not None:
            assert 0 <= finding.span.start < finding.span.end <= len(source.text)
    found = {start for start in range(len(case.rows)) if any(one.start == start for one in case.expected)}
    assert bool(found) == any(finding.kind == "found" for finding in findings)
