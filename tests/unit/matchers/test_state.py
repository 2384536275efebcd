"""Fingerprints of queries: a checkpoint compares them, so they stay what they were when it was written."""

from __future__ import annotations

import pytest

from episode.matchers.protocol import MatcherSpec
from tests.state import test_event_state_formats as events
from tests.state import test_situation_state_formats as situations
from tests.state import test_state_formats as rows
from tests.support import events as event_patterns
from tests.support import rows as row_patterns
from tests.support import situations as situation_patterns

KNOWN = [
    (row_patterns.spec_of(rows.CLAUSE), "18f0a7bce1884e86"),
    (event_patterns.spec_of(events.TEXT), "ebabaaba84337ddb"),
    (event_patterns.spec_of("PATTERN A; B WITHIN 5", key="k", lasting=True), "1ce0067c2c66f4d7"),
    (situation_patterns.spec_of(situations.TEXT), "fa553ef58d3a9412"),
    (situation_patterns.spec_of(situations.TEXT, detect="complete"), "f5b02f1c24a3db3e"),
]


@pytest.mark.parametrize(("spec", "fingerprint"), KNOWN)
def test_a_fingerprint_stays_as_it_is(spec: MatcherSpec, fingerprint: str) -> None:
    assert spec.fingerprint == fingerprint


def test_lines_do_not_count_but_words_do() -> None:
    broken = rows.CLAUSE.replace(" PATTERN", "\n    PATTERN")
    other = rows.CLAUSE.replace("C AS v <", "C AS v <=")
    same = row_patterns.spec_of(rows.CLAUSE).fingerprint
    assert row_patterns.spec_of(broken).fingerprint == same
    assert row_patterns.spec_of(other).fingerprint != same
