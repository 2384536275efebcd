"""The situations of a key, derived from its events: runs of events for which a condition holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.matchers.prepare import needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.plan.situations.plan import SituationPlan


@dataclass(frozen=True)
class Runs:
    """Situations of one symbol in order, whatever their durations.

    start, end: times; of one that lasts at the end of the events, the time of the last event, and `lasting` says so.
    first, last: the rows with which they begin and end."""

    start: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray
    lasting: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def at(self, which: np.ndarray) -> Runs:
        return Runs(self.start[which], self.end[which], self.first[which], self.last[which], self.lasting[which])

    def between(self, least: int | None, greatest: int | None) -> Runs:
        """Those that are, in part at least, between two times."""
        which = np.ones(len(self), np.bool_)
        if least is not None:
            which &= (self.end >= least) | self.lasting
        if greatest is not None:
            which &= self.start <= greatest
        return self.at(which)

    def long_enough(self, at_least: int | None, at_most: int | None) -> Runs:
        """Those with a duration that is allowed, or may still be."""
        duration = self.end - self.start
        which = np.ones(len(self), np.bool_)
        if at_least is not None:
            which &= duration >= at_least
        if at_most is not None:
            which &= duration <= at_most
        return self.at(which)


def runs_of(plan: SituationPlan, events: EventBatch) -> list[Runs]:
    """The situations of each symbol in the events of one key."""
    bits = prepare(plan, needs_of(plan), events.table, events.key).bits
    return [_runs(bits & np.uint64(1 << number) != 0, events.time) for number in range(len(plan.symbols))]


def _runs(holds: np.ndarray, time: np.ndarray) -> Runs:
    edges = np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lasting = last == len(holds)
    last = np.where(lasting, len(holds) - 1, last)
    start, end = time[first], time[last]
    real = (start < end) | lasting  # a run that ends at the time of its start is none
    return Runs(start[real], end[real], first[real], last[real], lasting[real])
