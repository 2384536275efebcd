"""Result construction for one round: final matches of its intermediate ones, in parts of bounded size.

However many matches an intermediate match stands for, the walk through them (kernels/events/subsets.py) fills a buffer,
stops, and goes on when the buffer has been handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from episode.kernels import opcodes as oc
from episode.kernels.events import bounds as bounds_kernel
from episode.kernels.events import checks, subsets
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import Found
from episode.matchers.events.rounds import Round
from episode.matchers.events.runs import automaton_arrays, ragged
from episode.matchers.lowering import COMPARE, is_float_lane
from episode.matchers.prepare import function_code
from episode.plan.events.bounds import Side, Term
from episode.plan.events.plan import EventPlan
from episode.plan.events.postponed import Construction
from episode.plan.expressions import Load, Navigated, Running, walk

BUFFER = 1 << 19
"""Events of matches that are put out at one time; a single match may have more."""
LEAST_EVENTS = 3
"""Events that a match has, more or less: what the offsets are made for."""


KNOWN = frozenset({oc.SUM, oc.COUNT, oc.MIN, oc.MAX, oc.AVG, oc.AVG_WHOLE})
"""Aggregates that bounds are known of."""


class BudgetSpent(Exception):
    """Too many steps without a match. row: the first event of the match that it began with."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


@dataclass(frozen=True)
class Candidates:
    """The rows that intermediate match i may take for variable v: members[low[i, v]:high[i, v]]."""

    low: np.ndarray
    high: np.ndarray
    members: np.ndarray

    @property
    def most(self) -> tuple[int, int]:
        """Of one match: candidates of all variables, and of one."""
        sizes = self.high - self.low
        return int(sizes.sum(axis=1).max(initial=0)), int(sizes.max(initial=0))


def candidates_of(plan: EventPlan, found: Found) -> Candidates:
    """Single events and groups alike."""
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
    return Candidates(low, high, np.concatenate(members).astype(np.int32, copy=False))


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
        self.lasting = plan.times.start is not None
        self.budget = budget
        self.buffer = buffer
        self.lanes = arrays.kernel_lanes
        self.automaton = automaton_arrays(plan, plan.construction.automaton, arrays)
        self.bounds = bound_arrays(plan, plan.construction, arrays)
        bit = {name: number for number, name in enumerate(plan.variables)}
        places = plan.construction.places
        self.place_from, self.place_variable = ragged([[bit[name] for name, _ in one] for one in places])
        self.place_needed = np.array([needed for one in places for _, needed in one], np.bool_)

    def matches(self, found: Found) -> Iterator[FoundMatches]:
        """The final matches of intermediate ones."""
        candidates = candidates_of(self.plan, found)
        deepest, longest = candidates.most
        walk_, work = self._walk(deepest), checks.scratch(self.automaton)
        levels = self._levels(longest)
        group, from_ = found.group, self.round.from_
        most_matches, most_events = 1 + self.buffer // LEAST_EVENTS, max(self.buffer, deepest + 1)
        status = subsets.FULL
        while status == subsets.FULL:
            offsets = np.empty(most_matches + 1, np.int64)
            rows, variables = np.empty(most_events, np.int32), np.empty(most_events, np.int32)
            status, count = subsets.subsets(
                self.automaton, self.lanes, self.bounds, levels, walk_, work, candidates.low, candidates.high,
                candidates.members, self.place_from, self.place_variable, self.place_needed, from_[group],
                from_[group + 1], self.round.bits, self.round.start, self.round.end, self.lasting, self.window,
                self.budget, offsets, rows, variables,
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

    def _levels(self, longest: int) -> bounds_kernel.Levels:
        terms, programs = len(self.bounds.function), len(self.bounds.program_from)
        shape = (terms, longest + 1)
        return bounds_kernel.Levels(
            np.zeros(programs), np.zeros(programs, np.uint8), np.zeros(shape), np.zeros(shape), np.zeros(shape),
            np.zeros(shape), np.zeros(shape, np.int64), np.zeros(terms), np.zeros(len(self.bounds.compare), np.uint8),
        )  # fmt: skip


def _lists(
    offsets: np.ndarray, rows: np.ndarray, variables: np.ndarray
) -> Callable[[], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return lambda: (offsets, rows, variables)


def bound_arrays(plan: EventPlan, construction: Construction, arrays: EventArrays) -> bounds_kernel.Bounds:
    """The kernel's form of the bounds."""
    bit = {name: number for number, name in enumerate(plan.variables)}
    fixed = construction.fixed
    terms: dict[Term, int] = {}
    bounds = [bound for bound in construction.bounds if _is_added_up(bound.left) and _is_added_up(bound.right)]

    def number(side: Side) -> int:
        if isinstance(side, Term):
            return terms.setdefault(side, len(terms))
        return -1 - fixed.index(side)

    left, right = ([number(getattr(bound, side)) for bound in bounds] for side in ("left", "right"))
    need_from, need = ragged([[bit[name] for name in sorted(bound.needs)] for bound in bounds])
    by_variable = [[number for number, bound in enumerate(bounds) if bound.variable == name] for name in plan.variables]
    by_from, by = ragged(by_variable)
    columns = np.array([_term(term, bit, arrays) for term in terms], np.int64).reshape(-1, 6).T.copy()
    programs = [arrays.programs[side.expression] for side in fixed]
    program_columns = np.array(programs, np.int64).reshape(-1, 3).T.copy()
    navigations = arrays.assembler.navigations
    navs = [sorted({node.at for node in walk(side.expression) if isinstance(node, Load)}, key=repr) for side in fixed]
    nav_from, nav_ids = ragged([[navigations.number(at) for at in places] for places in navs])
    nav_variable = [bit[_name(at)] for places in navs for at in places]
    function, variable, column, valid, floating, aggregate = columns
    return bounds_kernel.Bounds(
        np.array([COMPARE[bound.comparison] for bound in bounds], np.int64), np.array(left, np.int64),
        np.array(right, np.int64), need_from, need, by_from, by, function, variable, column, valid, floating, aggregate,
        np.array([term.factor for term in terms], np.float64),
        program_columns[0], program_columns[1], program_columns[2], nav_from, nav_ids, np.array(nav_variable, np.int64),
    )  # fmt: skip


def _is_added_up(side: Side) -> bool:
    """Is it no aggregate whose values have two words, of which bounds know nothing?"""
    return not isinstance(side, Term) or not isinstance(side.of, Running) or function_code(side.of) in KNOWN


def _term(term: Term, bit: dict[str, int], arrays: EventArrays) -> tuple[int, int, int, int, int, int]:
    """(function, variable, column, validity, is float, aggregate)"""
    of = term.of
    if isinstance(of, Running):
        column, check, floating = arrays.argument(of)
        number = list(arrays.assembler.runnings).index(of)
        return function_code(of), bit[term.variable], column, check, floating, number
    assert isinstance(of.at, Navigated)
    function = bounds_kernel.FIRST if of.at.first else bounds_kernel.LAST
    floating = int(is_float_lane(of.type))
    return function, bit[term.variable], arrays.lanes.at[of.column], arrays.lanes.valid_at[of.column], floating, -1


def _name(at: object) -> str:
    assert isinstance(at, Navigated)
    assert at.labels is not None
    return next(iter(at.labels))
