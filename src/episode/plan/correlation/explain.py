"""The section of a correlation: which rows it reads, what is equal, how it is evaluated, and what a run measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from episode.plan.correlation.inputs import JointInput
from episode.plan.correlation.plan import CorrelationPlan, CorrelationReport, CorrelationStrategy, Factors
from episode.plan.sections import (
    BAR,
    NUMBER,
    PICTURE,
    Bar,
    Cell,
    Column,
    Diagram,
    FactLine,
    Section,
    SectionBlock,
    Table,
    cut_table,
    fact,
)

STRATEGY_WORDS = {
    CorrelationStrategy.EAGER: "all matches of both patterns",
    CorrelationStrategy.LIVE_FIRST: "matches of the archive that live ones ask for",
    CorrelationStrategy.ARCHIVE_FIRST: "live matches that those of the archive ask for",
}
MOST_CHANGES = 12


@dataclass(frozen=True)
class Region:
    """The time in which a pair lies. recency: as written."""

    recency: str

    def lines(self) -> list[str]:
        return [f"RECENCY {self.recency} before the end of the live match"]


def correlation_section(
    plan: CorrelationPlan,
    inputs: JointInput,
    recency: str,
    inside: Sequence[str] = (),
    after: Sequence[str] = (),
    reports: Sequence[str] | None = None,
) -> Section:
    """Build the section of one correlation, without its two patterns.

    recency: as written. inside, after: conditions over pairs that are tested in the join, and after it. reports: of a
    run (JSON).
    """
    rows = "every row is an event of both patterns" if inputs.shared else "rows of two inputs, each of one pattern"
    keys = ", ".join(inputs.keys) or "none: matches of all partitions are joined in one place"
    buffer = "as recency needs" if plan.recent_buffer is None else f"{plan.recent_buffer:,} rows of a key"
    strategy = "chosen by cost while running"
    if plan.strategy is not None:
        strategy = f"{plan.strategy.value}: {STRATEGY_WORDS[plan.strategy]}"
    blocks = (
        Diagram("where a pair lies in time", Region(recency), only=PICTURE),  # the title has the recency
        FactLine((("input", rows), ("event time", inputs.time)), "input: {}; event time {}"),
        fact("equal in both", keys),
        *([fact("tested in the join", " AND ".join(inside))] if inside else []),
        *([fact("tested after the join", " AND ".join(after))] if after else []),
        fact("strategy", strategy),
        FactLine((("result cache", "on" if plan.result_cache else "off"), ("recent buffer", buffer))),
        Table(
            "strategies",
            (Column("strategy"), Column("computes")),
            tuple((one.value, words) for one, words in STRATEGY_WORDS.items()),
            frozenset(number for number, one in enumerate(STRATEGY_WORDS) if one is plan.strategy),
            only=PICTURE,  # the text has the one in use
        ),
    )
    title = f"Correlation: RECENCY {recency}{', ORDERED' if plan.ordered else ''}"
    return Section(title, blocks, correlation_run(reports or ()))


def correlation_run(texts: Sequence[str]) -> tuple[SectionBlock, ...]:
    """Build the blocks of a run from the reports of its matchers (JSON)."""
    reports = [CorrelationReport.from_json(text) for text in texts]
    if not reports:
        return ()
    rounds = {one: sum(report.rounds.get(one, 0) for report in reports) for one in CorrelationStrategy}
    seconds = {one: sum(report.seconds.get(one, 0.0) for report in reports) for one in CorrelationStrategy}
    largest = max(reports, key=lambda one: one.factors.rows)
    estimates = largest.estimates.items()
    spent, rows = largest.actual
    buffered, cached = max(one.buffered for one in reports), max(one.cached for one in reports)
    held = f"{buffered:,} rows in the recent buffer, {cached:,} matches"
    columns = (Column("strategy"), Column("rounds", NUMBER, ": {} rounds"), Column("time", NUMBER, ", {}"))
    used = [one for one in CorrelationStrategy if rounds[one]]
    return (
        Table(
            "what the matchers did",
            columns,
            tuple((one.value, f"{rounds[one]:,}", f"{seconds[one]:.3f} s") for one in used),
        ),
        *_factors(largest.factors),
        Table(
            "estimated for these rows",
            (
                Column("strategy", words="estimated {}"),
                Column("time", BAR, ": {} for these rows"),
                Column("", words=" ({})"),
            ),
            tuple(
                (one.value, Bar(_ms(cost), cost), "taken" if one is largest.strategy else "") for one, cost in estimates
            ),
            frozenset(number for number, (one, _) in enumerate(estimates) if one is largest.strategy),
            headed=False,
            level=2,
        ),
        fact("actual, last round", f"{_ms(spent)} for {rows:,} rows", level=2),
        FactLine((("held at most", held), ("read", f"{sum(one.read for one in reports):,} rows")), level=2),
        *_changes(reports),
    )


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms"


def _factors(factors: Factors) -> list[FactLine]:
    def per_row(seconds: float) -> str:
        return f"{seconds * 1e9:,.1f} ns" if seconds else "not measured"

    matches = f"M_l = {factors.live_matches:,.0f}, M_a = {factors.archive_matches:,.0f}, M_j = {factors.pairs:,.0f}"
    times = (
        f"c_l = {per_row(factors.live_row)}, c_a = {per_row(factors.archive_row)}, "
        f"c'_l = {per_row(factors.live_asked)}, c'_a = {per_row(factors.archive_asked)}, c_j = {per_row(factors.pair)}"
    )
    regions = (
        f"P_l = {factors.live_region:,.1f} rows, min(P_l, Δ_l) = {factors.live_step:,.1f}; "
        f"P_a = {factors.archive_region:,.1f}, min(P_a, Δ_a) = {factors.archive_step:,.1f}"
    )
    return [
        fact(f"factors over {factors.rows:,.0f} rows", matches, level=2),
        fact("time for a row", times, "{}", level=2),
        fact("rows of a region", regions, "{}", level=2),
    ]


def _changes(reports: list[CorrelationReport]) -> list[Table]:
    columns = (
        Column("after round", NUMBER, "after round {}"),
        Column("strategy", words=": {}"),
        Column("in place of", words=" in place of {}"),
        Column("its cost", NUMBER, " (estimated {}"),
        Column("cost of the one before", NUMBER, " against {})"),
    )
    rows: list[tuple[Cell, ...]] = [
        (str(one.round), one.new.value, one.old.value, _ms(one.after), _ms(one.before))
        for report in reports
        for one in report.changes
    ]
    return cut_table("strategies taken", columns, rows, MOST_CHANGES, headed=False, level=2)
