"""Statistics of the events that pass, and the plan that fits them: adaptation between rounds.

Rates come from the events of a round, selectivities of conditions from a sample of its events; both are running
averages, in which older events count half after HALF_LIFE events. When one of them has moved by more than CHANGE since
the plan was made, the search runs again, and its plan is taken if it is cheaper by more than GAIN.

In a stream, a round has the held events of the window, without those that only matches already emitted have: of the
last class, for example, only the new ones. The rate of such a variable is measured by comparison with the others, among
events as they arrive. A tree that keeps its records has all events of the last windows, and is measured by these.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.random import Generator, default_rng

from episode.matchers.columns import float_images
from episode.matchers.events.code.arrays import WINDOW, settings_of
from episode.matchers.events.code.conditions import comparison_of
from episode.matchers.events.code.joins import partners_program
from episode.matchers.events.compiled_loops import hold
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import NodeWork
from episode.matchers.events.rounds import Round
from episode.matchers.times import EVER
from episode.native.running import compiled_for
from episode.plan.events.conditions import JoinTest
from episode.plan.events.cost import Actual, Done, PhysicalPlan, Statistics, cost_of, search, tests_between
from episode.plan.events.plan import EventPlan, EventReport, PlanChange, StatisticChange

# Statistics of a round of events: events by variable, and how often conditions hold.


def take_census(round_: Round, variables: int, window: int, pause: int) -> tuple[list[float], float, list[np.ndarray]]:
    """Events per window, of each variable and of all, as an event sees them: if few partitions have most of the events,
    those count; and the rows of each variable.

    The windows of a partition are those that its events with any variable fill: a pause between two of them counts for
    `pause` at the most."""
    bits, from_, first = round_.bits[round_.rows], round_.from_, int(round_.from_[0])
    windows = _windows_filled(round_, np.flatnonzero(bits) + first, window, pause)
    rows = [np.flatnonzero(bits & np.uint64(1 << number)) + first for number in range(variables)]
    seen = []
    for mine in rows:
        here = np.diff(np.searchsorted(mine, from_))
        seen.append(_total(here * (here / windows)) / max(1, len(mine)))
    sizes = np.diff(from_)
    filled, sizes = sizes > 0, sizes[sizes > 0]
    if window < EVER:
        ends = round_.end[from_[1:][filled] - 1].astype(np.float64) - round_.end[from_[:-1][filled]].astype(np.float64)
        spanned = np.maximum(1.0, ends / window)
    else:
        spanned = np.ones(len(sizes))
    return seen, _total(sizes * (sizes / spanned)) / max(1, len(bits)), rows


def _windows_filled(round_: Round, rows: np.ndarray, window: int, pause: int) -> np.ndarray:
    """By partition; rows: those of any variable."""
    groups = len(round_.from_) - 1
    if window == EVER:
        return np.ones(groups)
    group = np.searchsorted(round_.from_, rows, side="right") - 1
    apart = np.minimum(np.diff(round_.end[rows].astype(np.float64)), pause)
    apart[group[1:] != group[:-1]] = 0.0
    return np.maximum(1.0, np.bincount(group[1:], apart, groups) / window)


def _total(numbers: np.ndarray) -> float:
    """The sum from the first number to the last: the same however many there are."""
    return float(np.add.accumulate(numbers)[-1]) if len(numbers) else 0.0


def _partners(chosen: np.ndarray, others: np.ndarray, round_: Round, window: int, dice: np.ndarray) -> np.ndarray:
    beside = np.empty(len(chosen), np.int64)
    given = {
        "chosen": chosen, "others": others, "from_": round_.from_, "end": round_.end, "dice": dice, "beside": beside,
        "settings": settings_of({WINDOW: window}),
    }  # fmt: skip
    compiled_for(partners_program).run(given)
    return beside


def _compare(arrays: EventArrays, test: JoinTest, names: tuple[str, ...], matrix: np.ndarray) -> np.ndarray:
    """Whether a comparison holds, by pair of rows. A few pairs need no compiled code."""
    comparison = comparison_of(test.expression)
    assert comparison is not None
    valid = np.ones(len(matrix), np.bool_)
    values = []
    for side in (comparison.left, comparison.right):
        rows = matrix[:, names.index(side.variable)]
        lane, check = arrays.operand(side.expression)
        if check >= 0:
            valid &= arrays.lanes.valid[check][rows] != 0
        lanes = arrays.lanes
        values.append(float_images(lanes.floats[lane][rows]) if comparison.floating else lanes.ints[lane][rows])
    compare: Callable[..., np.ndarray] = getattr(operator, comparison.operation)
    return valid & compare(*values)


CHANGE, GAIN = 0.5, 0.1
HALF_LIFE = 2_048
SAMPLE, SAMPLE_ROWS, LEAST_ROWS = 512, 4_096, 8_192
"""Pairs sampled for each condition, the approximate number of new events of a feed that are counted by variable, and
the least number of events between two samples."""
LEAST_WORK, ROW_WORK = 1_500_000, 10
"""Pairs and records between two samples, and how many of them an event counts for: a sample takes about as long as a
twentieth of that. With a bad plan, the next sample comes sooner."""
PAUSE = 0.125
"""Windows that a pause between events counts at most."""
MOST_NOTES = 100
_NO_BITS = np.uint64(0)


@dataclass
class Adaptation:
    """The plan in use, and why.

    let_go: bits of variables whose events are not held for their whole window. arrived: recent events of each variable.
    done, done_windows, done_matches: the work of the plan since it was taken.
    """

    plan: EventPlan
    forced: PhysicalPlan | None = None
    let_go: np.uint64 = _NO_BITS
    statistics: Statistics | None = None
    physical: PhysicalPlan | None = None
    based_on: Statistics | None = None
    changes: list[PlanChange] = field(default_factory=list)
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
        """Rates of a round with held events; variables whose events are let go of have the rates of their arrivals."""
        if not self.has_held or not self.let_go:
            return seen
        gone = self._bits & self.let_go != 0
        cards = np.array([seen.cards[name] for name in self.plan.variables])
        if not self.arrived[~gone].sum() or not cards[~gone].sum():
            return seen
        cards[gone] = self.arrived[gone] * (cards[~gone].sum() / self.arrived[~gone].sum())
        return replace(seen, cards=dict(zip(self.plan.variables, cards.tolist())))

    def plan_for(
        self, arrays: EventArrays, round_: Round, keeps: bool = False, complete: bool = False
    ) -> PhysicalPlan:  # fmt: skip
        """The plan for a round. keeps: for a tree that keeps its records, and so does the work of a window once however
        short the feeds are; the automaton would look at the window again with each. complete: has the round all events
        of its time?"""
        self.rounds += 1
        if self.forced is not None:
            return self.forced
        rows = int(round_.from_[-1] - round_.from_[0])
        self.unseen += rows
        self.work += ROW_WORK * rows
        unfit = self.physical is None or (keeps and self.physical.automaton)
        if self.physical is not None and not unfit and (self.unseen < LEAST_ROWS or self.work < LEAST_WORK):
            return self.physical
        self.unseen = self.work = 0
        seen = statistics_of(self.plan, arrays, round_, self.rounds)
        seen = seen if complete else self._over_the_window(seen)
        self.statistics = seen if self.statistics is None else _average(self.statistics, seen, rows)
        if self.physical is None or unfit:
            self._take(search(self.plan, self.statistics, keeps), None, None)
        else:
            moved = self._find_move()
            if moved is not None:
                old = cost_of(self.plan, self.statistics, self.physical)
                best = search(self.plan, self.statistics, keeps)
                self.based_on = self.statistics
                if best.cost < old * (1 - GAIN):
                    self._take(best, moved, old)
        assert self.physical is not None
        return self.physical

    def _take(self, best: PhysicalPlan, moved: StatisticChange | None, old: float | None) -> None:
        self.physical, self.based_on = best, self.statistics
        self.done, self.done_windows, self.done_matches = {}, 0.0, 0
        if len(self.changes) < MOST_NOTES:
            self.changes.append(PlanChange(self.rounds, moved, old, best.cost, best))

    def _find_move(self) -> StatisticChange | None:
        """The first statistic that has changed by more than CHANGE."""
        assert self.statistics is not None
        assert self.based_on is not None
        for name, value in self.statistics.cards.items():
            before = self.based_on.cards.get(name, value)
            if abs(value - before) > CHANGE * max(before, 1e-9):
                return StatisticChange(name, before, value)
        for number, value in self.statistics.selectivity.items():
            before = self.based_on.selectivity.get(number, value)
            if abs(value - before) > CHANGE * max(before, 1e-3):
                return StatisticChange(number, before, value)
        return None

    def note(
        self, counted: list[NodeWork], matches: int, events: dict[str, int], constructed: int | None = None
    ) -> None:
        """Add the work of the nodes of a round. events: the number of events of each variable that they read.
        constructed: the number of matches made of intermediate ones, if the tree finds these."""
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
        """The work of the plan in use so far."""
        return Actual(self.done, self.done_windows, self.done_matches) if self.done_windows else None

    def report(self) -> EventReport:
        """A report of everything so far."""
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

    def mix(before: dict, now: dict) -> dict:
        return {name: before.get(name, value) * kept + value * (1 - kept) for name, value in now.items()}

    selectivity = {**old.selectivity, **mix(old.selectivity, new.selectivity)}
    between = {**old.between, **mix(old.between, new.between)}
    return Statistics(mix(old.cards, new.cards), selectivity, old.rows * kept + new.rows * (1 - kept), between)


def statistics_of(plan: EventPlan, arrays: EventArrays, round_: Round, seed: int) -> Statistics:
    """Rates and selectivities in a round."""
    window = EVER if plan.within is None else max(plan.within, 1)
    seen, seen_rows, rows_of = take_census(round_, len(plan.variables), window, max(1, int(window * PAUSE)))
    rows = dict(zip(plan.variables, rows_of))
    random = default_rng(seed)
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
    return Statistics(dict(zip(plan.variables, seen)), selectivity, max(1.0, seen_rows), between)


def _selectivity(
    arrays: EventArrays, round_: Round, test: JoinTest, rows: dict[str, np.ndarray], window: int, random: Generator
) -> float | None:
    """The share of sampled combinations of rows, within a window of each other, for which a test holds."""
    names = tuple(sorted(test.variables))
    if any(len(rows[name]) == 0 for name in names):
        return None
    dice = random.random((len(names), SAMPLE))  # which rows of the first variable, and which of the others near those
    first = rows[names[0]][(dice[0] * len(rows[names[0]])).astype(np.int64)]
    others = [_partners(first, rows[name], round_, window, row) for name, row in zip(names[1:], dice[1:])]
    matrix = np.stack([first, *others], axis=1).astype(np.int32)
    matrix = matrix[(matrix >= 0).all(axis=1)]
    if len(names) == 2 and comparison_of(test.expression) is not None:
        held = _compare(arrays, test, names, matrix)
    else:
        held = hold(arrays.pair_tests((test,), names, ()), arrays.lanes, matrix)
    return (int(np.count_nonzero(held)) + 0.5) / (len(matrix) + 1) if len(matrix) else None
