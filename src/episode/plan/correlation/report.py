"""What a matcher of a correlation did, and that in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from episode.plan.correlation.plan import Factors, Strategy
from episode.plan.pattern import CarriedReport


@dataclass(frozen=True)
class Change:
    """A strategy taken in place of another one, after so many rounds. before, after: estimated costs of both."""

    round: int
    old: Strategy
    new: Strategy
    before: float
    after: float


@dataclass(frozen=True)
class CorrelationReport(CarriedReport):
    """What one matcher did.

    strategy: the last one. rounds, seconds: by strategy. factors: the last known. estimates: seconds for the rows of
    the factors, by strategy, of those that can be used. actual: seconds that the last round took, and its rows.
    buffered, cached: the most rows in the recent buffer, and matches kept, after a round. read: rows from the archive.
    """

    strategy: Strategy
    rounds: dict[Strategy, int]
    seconds: dict[Strategy, float]
    factors: Factors
    estimates: dict[Strategy, float]
    actual: tuple[float, int]
    buffered: int
    cached: int
    read: int
    changes: tuple[Change, ...] = ()


SHOWN_CHANGES = 6


def explain_reports(texts: list[str]) -> list[str]:
    """The reports of all matchers of a run, in words."""
    reports = [CorrelationReport.from_json(text) for text in texts]
    if not reports:
        return []
    lines = ["  what the matchers did:"]
    for strategy in Strategy:
        rounds = sum(one.rounds.get(strategy, 0) for one in reports)
        if rounds:
            seconds = sum(one.seconds.get(strategy, 0.0) for one in reports)
            lines.append(f"    {strategy.value}: {rounds:,} rounds, {seconds:.3f} s")
    largest = max(reports, key=lambda one: one.factors.rows)
    lines += _factor_lines(largest.factors)
    for strategy, estimate in largest.estimates.items():
        taken = " (taken)" if strategy is largest.strategy else ""
        lines.append(f"    estimated {strategy.value}: {estimate * 1e3:,.2f} ms for these rows{taken}")
    seconds, rows = largest.actual
    lines.append(f"    actual, last round: {seconds * 1e3:,.2f} ms for {rows:,} rows")
    buffered, cached, read = (
        max(one.buffered for one in reports), max(one.cached for one in reports), sum(one.read for one in reports)
    )  # fmt: skip
    lines.append(f"    held at most: {buffered:,} rows in the recent buffer, {cached:,} matches; read: {read:,} rows")
    lines += list(_change_lines([change for one in reports for change in one.changes]))
    return lines


def _factor_lines(factors: Factors) -> list[str]:
    def per_row(seconds: float) -> str:
        return f"{seconds * 1e9:,.1f} ns" if seconds else "not measured"

    return [
        f"    factors over {factors.rows:,.0f} rows: M_l = {factors.live_matches:,.0f}, "
        f"M_a = {factors.archive_matches:,.0f}, M_j = {factors.pairs:,.0f}",
        f"    c_l = {per_row(factors.live_row)}, c_a = {per_row(factors.archive_row)}, "
        f"c'_l = {per_row(factors.live_asked)}, c'_a = {per_row(factors.archive_asked)}, "
        f"c_j = {per_row(factors.pair)}",
        f"    P_l = {factors.live_region:,.1f} rows, min(P_l, Δ_l) = {factors.live_step:,.1f}; "
        f"P_a = {factors.archive_region:,.1f}, min(P_a, Δ_a) = {factors.archive_step:,.1f}",
    ]


def _change_lines(changes: list[Change]) -> Iterator[str]:
    for change in changes[:SHOWN_CHANGES]:
        yield (
            f"    after round {change.round}: {change.new.value} in place of {change.old.value} "
            f"(estimated {change.after * 1e3:,.2f} ms against {change.before * 1e3:,.2f} ms)"
        )
    if len(changes) > SHOWN_CHANGES:
        yield f"    … {len(changes) - SHOWN_CHANGES} more changes"
