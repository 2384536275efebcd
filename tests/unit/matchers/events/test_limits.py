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
    assert len(run_whole(spec_of(text), rows)) == found
    with pytest.raises(EpisodeDataError, match=f"is in a window with more than {counted}"):
        run_whole(spec_of(text, most_records=5), rows)
