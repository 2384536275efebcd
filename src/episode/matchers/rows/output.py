"""From matches as the search found them to tables of output columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, PathLabels, output_tables
from episode.matchers.held import ranges
from episode.matchers.prepare import Prepared
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.open_rows import OpenRows
from episode.matchers.rows.state import Here
from episode.matchers.rows.work import WorkArrays
from episode.plan.rows.plan import MatchMode, RowPatternPlan


class RowOutput:
    """Makes the tables of a matcher's matches."""

    def __init__(self, plan: RowPatternPlan, label_of: np.ndarray, schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        excluded = np.array([instruction.excluded for instruction in plan.program.instructions], np.bool_)
        self.path = PathLabels(label_of, excluded)
        self.keyed = False

    def tables(self, events: EventBatch, prepared: Prepared, work: WorkArrays, here: Here) -> Iterator[pa.Table]:
        """What the search has found in the rows of a feed, as rows, in tables of bounded size."""
        matches, _ = self.wanted(*self._in_order(work, here.lo, here.hi), events.time)
        if self.keyed:
            matches = replace(matches, key=events.key[matches.part_lo])
        yield from output_tables(self.plan, self.schema, self.path, events.table, prepared, matches)

    def tables_of_arena(self, held: OpenRows, work: WorkArrays, lo: np.ndarray, hi: np.ndarray) -> Iterator[pa.Table]:
        """What the search has found in the rows of an arena: of these, only what the matches may read is looked at."""
        matches, part = self.wanted(*self._in_order(work, lo, hi), held.arena.time)
        if len(part) == 0:
            return
        begin, end = hi.copy(), lo.copy()
        np.minimum.at(begin, part, matches.start)
        np.maximum.at(end, part, matches.start + np.maximum(matches.length, 1))
        begin, end = np.maximum(begin - self.plan.lookback, lo), np.minimum(end + self.plan.lookahead, hi)
        counts = np.maximum(end - begin, 0)
        rows = ranges(begin, counts)
        first = np.cumsum(counts) - counts
        arena = held.arena
        events = held.events_at(rows)
        ints, floats, valid = (lane.take(rows, axis=1) for lane in (arena.ints, arena.floats, arena.valid))
        prepared = arena.layout.prepared(ints, floats, valid, arena.bits[rows])
        here = replace(
            matches,
            start=matches.start + (first - begin)[part],
            part_lo=first[part],
            part_hi=(first + counts)[part],
            key=events.key[first[part]] if self.keyed else None,
        )
        yield from output_tables(self.plan, self.schema, self.path, events.table, prepared, here)

    def wanted(self, matches: MatchRows, part: np.ndarray, time: np.ndarray) -> tuple[MatchRows, np.ndarray]:
        """Those of the matches that come out, with their partitions; time: of all rows."""
        return matches, part

    def _in_order(self, work: WorkArrays, lo: np.ndarray, hi: np.ndarray) -> tuple[MatchRows, np.ndarray]:
        """By partition, and there by start row; INCREMENTAL MATCH: by number, which is the order of end rows."""
        kind, start, length, number, path_from, path = work.matches()
        order = np.argsort(lo, kind="stable")
        part = order[np.searchsorted(lo[order], start, side="right") - 1]
        if self.plan.rules.mode is MatchMode.INCREMENTAL:
            by_number = np.lexsort((number, part))
            kind, start, length, number, path_from, part = (
                array[by_number] for array in (kind, start, length, number, path_from, part)
            )
        return MatchRows(kind, start, length, number, path_from, path, lo[part], hi[part]), part
