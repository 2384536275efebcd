"""Limits of a round of event patterns: what the error says has been counted."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeDataError
from tests.reference.event_patterns import Event
from tests.support.events import run_whole, spec_of


def events(kinds: str) -> list[Event]:
    return [Event(i, i, i, {"type": kind, "k": 1, "x": i, "y": 1, "s": ""}) for i, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("text", "found", "counted"),
    [
        # Every choice of one to three Bs: 7 matches, with 26 events.
        ("PATTERN SEQ(A a, B+ b[], C c)", 7, "20 events in its matches"),
        ("PATTERN A; B; C", 6, "5 matches or partial matches"),
        ("PATTERN A; B*; C", 3, "5 events in the closures of its matches"),
    ],
)
def test_the_error_says_what_was_counted(text: str, found: int, counted: str) -> None:
    rows = events("ABBBC" if "SEQ" in text else "AAABBC")
    closure = "runs" if "SEQ" in text else "auto"
    assert len(run_whole(spec_of(text, closure=closure), rows)) == found
    with pytest.raises(EpisodeDataError, match=f"is in a window with more than {counted}"):
        run_whole(spec_of(text, closure=closure, most_records=5), rows)


@pytest.mark.parametrize("closure", ["auto", "postponed", "on the fly"])
def test_output_alone_is_no_error_where_closures_are_postponed(closure: str) -> None:
    spec = spec_of("PATTERN SEQ(A a, B+ b[], C c)", closure=closure, most_records=5, step_budget=100, buffer=10)
    assert len(run_whole(spec, events("A" + "B" * 10 + "C"))) == 2**10 - 1


@pytest.mark.parametrize(
    "condition",
    [
        "sum(b[].y) > 1000",
        "sum(b[].y) > 50",  # which is what all of them come to
        "sum(b[].y) < 1",
        "NOT sum(b[].y) >= c.y",
        "count(b[]) > 50",
        "avg(b[].y) < c.y",
        "min(b[].y) < 1 AND max(b[].y) > a.y",
        "b[last].y > b[1].y",
        "avg(b[].y) <> 1",
        "max(b[].y) = c.y + a.y",
        "sum(b[].x) > 100000.5",
        "sum(b[].y) + max(b[].y) > 51",
        "2 * sum(b[].y) + count(b[]) > 150",
        "sum(b[].y) > 50 OR max(b[].y) > c.y OR a.y > 1",
        "NOT (sum(b[].y) <= 50 AND min(b[].y) >= 1)",
        "max(b[].y) < c.y",
    ],
)
def test_choices_that_bounds_rule_out_are_not_tried(condition: str) -> None:
    """y is 1 in all events."""
    text = f"PATTERN SEQ(A a, B+ b[], C c) WHERE {condition}"
    assert run_whole(spec_of(text, step_budget=100), events("A" + "B" * 50 + "C")) == []


def test_the_work_follows_the_matches_where_bounds_cut() -> None:
    """Of 40 events 39 at the least: 41 matches, with no more than some steps for each event of each."""
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE count(b[]) >= 39"
    assert len(run_whole(spec_of(text, step_budget=200), events("A" + "B" * 40 + "C"))) == 41
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE count(b[]) <= 1 AND sum(b[].y) >= 1"
    assert len(run_whole(spec_of(text, step_budget=200), events("A" + "B" * 1000 + "C"))) == 1000


def test_choices_without_a_match_are_an_error_in_the_end() -> None:
    text = "PATTERN SEQ(A a, B+ b[], C c) WHERE sum(b[].y) * sum(b[].y) > 10000"
    with pytest.raises(EpisodeDataError, match=r"more than 1,000 choices of closure events were tried"):
        run_whole(spec_of(text, step_budget=1000), events("A" + "B" * 50 + "C"))
