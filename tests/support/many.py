"""Many queries over many tables as one stream: a matcher that holds a matcher for each query.

One streaming query has the cost of one, whatever it holds; so all cases of the conformance suite can pass through the
real runtime in as many micro-batches as one of them would.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.protocol import END_OF_TIME, EventBatch, InputOrder, Matcher, OrderKey, Snapshot, StateChunk
from episode.matchers.rows.spec import RowPatternSpec

COLUMNS = ("query", "key", "time", "rank", "row")
NO_QUERY = -1


@dataclass(frozen=True)
class ManySpec:
    """Rows (number of a query, its partition key as text, event time, place among rows of the time, row as bytes).

    path: a file with the specs, by number: together they are more than Spark hands to the workers of a stream.
    """

    path: str
    input_schema: pa.Schema

    input_columns = COLUMNS
    input_order = InputOrder(("query", "key"), (OrderKey("time"), OrderKey("rank")))
    output_schema = pa.schema([("query", pa.int32()), ("matches", pa.binary())])

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256("".join(spec.fingerprint for spec in specs_in(self.path).values()).encode()).hexdigest()

    def open(self) -> ManyMatcher:
        return ManyMatcher(specs_in(self.path))


@cache
def specs_in(path: str) -> dict[int, RowPatternSpec]:
    return pickle.loads(Path(path).read_bytes())


@dataclass
class ManyMatcher:
    """The matchers of one shard, by query."""

    specs: dict[int, RowPatternSpec]
    matchers: dict[int, Matcher] = field(default_factory=dict)

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        queries = events.table.column("query").to_numpy()
        for query in np.unique(queries).tolist():
            self.matchers.setdefault(query, self.specs[query].open())
        for query, matcher in self.matchers.items():
            rows = np.flatnonzero(queries == query)
            wakes = matcher.wakes_at is not None and matcher.wakes_at <= until
            if len(rows) or wakes or until == END_OF_TIME:
                part = EventBatch(self._table(query, events, rows), events.key[rows], events.time[rows])
                yield from _labelled(query, matcher.feed(part, until))

    def _table(self, query: int, events: EventBatch, rows: np.ndarray) -> pa.Table:
        spec = self.specs[query]
        blobs = events.table.column("row").take(pa.array(rows)).to_pylist()
        nothing = spec.input_schema.empty_table().select(list(spec.input_columns))
        return pa.concat_tables([nothing, *(from_bytes(blob) for blob in blobs)]).combine_chunks()

    def finish(self) -> Iterator[pa.Table]:
        for query, matcher in self.matchers.items():
            yield from _labelled(query, matcher.finish())

    def snapshot(self) -> Snapshot:
        put, removed = [], []
        for query, matcher in self.matchers.items():
            changes = matcher.snapshot()
            put += [StateChunk(f"{query}/{chunk.name}", chunk.version, chunk.data) for chunk in changes.put]
            removed += [f"{query}/{name}" for name in changes.removed]
        return Snapshot(tuple(put), tuple(removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        for query in {int(chunk.name.partition("/")[0]) for chunk in chunks}:
            mine = [chunk for chunk in chunks if chunk.name.startswith(f"{query}/")]
            self.matchers[query] = self.specs[query].open()
            self.matchers[query].restore([StateChunk(c.name.partition("/")[2], c.version, c.data) for c in mine])

    @property
    def state_rows(self) -> int:
        return sum(matcher.state_rows for matcher in self.matchers.values())

    @property
    def given_up(self) -> int:
        return sum(matcher.given_up for matcher in self.matchers.values())

    @property
    def live_keys(self) -> np.ndarray:
        keys = [matcher.live_keys for matcher in self.matchers.values()]
        return np.unique(np.concatenate(keys)) if keys else np.zeros(0, np.int64)

    @property
    def wakes_at(self) -> int | None:
        times = [matcher.wakes_at for matcher in self.matchers.values() if matcher.wakes_at is not None]
        return min(times, default=None)


def _labelled(query: int, outputs: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The matches of a query in rows that say whose they are."""
    for table in outputs:
        if table.num_rows:
            yield pa.Table.from_pylist([{"query": query, "matches": to_bytes(table)}], ManySpec.output_schema)
