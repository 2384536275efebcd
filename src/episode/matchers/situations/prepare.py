"""From a situation plan and a batch to the arrays that its code runs on, and calls of the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from episode.matchers.code.searching import first_rows
from episode.matchers.prepare import Needs, needs_of, prepare
from episode.matchers.protocol import EventBatch
from episode.matchers.situations.adapt import Orders
from episode.matchers.situations.code import arrays as names
from episode.matchers.situations.code.arrays import COUNT, KINDS, NO_ROOM, PLACES, ROW, SituationShape, ranges_of
from episode.matchers.situations.code.deriving import count_starts
from episode.matchers.situations.code.detecting import detection_program
from episode.matchers.situations.state import SEEN, START, Symbol, integers
from episode.matchers.situations.values import Accumulators, AskedSituations
from episode.matchers.times import EVER
from episode.native.running import compiled_for
from episode.plan.situations.cost import triggers
from episode.plan.situations.plan import SituationPlan


class Detector:
    """Finds the matches of one matcher's feeds. room: for matches at one time, unless one instant has more."""

    def __init__(self, plan: SituationPlan, orders: Orders, room: int) -> None:
        self.orders = orders
        self.code = compiled_for(detection_program, shape_of(plan, orders))
        symbols = len(plan.symbols)
        at_least = [limit or 0 for limit in plan.at_least]
        at_most = [EVER if limit is None else limit for limit in plan.at_most]
        starts, ends = zip(*triggers(plan.masks, plan.at_least, plan.at_most, plan.eager), strict=True)
        never_seen = (not plan.eager or limit != EVER for limit in at_most)
        self.settings = np.array(
            [EVER if plan.within is None else plan.within, 0, 0, _bits(never_seen), orders.pause], np.int64
        )
        steps = [np.zeros(symbols + 1, np.int64) for _ in range(5)]
        self.arrays = {
            **{name: array.reshape(-1) for name, array in orders.statistics.items()},
            "settings": self.settings, "masks": np.array(plan.masks, np.int64).reshape(-1),
            "at_least": np.array(at_least, np.int64), "at_most": np.array(at_most, np.int64),
            "triggers": np.array([0, -1, _bits(ends), _bits(starts)], np.int64), "items": np.zeros(KINDS, np.int64),
            **dict(zip(("top", "chosen", "range_count", "range_at", "slot_at"), steps, strict=True)),
            "ranges": np.zeros((symbols + 1) * 2 * ranges_of(symbols), np.int64), "bounds": np.zeros(8, np.int64),
        }  # fmt: skip
        self._found = np.empty((room, symbols + 1), np.int64)
        self._found_row = np.empty((room, 2), np.int64)

    def detect(self, feed: SituationFeed, soft_limit: int, most: int) -> tuple[int, np.ndarray, np.ndarray]:
        """Continue through the rows until all are done, there are soft_limit matches, or the plan should be made anew.

        Returns (status, matches int64[n, symbols + 1]: slots and which of them last as bits, rows int64[n, 2]: the last
        row of the instant at which each became certain, and its group). They are valid until the next call.
        """
        self.settings[names.SOFT_LIMIT], self.settings[names.MOST] = soft_limit, most
        arrays = {**self.arrays, **feed.arrays, "paths": self.orders.paths}
        found, rows = self._found, self._found_row
        feed.place[COUNT] = 0
        while True:
            arrays |= {"found": found.reshape(-1), "found_row": rows.reshape(-1)}
            status = self.code.run(arrays)
            if status != NO_ROOM:
                count = int(feed.place[COUNT])
                return status, found[:count], rows[:count]
            found, rows = (np.concatenate([array, np.empty_like(array)]) for array in (found, rows))


def shape_of(plan: SituationPlan, orders: Orders) -> SituationShape:
    return SituationShape(
        len(plan.symbols), plan.eager, any(plan.at_least), any(limit is not None for limit in plan.at_most),
        plan.within is not None, orders.adapts,
    )  # fmt: skip


def _bits(flags: Iterable[bool]) -> int:
    """Flags by number as bits of one number."""
    return sum(flag << number for number, flag in enumerate(flags))


def needs_beyond(plan: SituationPlan) -> Needs:
    """Needs of rows for which the truth of the conditions of symbols is known."""
    known = {symbol: replace(condition, row_local=()) for symbol, condition in plan.conditions.items()}
    return needs_of(replace(plan, conditions=known))


class SituationFeed:
    """One feed: the arrays of the code for its rows (described in `code.arrays`), and what the code makes of them.

    By slot: starts, ends, first, last. By group and symbol: lo, hi, open_slot (-1: none lasts), open_seen. place: how
    far the code is. opened: the row of a symbol's `lasting` table for each group (-1: none). held_base: where the
    finished situations of a symbol begin among all held ones.
    """

    def __init__(
        self,
        events: EventBatch,
        read: Mapping[str, np.ndarray],
        base: np.ndarray,
        opened: np.ndarray,
        held_base: np.ndarray,
        accumulators: Accumulators,
    ) -> None:
        """read: what the code reads. base: the first slot of each symbol's buffer, and the end of all."""
        self.events, self.opened, self.held_base, self.accumulators = events, opened, held_base, accumulators
        self.until_row = read["until_row"]
        self.starts, self.ends, self.first, self.last = (np.zeros(int(base[-1]), np.int64) for _ in range(4))
        self.lo, self.hi, self.open_slot = (np.zeros(opened.shape, np.int64) for _ in range(3))
        self.open_seen = np.zeros(opened.shape, np.bool_)
        self.place = np.zeros(PLACES, np.int64)
        written = {
            "starts": self.starts, "ends": self.ends, "first": self.first, "last": self.last, "group_lo": self.lo,
            "group_hi": self.hi, "open_slot": self.open_slot, "open_seen": self.open_seen.view(np.uint8),
            "place": self.place, "lo": base[:-1].copy(), "hi": base[:-1].copy(),
        }  # fmt: skip
        self.arrays = {name: array.reshape(-1) for name, array in {**read, **written}.items()}

    @property
    def last_row(self) -> int:
        """The last row of the last instant that was looked at."""
        return int(self.place[ROW]) - 1

    @property
    def keys(self) -> np.ndarray:
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
        began_before = self.first[slot] < 0
        begin = self.events.bounds[of_group]
        first = np.where(began_before, begin, self.first[slot])
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
    plan: SituationPlan, needs: Needs, symbols: Sequence[Symbol], events: EventBatch, until: int
) -> SituationFeed:
    """The rows, what was known before them, and room for all situations that they can have."""
    count = len(symbols)
    prepared = prepare(plan, needs, events.table, events.key, events.known)
    bits = prepared.bits & np.uint64((1 << count) - 1)
    from_ = events.bounds
    keys = events.key[from_[:-1]]
    before, opened, held_base = _known_before(symbols, keys)
    room = count_starts(bits, from_, count) + (before["held_to"] - before["held_from"]).sum(axis=1)
    room += (opened >= 0).sum(axis=0) + 1
    base = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
    until_row = complete_rows(from_, events.time, until)
    rows = {"from_": from_, "until_row": until_row, "time": events.time, "bits": bits}
    return SituationFeed(events, rows | before, base, opened, held_base, Accumulators(events.table, prepared))


def complete_rows(from_: np.ndarray, time: np.ndarray, until: int) -> np.ndarray:
    """For each group, the row after its last complete instant: a last instant later than `until` may grow."""
    stop = from_[1:].copy()
    last = time[stop - 1]
    grows = np.flatnonzero(last > until)
    if len(grows):
        stop[grows] = first_rows(from_[grows], stop[grows], time, last[grows])
    return stop


def _known_before(symbols: Sequence[Symbol], keys: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Held and open situations of the groups with these keys, as the code reads them; the rows of the open ones; and
    where held ones begin."""
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
    before = {
        "open_before": ((opened >= 0) * bit).sum(axis=1), "seen_before": (open_seen * bit).sum(axis=1),
        "open_start": open_start, "held_from": held_from, "held_to": held_to,
        "held_start": np.concatenate([integers(symbol.finished.table, START) for symbol in symbols]),
        "held_end": np.concatenate([symbol.finished.time for symbol in symbols]),
    }  # fmt: skip
    return before, opened, held_base
