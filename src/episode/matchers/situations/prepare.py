"""From a situation plan and a batch to the arrays that its kernel runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from episode.kernels.situations import matching as kernel
from episode.matchers.prepare import Needs, needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.situations.symbols import SEEN, START, Symbol, integers
from episode.matchers.situations.values import Accumulators, Asked
from episode.matchers.times import EVER
from episode.plan.situations.cost import triggers
from episode.plan.situations.plan import SituationPlan


def pattern_of(plan: SituationPlan) -> kernel.Pattern:
    """What does not change from feed to feed."""
    starts, ends = zip(*triggers(plan.masks, plan.at_least, plan.at_most, plan.eager), strict=True)
    return kernel.Pattern(
        np.array(plan.masks, np.int64),
        np.array([limit or 0 for limit in plan.at_least], np.int64),
        np.array([EVER if limit is None else limit for limit in plan.at_most], np.int64),
        EVER if plan.within is None else plan.within,
        plan.eager,
        np.array(starts, np.bool_),
        np.array(ends, np.bool_),
    )


def needs_beyond(plan: SituationPlan) -> Needs:
    """What is needed of rows of which it is known whether the conditions of symbols hold."""
    known = {symbol: replace(condition, row_local=()) for symbol, condition in plan.conditions.items()}
    return needs_of(replace(plan, conditions=known))


@dataclass(frozen=True)
class Feed:
    """One feed in the kernel's terms.

    opened: the row of a symbol's `lasting` table for each group (-1: none). held_base: where a symbol's finished
    situations begin among all held ones.
    """

    events: EventBatch
    rows: kernel.Rows
    buffers: kernel.Buffers
    groups: kernel.Groups
    place: kernel.Place
    before: kernel.Before
    opened: np.ndarray
    held_base: np.ndarray
    accumulators: Accumulators

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
        asked = Asked(first, last, opened, symbol.lasting)
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
) -> Feed:
    """The rows, what was known before them, and room for all situations that they can have."""
    count = len(symbols)
    prepared = prepare(plan, needs, events.table, events.key, events.known)
    bits = prepared.bits & np.uint64((1 << count) - 1)
    from_ = events.bounds
    keys = events.key[from_[:-1]]
    groups = len(keys)
    before, opened, held_base = _known_before(symbols, keys)
    room = kernel.count_starts(bits, from_, count) + (before.held_to - before.held_from).sum(axis=1)
    room += (opened >= 0).sum(axis=0) + 1
    base = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    return Feed(
        events,
        kernel.Rows(from_, kernel.complete_rows(from_, events.time, until), events.time, bits),
        kernel.Buffers(*(np.zeros(int(base[-1]), np.int64) for _ in range(4))),
        kernel.Groups(
            np.zeros((groups, count), np.int64),
            np.zeros((groups, count), np.int64),
            np.full((groups, count), -1, np.int64),
            np.zeros((groups, count), np.bool_),
        ),
        kernel.Place(np.zeros(4, np.int64), base[:-1].copy(), base[:-1].copy(), np.zeros(count, np.bool_)),
        before,
        opened,
        held_base,
        Accumulators(events.table, prepared, schema),
    )


def _known_before(symbols: Sequence[Symbol], keys: np.ndarray) -> tuple[kernel.Before, np.ndarray, np.ndarray]:
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
    before = kernel.Before(
        opened >= 0,
        open_start,
        open_seen,
        held_from,
        held_to,
        np.concatenate([integers(symbol.finished.table, START) for symbol in symbols]),
        np.concatenate([symbol.finished.time for symbol in symbols]),
    )
    return before, opened, held_base
