"""Statistics of the events that pass, and the plan that fits them: adaptation between rounds.

Rates come from the events of a round, selectivities of conditions from a sample of its events; both are running
averages, in which what was before counts half after HALF_LIFE events. When one of them has moved by more than CHANGE
since the plan was made, the search runs again, and its plan is taken if it is cheaper by more than GAIN.

In a stream, a round has the events of the window that were held, without those that only matches already handed out
have: of the last class, say, there are only the new ones. How often such a variable occurs is known by comparison with
the others, among events as they arrive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from episode.matchers.events.census import share_that_holds, take_census
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import Counted
from episode.matchers.events.rounds import Round
from episode.matchers.times import EVER
from episode.plan.events.actual import Actual, Done
from episode.plan.events.conditions import JoinTest
from episode.plan.events.cost import (
    PhysicalPlan,
    Statistics,
    cost_of,
    search,
    tests_between,
)
from episode.plan.events.plan import EventPlan
from episode.plan.events.report import Change, EventReport, Moved

CHANGE, GAIN = 0.5, 0.1
HALF_LIFE = 2_048
SAMPLE, SAMPLE_ROWS, LEAST_ROWS = 512, 4_096, 8_192
"""Pairs looked at for each condition, about how many new events of a feed are counted by variable, and the least
number of events between two samples."""
LEAST_WORK, ROW_WORK = 1_500_000, 10
"""Pairs and records between two samples, and how many of them an event counts for: a sample takes about as long as a
twentieth of that. Where a plan has become bad, its work comes sooner."""
PAUSE = 0.125
"""Windows that a pause between events counts at the most."""
MOST_NOTES = 100
_NO_BITS = np.uint64(0)


@dataclass
class Adaptation:
    """The plan in use, and why. let_go: bits of variables whose events are not held for their whole window. arrived:
    how many events of each variable came of late. done, done_windows, done_matches: what the plan has done since it was
    taken."""

    plan: EventPlan
    forced: PhysicalPlan | None = None
    let_go: np.uint64 = _NO_BITS
    statistics: Statistics | None = None
    physical: PhysicalPlan | None = None
    based_on: Statistics | None = None
    changes: list[Change] = field(default_factory=list)
    rounds: int = 0
    matches: int = 0
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    unseen: int = 0
    work: int = 0
    done: dict[tuple[str, ...], Done] = field(default_factory=dict)
    done_windows: float = 0.0
    done_matches: int = 0
    has_held: bool = False
    arrived: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def arrive(self, bits: np.ndarray, is_new: np.ndarray) -> None:
        """Count the new events of a feed. bits: the variables that its events, and those held before, qualify for."""
        if not self.let_go or self.forced is not None:
            return
        new = np.flatnonzero(is_new)
        self.has_held = len(new) < len(bits)
        step = max(1, len(new) // SAMPLE_ROWS)
        chosen = bits[new[::step]]
        counts = [step * float(np.count_nonzero(chosen & bit)) for bit in self._bits]
        kept = 0.5 ** (len(new) / HALF_LIFE)
        self.arrived = np.array(counts) + (kept * self.arrived if len(self.arrived) else 0.0)

    @property
    def _bits(self) -> np.ndarray:
        return np.uint64(1) << np.arange(len(self.plan.variables), dtype=np.uint64)

    def _over_the_window(self, seen: Statistics) -> Statistics:
        """Rates of a round with events that were held, where those let go of are as many as have arrived."""
        if not self.has_held or not self.let_go:
            return seen
        gone = self._bits & self.let_go != 0
        cards = np.array([seen.cards[name] for name in self.plan.variables])
        if not self.arrived[~gone].sum() or not cards[~gone].sum():
            return seen
        cards[gone] = self.arrived[gone] * (cards[~gone].sum() / self.arrived[~gone].sum())
        return replace(seen, cards=dict(zip(self.plan.variables, cards.tolist())))

    def plan_for(self, arrays: EventArrays, round_: Round) -> PhysicalPlan:
        """The plan for a round."""
        self.rounds += 1
        if self.forced is not None:
            return self.forced
        rows = int(round_.from_[-1] - round_.from_[0])
        self.unseen += rows
        self.work += ROW_WORK * rows
        if self.physical is not None and (self.unseen < LEAST_ROWS or self.work < LEAST_WORK):
            return self.physical
        self.unseen = self.work = 0
        seen = self._over_the_window(statistics_of(self.plan, arrays, round_, self.rounds))
        self.statistics = seen if self.statistics is None else _average(self.statistics, seen, rows)
        if self.physical is None:
            best = search(self.plan, self.statistics)
            self._take(best, None, None)
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

    def _take(self, best: PhysicalPlan, moved: Moved | None, old: float | None) -> None:
        self.physical, self.based_on = best, self.statistics
        self.done, self.done_windows, self.done_matches = {}, 0.0, 0
        if len(self.changes) < MOST_NOTES:
            self.changes.append(Change(self.rounds, moved, old, best.cost, best))

    def _moved(self) -> Moved | None:
        """The first statistic that has changed by more than CHANGE."""
        assert self.statistics is not None
        assert self.based_on is not None
        for name, value in self.statistics.cards.items():
            before = self.based_on.cards.get(name, value)
            if abs(value - before) > CHANGE * max(before, 1e-9):
                return Moved(name, before, value)
        for number, value in self.statistics.selectivity.items():
            before = self.based_on.selectivity.get(number, value)
            if abs(value - before) > CHANGE * max(before, 1e-3):
                return Moved(number, before, value)
        return None

    def note(
        self, counted: list[Counted], matches: int, events: dict[str, int], constructed: int | None = None
    ) -> None:
        """What the nodes of a round did; events: how many of each variable they have looked at. constructed: how many
        matches were made of those of the tree, where these are intermediate ones."""
        self.matches += matches if constructed is None else constructed
        if self.plan.tree is None:
            self.rounds += 1
        for one in counted:
            tried, records = self.counted.get(one.name, (0, 0))
            self.counted[one.name] = (tried + one.tried, records + one.records)
            self.work += one.tried + one.records
            if one.variables:
                self._add(one.variables, one.tried, one.records, one.hashed)
        if self.statistics is not None:
            for name, number in events.items():
                self._add((name,), 0, number)
            in_window = sum(self.statistics.card(name) for name in events)
            self.done_windows += sum(events.values()) / in_window if in_window else 0.0
            self.done_matches += matches

    def _add(self, variables: tuple[str, ...], tried: int, records: int, hashed: bool = False) -> None:
        before = self.done.get(variables, Done(0, 0))
        self.done[variables] = Done(before.tried + tried, before.records + records, hashed)

    def actual(self) -> Actual | None:
        """What the plan in use has done so far."""
        return Actual(self.done, self.done_windows, self.done_matches) if self.done_windows else None

    def report(self) -> EventReport:
        """What happened so far."""
        return EventReport(
            self.plan.tree,
            self.rounds,
            self.matches,
            dict(self.counted),
            self.statistics,
            self.forced or self.physical,
            self.actual(),
            tuple(self.changes),
        )


def _average(old: Statistics, new: Statistics, rows: int) -> Statistics:
    kept = 0.5 ** (rows / HALF_LIFE)

    def mixed(before: dict, now: dict) -> dict:
        return {name: before.get(name, value) * kept + value * (1 - kept) for name, value in now.items()}

    selectivity = {**old.selectivity, **mixed(old.selectivity, new.selectivity)}
    between = {**old.between, **mixed(old.between, new.between)}
    return Statistics(mixed(old.cards, new.cards), selectivity, old.rows * kept + new.rows * (1 - kept), between)


def statistics_of(plan: EventPlan, arrays: EventArrays, round_: Round, seed: int) -> Statistics:
    """Rates and selectivities in a round."""
    window = EVER if plan.within is None else max(plan.within, 1)
    census = take_census(round_, len(plan.variables), window, max(1, int(window * PAUSE)))
    rows = dict(zip(plan.variables, census.rows))
    random = np.random.default_rng(seed)
    selectivity = {}
    for number, test in enumerate(plan.tests):
        share = _selectivity(arrays, round_, test, rows, window, random)
        if share is not None:
            selectivity[number] = share
    between = {}
    for name, tests in tests_between(plan).items():
        shares = [_selectivity(arrays, round_, test, rows, window, random) for test in tests]
        if shares and None not in shares:
            between[name] = math.prod(share for share in shares if share is not None)
    return Statistics(dict(zip(plan.variables, census.seen)), selectivity, max(1.0, census.seen_rows), between)


def _selectivity(
    arrays: EventArrays,
    round_: Round,
    test: JoinTest,
    rows: dict[str, np.ndarray],
    window: int,
    random: np.random.Generator,
) -> float | None:
    """The share of sampled combinations of a window for which a test holds."""
    if any(len(rows[name]) == 0 for name in test.variables):
        return None
    dice = random.random((len(test.variables), SAMPLE))
    held, tried = share_that_holds(arrays, round_, test, rows, window, dice)
    return (held + 0.5) / (tried + 1) if tried else None
