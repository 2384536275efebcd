"""State of a situation pattern: finished situations of the last window, those that last, and pending events.

An instant is complete when a later one has come, or the watermark; until then its events are pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.columns import empty_table, from_bytes, int64_values, one_chunk, one_chunk_each, take
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk, StateLimit
from episode.matchers.situations.values import state_fields, symbol_of
from episode.matchers.state import HeldRows, RowChunks, by_name, chunk_of, least_by_key, ranges
from episode.matchers.times import EVER, NEVER
from episode.plan.situations.plan import SituationPlan

if TYPE_CHECKING:
    from episode.matchers.situations.prepare import SituationFeed


def data_error(plan: SituationPlan, message: str, hint: str) -> EpisodeDataError:
    """An error in the data of a pattern, which names the place of the pattern."""
    return plan.source.error(EpisodeDataError, message, plan.source.pattern, hint)


# What is known of the situations of one symbol between two feeds.

START, SEEN, KEY = "__start", "__seen", "__key"


class Symbol:
    """The situations of one symbol, with the state of their aggregates. At first there are none.

    number: of the symbol in the plan. atoms: what is asked of its situations, and the name of the output column.
    fields: the state columns of the atoms.
    finished: rows sorted by key and start; `time` is the end, the table has the start and the state columns.
    lasting: a row for each key whose situation lasts, sorted by key: start, was it visible, and state columns.
    """

    def __init__(self, plan: SituationPlan, number: int, schema: pa.Schema) -> None:
        """schema: of the events."""
        symbol = plan.symbols[number]
        self.number = number
        self.atoms = tuple((atom, name) for atom, name in plan.measures.atoms.items() if symbol_of(atom) == symbol)
        self.fields = tuple(one for atom, name in self.atoms for one in state_fields(atom, name, schema))
        start = pa.field(START, pa.int64())
        nothing, finished = np.zeros(0, np.int64), empty_table(pa.schema([start, *self.fields]))
        self.finished = EventBatch(finished, nothing, nothing)
        lasting = [pa.field(KEY, pa.int64()), start, pa.field(SEEN, pa.bool_()), *self.fields]
        self.lasting = empty_table(pa.schema(lasting))
        self.kept = RowChunks(f"finished.{number}.")

    @property
    def lasting_key(self) -> np.ndarray:
        return integers(self.lasting, KEY)

    def keep_finished(self, rows: np.ndarray) -> None:
        old = self.finished
        self.kept.select(rows)
        self.finished = EventBatch(take(old.table, rows), old.key[rows], old.time[rows])


def integers(table: pa.Table, name: str) -> np.ndarray:
    return int64_values(one_chunk(table.column(name))).copy()


_STATE = "situations"
_PENDING = -1


class SituationState:
    """The situations and pending events of one shard."""

    def __init__(
        self, plan: SituationPlan, schema: pa.Schema, columns: Sequence[str], limit: StateLimit | None
    ) -> None:
        self.plan = plan
        self.schema = schema
        self.limit = limit
        self.given_up = 0
        self.pending = HeldRows(columns)
        self.symbols = self._nothing()

    def _nothing(self) -> list[Symbol]:
        return [Symbol(self.plan, number, self.schema) for number in range(len(self.plan.symbols))]

    def __len__(self) -> int:
        return sum(len(one.finished) + one.lasting.num_rows for one in self.symbols) + len(self.pending)

    @property
    def live_keys(self) -> np.ndarray:
        known = [one.finished.key for one in self.symbols] + [one.lasting_key for one in self.symbols]
        return np.unique(np.concatenate([*known, self.pending.key]))

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """The least start of a situation, or time of an event, that is held for each key."""
        pending = self.pending.rows
        key, start = [self.pending.key], [np.zeros(0, np.int64) if pending is None else pending.time]
        for symbol in self.symbols:
            key += [symbol.finished.key, symbol.lasting_key]
            start += [integers(symbol.finished.table, START), integers(symbol.lasting, START)]
        return least_by_key(np.concatenate(key), np.concatenate(start))

    def hold(self, feed: SituationFeed, until: int) -> None:
        """Keep what a later match can have."""
        if until == END_OF_TIME:
            self.symbols = self._nothing()
            self.pending.forget()
            return
        for symbol in self.symbols:
            _hold_finished(feed, symbol)
        self._leave_window(until)
        for symbol in self.symbols:
            _hold_lasting(feed, symbol)
        unseen = feed.until_row
        self.pending.keep(feed.events, ranges(unseen, feed.events.bounds[1:] - unseen))
        self._keep_limit()

    def _leave_window(self, until: int) -> None:
        """Whatever comes is later than `until`: what began a window before it is done with, of all keys."""
        window = EVER if self.plan.within is None else self.plan.within
        if window == EVER or until < NEVER + window:
            return
        for symbol in self.symbols:
            keep = integers(symbol.finished.table, START) >= until - window
            if not keep.all():
                symbol.keep_finished(np.flatnonzero(keep))

    def _keep_limit(self) -> None:
        """Raise an error for a key that holds more than it may, or give up its finished situations."""
        if self.limit is None:
            return
        over, counts = self.limit.keys_beyond(np.concatenate([one.finished.key for one in self.symbols]))
        if len(over) == 0:
            return
        if not self.limit.give_up:
            raise data_error(
                self.plan,
                f"A partition holds {counts.max():,} situations of its window; max_state_rows is {self.limit.rows:,}.",
                "Shorten WITHIN, raise max_state_rows, or give such situations up: when_full='drop'.",
            )
        self.given_up += len(over)
        for symbol in self.symbols:
            symbol.keep_finished(np.flatnonzero(~np.isin(symbol.finished.key, over)))

    def forget_keys(self, keys: np.ndarray) -> None:
        """Hold nothing more of these keys."""
        for symbol in self.symbols:
            symbol.keep_finished(np.flatnonzero(~np.isin(symbol.finished.key, keys)))
            symbol.lasting = take(symbol.lasting, np.flatnonzero(~np.isin(symbol.lasting_key, keys)))
        self.pending.forget_keys(keys)

    def snapshot(self) -> Snapshot:
        put: list[StateChunk] = []
        removed: list[str] = []
        counts: dict[str, list[int]] = {"symbol": [], "key": [], "held": []}
        for symbol in self.symbols:
            new, gone = symbol.kept.changes(symbol.finished)
            put += [*new, chunk_of(f"lasting.{symbol.number}", symbol.lasting)]
            removed += gone
            _add_counts(counts, symbol.number, symbol.finished.key)
        new, gone = self.pending.changes()
        _add_counts(counts, _PENDING, self.pending.key)
        held = pa.table({name: pa.array(values, pa.int64()) for name, values in counts.items()})
        return Snapshot((*put, *new, chunk_of(_STATE, held)), (*removed, *gone))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name(chunks)
        if _STATE not in known:
            return
        counts = from_bytes(known[_STATE].data)
        which, keys, held = (integers(counts, name) for name in ("symbol", "key", "held"))
        for symbol in self.symbols:
            mine = which == symbol.number
            finished = symbol.kept.restore(chunks, keys[mine], held[mine])
            if finished is not None:
                symbol.finished = finished
            symbol.lasting = one_chunk_each(from_bytes(known[f"lasting.{symbol.number}"].data))
        mine = which == _PENDING
        self.pending.restore(chunks, keys[mine], held[mine])


def _hold_finished(feed: SituationFeed, symbol: Symbol) -> None:
    """The finished situations of the keys of a feed in place of those that were held."""
    keys = feed.keys
    lo, hi = feed.lo[:, symbol.number], feed.hi[:, symbol.number]
    slots = ranges(lo, hi - lo)
    group = np.repeat(np.arange(len(keys)), hi - lo)
    columns, index = feed.values(symbol, slots, feed.last[slots], group)
    old = symbol.finished
    others = np.flatnonzero(~np.isin(old.key, keys))
    key = np.concatenate([old.key[others], keys[group]])
    order = np.argsort(key, kind="stable")
    index = np.concatenate([others, index])[order]
    start = np.concatenate([integers(old.table, START)[others], feed.starts[slots]])[order]
    end = np.concatenate([old.time[others], feed.ends[slots]])[order]
    table = pa.table([pa.array(start), *(column.take(pa.array(index)) for column in columns)], schema=old.table.schema)
    room = int(index.max()) + 1 - len(old) if len(index) else 0
    symbol.kept.extend(max(0, room))
    symbol.kept.select(index)
    symbol.finished = EventBatch(table, key[order], end)


def _hold_lasting(feed: SituationFeed, symbol: Symbol) -> None:
    """The situations that last at the end of a feed, each with its aggregates so far."""
    keys = feed.keys
    slots = feed.open_slot[:, symbol.number]
    which = np.flatnonzero(slots >= 0)
    as_of = feed.until_row[which] - 1
    as_of = np.where(as_of < feed.events.bounds[which], -1, as_of)
    columns, index = feed.values(symbol, slots[which], as_of, which)
    new = pa.table(
        [
            pa.array(keys[which]),
            pa.array(feed.starts[slots[which]]),
            pa.array(feed.open_seen[which, symbol.number]),
            *(column.take(pa.array(index)) for column in columns),
        ],
        schema=symbol.lasting.schema,
    )
    others = ~np.isin(symbol.lasting_key, keys)
    table = pa.concat_tables([take(symbol.lasting, np.flatnonzero(others)), new])
    symbol.lasting = one_chunk_each(take(table, np.argsort(integers(table, KEY), kind="stable")))


def _add_counts(counts: dict[str, list[int]], number: int, key: np.ndarray) -> None:
    keys, held = np.unique(key, return_counts=True)
    counts["symbol"] += [number] * len(keys)
    counts["key"] += keys.tolist()
    counts["held"] += held.tolist()
