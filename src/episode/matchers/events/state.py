"""State of an event pattern: the events that a later match may have, and the time up to which matches are emitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes, take
from episode.matchers.events.errors import too_many_held
from episode.matchers.events.rounds import Horizon
from episode.matchers.ordering import start_image
from episode.matchers.prepare import Precomputed
from episode.matchers.protocol import END_OF_TIME, ChosenBatch, EventBatch, InputOrder, Snapshot, StateChunk, StateLimit
from episode.matchers.state import HeldRows, by_name, chunk_of, least_by_key
from episode.matchers.times import EVER, NEVER
from episode.plan.events.aggregated import AggregatedPlan
from episode.plan.events.plan import EventPlan, Strategy

_PARTITIONS = "partitions"
UNSETTLED = 0.25
"""Events added, by the held ones, before it is decided which of them are held."""


class HeldEvents:
    """The held events of one shard. done: matches decided up to this time have been emitted. given_up: keys that held
    more than the limit."""

    def __init__(self, plan: EventPlan | AggregatedPlan, columns: Sequence[str], limit: StateLimit | None) -> None:
        self.plan = plan
        self.limit = limit
        self.held = HeldRows(columns)
        self.done = NEVER
        self.given_up = 0
        self._saved: tuple[EventBatch | None, int] | None = None

    def __len__(self) -> int:
        return len(self.held)

    @property
    def live_keys(self) -> np.ndarray:
        return np.unique(self.held.key)

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        """The first of the events that are held."""
        held = self.held.rows
        return least_by_key(self.held.key, np.zeros(0, np.int64) if held is None else self.starts(held))

    def starts(self, events: EventBatch) -> np.ndarray:
        """The start of each event."""
        return events.time

    def keep(self, events: EventBatch, rows: np.ndarray) -> None:
        """Hold these rows of a batch and no others, as far as the limit allows."""
        self.held.keep(events, self._within_limit(events, rows))

    @property
    def _as_saved(self) -> tuple[EventBatch | None, int]:
        """The contents of a snapshot; if they have not changed, none is written."""
        return self.held.rows, self.done

    def _within_limit(self, events: EventBatch, rows: np.ndarray) -> np.ndarray:
        if self.limit is None or len(rows) == 0:
            return rows
        over, counts = self.limit.keys_beyond(events.key[rows])
        if len(over) == 0:
            return rows
        if not self.limit.give_up:
            first = int(rows[np.argmax(events.key[rows] == over[0])])
            raise too_many_held(self.plan, events, first, int(counts[0]), self.limit)
        self.given_up += len(over)
        return rows[~np.isin(events.key[rows], over)]

    def forget_keys(self, keys: np.ndarray) -> None:
        self.held.forget_keys(keys)

    def snapshot(self) -> Snapshot:
        if self._saved is not None and all(one is two for one, two in zip(self._saved, self._as_saved, strict=True)):
            return Snapshot()
        self._saved = self._as_saved
        keys, counts = np.unique(self.held.key, return_counts=True)
        partitions = pa.table({"key": keys, "held": counts.astype(np.int64)})
        partitions = partitions.replace_schema_metadata({"done": str(self.done)})
        put, removed = self.held.changes()
        return Snapshot((chunk_of(_PARTITIONS, partitions), *put), removed)

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = by_name(chunks)
        if _PARTITIONS not in known:
            return
        table = from_bytes(known[_PARTITIONS].data)
        self.done = int((table.schema.metadata or {})[b"done"])
        self.held.restore(chunks, table.column("key").to_numpy(), table.column("held").to_numpy())


class EventState(HeldEvents):
    """The events that a match to come may still have."""

    plan: EventPlan

    def __init__(
        self, plan: EventPlan, horizon: Horizon, order: InputOrder, columns: Sequence[str], limit: StateLimit | None
    ) -> None:  # fmt: skip
        super().__init__(plan, columns, limit)
        self.horizon = horizon
        self.order = order
        self._is_apart = False
        self._recent: list[EventBatch] = []

    @property
    def _as_saved(self) -> tuple[EventBatch | None, int]:
        """Without matches that wait for time to pass, no match was decided since the time of the same events: `done`
        does not count."""
        return self.held.rows, self.done if self.plan.waits else NEVER

    def starts(self, events: EventBatch) -> np.ndarray:
        starts = None if self.order.start is None else start_image(events.table, self.order)
        return events.time if starts is None else starts.values

    def __len__(self) -> int:
        """The held events, and those added last, some of which may not be needed."""
        return super().__len__() + sum(map(len, self._recent))

    def count_of(self, events: EventBatch) -> int:
        """The number of held events of the keys of these events."""
        self.settle()
        return int(np.count_nonzero(np.isin(self.held.key, events.key[events.bounds[:-1]])))

    def add(self, events: EventBatch, bits: np.ndarray, until: int) -> None:
        """Hold new events. It is decided later which of them a match can have: in `settle`."""
        rows = np.flatnonzero(bits)
        table = events.table.select(self.held.columns)
        table = table if len(rows) == len(events) else take(table, rows)
        self._recent.append(EventBatch(table, events.key[rows], events.time[rows], Precomputed(bits[rows])))
        self.done = until
        if len(self) > (1 + UNSETTLED) * len(self.held):
            self.settle()

    def settle(self) -> None:
        """Keep those of the events added that a later match can have."""
        if not self._recent:
            return
        recent, self._recent = self._recent, []
        table = pa.concat_tables([one.table for one in recent])
        key, time = np.concatenate([one.key for one in recent]), np.concatenate([one.time for one in recent])
        bits = np.concatenate([one.known.bits for one in recent if one.known is not None])
        order = np.argsort(key, kind="stable")
        together = self.held.join(EventBatch(take(table, order), key[order], time[order], Precomputed(bits[order])))
        assert together.known is not None
        self._is_apart = False
        self.hold(together, self.starts(together), together.known.bits, self.done)

    def forget(self) -> None:
        self._recent = []
        self.held.forget()

    def join(self, events: EventBatch, until: int, whole: bool) -> EventBatch:
        """The events of the keys for which something may be decided now, or of all keys; `hold` must follow, or,
        without events, `expire`."""
        self.settle()
        held = self.held.rows
        self._is_apart = (
            not (self.plan.waits or whole) and self.done > NEVER and held is not None and held.known is not None
        )
        if not self._is_apart:
            return self.held.join(events, until == END_OF_TIME)
        return self.held.join_active(events) if len(events) else events

    def hold(self, events: EventBatch, start: np.ndarray, bits: np.ndarray, until: int) -> None:
        """Keep the events that a later match can have. bits: the variables that events qualify for."""
        if until == END_OF_TIME:
            self.held.forget()
            return
        keep, bits = self._find_needed(events, start, bits, until)
        rows = self._within_limit(events, np.flatnonzero(keep))
        if self._is_apart:
            self.held.keep_active(rows, bits, self._others(until))
        else:
            self.held.keep(events, rows, bits)

    def expire(self, until: int) -> None:
        """Drop events that are too old, after a feed without events."""
        held = self.held.rows
        if not self._is_apart or held is None or self._in_time(held, until).all():
            return
        assert held.known is not None
        keep, bits = self._find_needed(held, self.starts(held), held.known.bits, until)
        self.held.keep(held, np.flatnonzero(keep), bits)

    def _find_needed(
        self, events: EventBatch, start: np.ndarray, bits: np.ndarray, until: int
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """bool: may a later match have an event? And the variables that it may be there."""
        keep = self._in_time(events, until)
        if self.plan.strategy in (Strategy.ANY, Strategy.NEXT):
            bits = self.horizon.bits_needed(events, start, bits, until)
            keep &= bits != 0
        return keep, bits

    def _in_time(self, events: EventBatch, until: int) -> np.ndarray:
        """bool: are events not too old for a later match?"""
        horizon = self.horizon
        if horizon.window < EVER and until > NEVER and until >= NEVER + horizon.back:  # at NEVER nothing is emitted yet
            return events.time > until - horizon.back
        return np.ones(len(events), np.bool_)

    def _others(self, until: int) -> np.ndarray:
        """Rows of keys without new events that a later match can have."""
        held, others = self.held.rows, self.held.others
        assert held is not None
        if len(others) == 0 or self._in_time(held, until)[others].all():
            return others
        assert held.known is not None
        rows = ChosenBatch(lambda: held.table, others, held.key[others], held.time[others], None)
        return others[self._find_needed(rows, self.starts(rows), held.known.bits[others], until)[0]]
