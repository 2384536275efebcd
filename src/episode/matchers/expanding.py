"""Rows that come partition by partition, matched as they come: nothing is shuffled, sorted by key or held for long.

The first row of every partition has position 0 in PARTITION_COLUMN: so partitions are told apart. For the matcher the
number of the partition takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.running import LocalRun
from episode.plan.tables import PARTITION_COLUMN

ROWS_AT_ONCE = 1 << 16


def match_partitions(spec: MatcherSpec, tables: Iterable[pa.Table], rows: int = ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """The matches of partitions whose rows follow one another. rows: of partitions that are matched together."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(len(one) for one in waiting) < rows:
            continue
        joined = pa.concat_tables(waiting)
        last = int(np.flatnonzero(_positions(joined) == 0)[-1])  # the last partition may go on
        waiting = [joined.slice(last)]
        if last > 0:
            yield from _matched(spec, joined.slice(0, last))
    if waiting:
        yield from _matched(spec, pa.concat_tables(waiting))


def _positions(table: pa.Table) -> np.ndarray:
    return table.column(PARTITION_COLUMN).to_numpy()


def _matched(spec: MatcherSpec, table: pa.Table) -> Iterator[pa.Table]:
    if len(table) == 0:
        return
    at = table.column_names.index(PARTITION_COLUMN)
    numbers = np.cumsum(_positions(table) == 0)
    table = table.set_column(at, table.schema.field(at), pa.array(numbers, table.schema.field(at).type))
    running = LocalRun(spec)
    yield from running.matcher.feed(running.events(table), END_OF_TIME)
    yield from running.matcher.finish()
