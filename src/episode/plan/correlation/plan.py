"""The plan of a correlation by recency: which pattern is evaluated first, what is remembered, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum

from episode.errors import EpisodeAnalysisError
from episode.plan.pattern import CarriedReport

# Costs of the strategies of a correlation (PCQ, equations 1 to 4), from factors that are measured while running.


OVERHEAD = 1.2
"""The cost of a row that is gathered for a region, relative to one that is fed as it comes; used until measured."""
HELD = 2e-7
"""Seconds for keeping a row in the recent buffer and for the other work of a lazy round; used until measured. A cheap
pattern costs no more than that for a row: then a lazy strategy has nothing to gain and is not tried."""


@dataclass(frozen=True)
class Factors:
    """The workload of some rows, in the terms of the paper's Table 2 (there in brackets). Times are in seconds.

    rows (N). live_row, archive_row (c_l, c_a): time of each pattern per row. live_asked, archive_asked (c'_l, c'_a):
    the same per row of a region. pair (c_j): time of the join per pair. live_matches, archive_matches, pairs (M_l, M_a,
    M_j). live_region, archive_region (P_l, P_a): rows in the region of a match. live_step, archive_step (the lesser of
    P and delta): rows of it that are in no region before. Beyond the paper: live_held, archive_held: time per row for
    keeping rows in the recent buffer, where that pattern is the second.
    """

    rows: float = 0.0
    live_row: float = 0.0
    archive_row: float = 0.0
    live_asked: float = 0.0
    archive_asked: float = 0.0
    pair: float = 0.0
    live_matches: float = 0.0
    archive_matches: float = 0.0
    pairs: float = 0.0
    live_region: float = 0.0
    archive_region: float = 0.0
    live_step: float = 0.0
    archive_step: float = 0.0
    live_held: float = 0.0
    archive_held: float = 0.0

    @staticmethod
    def names() -> list[str]:
        return [one.name for one in fields(Factors)]


def cost(strategy: CorrelationStrategy, factors: Factors, cached: bool) -> float:
    """Seconds for the rows of the factors: equation 1 without the result cache, 3 and 4 with it."""
    join = factors.pairs * factors.pair
    if strategy is CorrelationStrategy.EAGER:
        return factors.rows * (factors.live_row + factors.archive_row) + join
    if strategy is CorrelationStrategy.LIVE_FIRST:
        region = factors.live_step if cached else factors.live_region
        first = factors.rows * (factors.live_row + factors.archive_held)
        return first + factors.live_matches * region * factors.archive_asked + join
    region = factors.archive_step if cached else factors.archive_region
    first = factors.rows * (factors.archive_row + factors.live_held)
    return first + factors.archive_matches * region * factors.live_asked + join


def costs(strategies: list[CorrelationStrategy], factors: Factors, cached: bool) -> dict[CorrelationStrategy, float]:
    return {one: cost(one, factors, cached) for one in strategies}


LIVE_PREFIX, ARCHIVE_PREFIX = "__live_", "__archive_"
"""Before the names of columns of a pair: whose they are."""


class CorrelationStrategy(Enum):
    """The matches that are computed (PCQ, sections 3.2, 3.3 and 4.4).

    EAGER: all of both patterns. LIVE_FIRST: all live ones, and those of the archive that they ask for. ARCHIVE_FIRST:
    all of the archive, and the live ones that they ask for.
    """

    EAGER = "eager"
    LIVE_FIRST = "live first"
    ARCHIVE_FIRST = "archive first"


@dataclass(frozen=True)
class CorrelationPlan:
    """The user's settings of the evaluation. The rows of the result are the same for all of them.

    strategy: None: chosen by cost while running, between rounds. result_cache: are matches of the pattern that is
    evaluated second remembered for further matches of the first (PCQ, section 4.3)? Without it each match has its
    region computed from scratch. recent_buffer: rows of a key that the recent buffer holds (section 4.2); None: the
    number that the recency needs. ordered: do the pairs of a key come in order of their start, then of their end?
    """

    strategy: CorrelationStrategy | None = None
    result_cache: bool = True
    recent_buffer: int | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.ordered and not self.result_cache:
            message = "Pairs in order need the result cache: a pair is held back until none can come before it."
            raise EpisodeAnalysisError(message, hint="Leave ORDERED out, or result_cache=False.")


# Reports of matchers of correlations.


@dataclass(frozen=True)
class Change:
    """A strategy taken in place of another one. round: after which. before, after: estimated costs of both."""

    round: int
    old: CorrelationStrategy
    new: CorrelationStrategy
    before: float
    after: float


@dataclass(frozen=True)
class CorrelationReport(CarriedReport):
    """Counts and costs of one matcher.

    strategy: the last one. rounds, seconds: by strategy. factors: the last known. estimates: seconds for the rows of
    the factors, by strategy, of those that can be used. actual: seconds that the last round took, and its rows.
    buffered, cached: the most rows in the recent buffer, and matches kept, after a round. read: rows from the archive.
    """

    strategy: CorrelationStrategy
    rounds: dict[CorrelationStrategy, int]
    seconds: dict[CorrelationStrategy, float]
    factors: Factors
    estimates: dict[CorrelationStrategy, float]
    actual: tuple[float, int]
    buffered: int
    cached: int
    read: int
    changes: tuple[Change, ...] = ()
