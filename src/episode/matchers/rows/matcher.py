"""The row pattern Matcher: MATCH_RECOGNIZE on one shard, in batch and in a stream.

State (`state`): for each key the rows from its next start row on (and the few before it that PREV may look at), its
match counter, and how far overlapping matches reach. A start row whose outcome still depends on rows to come stays and
is tried again with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from episode.kernels.rows import matching as kernel
from episode.matchers.prepare import Needs, membership, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.rows.errors import matching_failed
from episode.matchers.rows.output import Output
from episode.matchers.rows.program import ProgramArrays, lower_program
from episode.matchers.rows.state import Partitions, RowState
from episode.matchers.rows.work import WorkArrays
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, SkipTo

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
        self.program: ProgramArrays = lower_program(self.plan.program, self.plan.labels.names)
        self.needs: Needs = needs_of(self.plan)
        self.output = Output(self.plan, self.program, spec.output_schema)
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

    # ---- one step ------------------------------------------------------------------------------------

    def _advance(self, events: EventBatch, until: int, final: bool) -> Iterator[pa.Table]:
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        for work in self._run(prepared.kernel, prepared, events, until, final, here.lo, here.hi, here.now):
            yield from self.output.tables(events, prepared, work, here)
        if final:
            self.state.forget()
        else:
            self.state.hold(events, here)

    def _run(
        self,
        k: dict[str, Any],
        prepared: Any,
        events: EventBatch,
        until: int,
        final: bool,
        lo: np.ndarray,
        hi: np.ndarray,
        now: Partitions,
    ) -> Iterator[WorkArrays]:
        """Run the kernel; the matches that it has found are handed out when it is done, and whenever they are many."""
        plan, p, rules = self.plan, self.program, self.plan.rules
        timed_out = plan.output.timed_out
        skip_members = plan.labels.members(rules.skip_label)
        sets = np.vstack([k["sets"], membership([skip_members], plan.labels)])
        longest = int((hi - lo).max(initial=0))
        work = WorkArrays.sized(longest, len(events), len(k["agg_function"]), k["arrays"], k["array_room"](longest))
        while True:
            status = kernel.match_partitions(
                p.op, p.first, p.second, p.label_of, p.entry_bits, p.loop_choice, p.slot,
                p.loop_from, p.loop_ids, p.slots, p.loops,
                max(1, len(plan.labels.names)), p.first_bits, p.follow_bits, p.one_row_enough or timed_out,
                p.nullable,
                k["test_from"], k["test_compare"], k["test_float"], k["test_a"], k["test_a_valid"], k["test_a_nav"],
                k["test_b"], k["test_b_valid"], k["test_b_nav"],
                k["program_from"], k["program_to"], k["program_result"], k["code"], k["registers"],
                k["const_i"], k["const_f"],
                k["nav_from"], k["nav_ids"], k["nav_first"], k["nav_offset"], k["nav_shift"], k["nav_label"],
                k["nav_set"],
                k["nav_plain"], sets, k["label_codes"],
                k["agg_function"], k["agg_set"], k["agg_column"], k["agg_valid"], k["agg_float"],
                k["agg_from"], k["agg_to"], k["agg_result"], k["agg_nav"], k["agg_high"],
                k["array_from"],
                MODES[rules.mode], SKIPS[rules.skip_to], len(sets) - 1, MEMORY[plan.memory],
                plan.output.rows is RowMode.ALL_WITH_UNMATCHED, k["track"], self.spec.step_budget,
                prepared.bits, events.time, events.key, prepared.lanes.ints, prepared.lanes.floats,
                prepared.lanes.valid,
                kernel.NO_WINDOW if plan.within is None else plan.within, timed_out, until, final, plan.lookahead,
                lo, hi, now.at_start, now.next_start, now.number, now.covered, now.explored_start, now.explored_to,
                *work.arrays(),
            )  # fmt: skip
            if work.holds_many(status):
                yield work
                work.forget_found()
            elif not work.enlarge(status, p.slots):
                break
        if status != kernel.FINE:
            row = int(work.cursor[kernel.STATUS_ROW])
            raise matching_failed(plan, events, row, status, self.spec.step_budget)
        yield work
