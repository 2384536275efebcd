"""The event pattern Matcher: tree plans and the automaton on one shard, in batch and in a stream.

State (`state`): the events that a match to come may still have (those of the last window, as far as they qualify for
anything), and the time up to which matches have been emitted. Intermediate results are not state: every feed is cut
into rounds (`rounds`), and each round builds the records it needs from the events of its window. So plans can change
between any two rounds.

In a slice of time, matches decided before it count as emitted from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.events.adapt import Adaptation
from episode.matchers.events.code.between import TOO_MANY
from episode.matchers.events.code.runs import ANY, BUDGET_SPENT, CONTIGUOUS, NEXT, RunsShape
from episode.matchers.events.compiled_loops import path_shape_of, run_automaton
from episode.matchers.events.construct import BUFFER, BudgetSpent, ResultConstruction, intermediate_matches
from episode.matchers.events.counting import collapsed_matches
from episode.matchers.events.errors import budget_spent, explosion, fruitless
from episode.matchers.events.feeding import KeptTree, can_keep, pays
from episode.matchers.events.imprecise import ImpreciseSearch, imprecise_horizon
from episode.matchers.events.output import EventOutput, FoundMatches, flatten, is_flat
from episode.matchers.events.prepare import EventArrays, event_needs, prepare_events
from episode.matchers.events.records import FoundRecords, TooManyRecords
from episode.matchers.events.rounds import Horizon, Round, Rounds, horizon_of
from episode.matchers.events.state import EventState
from episode.matchers.events.tree import TreeRun
from episode.matchers.prepare import Needs
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.slices.slicing import ALL_TIMES, Overlap, SliceBounds, Slicing, Unsliced
from episode.matchers.state import HoldingMatcher
from episode.matchers.times import EVER, NEVER, is_after, window_ends
from episode.plan.events.aggregated import AggregatedPlan, OverMatches
from episode.plan.events.plan import EventPlan, EventReport, Strategy

if TYPE_CHECKING:
    from episode.matchers.events.spec import EventPatternSpec


# Event patterns in slices of time: how far before a slice events may matter, and which decisions belong to it. A slice
# owns the matches that are *decided* in its times: with their last event, or, if a negation or group comes after it,
# when their window has passed. A stream emits the same between two watermarks, so a slice is a stream that begins in
# the middle: nothing after its times matters, and before them only the events that a stream would hold there.


NO_WINDOW = "without WITHIN a match may have events of any time"


def decisions_of(bounds: SliceBounds) -> tuple[int, int]:
    """The times of decisions that a slice owns: later than the first one (NEVER: all) and not later than the second.

    At the least of all times a stream decides nothing yet: these decisions belong to the next slice."""
    done = NEVER if bounds.first is None else max(NEVER, bounds.first - 1)
    return done, END_OF_TIME if bounds.last is None else max(NEVER, bounds.last - 1)


def event_slicing(plan: EventPlan) -> Slicing | Unsliced:
    """The events before a slice that its matches may contain, or that may prevent them."""
    if plan.within is None:
        return _by_length(plan)
    horizon = horizon_of(plan)
    if plan.times.imprecise is not None:
        if plan.times.imprecise.width is None:
            return Unsliced("without WIDTH the times of an event may be any time apart")
        horizon = imprecise_horizon(horizon, plan.times.imprecise.width)
    return Slicing(Overlap(before_time=horizon.back))


def _by_length(plan: EventPlan) -> Slicing | Unsliced:
    """Slicing without a window: only the neighbouring events of a match count, up to its greatest length."""
    automaton = plan.automaton
    if plan.strategy not in (Strategy.STRICT, Strategy.PARTITION) or automaton is None:
        return Unsliced(NO_WINDOW)
    if automaton.looks_before or automaton.waits:
        return Unsliced("without WITHIN a negation before or after a match reaches to any time")
    longest = automaton.longest
    if longest is None:
        return Unsliced("without WITHIN a match with a closure may have any number of events")
    return Slicing(Overlap(before_rows=longest - 1))


def aggregated_slicing(plan: AggregatedPlan) -> Slicing | Unsliced:
    """A bucket belongs to the slice in which it ends, to which all of its events are fed."""
    if plan.within is None:
        return Unsliced(NO_WINDOW)
    if plan.every is None:
        return Unsliced("without EVERY aggregates are over all matches of a key")
    if plan.doubles or any(map(_adds_doubles, plan.values)):
        return Unsliced("sums of doubles are rounded in the order in which they are added up")
    return Slicing(Overlap(before_time=plan.within + plan.every - 1))


def _adds_doubles(value: OverMatches) -> bool:
    return value.function in ("sum", "avg") and value.argument is not None and value.argument.type == "double"


# The matches of one round: by a tree or by the automaton, whichever fits the events that pass.


STRATEGIES = {
    Strategy.ANY: ANY, Strategy.NEXT: NEXT, Strategy.STRICT: CONTIGUOUS, Strategy.PARTITION: CONTIGUOUS,
}  # fmt: skip
MOST_RECORDS = 1 << 21
"""The most records of one buffer in one round; a round with more is cut in two."""
EVENTS_PER_RECORD = 4
"""Events that count as one record: matches of the automaton have any length."""


@dataclass
class EventSearch:
    """Searches rounds, and notes their cost for the plans and rounds to come."""

    plan: EventPlan
    rounds: Rounds
    adaptation: Adaptation
    step_budget: int
    most_records: int
    buffer: int = BUFFER

    @property
    def horizon(self) -> Horizon:
        return self.rounds.horizon

    def matches(self, events: EventBatch, arrays: EventArrays, round_: Round) -> Iterator[FoundMatches]:
        """All matches of a round, in halves if there are too many at once."""
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
        return self.results(lambda: events, replace(round_, bits=reduced.bits), run)

    def results(self, events: Callable[[], EventBatch], round_: Round, run: TreeRun) -> Iterable[FoundMatches]:
        """The matches of one run of a tree. events: those of its rows, for errors. TooManyRecords is raised at once, if
        at all."""
        if self.plan.collapse is not None:
            return collapsed_matches(self, events, round_, run, intermediate_matches(run))
        if self.plan.construction is not None:
            return self._construct(events, round_, run, intermediate_matches(run, self.plan.construction))
        found = run.matches()
        self.adaptation.note(run.counted, len(found.rows), run.events)
        self.rounds.fit(round_, run.most_records)
        return [FoundMatches(len(found.rows), partial(flatten, self.plan, found), alike=is_flat(found))]

    def _construct(
        self, events: Callable[[], EventBatch], round_: Round, run: TreeRun, intermediate: Iterator[FoundRecords]
    ) -> Iterator[FoundMatches]:
        """The matches of intermediate ones, in parts that fit into a buffer."""
        self.rounds.fit(round_, run.most_records)
        constructing = ResultConstruction(
            self.plan, run.arrays, round_, self.horizon.window, self.step_budget, self.buffer
        )
        records, matches = 0, 0
        try:
            for part in intermediate:
                records += len(part.rows)
                for found in constructing.matches(part):
                    matches += len(found)
                    yield found
        except BudgetSpent as spent:
            raise fruitless(self.plan, events(), spent.row, self.step_budget) from None
        self.adaptation.note(run.counted, records, run.events, matches)

    def _by_automaton(self, events: EventBatch, arrays: EventArrays, round_: Round, reduced: Round) -> FoundMatches:
        plan, horizon = self.plan, self.horizon
        assert plan.automaton is not None
        shape = RunsShape(path_shape_of(plan, plan.automaton, arrays), STRATEGIES[plan.strategy], horizon.waits)
        most_events = self.most_records * EVENTS_PER_RECORD
        starts = reduced.bits != 0
        first = _first_bits(plan)
        if not horizon.any_match and len(horizon.chain) > 1 and not first & ~horizon.chain[0]:
            starts = horizon.possible_starts(round_, first)
        starts = horizon.decided_starts(round_, starts, lasting=plan.times.start is not None)
        status, row, lists = run_automaton(
            shape, arrays, round_, reduced.bits, starts, horizon.window, self.step_budget, most_events
        )
        if status == TOO_MANY:
            raise TooManyRecords(most_events, "events in its matches")
        if status == BUDGET_SPENT:
            raise budget_spent(plan, events, row, self.step_budget)
        found = FoundMatches.of_lists(*lists)
        self.adaptation.note([], len(found), {})
        self.rounds.fit(round_, len(found))
        return found


def _first_bits(plan: EventPlan) -> np.uint64:
    """The variables of first events, as bits."""
    assert plan.automaton is not None
    names = {one.variable for one in plan.automaton.transitions if one.source in plan.automaton.starts}
    return np.uint64(sum(1 << plan.variables.index(name) for name in names))


PRECHECKED_EVENTS = 1 << 16
"""Up to this number of events, the search first checks whether every place of a match has one."""


class EventPatternMatcher(HoldingMatcher["EventPatternSpec", EventState, EventOutput]):
    """One event pattern at work on one shard, or on one slice of it."""

    def __init__(self, spec: EventPatternSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        self.plan = plan = spec.plan
        self.needs: Needs = event_needs(plan)
        self.horizon = horizon_of(plan)
        self.adaptation = Adaptation(plan, spec.forced, self.horizon.let_go)
        self.rounds = Rounds(self.horizon, spec.round_rows)
        self.search: EventSearch | ImpreciseSearch
        kept = self.horizon
        if plan.times.imprecise is None:
            self.search = EventSearch(
                plan, self.rounds, self.adaptation, spec.step_budget, spec.most_records, spec.buffer
            )
        else:
            self.search = ImpreciseSearch(plan, self.rounds, self.adaptation, spec.step_budget, spec.most_records)
            kept = imprecise_horizon(self.horizon, plan.times.imprecise.width)
        self.state = EventState(plan, kept, spec.input_order, spec.input_columns, spec.limit)
        self.state.done, self.last = decisions_of(bounds)
        self.tree: KeptTree | None = None
        self._keeps = spec.limit is None and can_keep(plan, self._needs_of_known)
        self.output = EventOutput(plan, spec.output_schema)
        self._every = np.uint64(2 ** len(plan.variables) - 1)

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for together, found in self.matches_in(events, until):
            yield from self.output.tables(together, found)

    def matches_in(self, events: EventBatch, until: int) -> Iterator[tuple[EventBatch, FoundMatches]]:
        """The matches of a feed as lists of events, round by round, each with the batch of its rows."""
        until = min(until, self.last)
        tree, self.tree = self.tree, None
        if tree is not None and not tree.is_large and self._can_add(events, until):
            if len(events) or self.horizon.waits:
                try:
                    yield from self._feed_tree(tree, events, until)
                    return
                except TooManyRecords:
                    self._keeps = False
            elif until < self.last:
                self.tree = tree
        keeps = self._keeps and until < self.last and pays(self.state.count_of(events), len(events))
        together = self.state.join(events, until, keeps or until == self.last)
        if len(together):
            start = self.state.starts(together)
            bits = None if together.known is None else together.known.bits
            arrays = None
            if bits is None or (until > self.state.done and self._may_match(together, start, bits)):
                arrays = self._prepare(together)
                bits = arrays.bits
            self.adaptation.arrive(bits, is_after(together.time, self.state.done))
            if arrays is not None:
                if keeps and self._can_add(together, until):
                    yield from self._keep_from(together, start, arrays, until, tree)
                else:
                    yield from self._search_rounds(together, start, arrays, until)
            self.state.hold(together, start, bits & self._every, END_OF_TIME if until == self.last else until)
        else:
            self.state.expire(until)
        if until != END_OF_TIME:
            self.state.done = max(self.state.done, until)

    def _search_rounds(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, until: int
    ) -> Iterator[tuple[EventBatch, FoundMatches]]:
        for round_ in self._rounds_of(events, start, arrays.bits, until):
            for found in self.search.matches(events, arrays, round_):
                if len(found):
                    yield events, found

    # ---- records that are kept between feeds: see `feeding` --------------------------------------------------

    def _can_add(self, events: EventBatch, until: int) -> bool:
        """Can a kept tree take events: are all of them complete, and matches decided with them?"""
        return until > self.state.done and bool((events.time <= until).all())

    def _keep_from(
        self, events: EventBatch, start: np.ndarray, arrays: EventArrays, until: int, before: KeptTree | None
    ) -> Iterator[tuple[EventBatch, FoundMatches]]:
        """Build a tree of the held events and the new ones, unless it has too many records. before: the tree so far."""
        assert isinstance(self.search, EventSearch)
        done = np.full(len(events.bounds) - 1, self.state.done, np.int64)
        round_ = Round(events.bounds, start, events.time, done, until, arrays.bits)
        seen = (arrays, round_) if before is None else before.log.by_key(until)
        physical = self.adaptation.plan_for(*seen, keeps=True, complete=before is not None)
        if not physical.automaton:  # unless it is forced
            tree = KeptTree(self.search, physical, self._needs_of_known)
            try:
                yield from tree.feed(events, start, arrays, self.state.done, until)
                self.tree = tree
                return
            except TooManyRecords:
                self._keeps = False
        yield from self._search_rounds(events, start, arrays, until)

    def _feed_tree(self, tree: KeptTree, events: EventBatch, until: int) -> Iterator[tuple[EventBatch, FoundMatches]]:
        arrays = self._prepare(events)
        self.adaptation.arrive(arrays.bits, np.ones(len(events), np.bool_))
        yield from tree.feed(events, self.state.starts(events), arrays, self.state.done, until)
        if until == self.last:
            self.state.forget()
        else:
            self.state.add(events, arrays.bits & self._every, until)
            self.tree = tree
        if until != END_OF_TIME:
            self.state.done = until

    def _prepare(self, events: EventBatch) -> EventArrays:
        needs = self.needs if events.known is None else self._needs_of_known
        return prepare_events(self.plan, needs, events.table, events.key, events.known)

    def _may_match(self, events: EventBatch, start: np.ndarray, bits: np.ndarray) -> bool:
        """Could these events have a match?"""
        if len(events) > PRECHECKED_EVENTS or self.plan.times.imprecise is not None:
            return True
        return self.horizon.has_match(events, start, bits & self._every)

    def _rounds_of(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, until: int) -> Iterator[Round]:
        if isinstance(self.search, ImpreciseSearch):
            self.search.begin(events, start)
        # `done` is NEVER until something is emitted: matches decided at that very time come with the next feed.
        if until > self.state.done:
            yield from self.rounds.of(events, start, bits, self.state.done, until)

    @cached_property
    def _needs_of_known(self) -> Needs:
        """The needs of events whose variables are known."""
        return event_needs(self.plan, local=False)

    # ---- state --------------------------------------------------------------------------------------------------

    @property
    def holder(self) -> EventState:
        self.state.settle()
        return self.state

    @property
    def state_rows(self) -> int:
        return len(self.state)

    @property
    def live_keys(self) -> np.ndarray:
        return super().live_keys if self.tree is None else self.tree.records.slots.keys

    def forget(self, keys: np.ndarray) -> None:
        self.tree = None
        super().forget(keys)

    def report(self) -> EventReport:
        return self.adaptation.report()

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a window, if a negation or group after the last event waits for it."""
        window = self.horizon.window
        if not self.horizon.waits or window == EVER:
            return None
        if self.tree is None:
            held = self.holder.held.rows
            starts = np.zeros(0, np.int64) if held is None else self.state.starts(held)
        else:
            starts = self.tree.log.starts
        ends = window_ends(starts, window)
        ends = ends[is_after(ends, self.state.done) & (ends < END_OF_TIME)]
        return int(ends.min()) if len(ends) else None
