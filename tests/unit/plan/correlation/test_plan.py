"""The cost model of correlation: equations 1 to 4 of the PCQ paper, and reports of what was measured."""

from __future__ import annotations

import pytest

from episode.plan.correlation.explain import correlation_run
from episode.plan.correlation.plan import Change, CorrelationReport, CorrelationStrategy, Factors, cost
from episode.plan.sections import Section, lines_of

FACTORS = Factors(
    rows=1000, live_row=2.0, archive_row=3.0, live_asked=5.0, archive_asked=7.0, pair=0.5,
    live_matches=10, archive_matches=20, pairs=40, live_region=100, archive_region=50, live_step=60, archive_step=30,
)  # fmt: skip


@pytest.mark.parametrize(
    ("strategy", "cached", "expected"),
    [
        (CorrelationStrategy.EAGER, True, 1000 * (2 + 3) + 40 * 0.5),
        (CorrelationStrategy.LIVE_FIRST, False, 1000 * 2 + 10 * 100 * 7 + 40 * 0.5),  # equation 1
        (CorrelationStrategy.LIVE_FIRST, True, 1000 * 2 + 10 * 60 * 7 + 40 * 0.5),  # equation 3
        (CorrelationStrategy.ARCHIVE_FIRST, True, 1000 * 3 + 20 * 30 * 5 + 40 * 0.5),  # equation 4
    ],
)
def test_the_equations(strategy: CorrelationStrategy, cached: bool, expected: float) -> None:
    assert cost(strategy, FACTORS, cached) == expected


def test_a_report_goes_to_the_driver_and_into_words() -> None:
    report = CorrelationReport(
        CorrelationStrategy.LIVE_FIRST,
        {CorrelationStrategy.EAGER: 2, CorrelationStrategy.LIVE_FIRST: 7},
        {CorrelationStrategy.EAGER: 0.25, CorrelationStrategy.LIVE_FIRST: 0.5},
        FACTORS,
        {CorrelationStrategy.EAGER: 0.004, CorrelationStrategy.LIVE_FIRST: 0.001},
        (0.01, 500),
        buffered=12,
        cached=3,
        read=0,
        changes=(Change(2, CorrelationStrategy.EAGER, CorrelationStrategy.LIVE_FIRST, 0.004, 0.001),),
    )
    assert CorrelationReport.from_json(report.to_json()) == report
    text = "\n".join(lines_of(Section("", correlation_run([report.to_json(), report.to_json()]))))
    assert "live first: 14 rounds, 1.000 s" in text
    assert "M_l = 10, M_a = 20, M_j = 40" in text
    assert "estimated live first: 1.00 ms for these rows (taken)" in text
    assert "after round 2: live first in place of eager (estimated 1.00 ms against 4.00 ms)" in text
    assert correlation_run([]) == ()
