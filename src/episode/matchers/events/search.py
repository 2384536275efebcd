"""The matches of one round: by a tree or by the automaton, whichever fits the events that pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from episode.errors import EpisodeDataError
from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.code.flow import TOO_MANY
from episode.matchers.events.code.runs import ANY, BUDGET_SPENT, CONTIGUOUS, NEXT, RunsShape
from episode.matchers.events.collapsed import collapsed_matches
from episode.matchers.events.construct import BUFFER, BudgetSpent, Constructing
from episode.matchers.events.errors import budget_spent, explosion, fruitless
from episode.matchers.events.intermediate import intermediate_matches
from episode.matchers.events.output import FoundMatches, flattened
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.records import FoundRecords, TooManyRecords
from episode.matchers.events.rounds import Horizon, Round, Rounds
from episode.matchers.events.taking import run_automaton, taking_of
from episode.matchers.events.tree import TreeRun
from episode.matchers.protocol import EventBatch
from episode.plan.events.plan import EventPlan, Strategy

STRATEGIES = {
    Strategy.ANY: ANY, Strategy.NEXT: NEXT, Strategy.STRICT: CONTIGUOUS, Strategy.PARTITION: CONTIGUOUS,
}  # fmt: skip
MOST_RECORDS = 1 << 21
"""Records of one buffer in one round, at the most; a round with more is cut in two."""
EVENTS_PER_RECORD = 4
"""The automaton puts out matches of any length: their events are counted, so many to a record."""


class EventSearch:
    """Searches rounds, and notes for the plans and rounds to come what it took."""

    def __init__(
        self,
        plan: EventPlan,
        rounds: Rounds,
        adaptation: Adaptation,
        step_budget: int,
        most_records: int,
        buffer: int = BUFFER,
    ) -> None:
        self.plan = plan
        self.rounds = rounds
        self.adaptation = adaptation
        self.step_budget = step_budget
        self.most_records = most_records
        self.buffer = buffer

    @property
    def horizon(self) -> Horizon:
        return self.rounds.horizon

    def matches(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterator[FoundMatches]:
        """All matches of a round, in halves where there are too many at once."""
        if self.plan.collapse is not None:
            yield from collapsed_matches(self, events, arrays, round_)
            return
        try:
            parts = self._at_once(events, arrays, round_)
        except TooManyRecords as many:
            self.rounds.fit(round_, self.most_records)
            halves = self.rounds.halves(round_)
            if not halves:
                raise explosion(self.plan, events, self.rounds.first_decided(round_), many) from None
            for half in halves:
                yield from self.matches(events, arrays, half)
        else:
            yield from parts

    def _at_once(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterable[FoundMatches]:
        reduced = self.horizon.viable(round_)
        if self.plan.tree is None:
            return [self._by_automaton(events, arrays, round_, reduced)]
        physical = self.adaptation.plan_for(arrays, reduced)
        if physical.automaton:
            try:
                return [self._by_automaton(events, arrays, round_, reduced)]
            except (TooManyRecords, EpisodeDataError):
                if self.plan.construction is None:
                    raise  # else there are more choices than was estimated, and they can be postponed
        run = TreeRun(self.plan, physical, arrays, self.horizon.decidable(reduced), self.most_records)
        if self.plan.construction is not None:
            intermediate = intermediate_matches(run, self.plan.construction)
            return self._constructed(events, arrays, replace(round_, bits=reduced.bits), run, intermediate)
        found = run.matches()
        self.adaptation.note(run.counted, len(found.rows), run.events)
        self.rounds.fit(round_, max((one.records for one in run.counted), default=0))
        return [FoundMatches(len(found.rows), partial(flattened, self.plan, found))]

    def _constructed(
        self, events: EventBatch, arrays: EventArrays, round_: Round, run: TreeRun, intermediate: Iterator[FoundRecords]
    ) -> Iterator[FoundMatches]:
        """The matches of intermediate ones, as many at a time as fit into a buffer."""
        self.rounds.fit(round_, max((one.records for one in run.counted), default=0))
        constructing = Constructing(self.plan, arrays, round_, self.horizon.window, self.step_budget, self.buffer)
        records, matches = 0, 0
        try:
            for part in intermediate:
                records += len(part.rows)
                for found in constructing.matches(part):
                    matches += len(found)
                    yield found
        except BudgetSpent as spent:
            raise fruitless(self.plan, events, spent.row, self.step_budget) from None
        self.adaptation.note(run.counted, records, run.events, matches)

    def _by_automaton(self, events: EventBatch, arrays: EventArrays, round_: Round, reduced: Round) -> FoundMatches:
        plan, horizon = self.plan, self.horizon
        assert plan.automaton is not None
        shape = RunsShape(taking_of(plan, plan.automaton, arrays), STRATEGIES[plan.strategy], horizon.waits)
        most_events = self.most_records * EVENTS_PER_RECORD
        starts = reduced.bits != 0
        first = _first_bits(plan)
        if not horizon.any_match and len(horizon.chain) > 1 and not first & ~horizon.chain[0]:
            starts = horizon.possible_starts(round_, first)
        starts = horizon.decided_starts(round_, starts, lasting=plan.times.start is not None)
        found = run_automaton(
            shape, arrays, round_, reduced.bits, starts, horizon.window, self.step_budget, most_events
        )  # fmt: skip
        if found.status == TOO_MANY:
            raise TooManyRecords(most_events, "events in its matches")
        if found.status == BUDGET_SPENT:
            raise budget_spent(plan, events, found.row, self.step_budget)
        matches = len(found.offsets) - 1
        self.adaptation.note([], matches, {})
        self.rounds.fit(round_, matches)
        return FoundMatches(matches, lambda: (found.offsets, found.rows, found.variables))


def _first_bits(plan: EventPlan) -> np.uint64:
    """The variables of first events, as bits."""
    assert plan.automaton is not None
    names = {one.variable for one in plan.automaton.transitions if one.source in plan.automaton.starts}
    return np.uint64(sum(1 << plan.variables.index(name) for name in names))
