"""The number of final matches of each intermediate match of a round: see plan/events/counting.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import decimals
from episode.matchers.codes import UNEQUAL, swap_sides
from episode.matchers.events.code import choice_counts as choices
from episode.matchers.events.code.conditions import comparison_of
from episode.matchers.events.compiled_loops import hold
from episode.matchers.events.construct import BudgetSpent, ResultConstruction
from episode.matchers.events.errors import not_counted, too_many_matches
from episode.matchers.events.output import FoundMatches, flatten
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import FoundRecords, RowLists, select_lists
from episode.matchers.events.rounds import Round
from episode.matchers.events.tree import TreeRun
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER
from episode.plan.events.conditions import JoinTest
from episode.plan.events.counting import BEFORE, ClosureCount
from episode.plan.events.plan import EventPlan

if TYPE_CHECKING:
    from episode.matchers.events.matcher import EventSearch


# Numbers of matches: three words each, computed by code/choice_counts.py.


LARGEST = 10**38
NEAR_LARGEST = 2e38
"""Less than 2**128: numbers below this are exact in two words."""
_HALF, _MASK = np.uint64(32), np.uint64(2**32 - 1)


@dataclass
class Numbers:
    """Numbers of three words: see code/choice_counts.py."""

    high: np.ndarray
    low: np.ndarray
    near: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> Numbers:
        return cls(np.zeros(len(values), np.uint64), values.astype(np.uint64), values.astype(np.float64))

    def put(self, which: np.ndarray, other: Numbers) -> None:
        self.high[which], self.low[which], self.near[which] = other.high, other.low, other.near

    def multiply(self, other: Numbers) -> None:
        """Each with another one, modulo 2**128."""
        a0, a1, b0, b1 = self.low & _MASK, self.low >> _HALF, other.low & _MASK, other.low >> _HALF
        p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
        middle = (p00 >> _HALF) + (p01 & _MASK) + (p10 & _MASK)
        upper = p11 + (p01 >> _HALF) + (p10 >> _HALF) + (middle >> _HALF)
        self.high = upper + self.high * other.low + self.low * other.high
        self.low = (p00 & _MASK) | (middle << _HALF)
        self.near = self.near * other.near

    def select(self, which: np.ndarray) -> Numbers:
        return Numbers(self.high[which], self.low[which], self.near[which])

    @property
    def too_large(self) -> np.ndarray:
        """Do numbers have more than 38 digits?"""
        high, low = divmod(LARGEST, 1 << 64)
        above = (self.high > np.uint64(high)) | ((self.high == np.uint64(high)) & (self.low >= np.uint64(low)))
        return (self.near > NEAR_LARGEST) | above

    def column(self, exact: bool) -> pa.Array:
        """The numbers as decimal(38, 0), if they are exact, or as double."""
        if exact:
            return decimals(self.low, self.high.view(np.int64), np.ones(len(self.low)), pa.decimal128(38, 0))
        words = self.high.astype(np.float64) * 2.0**64 + self.low.astype(np.float64)
        return pa.array(np.where(self.near < NEAR_LARGEST, words, self.near))


# Final matches counted by making them, if a condition leaves no other way: sums, averages, distant events.


class NotCounted(Exception):
    """Counting would take too long. row: an event of the intermediate match; what: the reason."""

    def __init__(self, row: int, what: str, hint: str) -> None:
        super().__init__(row, what, hint)
        self.row = row
        self.what = what
        self.hint = hint


def count_by_making(plan: EventPlan, arrays: EventArrays, round_: Round, found: FoundRecords, budget: int) -> Numbers:
    """Count the final matches of each intermediate match by making them: at most `budget` matches, each found in
    `budget` steps."""
    window = EVER if plan.within is None else plan.within
    counts = np.zeros(len(found.rows), np.int64)
    try:
        for made in ResultConstruction(plan, arrays, round_, window, budget).matches(found):
            counts += np.bincount(_intermediate(plan, found, made), minlength=len(counts))
            if counts.max() > budget:
                row = int(found.rows[np.argmax(counts)].max())
                raise _too_many(plan, row, f"with more than {budget:,} matches")
    except BudgetSpent as spent:
        raise _too_many(plan, spent.row, f"in which {budget:,} steps find no match") from None
    return Numbers.of(counts)


def _intermediate(plan: EventPlan, found: FoundRecords, made: FoundMatches) -> np.ndarray:
    """The intermediate match that each final one was made of: the one with its single events."""
    single = np.full((len(made), len(found.variables)), -1, found.rows.dtype)
    offsets, rows, variables = made.lists
    match = np.repeat(np.arange(len(made)), np.diff(offsets))
    for column, name in enumerate(found.variables):
        mine = variables == plan.variables.index(name)
        single[match[mine], column] = rows[mine]
    _, which = np.unique(np.concatenate([found.rows, single]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    number = np.empty(len(which), np.int64)
    number[which[: len(found.rows)]] = np.arange(len(found.rows))
    return number[which[len(found.rows) :]]


def _too_many(plan: EventPlan, row: int, what: str) -> NotCounted:
    assert plan.collapse is not None
    why = f"they are counted one by one because of {' AND '.join(plan.collapse.enumerated)}"
    hint = "Narrow the conditions, leave this one out, or raise Tuning(step_budget=…)."
    return NotCounted(row, f"{what}; {why}", hint)


MOST_PAIRS, PAIRS_AT_ONCE = 1 << 26, 1 << 18
MOST_STATES = 1 << 24


def count_matches(plan: EventPlan, arrays: EventArrays, round_: Round, found: FoundRecords, budget: int) -> Numbers:
    """The final matches of each intermediate match."""
    collapse = plan.collapse
    assert collapse is not None
    if collapse.enumerated:
        return count_by_making(plan, arrays, round_, found, budget)
    out = Numbers.of(np.zeros(len(found.rows)))
    for alternative in collapse.alternatives:
        at = [found.variables.index(name) for name in alternative.single]
        which = np.flatnonzero((found.rows[:, at] >= 0).all(axis=1))
        if len(which) == 0:
            continue
        total = Numbers.of(np.ones(len(which)))
        for gap in alternative.gaps:
            total.multiply(_Gap(arrays, round_, found, which, gap).count())
        out.put(which, total)
    return out


class _Gap:
    """Closures side by side in the intermediate matches `which`."""

    def __init__(
        self, arrays: EventArrays, round_: Round, found: FoundRecords, which: np.ndarray, gap: tuple[ClosureCount, ...]
    ) -> None:
        self.arrays = arrays
        self.round = round_
        self.found = found
        self.gap = gap
        self.single = found.rows[which]
        self.lists = [self._choosable_events(closure, which) for closure in gap]

    def _choosable_events(self, closure: ClosureCount, which: np.ndarray) -> RowLists:
        """The events of a closure that a choice may have."""
        offsets, members = self.found.groups[closure.variable]
        if len(which) < len(self.found.rows):
            offsets, members = select_lists((offsets, members), which)
        if not closure.every:
            return offsets, members
        match = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        held = self._pass(closure.every, (closure.variable,), match, members)
        return np.concatenate([[0], np.cumsum(held)])[offsets], members[held]

    def _pass(
        self, tests: tuple[JoinTest, ...], names: tuple[str, ...], match: np.ndarray, *rows: np.ndarray
    ) -> np.ndarray:
        """Whether events of closures pass tests with each other and the single events of their match."""
        records = np.column_stack([self.single[match], *rows]).astype(np.int32)
        compiled = self.arrays.pair_tests(tests, (*self.found.variables, *names), ())
        return hold(compiled, self.arrays.lanes, records)

    def count(self) -> Numbers:
        """Count in parts if tables of pairs would be too large for all matches at once."""
        matches = len(self.single)
        sizes = np.zeros(matches, np.int64)
        for closure, (offsets, _) in zip(self.gap, self.lists, strict=True):
            if self._relation(closure)[0] == choices.PAIRS:
                sizes += np.diff(offsets) ** 2
        out = Numbers.of(np.zeros(matches))
        at = 0
        through = np.cumsum(sizes)
        while at < matches:
            before = int(through[at - 1]) if at else 0
            end = max(at + 1, int(np.searchsorted(through, before + MOST_PAIRS, side="right")))
            out.put(np.arange(at, end), self._count(at, end))
            at = end
        return out

    def _count(self, low: int, high: int) -> Numbers:
        from_, blocks, closures = [], [], []
        pair_from = np.zeros((len(self.gap), high - low), np.int64)
        tables: list[np.ndarray] = []
        base = pairs = 0
        for number, (closure, (offsets, members)) in enumerate(zip(self.gap, self.lists, strict=True)):
            begin, stop = int(offsets[low]), int(offsets[high])
            own, events = offsets[low : high + 1] - begin, members[begin:stop]
            relation, compare = self._relation(closure)
            from_.append(own + base)
            blocks.append(self._block(closure, low, own, events, relation, base))
            closures.append(self._closure(closure, low, own, relation, compare))
            if relation == choices.PAIRS:
                table = self._table(closure, low, own, events)
                pair_from[number] = pairs + np.concatenate([[0], np.cumsum(np.diff(own) ** 2)])[:-1]
                tables.append(table)
                pairs += len(table)
            base += len(events)
        columns = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        table = np.concatenate(tables) if tables else np.zeros(0, np.uint8)
        from_of = np.array(from_, np.int64).reshape(len(self.gap), -1)
        closure_rows = np.array(closures, np.int64)
        given = choices.ClosureChoices(*[from_of, *columns, closure_rows, pair_from, table])
        return Numbers(*given.count())

    def _block(
        self, closure: ClosureCount, low: int, own: np.ndarray, events: np.ndarray, relation: int, base: int
    ) -> tuple[np.ndarray, ...]:
        """start, end, order, first_ok, last_ok, flags, value, value_before of the events of a closure."""
        match = np.repeat(np.arange(low, low + len(own) - 1), np.diff(own))
        start, end = self.round.start[events], self.round.end[events]
        name = (closure.variable,)
        first, last = (
            self._pass(tests, name, match, events).view(np.uint8) if tests else np.ones(len(events), np.uint8)
            for tests in (closure.first, closure.last)
        )
        flags = np.zeros(len(events), np.int64)
        for bit, test in enumerate(closure.some):
            flags |= self._pass((test,), name, match, events).astype(np.int64) << bit
        value = value_before = np.zeros(len(events), np.int64)
        if relation == choices.TREE:
            value, value_before = self._ranks(closure.adjacent[0], match, events)
        order = np.lexsort((start, match)) + base
        return start, end, order.astype(np.int64), first, last, flags, value, value_before

    def _closure(
        self, closure: ClosureCount, low: int, own: np.ndarray, relation: int, compare: int
    ) -> tuple[int, ...]:
        longest = int(np.diff(own).max(initial=0))
        needed = (1 << len(closure.some)) - 1
        least = min(closure.least, longest + 1)
        most = -1 if closure.most is None or closure.most >= longest else closure.most
        if max(1, least, most) * (needed + 1) * longest > MOST_STATES:
            raise self._too_long(closure, own, low)
        return needed, least, most, int(closure.may_be_empty), relation, compare

    def _too_long(self, closure: ClosureCount, own: np.ndarray, low: int) -> NotCounted:
        longest = int(np.argmax(np.diff(own)))
        texts = " AND ".join(dict.fromkeys(test.text for test in closure.adjacent)) or f"count({closure.variable}[])"
        what = f"with {int(np.diff(own)[longest]):,} events of {closure.variable}, too many to count with {texts}"
        return NotCounted(int(self.single[low + longest].max()), what, "Narrow the conditions.")

    # ---- conditions between successive events ------------------------------------------------------------------

    def _relation(self, closure: ClosureCount) -> tuple[int, int]:
        """The relation of an event to the one before it in the code, and the comparison."""
        if not closure.adjacent:
            return choices.ALL, 0
        comparison = comparison_of(closure.adjacent[0].expression)
        if len(closure.adjacent) > 1 or comparison is None:
            return choices.PAIRS, 0
        left, right = (_of(side.at) for side in (comparison.left, comparison.right))
        pair = {closure.variable, closure.variable + BEFORE}
        if {left, right} != pair or comparison.compare == UNEQUAL:
            return choices.PAIRS, 0
        return choices.TREE, comparison.compare if left == closure.variable else swap_sides(comparison.compare)

    def _ranks(self, test: JoinTest, match: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ranks within a match of the values that the event compares, and of those it is compared by; -1: null."""
        comparison = comparison_of(test.expression)
        assert comparison is not None
        sides = [comparison.left, comparison.right]
        if (_of(comparison.left.at) or "").endswith(BEFORE):
            sides.reverse()
        lanes = self.arrays.lanes
        values, nulls = [], []
        for side in sides:
            lane, valid = self.arrays.operand(side.expression)
            values.append((lanes.floats if comparison.floating else lanes.ints)[lane][events])
            nulls.append(lanes.valid[valid][events] == 0 if valid >= 0 else np.zeros(len(events), np.bool_))
        distinct, ranks = np.unique(np.concatenate(values), return_inverse=True)
        keys = np.tile(match, 2) * max(1, len(distinct)) + ranks.reshape(-1)
        found, places = np.unique(keys, return_inverse=True)
        first = np.searchsorted(found, np.tile(match, 2) * max(1, len(distinct)))
        local = np.where(np.concatenate(nulls), -1, places.reshape(-1) - first)
        return local[: len(events)], local[len(events) :]

    def _table(self, closure: ClosureCount, low: int, own: np.ndarray, events: np.ndarray) -> np.ndarray:
        """Whether the second of a pair of events of a match may be chosen right after the first, by pair."""
        lengths = np.diff(own)
        through = np.concatenate([[0], np.cumsum(lengths**2)])
        if through[-1] > MOST_PAIRS:
            raise self._too_long(closure, own, low)
        out = np.zeros(int(through[-1]), np.uint8)
        names = (closure.variable + BEFORE, closure.variable)
        for begin in range(0, len(out), PAIRS_AT_ONCE):
            pair = np.arange(begin, min(begin + PAIRS_AT_ONCE, len(out)))
            match = np.searchsorted(through, pair, side="right") - 1
            before, event = np.divmod(pair - through[match], np.maximum(lengths[match], 1))
            rows = events[own[match] + before], events[own[match] + event]
            out[pair] = self._pass(closure.adjacent, names, match + low, *rows)
        return out


def _of(at: object) -> str | None:
    labels = getattr(at, "labels", None)
    return None if labels is None else next(iter(labels))


# Collapsed results of one round: intermediate matches, each with the number of its final matches.


def collapsed_matches(
    search: EventSearch, events: Callable[[], EventBatch], round_: Round, run: TreeRun, parts: Iterator[FoundRecords]
) -> Iterator[FoundMatches]:
    """The intermediate matches of a round that have final ones, with their numbers."""
    plan = search.plan
    assert plan.collapse is not None
    rows = 0
    for part in parts:
        numbers = _numbers(search, events, run, part)
        which = np.flatnonzero(numbers.near > 0)
        part.select(which)
        rows += len(which)
        yield FoundMatches(len(which), partial(flatten, plan, part), numbers.select(which).column(plan.collapse.exact))
    search.adaptation.note(run.counted, rows, run.events)
    search.rounds.fit(round_, run.most_records)


def _numbers(search: EventSearch, events: Callable[[], EventBatch], run: TreeRun, part: FoundRecords) -> Numbers:
    """The number of final matches of each intermediate match; as decimals, all must fit."""
    plan = search.plan
    assert plan.collapse is not None
    try:
        numbers = count_matches(plan, run.arrays, run.round, part, search.step_budget)
    except NotCounted as error:
        raise not_counted(plan, events(), error) from None
    if plan.collapse.exact and numbers.too_large.any():
        large = int(np.argmax(numbers.too_large))
        raise too_many_matches(plan, events(), int(part.rows[large].max()), float(numbers.near[large]))
    return numbers
