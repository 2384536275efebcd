"""The row pattern Matcher: MATCH_RECOGNIZE on one shard, in batch and in a stream.

State (`state`): for each key the rows from its next start row on (and the few before it that PREV may look at), its
match counter, and how far overlapping matches reach. A start row whose outcome still depends on rows to come stays and
is tried again with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.prepare import Prepared, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Selectivities
from episode.matchers.rows import arrays as codes
from episode.matchers.rows.arena import AT_START, DEADLINE, LO, is_lasting
from episode.matchers.rows.arrays import Attempts, FoundPaths, Frames, SearchPartitions, SearchRows, WorkArrays
from episode.matchers.rows.code.row_code import Lowered
from episode.matchers.rows.errors import is_bounded, matching_failed
from episode.matchers.rows.matches import RowOutput
from episode.matchers.rows.open_rows import OpenRows
from episode.matchers.rows.program import later_labels, lower_program, sieves_of, with_sieves, without_hopeless_starts
from episode.matchers.rows.selectivity import States
from episode.matchers.rows.state import FeedPartitions, RowState
from episode.matchers.rows.waiting_attempts import WaitingAttempts, no_attempts
from episode.matchers.state import HoldingMatcher, ranges, writable
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

MODES = {
    MatchMode.PREFERRED: codes.PREFERRED, MatchMode.MAXIMAL: codes.MAXIMAL,
    MatchMode.INCREMENTAL: codes.INCREMENTAL, MatchMode.ALL: codes.ALL,
}  # fmt: skip
SKIPS = {
    SkipTo.PAST_LAST_ROW: codes.PAST_LAST_ROW, SkipTo.NEXT_ROW: codes.NEXT_ROW,
    SkipTo.FIRST_LABEL: codes.FIRST_LABEL, SkipTo.LAST_LABEL: codes.LAST_LABEL,
}  # fmt: skip
MEMORY = {"none": codes.NO_MEMORY, "attempt": codes.ATTEMPT_MEMORY, "partition": codes.PARTITION_MEMORY}
JOIN_FACTOR, JOIN_ROWS = 4, 4096
"""A feed of more rows than JOIN_FACTOR times the held ones, and JOIN_ROWS, is joined with them; see `open_rows`."""
ALREADY_SIFTED = -(1 << 62)
"""The count of rows that sieves have looked through, once all start rows are sifted: too small for a second sifting."""
PATIENCE = 64
"""Steps after which a start row waits for a label that it needs and that no row offers yet: whatever the search finds
until then, it cannot end before such a row comes, or the window ends."""


class RowSearch(NamedTuple):
    """One search over rows. waiting: attempts that resume, if there are any. new_rows: the number of rows that were not
    there in the search before. final: no row comes after these. events_at: the events from a row on, for errors."""

    lowered: Lowered
    rows: SearchRows
    partitions: SearchPartitions
    attempts: Attempts
    waiting: WaitingAttempts | None
    new_rows: int
    until: int
    final: bool
    events_at: Callable[[int], EventBatch]


class RowPatternMatcher(HoldingMatcher["RowPatternSpec", RowState, RowOutput]):
    """One MATCH_RECOGNIZE at work on one shard."""

    frames: Frames | None = None
    """Frames of a window; see `Frames`."""

    def __init__(self, spec: RowPatternSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        conditional = [label for label, condition in self.plan.conditions.items() if condition.row_local]
        self.program = lower_program(self.plan.program, self.plan.labels.names, self.plan.output.timed_out, conditional)
        self.settings = lower_settings(self.plan, spec.step_budget)
        self.sieves = sieves_of(self.plan)
        self.needs = with_sieves(needs_of(self.plan), self.sieves)
        self.output = RowOutput(self.plan, self.program.label_of, spec.output_schema)
        self.state = RowState(self.plan, spec.input_columns, spec.limit)
        self.open: OpenRows | None = None
        self.steps = 0
        self._lasting = is_lasting(self.plan, self.needs)
        self._windows = self._matches = 0
        self._counts = np.zeros((len(self.program.code), 2, 2), np.int64)
        self._start_over = no_attempts()

    # ---- protocol ------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        if until != END_OF_TIME and self._lasting and len(events) <= JOIN_FACTOR * self.state_rows + JOIN_ROWS:
            events = EventBatch(events.table, writable(events.key), writable(events.time), events.known)
            yield from self._feed_open(events, until)
        else:
            self._return_rows()
            final = until == END_OF_TIME
            yield from self._advance(self.state.held.join(events, final), until, final)

    def finish(self) -> Iterator[pa.Table]:
        self._return_rows()
        held = self.state.held.rows
        if held is not None and len(held):
            yield from self._advance(held, END_OF_TIME, final=True)

    @property
    def holder(self) -> RowState | OpenRows:
        return self.state if self.open is None else self.open

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a window in which a start row waits."""
        return self.holder.wakes_at

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """See `Partial.rename`."""
        self.holder.rename_keys(old, new)

    @property
    def counting(self) -> bool:
        """See `Selective.counting`."""
        return bool(self.settings.counting)

    @counting.setter
    def counting(self, counting: bool) -> None:
        self.settings = self.settings._replace(counting=counting)

    def selectivities(self) -> Selectivities:
        """See `Selective.selectivities`."""
        return self._states.selectivities(self._counts, self._windows, self._matches)

    @property
    def current_states(self) -> tuple[np.ndarray, np.ndarray]:
        """See `Selective.current_states`."""
        if self.open is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        keys, instruction, again = self.open.waiting_at
        return keys, np.where(again, self._states.again[instruction], self._states.at[instruction])

    @cached_property
    def _states(self) -> States:
        return States.of(self.plan.program)

    @cached_property
    def _later(self) -> np.uint64:
        """Bits of the labels that a row after the first of a match may have."""
        later = later_labels(self.plan.program)
        return np.uint64(sum(1 << number for number, label in enumerate(self.plan.labels.names) if label in later))

    def walls(self, events: EventBatch) -> np.ndarray:
        """Rows that offer no label that may come after the first row of a match; see `Partial.walls`."""
        bits = prepare(self.plan, self.needs, events.table, events.key).bits
        wall: np.ndarray = bits & self._later == 0
        first, lengths = events.bounds[:-1], np.diff(events.bounds)
        wall[ranges(first, np.minimum(lengths, self.plan.lookback))] = False  # PREV may look further back
        return wall

    # ---- one step, all held rows together with the new ones --------------------------------------------

    def _return_rows(self) -> None:
        """Return all rows to the state."""
        if self.open is not None:
            self.open.into(self.state)
            self.open = None

    def _advance(self, events: EventBatch, until: int, final: bool) -> Iterator[pa.Table]:
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key, events.known)
        for work in self._work(events, prepared, here, until, final):
            yield from self.output.tables(events, prepared, work, here)
        if final:
            self.state.forget()
        else:
            self.state.hold(events, here)

    def _work(
        self, events: EventBatch, prepared: Prepared, here: FeedPartitions, until: int, final: bool
    ) -> Iterator[WorkArrays]:  # fmt: skip
        lanes = prepared.lanes
        rows = SearchRows(prepared.bits, events.time, events.key, lanes.ints, lanes.floats, lanes.valid)
        lowered, count = Lowered.of(self.plan, prepared, self.sieves), len(events)
        yield from self._run(
            RowSearch(lowered, rows, here.now, self._start_over, None, count, until, final, events.from_row)
        )

    def find_paths(self, events: EventBatch) -> Iterator[FoundPaths]:
        """Yield the matches of events that are the whole input, as the search finds them."""
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        for work in self._work(events, prepared, here, END_OF_TIME, True):
            yield work.matches()

    # ---- one step, new rows after those that are held --------------------------------------------------

    def _feed_open(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        if self.open is None:
            self.open = OpenRows(self.plan, self.program, self.needs, self.sieves, self.spec.input_columns, self.state)
        held = self.open
        slots = held.take(events, until)
        if len(slots) == 0:
            return
        arena, now = held.arena, np.ascontiguousarray(held.keys.table[:, slots])
        rows = SearchRows(arena.bits, arena.time, arena.key, arena.ints, arena.floats, arena.valid)
        partitions = SearchPartitions(*now[LO:DEADLINE])._replace(at_start=now[AT_START] != 0)

        def events_at(row: int) -> EventBatch:
            return held.events_at(np.array([row]))

        waiting = held.waiting
        attempts = waiting.attempts(held.keys, now)
        for work in self._run(
            RowSearch(held.lowered, rows, partitions, attempts, waiting, len(events), until, False, events_at)
        ):
            yield from self.output.tables_of_arena(held, work, partitions)
        held.hold(slots, now, self.state.keep_from(partitions, events_at), until)

    # ---- the search ------------------------------------------------------------------------------------

    def _run(self, search: RowSearch) -> Iterator[WorkArrays]:
        """Run a search; yield the matches when it is done, and whenever they are many."""
        lowered, rows, partitions, attempts, waiting, count, until, final, events_at = search
        code = lowered.code(self.program, self.settings, self.frames, waiting is not None, final)
        longest = int((partitions.hi - partitions.lo).max(initial=0))
        work = WorkArrays.allocate(longest, count, code.values, self._counts)
        if waiting is not None:
            waiting.begin(work)
        attempts_before = int(work.cursor[codes.ATTEMPTS])
        while True:
            status = code.run(
                self.program, self.settings, self.frames, lowered.prepared.lanes, rows, partitions, attempts,
                work.found, work.work, until,
            )  # fmt: skip
            if work.holds_many(status):
                self._count_matches(work)
                yield work
                work.forget_found()
            elif status == codes.SIFTING_SLOW:
                bits = without_hopeless_starts(lowered.sieves[0], self.program, rows, partitions, self.settings.within)
                rows = rows._replace(bits=bits)
                work.cursor[codes.SIFTINGS] = ALREADY_SIFTED
            elif waiting is not None and waiting.enlarge(status, work):
                attempts = waiting.with_room(attempts)
            elif not work.enlarge(status, self.program.slots):
                break
        if waiting is not None:
            waiting.end(work)
        self.steps += int(work.cursor[codes.ALL_STEPS])
        if self.counting:
            self._windows += int(work.cursor[codes.ATTEMPTS]) - attempts_before
            self._count_matches(work)
        if status != codes.FINE:
            row = int(work.cursor[codes.STATUS_ROW])
            raise matching_failed(self.plan, events_at(row), row, status, self.spec.step_budget)
        yield work

    def _count_matches(self, work: WorkArrays) -> None:
        if self.counting:
            found = work.matches()
            self._matches += int(np.count_nonzero((found.kind != UNMATCHED) & (found.number != TIMED_OUT)))


def lower_settings(plan: RowPatternPlan, step_budget: int) -> codes.SearchSettings:
    """Lower the match clauses of a query for the search."""
    return codes.SearchSettings(
        mode=MODES[plan.settings.mode],
        skip=SKIPS[plan.settings.skip_to],
        memory=MEMORY[plan.memory],
        with_unmatched=plan.output.rows is RowMode.ALL_WITH_UNMATCHED,
        within=codes.NO_WINDOW if plan.within is None else plan.within,
        timed_out=plan.output.timed_out,
        lookahead=plan.lookahead,
        budget=step_budget,
        patience=PATIENCE,
        counting=False,
        bounded=is_bounded(plan),
    )
