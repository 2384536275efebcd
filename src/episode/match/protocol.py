"""The keystone: one Matcher protocol, run by every runtime (batch, stream, in process).

A Matcher lives for one shard (a set of partition keys). It is fed column batches in order and hands back
finished matches. Its laws (tests/property): chunk invariance, shard invariance, oracle equality, bounded state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

END_OF_TIME = np.iinfo(np.int64).max
"""`until` of a feed after which no event can come before the end of input."""


@dataclass(frozen=True)
class OrderKey:
    """One ORDER BY column of the input table."""

    column: str
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True)
class InputOrder:
    """How the rows of a shard are grouped and ordered.

    keys: partition columns (null is a value of its own; none: one partition holds everything).
    order: ORDER BY columns; after them, and without any, rows keep their order of arrival.
    needs_time: the first order column is an event time that a query measures: it must not be null.
    """

    keys: tuple[str, ...]
    order: tuple[OrderKey, ...]
    needs_time: bool = False


@dataclass(frozen=True)
class EventBatch:
    """Events of one feed: rows contiguous by key, each key's rows in order.

    table: the columns the query reads, one chunk each; row i belongs to key[i].
    key: int64 key codes, equal for equal keys, the same for a key in every feed of a matcher's life.
    time: int64 order-preserving image of the first order column. Timestamps and dates are microseconds
        (dates at midnight), integers are themselves; zero where there is no order column.
    Within a key, the rows of a feed come after all rows of earlier feeds.
    """

    table: pa.Table
    key: np.ndarray
    time: np.ndarray

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True)
class StateChunk:
    """A piece of a snapshot: a name, a format version, Arrow IPC bytes."""

    name: str
    version: int
    data: bytes


@runtime_checkable
class Matcher(Protocol):
    """One engine at work on one shard."""

    def feed(self, events: EventBatch, until: int) -> pa.Table:
        """Take new events; all events with time <= until are in. Returns the matches that are now certain."""
        ...

    def finish(self) -> pa.Table:
        """The input has ended: returns all remaining matches."""
        ...

    def snapshot(self) -> Sequence[StateChunk]:
        """The state, columnar and versioned."""
        ...

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        """Continue from a snapshot, in a matcher newly opened from the same spec."""
        ...


class MatcherSpec(Protocol):
    """A planned query: picklable, shipped to the workers, where it opens matchers."""

    @property
    def input_order(self) -> InputOrder: ...

    @property
    def input_columns(self) -> tuple[str, ...]: ...

    @property
    def output_schema(self) -> pa.Schema: ...

    def open(self) -> Matcher:
        """A new matcher with empty state."""
        ...
