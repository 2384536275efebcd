"""Final matches counted by making them, where a condition leaves no other way: sums, averages, distant events."""

from __future__ import annotations

import numpy as np

from episode.matchers.events.construct import BudgetSpent, Constructing
from episode.matchers.events.numbers import Numbers
from episode.matchers.events.output import FoundMatches
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import FoundRecords
from episode.matchers.events.rounds import Round
from episode.matchers.times import EVER
from episode.plan.events.plan import EventPlan


class NotCounted(Exception):
    """Counting would take too much. row: an event of the intermediate match; what: what is wrong with the match."""

    def __init__(self, row: int, what: str, hint: str) -> None:
        super().__init__(row, what, hint)
        self.row = row
        self.what = what
        self.hint = hint


def enumerated(plan: EventPlan, arrays: EventArrays, round_: Round, found: FoundRecords, budget: int) -> Numbers:
    """The final matches of each intermediate match, at most `budget` of them, found in as many steps each."""
    window = EVER if plan.within is None else plan.within
    counts = np.zeros(len(found.rows), np.int64)
    try:
        for made in Constructing(plan, arrays, round_, window, budget).matches(found):
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
    match = np.repeat(np.arange(len(made)), np.diff(made.offsets))
    for column, name in enumerate(found.variables):
        mine = made.variables == plan.variables.index(name)
        single[match[mine], column] = made.rows[mine]
    _, which = np.unique(np.concatenate([found.rows, single]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    number = np.empty(len(which), np.int64)
    number[which[: len(found.rows)]] = np.arange(len(found.rows))
    return number[which[len(found.rows) :]]


def _too_many(plan: EventPlan, row: int, what: str) -> NotCounted:
    assert plan.collapse is not None
    conditions = " AND ".join(plan.collapse.enumerated)
    return NotCounted(
        row,
        f"{what}; they are counted one by one because of {conditions}",
        "Narrow the conditions, leave this one out, or raise Options(step_budget=…).",
    )
