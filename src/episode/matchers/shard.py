"""Run one shard through a matcher within a memory budget; larger inputs are spilled to local files.

1. A shard within its budget is ordered in memory and fed at once.
2. A larger one is spilled and split by key; its parts run one after the other.
3. A part that cannot be split (one giant key, or no keys at all) is fed piece by piece in order of time: the matcher
   holds only what a later match can still need. Without ORDER BY the order of arrival is the order. Only if the first
   order column has no lasting image (strings, decimals of more than 18 digits) must all rows of it be in memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from episode.matchers.columns import concat, key_hashes, one_chunk_each, plain, take
from episode.matchers.grouping import group, order_rows
from episode.matchers.hashing import shards_of
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, has_lasting_image, times_of
from episode.matchers.protocol import InputOrder, MatcherSpec
from episode.matchers.running import matches_of
from episode.matchers.times import EVER

# Rows that do not fit into memory: local Arrow IPC files, read back through memory maps.


class Spool:
    """A file of rows in the order they were appended; deleted by `delete` or with its directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self.bytes = 0
        self._hashes: set[int] = set()
        self._writer: pa.RecordBatchStreamWriter | None = None

    def append(self, table: pa.Table) -> None:
        """Write more rows."""
        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self.path), table.schema)
        self._writer.write_table(table)
        self.rows += table.num_rows
        self.bytes += table.nbytes

    def note_hashes(self, hashes: np.ndarray) -> None:
        """Remember whether all rows so far have one key hash."""
        if len(self._hashes) < 2:
            self._hashes |= {int(hashes.min()), int(hashes.max())}

    @property
    def has_one_key(self) -> bool:
        """Whether all rows have the same key hash, so that splitting by key cannot help."""
        return len(self._hashes) == 1

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows as mapped tables, one for each append."""
        if self._writer is None:
            return
        self._writer.close()
        with pa.memory_map(str(self.path)) as source, pa.ipc.open_stream(source) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])

    def read(self) -> pa.Table:
        """Return all rows as one mapped table."""
        return pa.concat_tables(self.tables())

    def delete(self) -> None:
        """Remove the file."""
        if self._writer is not None:
            self._writer.close()
        self.path.unlink(missing_ok=True)


def read_up_to(source: Iterator[pa.Table], most_bytes: int) -> tuple[list[pa.Table], bool]:
    """Read tables until they exceed `most_bytes`; return them and whether the source is exhausted."""
    held: list[pa.Table] = []
    size = 0
    for table in source:
        held.append(table)
        size += table.nbytes
        if size > most_bytes:
            return held, False
    return held, True


def drain(held: list[pa.Table], rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield held tables, releasing them one by one, then the rest; dictionaries, which differ by file, end here."""
    held.reverse()
    while held:
        yield plain(held.pop())
    for table in rest:
        yield plain(table)


def rechunk(tables: Iterable[pa.Table], chunk_bytes: int) -> Iterator[pa.Table]:
    """Yield the same rows in tables of at most about the given size, each column in one chunk."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        for piece in _pieces(table, chunk_bytes):
            if held and size + piece.nbytes > chunk_bytes:
                yield one_chunk_each(concat(held))
                held, size = [], 0
            held.append(piece)
            size += piece.nbytes
    if held:
        yield one_chunk_each(concat(held))


def _pieces(table: pa.Table, chunk_bytes: int) -> Iterator[pa.Table]:
    if table.nbytes <= chunk_bytes:
        if table.num_rows:
            yield table
        return
    rows = max(1, table.num_rows * chunk_bytes // table.nbytes)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def split_by_key(
    tables: Iterable[pa.Table], keys: tuple[str, ...], n: int, salt: int, directory: Path, chunk_bytes: int
) -> list[Spool]:
    """Spread rows over n spools by a hash of their key; rows keep their order within a spool."""
    spools = [Spool(directory / f"split-{salt}-{i}.arrow") for i in range(n)]
    for chunk in rechunk(tables, chunk_bytes):
        hashes = key_hashes(chunk, keys, salt)
        order, starts = group(shards_of(hashes, n), n)
        grouped, hashes = take(chunk, order), hashes.take(order)
        for i, spool in enumerate(spools):
            low, high = int(starts[i]), int(starts[i + 1])
            if low < high:
                spool.append(grouped.slice(low, high - low))
                spool.note_hashes(hashes[low:high])
    return spools


class SortedRun:
    """Rows in order of time, in a mapped file, with their times in another."""

    def __init__(self, table: pa.Table, times: np.ndarray, path: Path) -> None:
        image = np.ascontiguousarray(times)[np.newaxis, :]
        grouped = order_rows(np.zeros(len(times), np.int32), 1, image)
        if grouped is not None:
            table, times = take(table, grouped[0]), times.take(grouped[0])
        spool = Spool(path.with_suffix(".arrow"))
        spool.append(one_chunk_each(table))
        times.tofile(path.with_suffix(".times"))
        self.table = spool.read()
        self.times = np.memmap(path.with_suffix(".times"), np.int64, "r")
        self._at = 0

    def until(self, cut: int) -> pa.Table:
        """Return the next rows, whose time is at most `cut`."""
        start, self._at = self._at, int(np.searchsorted(self.times, cut, side="right"))
        return self.table.slice(start, self._at - start)

    def between(self, first: int, last: int) -> pa.Table:
        """Return the rows of times first <= time <= last."""
        begin, end = int(np.searchsorted(self.times, first, "left")), int(np.searchsorted(self.times, last, "right"))
        return self.table.slice(begin, max(0, end - begin))


def sorted_runs(chunks: Iterable[pa.Table], order: InputOrder, directory: Path) -> list[SortedRun]:
    """Return each of the chunks in order of time, in files of a directory."""
    return [SortedRun(chunk, times_of(chunk, order), directory / f"run-{i}") for i, chunk in enumerate(chunks)]


def cuts_of(runs: list[SortedRun], chunk_rows: int) -> np.ndarray:
    """Return ascending times that cut the runs into pieces of about chunk_rows; the last is the end of time."""
    stride = max(1, chunk_rows // (8 * max(1, len(runs))))
    samples = np.sort(np.concatenate([run.times[stride - 1 :: stride] for run in runs]))
    step = max(1, chunk_rows // stride)
    return np.append(np.unique(samples[step - 1 :: step]), EVER)


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
    """Yield the matches in the rows of one shard, whose tables come in order of arrival."""
    source = iter(tables)
    held, whole = read_up_to(source, budget_bytes)
    if whole:
        yield from _run_whole(spec, held)
        return
    with tempfile.TemporaryDirectory(prefix="episode-", dir=spill_directory) as directory:
        yield from _run_large(spec, drain(held, source), budget_bytes, Path(directory), salt=1)


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
        if spool.bytes <= budget:
            yield from _run_whole(spec, list(spool.tables()))
        elif spool.has_one_key:
            yield from _run_in_pieces(spec, spool.tables(), budget, directory)
        else:
            yield from _run_large(spec, spool.tables(), budget, directory, salt + 1)
        spool.delete()


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
    chunks = drain([first], chunks)
    if not has_lasting_image(first.schema.field(order[0].column).type):
        yield from _run_whole(spec, list(chunks))
        return
    with tempfile.TemporaryDirectory(prefix="runs-", dir=directory) as place:
        runs = sorted_runs(chunks, spec.input_order, Path(place))
        cuts = map(int, cuts_of(runs, first.num_rows))
        yield from _feed_all(spec, ((pa.concat_tables([run.until(cut) for run in runs]), cut) for cut in cuts))


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
    """Yield matches as record batches of the promised schema."""
    if matches.num_rows:
        if matches.schema != schema:
            matches = matches.cast(schema)
        yield from matches.to_batches(max_chunksize=_OUTPUT_ROWS)
