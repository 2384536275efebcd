"""Reading an archive by commits: events that have left the log, for readers that come late."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa

from episode.store import parquet
from episode.store.archive import Archive
from episode.store.manifest import ArchivedFile, Manifest


def cuts_of(files: Sequence[ArchivedFile], archived_to: int) -> list[int]:
    """Commits after which no file goes on that has begun before: where reading may stop without reading files twice."""
    cuts = []
    reached = 0
    for file in sorted(files, key=lambda file: file.first):
        if reached and file.first > reached:
            cuts.append(reached)
        reached = max(reached, file.last)
    return [cut for cut in cuts if cut < archived_to] + [archived_to]


def advance(manifest: Manifest, after: int, rows: int) -> int:
    """How far a reader at a position goes on in the archive if it takes about this many rows."""
    position, taken = after, 0
    for cut in cuts_of(manifest.files, manifest.archived_to):
        if cut <= after:
            continue
        taken += sum(file.rows for file in manifest.files if position < file.last <= cut)
        if taken > rows and position > after:
            break
        position = cut
    return position


def commits(
    archive: Archive,
    manifest: Manifest,
    after: int,
    until: int,
    lanes: Collection[int] | None,
    columns: Sequence[str],
) -> Iterator[tuple[int, list[pa.RecordBatch]]]:
    """The events of some commits, piece by piece: up to which commit, and its batches in order of commits.

    Within a commit they are in order of key, time and arrival.
    """
    from episode.matchers.columns import take
    from episode.matchers.lanes import event_times, lanes_of

    declaration = archive.declaration
    wanted = list(dict.fromkeys([*columns, *(declaration.key if lanes is not None else ())]))
    begin = after
    for cut in cuts_of(manifest.files, manifest.archived_to):
        end = min(cut, until)
        if end <= begin:
            continue
        files = [file for file in manifest.files if file.last > begin and file.first <= end]
        parts = [archive.read(file, wanted, begin, end) for file in files]
        begin = end
        table = pa.concat_tables(parts) if parts else pa.table({})
        if lanes is not None and table.num_rows:
            kept = np.isin(lanes_of(table, declaration.key, declaration.lanes), list(lanes))
            table = table.filter(pa.array(kept))
        if table.num_rows:
            order = np.argsort(event_times(table, parquet.COMMIT), kind="stable")
            yield end, take(table, order).select(list(columns)).to_batches()
        else:
            yield end, []
