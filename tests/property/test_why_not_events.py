"""`why_not` of event patterns against the oracle: every step that it counts, and what it says fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventQuery, Strategy, classes_of
from episode.plan.events.alternatives import with_groups_between_places
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.see.reasons.event_steps import NEGATION, EventStep, alternatives_of, own_conditions, steps_of
from episode.see.reasons.events import EventQuestion
from episode.see.reasons.finding import Expectation, Finding
from tests.reference.event_patterns import Event, Match, matches
from tests.reference.generate_events import CLOSED, Case, Features, cases
from tests.support.events import TYPES, table_of

SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def question_of(case: Case, lasting: bool = False) -> EventQuestion:
    """The case as it is asked about; what planning refuses is none of these tests'."""
    given_ = Given(
        time="te",
        start="ts" if lasting else None,
        key=() if case.key is None else (case.key,),
        type_column="type" if case.typed else None,
        strategy=None if case.strategy is None else case.strategy.value,
    )
    try:
        question = EventQuestion.of(parse_event_query(case.text), Input(InputSchema(TYPES)), given_, RunOptions())
    except EpisodeUnsupportedError as error:
        note(str(error))
        assume(False)
        raise
    assume(question.plan.keeps == 0)  # what only Spark evaluates
    return question


class Asking:
    """One key of a case and a range, as the engine and as the oracle see it."""

    def __init__(self, case: Case, lasting: bool, data: st.DataObject) -> None:
        self.case = case
        self.question = question_of(case, lasting)
        keys = self.question.plan.keys
        groups = list(dict.fromkeys(tuple(event.values[name] for name in keys) for event in case.events))
        key = data.draw(st.sampled_from(groups)) if groups else (1,) * len(keys)
        chosen = [one for one in case.events if tuple(one.values[name] for name in keys) == key]
        self.events = chosen
        times = [one.ts for one in self.events] or [0]
        self.first = data.draw(st.sampled_from([None, *times]))
        later = [time for time in times if self.first is None or time >= self.first]
        self.last = data.draw(st.sampled_from([None, *(later or [self.first]), self.first]))
        self.asked = Expectation(dict(zip(keys, key, strict=True)), self.first, self.last)
        self.findings = self.question.findings(table_of(self.events), {}, self.asked)
        note(str([one.to_dict(self.question.query.source) for one in self.findings]))

    def matches(self, query: EventQuery) -> list[Match]:
        """The oracle's matches that begin in the range."""
        found = matches(query, self.events, member=self.case.member, strategy=self.question.strategy)
        return [one for one in found if self.is_in_range(one.ts)]

    def is_in_range(self, time: int) -> bool:
        return (self.first is None or time >= self.first) and (self.last is None or time <= self.last)


def check(asking: Asking) -> None:
    query, strategy = asking.question.query, asking.question.strategy
    kinds = [one.kind for one in asking.findings]
    if not asking.events:
        assert kinds == ["no events"]
        return
    assert ("found" in kinds) == bool(asking.matches(query))
    if "found" in kinds:
        return
    assert kinds[-1] == "steps"
    assert kinds[0] != "steps"
    pattern = query.pattern if strategy is Strategy.NEXT else with_groups_between_places(query.pattern)
    tallies = [one.data["steps"] for one in asking.findings if one.kind == "steps"]
    for alternative, tally in zip(alternatives_of(pattern), tallies, strict=True):
        steps = steps_of(replace(query, pattern=alternative), strategy)
        told = list(tally)
        for step in steps:  # those that cannot be planned by themselves are left out
            if told and (told[0]["kind"], told[0]["step"]) == (step.kind, _written(asking, step)):
                one = told.pop(0)
                assert one["at_least"] or one["left"] == len(asking.matches(step.query)), (one, step.query.pattern)
        assert told == []
        _check_forbidding(asking, steps, tally)
    for finding in asking.findings:
        if finding.kind == "missing" and "variable" in finding.data:
            _check_missing(asking, finding)


def _check_forbidding(asking: Asking, steps: list[EventStep], tally: list[dict[str, object]]) -> None:
    """Where a negation forbids all candidates: beside one of them, the events that are named keep it from being."""
    failed = next((n for n, step in enumerate(steps) if (step.kind, _written(asking, step)) == _last(tally)), None)
    named = [one for one in asking.findings if one.kind == "negated" and "rows" in one.data]
    if failed is None or not failed or tally[-1]["kind"] != NEGATION or tally[-1]["left"]:
        return
    for finding in (one for one in named if one.span == steps[failed].span):
        rows = {asking.events[row] for row in finding.data["rows"]}  # type: ignore[attr-defined]
        asked, events = asking.matches(steps[failed - 1].query), asking.events
        assert any(
            _among(asking, steps[failed].query, match, set()) and not _among(asking, steps[failed].query, match, rows)
            for match in asked
        ), events


def _last(tally: list[dict[str, object]]) -> tuple[object, object]:
    return tally[-1]["kind"], tally[-1]["step"]


def _written(asking: Asking, step: EventStep) -> str:
    written = asking.question.query.source.text_at(step.span) if step.condition is None else step.condition.original
    return " ".join(written.split())


def _among(asking: Asking, query: EventQuery, match: Match, others: set[Event]) -> bool:
    """Is it a match where there are only its own events and a few others?"""
    mine = {one for bound in match.events.values() for one in (bound if isinstance(bound, tuple) else (bound,))}
    events = [one for one in asking.events if one in mine | others]
    found = matches(query, events, member=asking.case.member, strategy=asking.question.strategy)
    return any(one.events == match.events for one in found)


def _check_missing(asking: Asking, finding: Finding) -> None:
    """There are fewer events that qualify by themselves than are needed, from the range to a window after it."""
    query, within = asking.question.query, asking.question.plan.within
    place, needed = (finding.data["variable"], finding.data["class"]), finding.data["needed"]
    (one, *_) = (one for one in classes_of(query.pattern) if (one.variable, one.name) == place)
    conditions = tuple(own_conditions(query, one.variable))
    alone = replace(query, pattern=one, conditions=conditions, same=(), strategy=Strategy.ANY)
    last = None if asking.last is None or within is None else asking.last + within
    found = matches(alone, asking.events, member=asking.case.member)
    near = [
        one for one in found if (asking.first is None or one.ts >= asking.first) and (last is None or one.te <= last)
    ]
    if asking.last is not None and len(near) >= needed:  # the first component: in the range itself
        near = [one for one in near if one.ts <= asking.last]
    assert len(near) < needed


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_the_oracle(strategy: Strategy) -> None:
    @SETTINGS
    @given(cases(strategy=strategy), st.data())
    def run(case: Case, data: st.DataObject) -> None:
        check(Asking(case, False, data))

    run()


@SETTINGS
@given(cases(Features(intervals=True)), st.data())
def test_events_that_last(case: Case, data: st.DataObject) -> None:
    check(Asking(case, True, data))


@SETTINGS
@given(cases(CLOSED, max_events=6), st.data())
def test_the_closed_language(case: Case, data: st.DataObject) -> None:
    check(Asking(case, False, data))


@pytest.mark.parametrize(("xs", "kinds"), [((10, 5, 8, 7), ["condition", "steps"]), ((10, 5, 20, 7), ["found"])])
def test_conditions_on_the_first_event_of_a_closure(xs: tuple[int, ...], kinds: list[str]) -> None:
    """What cannot be the first event is passed over: no candidate is left only if none can be."""
    text = "PATTERN SEQ(S s, A+ a[], B b) WHERE skip-till-next-match AND a[1].x > s.x WITHIN 10"
    events = [
        Event(n, n, n, {"type": kind, "k": 1, "x": x, "y": 0, "s": ""})
        for n, (kind, x) in enumerate(zip("SAAB", xs, strict=True))
    ]
    asked = Given(time="te", type_column="type")
    question = EventQuestion.of(parse_event_query(text), Input(InputSchema(TYPES)), asked, RunOptions())
    assert [one.kind for one in question.findings(table_of(events), {}, Expectation({}, None, None))] == kinds
