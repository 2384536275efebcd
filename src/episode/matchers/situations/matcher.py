"""The situation pattern Matcher: situations derived and related on one shard, in batch and in a stream.

State: the finished situations that a match to come may hold (those of the last window) with their aggregates so far,
each symbol's in chunks of its own; the situations that last; and the events of an instant that may not be complete yet.
No event of a situation is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.kernels.situations import matching as kernel
from episode.kernels.situations.search import EVER, NEVER
from episode.matchers.columns import from_bytes, one_chunk_each, take, to_bytes
from episode.matchers.held import STATE_VERSION, KeptRows, check_version, ranges, with_held
from episode.matchers.prepare import Needs, needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.situations.adapt import Orders
from episode.matchers.situations.values import Accumulators, Asked, result, state_fields, symbol_of
from episode.plan.measures import OutputAtom, PlaceExists
from episode.plan.situations.cost import triggers
from episode.plan.situations.returns import DETECTED_AT, MatchMoment, SituationMoment
from episode.plan.types import is_integer

if TYPE_CHECKING:
    from episode.matchers.situations.spec import SituationPatternSpec

SOFT_LIMIT = 1 << 17
"""Matches after which a round ends."""
MOST_AT_ONCE = 1 << 25
"""Matches of one instant."""
DAY = 86_400_000_000
_STATE = "situations"
_START, _SEEN, _KEY = "__start", "__seen", "__key"


@dataclass
class _Symbol:
    """What is known of one symbol between feeds.

    finished: rows sorted by key and start; `time` is the end, the table has the start and the state columns of atoms.
    lasting: a row for each key whose situation lasts, sorted by key: start, was it visible, and state columns.
    """

    atoms: tuple[tuple[OutputAtom, str], ...]
    fields: tuple[pa.Field, ...]
    finished: EventBatch
    lasting: pa.Table
    kept: KeptRows

    @property
    def lasting_key(self) -> np.ndarray:
        return _integers(self.lasting, _KEY)


@dataclass(frozen=True)
class _Feed:
    """One feed in the kernel's terms.

    opened: the row of a symbol's `lasting` table for each group (-1: none). held_base: where a symbol's finished
    situations begin among all held ones.
    """

    events: EventBatch
    from_: np.ndarray
    rows: kernel.Rows
    buffers: kernel.Buffers
    groups: kernel.Groups
    place: kernel.Place
    before: kernel.Before
    opened: np.ndarray
    held_base: np.ndarray
    accumulators: Accumulators


class SituationPatternMatcher:
    """One situation pattern at work on one shard."""

    def __init__(self, spec: SituationPatternSpec) -> None:
        self.spec = spec
        self.plan = plan = spec.plan
        self.orders = Orders(plan, spec.forced)
        self.given_up = 0
        self._needs: Needs = needs_of(plan)
        self._schema = spec.output_schema
        self._pending: EventBatch | None = None
        self._kept_pending = KeptRows()
        starts, ends = zip(*triggers(plan.masks, plan.at_least, plan.at_most, plan.eager), strict=True)
        self._pattern = kernel.Pattern(
            np.array(plan.masks, np.int64),
            np.array([limit or 0 for limit in plan.at_least], np.int64),
            np.array([EVER if limit is None else limit for limit in plan.at_most], np.int64),
            EVER if plan.within is None else plan.within,
            plan.eager,
            np.array(starts, np.bool_),
            np.array(ends, np.bool_),
        )
        self._symbols = [self._nothing_of(symbol) for symbol in plan.symbols]
        self._found = np.empty((SOFT_LIMIT, len(plan.symbols) + 1), np.int64)
        self._found_row = np.empty((SOFT_LIMIT, 2), np.int64)

    def _nothing_of(self, symbol: str) -> _Symbol:
        atoms = tuple((atom, name) for atom, name in self.plan.measures.atoms.items() if symbol_of(atom) == symbol)
        fields = tuple(one for atom, name in atoms for one in state_fields(atom, name, self.spec.input_schema))
        finished = pa.schema([pa.field(_START, pa.int64()), *fields]).empty_table()
        lasting = [pa.field(_KEY, pa.int64()), pa.field(_START, pa.int64()), pa.field(_SEEN, pa.bool_()), *fields]
        nothing = np.zeros(0, np.int64)
        kept = KeptRows(f"finished.{self.plan.symbols.index(symbol)}.")
        return _Symbol(atoms, fields, EventBatch(finished, nothing, nothing), pa.schema(lasting).empty_table(), kept)

    # ---- protocol ------------------------------------------------------------------------------------------------

    def feed(self, events: EventBatch, until: int) -> pa.Table:
        tables = list(self.feed_in_rounds(events, until))
        return pa.concat_tables(tables) if tables else self._schema.empty_table()

    def feed_in_rounds(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        """As `feed`, matches coming as they are found."""
        together = with_held(self._pending, events, self._kept_pending, self.spec.input_columns)
        if len(together) == 0:
            return
        feed = self._prepared(together, until)
        yield from self._matches(feed)
        self._hold(feed, until)

    def finish(self) -> pa.Table:
        nothing = np.zeros(0, np.int64)
        empty = EventBatch(self.spec.input_schema.empty_table().select(list(self.spec.input_columns)), nothing, nothing)
        return self.feed(empty, END_OF_TIME)

    def snapshot(self) -> Snapshot:
        put: list[StateChunk] = []
        removed: list[str] = []
        counts: dict[str, list[int]] = {"symbol": [], "key": [], "held": []}
        for number, symbol in enumerate(self._symbols):
            new, gone = symbol.kept.changes(symbol.finished)
            put += new
            removed += gone
            put.append(StateChunk(f"lasting.{number}", STATE_VERSION, to_bytes(symbol.lasting)))
            _add_counts(counts, number, symbol.finished.key)
        new, gone = self._kept_pending.changes(self._pending)
        _add_counts(counts, -1, self._pending.key if self._pending is not None else np.zeros(0, np.int64))
        held = pa.table({name: pa.array(values, pa.int64()) for name, values in counts.items()})
        put += [*new, StateChunk(_STATE, STATE_VERSION, to_bytes(held))]
        return Snapshot(tuple(put), (*removed, *gone))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        by_name = {chunk.name: chunk for chunk in chunks}
        for chunk in chunks:
            check_version(chunk)
        if _STATE not in by_name:
            return
        counts = from_bytes(by_name[_STATE].data)
        which = _integers(counts, "symbol")

        def held_of(number: int, kept: KeptRows) -> EventBatch | None:
            mine = which == number
            return kept.restore(chunks, _integers(counts, "key")[mine], _integers(counts, "held")[mine])

        for number, symbol in enumerate(self._symbols):
            finished = held_of(number, symbol.kept)
            if finished is not None:
                symbol.finished = finished
            symbol.lasting = one_chunk_each(from_bytes(by_name[f"lasting.{number}"].data))
        self._pending = held_of(-1, self._kept_pending)

    def report(self) -> str:
        return self.orders.report()

    @property
    def state_rows(self) -> int:
        held = sum(len(symbol.finished) + symbol.lasting.num_rows for symbol in self._symbols)
        return held + (0 if self._pending is None else len(self._pending))

    @property
    def live_keys(self) -> np.ndarray:
        keys = [symbol.finished.key for symbol in self._symbols] + [symbol.lasting_key for symbol in self._symbols]
        if self._pending is not None:
            keys.append(self._pending.key)
        return np.unique(np.concatenate(keys))

    @property
    def wakes_at(self) -> int | None:
        """When an instant that may still grow is over."""
        if self._pending is None or len(self._pending) == 0:
            return None
        return int(self._pending.time.min())

    # ---- one feed --------------------------------------------------------------------------------------------------

    def _prepared(self, events: EventBatch, until: int) -> _Feed:
        symbols = len(self._symbols)
        prepared = prepare(self.plan, self._needs, events.table, events.key)
        bits = prepared.bits & np.uint64((1 << symbols) - 1)
        from_ = events.bounds
        keys = events.key[from_[:-1]]
        groups = len(keys)
        open_start = np.full((groups, symbols), NEVER, np.int64)
        open_seen = np.zeros((groups, symbols), np.bool_)
        opened = np.full((groups, symbols), -1, np.int64)
        held_from, held_to = np.zeros((symbols, groups), np.int64), np.zeros((symbols, groups), np.int64)
        held_base = np.zeros(symbols, np.int64)
        total = 0
        for number, symbol in enumerate(self._symbols):
            held_base[number] = total
            held_from[number] = np.searchsorted(symbol.finished.key, keys, side="left") + total
            held_to[number] = np.searchsorted(symbol.finished.key, keys, side="right") + total
            total += len(symbol.finished)
            lasting = symbol.lasting_key
            if len(lasting):
                at = np.minimum(np.searchsorted(lasting, keys), len(lasting) - 1)
                known = lasting[at] == keys
                opened[known, number] = at[known]
                open_start[known, number] = _integers(symbol.lasting, _START)[at[known]]
                open_seen[known, number] = np.asarray(symbol.lasting.column(_SEEN))[at[known]]
        room = kernel.count_starts(bits, from_, symbols) + (held_to - held_from).sum(axis=1)
        room += (opened >= 0).sum(axis=0) + 1
        base = np.concatenate([[0], np.cumsum(room)]).astype(np.int64)
        size = int(base[-1])
        buffers = kernel.Buffers(*(np.zeros(size, np.int64) for _ in range(4)))
        complete = kernel.complete_rows(from_, events.time, until)
        before = kernel.Before(
            open_start,
            open_seen,
            held_from,
            held_to,
            np.concatenate([_integers(symbol.finished.table, _START) for symbol in self._symbols]),
            np.concatenate([symbol.finished.time for symbol in self._symbols]),
        )
        place = kernel.Place(np.zeros(4, np.int64), base[:-1].copy(), base[:-1].copy(), np.zeros(symbols, np.bool_))
        ends = kernel.Groups(
            np.zeros((groups, symbols), np.int64),
            np.zeros((groups, symbols), np.int64),
            np.full((groups, symbols), -1, np.int64),
            np.zeros((groups, symbols), np.bool_),
        )
        accumulators = Accumulators(events.table, prepared, self.spec.input_schema)
        rows = kernel.Rows(from_, complete, events.time, bits)
        return _Feed(events, from_, rows, buffers, ends, place, before, opened, held_base, accumulators)

    def _matches(self, feed: _Feed) -> Iterator[pa.Table]:
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        count = 0
        while True:
            status, found, rows = kernel.detect(
                self._pattern, self.orders.orders, feed.rows, feed.before, feed.buffers, feed.place, feed.groups,
                self.orders.statistics, self._found, self._found_row, SOFT_LIMIT - count, MOST_AT_ONCE,
            )  # fmt: skip
            if status == kernel.TOO_MANY:
                raise self._explosion(feed.events, int(feed.place.at[1]))
            if status == kernel.REPLAN:
                self.orders.make_anew()
            if len(found):
                parts.append((found.copy(), rows.copy()))
                count += len(found)
            if count and (count >= SOFT_LIMIT or status == kernel.DONE):
                yield self._output(feed, np.concatenate([f for f, _ in parts]), np.concatenate([r for _, r in parts]))
                parts, count = [], 0
            if status == kernel.DONE:
                return

    # ---- values --------------------------------------------------------------------------------------------------

    def _values(
        self, feed: _Feed, number: int, slots: np.ndarray, as_of: np.ndarray, group: np.ndarray
    ) -> tuple[list[pa.Array], np.ndarray]:
        """State columns of a symbol's situations as of rows, and which of their rows is the one of each asked for.

        as_of: a row; -1: before this batch; -2 - i: the held situation i, as it is.
        """
        symbol = self._symbols[number]
        held = as_of <= -2
        held_rows = -2 - as_of - feed.held_base[number]
        code = np.where(held, -1, slots * (len(feed.events) + 1) + as_of + 1)
        unique, at = np.unique(code[~held], return_inverse=True)
        first_of = np.empty(len(unique), np.int64)
        which = np.flatnonzero(~held)
        first_of[at] = which
        slot, last, of_group = slots[first_of], as_of[first_of], group[first_of]
        began_before = feed.buffers.first[slot] < 0
        begin = feed.from_[of_group]
        first = np.where(began_before, begin, feed.buffers.first[slot])
        last = np.where(last < 0, begin - 1, last)
        opened = np.where(began_before, feed.opened[of_group, number], -1)
        asked = Asked(first, last, opened, symbol.lasting)
        columns: list[pa.Array] = []
        for atom, name in symbol.atoms:
            columns += feed.accumulators.columns(atom, name, asked)
        index = np.empty(len(slots), np.int64)
        index[held] = held_rows[held]
        index[~held] = at + len(symbol.finished)
        together = [
            pa.chunked_array([*symbol.finished.table.column(one.name).chunks, column.cast(one.type)], one.type)
            for one, column in zip(symbol.fields, columns, strict=True)
        ]
        return [column.combine_chunks() for column in together], index

    def _output(self, feed: _Feed, found: np.ndarray, rows: np.ndarray) -> pa.Table:
        symbols = self.plan.symbols
        row, group = rows[:, 0], rows[:, 1]
        lasts = found[:, -1]
        starts = {name: feed.buffers.start[found[:, number]] for number, name in enumerate(symbols)}
        values: dict[str, pa.Array] = {}
        for number, symbol in enumerate(self._symbols):
            if symbol.atoms:
                slots = found[:, number]
                lasting = lasts >> number & 1 == 1
                as_of = np.where(lasting, row, feed.buffers.last[slots])
                columns, index = self._values(feed, number, slots, as_of, group)
                at = 0
                for atom, name in symbol.atoms:
                    width = len(state_fields(atom, name, self.spec.input_schema))
                    taken = [column.take(pa.array(index)) for column in columns[at : at + width]]
                    values[name] = result(atom, taken, self._schema.field(name).type)
                    at += width
        arrays = []
        for atom, name in self.plan.measures.atoms.items():
            kind = self._schema.field(name).type
            if isinstance(atom, SituationMoment):
                number = symbols.index(atom.symbol)
                missing = lasts >> number & 1 == 1 if atom.end else None
                times = feed.buffers.end[found[:, number]] if atom.end else starts[atom.symbol]
                arrays.append(self._times(times, missing, kind))
            elif isinstance(atom, MatchMoment):
                moment = feed.events.time[row] if atom.name == DETECTED_AT else np.min(list(starts.values()), axis=0)
                arrays.append(self._times(moment, None, kind))
            elif isinstance(atom, PlaceExists):
                arrays.append(pa.array(np.ones(len(found), np.bool_)))
            else:
                arrays.append(values[name])
        cast = [
            array if array.type == one.type else array.cast(one.type)
            for array, one in zip(arrays, self._schema, strict=True)
        ]
        return pa.Table.from_arrays(cast, schema=self._schema)

    def _times(self, times: np.ndarray, missing: np.ndarray | None, kind: pa.DataType) -> pa.Array:
        """Images of event times as values of the time column's type."""
        if pa.types.is_date32(kind):
            return pa.array((times // DAY).astype(np.int32), mask=missing).cast(pa.int32()).view(kind)
        array = pa.array(times, mask=missing)
        return array.cast(kind) if is_integer(self.plan.time_type) else array.view(kind)

    # ---- state -----------------------------------------------------------------------------------------------------

    def _hold(self, feed: _Feed, until: int) -> None:
        """Keep what a later match can hold."""
        if until == END_OF_TIME:
            self._forget()
            return
        groups = len(feed.from_) - 1
        keys = feed.events.key[feed.from_[:-1]]
        for number, symbol in enumerate(self._symbols):
            self._hold_finished(feed, number, symbol, keys)
        self._leave_window(until)
        for number, symbol in enumerate(self._symbols):
            slots = feed.groups.open_slot[:, number]
            which = np.flatnonzero(slots >= 0)
            as_of = feed.rows.until_row[which] - 1
            as_of = np.where(as_of < feed.from_[which], -1, as_of)
            columns, index = self._values(feed, number, slots[which], as_of, which)
            new = pa.table(
                [
                    pa.array(keys[which]),
                    pa.array(feed.buffers.start[slots[which]]),
                    pa.array(feed.groups.open_seen[which, number]),
                    *(column.take(pa.array(index)) for column in columns),
                ],
                schema=symbol.lasting.schema,
            )
            others = ~np.isin(symbol.lasting_key, keys)
            table = pa.concat_tables([take(symbol.lasting, np.flatnonzero(others)), new])
            symbol.lasting = one_chunk_each(take(table, np.argsort(_integers(table, _KEY), kind="stable")))
        pending = ranges(feed.rows.until_row, feed.from_[1:] - feed.rows.until_row)
        self._kept_pending.select(pending)
        table = take(feed.events.table.select(list(self.spec.input_columns)), pending)
        self._pending = EventBatch(table, feed.events.key[pending], feed.events.time[pending]) if groups else None
        self._keep_limit()

    def _hold_finished(self, feed: _Feed, number: int, symbol: _Symbol, keys: np.ndarray) -> None:
        lo, hi = feed.groups.lo[:, number], feed.groups.hi[:, number]
        slots = ranges(lo, hi - lo)
        group = np.repeat(np.arange(len(keys)), hi - lo)
        columns, index = self._values(feed, number, slots, feed.buffers.last[slots], group)
        old = symbol.finished
        others = np.flatnonzero(~np.isin(old.key, keys))
        key = np.concatenate([old.key[others], keys[group]])
        order = np.argsort(key, kind="stable")
        index = np.concatenate([others, index])[order]
        start = np.concatenate([_integers(old.table, _START)[others], feed.buffers.start[slots]])[order]
        end = np.concatenate([old.time[others], feed.buffers.end[slots]])[order]
        table = pa.table(
            [pa.array(start), *(column.take(pa.array(index)) for column in columns)], schema=old.table.schema
        )
        room = int(index.max()) + 1 - len(old) if len(index) else 0
        symbol.kept.extend(max(0, room))
        symbol.kept.select(index)
        symbol.finished = EventBatch(table, key[order], end)

    def _leave_window(self, until: int) -> None:
        """Whatever comes is later than `until`: what began a window before it is done with, of all keys."""
        window = self._pattern.window
        if window == EVER or until < NEVER + window:
            return
        for symbol in self._symbols:
            keep = _integers(symbol.finished.table, _START) >= until - window
            if not keep.all():
                self._keep_finished(symbol, np.flatnonzero(keep))

    def _keep_finished(self, symbol: _Symbol, rows: np.ndarray) -> None:
        old = symbol.finished
        symbol.kept.select(rows)
        symbol.finished = EventBatch(take(old.table, rows), old.key[rows], old.time[rows])

    def _forget(self) -> None:
        self._symbols = [self._nothing_of(symbol) for symbol in self.plan.symbols]
        self._pending = None
        self._kept_pending = KeptRows()

    def _keep_limit(self) -> None:
        """Where a key holds more than it may: an error, or its finished situations are given up."""
        limit = self.spec.limit
        if limit is None:
            return
        over, counts = limit.keys_beyond(np.concatenate([one.finished.key for one in self._symbols]))
        if len(over) == 0:
            return
        if not limit.give_up:
            raise self._error(
                f"A partition holds {int(counts.max()):,} situations of its window; max_state_rows is {limit.rows:,}.",
                "Shorten WITHIN, raise max_state_rows, or give such situations up: when_full='drop'.",
            )
        self.given_up += len(over)
        for symbol in self._symbols:
            self._keep_finished(symbol, np.flatnonzero(~np.isin(symbol.finished.key, over)))

    # ---- errors ----------------------------------------------------------------------------------------------------

    def _explosion(self, events: EventBatch, row: int) -> EpisodeDataError:
        names = dict.fromkeys([*self.plan.keys, self.plan.time])
        return self._error(
            f"{events.values_at(row, names)} completes more than {MOST_AT_ONCE:,} matches at once.",
            "Shorten WITHIN, or narrow the pattern: `before` and `after` pair all situations of a window.",
        )

    def _error(self, message: str, hint: str) -> EpisodeDataError:
        span = self.plan.query.pattern_span
        return EpisodeDataError(
            message, source=self.plan.query.source, position=span.start, length=span.end - span.start, hint=hint
        )


def _add_counts(counts: dict[str, list[int]], number: int, key: np.ndarray) -> None:
    keys, held = np.unique(key, return_counts=True)
    counts["symbol"] += [number] * len(keys)
    counts["key"] += keys.tolist()
    counts["held"] += held.tolist()


def _integers(table: pa.Table, name: str) -> np.ndarray:
    return np.array(table.column(name), dtype=np.int64)
