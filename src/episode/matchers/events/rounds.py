"""A feed in rounds: partitions together up to a number of rows, large ones in pieces of time.

Every round builds the records that it needs from its events and those of the window before them. So only events are
state, plans can change between any two rounds, and the matches of a round can be emitted before the next begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from episode.matchers import chains
from episode.matchers.events.gaps import has_leading_group
from episode.matchers.protocol import EventBatch
from episode.matchers.times import EVER, NEVER, is_after, window_ends
from episode.plan.events.plan import EventPlan, Strategy
from episode.plan.events.tree import Absent, Group, InSequence, Leaf, first_variables, variables_of

FIRST_ROWS, ROUND_ROWS = 1 << 10, 1 << 16
"""Rows of the first round, and the most rows of a round."""
GOOD_RECORDS, LEAST_WINDOWS = 1 << 18, 4
"""Records of a round that stay in the processor's cache, and the least number of windows of a round, as each builds the
records of the window before it anew. Rounds are cut to have about that number of records."""


_NONE, _ALL = np.uint64(0), np.uint64(2**64 - 1)


@dataclass(frozen=True)
class Round:
    """The events of one round: rows from_[g]:from_[g + 1] of partition g, whose matches decided up to done[g] are
    already emitted; matches decided later than `until` are not certain yet."""

    from_: np.ndarray
    start: np.ndarray
    end: np.ndarray
    done: np.ndarray
    until: int
    bits: np.ndarray

    @property
    def rows(self) -> slice:
        return slice(int(self.from_[0]), int(self.from_[-1]))


@dataclass(frozen=True)
class Horizon:
    """The events that a match can still have, and when it is decided: fixed by the plan.

    window: EVER without WITHIN. back: how far before the last decided time an event may still be needed.
    waits: a negation or group comes after the last event, so that a match is decided only when its window has passed.
    chain: places that every match fills, in order, as bits of variables.
    single, first: variables of single events, and of those that are the first event of their matches.
    any_match: under skip-till-any-match, an event that no match can have does not count.
    last: the variable that ends every match, if a match is decided with it: no later match has its event.
    between: variables of negations and groups after the first place.
    barred, bars: if a negation comes before the last place, any event that it forbids there (bars) ends all that the
        place before it (barred) has taken so far.
    """

    window: int
    back: int
    waits: bool
    chain: np.ndarray
    single: np.uint64
    first: np.uint64
    any_match: bool
    last: np.uint64 = _NONE
    between: np.uint64 = _NONE
    barred: np.uint64 = _NONE
    bars: np.uint64 = _NONE

    @property
    def let_go(self) -> np.uint64:
        """Variables whose events are not held for a whole window, because later matches do not have them."""
        return self.last | self.barred | self.bars

    def bits_needed(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, until: int) -> np.ndarray:
        """The bits of events of whole partitions, without those that no match decided after `until` has."""
        if not self.any_match or len(self.chain) < 2:
            return bits
        if self.last and until > NEVER:
            bits = np.where(events.time <= until, bits & ~self.last, bits)
            bits = self._drop_barred(events, bits, until) if self.bars else bits
        bits = self._viable(events, start, bits, self.chain)
        if self.between and (bits & self.between).any():
            bits = self._viable(events, start, bits, np.array([self.chain[0], self.between], np.uint64))
        return bits

    def _drop_barred(self, events: EventBatch, bits: np.ndarray, until: int) -> np.ndarray:
        """The bits without those of events after which a forbidden one came: the last event of a match is still to
        come, so the forbidden one has no further effect."""
        bar = (bits & self.bars != 0) & (events.time <= until)
        if not bar.any():
            return bits
        latest = np.maximum.reduceat(np.where(bar, events.time, NEVER), events.bounds[:-1])
        over = events.time < np.repeat(latest, np.diff(events.bounds))
        return np.where(over, bits & ~self.barred, bits) & np.where(bar, ~self.bars, _ALL)

    def _viable(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, chain: np.ndarray) -> np.ndarray:
        return chains.viable(bits, chain, events.bounds, start, events.time, self.window, False)

    def has_match(self, events: EventBatch, start: np.ndarray, bits: np.ndarray) -> bool:
        """Could events have a match? False: no partition has an event for every place, in order and in time."""
        if len(self.chain) < 2 or not self.any_match:
            return True
        return bool(chains.viable(bits, self.chain, events.bounds, start, events.time, self.window, True).any())

    def viable(self, round_: Round) -> Round:
        """The round without events that no match can have."""
        if len(self.chain) < 2 or not self.any_match:
            return round_
        return replace(round_, bits=self._in_chain(round_))

    def possible_starts(self, round_: Round, first: np.uint64) -> np.ndarray:
        """Events with one of the variables `first` that all further places can follow."""
        return self._in_chain(round_) & first != 0

    def _in_chain(self, round_: Round) -> np.ndarray:
        return chains.viable(round_.bits, self.chain, round_.from_, round_.start, round_.end, self.window, True)

    def decidable(self, round_: Round) -> Round:
        """A waiting round without single events that are only in matches of other rounds, by the start of a match."""
        if not self.waits or self.window == EVER:
            return round_
        early, late = self._beyond(round_)
        bits = np.empty_like(round_.bits)
        mine = bits[round_.rows]
        mine[:] = round_.bits[round_.rows]
        mine[early] &= ~self.single
        mine[late] &= ~self.first
        return replace(round_, bits=bits)

    def decided_starts(self, round_: Round, starts: np.ndarray, lasting: bool) -> np.ndarray:
        """Starts of matches that are decided in a waiting round; of events that last, the first may not begin first."""
        if not self.waits or self.window == EVER:
            return starts
        early, late = self._beyond(round_)
        out = np.empty_like(starts)
        out[round_.rows] = starts[round_.rows] & ~early
        if not lasting:
            out[round_.rows] &= ~late
        return out

    def _beyond(self, round_: Round) -> tuple[np.ndarray, np.ndarray]:
        """Whether a match that starts with each event would be decided before a waiting round, or after it."""
        start = round_.start[round_.rows]
        decided = window_ends(start, self.window)
        return ~is_after(decided, np.repeat(round_.done, np.diff(round_.from_))), decided > round_.until

    def first_needed(self, time: np.ndarray, done: int) -> int:
        """The first event that a match decided later than `done` may need."""
        if self.window == EVER or done - self.back < NEVER:
            return 0
        return int(np.searchsorted(time, done - self.back, side="right"))


def horizon_of(plan: EventPlan) -> Horizon:
    window = EVER if plan.within is None else plan.within
    back = window if window == EVER else window * plan.windows
    bit = {name: 1 << number for number, name in enumerate(plan.variables)}

    def mask(names: tuple[str, ...]) -> np.uint64:
        return np.uint64(sum(bit[name] for name in names))

    places: list[tuple[str, ...]] = []
    single: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    if plan.tree is not None:
        places = [variables_of(place) for place in plan.tree.places] if isinstance(plan.tree, InSequence) else []
        single = variables_of(plan.tree)
        first = () if has_leading_group(plan.tree) else first_variables(plan.tree)
        if plan.construction is not None:
            places = [tuple(place) for place in plan.construction.automaton.required]
    elif plan.automaton is not None:
        places = [tuple(place) for place in plan.automaton.required]
    chain = np.array([mask(place) for place in places], np.uint64)
    any_match = plan.strategy is Strategy.ANY
    horizon = Horizon(window, back, plan.waits, chain, mask(single), mask(first), any_match)
    plain = plan.construction is None and plan.collapse is None and plan.times.imprecise is None
    if not any_match or plan.waits or not plain or not isinstance(plan.tree, InSequence):
        return horizon
    end = plan.tree.places[-1]
    horizon = replace(horizon, last=mask((end.variable,)) if isinstance(end, Leaf) else _NONE)
    if plan.times.start is not None or len(plan.tree.places) < 2:
        return horizon
    in_gaps = tuple(name for gap in plan.tree.gaps[1:] for item in gap for name in variables_of(item))
    barred, bars = _find_bars(plan, plan.tree)
    return replace(horizon, between=mask(in_gaps), barred=mask(barred), bars=mask(bars))


def _find_bars(plan: EventPlan, tree: InSequence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The variable before a negation before the last event, and those of single events that are forbidden there
    whatever the others are; empty if the pattern is different."""
    before, end, gap = tree.places[-2], tree.places[-1], tree.gaps[-2]
    if not isinstance(before, Leaf) or not isinstance(end, Leaf) or any(isinstance(item, Group) for item in gap):
        return (), ()
    bars = tuple(
        item.node.variable
        for item in gap
        if isinstance(item, Absent) and isinstance(item.node, Leaf) and not plan.absent_tests[item.name]
    )
    return ((before.variable,), bars) if bars else ((), ())


class Rounds:
    """Cuts feeds into rounds, of a size that adapts to the records of earlier rounds."""

    def __init__(self, horizon: Horizon, most_rows: int) -> None:
        self.horizon = horizon
        self.most_rows = most_rows
        self.size = min(FIRST_ROWS, most_rows)

    def of(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, done: int, until: int) -> Iterator[Round]:
        """All rounds of a feed."""
        from_ = events.bounds
        groups = len(from_) - 1
        at = 0
        while at < groups:
            last = max(at + 1, int(np.searchsorted(from_, from_[at] + self.size, side="right")) - 1)
            whole = Round(from_[at : last + 1], start, events.time, np.full(last - at, done, np.int64), until, bits)
            if last == at + 1 and from_[last] - from_[at] > self.size:
                yield from self._pieces(whole)
            else:
                yield whole
            at = last

    def _pieces(self, whole: Round) -> Iterator[Round]:
        """One partition's events in rounds; without a window all of them at once."""
        low, high = int(whole.from_[0]), int(whole.from_[1])
        window = self.horizon.window
        time = whole.end[low:high]
        done, begin = int(whole.done[0]), low
        span = max(1, int(time[-1]) - int(time[0]))
        in_window = (high - low) * min(1.0, window / span)
        while window < EVER:
            size = max(self.size, int(LEAST_WINDOWS * in_window))
            at = int(np.searchsorted(time, done, side="right")) + size
            if at + size // 2 >= high - low or time[at] >= whole.until or time[at] == NEVER:
                break
            cut = int(time[at])
            end = low + int(np.searchsorted(time, cut, side="right"))
            yield _piece(whole, begin, end, done, cut)
            done = cut
            begin = low + self.horizon.first_needed(time, done)
        yield _piece(whole, begin, high, done, whole.until)

    def fit(self, round_: Round, records: int) -> None:
        """Adapt the size of rounds to the records that one has made of its rows."""
        rows = int(round_.from_[-1] - round_.from_[0])
        size = min(self.most_rows, int(rows * min(2.0, GOOD_RECORDS / max(records, 1))))
        if records > GOOD_RECORDS or size > self.size:
            self.size = max(1, size)

    def halves(self, round_: Round) -> list[Round]:
        """Cut a round with too many matches in two: of half the partitions, or of half the times; none if it has
        one."""
        groups = len(round_.from_) - 1
        if groups > 1:
            half = groups // 2
            return [
                replace(round_, from_=round_.from_[: half + 1], done=round_.done[:half]),
                replace(round_, from_=round_.from_[half:], done=round_.done[half:]),
            ]
        low, high = int(round_.from_[0]), int(round_.from_[1])
        time = round_.end[low:high]
        decided, ours = self._decision_times(round_)
        cuts = np.unique(decided[ours & (decided > NEVER)])
        if len(cuts) < 2:
            return []
        cut = int(cuts[(len(cuts) - 1) // 2])
        middle = low + int(np.searchsorted(time, cut, side="right"))
        begin = low + self.horizon.first_needed(time, cut)
        done = int(round_.done[0])
        return [_piece(round_, low, middle, done, cut), _piece(round_, begin, high, cut, round_.until)]

    def first_decided(self, round_: Round) -> int:
        """A row of a round that cannot be cut: the first that matches are decided with."""
        return int(round_.from_[0]) + int(np.argmax(self._decision_times(round_)[1]))

    def _decision_times(self, round_: Round) -> tuple[np.ndarray, np.ndarray]:
        """When matches with each event of one partition are decided, and whether that is in this round."""
        if self.horizon.waits:
            decided = window_ends(round_.start[round_.rows], self.horizon.window)
        else:
            decided = round_.end[round_.rows]
        return decided, is_after(decided, int(round_.done[0])) & (decided <= round_.until)


def _piece(whole: Round, low: int, high: int, done: int, until: int) -> Round:
    """A part of one partition's rows and times."""
    return replace(whole, from_=np.array([low, high], np.int64), done=np.array([done], np.int64), until=until)
