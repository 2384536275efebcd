"""Run one shard through a matcher, in as much memory as it may have.

1. A shard within its budget is ordered in memory and fed at once.
2. A larger one is spilled and split by key; its parts run one after the other.
3. A part that cannot be split (one giant key, or no keys at all) is fed piece by piece in order of time: the matcher
   holds only what a later match can still need. Without ORDER BY the order of arrival is the order. Only where the
   first order column has no lasting image (strings, decimals of more than 18 digits) must all rows of it be in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from episode.matchers.columns import concat
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, has_lasting_image, times_of
from episode.matchers.protocol import MatcherSpec
from episode.matchers.running import matches_of
from episode.matchers.spill import SortedRun, Spool, cuts_of, drained, gathered, rechunk, split_by_key

DEFAULT_BUDGET = 256 * 2**20
"""Bytes of events that a shard may hold at once; while they are ordered a worker takes about four times as many."""

_FANOUT = 16
_SPLITS = 3
_CHUNKS = 4
_BEFORE_ALL = -1
_OUTPUT_ROWS = 1 << 16


def run_shard(
    spec: MatcherSpec,
    tables: Iterable[pa.Table],
    budget_bytes: int = DEFAULT_BUDGET,
    *,
    spill_directory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The matches in the rows of one shard, whose tables come in order of arrival."""
    source = iter(tables)
    held, whole = gathered(source, budget_bytes)
    if whole:
        yield from _run_whole(spec, held)
        return
    with tempfile.TemporaryDirectory(prefix="episode-", dir=spill_directory) as directory:
        yield from _run_large(spec, drained(held, source), budget_bytes, Path(directory), salt=1)


def _run_whole(spec: MatcherSpec, tables: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Order all rows in memory and feed them."""
    table = concat(tables) if tables else None
    if table is None or table.num_rows == 0:
        return
    tables.clear()
    for matches in matches_of(spec, table):
        yield from _batches(matches, spec.output_schema)


def _run_large(
    spec: MatcherSpec, tables: Iterable[pa.Table], budget: int, directory: Path, salt: int
) -> Iterator[pa.RecordBatch]:
    """Split rows by key until the parts fit, and run them one by one."""
    if not spec.input_order.keys or salt > _SPLITS:
        yield from _run_in_pieces(spec, tables, budget, directory)
        return
    spools = split_by_key(tables, spec.input_order.keys, _FANOUT, salt, directory, budget // _CHUNKS)
    for spool in spools:
        yield from _run_spool(spec, spool, budget, directory, salt)
        spool.delete()


def _run_spool(spec: MatcherSpec, spool: Spool, budget: int, directory: Path, salt: int) -> Iterator[pa.RecordBatch]:
    if spool.bytes <= budget:
        yield from _run_whole(spec, list(spool.tables()))
    elif spool.has_one_key:
        yield from _run_in_pieces(spec, spool.tables(), budget, directory)
    else:
        yield from _run_large(spec, spool.tables(), budget, directory, salt + 1)


def _run_in_pieces(
    spec: MatcherSpec, tables: Iterable[pa.Table], budget: int, directory: Path
) -> Iterator[pa.RecordBatch]:
    """Feed rows that belong together in order of time, about a chunk at once."""
    chunks = rechunk(tables, budget // _CHUNKS)
    order = spec.input_order.order
    if not order:
        yield from _feed_all(spec, ((chunk, _BEFORE_ALL) for chunk in chunks))
        return
    first = next(chunks, None)
    if first is None:
        return
    chunks = drained([first], chunks)
    if not has_lasting_image(first.schema.field(order[0].column).type):
        yield from _run_whole(spec, list(chunks))
        return
    yield from _feed_all(spec, _merged(spec, chunks, first.num_rows, directory))


def _merged(
    spec: MatcherSpec, chunks: Iterator[pa.Table], chunk_rows: int, directory: Path
) -> Iterator[tuple[pa.Table, int]]:
    """Sorted runs of the chunks, merged: tables with the time up to which they complete the input."""
    with tempfile.TemporaryDirectory(prefix="runs-", dir=directory) as place:
        runs = [
            SortedRun(chunk, times_of(chunk, spec.input_order), Path(place) / f"run-{i}")
            for i, chunk in enumerate(chunks)
        ]
        for cut in cuts_of(runs, chunk_rows):
            yield pa.concat_tables([run.until(int(cut)) for run in runs]), int(cut)


def _feed_all(spec: MatcherSpec, pieces: Iterable[tuple[pa.Table, int]]) -> Iterator[pa.RecordBatch]:
    matcher = spec.open()
    coder = KeyCoder(spec.input_order.keys)
    for table, until in pieces:
        if table.num_rows:
            events = events_of(table, spec.input_order, coder)
            for matches in matcher.feed(events, until):
                yield from _batches(matches, spec.output_schema)
    for matches in matcher.finish():
        yield from _batches(matches, spec.output_schema)


def _batches(matches: pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Matches as record batches of the promised schema."""
    if matches.num_rows:
        if matches.schema != schema:
            matches = matches.cast(schema)
        yield from matches.to_batches(max_chunksize=_OUTPUT_ROWS)
