"""Final matches counted by making them, where a condition leaves no other way: sums, averages, distant events.

Every intermediate match is a partition of its own, whose events are of the variables that they have in it. The
automaton of what is left to test runs over it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.kernels.events import joins
from episode.kernels.events import runs as kernel
from episode.kernels.times import EVER, NEVER
from episode.matchers.events.numbers import Numbers
from episode.matchers.events.output import flattened
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Round
from episode.matchers.events.runs import automaton_arrays
from episode.matchers.events.tree import Found
from episode.plan.events.plan import EventPlan

ROWS_AT_ONCE = 1 << 16
"""Events of the intermediate matches that are looked at together."""


@dataclass(frozen=True)
class Budget:
    """What counting one by one may take. steps: from one event; events: in the matches of one intermediate match."""

    steps: int
    events: int


class NotCounted(Exception):
    """Counting would take too much. row: an event of the intermediate match; what: what is wrong with the match."""

    def __init__(self, row: int, what: str, hint: str) -> None:
        super().__init__(row, what, hint)
        self.row = row
        self.what = what
        self.hint = hint


def enumerated(plan: EventPlan, arrays: EventArrays, round_: Round, found: Found, budget: Budget) -> Numbers:
    """How many matches the automaton finds in each intermediate match."""
    offsets, rows, variables = flattened(plan, found)
    match = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((rows, match))
    rows = rows[order]
    bits = np.uint64(1) << variables[order].astype(np.uint64)
    counts = np.zeros(len(found.rows), np.int64)
    at = 0
    while at < len(counts):
        end = max(at + 1, int(np.searchsorted(offsets, offsets[at] + ROWS_AT_ONCE, side="right")) - 1)
        part = slice(int(offsets[at]), int(offsets[end]))
        one = _Partitions(plan, arrays, round_, rows[part], bits[part], offsets[at : end + 1] - offsets[at], budget)
        counts[at:end] = one.counts()
        at = end
    return Numbers.of(counts)


class _Partitions:
    """Some intermediate matches, one after the other."""

    def __init__(
        self,
        plan: EventPlan,
        arrays: EventArrays,
        round_: Round,
        rows: np.ndarray,
        bits: np.ndarray,
        from_: np.ndarray,
        budget: Budget,
    ) -> None:
        assert plan.collapse is not None
        self.collapse = plan.collapse
        self.rows = rows
        self.bits = bits
        self.from_ = from_
        self.budget = budget
        self.window = EVER if plan.within is None else plan.within
        self.start, self.end = round_.start[rows], round_.end[rows]
        self.automaton = automaton_arrays(plan, plan.collapse.automaton, arrays)
        lanes = arrays.kernel_lanes
        match = np.repeat(np.arange(len(from_) - 1), np.diff(from_))
        ints, floats, valid = (np.ascontiguousarray(one[:, rows]) for one in (lanes.ints, lanes.floats, lanes.valid))
        self.lanes = joins.Lanes(ints, floats, valid, match)

    def counts(self) -> np.ndarray:
        return self._counts(0, len(self.from_) - 1)

    def _counts(self, low: int, high: int) -> np.ndarray:
        """Of the matches low:high, in halves where they have too many matches at once."""
        from_ = self.from_[low : high + 1]
        status, row, offsets, rows, _ = kernel.runs(
            self.automaton, self.lanes, kernel.ANY, self.bits, np.ones(len(self.bits), np.bool_), from_, self.start,
            self.end, self.window, np.full(high - low, NEVER, np.int64), EVER, False, self.budget.steps,
            self.budget.events,
        )  # fmt: skip
        if status == kernel.FINE:
            starts = rows[offsets[:-1]]
            return np.bincount(np.searchsorted(from_, starts, side="right") - 1, minlength=high - low)
        if status == kernel.TOO_MANY and high - low > 1:
            middle = (low + high) // 2
            return np.concatenate([self._counts(low, middle), self._counts(middle, high)])
        conditions = " AND ".join(self.collapse.enumerated)
        much = f"more than {self.budget.steps:,} steps of matching"
        if status == kernel.TOO_MANY:
            much = f"matches with more than {self.budget.events:,} events"
        raise NotCounted(
            int(self.rows[row]),
            f"with {much}; they are counted one by one because of {conditions}",
            "Narrow the conditions, leave this one out, or raise Options(step_budget=…).",
        )
