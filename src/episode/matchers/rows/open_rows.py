"""Held rows of a row pattern, prepared once: a feed costs what its new rows cost, however many are held.

There are two ways to hold rows, with the same matches: `state` joins all held rows with the new ones and prepares them
together, which is best if most rows are new (a batch, a large micro-batch); here the held ones stay prepared in an
arena, and only keys with new rows, or whose window has ended, are searched. Either takes over from the other.

See decision 75.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import one_chunk_each
from episode.matchers.encoding import encode
from episode.matchers.prepare import Needs, Prepared, evaluate, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.rows import arena as fields
from episode.matchers.rows.arena import HI, KEY, LO, NEXT_START, Arena, KeyTable, RowLayout, RowLog
from episode.matchers.rows.arrays import OPEN, PC, ROW, RowProgram
from episode.matchers.rows.code.array_code import RunningValues
from episode.matchers.rows.code.row_code import Lowered
from episode.matchers.rows.code.shape import ConditionTraits
from episode.matchers.rows.program import Sieve
from episode.matchers.rows.state import PARTITIONS, HeldPartitions, RowState
from episode.matchers.rows.waiting_attempts import WaitingAttempts
from episode.matchers.state import NOT_WRITTEN, chunk_of, ranges, with_key_and_time
from episode.matchers.times import EVER, NEVER
from episode.plan.rows.plan import MatchMode, RowPatternPlan

_LEAST_DEAD = 4096


class OpenRows:
    """The held rows of one shard in an arena, and the progress of its keys. It begins with the rows of a state."""

    def __init__(
        self, plan: RowPatternPlan, program: RowProgram, needs: Needs, sieves: tuple[Sieve, ...],
        columns: Sequence[str], state: RowState,
    ) -> None:  # fmt: skip
        self.plan = plan
        self._sieves = sieves
        self.needs = needs
        by_way = plan.settings.mode is MatchMode.INCREMENTAL
        self.waiting = WaitingAttempts(program, by_way, RunningValues.of(ConditionTraits.of(plan)))
        self.keys = KeyTable(self.waiting.marks, len(program.required))
        self.arena = Arena(RowLayout.of(needs), self.waiting)
        self.log = RowLog(columns)
        self.rows = 0
        self._counts = state.counts
        self._kept = state.held.kept
        self._alive: dict[int, int] = {}
        self._lowered: tuple[frozenset[str], Lowered] | None = None
        self._begin(state)

    def __len__(self) -> int:
        return self.rows

    # ---- from a state, and back ----------------------------------------------------------------------

    def _begin(self, state: RowState) -> None:
        """Take over the rows of a state."""
        known, held = state.partitions, state.held.rows
        slots = self.keys.slots_of(known.key)
        self.arena.make_room(self.keys, slots, known.held)
        table, arena = self.keys.table, self.arena
        base = table[fields.BASE, slots]
        table[HI, slots] = base + known.held
        for field, positions in zip(fields.POSITIONS[2:], known[4:], strict=True):
            table[field, slots] = base + positions
        table[self.keys.sought, slots] = base
        table[fields.NUMBER, slots], table[fields.AT_START, slots] = known.number, known.at_start
        if held is None or len(held) == 0:
            return
        self.rows = len(held)
        chunk = self._kept.chunk
        first = held.bounds[:-1]
        places = self.keys.find(held.key[first])
        to = ranges(table[LO, places], table[HI, places] - table[LO, places])
        prepared = prepare(self.plan, self.needs, held.table, held.key)
        arena.put(prepared, np.arange(len(held)), to)
        arena.bits[to], arena.time[to], arena.key[to] = prepared.bits, held.time, held.key
        arena.chunk[to] = chunk
        arena.source[to] = np.arange(len(held)) + self.log.append(held.table, len(held))
        table[fields.UNWRITTEN, places] = np.add.reduceat((chunk == NOT_WRITTEN).astype(np.int64), first)
        self._alive = _count_by_chunk(chunk)
        self._set_deadlines(slots, NEVER)

    def into(self, state: RowState) -> None:
        """Hand all rows over to a state."""
        slots = self._live()
        live = self.keys.table[:, slots]
        state.partitions = self._partitions(live)
        rows = ranges(live[LO], live[HI] - live[LO])
        self._kept.chunk = self.arena.chunk[rows]
        state.held.kept = self._kept
        state.held.rows = self.events_at(rows) if len(rows) else None

    @staticmethod
    def _partitions(live: np.ndarray) -> HeldPartitions:
        lo = live[LO]
        at_start, number = live[fields.AT_START] != 0, live[fields.NUMBER]
        return HeldPartitions(live[KEY], live[HI] - lo, at_start, number, *(live[fields.POSITIONS[2:]] - lo))

    def events_at(self, rows: np.ndarray) -> EventBatch:
        """Rows of the arena as they came."""
        return EventBatch(self.log.take(self.arena.source[rows]), self.arena.key[rows], self.arena.time[rows])

    # ---- one feed ------------------------------------------------------------------------------------

    def take(self, events: EventBatch, until: int) -> np.ndarray:
        """Take new rows in; return the slots of the keys, in order, for which something may be decided now."""
        self._tidy()
        due = np.flatnonzero(self.keys.table[fields.DEADLINE] <= until)
        if len(events) == 0:
            return due[np.argsort(self.keys.table[KEY, due])]
        first, counts = events.bounds[:-1], np.diff(events.bounds)
        slots = self.keys.slots_of(events.key[first])
        self.arena.make_room(self.keys, slots, counts)
        self._append(events, slots, counts)
        self.rows += len(events)
        touched = np.concatenate([slots, np.setdiff1d(due, slots, assume_unique=True)])
        return touched[np.argsort(self.keys.table[KEY, touched])]

    def _append(self, events: EventBatch, slots: np.ndarray, counts: np.ndarray) -> None:
        """Prepare new rows, and put them after the rows of their keys, which have room for them."""
        table, arena, plan = self.keys.table, self.arena, self.plan
        lo, hi = table[LO, slots], table[HI, slots]
        to = ranges(hi, counts)
        arena.time[to], arena.key[to] = events.time, events.key
        arena.source[to] = np.arange(len(events)) + self.log.append(events.table, len(events))
        arena.chunk[to] = NOT_WRITTEN
        table[HI, slots] += counts
        table[fields.UNWRITTEN, slots] += counts
        around = np.minimum(hi - lo, plan.lookback + plan.lookahead)
        if not around.any():
            prepared = prepare(plan, self.needs, events.table, events.key, events.known)
            rows = np.arange(len(events))
        else:
            again = np.minimum(around, plan.lookahead)
            prepared, ends = self._prepare_with_context(events, hi, around, counts)
            rows, to = ranges(ends - counts - again, counts + again), ranges(hi - again, counts + again)
        arena.put(prepared, rows, to)
        arena.bits[to] = prepared.bits[rows]

    def _prepare_with_context(
        self, events: EventBatch, hi: np.ndarray, around: np.ndarray, counts: np.ndarray
    ) -> tuple[Prepared, np.ndarray]:
        """New rows, prepared with the last held ones of their keys before them; the end of each key there."""
        needs, arena = self.needs, self.arena
        ends = np.cumsum(around + counts)
        at, context_at = ranges(ends - counts, counts), ranges(ends - counts - around, around)
        context = ranges(hi - around, around)
        lanes = encode(events.table, needs.columns, needs.null_tests, needs.constants, needs.room, needs.words)
        lanes = arena.with_context(lanes, at, context, context_at)
        key = np.empty(len(at) + len(context_at), np.int64)
        key[at], key[context_at] = events.key, arena.key[context]
        return evaluate(self.plan, needs, lanes, key), ends

    @property
    def lowered(self) -> Lowered:
        """The residual conditions over the arena; they are lowered again when a column has its first null."""
        seen = frozenset(self.arena.layout.seen)
        if self._lowered is None or self._lowered[0] != seen:
            arena = self.arena
            prepared = arena.layout.as_prepared(arena.ints, arena.floats, arena.valid, arena.bits)
            self._lowered = seen, Lowered.of(self.plan, prepared, self._sieves)
        return self._lowered[1]

    def hold(self, slots: np.ndarray, after: np.ndarray, keep_from: np.ndarray, until: int) -> None:
        """Store the progress of these keys (fields by slot) and drop their rows before keep_from."""
        lo, hi = after[LO], after[HI]
        self._drop(ranges(lo, keep_from - lo))
        after[fields.AT_START] &= keep_from == lo
        after[LO] = keep_from
        after[fields.OPENED + OPEN] &= after[NEXT_START] < hi  # an attempt that was given up does not continue
        if self.waiting.by_way and self.plan.lookahead == 0:
            after[fields.OPENED + OPEN] &= after[fields.EXPLORED_TO] >= hi  # `$` held matches back: search again
        table = self.keys.table
        table[:, slots] = after
        empty = slots[keep_from == hi]
        if self._counts:
            shift = table[fields.BASE, empty] - table[LO, empty]
            table[fields.POSITIONS[:, np.newaxis], empty] += shift
            table[self.keys.sought, empty] += shift
        else:
            self.keys.begin(empty)
        self._set_deadlines(slots, until)

    def _drop(self, gone: np.ndarray) -> None:
        """Drop rows of the arena."""
        for chunk, count in _count_by_chunk(self.arena.chunk[gone]).items():
            self._alive[chunk] -= count
        self.arena.key[gone] = fields.NO_KEY
        self.rows -= len(gone)

    def _set_deadlines(self, slots: np.ndarray, until: int) -> None:
        """Set the ends of the windows of these keys; an undecided key whose window has ended waits for rows alone."""
        table, within = self.keys.table, self.plan.within
        if within is None:
            return
        waits = slots[table[NEXT_START, slots] < table[HI, slots]]
        begin = self.arena.time[table[NEXT_START, waits]]
        end = np.where(begin > END_OF_TIME - 1 - within, END_OF_TIME - 1, begin + within)
        table[fields.DEADLINE, slots] = EVER
        table[fields.DEADLINE, waits] = np.where(end > until, end, EVER)

    def _tidy(self) -> None:
        """Drop rows and keys that are gone if they are the majority."""
        live = self._live()
        dead = self.keys.count > 2 * len(live) + _LEAST_DEAD
        if dead:
            self.keys.keep(live)
        if dead or self.arena.is_sparse(self.rows):
            self.arena.lay_out(self.keys, live[:0], live[:0])
        self.waiting.tidy(self.keys)
        if len(self.log) > 2 * self.rows + _LEAST_DEAD:
            rows = self._all_rows()
            order = np.argsort(self.arena.source[rows])
            self.log.keep(self.arena.source[rows[order]])
            self.arena.source[rows[order]] = np.arange(len(rows))

    def _live(self) -> np.ndarray:
        """Slots of keys with known state, by key."""
        slots = self.keys.in_order
        if self._counts:
            return slots
        table = self.keys.table
        return slots[table[HI, slots] > table[LO, slots]]

    def _all_rows(self) -> np.ndarray:
        slots = self._live()
        lo = self.keys.table[LO, slots]
        return ranges(lo, self.keys.table[HI, slots] - lo)

    # ---- what is asked of a matcher ------------------------------------------------------------------

    @property
    def live_keys(self) -> np.ndarray:
        return self.keys.table[KEY, self._live()]

    @property
    def wakes_at(self) -> int | None:
        least = int(self.keys.table[fields.DEADLINE].min(initial=EVER))
        return None if least == EVER else least

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        slots, table = self._live(), self.keys.table
        waits = slots[table[NEXT_START, slots] < table[HI, slots]]
        return table[KEY, waits], self.arena.time[table[NEXT_START, waits]]

    @property
    def waiting_at(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The keys, in order, with an attempt that resumes when rows come; the instruction at which each waits; and
        whether it took the row before (bool). Empty for INCREMENTAL MATCH, which waits at many places at a time."""
        slots, table = self._live(), self.keys.table
        if self.waiting.by_way:
            return slots[:0], slots[:0], np.zeros(0, np.bool_)
        slots = slots[table[fields.OPENED + OPEN, slots] != 0]
        instruction, row = table[fields.OPENED + PC, slots], table[fields.OPENED + ROW, slots]
        again = row > table[NEXT_START, slots]
        again[again] = self.waiting.by_row["path"][row[again] - 1] == instruction[again]
        return table[KEY, slots], instruction, again

    def forget_keys(self, keys: np.ndarray) -> None:
        slots = self.keys.find(keys)
        table = self.keys.table
        self._drop(ranges(table[LO, slots], table[HI, slots] - table[LO, slots]))
        if self._counts:
            self.keys.keep(np.setdiff1d(np.arange(self.keys.count), slots))
        else:
            self.keys.begin(slots)

    def rename_keys(self, old: np.ndarray, new: np.ndarray) -> None:
        self.keys.keep(self._live())  # the code of a forgotten key may be used again
        at = np.isin(old, self.keys.table[KEY])
        slots = self.keys.find(old[at])
        self.keys.rename(slots, new[at])
        self.arena.rename(self.keys, slots)
        self.arena.chunk[self._all_rows()] = NOT_WRITTEN  # they are to be written under the new codes
        table = self.keys.table
        table[fields.UNWRITTEN] = table[HI] - table[LO]
        self._alive.clear()

    # ---- snapshots -----------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        partitions = self._partitions(self.keys.table[:, self._live()])
        put, removed = self._changes()
        return Snapshot((chunk_of(PARTITIONS, pa.table(partitions._asdict())), *put), removed)

    def _changes(self) -> tuple[tuple[StateChunk, ...], tuple[str, ...]]:
        """Chunks to write and names of chunks to remove, so that the stored state has the held rows."""
        table, arena, kept = self.keys.table, self.arena, self._kept
        alive = {chunk: count for chunk, count in self._alive.items() if count}
        if sum(kept.sizes[chunk] for chunk in alive) > kept.most_written(sum(alive.values())):
            alive = {}
            table[fields.UNWRITTEN] = table[HI] - table[LO]
        removed = tuple(f"{kept.prefix}{chunk}" for chunk in kept.sizes if chunk not in alive)
        kept.sizes = {chunk: kept.sizes[chunk] for chunk in alive}
        self._alive = alive
        slots = np.flatnonzero(table[fields.UNWRITTEN])
        counts = np.minimum(table[fields.UNWRITTEN, slots], table[HI, slots] - table[LO, slots])
        table[fields.UNWRITTEN, slots] = 0
        rows = ranges(table[HI, slots] - counts, counts)
        if len(rows) == 0:
            return (), removed
        number = kept.next_chunk
        kept.next_chunk += 1
        arena.chunk[rows] = number
        kept.sizes[number] = alive[number] = len(rows)
        written = with_key_and_time(self.events_at(rows))
        return (chunk_of(f"{kept.prefix}{number}", one_chunk_each(written)),), removed


def _count_by_chunk(chunk: np.ndarray) -> dict[int, int]:
    """Count rows by the chunk of the state that holds them."""
    numbers, counts = np.unique(chunk[chunk != NOT_WRITTEN], return_counts=True)
    return dict(zip(numbers.tolist(), counts.tolist(), strict=True))
