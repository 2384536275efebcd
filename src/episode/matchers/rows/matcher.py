"""The row pattern Matcher: MATCH_RECOGNIZE on one shard, in batch and in a stream.

State: for each key the rows from its next start row on (and the few before it that PREV may look at), its match
counter, and how far overlapping matches reach. A start row whose outcome still depends on rows to come stays and is
tried again with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.kernels.rows import matching as kernel
from episode.matchers.assembly import Matches, OutputAssembler, PathLabels
from episode.matchers.columns import from_bytes, take, to_bytes
from episode.matchers.held import STATE_VERSION, KeptRows, check_version, ranges, with_held
from episode.matchers.limits import StateLimit
from episode.matchers.prepare import Needs, membership, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.rows.program import ProgramArrays, lower_program
from episode.matchers.rows.work import WorkArrays
from episode.plan.clause import MatchMode, RowsPerMatch, SkipTo, Span
from episode.plan.rows.plan import uses_match_number
from episode.plan.rows.program import START

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec

_PARTITIONS = "partitions"
MODES = {
    MatchMode.PREFERRED: kernel.PREFERRED, MatchMode.MAXIMAL: kernel.MAXIMAL,
    MatchMode.INCREMENTAL: kernel.INCREMENTAL, MatchMode.ALL: kernel.ALL,
}  # fmt: skip
SKIPS = {
    SkipTo.PAST_LAST_ROW: kernel.PAST_LAST_ROW, SkipTo.NEXT_ROW: kernel.NEXT_ROW,
    SkipTo.FIRST_LABEL: kernel.FIRST_LABEL, SkipTo.LAST_LABEL: kernel.LAST_LABEL,
}  # fmt: skip
MEMORY = {"none": kernel.NO_MEMORY, "attempt": kernel.ATTEMPT_MEMORY, "partition": kernel.PARTITION_MEMORY}


@dataclass
class Partitions:
    """Per key, in order of key code: code, number of held rows, whether the first of them is its true first, positions.

    Positions are rows relative to the first held row of the key: next start, reach of earlier matches, and
    (INCREMENTAL) the last start explored and how far it could see.
    """

    key: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    held: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    at_start: np.ndarray = field(default_factory=lambda: np.zeros(0, np.bool_))
    next_start: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    number: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    covered: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    explored_start: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    explored_to: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    POSITIONS = ("next_start", "covered", "explored_start", "explored_to")
    NAMES = ("key", "held", "at_start", "number", *POSITIONS)

    def select(self, which: np.ndarray) -> Partitions:
        return Partitions(**{name: getattr(self, name)[which] for name in self.NAMES})

    def extended(self, keys: np.ndarray) -> Partitions:
        """With fresh entries for keys that are not here yet."""
        fresh = np.setdiff1d(keys, self.key, assume_unique=True)
        if len(fresh) == 0:
            return self
        blank = Partitions(
            fresh,
            held=np.zeros(len(fresh), np.int64),
            at_start=np.ones(len(fresh), np.bool_),
            next_start=np.zeros(len(fresh), np.int64),
            number=np.zeros(len(fresh), np.int64),
            covered=np.zeros(len(fresh), np.int64),
            explored_start=np.full(len(fresh), -1, np.int64),
            explored_to=np.zeros(len(fresh), np.int64),
        )
        joined = Partitions(
            **{name: np.concatenate([getattr(self, name), getattr(blank, name)]) for name in self.NAMES}
        )
        return joined.select(np.argsort(joined.key, kind="stable"))


class RowPatternMatcher:
    """One MATCH_RECOGNIZE at work on one shard."""

    def __init__(self, spec: RowPatternSpec) -> None:
        self.spec = spec
        self.plan = spec.plan
        self.program: ProgramArrays = lower_program(self.plan.program, self.plan.labels.names)
        self.needs: Needs = needs_of(self.plan)
        self.partitions = Partitions()
        self.held: EventBatch | None = None
        self.given_up = 0
        self._kept = KeptRows()
        self._counts = uses_match_number(self.plan) or any(i.operation == START for i in self.plan.program.instructions)

    # ---- protocol ------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> pa.Table:
        together = with_held(self.held, events, self._kept, self.spec.input_columns)
        return self._advance(together, until, final=until == END_OF_TIME)

    def finish(self) -> pa.Table:
        held = self.held
        if held is None or len(held) == 0:
            return self.spec.output_schema.empty_table()
        return self._advance(held, END_OF_TIME, final=True)

    def snapshot(self) -> Snapshot:
        partitions = pa.table({name: getattr(self.partitions, name) for name in Partitions.NAMES})
        put, removed = self._kept.changes(self.held)
        return Snapshot((StateChunk(_PARTITIONS, STATE_VERSION, to_bytes(partitions)), *put), removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        for chunk in chunks:
            check_version(chunk)
            if chunk.name == _PARTITIONS:
                table = from_bytes(chunk.data)
                self.partitions = Partitions(
                    **{name: table.column(name).to_numpy().copy() for name in Partitions.NAMES}
                )
        self.held = self._kept.restore(chunks, self.partitions.key, self.partitions.held)

    @property
    def state_rows(self) -> int:
        """Rows held for matches still to come."""
        return 0 if self.held is None else len(self.held)

    @property
    def live_keys(self) -> np.ndarray:
        return self.partitions.key

    @property
    def wakes_at(self) -> int | None:
        """The earliest end of a window in which a start row waits."""
        if self.plan.within is None or self.held is None or len(self.held) == 0:
            return None
        first = self.held.bounds[:-1]
        at = np.searchsorted(self.partitions.key, self.held.key[first])
        waiting = self.partitions.next_start[at] < self.partitions.held[at]
        starts = (first + self.partitions.next_start[at])[waiting]
        if len(starts) == 0:
            return None
        return min(int(self.held.time[starts].min()) + self.plan.within, END_OF_TIME - 1)

    # ---- one step ------------------------------------------------------------------------------------

    def _advance(self, events: EventBatch, until: int, final: bool) -> pa.Table:
        lo, hi = events.bounds[:-1], events.bounds[1:]
        keys = events.key[lo]
        everyone = self.partitions.extended(np.sort(keys))
        here = np.searchsorted(everyone.key, keys)
        now = everyone.select(here)
        for name in Partitions.POSITIONS:
            setattr(now, name, getattr(now, name) + lo)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        status, work = self._run(prepared.kernel, prepared, events, until, final, lo, hi, now)
        if status != kernel.FINE:
            raise self._data_error(status, events, int(work.cursor[kernel.STATUS_ROW]))
        matches = self._ordered(work, lo, hi)
        output = OutputAssembler(
            self.plan,
            self.spec.output_schema,
            PathLabels(self.program.label_of, self.program.excluded),
            events.table,
            prepared,
            matches,
        ).table_of_matches()
        self._hold(events, everyone, here, now, lo, hi, final)
        return output

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
    ) -> tuple[int, WorkArrays]:
        plan, p, clause = self.plan, self.program, self.plan.clause
        timed_out = clause.timed_out is not None
        skip_members = plan.labels.members(clause.skip_label)
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
                k["agg_from"], k["agg_to"], k["agg_result"], k["agg_nav"],
                k["array_from"],
                MODES[clause.match_mode], SKIPS[clause.skip_to], len(sets) - 1, MEMORY[plan.memory],
                clause.rows_per_match is RowsPerMatch.ALL_WITH_UNMATCHED, k["track"], self.spec.step_budget,
                prepared.bits, events.time, events.key, prepared.lanes.ints, prepared.lanes.floats,
                prepared.lanes.valid,
                kernel.NO_WINDOW if plan.within is None else plan.within, timed_out, until, final, plan.lookahead,
                lo, hi, now.at_start, now.next_start, now.number, now.covered, now.explored_start, now.explored_to,
                *work.arrays(),
            )  # fmt: skip
            if not work.enlarge(status, p.slots):
                return status, work

    def _ordered(self, work: WorkArrays, lo: np.ndarray, hi: np.ndarray) -> Matches:
        kind, start, length, number, path_from, path = work.found()
        part = np.searchsorted(lo, start, side="right") - 1
        if self.plan.clause.match_mode is MatchMode.INCREMENTAL:
            order = np.lexsort((number, part))
            kind, start, length, number, path_from, part = (
                array[order] for array in (kind, start, length, number, path_from, part)
            )
        return Matches(kind, start, length, number, path_from, path, lo[part], hi[part])

    def _hold(
        self,
        events: EventBatch,
        everyone: Partitions,
        here: np.ndarray,
        now: Partitions,
        lo: np.ndarray,
        hi: np.ndarray,
        final: bool,
    ) -> None:
        """Keep what later rows may still need."""
        if final:
            self.held, self.partitions = None, Partitions()
            self._kept.select(np.zeros(0, np.int64))
            return
        keep_from = np.maximum(lo, now.next_start - self.plan.lookback)
        if self.spec.limit is not None and (hi - keep_from > self.spec.limit.rows).any():
            keep_from = self._within_limit(self.spec.limit, events, now, lo, hi, keep_from)
        now.at_start &= keep_from == lo
        for name in Partitions.POSITIONS:
            getattr(everyone, name)[here] = getattr(now, name) - keep_from
        everyone.held[here] = hi - keep_from
        everyone.at_start[here] = now.at_start
        everyone.number[here] = now.number
        counts = hi - keep_from
        rows = ranges(keep_from, counts)
        self._kept.select(rows)
        self.held = EventBatch(
            take(events.table.select(list(self.spec.input_columns)), rows), events.key[rows], events.time[rows]
        )
        if self._counts:
            self.partitions = everyone
        else:
            alive = np.zeros(len(everyone.key), np.bool_)
            alive[here[counts > 0]] = True
            self.partitions = everyone.select(np.flatnonzero(alive))

    def _within_limit(
        self,
        limit: StateLimit,
        events: EventBatch,
        now: Partitions,
        lo: np.ndarray,
        hi: np.ndarray,
        keep_from: np.ndarray,
    ) -> np.ndarray:
        """The first rows to keep, where keys that hold too many give up what they wait for; or an error."""
        over = hi - keep_from > limit.rows
        if not limit.give_up:
            first = int(np.flatnonzero(over)[0])
            raise self._too_many_rows(limit, events, int(keep_from[first]), int(hi[first] - keep_from[first]))
        self.given_up += int(np.count_nonzero(over))
        now.next_start[over] = hi[over]
        now.explored_start[over] = hi[over] - 1
        return np.where(over, np.maximum(lo, hi - self.plan.lookback), keep_from)

    # ---- errors --------------------------------------------------------------------------------------

    def _too_many_rows(self, limit: StateLimit, events: EventBatch, row: int, count: int) -> EpisodeDataError:
        holder = events.values_at(row, self.plan.keys) or "The stream"
        return self._error(
            f"{holder} holds {count:,} rows for a match that is still open; max_state_rows is {limit.rows:,}.",
            self.plan.clause.pattern_span,
            "Add WITHIN, bound the pattern, raise max_state_rows, or give such matches up: when_full='drop'.",
        )

    def _data_error(self, status: int, events: EventBatch, row: int) -> EpisodeDataError:
        clause = self.plan.clause
        names = dict.fromkeys([*self.plan.keys, *(column.column for column in self.plan.order)])
        place = events.values_at(row, names) or f"row {row}"
        if status == kernel.BUDGET_SPENT:
            return self._error(
                f"Matching from one start row ({place}) took more than {self.spec.step_budget:,} steps.",
                clause.pattern_span,
                "Narrow the conditions, add WITHIN, or raise Options(step_budget=…).",
            )
        reason = (
            f"the match has no row labelled {clause.skip_label}"
            if status == kernel.SKIP_NOT_FOUND
            else f"{clause.skip_label} is the first row of the match, so matching would never advance"
        )
        return self._error(
            f"AFTER MATCH {clause.source[clause.skip_span.start : clause.skip_span.end]} is not possible for the match "
            f"that starts at {place}: {reason}.",
            clause.skip_span,
            "Skip to a label that every match has behind its first row, or SKIP PAST LAST ROW.",
        )

    def _error(self, message: str, span: Span, hint: str) -> EpisodeDataError:
        """An error of the data that a part of the clause is the reason for."""
        source = self.plan.clause.source
        return EpisodeDataError(message, source=source, position=span.start, length=span.end - span.start, hint=hint)
