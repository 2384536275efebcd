"""Collapsed results of one round: intermediate matches, each with the number of final matches that it stands for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.events.counting import count_matches
from episode.matchers.events.enumerating import NotCounted
from episode.matchers.events.errors import explosion, not_counted, too_many_matches
from episode.matchers.events.intermediate import intermediate_matches
from episode.matchers.events.numbers import Numbers
from episode.matchers.events.output import FoundMatches, flattened
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import FoundRecords, TooManyRecords
from episode.matchers.events.rounds import Round
from episode.matchers.events.tree import TreeRun
from episode.matchers.protocol import EventBatch

if TYPE_CHECKING:
    from episode.matchers.events.search import EventSearch


def collapsed_matches(
    search: EventSearch, events: EventBatch, arrays: EventArrays, round_: Round
) -> Iterator[FoundMatches]:
    """The intermediate matches of a round that have final ones, in halves where there are too many at once."""
    plan = search.plan
    reduced = search.horizon.viable(round_)
    physical = search.adaptation.plan_for(arrays, reduced)
    run = TreeRun(plan, physical, arrays, search.horizon.decidable(reduced), search.most_records)
    try:
        parts = intermediate_matches(run)
    except TooManyRecords as many:
        search.rounds.fit(round_, search.most_records)
        halves = search.rounds.halves(round_)
        if not halves:
            raise explosion(plan, events, search.rounds.first_decided(round_), many) from None
        for half in halves:
            yield from collapsed_matches(search, events, arrays, half)
        return
    assert plan.collapse is not None
    rows = 0
    for part in parts:
        numbers = _numbers(search, events, run, part)
        which = np.flatnonzero(numbers.near > 0)
        part.select(which)
        rows += len(which)
        yield FoundMatches(
            len(which), partial(flattened, plan, part), numbers.select(which).column(plan.collapse.exact)
        )
    search.adaptation.note(run.counted, rows, run.events)
    search.rounds.fit(round_, max((one.records for one in run.counted), default=0))


def _numbers(search: EventSearch, events: EventBatch, run: TreeRun, part: FoundRecords) -> Numbers:
    """How many final matches each intermediate match has; as decimals, all must have one."""
    plan = search.plan
    assert plan.collapse is not None
    try:
        numbers = count_matches(plan, run.arrays, run.round, part, search.step_budget)
    except NotCounted as error:
        raise not_counted(plan, events, error) from None
    if plan.collapse.exact and numbers.too_large.any():
        large = int(np.argmax(numbers.too_large))
        raise too_many_matches(plan, events, int(part.rows[large].max()), float(numbers.near[large]))
    return numbers
