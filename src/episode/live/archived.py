"""What a live task reads of commits that have left the log: from the archive, whose events know their commits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.lanes import event_times, lanes_of
from episode.matchers.live import NO_WATERMARK
from episode.store import archive_reading, parquet
from episode.store.archive import MissingFile
from episode.store.manifest import ArchivedFile, Manifest
from episode.store.stream import ATTEMPTS, StreamStore

MOST_ROWS = 1 << 20
"""Events that are read at once, about, where commits are small enough."""


@dataclass(frozen=True)
class Page:
    """Events of some commits: up to which one, the greatest event time up to there, the rows of the lanes that were
    asked for, and for each of them the greatest time (int64) of all commits before its own."""

    to: int
    greatest: int | None
    table: pa.Table
    before: np.ndarray


def greatest_at(store: StreamStore, position: int) -> int | None:
    """The greatest event time of the commits up to a position whose segment has left the log; None: of none."""
    for attempt in range(ATTEMPTS):
        manifest = store.archived.manifest()
        try:
            times = [time for file in manifest.files if (time := _greatest(store, file, position)) is not None]
            return max(times, default=None)
        except MissingFile:
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError


def _greatest(store: StreamStore, file: ArchivedFile, position: int) -> int | None:
    if file.last <= position:
        return file.greatest
    if file.first > position:
        return None
    time = store.declaration.time
    times = event_times(store.archived.read(file, [time], 0, position), time)
    return int(times.max()) if len(times) else None


def read_page(
    store: StreamStore,
    after: int,
    until: int,
    greatest: int | None,
    lanes: Collection[int],
    columns: Sequence[str],
) -> Page:
    """The first commits after a position that is before the log. greatest: the greatest event time up to there."""
    for attempt in range(ATTEMPTS):
        manifest = store.archived.manifest()
        if manifest.archived_to <= after:  # those before the log have expired
            nothing = store.selected(columns).empty_table()
            return Page(min(until, store.first_after(after) - 1), greatest, nothing, np.empty(0, np.int64))
        end = _end(manifest, after, store.before_log(manifest, after, until))
        try:
            return _page(store, manifest, after, end, greatest, lanes, columns)
        except MissingFile:  # replaced between two looks, by a store that keeps nothing for readers
            if attempt + 1 == ATTEMPTS:
                raise
    raise AssertionError


def _end(manifest: Manifest, after: int, until: int) -> int:
    """Where to stop, so that about MOST_ROWS are read."""
    cut = next(cut for cut in archive_reading.cuts_of(manifest.files, manifest.archived_to) if cut > after)
    until = min(cut, until)
    rows = sum(
        file.rows * (min(file.last, until) - max(file.first, after + 1) + 1) // (file.last - file.first + 1)
        for file in manifest.files
        if file.last > after and file.first <= until
    )
    return until if rows <= MOST_ROWS else after + max(1, (until - after) * MOST_ROWS // rows)


def _page(
    store: StreamStore,
    manifest: Manifest,
    after: int,
    until: int,
    greatest: int | None,
    lanes: Collection[int],
    columns: Sequence[str],
) -> Page:
    declaration = store.declaration
    names = store.selected(columns).names
    wanted = list(dict.fromkeys([*names, declaration.time, *declaration.key]))
    files = [file for file in manifest.files if file.last > after and file.first <= until]
    parts = [store.archived.read(file, wanted, after, until) for file in files]
    table = pa.concat_tables(parts) if parts else store.schema.empty_table()
    if not table.num_rows:
        return Page(until, greatest, table.select(names), np.empty(0, np.int64))
    commits = event_times(table, parquet.COMMIT)
    order = np.argsort(commits, kind="stable")
    starts = np.flatnonzero(np.diff(commits[order], prepend=-1))
    peaks = np.maximum.reduceat(event_times(table, declaration.time)[order], starts)
    before = np.empty(len(peaks) + 1, np.int64)
    before[0] = NO_WATERMARK if greatest is None else greatest
    np.maximum(np.maximum.accumulate(peaks), before[0], out=before[1:])
    lengths = np.diff(np.append(starts, len(order)))
    of_row = np.repeat(before[:-1], lengths)
    kept = np.isin(lanes_of(table, declaration.key, declaration.lanes), list(lanes))[order]
    return Page(until, int(before[-1]), table.select(names).take(pa.array(order[kept])), of_row[kept])
