"""The row pattern Matcher: MATCH_RECOGNIZE on one shard, in batch and in a stream.

State (`state`): for each key the rows from its next start row on (and the few before it that PREV may look at), its
match counter, and how far overlapping matches reach. A start row whose outcome still depends on rows to come stays and
is tried again with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.codes import TIMED_OUT, UNMATCHED
from episode.matchers.prepare import Needs, Prepared, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Selectivities
from episode.matchers.rows import arrays as codes
from episode.matchers.rows.arena import (
    AT_START,
    COVERED,
    EXPLORED_START,
    EXPLORED_TO,
    HI,
    LO,
    NEXT_START,
    NUMBER,
    is_lasting,
)
from episode.matchers.rows.arrays import (
    ALL_STEPS,
    ATTEMPTS,
    SIFTINGS,
    STATUS_ROW,
    Attempts,
    FoundPaths,
    Frames,
    RowProgram,
    Rules,
    SearchPartitions,
    SearchRows,
    WorkArrays,
)
from episode.matchers.rows.attempts import RowSearch, no_attempts
from episode.matchers.rows.code.running import Lowered
from episode.matchers.rows.errors import is_bounded, matching_failed
from episode.matchers.rows.matches import RowOutput
from episode.matchers.rows.open_rows import OpenRows
from episode.matchers.rows.program import later_labels, lower_program, sieves_of, with_sieves, without_hopeless_starts
from episode.matchers.rows.selectivity import States
from episode.matchers.rows.state import Here, PartitionBounds, RowState
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


MANY, FEW = 4, 4096
"""A feed of more rows than MANY times those that are held, and FEW, is joined with them; see `open_rows`."""


ALREADY_SIFTED = -(1 << 62)
"""Sieves have looked through so many rows, after all start rows were sifted: never so many that it is done again."""
PATIENCE = 64
"""Steps after which a start row waits for a label that it needs and that no row offers yet: whatever the search finds
until then, it cannot end before such a row comes, or the window ends."""


class RowPatternMatcher(HoldingMatcher["RowPatternSpec", RowState, RowOutput]):
    """One MATCH_RECOGNIZE at work on one shard."""

    frames: Frames | None = None
    """Of a window; see there."""

    def __init__(self, spec: RowPatternSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        conditional = [label for label, condition in self.plan.conditions.items() if condition.row_local]
        self.program: RowProgram = lower_program(
            self.plan.program, self.plan.labels.names, self.plan.output.timed_out, conditional
        )
        self.rules: Rules = lower_rules(self.plan, spec.step_budget)
        self.sieves = sieves_of(self.plan)
        self.needs: Needs = with_sieves(needs_of(self.plan), self.sieves)
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
        if until != END_OF_TIME and self._lasting and len(events) <= MANY * self.state_rows + FEW:
            events = EventBatch(events.table, writable(events.key), writable(events.time), events.known)
            yield from self._go_on(events, until)
        else:
            self._join()
            final = until == END_OF_TIME
            yield from self._advance(self.state.held.join(events, final), until, final)

    def finish(self) -> Iterator[pa.Table]:
        self._join()
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
        """What `Partial` says."""
        self.holder.rename_keys(old, new)

    @property
    def counting(self) -> bool:
        """What `Selective` says."""
        return bool(self.rules.counting)

    @counting.setter
    def counting(self, counting: bool) -> None:
        self.rules = self.rules._replace(counting=counting)

    def selectivities(self) -> Selectivities:
        """What `Selective` says."""
        return self._states.selectivities(self._counts, self._windows, self._matches)

    @property
    def current_states(self) -> tuple[np.ndarray, np.ndarray]:
        """What `Selective` says."""
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
        """What `Partial` says: rows that offer no label that may come after the first row of a match."""
        bits = prepare(self.plan, self.needs, events.table, events.key).bits
        wall: np.ndarray = bits & self._later == 0
        first, lengths = events.bounds[:-1], np.diff(events.bounds)
        wall[ranges(first, np.minimum(lengths, self.plan.lookback))] = False  # PREV may look further back
        return wall

    # ---- one step, all held rows together with the new ones --------------------------------------------

    def _join(self) -> None:
        """Give all rows back to the state."""
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
        self, events: EventBatch, prepared: Prepared, here: Here, until: int, final: bool
    ) -> Iterator[WorkArrays]:  # fmt: skip
        lanes, now = prepared.lanes, here.now
        rows = SearchRows(prepared.bits, events.time, events.key, lanes.ints, lanes.floats, lanes.valid)
        partitions = SearchPartitions(
            here.lo, here.hi, now.at_start, now.next_start, now.number, now.covered, now.explored_start, now.explored_to
        )
        lowered = Lowered.of(self.plan, prepared, self.sieves)
        count = len(events)
        yield from self._run(lowered, rows, partitions, None, self._start_over, count, until, final, events.from_row)

    def found(self, events: EventBatch) -> Iterator[FoundPaths]:
        """The matches of events that are the whole input, as the search gives them."""
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        for work in self._work(events, prepared, here, END_OF_TIME, True):
            yield work.matches()

    # ---- one step, new rows after those that are held --------------------------------------------------

    def _go_on(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        if self.open is None:
            self.open = OpenRows(self.plan, self.program, self.needs, self.sieves, self.spec.input_columns, self.state)
        held = self.open
        slots = held.take(events, until)
        if len(slots) == 0:
            return
        arena, now = held.arena, np.ascontiguousarray(held.keys.table[:, slots])
        rows = SearchRows(arena.bits, arena.time, arena.key, arena.ints, arena.floats, arena.valid)
        lo, hi = now[LO], now[HI]
        partitions = SearchPartitions(
            lo, hi, now[AT_START] != 0, now[NEXT_START], now[NUMBER], now[COVERED], now[EXPLORED_START],
            now[EXPLORED_TO],
        )  # fmt: skip

        def events_at(row: int) -> EventBatch:
            return held.events_at(np.array([row]))

        search = held.search
        attempts = search.attempts(held.keys, now)
        for work in self._run(held.lowered, rows, partitions, search, attempts, len(events), until, False, events_at):
            yield from self.output.tables_of_arena(held, work, lo, hi)
        bounds = PartitionBounds(lo, hi, now[NEXT_START], now[EXPLORED_START])
        held.hold(slots, now, self.state.keep_from(bounds, events_at), until)

    # ---- the search ------------------------------------------------------------------------------------

    def _run(
        self, lowered: Lowered, rows: SearchRows, partitions: SearchPartitions, search: RowSearch | None,
        attempts: Attempts, count: int, until: int, final: bool, events_at: Callable[[int], EventBatch],
    ) -> Iterator[WorkArrays]:  # fmt: skip
        """Run the search; the matches that it has found are handed out when it is done, and whenever they are many."""
        code = lowered.code(self.program, self.rules, self.frames, search is not None, final)
        longest = int((partitions.hi - partitions.lo).max(initial=0))
        work = WorkArrays.sized(longest, count, code.values, self._counts)
        if search is not None:
            search.begin(work)
        attempts_before = int(work.cursor[ATTEMPTS])
        while True:
            status = code.run(
                self.program, self.rules, self.frames, lowered.prepared.lanes, rows, partitions, attempts, work.found,
                work.work, until,
            )  # fmt: skip
            if work.holds_many(status):
                self._count_matches(work)
                yield work
                work.forget_found()
            elif status == codes.SIFTING_SLOW:
                bits = without_hopeless_starts(lowered.sieves[0], self.program, rows, partitions, self.rules.within)
                rows = rows._replace(bits=bits)
                work.cursor[SIFTINGS] = ALREADY_SIFTED
            elif search is not None and search.enlarge(status, work):
                attempts = search.with_room(attempts)
            elif not work.enlarge(status, self.program.slots):
                break
        if search is not None:
            search.end(work)
        self.steps += int(work.cursor[ALL_STEPS])
        if self.counting:
            self._windows += int(work.cursor[ATTEMPTS]) - attempts_before
            self._count_matches(work)
        if status != codes.FINE:
            row = int(work.cursor[STATUS_ROW])
            raise matching_failed(self.plan, events_at(row), row, status, self.spec.step_budget)
        yield work

    def _count_matches(self, work: WorkArrays) -> None:
        if self.counting:
            found = work.matches()
            self._matches += int(np.count_nonzero((found.kind != UNMATCHED) & (found.number != TIMED_OUT)))


def lower_rules(plan: RowPatternPlan, step_budget: int) -> Rules:
    """What a query says of its matches, for the search."""
    return Rules(
        mode=MODES[plan.rules.mode],
        skip=SKIPS[plan.rules.skip_to],
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
