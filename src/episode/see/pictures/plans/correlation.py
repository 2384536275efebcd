"""A correlation as a section: the region in which pairs lie, the strategies and their costs, and its two patterns."""

from __future__ import annotations

from episode.plan.correlation.plan import CorrelationPlan, Strategy
from episode.plan.correlation.report import CorrelationReport
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.blocks import BAR, Block, Column, Diagram, Facts, Section, Table, bars
from episode.see.pictures.plans.drawing import Drawing
from episode.see.pictures.plans.facts import reason_facts, run_facts

WORDS = {
    Strategy.EAGER: "all matches of both patterns",
    Strategy.LIVE_FIRST: "all live matches, and those of the archive that they ask for",
    Strategy.ARCHIVE_FIRST: "all matches of the archive, and the live ones that they ask for",
}
MOST_CHANGES = 12
SHOWN = ("input", "equal in both", "tested in the join", "tested after the join", "strategy", "result cache")
"""Facts of the plan in words that stand in the picture, too."""


def correlation_section(explained: ExplainedPattern, plan: CorrelationPlan, sides: list[Section]) -> Section:
    """Two patterns whose matches are joined. sides: the sections of the live and of the archive pattern."""
    reports = [CorrelationReport.from_json(one) for one in explained.reports or ()]
    largest = max(reports, key=lambda one: one.factors.rows) if reports else None
    title, *_ = explained.lines
    recency = title.partition("RECENCY ")[2].partition(",")[0]
    blocks: list[Block] = [
        Diagram("Where a pair lies in time", _region(recency)),
        _strategies(explained, plan, largest),
    ]
    if largest is not None:
        blocks += [_factors(largest), *_changes(reports)]
    blocks.append(_facts(explained, reports))
    titled = [
        Section(f"{role} pattern: {side.title}", side.blocks, side.text, side.parts)
        for role, side in zip(("live", "archive"), sides, strict=True)
    ]
    return Section(title, tuple(blocks), "\n".join(explained.lines), tuple(titled))


def _region(recency: str) -> Drawing:
    """The live match ends now; an archive match begins before it, ends before it, and not too long ago."""
    drawing = Drawing(560.0, 104.0)
    drawing.box(120.0, 6.0, 390.0, 66.0, "band", 4.0)
    drawing.text(126.0, 90.0, f"RECENCY {recency} before the end of the live match", "small")
    for name, begin, end, y, kind in (("archive", 160.0, 330.0, 18.0, "two"), ("live", 260.0, 510.0, 46.0, "one")):
        drawing.text(108.0, y + 12.0, name, "name", "end")
        drawing.box(begin, y, end - begin, 16.0, kind, 3.0)
    drawing.line([(510.0, 0.0), (510.0, 78.0)], "preferred")
    drawing.group(
        "region",
        f"The archive match begins within {recency} before the end of the live match; it begins and ends before it.",
        0,
    )
    return drawing


def _strategies(explained: ExplainedPattern, plan: CorrelationPlan, largest: CorrelationReport | None) -> Table:
    barred = {}
    for reason in explained.reasons:
        if reason.startswith("not available: "):
            name, _, why = reason.removeprefix("not available: ").partition(", because ")
            barred[name] = why
    costs = {} if largest is None else largest.estimates
    used = plan.strategy if largest is None else largest.strategy
    greatest = max(costs.values(), default=0.0)
    rows, strong = [], set()
    for number, strategy in enumerate(Strategy):
        if strategy is used:
            strong.add(number)
        if strategy.value in barred:
            state = f"not available: {barred[strategy.value]}"
        elif strategy is used:
            state = "in use"
        else:
            state = "measured while running" if largest is None and plan.strategy is None else ""
        cells = [strategy.value, WORDS[strategy], state]
        if largest is not None:
            cost = costs.get(strategy)
            bar = bars(
                [cost or 0.0, greatest],
                ["" if cost is None else f"{cost * 1e3:,.2f} ms", ""],
                {0} if strategy is used else (),
            )[0]
            seconds = largest.seconds.get(strategy)
            spent = "" if seconds is None else f"{largest.rounds.get(strategy, 0):,} rounds, {seconds:,.3f} s"
            rows.append((*cells, spent, bar if cost is not None else ""))
        else:
            rows.append(tuple(cells))
    columns = [Column("strategy"), Column("computes"), Column("")]
    if largest is not None:
        columns += [Column("in fact"), Column(f"estimated for {largest.factors.rows:,.0f} rows", BAR)]
    return Table("Strategies", tuple(columns), tuple(rows), frozenset(strong))


def _factors(report: CorrelationReport) -> Table:
    factors = report.factors

    def per_row(seconds: float) -> str:
        return f"{seconds * 1e9:,.1f} ns" if seconds else "not measured"

    rows = (
        ("live", f"{factors.live_matches:,.0f}", per_row(factors.live_row), per_row(factors.live_asked)),
        ("archive", f"{factors.archive_matches:,.0f}", per_row(factors.archive_row), per_row(factors.archive_asked)),
        ("pairs", f"{factors.pairs:,.0f}", per_row(factors.pair), ""),
    )
    columns = (Column("pattern"), Column("matches"), Column("time for a row"), Column("for a row of a region"))
    return Table(f"Factors over {factors.rows:,.0f} rows", columns, rows)


def _changes(reports: list[CorrelationReport]) -> list[Block]:
    changes = [change for one in reports for change in one.changes][:MOST_CHANGES]
    if not changes:
        return []
    rows = tuple(
        (str(one.round), one.old.value, one.new.value, f"{one.before * 1e3:,.2f} ms", f"{one.after * 1e3:,.2f} ms")
        for one in changes
    )
    names = ("after round", "in place of", "strategy", "cost of the one before", "its cost")
    return [Table("Strategies taken", tuple(map(Column, names)), rows)]


def _facts(explained: ExplainedPattern, reports: list[CorrelationReport]) -> Facts:
    own = (line.strip().partition(": ") for line in explained.lines if not line.startswith("   "))
    items = [(name, what) for name, _, what in own if name in SHOWN]
    if reports:
        items.append(("rows in the recent buffer", f"{max(one.buffered for one in reports):,} at most"))
        items.append(("matches kept", f"{max(one.cached for one in reports):,} at most"))
        items.append(("rows read from the archive", f"{sum(one.read for one in reports):,}"))
    reasons = [one for one in reason_facts(explained) if one[0] != "not available"]
    return Facts((*items, *reasons, *run_facts(explained)))
