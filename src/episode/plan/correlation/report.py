"""The report of a matcher of correlations."""

from __future__ import annotations

from dataclasses import dataclass

from episode.plan.correlation.plan import CorrelationStrategy, Factors
from episode.plan.pattern import CarriedReport


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
