"""Rows that a screen leaves out do not matter: what is left gives the matches of the oracle, over all rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.lang.events.syntax import Strategy
from episode.matchers import screening as screens
from episode.matchers.protocol import Screens
from episode.matchers.running import run
from tests.property import test_event_pattern_laws as patterns
from tests.property import test_imprecise as imprecise
from tests.property import test_trend_aggregates as trends
from tests.reference.generate_events import CLOSED, Case, Features, cases
from tests.reference.generate_imprecise import ImpreciseCase, imprecise_cases
from tests.reference.generate_trends import TrendCase, trend_cases
from tests.support.aggregated import rows_of
from tests.support.events import bound, table_of
from tests.support.imprecise import found_in, spec_of_case
from tests.support.imprecise import table_of as imprecise_table_of

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def leave_out_whatever_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens, "MOST_KEPT", 1.0)


def screened(spec: Any, table: pa.Table, coded: bool) -> pa.Table:
    """The rows that pass; coded: names of classes come as a dictionary, as Parquet has them."""
    assert isinstance(spec, Screens)
    screen = spec.screen
    assume(screen is not None)
    assert screen is not None
    if coded:
        at = table.schema.get_field_index("type")
        table = table.set_column(at, "type", table.column("type").dictionary_encode())
    passed = screen.passing(table)
    note(f"{passed.num_rows} of {table.num_rows} rows pass")
    if coded:
        passed = passed.set_column(at, "type", passed.column("type").cast(pa.string()))
    return passed


@pytest.mark.parametrize("strategy", [Strategy.ANY, Strategy.NEXT])
@pytest.mark.parametrize("features", [Features(), Features(intervals=True), CLOSED], ids=["plain", "lasting", "closed"])
def test_matches_are_those_of_all_rows(strategy: Strategy, features: Features) -> None:
    @SETTINGS
    @given(cases(features, strategy=strategy), st.booleans())
    def check(case: Case, coded: bool) -> None:
        spec = patterns.planned(case, lasting=features.intervals)
        table = screened(spec, table_of(case.events), coded)
        assert sorted(bound(spec, run(spec, table))) == patterns.expected(case, spec)

    check()


@SETTINGS
@given(trend_cases(), st.booleans())
def test_aggregates_are_those_of_all_rows(case: TrendCase, coded: bool) -> None:
    spec = trends.planned(case)
    table = screened(spec, table_of(case.events), coded)
    trends.check_equal(rows_of(spec, run(spec, table)), trends.expected(case, spec))


@SETTINGS
@given(imprecise_cases(weights=False), st.booleans())
def test_confidences_are_those_of_all_rows(case: ImpreciseCase, coded: bool) -> None:
    spec = spec_of_case(case)
    table = screened(spec, imprecise_table_of(case.events, case.granularity), coded)
    imprecise.assert_same(found_in(spec, run(spec, table)), imprecise.expected(case))


@pytest.mark.parametrize("strategy", [Strategy.STRICT, Strategy.PARTITION])
def test_patterns_of_neighbours_see_all_rows(strategy: Strategy) -> None:
    assert patterns.spec_of("PATTERN SEQ(A a, B b) WITHIN 9", key="k", strategy=strategy).screen is None
