"""Statistics of the events that pass, and the plan that fits them: adaptation between rounds.

Rates come from the events of a round, selectivities of conditions from a sample of its events; both are running
averages. When one of them has moved by more than CHANGE since the plan was made, the search runs again, and its plan is
taken if it is cheaper by more than GAIN.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np

from episode.kernels import joins
from episode.matchers.event_prepare import EventArrays
from episode.matchers.event_tree import Counted, Round
from episode.plan.event_cost import (
    PhysicalPlan,
    Statistics,
    cost_of,
    default_statistics,
    search,
)
from episode.plan.event_pattern import EventPlan, JoinTest
from episode.plan.explain_events import tree_lines

CHANGE, GAIN = 0.5, 0.1
WEIGHT = 0.5
SAMPLE = 256
MOST_NOTES = 100


@dataclass(frozen=True)
class Change:
    """A plan taken in place of another one."""

    round: int
    reason: str
    old_cost: float
    new_cost: float
    plan: PhysicalPlan


@dataclass
class Adaptation:
    """The plan in use, and why."""

    plan: EventPlan
    forced: PhysicalPlan | None = None
    statistics: Statistics | None = None
    physical: PhysicalPlan | None = None
    based_on: Statistics | None = None
    changes: list[Change] = field(default_factory=list)
    rounds: int = 0
    matches: int = 0
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)

    def plan_for(self, arrays: EventArrays, round_: Round) -> PhysicalPlan:
        """The plan for a round."""
        self.rounds += 1
        if self.forced is not None:
            return self.forced
        seen = _statistics(self.plan, arrays, round_, self.rounds)
        self.statistics = seen if self.statistics is None else _average(self.statistics, seen)
        if self.physical is None:
            before = default_statistics(self.plan)
            self._take(search(self.plan, self.statistics), "first events seen", cost_of_default(self.plan, before))
        else:
            moved = self._moved()
            if moved is not None:
                old = cost_of(self.plan, self.statistics, self.physical)
                best = search(self.plan, self.statistics)
                self.based_on = self.statistics
                if best.cost < old * (1 - GAIN):
                    self._take(best, moved, old)
        assert self.physical is not None
        return self.physical

    def _take(self, best: PhysicalPlan, reason: str, old: float) -> None:
        self.physical, self.based_on = best, self.statistics
        if len(self.changes) < MOST_NOTES:
            self.changes.append(Change(self.rounds, reason, old, best.cost, best))

    def _moved(self) -> str | None:
        """The first statistic that has changed by more than CHANGE."""
        assert self.statistics is not None
        assert self.based_on is not None
        for name, value in self.statistics.cards.items():
            before = self.based_on.cards.get(name, value)
            if abs(value - before) > CHANGE * max(before, 1e-9):
                return f"events of {name} per window: {before:,.2f} → {value:,.2f}"
        for number, value in self.statistics.selectivity.items():
            before = self.based_on.selectivity.get(number, value)
            if abs(value - before) > CHANGE * max(before, 1e-3):
                return f"selectivity of {self.plan.tests[number].text}: {before:.3f} → {value:.3f}"
        return None

    def note(self, counted: list[Counted], matches: int) -> None:
        """What the nodes of a round did."""
        self.matches += matches
        for one in counted:
            tried, records = self.counted.get(one.name, (0, 0))
            self.counted[one.name] = (tried + one.tried, records + one.records)

    def report(self) -> str:
        """What happened, as JSON: see plan/explain_events.py for how it is told."""
        statistics = self.statistics or default_statistics(self.plan)
        physical = self.forced or self.physical
        trees = []
        if self.plan.tree is not None and physical is not None and not physical.automaton:
            trees = tree_lines(self.plan, physical, statistics)
        return json.dumps(
            {
                "rounds": self.rounds,
                "matches": self.matches,
                "automaton": physical is None or physical.automaton,
                "tree": trees,
                "nodes": {name: list(numbers) for name, numbers in self.counted.items()},
                "changes": [[change.round, change.reason, change.old_cost, change.new_cost] for change in self.changes],
            }
        )


def cost_of_default(plan: EventPlan, statistics: Statistics) -> float:
    return search(plan, statistics).cost


def _average(old: Statistics, new: Statistics) -> Statistics:
    def mixed(before: dict, now: dict) -> dict:
        return {name: before.get(name, value) * (1 - WEIGHT) + value * WEIGHT for name, value in now.items()}

    selectivity = {**old.selectivity, **mixed(old.selectivity, new.selectivity)}
    return Statistics(mixed(old.cards, new.cards), selectivity, old.rows * (1 - WEIGHT) + new.rows * WEIGHT)


def _statistics(plan: EventPlan, arrays: EventArrays, round_: Round, seed: int) -> Statistics:
    low, high = int(round_.from_[0]), int(round_.from_[-1])
    windows = _windows(plan, round_)
    bits = round_.bits[low:high]
    rows = {}
    cards = {}
    for number, name in enumerate(plan.variables):
        mine = np.flatnonzero(bits & np.uint64(1 << number)) + low
        rows[name] = mine
        cards[name] = _seen(np.diff(np.searchsorted(mine, round_.from_)), windows)
    random = np.random.default_rng(seed)
    selectivity = {}
    for number, test in enumerate(plan.tests):
        share = _selectivity(plan, arrays, round_, test, rows, random)
        if share is not None:
            selectivity[number] = share
    return Statistics(cards, selectivity, max(1.0, _seen(np.diff(round_.from_), windows)))


def _windows(plan: EventPlan, round_: Round) -> np.ndarray:
    """How many windows the events of each partition span; at least one."""
    groups = len(round_.from_) - 1
    if plan.within is None:
        return np.ones(groups)
    first, last = round_.from_[:-1], round_.from_[1:] - 1
    return np.maximum(1.0, (round_.end[last] - round_.end[first]) / max(plan.within, 1))


def _seen(counts: np.ndarray, windows: np.ndarray) -> float:
    """Events per window as an event sees them: where few partitions have most of the events, those count."""
    total = counts.sum()
    return float((counts * (counts / windows)).sum() / total) if total else 0.0


def _selectivity(
    plan: EventPlan,
    arrays: EventArrays,
    round_: Round,
    test: JoinTest,
    rows: dict[str, np.ndarray],
    random: np.random.Generator,
) -> float | None:
    """The share of sampled combinations of a window for which a test holds."""
    names = tuple(sorted(test.variables))
    first = rows[names[0]]
    if len(first) == 0:
        return None
    chosen = [random.choice(first, SAMPLE)]
    group = np.searchsorted(round_.from_, chosen[0], side="right") - 1
    valid = np.ones(SAMPLE, np.bool_)
    window = np.iinfo(np.int64).max // 4 if plan.within is None else plan.within
    for name in names[1:]:
        others = rows[name]
        if len(others) == 0:
            return None
        low = np.searchsorted(others, round_.from_[group])
        high = np.searchsorted(others, round_.from_[group + 1])
        times = round_.end[others]
        here = round_.end[chosen[0]]
        near_low = _search_within(times, low, high, here - window)
        near_high = _search_within(times, low, high, here + window + 1)
        count = near_high - near_low
        valid &= count > 0
        at = near_low + (random.random(SAMPLE) * np.maximum(count, 1)).astype(np.int64)
        chosen.append(others[np.minimum(at, len(others) - 1)])
    if not valid.any():
        return None
    matrix = np.stack(chosen, axis=1)[valid].astype(np.int32)
    compiled = arrays.tests([test], names, ())
    held = joins.filtered(matrix, np.zeros((1, 1), np.int32), compiled, arrays.kernel_lanes)
    return float((np.count_nonzero(held) + 0.5) / (len(held) + 1))


def _search_within(times: np.ndarray, low: np.ndarray, high: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per element, the first index in [low, high) whose time is at least `wanted`."""
    low, high = low.copy(), high.copy()
    while (low < high).any():
        middle = (low + high) // 2
        less = times[np.minimum(middle, len(times) - 1)] < wanted
        open_ = low < high
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low
