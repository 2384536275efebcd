"""Why a situation pattern has no match at a place.

First the situations one by one: is each of them there, and does it last as long as it must? Then the relations: the
engine matches one constraint after the other, and the first with which it finds nothing is the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeError
from episode.lang.situations.syntax import Constraint, SituationQuery
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, order_image
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.spark_types import retyped
from episode.plan.run_options import RunOptions
from episode.queries.inspecting import Inspected
from episode.queries.language import Given, Input
from episode.queries.languages.situations import BoundSituationPattern, SituationPatterns
from episode.queries.reasons.finding import Asked, Finding
from episode.queries.reasons.situation_failures import Failures
from episode.queries.reasons.situation_runs import runs_of
from episode.queries.reasons.situation_trials import Chosen, Place, Trials
from episode.queries.reasons.situation_words import Words
from episode.queries.reasons.wording import no_events

FOUND = 100
"""Matches that are counted where there are some."""


def reasons(inspected: Inspected, asked: Asked) -> tuple[Finding, ...]:
    """What keeps matches from being in a range of time: from the start of one to when it is detected."""
    placed, frame = inspected.placed, inspected.events.frame
    query = placed.query
    question = Question.of(
        query, inspected.events.input(frame.sparkSession, query, placed.run), inspected.events.given, placed.run
    )
    return question.findings(inspected.rows(asked.key), dict(inspected.bound.derived), asked)


@dataclass(frozen=True)
class Step:
    """A constraint and those before it, with the situations that they are about. found: what satisfies them."""

    query: SituationQuery
    constraint: Constraint
    found: Chosen


def queries_of(query: SituationQuery) -> Iterator[tuple[SituationQuery, Constraint]]:
    """The query built up constraint by constraint, each beside those that are there already, if one is."""
    left, taken = list(query.constraints), list[Constraint]()
    while left:
        symbols = {symbol for one in taken for symbol in (one.left, one.right)}
        following = next((one for one in left if {one.left, one.right} & symbols), left[0])
        left.remove(following)
        taken.append(following)
        symbols |= {following.left, following.right}
        definitions = tuple(one for one in query.definitions if one.symbol in symbols)
        yield replace(query, definitions=definitions, constraints=tuple(taken)), following


@dataclass(frozen=True)
class Question:
    """A situation pattern that is asked about, with nothing to return."""

    query: SituationQuery
    input: Input
    given: Given
    run: RunOptions
    bound: BoundSituationPattern

    @staticmethod
    def of(query: SituationQuery, events: Input, given: Given, run: RunOptions) -> Question:
        query = replace(query, returns=())
        bound = SituationPatterns().bind(query, events, given, run)
        assert isinstance(bound, BoundSituationPattern)
        return Question(query, events, given, run, bound)

    def bind(self, query: SituationQuery) -> BoundSituationPattern:
        """Another query over the same input."""
        bound = SituationPatterns().bind(query, self.input, self.given, self.run)
        assert isinstance(bound, BoundSituationPattern)
        return bound

    def findings(self, table: pa.Table, derived: Mapping[str, str], asked: Asked) -> tuple[Finding, ...]:
        """table: the rows of the key, in any order. derived: columns in it that were computed for the pattern, by their
        SQL."""
        if table.num_rows == 0:
            return (no_events(asked.key),)
        plan = self.bound.plan
        batch = events_of(retyped(table), InputOrder((), (OrderKey(plan.time),), needs_time=True), KeyCoder(()))
        named = {sql: batch.table.column(name) for sql, name in derived.items()}
        named_here = dict(plan.derived)
        for sql, name in named_here.items():  # by the name that this plan gives it
            if name not in batch.table.column_names:
                batch = replace(batch, table=batch.table.append_column(name, named[sql]))
        runs = tuple(runs_of(plan, batch))
        place = Place(*(self._image(batch.table, value) for value in (asked.first, asked.last)))
        zone = getattr(asked.first if asked.first is not None else asked.last, "tzinfo", None)
        words = Words(self.query, batch.table, batch.time, plan.time, plan.time_type, zone, dict(self.run.arguments))
        table_ = batch.table.drop_columns([name for name in derived.values() if name in batch.table.column_names])
        trials = Trials(self.bind, replace(batch, table=table_), named, runs)
        return tuple(self._answer(trials, place, words))

    def _image(self, table: pa.Table, value: Any) -> int | None:
        """A time as an integer."""
        if value is None:
            return None
        name = self.bound.plan.time
        one = pa.table({name: pa.array([value], table.schema.field(name).type)})
        return int(order_image(one, OrderKey(name)).values[0])

    def _answer(self, trials: Trials, place: Place, words: Words) -> list[Finding]:
        found = trials.matches(self.query, place, whole=False, most=FOUND)
        if len(found):
            return [words.found(found)]
        plan = self.bound.plan
        around = place.wider(plan.within)
        failures = Failures(trials, plan, around, words)
        lacking = [
            one for number, definition in enumerate(self.query.definitions)
            for one in failures.situation(number, definition)
        ]  # fmt: skip
        if lacking:
            return lacking
        steps, failed = self.attempt(trials, around)
        before = steps[-1].found if steps else None
        answers = failures.relation(*failed, before) if failed else [words.elsewhere(steps[-1].found, place)]
        if not any(one.kind == "window" for one in answers):
            answers += failures.outside_window(self.query, place, "")
        return [*answers, words.tally([(one.constraint, one.found) for one in steps], failed and failed[1])]

    def attempt(self, trials: Trials, around: Place) -> tuple[list[Step], tuple[SituationQuery, Constraint] | None]:
        """The steps that have matches around the place, and the first one that has none."""
        steps: list[Step] = []
        for query, constraint in queries_of(self.query):
            try:
                found = trials.matches(query, around, whole=True)
            except EpisodeError:
                continue
            if not found.passes:
                return steps, (query, constraint)
            steps.append(Step(query, constraint, found))
        return steps, None
