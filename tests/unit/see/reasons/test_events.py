"""`why_not` of event patterns: what it says, case by case."""

from __future__ import annotations

import pyarrow as pa
import pytest

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.plan.options import RunOptions
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.see.reasons.events import EventQuestion
from episode.see.reasons.finding import Expectation, Finding

TYPES = {"ts": "bigint", "type": "string", "v": "bigint"}
EVENTS = [(1, "A", 5), (2, "B", 3), (3, "C", 9), (4, "B", 4), (5, "D", 1), (20, "C", 7)]


def ask(text: str, first: int | None = None, last: int | None = None, strategy: str | None = None) -> list[Finding]:
    table = pa.table({name: [event[at] for event in EVENTS] for at, name in enumerate(TYPES)})
    given = Given(time="ts", type_column="type", strategy=strategy)
    question = EventQuestion.of(parse_event_query(text), Input(InputSchema(TYPES)), given, RunOptions())
    return list(question.findings(table, {}, Expectation({}, first, last)))


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("A; B; C WITHIN 10", "found", "A at 1 (type = 'A', v = 5), B at 2"),
        ("A; E; C WITHIN 10", "missing", "There is no event E."),
        ("A; B; C WHERE B.v > 7 WITHIN 10", "missing", "None of 2 events B satisfies B.v > 7; nearest: B.v = 4 at 4."),
        ("A; B; C WHERE A.v < B.v", "condition", "true for none of 2 candidates; nearest: A.v = 5, B.v = 4 for A at 1"),
        ("A; !B; C WITHIN 10", "negated", "!B forbids the only candidate: B at 2 (type = 'B', v = 3) forbids A at 1"),
        ("!A; B; C WITHIN 5", "negated", "!A forbids the only candidate: A at 1"),
        ("B; !(D); C WHERE C.v = 7", "negated", "D at 5"),
        ("A; B+; C WHERE sum(B.v) > 100", "condition", "nearest: sum(B.v) = 7"),
        ("A; B^2; C WITHIN 3", "gap", "has 2 events for B^2 in its place"),
        ("D; A", "order", "No A follows: 1 of them qualify by themselves"),
        ("A; (E | (B; D; B b2)); C", "missing", "There is no event E."),
        ("SEQ(A a, B+ b[], C c) WHERE b[i].v < b[i-1].v AND count(b[]) > 1", "condition", "count(b[]) > 1"),
        ("A & E", "missing", "There is no event E."),
        ("D; C WHERE C.v = 7 WITHIN 10", "window", "outside WITHIN by 5: D at 5"),
    ],
)
def test_what_is_said(text: str, kind: str, said: str) -> None:
    finding = next(one for one in ask(f"PATTERN {text}") if one.kind != "missing" or kind == "missing")
    assert (finding.kind, said in finding.message) == (kind, True), finding


def test_strategies() -> None:
    contiguity, other, _ = ask("PATTERN SEQ(A a, D d) WITHIN 10", strategy="strict-contiguity")
    assert contiguity.kind == "contiguity"
    assert "the next event, at 2 (type = 'B', v = 3), is not D d" in contiguity.message
    assert "skip-till-any-match does: the event at 2 (type = 'B', v = 3) lies between" in other.message
    text = "PATTERN SEQ(A a, B b, C c) WHERE b.v + c.v = 11 WITHIN 30"
    condition, other, _ = ask(text, strategy="skip-till-next-match")
    assert condition.values == {"b.v": 3, "c.v": 9}
    assert "b at 2 (v = 3) came first and was taken in place of b at 4 (v = 4)" in other.message


def test_each_alternative_has_its_reason() -> None:
    findings = ask("PATTERN (A; E) | (B; D; A)")
    assert [one.kind for one in findings] == ["missing", "order", "steps", "steps"]


def test_the_range_is_where_a_match_begins() -> None:
    assert ask("PATTERN B; C", 4, 4)[0].data["events"] == {"B": [4], "C": [20]}
    assert ask("PATTERN B; C", 5, None)[0].kind == "missing"
    steps = ask("PATTERN B; C WHERE C.v < B.v", 2, 4)[-1].data["steps"]
    assert [(one["left"], one.get("events")) for one in steps] == [(2, 2), (3, 2), (0, None)]  # type: ignore[attr-defined]


def test_imprecise_events_are_refused() -> None:
    query = parse_event_query("PATTERN A; B WITHIN 9")
    given = Given(interval=("ts", "v"), type_column="type")
    with pytest.raises(EpisodeUnsupportedError, match="imprecise events"):
        EventQuestion.of(query, Input(InputSchema(TYPES)), given, RunOptions())
