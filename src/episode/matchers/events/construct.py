"""Intermediate matches of one round, and the final matches that are made of them, in parts of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from episode.matchers.events.code.arrays import BUDGET, LEVELS, ROWS, WINDOW, settings_of
from episode.matchers.events.code.between import FULL
from episode.matchers.events.code.bounds import bound_room
from episode.matchers.events.code.runs import BUDGET_SPENT
from episode.matchers.events.code.subsets import DEPTH, FOUND, MATCH, NOT_BEGUN, SubsetsShape, subsets_program
from episode.matchers.events.compiled_loops import hold, lane_arrays, path_arrays, path_shape_of
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays, bounds_shape
from episode.matchers.events.records import NO_LIMIT, FoundRecords, TooManyRecords
from episode.matchers.events.rounds import Round
from episode.matchers.events.tree import TreeRun
from episode.native.running import compiled_with
from episode.plan.events.plan import EventPlan
from episode.plan.events.postponed import Construction

# Intermediate matches of one round: a choice of single events with all events that each closure may choose from. The
# first stage of closures that are postponed (plan/events/postponed.py), and the input of collapsed results. The
# closures of a round may have many more events than the round itself: so they come in parts of bounded size.


def intermediate_matches(run: TreeRun, construction: Construction | None = None) -> Iterator[FoundRecords]:
    """The intermediate matches of a round, in parts with at most run.limit closure events; one match may have more.

    TooManyRecords is raised at once, if at all.
    """
    found = run.records()
    if construction is not None and construction.tests:
        tests = run.arrays.pair_tests(construction.tests, found.variables, ())
        found.select(np.flatnonzero(hold(tests, run.arrays.lanes, found.rows)))
    return _parts(run, construction, found)


def _parts(run: TreeRun, construction: Construction | None, found: FoundRecords) -> Iterator[FoundRecords]:
    at, size, limit = 0, len(found.rows), run.limit
    while at < len(found.rows):
        part = found.part(at, at + size)
        run.limit = limit if size > 1 else NO_LIMIT
        try:
            run.complete(part)
        except TooManyRecords:
            size = (size + 1) // 2
            continue
        finally:
            run.limit = limit
        at += size
        size *= 2
        if construction is not None:
            for name, tests_ in construction.group_tests.items():
                if tests_:
                    _keep_members(run.arrays, part, name, construction)
        if len(part.rows):
            yield part


def _keep_members(arrays: EventArrays, found: FoundRecords, name: str, construction: Construction) -> None:
    """Keep the events of a group for which the conditions hold that pattern matching postponed."""
    offsets, members = found.groups[name]
    which = np.repeat(np.arange(len(found.rows)), np.diff(offsets))
    records = np.column_stack([found.rows[which], members]).astype(np.int32)
    tests = arrays.pair_tests(construction.group_tests[name], (*found.variables, name), ())
    held = hold(tests, arrays.lanes, records)
    kept = np.concatenate([[0], np.cumsum(held)])
    found.groups[name] = kept[offsets], members[held]


# Result construction for one round: final matches of its intermediate ones, in parts of bounded size. However many
# final matches an intermediate match has, the walk through them (code/subsets.py) fills a buffer, stops, and continues
# when the buffer has been emitted.


BUFFER = 1 << 19
"""Events of matches that are emitted at one time; a single match may have more."""
LEAST_EVENTS = 3
"""Events of a match, roughly: offsets are allocated for it."""


class BudgetSpent(Exception):
    """Too many steps without a match. row: the first event of the match under construction."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


def candidates_of(plan: EventPlan, found: FoundRecords, from_: np.ndarray) -> dict[str, np.ndarray]:
    """The candidates of intermediate matches: single events and groups alike. from_: where partitions begin."""
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
    return {"low": low, "high": high, "members": rows, "first": from_[found.group], "stop": from_[found.group + 1]}


class ResultConstruction:
    """Makes the matches of one round. buffer: events that are emitted at one time."""

    def __init__(
        self, plan: EventPlan, arrays: EventArrays, round_: Round, window: int, budget: int, buffer: int = BUFFER
    ) -> None:
        assert plan.construction is not None
        self.plan = plan
        self.round = round_
        self.buffer = buffer
        self.settings = {ROWS: arrays.lanes.ints.shape[1], WINDOW: window, BUDGET: budget}
        self.path_shape = path_shape_of(plan, plan.construction.automaton, arrays)
        self.bounds, factors = bounds_shape(plan, plan.construction, arrays, self.path_shape)
        self.code, constants = compiled_with(
            subsets_program, SubsetsShape(self.path_shape, self.bounds, plan.times.start is not None)
        )
        self.arrays = {
            **lane_arrays(arrays.lanes), **constants.arrays(arrays.lanes),
            "bits": round_.bits, "start": round_.start, "end": round_.end, "factors": factors,
        }  # fmt: skip

    def matches(self, found: FoundRecords) -> Iterator[FoundMatches]:
        """The final matches of intermediate ones."""
        candidates = candidates_of(self.plan, found, self.round.from_)
        sizes = candidates["high"] - candidates["low"]
        deepest, longest = int(sizes.sum(axis=1).max(initial=0)), int(sizes.max(initial=0))
        work = {
            **self.arrays, **{name: values.reshape(-1) for name, values in candidates.items()},
            **path_arrays(self.path_shape, deepest), **bound_room(self.bounds, longest, len(candidates["members"])),
            "settings": settings_of({**self.settings, LEVELS: longest + 2}),
            "tops": np.zeros(len(self.plan.variables), np.int64),
            "first_depth": np.full(len(self.plan.variables), -1, np.int64), "kept": np.zeros(FOUND + 1, np.int64),
        }  # fmt: skip
        work["kept"][DEPTH] = NOT_BEGUN
        most_matches, most_events = 1 + self.buffer // LEAST_EVENTS, max(self.buffer, deepest + 1)
        status = FULL
        while status == FULL:
            offsets = np.empty(most_matches + 1, np.int64)
            rows, variables = np.empty(most_events, np.int32), np.empty(most_events, np.int32)
            status = self.code.run({**work, "offsets": offsets, "out_rows": rows, "out_variables": variables})
            if status == BUDGET_SPENT:
                raise BudgetSpent(int(found.rows[work["kept"][MATCH]].max()))
            count = int(work["kept"][FOUND])
            if count:
                size = int(offsets[count])
                yield FoundMatches.of_lists(offsets[: count + 1], rows[:size], variables[:size])
