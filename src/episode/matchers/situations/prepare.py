"""From a situation plan and a batch to the arrays that its code runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from episode.matchers.prepare import Needs, needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.range_search import first_rows
from episode.matchers.situations.code.counting import count_starts
from episode.matchers.situations.detection import Before, Buffers, Detection, Groups, SituationRows
from episode.matchers.situations.symbols import SEEN, START, Symbol, integers
from episode.matchers.situations.values import Accumulators, AskedSituations
from episode.plan.situations.plan import SituationPlan


def needs_beyond(plan: SituationPlan) -> Needs:
    """What is needed of rows of which it is known whether the conditions of symbols hold."""
    known = {symbol: replace(condition, row_local=()) for symbol, condition in plan.conditions.items()}
    return needs_of(replace(plan, conditions=known))


@dataclass(frozen=True)
class SituationFeed:
    """One feed in the terms of the code.

    opened: the row of a symbol's `lasting` table for each group (-1: none). held_base: where a symbol's finished
    situations begin among all held ones.
    """

    events: EventBatch
    detection: Detection
    opened: np.ndarray
    held_base: np.ndarray
    accumulators: Accumulators

    @property
    def rows(self) -> SituationRows:
        return self.detection.rows

    @property
    def buffers(self) -> Buffers:
        return self.detection.buffers

    @property
    def groups(self) -> Groups:
        return self.detection.groups

    @property
    def keys(self) -> np.ndarray:
        """The key of each group."""
        return self.events.key[self.events.bounds[:-1]]

    def values(
        self, symbol: Symbol, slots: np.ndarray, as_of: np.ndarray, group: np.ndarray
    ) -> tuple[list[pa.Array], np.ndarray]:
        """State columns of a symbol's situations as of rows, and which of their rows is the one of each asked for.

        as_of: a row; -1: before this batch; -2 - i: the held situation i, as it is.
        """
        held = as_of <= -2
        held_rows = -2 - as_of - self.held_base[symbol.number]
        code = np.where(held, -1, slots * (len(self.events) + 1) + as_of + 1)
        unique, at = np.unique(code[~held], return_inverse=True)
        first_of = np.empty(len(unique), np.int64)
        which = np.flatnonzero(~held)
        first_of[at] = which
        slot, last, of_group = slots[first_of], as_of[first_of], group[first_of]
        began_before = self.buffers.first[slot] < 0
        begin = self.events.bounds[of_group]
        first = np.where(began_before, begin, self.buffers.first[slot])
        last = np.where(last < 0, begin - 1, last)
        opened = np.where(began_before, self.opened[of_group, symbol.number], -1)
        asked = AskedSituations(first, last, opened, symbol.lasting)
        columns: list[pa.Array] = []
        for atom, name in symbol.atoms:
            columns += self.accumulators.columns(atom, name, asked)
        index = np.empty(len(slots), np.int64)
        index[held] = held_rows[held]
        index[~held] = at + len(symbol.finished)
        together = [
            pa.chunked_array([*symbol.finished.table.column(one.name).chunks, column.cast(one.type)], one.type)
            for one, column in zip(symbol.fields, columns, strict=True)
        ]
        return [column.combine_chunks() for column in together], index


def prepare_feed(
    plan: SituationPlan, needs: Needs, schema: pa.Schema, symbols: Sequence[Symbol], events: EventBatch, until: int
) -> SituationFeed:
    """The rows, what was known before them, and room for all situations that they can have."""
    count = len(symbols)
    prepared = prepare(plan, needs, events.table, events.key, events.known)
    bits = prepared.bits & np.uint64((1 << count) - 1)
    from_ = events.bounds
    keys = events.key[from_[:-1]]
    before, opened, held_base = _known_before(symbols, keys)
    room = count_starts(bits, from_, count) + (before.held_to - before.held_from).sum(axis=1)
    room += (opened >= 0).sum(axis=0) + 1
    base = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    rows = SituationRows(from_, complete_rows(from_, events.time, until), events.time, bits)
    return SituationFeed(
        events,
        Detection(rows, before, base),
        opened,
        held_base,
        Accumulators(events.table, prepared, schema),
    )


def complete_rows(from_: np.ndarray, time: np.ndarray, until: int) -> np.ndarray:
    """For each group, the row after its last complete instant: a last instant later than `until` may grow."""
    stop = from_[1:].copy()
    last = time[stop - 1]
    grows = np.flatnonzero(last > until)
    if len(grows):
        stop[grows] = first_rows(from_[grows], stop[grows], time, last[grows])
    return stop


def _known_before(symbols: Sequence[Symbol], keys: np.ndarray) -> tuple[Before, np.ndarray, np.ndarray]:
    """What the groups with these keys have held and open, the rows of the open ones, and where held ones begin."""
    count, groups = len(symbols), len(keys)
    open_start = np.zeros((groups, count), np.int64)
    open_seen = np.zeros((groups, count), np.bool_)
    opened = np.full((groups, count), -1, np.int64)
    held_from, held_to = np.zeros((count, groups), np.int64), np.zeros((count, groups), np.int64)
    held_base = np.zeros(count, np.int64)
    total = 0
    for number, symbol in enumerate(symbols):
        held_base[number] = total
        held_from[number] = np.searchsorted(symbol.finished.key, keys, side="left") + total
        held_to[number] = np.searchsorted(symbol.finished.key, keys, side="right") + total
        total += len(symbol.finished)
        lasting = symbol.lasting_key
        if len(lasting):
            at = np.minimum(np.searchsorted(lasting, keys), len(lasting) - 1)
            known = lasting[at] == keys
            opened[known, number] = at[known]
            open_start[known, number] = integers(symbol.lasting, START)[at[known]]
            open_seen[known, number] = np.asarray(symbol.lasting.column(SEEN))[at[known]]
    bit = 1 << np.arange(count)
    before = Before(
        ((opened >= 0) * bit).sum(axis=1),
        (open_seen * bit).sum(axis=1),
        open_start,
        held_from,
        held_to,
        np.concatenate([integers(symbol.finished.table, START) for symbol in symbols]),
        np.concatenate([symbol.finished.time for symbol in symbols]),
    )
    return before, opened, held_base
