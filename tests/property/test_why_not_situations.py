"""`why_not` of situation patterns against the oracle: every step that it counts, and what it says is missing."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from episode.lang.situations.parser import parse_situation_query
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.see.reasons.finding import Expectation, Finding
from episode.see.reasons.situations import SituationQuestion, distances, miss_of, steps_of
from tests.reference.generate_situations import Case, cases
from tests.reference.situations import Match, Pattern, Situation, matches, relation_holds, situations
from tests.support.situations import TYPES, table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


class Asking:
    """One key of a case and a range, as the engine and as the oracle see it."""

    def __init__(self, case: Case, data: st.DataObject) -> None:
        self.pattern = case.pattern
        query = parse_situation_query(case.text)
        run = RunOptions(detect=case.pattern.detect)
        self.question = SituationQuestion.of(query, Input(InputSchema(TYPES)), Given(time="t"), run)
        key = data.draw(st.sampled_from(sorted({event.key for event in case.events}, key=str)))
        self.events = [event for event in case.events if event.key == key]
        times = [event.time for event in self.events]
        self.first = data.draw(st.sampled_from([None, *times]))
        later = [time for time in times if self.first is None or time >= self.first]
        self.last = data.draw(st.sampled_from([None, self.first, *later]))
        within = case.pattern.within
        self.around = (
            None if self.first is None or within is None else self.first - within,
            None if self.last is None or within is None else self.last + within,
        )
        asked = Expectation({"k": key} if case.keyed else {}, self.first, self.last)
        self.findings = self.question.findings(table_of(self.events), {}, asked)
        note(str([one.to_dict(query.source) for one in self.findings]))

    def at_place(self) -> list[Match]:
        """The oracle's matches that are, in part at least, in the range."""
        return [
            one
            for one in matches(self.pattern, self.events)
            if (self.first is None or one.detected_at >= self.first)
            and (self.last is None or min(one.starts.values()) <= self.last)
        ]

    def around_it(self, pattern: Pattern) -> list[Match]:
        """Those that are as a whole within a window of the range."""
        low, high = self.around
        return [
            one
            for one in matches(pattern, self.events)
            if (low is None or min(one.starts.values()) >= low) and (high is None or one.detected_at <= high)
        ]


@SETTINGS
@given(cases(max_events=10, max_keys=2), st.data())
def test_equals_the_oracle(case: Case, data: st.DataObject) -> None:
    asking = Asking(case, data)
    kinds = [one.kind for one in asking.findings]
    assert ("found" in kinds) == bool(asking.at_place())
    for finding in asking.findings:
        if finding.kind in ("missing", "too short", "too long"):
            _check_lacking(asking, finding)
        if finding.kind == "relation" and finding.data:
            _check_relation(asking, finding)
        if finding.kind == "steps":
            _check_steps(asking, finding)


def _check_steps(asking: Asking, finding: Finding) -> None:
    told = {one["step"]: one for one in finding.data["steps"]}  # type: ignore[attr-defined]
    query = asking.question.query
    numbers = {id(one): number for number, one in enumerate(query.constraints)}
    for part, last in steps_of(query):
        one = told.pop(" ".join(query.source.text_at(last.span).split()), None)
        if one is None:
            continue
        symbols = [definition.symbol for definition in part.definitions]
        pattern = replace(
            asking.pattern,
            definitions=tuple(one for one in asking.pattern.definitions if one.symbol in symbols),
            constraints=tuple(asking.pattern.constraints[numbers[id(one)]] for one in part.constraints),
            values=(),
        )
        assert one["at_least"] or one["left"] == len(asking.around_it(pattern)), part.constraints
    assert not told


def _check_lacking(asking: Asking, finding: Finding) -> None:
    """The oracle has no such situation around the range, or none of a duration that is allowed."""
    (definition,) = (one for one in asking.pattern.definitions if one.symbol == finding.data["symbol"])
    if finding.kind == "missing":
        definition = replace(definition, at_least=None, at_most=None)
    low, high = asking.around
    now = asking.events[-1].time
    near = [
        one
        for one in situations(definition, asking.events)
        if (low is None or (one.end is None or one.end >= low)) and (high is None or one.start <= high)
    ]
    if finding.kind == "missing":
        assert near == []
        return
    allowed = [one for one in near if (low is None or one.start >= low) and _fits(definition, one, now)]
    assert allowed == []


def _fits(definition, situation: Situation, now) -> bool:
    """May one that lasts at the end be of a duration that is allowed?"""
    duration = (now if situation.end is None else situation.end) - situation.start
    return (definition.at_least is None or duration >= definition.at_least) and (
        definition.at_most is None or duration <= definition.at_most
    )


def _check_relation(asking: Asking, finding: Finding) -> None:
    """None of the allowed relations holds for the pair that is named, and the actual one does."""
    left, right = (Situation("x", *finding.data[side], ()) for side in ("left", "right"))  # type: ignore[misc]
    text = asking.question.query.source.text_at(finding.span)  # type: ignore[arg-type]
    (constraint, *_) = (
        one for one in asking.question.query.constraints
        if asking.question.query.source.text_at(one.span) == text
    )  # fmt: skip
    assert relation_holds(finding.data["actual"], left, right)
    assert not any(relation_holds(one.value, left, right) for one in constraint.relations)


@given(st.lists(st.integers(0, 6), min_size=4, max_size=4), st.integers(1, 2**13 - 1))
def test_what_is_off_is_the_least_change(ends: list[int], mask: int) -> None:
    """distance 0 exactly where a relation of the mask holds; otherwise it is one that a comparison is off by."""
    from episode.lang.situations import allen

    a, b = (ends[0], ends[0] + 1 + ends[1]), (ends[2], ends[2] + 1 + ends[3])
    holds = bool(mask >> allen.bit(allen.relation_of(*a, *b)) & 1)
    assert (int(distances(mask, a, b)) == 0) == holds
    miss = miss_of(mask, a, b)
    assert miss.off == int(distances(mask, a, b))
    assert miss.actual == allen.relation_of(*a, *b)
