"""Runs a tree plan over one round of events: leaf buffers, joins from the leaves to the root, then gaps and groups.

See decisions 60 and 61.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from episode.matchers.events.code.conditions import RecordTests, hashed_values
from episode.matchers.events.code.joins import JoinShape
from episode.matchers.events.compiled_loops import any_between, earliest_after, join_buffers, latest_before
from episode.matchers.events.gaps import GapItem, add_groups, gap_items, has_leading_group
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import (
    NO_LIMIT,
    Buffer,
    FoundRecords,
    NodeRecords,
    NodeWork,
    TooManyRecords,
    no_records,
)
from episode.matchers.events.rounds import Round
from episode.matchers.events.stores import KeptRecords, StoredRecords
from episode.matchers.times import EVER, NEVER, is_after, window_ends, window_starts
from episode.plan.events.conditions import JoinTest
from episode.plan.events.cost import PhysicalPlan, Shape, first_place, last_place, left_deep
from episode.plan.events.plan import EventPlan
from episode.plan.events.tree import Absent, Gap, Group, InSequence, Leaf, Node, OneOf, Together, variables_of

Tests = tuple[JoinTest, ...]


class TreeRun:
    """One round of one plan.

    kept: the records of earlier rounds, of which the rows of the round are the new events. Without, they are all.
    """

    def __init__(
        self,
        plan: EventPlan,
        physical: PhysicalPlan,
        arrays: EventArrays,
        round_: Round,
        limit: int = NO_LIMIT,
        kept: KeptRecords | None = None,
    ) -> None:
        assert plan.tree is not None
        self.plan = plan
        self.physical = physical
        self.arrays = arrays
        self.round = round_
        self.limit = limit
        self.kept = kept
        self.window = EVER if plan.within is None else plan.within
        self.bit = {name: number for number, name in enumerate(plan.variables)}
        self.items = list(gap_items(plan.tree))
        self.leading_group = has_leading_group(plan.tree)
        self.waits = plan.waits
        self.pushed: set[str] = set()
        self._untimed = False
        self.counted: list[NodeWork] = []
        self._everything = np.full(len(round_.done), NEVER, np.int64)
        self._leaves: dict[str, Buffer] = {}

    @property
    def events(self) -> dict[str, int]:
        """The number of events of each variable that have been read."""
        return {variable: len(buffer) for variable, buffer in self._leaves.items()}

    @property
    def most_records(self) -> int:
        """The number of records of the largest node."""
        return max((one.records for one in self.counted), default=0)

    def matches(self) -> FoundRecords:
        """All matches that are decided in this round."""
        found = self.records()
        self.complete(found)
        if self.waits and self.leading_group:
            found.select(np.flatnonzero(self._are_decided(found)))
        return found

    def records(self) -> FoundRecords:
        """The single events of matches that are decided in this round, as far as groups and negations allow them."""
        tree = self.plan.tree
        assert tree is not None
        done = self._everything if self.waits else self.round.done
        decided = self._surely_decided()
        self._untimed = decided and not self.items
        if self.kept is not None:
            for place in self.items:
                self._extend(place.item)
        buffer = self._buffer(tree, done)
        if self.kept is not None and self.waits:
            buffer = self.kept.extend(tree, buffer).together()
        found = FoundRecords(buffer.variables, buffer.from_, buffer.start, buffer.end, buffer.rows)
        if self.plan.times.start is not None and not self._untimed:  # one event alone may last longer than the window
            found.select(np.flatnonzero(found.start >= window_starts(found.end, self.window)))
        if not (self.waits and self.leading_group) and not decided:
            found.select(np.flatnonzero(self._are_decided(found)))
        return found

    def complete(self, found: FoundRecords) -> None:
        """Add groups, and test negations that the joins have not tested."""
        add_groups(self, found)
        self._absences(found)

    def _surely_decided(self) -> bool:
        """Are all records of the root decided in this round? Joins list only those after `done`."""
        if self.waits or not isinstance(self.plan.tree, (InSequence, Together)):
            return False
        parts = self.plan.tree.places if isinstance(self.plan.tree, InSequence) else self.plan.tree.parts
        last = self.round.from_[1:] - 1
        return len(parts) > 1 and int(self.round.end[last].max(initial=NEVER)) <= self.round.until

    def _are_decided(self, found: FoundRecords) -> np.ndarray:
        """Whether each match is decided in this round: with a negation or group after its last event, when its window
        has passed."""
        decided = window_ends(found.start, self.window) if self.waits else found.end
        return is_after(decided, self.round.done[found.group]) & (decided <= self.round.until)

    # ---- buffers -------------------------------------------------------------------------------------------------

    def leaf(self, variable: str) -> NodeRecords:
        """The events of a variable."""
        return self._all(variable, self._new_events(variable))

    def _all(self, node: Hashable, new: Buffer) -> NodeRecords:
        """The records of a node: the new ones, and those before them if they are kept."""
        return new if self.kept is None else self.kept.extend(node, new)

    def _extend(self, item: Absent | Group) -> None:
        """Add the new events of a negation or group to those that are kept, whether or not a match needs them now."""
        if isinstance(item, Absent):
            self._between(item)
        else:
            for name in item.variables:
                self.leaf(name)

    def _new_events(self, variable: str) -> Buffer:
        if variable not in self._leaves:
            r = self.round
            mask = np.uint64(1 << self.bit[variable])
            rows = np.flatnonzero(r.bits[r.rows] & mask) + r.from_[0]
            from_ = np.searchsorted(rows, r.from_).astype(np.int64, copy=False)
            events = rows.astype(np.int32).reshape(-1, 1)
            self._leaves[variable] = Buffer((variable,), from_, r.start[rows], r.end[rows], events)
        return self._leaves[variable]

    def _buffer(self, node: Node, done: np.ndarray | None = None, tests: Tests | None = None) -> Buffer:
        """The new records of a node; only those that end later than `done`, if given."""
        done = self._everything if done is None else done
        if isinstance(node, Leaf):
            return self._new_events(node.variable)
        if isinstance(node, OneOf):
            return self._union([self._buffer(part, None, tests) for part in node.parts])
        tests = self.plan.tests if tests is None else tests
        inner, gaps = (node.places, node.gaps) if isinstance(node, InSequence) else (node.parts, None)
        parts = [self._buffer(part, None, tests) for part in inner]
        shape = next((shape for other, shape in self.physical.shapes if other == node), left_deep(len(parts)))
        return self._join_parts(node, shape, parts, gaps, tests, done)

    def _union(self, parts: list[Buffer]) -> Buffer:
        variables = tuple(name for part in parts for name in part.variables)
        total = sum(len(part) for part in parts)
        rows = np.full((total, len(variables)), -1, np.int32)
        at, column = 0, 0
        for part in parts:
            rows[at : at + len(part), column : column + len(part.variables)] = part.rows
            at, column = at + len(part), column + len(part.variables)
        group = np.concatenate([np.repeat(np.arange(len(p.from_) - 1), np.diff(p.from_)) for p in parts])
        start, end = np.concatenate([p.start for p in parts]), np.concatenate([p.end for p in parts])
        order = np.lexsort((end, group))
        from_ = np.searchsorted(group[order], np.arange(len(self.round.done) + 1))
        return Buffer(variables, from_.astype(np.int64), start[order], end[order], rows[order])

    def _join_parts(
        self,
        node: InSequence | Together,
        shape: Shape,
        parts: list[Buffer],
        gaps: tuple[Gap, ...] | None,
        tests: Tests,
        done: np.ndarray,
    ) -> Buffer:
        if isinstance(shape, int):
            return parts[shape]
        new_left = self._join_parts(node, shape[0], parts, gaps, tests, self._everything)
        new_right = self._join_parts(node, shape[1], parts, gaps, tests, self._everything if gaps is None else done)
        left: NodeRecords = self._all(_name_of(node, shape[0]), new_left)
        right: NodeRecords = new_right
        if gaps is None:  # a sequence ends with its right part, so that new records end with a new one of that
            right = self._all(_name_of(node, shape[1]), new_right)
        lefts, rights = set(left.variables), set(right.variables)
        mine = [
            test
            for test in tests
            if test.variables & lefts and test.variables & rights and test.variables <= lefts | rights
        ]
        compiled = self.arrays.pair_tests(mine, left.variables, right.variables)
        if gaps is None:
            join = JoinShape("together", compiled, distinct=self.plan.overlapping)
            return self._join(join, left, right, done, {}, True)
        assert first_place(shape[1]) == last_place(shape[0]) + 1
        return self._sequence(left, right, gaps[first_place(shape[1])], compiled, done)

    def _sequence(
        self, left: NodeRecords, right: NodeRecords, gap: Gap, compiled: RecordTests, done: np.ndarray
    ) -> Buffer:
        bars = self._bars(left, right, gap)
        hashed = bool(hashed_values(compiled))
        last = len(left.variables) + len(right.variables) == len(variables_of(self.plan.tree))  # type: ignore[arg-type]
        timed = hashed or not (last and self._untimed)
        lasting = len(left.variables) > 1 or self.plan.times.start is not None
        join = JoinShape("hash" if hashed else "range", compiled, lasting, ("l_low" in bars, "r_low" in bars))
        return self._join(join, left, right, done, bars, timed)

    def _join(
        self,
        join: JoinShape,
        left: NodeRecords,
        right: NodeRecords,
        done: np.ndarray,
        bars: dict[str, np.ndarray],
        timed: bool,
    ) -> Buffer:
        if self.kept is not None and join.kind != "together" and len(right) == 0:
            return no_records((*left.variables, *right.variables), len(done))
        lanes = self.arrays.lanes
        made, tried = join_buffers(join, lanes, left, right, self.window, done, self.limit, bars, timed)
        if made is None:
            raise TooManyRecords(self.limit)
        between = (" &" if join.kind == "together" else ";") + (" (hash) " if join.is_hashed else " ")
        name = f"[{', '.join(left.variables)}]{between}[{', '.join(right.variables)}]"
        self.counted.append(NodeWork(name, tried, len(made), made.variables, join.is_hashed))
        return made

    def _bars(self, left: NodeRecords, right: NodeRecords, gap: Gap) -> dict[str, np.ndarray]:
        """Bounds that negations and closures between two places put on the pairs: NSEQ and KSEQ, in both forms.

        r_low <= left's end < r_high by right record, l_low < right's start <= l_high by left record, if there are any.
        """
        bars: dict[str, np.ndarray] = {}
        alone = len(gap) == 1 or not any(isinstance(item, Group) for item in gap)
        for item in gap:
            if isinstance(item, Absent) and (not alone or self.physical.on_top):
                continue
            if isinstance(item, Group) and (item.others or (item.minimum == 0 and item.count is None)):
                continue
            between, tests = self._between(item)
            outside = frozenset(name for test in tests for name in test.variables) - set(between.variables)
            nth = 1 if isinstance(item, Absent) else (item.count or 1)
            if nth > 1 and self.plan.times.start is not None:
                continue
            if outside <= set(right.variables):
                compiled = self.arrays.pair_tests(tests, between.variables, right.variables)
                bound = latest_before(compiled, self.arrays.lanes, between, right, nth, self.window)
                _tighten(bars, "r", len(right), isinstance(item, Absent), bound)
            elif outside <= set(left.variables):
                compiled = self.arrays.pair_tests(tests, left.variables, between.variables)
                bound = self._earliest_after(item, compiled, left, between, nth)
                _tighten(bars, "l", len(left), not isinstance(item, Absent), bound)
            else:
                continue
            if isinstance(item, Absent):
                self.pushed.add(item.name)
        return bars

    def _earliest_after(
        self, item: Absent | Group, compiled: RecordTests, left: NodeRecords, between: NodeRecords, nth: int
    ) -> np.ndarray:
        """See `earliest_after`. Of kept records, only the new ones can come before those that were found earlier."""
        lanes, window = self.arrays.lanes, self.window
        if nth > 1 or not isinstance(left, StoredRecords) or not isinstance(between, StoredRecords):
            return earliest_after(compiled, lanes, left, between, nth, window)
        return left.tighten(item, earliest_after(compiled, lanes, left, between.newest(), nth, window))

    def _between(self, item: Absent | Group) -> tuple[NodeRecords, Tests]:
        """Records of a negation or events of a group, and the tests that they must pass."""
        if isinstance(item, Group):
            return self.leaf(item.variable), self.plan.group_tests[item.variable]
        tests = self.plan.absent_tests[item.name]
        own = frozenset(variables_of(item))
        inner = tuple(test for test in tests if test.variables <= own)
        name = item.node.variable if isinstance(item.node, Leaf) else ("absent", item.name)
        buffer = self._all(name, self._buffer(item.node, None, inner))
        return buffer, tuple(test for test in tests if not test.variables <= own)

    # ---- on finished matches ------------------------------------------------------------------

    def _absences(self, found: FoundRecords) -> None:
        for place in self.items:
            if not isinstance(place.item, Absent) or place.item.name in self.pushed or len(found.rows) == 0:
                continue
            low, high = self.bounds(place, found)
            buffer, tests = self._between(place.item)
            compiled = self.arrays.pair_tests(tests, found.variables, buffer.variables)
            negated = any_between(compiled, self.arrays.lanes, found, low, high, buffer)
            self.counted.append(NodeWork(f"{place.item.name} on top", len(negated), int(np.count_nonzero(~negated))))
            found.select(np.flatnonzero(~(negated & self.applies(place, found))))

    def applies(self, place: GapItem, found: FoundRecords) -> np.ndarray:
        applies = np.zeros(len(found.end), np.bool_)
        for name in place.owner:
            applies |= found.rows[:, found.variables.index(name)] >= 0
        return applies

    def bounds(self, place: GapItem, found: FoundRecords) -> tuple[np.ndarray, np.ndarray]:
        """The times between which an item of a gap applies, both included; nothing applies if the first is the later
        one."""
        around = place.around
        low, high = window_starts(found.end, self.window), window_ends(found.start, self.window)
        if around.place_before:
            low, high = _after(self._reach(around.place_before, found, last=True), low, high)
        if around.place_after:
            low, high = _before(self._reach(around.place_after, found, last=False), low, high)
        if isinstance(place.item, Absent):
            for name in _in_groups(around.items_before):
                offsets, rows = found.groups[name]
                some = np.diff(offsets) > 0
                ends = self.round.end[rows[offsets[1:][some] - 1]]
                low[some], high[some] = _after(ends, low[some], high[some])
            for name in _in_groups(around.items_after):
                offsets, rows = found.groups[name]
                some = np.diff(offsets) > 0
                starts = self.round.start[rows[offsets[:-1][some]]]
                low[some], high[some] = _before(starts, low[some], high[some])
        return low, high

    def _reach(self, names: tuple[str, ...], found: FoundRecords, last: bool) -> np.ndarray:
        """The end, or the begin, of the place with these variables."""
        out = np.full(len(found.end), NEVER if last else EVER, np.int64)
        times = self.round.end if last else self.round.start
        for name in names:
            rows = found.rows[:, found.variables.index(name)]
            value = times[np.maximum(rows, 0)] if len(times) else np.zeros(len(rows), np.int64)
            out = np.where(rows < 0, out, np.maximum(out, value) if last else np.minimum(out, value))
        return out


def _name_of(node: InSequence | Together, shape: Shape) -> Hashable:
    """The name under which the records of a part of a node's tree are kept."""
    if not isinstance(shape, int):
        return node, shape
    part = node.parts[shape]
    return part.variable if isinstance(part, Leaf) else part


def _after(ends: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of low .. high later than `ends`: nothing is later than EVER."""
    some = ends < EVER
    return np.where(some, np.maximum(low, np.minimum(ends, EVER - 1) + 1), EVER), np.where(some, high, NEVER)


def _before(starts: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of low .. high earlier than `starts`: nothing is earlier than NEVER."""
    some = starts > NEVER
    return np.where(some, low, EVER), np.where(some, np.minimum(high, np.maximum(starts, NEVER + 1) - 1), NEVER)


def _in_groups(items: Gap) -> list[str]:
    return [name for item in items if isinstance(item, Group) for name in item.variables]


def _tighten(bars: dict[str, np.ndarray], side: str, records: int, is_low: bool, bound: np.ndarray) -> None:
    """Tighten a bound on the times of the other side, by record of this one."""
    low = bars.setdefault(f"{side}_low", np.full(records, NEVER, np.int64))
    high = bars.setdefault(f"{side}_high", np.full(records, EVER, np.int64))
    if is_low:
        np.maximum(low, bound, out=low)
    else:
        np.minimum(high, bound, out=high)
