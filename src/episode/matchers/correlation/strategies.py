"""Strategies that two patterns allow, and why they rule out the others.

See decision 107.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.correlation.side import SideEvents
from episode.plan.correlation.plan import (
    HELD,
    OVERHEAD,
    Change,
    CorrelationPlan,
    CorrelationReport,
    CorrelationStrategy,
    Factors,
    costs,
)

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan


def unavailable(spec: CorrelationSpec) -> dict[CorrelationStrategy, str]:
    """The strategies that cannot be used, each with the reason."""
    reasons = {
        CorrelationStrategy.LIVE_FIRST: _not_live_first(spec),
        CorrelationStrategy.ARCHIVE_FIRST: _not_archive_first(spec),
    }
    return {strategy: reason for strategy, reason in reasons.items() if reason is not None}


def _not_live_first(spec: CorrelationSpec) -> str | None:
    live, archive = spec.live.spec.traits, spec.archive.spec.traits
    if archive.dependent is not None:
        return f"the archive pattern must be evaluated as a whole: {archive.dependent}"
    if archive.by_end:
        return "the archive pattern reports matches by their ends, so that those of a region depend on rows before it"
    if not live.prompt:
        return "live matches may be reported after others that end later"
    if spec.closed:
        return "the archive is a table, which is read along with the stream"
    return _own_keys(spec, spec.archive)


def _not_archive_first(spec: CorrelationSpec) -> str | None:
    live, archive = spec.live.spec.traits, spec.archive.spec.traits
    if live.dependent is not None:
        return f"the live pattern must be evaluated as a whole: {live.dependent}"
    if not (live.by_end and live.prompt):
        return "the live pattern does not report the longest match of each end as soon as that row is there"
    if live.longest is None and live.within is None and not live.walls:
        return (
            "nothing limits how far before a row a live match that ends there may start: there is no WITHIN, the "
            "pattern is not bounded, and a label after the first has no condition on its row alone"
        )
    if not archive.by_start:
        return "archive matches may be reported after others that start later"
    return _own_keys(spec, spec.live)


def _own_keys(spec: CorrelationSpec, side: SidePlan) -> str | None:
    if SideEvents(spec, side, 0).shared:
        return None
    return "its partitions or its order are not those of the correlation"


# The strategy of a correlation, chosen by cost between rounds (PCQ, section 4.4), and what it was chosen by.
#
# The first rounds are eager: they measure both patterns, and how many rows the regions of their matches have. What a
# strategy costs that has not been used is estimated from that; once it is used, it is measured.

BETTER = 0.9
"""A strategy replaces another if it is estimated to cost less than this part of it."""
REMEMBERED = 5
"""Rounds whose median is what is known: now and then one takes long for other reasons."""
LEAST_ROWS = 256
"""A round of fewer rows tells nothing about cost."""
SAMPLED = 16
"""Regions are counted after the first round, which tells nothing about cost, and then once in this many rounds."""
LEAST_ASKED = 1024
"""A region of fewer rows tells little about the cost of one."""
MOST_CHANGES = 64


@dataclass
class RecencyRound:
    """Measurements of one round: seconds, rows and numbers of matches; of regions, rows in all and in their union."""

    rows: int = 0
    live: float = 0.0
    archive: float = 0.0
    asked: float = 0.0
    asked_rows: int = 0
    buffering: float = 0.0
    join: float = 0.0
    live_matches: int = 0
    archive_matches: int = 0
    pairs: int = 0
    regions: dict[CorrelationStrategy, tuple[int, int]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.live + self.archive + self.asked + self.buffering + self.join


class RecencyAdaptation:
    """Choice of the strategy, and its reasons. possible: strategies that can be used."""

    def __init__(self, plan: CorrelationPlan, possible: list[CorrelationStrategy]) -> None:
        self.plan = plan
        self.possible = [plan.strategy] if plan.strategy is not None else possible
        self.strategy = plan.strategy or CorrelationStrategy.EAGER
        self.rows = 0
        self._seen: dict[str, deque[float]] = {}
        self._rates: dict[str, float] = {}
        self.rounds: dict[CorrelationStrategy, int] = {}
        self.seconds: dict[CorrelationStrategy, float] = {}
        self.changes: list[Change] = []
        self.actual = (0.0, 0)
        self.buffered = self.cached = self.read = 0
        self._measured: set[str] = set()

    @property
    def chooses(self) -> bool:
        return len(self.possible) > 1

    @property
    def counts_regions(self) -> bool:
        """Are the rows of regions to be counted in this round?"""
        done = sum(self.rounds.values())
        known = "live_region" in self._rates
        return self.chooses and done > 0 and (not known or done % SAMPLED == 1)

    def hold(self, buffered: int, cached: int, read: int) -> None:
        """Record how much is held after a round, and how many rows have been read so far."""
        self.buffered, self.cached = max(self.buffered, buffered), max(self.cached, cached)
        self.read = read

    def note(self, round_: RecencyRound, strategy: CorrelationStrategy) -> None:
        """A round with this strategy is over; the next one may have another."""
        self.strategy = strategy
        self.rounds[strategy] = self.rounds.get(strategy, 0) + 1
        self.seconds[strategy] = self.seconds.get(strategy, 0.0) + round_.seconds
        self.rows += round_.rows
        if round_.rows < LEAST_ROWS or (self.chooses and self.rounds[strategy] == 1):
            return  # the first round of a strategy finds everything cold: its times are not those of others
        self.actual = (round_.seconds, round_.rows)
        self._measure(round_)
        if self.chooses:
            self._choose()

    def _measure(self, round_: RecencyRound) -> None:
        """Update what is known with this round: times, and numbers of matches per row."""
        rows, strategy = max(1, round_.rows), self.strategy
        seen: dict[str, float] = {"pairs": round_.pairs / rows}
        if round_.pairs:
            seen["pair"] = round_.join / round_.pairs
        if strategy is not CorrelationStrategy.ARCHIVE_FIRST:
            seen |= {"live_row": round_.live / rows, "live_matches": round_.live_matches / rows}
        if strategy is not CorrelationStrategy.LIVE_FIRST:
            seen |= {"archive_row": round_.archive / rows, "archive_matches": round_.archive_matches / rows}
        if strategy is not CorrelationStrategy.EAGER:
            first, second = ("live", "archive") if strategy is CorrelationStrategy.LIVE_FIRST else ("archive", "live")
            seen[f"{second}_held"] = round_.buffering / rows
            if round_.asked_rows >= LEAST_ASKED:
                seen[f"{second}_asked"] = round_.asked / round_.asked_rows
                self._measured.add(f"{second}_asked")
            if self.plan.result_cache:
                matches = round_.live_matches if first == "live" else round_.archive_matches
                seen[f"{first}_step"] = round_.asked_rows / max(1, matches)
        for one, (region, union) in round_.regions.items():
            name = "live" if one is CorrelationStrategy.LIVE_FIRST else "archive"
            matches = max(1, round_.live_matches if name == "live" else round_.archive_matches)
            seen |= {f"{name}_region": region / matches, f"{name}_step": union / matches}
        for name, value in seen.items():
            values = self._seen.setdefault(name, deque(maxlen=REMEMBERED))
            values.append(value)
            self._rates[name] = float(np.median(values))
        for name in ("live", "archive"):
            if f"{name}_asked" not in self._measured:
                self._rates[f"{name}_asked"] = self._rates.get(f"{name}_row", 0.0) * OVERHEAD
            self._rates.setdefault(f"{name}_held", HELD)

    @property
    def factors(self) -> Factors:
        """Factors of the cost of all rows so far."""
        per_row = ("live_matches", "archive_matches", "pairs")
        known = {name: value * (self.rows if name in per_row else 1) for name, value in self._rates.items()}
        return Factors(rows=self.rows, **known)

    def _choose(self) -> None:
        estimates = costs(self.possible, self.factors, self.plan.result_cache)
        best = min(estimates, key=lambda one: estimates[one])
        old = self.strategy
        if best is not old and estimates[best] < BETTER * estimates[old]:
            if len(self.changes) < MOST_CHANGES:
                done = sum(self.rounds.values())
                self.changes.append(Change(done, old, best, estimates[old], estimates[best]))
            self.strategy = best

    def report(self) -> CorrelationReport:
        estimates = costs(self.possible, self.factors, self.plan.result_cache)
        return CorrelationReport(
            self.strategy, self.rounds, self.seconds, self.factors, estimates, self.actual,
            self.buffered, self.cached, self.read, tuple(self.changes),
        )  # fmt: skip
