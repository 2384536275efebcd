"""What an event pattern remembers: the events that a match to come may still have, and up to when matches are out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from episode.kernels import chains
from episode.kernels.times import EVER, NEVER
from episode.matchers.columns import from_bytes
from episode.matchers.events.errors import too_many_held
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.rounds import Horizon
from episode.matchers.held import HeldRows, by_name, chunk_of
from episode.matchers.limits import StateLimit
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.plan.events.aggregated import AggregatedPlan
from episode.plan.events.plan import EventPlan, Strategy

_PARTITIONS = "partitions"


class HeldEvents:
    """The held events of one shard. done: what is decided up to this time has been handed out. given_up: keys that held
    more than they may."""

    def __init__(self, plan: EventPlan | AggregatedPlan, columns: Sequence[str], limit: StateLimit | None) -> None:
        self.plan = plan
        self.limit = limit
        self.held = HeldRows(columns)
        self.done = NEVER
        self.given_up = 0

    def keep(self, events: EventBatch, rows: np.ndarray) -> None:
        """Hold these rows of a batch and no others, as far as the limit allows."""
        self.held.keep(events, self._within_limit(events, rows))

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
        """Hold nothing more of these keys."""
        rows = self.held.rows
        if rows is not None and np.isin(rows.key, keys).any():
            self.held.keep(rows, np.flatnonzero(~np.isin(rows.key, keys)))

    def snapshot(self) -> Snapshot:
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

    def __init__(self, plan: EventPlan, horizon: Horizon, columns: Sequence[str], limit: StateLimit | None) -> None:
        super().__init__(plan, columns, limit)
        self.horizon = horizon

    def hold(self, events: EventBatch, start: np.ndarray, arrays: EventArrays, until: int) -> None:
        """Keep the events that a later match can have."""
        if until == END_OF_TIME:
            self.held.forget()
            return
        horizon = self.horizon
        keep = np.ones(len(events), np.bool_)
        if horizon.window < EVER and until > NEVER and until >= NEVER + horizon.back:  # at NEVER nothing is out yet
            keep = events.time > until - horizon.back
        if self.plan.strategy in (Strategy.ANY, Strategy.NEXT):
            bits = arrays.bits
            if horizon.any_match and len(horizon.chain) > 1:
                bits = np.empty_like(arrays.bits)
                chains.viable(
                    arrays.bits, horizon.chain, events.bounds, start, events.time, horizon.window, False, bits
                )  # fmt: skip
            keep &= bits != 0
        self.keep(events, np.flatnonzero(keep))
