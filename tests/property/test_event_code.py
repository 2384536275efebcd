"""Emitted code of closures and of aggregates over all matches against the oracles: compiled, checked, interpreted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from episode.lang.events.syntax import Strategy
from episode.matchers.events.aggregated_search import FEW
from tests.property import test_closure_engines as engines
from tests.property import test_event_pattern_laws as patterns
from tests.property import test_imprecise
from tests.property import test_trend_aggregates as trends
from tests.reference.generate_events import Case, cases
from tests.reference.generate_imprecise import ImpreciseCase, imprecise_cases
from tests.reference.generate_trends import TrendCase, trend_cases
from tests.support.aggregated import run_aggregated
from tests.support.events import run_whole
from tests.support.imprecise import run_case, spec_of_case
from tests.unit.native.runs import in_all_ways

FEW_EXAMPLES = settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
TRENDS = ("trends", "most_in_window", "short_trends")


@pytest.mark.parametrize("few", [0, FEW])
@pytest.mark.parametrize("beyond", [False, True])
def test_trends(few: int, beyond: bool) -> None:
    @FEW_EXAMPLES
    @given(trend_cases(beyond=beyond))
    def check(case: TrendCase) -> None:
        spec = trends.planned(case, few=few)
        trends.check_equal(run_aggregated(spec, [case.events]), trends.expected(case, spec))

    with in_all_ways(*TRENDS):
        check()


@pytest.mark.parametrize("strategy", [Strategy.NEXT, Strategy.STRICT])
def test_runs(strategy: Strategy) -> None:
    @FEW_EXAMPLES
    @given(cases(strategy=strategy))
    def check(case: Case) -> None:
        spec = patterns.planned(case)
        assert sorted(run_whole(spec, case.events)) == patterns.expected(case, spec)

    with in_all_ways("runs"):
        check()


@pytest.mark.parametrize("lasting", [False, True])
def test_postponed_construction(lasting: bool) -> None:
    @FEW_EXAMPLES
    @given(cases(replace(engines.CHOOSING, intervals=lasting), max_events=7, strategy=Strategy.ANY))
    def check(case: Case) -> None:
        spec = engines.planned(case, "postponed", lasting=lasting)
        assert sorted(run_whole(replace(spec, buffer=3), case.events)) == engines.expected(case, spec)

    with in_all_ways("subsets"):
        check()


@pytest.mark.parametrize("weights", [False, True])
def test_imprecise_time(weights: bool) -> None:
    @FEW_EXAMPLES
    @given(imprecise_cases(weights=weights))
    def check(case: ImpreciseCase) -> None:
        found = run_case(spec_of_case(case, most_records=2), [case.events], case.granularity)
        test_imprecise.assert_same(found, test_imprecise.expected(case))

    with in_all_ways("imprecise", "running_sums"):
        check()
