"""The laws for patterns in which alternatives, negations and closures stand inside one another."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.lang.events.syntax import Strategy
from tests.property.test_event_pattern_laws import expected, pieces_of, planned
from tests.reference.generate_events import CLOSED, Case, cases
from tests.support.events import run_in_pieces, run_whole

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("strategy", list(Strategy))
def test_equals_the_oracle(strategy: Strategy) -> None:
    """Whole, in rounds of few rows, and in chunks with restarts between them."""

    @SETTINGS
    @given(cases(CLOSED, strategy=strategy), st.integers(1, 4), st.data())
    def check(case: Case, rows: int, data: st.DataObject) -> None:
        spec = planned(case)
        oracle = expected(case, spec)
        assert sorted(run_whole(spec, case.events)) == oracle
        assert sorted(run_whole(planned(case, round_rows=rows), case.events)) == oracle
        assert sorted(run_in_pieces(spec, data.draw(pieces_of(case.events)), data.draw(st.booleans()))) == oracle

    check()
