"""Pairs of matches as tables of output columns, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import with_keys
from episode.matchers.columns import one_chunk, take_array
from episode.matchers.correlation.joining import BY_ARCHIVE, BY_LIVE, RecencyJoin, beginning
from episode.matchers.correlation.matches import SideMatches
from episode.matchers.times import EVER
from episode.native.running import compiled_for
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START

MOST_PAIRS = 1 << 18
"""Rows of one table."""

Pairs = tuple[np.ndarray, np.ndarray]
"""Live and archive matches, by their numbers, as many at one time as a table may have."""


class PairOutput:
    """Makes the tables of a matcher's pairs. start, end: the columns of the archive's and the live matches' times."""

    def __init__(self, schema: pa.Schema, start: str, end: str) -> None:
        self.schema = schema
        self.start, self.end = start, end
        self.keyed = False

    def table(self, live: SideMatches, archive: SideMatches, of_live: np.ndarray, of_archive: np.ndarray) -> pa.Table:
        """The pairs (of_live[i], of_archive[i])."""
        sides = {LIVE_PREFIX: (live.table, of_live), ARCHIVE_PREFIX: (archive.table, of_archive)}
        built: dict[tuple[str, str], pa.Array] = {}
        columns = []
        for field in self.schema:
            prefix, name = place = self._place(field.name)
            if place not in built:
                matches, rows = sides[prefix]
                built[place] = take_array(one_chunk(matches.column(name)), rows)
            column = built[place]
            columns.append(column if column.type == field.type else column.cast(field.type))
        table = pa.Table.from_arrays(columns, schema=self.schema)
        return with_keys(table, live.key[of_live]) if self.keyed else table

    def _place(self, name: str) -> tuple[str, str]:
        """Of which match a column of the output is, and of which of its columns."""
        if name == MATCH_START:
            return ARCHIVE_PREFIX, self.start
        if name == MATCH_END:
            return LIVE_PREFIX, self.end
        prefix = LIVE_PREFIX if name.startswith(LIVE_PREFIX) else ARCHIVE_PREFIX
        return prefix, name.removeprefix(prefix)


def pairs_by_live(live: SideMatches, archive: SideMatches, recency: int) -> Iterator[Pairs]:
    """The pairs of live matches, in order of key and end, with archive matches, in order of key and start."""
    yield from _pairs(BY_LIVE, live, archive, end=archive.end, recency=np.array([recency], np.int64))


def pairs_by_archive(live: SideMatches, archive: SideMatches, low: np.ndarray, high: np.ndarray) -> Iterator[Pairs]:
    """The same of archive matches with live matches that end in low <= end <= high, in order of archive matches."""
    yield from _pairs(BY_ARCHIVE, live, archive, low=low, high=high)


def _pairs(join: RecencyJoin, live: SideMatches, archive: SideMatches, **rest: np.ndarray) -> Iterator[Pairs]:
    if len(live) == 0 or len(archive) == 0:
        return
    code = compiled_for(RecencyJoin.program, join)
    arrays = rest | {
        "live_key": live.key, "live_start": live.start, "live_end": live.end, "key": archive.key,
        "start": archive.start, "place": beginning(),
    }  # fmt: skip
    while True:
        of_live, of_archive = np.empty(MOST_PAIRS, np.int64), np.empty(MOST_PAIRS, np.int64)
        arrays |= {"out_live": of_live, "out_archive": of_archive}
        count = code.run(arrays)
        if count:
            yield of_live[:count], of_archive[:count]
        if count < MOST_PAIRS:
            return


def ends_after(archive: SideMatches) -> np.ndarray:
    """The first end that a live match may have in a pair with each of the archive matches."""
    return np.where(archive.end == EVER, EVER, np.minimum(archive.end, EVER - 1) + 1)
