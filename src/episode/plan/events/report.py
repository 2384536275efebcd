"""What a matcher of an event pattern did, as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass

from episode.plan.events.actual import Actual
from episode.plan.events.cost import PhysicalPlan, Statistics
from episode.plan.events.tree import Node
from episode.plan.report import CarriedReport


@dataclass(frozen=True)
class Moved:
    """A statistic that is no longer what a plan was made for. of: a variable (its events per window), or the number of
    a test (its selectivity)."""

    of: str | int
    before: float
    now: float


@dataclass(frozen=True)
class Change:
    """A plan taken because a statistic has moved, in place of another one (old_cost: by what is known now); or as the
    first one."""

    round: int
    moved: Moved | None
    old_cost: float | None
    new_cost: float
    plan: PhysicalPlan


@dataclass(frozen=True)
class EventReport(CarriedReport):
    """What one matcher did.

    tree: what its plans are of, if they are of a tree. nodes: pairs tried and records put out, by the name of a node.
    plan, statistics: the last ones. actual: what that plan has done since it was taken, where it was counted.
    """

    tree: Node | None
    rounds: int
    matches: int
    nodes: dict[str, tuple[int, int]]
    statistics: Statistics | None
    plan: PhysicalPlan | None
    actual: Actual | None
    changes: tuple[Change, ...]


@dataclass
class AggregatedReport(CarriedReport):
    """What matchers of aggregates did: passes, the events in them (of windows before, too), rows returned."""

    passes: int = 0
    events: int = 0
    rows: int = 0

    @staticmethod
    def sum_of(texts: Iterable[str]) -> AggregatedReport:
        """What all matchers of a run did."""
        reports = [AggregatedReport.from_json(text) for text in texts]
        return AggregatedReport(*(sum(counts) for counts in zip(*map(astuple, reports), strict=True)))
