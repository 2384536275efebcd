"""The in-process runtime: tables of events fed to one matcher, whole or in pieces, without Spark.

All matches of a feed are in memory at once. `shard` runs inputs that may be larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from episode.matchers.columns import empty_table
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import event_batches, events_of
from episode.matchers.protocol import END_OF_TIME, EventBatch, Matcher, MatcherSpec, StateChunk, keeps_dictionaries
from episode.matchers.times import NEVER
from episode.plan.schema import PARTITION_COLUMN


class LocalRun:
    """One matcher at work in process, for all keys."""

    def __init__(self, spec: MatcherSpec) -> None:
        self.spec = spec
        self.matcher: Matcher = spec.open()
        self._coder = KeyCoder(spec.input_order.keys)
        self._state: dict[str, StateChunk] = {}

    def events(self, table: pa.Table) -> EventBatch:
        """Return the rows of a table (in order of arrival) by key, and in the query's order."""
        read = columns_read(self.spec, table)
        return events_of(read, self.spec.input_order, self._coder, keeps_dictionaries(self.spec))

    def feed(self, table: pa.Table, until: int = END_OF_TIME) -> pa.Table:
        """Return the matches that are certain with these rows; all rows with time <= until are in."""
        return self.concat(self.matcher.feed(self.events(table), until))

    def finish(self) -> pa.Table:
        """Return the remaining matches."""
        return self.concat(self.matcher.finish())

    def concat(self, tables: Iterable[pa.Table]) -> pa.Table:
        """Join tables of matches to one."""
        return pa.concat_tables([empty_table(self.spec.output_schema), *tables])

    def move(self) -> None:
        """Write the state and resume from it in a new matcher."""
        self.matcher.snapshot().apply(self._state)
        self.matcher = self.spec.open()
        self.matcher.restore(list(self._state.values()))


def matches_of(spec: MatcherSpec, table: pa.Table) -> Iterator[pa.Table]:
    """Yield all matches of the columns that a matcher reads (rows in order of arrival), some keys after the others."""
    coder = KeyCoder(spec.input_order.keys)
    for events in event_batches(table, spec.input_order, coder, keeps_dictionaries(spec)):
        matcher = spec.open()
        yield from matcher.feed(events, END_OF_TIME)
        yield from matcher.finish()


def columns_read(spec: MatcherSpec, table: pa.Table) -> pa.Table:
    """Return the columns that a matcher reads; one if it reads none, because a table without columns has no rows."""
    return table.select(list(spec.input_columns) or table.column_names[:1])


def run(
    spec: MatcherSpec,
    tables: pa.Table | Sequence[pa.Table],
    *,
    until: Sequence[int] | None = None,
    restore: bool = False,
) -> pa.Table:
    """Return all matches of a table, or of pieces of it that follow each other in time.

    until: for each piece, the time up to which the input is complete with it (else, that of its last row).
    restore: the state is written and read before every piece, as if each piece went to another process.
    """
    if isinstance(tables, pa.Table) and until is None:
        return pa.concat_tables([empty_table(spec.output_schema), *matches_of(spec, columns_read(spec, tables))])
    pieces = [tables] if isinstance(tables, pa.Table) else tables
    running = LocalRun(spec)
    outputs: list[pa.Table] = []
    for number, piece in enumerate(pieces):
        if restore:
            running.move()
        events = running.events(piece)
        complete = completed_by(events, number == len(pieces) - 1) if until is None else until[number]
        outputs += running.matcher.feed(events, complete)
    return running.concat([*outputs, *running.matcher.finish()])


def completed_by(events: EventBatch, last: bool) -> int:
    """Return the time up to which the input is complete after a piece; last: after all of it."""
    return END_OF_TIME if last else int(events.time.max(initial=NEVER))


# Rows that come partition by partition are matched as they come: nothing is shuffled, sorted by key or held for long.
# The first row of every partition has position 0 in PARTITION_COLUMN, which separates partitions; for the matcher the
# number of the partition replaces it.


ROWS_AT_ONCE = 1 << 16


def match_partitions(spec: MatcherSpec, tables: Iterable[pa.Table], rows: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """Yield the matches of partitions whose rows follow one another. rows: of partitions that are matched together."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(len(one) for one in waiting) < rows:
            continue
        joined = pa.concat_tables(waiting)
        last = int(np.flatnonzero(_positions(joined) == 0)[-1])  # the last partition may continue
        waiting = [joined.slice(last)]
        if last > 0:
            yield from _match_numbered(spec, joined.slice(0, last))
    if waiting:
        yield from _match_numbered(spec, pa.concat_tables(waiting))


def _positions(table: pa.Table) -> np.ndarray:
    return table.column(PARTITION_COLUMN).to_numpy()


def _match_numbered(spec: MatcherSpec, table: pa.Table) -> Iterator[pa.Table]:
    if len(table) == 0:
        return
    at = table.column_names.index(PARTITION_COLUMN)
    numbers = np.cumsum(_positions(table) == 0)
    table = table.set_column(at, table.schema.field(at), pa.array(numbers, table.schema.field(at).type))
    running = LocalRun(spec)
    yield from running.matcher.feed(running.events(table), END_OF_TIME)
    yield from running.matcher.finish()
