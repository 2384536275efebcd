"""Result construction for one round: final matches of its intermediate ones, in parts of bounded size.

However many matches an intermediate match stands for, the walk through them (kernels/events/subsets.py) fills a buffer,
stops, and goes on when the buffer has been handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from episode.kernels.events import checks, subsets
from episode.matchers.events.bounds import bound_arrays, levels_of
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import Found
from episode.matchers.events.rounds import Round
from episode.matchers.events.runs import automaton_arrays, ragged
from episode.plan.events.plan import EventPlan

BUFFER = 1 << 19
"""Events of matches that are put out at one time; a single match may have more."""
LEAST_EVENTS = 3
"""Events that a match has, more or less: what the offsets are made for."""


class BudgetSpent(Exception):
    """Too many steps without a match. row: the first event of the match that it began with."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def candidates_of(plan: EventPlan, found: Found, from_: np.ndarray) -> subsets.Candidates:
    """What intermediate matches may take: single events and groups alike. from_: where partitions begin."""
    count, number = len(found.rows), {name: index for index, name in enumerate(plan.variables)}
    low, high = (np.zeros((count, len(number)), np.int64) for _ in range(2))
    members = [np.ascontiguousarray(found.rows.T).reshape(-1)]
    at = 0
    for column, name in enumerate(found.variables):
        low[:, number[name]] = at + np.arange(count)
        high[:, number[name]] = low[:, number[name]] + (found.rows[:, column] >= 0)
        at += count
    for name, (offsets, rows) in found.groups.items():
        low[:, number[name]], high[:, number[name]] = at + offsets[:-1], at + offsets[1:]
        members.append(rows)
        at += len(rows)
    rows = np.concatenate(members).astype(np.int32, copy=False)
    return subsets.Candidates(low, high, rows, from_[found.group], from_[found.group + 1])


class Constructing:
    """Makes the matches of one round. buffer: events that are put out at one time."""

    def __init__(
        self,
        plan: EventPlan,
        arrays: EventArrays,
        round_: Round,
        window: int,
        budget: int,
        buffer: int = BUFFER,
    ) -> None:
        assert plan.construction is not None
        self.plan = plan
        self.round = round_
        self.window = window
        self.events = subsets.Events(round_.bits, round_.start, round_.end, plan.times.start is not None)
        self.budget = budget
        self.buffer = buffer
        self.lanes = arrays.kernel_lanes
        self.automaton = automaton_arrays(plan, plan.construction.automaton, arrays)
        self.bounds = bound_arrays(plan, plan.construction, arrays)
        bit = {name: number for number, name in enumerate(plan.variables)}
        places = plan.construction.places
        needed = np.array([needed for one in places for _, needed in one], np.bool_)
        self.places = subsets.Places(*ragged([[bit[name] for name, _ in one] for one in places]), needed)

    def matches(self, found: Found) -> Iterator[FoundMatches]:
        """The final matches of intermediate ones."""
        candidates = candidates_of(self.plan, found, self.round.from_)
        sizes = candidates.high - candidates.low
        deepest, longest = int(sizes.sum(axis=1).max(initial=0)), int(sizes.max(initial=0))
        walk_, work = self._walk(deepest), checks.scratch(self.automaton)
        levels = levels_of(self.bounds, longest, len(candidates.members))
        most_matches, most_events = 1 + self.buffer // LEAST_EVENTS, max(self.buffer, deepest + 1)
        status = subsets.FULL
        while status == subsets.FULL:
            offsets = np.empty(most_matches + 1, np.int64)
            rows, variables = np.empty(most_events, np.int32), np.empty(most_events, np.int32)
            status, count = subsets.subsets(
                self.automaton, self.lanes, self.bounds, levels, walk_, work, candidates, self.places, self.events,
                self.window, self.budget, subsets.Out(offsets, rows, variables),
            )  # fmt: skip
            if status == subsets.BUDGET_SPENT:
                raise BudgetSpent(int(found.rows[walk_.at[subsets.MATCH]].max()))
            if count:
                size = int(offsets[count])
                yield FoundMatches(count, _lists(offsets[: count + 1], rows[:size], variables[:size]))

    def _walk(self, deepest: int) -> subsets.Walk:
        aggregates, variables = len(self.automaton.agg_function), len(self.plan.variables)
        by_depth = [np.zeros(deepest + 2, np.int64) for _ in range(7)]
        state = [np.zeros((deepest + 1, aggregates), kind) for kind in (np.int64, np.int64, np.float64, np.float64)]
        last = np.full(variables, -1, np.int64)
        by_variable = [last.copy(), last, np.zeros(variables, np.int64), np.zeros(variables, np.int64)]
        return subsets.Walk(np.array([0, 0, subsets.NOT_BEGUN, 0], np.int64), *by_depth, *state, *by_variable)


def _lists(
    offsets: np.ndarray, rows: np.ndarray, variables: np.ndarray
) -> Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return lambda: (offsets, rows, variables)
