"""The laws for patterns in which alternatives, negations and closures stand inside one another."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.lang.events.syntax import Strategy
from tests.property.test_event_pattern_laws import expected, pieces_of, planned
from tests.reference.event_patterns import Event
from tests.reference.generate_events import CLOSED, Case, Features, cases
from tests.support.events import run_in_pieces, run_whole, spec_of

EDGES = Features(edge_negations=True, nested_negations=True)
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_the_oracle(strategy: Strategy) -> None:
    """Whole, in rounds of few rows, and in chunks with restarts between them."""

    @SETTINGS
    @given(st.one_of(cases(CLOSED, strategy=strategy), cases(EDGES, strategy=strategy)), st.integers(1, 4), st.data())
    def check(case: Case, rows: int, data: st.DataObject) -> None:
        spec = planned(case)
        oracle = expected(case, spec)
        assert sorted(run_whole(spec, case.events)) == oracle
        assert sorted(run_whole(planned(case, round_rows=rows), case.events)) == oracle
        assert sorted(run_in_pieces(spec, data.draw(pieces_of(case.events)), data.draw(st.booleans()))) == oracle

    check()


def test_a_union_in_which_one_alternative_waits_reports_once() -> None:
    """One alternative begins with a closure, and the other is decided only when its window has passed."""
    spec = spec_of("PATTERN SEQ(C+ c[], B b) | (A a; !D) WITHIN 3")
    events = [
        Event(i, i, i, {"type": kind, "k": 1, "x": 1, "y": 1, "s": "a"}) for i, kind in enumerate("CABAAD", start=1)
    ]
    with_c = (("c", (1,)), ("b", (3,)), ("a", ()))
    with_a = (("c", ()), ("b", ()), ("a", (2,)))
    assert sorted(run_whole(spec, events)) == sorted([with_c, with_a])
    assert sorted(run_in_pieces(spec, [events[:2], events[2:3], events[3:]], restore=True)) == sorted([with_c, with_a])
