"""A sample of the keys and times of an input, before anything runs: which keys are large, and where their rows lie.

Of files and stream stores the driver reads a few pieces itself, without a job of Spark. Of any other input nothing is
known before it runs; only where slices are asked for, one job counts and samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from episode.errors import EpisodeDataError
from episode.matchers.columns import from_bytes, key_hashes, plain, to_bytes
from episode.matchers.ordering import order_image
from episode.matchers.protocol import InputOrder
from episode.matchers.slices.keys import Sketch
from episode.plan.schema import quote
from episode.spark import types as carry
from episode.spark.errors import raise_translation
from episode.spark.packing import on_rows
from episode.spark.scan.direct import GroupTimes, ParquetScan, Split, row_bytes, times_of_groups
from episode.spark.scan.storage import LOCAL
from episode.spark.stores.catalog import StoreScan
from episode.store.stream import FilePart, LogPart, Part, StreamStore, open_store

MOST_ROWS = 200_000
"""Rows of a sample, about."""

READ_WHOLE = 4_000_000
"""Up to this many rows, sampled pieces are read whole, and not only their first rows."""

_GROUPS, _REMOTE_GROUPS, _COMMITS = 64, 16, 16
_AT_ONCE = 8
_TASK_ROWS = 4_096
_PIECE_ROWS = 1 << 16
_WIDE = 0.5
_NOT_READ = (OSError, ValueError, pa.ArrowException, EpisodeDataError)

# ---- files -----------------------------------------------------------------------------------------------


def sketch_of_scan(scan: ParquetScan, order: InputOrder) -> Sketch | str:
    """A sample of row groups spread over all files; or the reason why it is impossible."""
    most = _GROUPS if scan.storage == LOCAL else _REMOTE_GROUPS
    splits = _spread(scan.splits, most)
    width = row_bytes(scan.schema)
    read = sum(split.bytes // width for split in splits)
    if not read:
        return "there are no rows"
    columns = scan.of_columns(_columns(order))
    whole = read <= READ_WHOLE
    sample = partial(_sample_of_split, columns, order, width, max(1, MOST_ROWS // len(splits)), whole, scan.rows / read)
    try:
        times = times_of_groups(columns, order.order[0], splits)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            parts = list(pool.map(sample, splits, times))
    except _NOT_READ as error:
        return f"a sample of the files cannot be read ({error})"
    rows = sum(len(part.times) for part in parts)
    return Sketch.merge(parts, f"{rows:,} rows of {len(splits):,} row groups were looked at")


def pieces_of_scan(scan: ParquetScan, names: list[str]) -> Iterator[pa.Table]:
    """Some columns of row groups on this machine's disks, spread over all files; each is read when it is asked for."""
    if scan.storage != LOCAL:
        return
    columns = scan.of_columns(names)
    rows = 0
    try:
        for split in _spread(scan.splits, _GROUPS):
            for table in columns.read((split,), _TASK_ROWS if not rows else _PIECE_ROWS):
                yield table
                rows += len(table)
                if rows >= READ_WHOLE:
                    return
    except _NOT_READ:
        return  # what cannot be read is an error when it is matched


def all_looked_at(scan: ParquetScan) -> bool:
    """Does `pieces_of_scan` read all rows?"""
    return len(scan.splits) <= _GROUPS and scan.rows <= READ_WHOLE


def _spread(pieces: tuple, most: int) -> tuple:
    """At most `most` of the pieces, evenly spread."""
    return tuple(pieces[int(place)] for place in np.linspace(0, len(pieces) - 1, min(most, len(pieces))))


def _columns(order: InputOrder) -> list[str]:
    return list(dict.fromkeys([*order.keys, order.order[0].column]))


def _sample_of_split(
    scan: ParquetScan,
    order: InputOrder,
    width: int,
    most: int,
    whole: bool,
    stands_for: float,
    split: Split,
    times: GroupTimes | None,
) -> Sketch:
    """Some rows of a row group. whole: all are read, and every n-th is taken; otherwise the first ones are, and their
    times are stretched over those of the row group."""
    rows = split.bytes // width
    if whole:
        tables = list(scan.read((split,)))
        found = pa.concat_tables([plain(table) for table in tables]) if tables else scan.schema.empty_table()
        step = max(1, rows // most)
        return _sketch(_every(found, step), order, step * stands_for)
    first = next(scan.read((split,), most), None)
    found = scan.schema.empty_table() if first is None else plain(first)
    sketch = _sketch(found, order, stands_for * rows / min(rows, most))
    if times is None or not len(sketch.times) or np.ptp(sketch.times) > _WIDE * (times.last - times.first):
        return sketch
    spread = np.linspace(times.first, times.last, len(sketch.times)).astype(np.int64)
    return Sketch(sketch.hashes, spread, sketch.weights, sketch.keys, sketch.words)


def _every(table: pa.Table, step: int, first: int = 0) -> pa.Table:
    """Each step-th row."""
    return table.take(pa.array(np.arange(first, len(table), step)))


def _sketch(table: pa.Table, order: InputOrder, weight: float) -> Sketch:
    """Rows of a sample, each of which stands for so many."""
    table = table.combine_chunks()
    hashes = key_hashes(table, order.keys) if order.keys else np.zeros(len(table), np.uint64)
    times = order_image(table, order.order[0]).time()
    return Sketch(hashes, times, np.full(len(table), float(weight)), table.select(list(order.keys)), "")


# ---- stream stores ---------------------------------------------------------------------------------------


def sketch_of_store(scan: StoreScan, schema: pa.Schema, order: InputOrder) -> Sketch | str:
    """A sample of files of the archive and of commits of the log; or the reason why it is impossible."""
    store = open_store(scan.declaration)
    snapshot = store.snapshot()
    names = {name: scan.columns[name] for name in _columns(order)}
    wanted = pa.schema([schema.field(name) for name in names])
    archived = sum(file.rows for file in snapshot.files)
    parts: list[Sketch] = []
    files = _spread(snapshot.files, max(1, len(snapshot.files) * READ_WHOLE // max(1, archived)))
    commits = _spread(tuple(range(snapshot.archived_to, snapshot.head)), _COMMITS)
    try:
        for pieces, rows in (
            ([FilePart(file) for file in files], archived),
            ([LogPart(commit, commit + 1) for commit in commits], max(0, store.count() - archived)),
        ):
            found = [_events(store, piece, names, wanted) for piece in pieces]
            read = sum(map(len, found))
            step = max(1, read // MOST_ROWS)
            for table in filter(len, found):
                parts.append(_sketch(_every(table, step), order, step * rows / read))
    except _NOT_READ as error:
        return f"a sample of the stream store cannot be read ({error})"
    if not parts:
        return "the stream store has no events"
    rows = sum(len(part.times) for part in parts)
    return Sketch.merge(parts, f"{rows:,} rows of {len(files) + len(commits):,} files and commits were looked at")


def _events(store: StreamStore, part: Part, names: dict[str, str], schema: pa.Schema) -> pa.Table:
    batches = store.read_part(part, list(dict.fromkeys(names.values())))
    tables = [carry.as_events(batch.select(list(names.values())), schema) for batch in batches]
    return plain(pa.concat_tables([schema.empty_table(), *tables]))


# ---- rows through Spark ------------------------------------------------------------------------------------


def sketch_of_rows(frame: DataFrame, schema: pa.Schema, order: InputOrder) -> Sketch:
    """A sample by one job of Spark over the columns of key and time: every task takes a few thousand rows."""
    names = _columns(order)
    wanted = pa.schema([schema.field(name) for name in names])
    selected = carry.encode(frame.select(*map(quote, names)))

    def sample(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
        rows, table = every_so_many(tables)
        yield pa.RecordBatch.from_pydict({"rows": [rows], "blob": [to_bytes(table or wanted.empty_table())]})

    with raise_translation():
        found = selected.mapInArrow(on_rows(sample, wanted), "rows long, blob binary").collect()
    tables = [(from_bytes(bytes(one.blob)), one.rows) for one in found]
    parts = [_sketch(table, order, rows / len(table)) for table, rows in tables if len(table)]
    parts = parts or [_sketch(wanted.empty_table(), order, 0.0)]
    rows = sum(rows for _, rows in tables)
    return Sketch.merge(parts, f"{rows:,} rows were counted, and some of them looked at, by a job of Spark")


def every_so_many(tables: Iterable[pa.Table], most: int = _TASK_ROWS) -> tuple[int, pa.Table | None]:
    """The number of rows, and some of them, evenly spread."""
    rows, step = 0, 1
    held: pa.Table | None = None
    for table in tables:
        chosen = _every(table, step, -rows % step)
        held = chosen if held is None else pa.concat_tables([held, chosen])
        rows += len(table)
        while len(held) > most:
            held = _every(held, 2)
            step *= 2
    return rows, held
