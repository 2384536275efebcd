"""The row pattern Matcher: MATCH_RECOGNIZE on one shard, in batch and in a stream.

State (`state`): for each key the rows from its next start row on (and the few before it that PREV may look at), its
match counter, and how far overlapping matches reach. A start row whose outcome still depends on rows to come stays and
is tried again with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.kernels.rows import matching as kernel
from episode.kernels.rows.arrays import Partitions, Program, Rows, Rules
from episode.matchers.held import ranges
from episode.matchers.prepare import Needs, Prepared, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.output import Output
from episode.matchers.rows.prepare import lower_residuals
from episode.matchers.rows.program import later_labels, lower_program
from episode.matchers.rows.state import Here, RowState
from episode.matchers.rows.work import WorkArrays
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

MODES = {
    MatchMode.PREFERRED: kernel.PREFERRED, MatchMode.MAXIMAL: kernel.MAXIMAL,
    MatchMode.INCREMENTAL: kernel.INCREMENTAL, MatchMode.ALL: kernel.ALL,
}  # fmt: skip
SKIPS = {
    SkipTo.PAST_LAST_ROW: kernel.PAST_LAST_ROW, SkipTo.NEXT_ROW: kernel.NEXT_ROW,
    SkipTo.FIRST_LABEL: kernel.FIRST_LABEL, SkipTo.LAST_LABEL: kernel.LAST_LABEL,
}  # fmt: skip
MEMORY = {"none": kernel.NO_MEMORY, "attempt": kernel.ATTEMPT_MEMORY, "partition": kernel.PARTITION_MEMORY}


class RowPatternMatcher:
    """One MATCH_RECOGNIZE at work on one shard."""

    def __init__(self, spec: RowPatternSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        self.program: Program = lower_program(self.plan.program, self.plan.labels.names, self.plan.output.timed_out)
        self.rules: Rules = lower_rules(self.plan, spec.step_budget)
        self.needs: Needs = needs_of(self.plan)
        self.output = Output(self.plan, self.program.label_of, spec.output_schema)
        self.state = RowState(self.plan, spec.input_columns, spec.limit)

    # ---- protocol ------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        yield from self._advance(self.state.held.joined(events), until, final=until == END_OF_TIME)

    def finish(self) -> Iterator[pa.Table]:
        held = self.state.held.rows
        if held is not None and len(held):
            yield from self._advance(held, END_OF_TIME, final=True)

    def snapshot(self) -> Snapshot:
        return self.state.snapshot()

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.state.restore(chunks)

    @property
    def keyed(self) -> bool:
        return self.output.keyed

    @keyed.setter
    def keyed(self, keyed: bool) -> None:
        self.output.keyed = keyed

    @property
    def state_rows(self) -> int:
        return len(self.state.held)

    @property
    def given_up(self) -> int:
        return self.state.given_up

    @property
    def live_keys(self) -> np.ndarray:
        return self.state.partitions.key

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a window in which a start row waits."""
        starts = self.state.waiting_starts()
        if self.plan.within is None or self.state.held.rows is None or len(starts) == 0:
            return None
        return min(int(self.state.held.rows.time[starts].min()) + self.plan.within, END_OF_TIME - 1)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """The start rows at which keys wait."""
        held, starts = self.state.held.rows, self.state.waiting_starts()
        if held is None:
            return starts, starts
        order = np.argsort(held.key[starts], kind="stable")
        return held.key[starts][order], held.time[starts][order]

    def forget(self, keys: np.ndarray) -> None:
        """What `Partial` says."""
        self.state.forget_keys(keys)

    def rename(self, old: np.ndarray, new: np.ndarray) -> None:
        """What `Partial` says."""
        self.state.rename_keys(old, new)

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

    # ---- one step ------------------------------------------------------------------------------------

    def _advance(self, events: EventBatch, until: int, final: bool) -> Iterator[pa.Table]:
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        for work in self._run(prepared, events, until, final, here):
            yield from self.output.tables(events, prepared, work, here)
        if final:
            self.state.forget()
        else:
            self.state.hold(events, here)

    def _run(self, prepared: Prepared, events: EventBatch, until: int, final: bool, here: Here) -> Iterator[WorkArrays]:
        """Run the kernel; the matches that it has found are handed out when it is done, and whenever they are many."""
        tests, residuals, navigations, aggregates, arrays = lower_residuals(self.plan, prepared)
        lanes, now = prepared.lanes, here.now
        rows = Rows(prepared.bits, events.time, events.key, lanes.ints, lanes.floats, lanes.valid)
        partitions = Partitions(
            here.lo, here.hi, now.at_start, now.next_start, now.number, now.covered, now.explored_start, now.explored_to
        )
        longest = int((here.hi - here.lo).max(initial=0))
        work = WorkArrays.sized(
            longest, len(events), len(aggregates.function), arrays.arrays, arrays.room.elements(longest)
        )
        while True:
            status = kernel.match_partitions(
                self.program, self.rules, tests, residuals, navigations, aggregates, rows, partitions,
                work.found, work.work, until, final,
            )  # fmt: skip
            if work.holds_many(status):
                yield work
                work.forget_found()
            elif not work.enlarge(status, self.program.slots):
                break
        if status != kernel.FINE:
            row = int(work.cursor[kernel.STATUS_ROW])
            raise matching_failed(self.plan, events, row, status, self.spec.step_budget)
        yield work


def lower_rules(plan: RowPatternPlan, step_budget: int) -> Rules:
    """What a query says of its matches, for the kernel."""
    return Rules(
        mode=MODES[plan.rules.mode],
        skip=SKIPS[plan.rules.skip_to],
        memory=MEMORY[plan.memory],
        with_unmatched=plan.output.rows is RowMode.ALL_WITH_UNMATCHED,
        within=kernel.NO_WINDOW if plan.within is None else plan.within,
        timed_out=plan.output.timed_out,
        lookahead=plan.lookahead,
        budget=step_budget,
    )
