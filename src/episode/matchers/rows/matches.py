"""Matches of a partition, and tables of output columns made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, PathLabels, output_tables
from episode.matchers.prepare import Prepared
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.arrays import SearchPartitions, WorkArrays
from episode.matchers.rows.open_rows import OpenRows
from episode.matchers.rows.state import FeedPartitions
from episode.matchers.state import ranges
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo

if TYPE_CHECKING:
    from episode.matchers.rows.spec import RowPatternSpec


@dataclass(frozen=True)
class RowMatch:
    """Rows from start on, and the instruction that took each of them; none: an empty match."""

    start: int
    instructions: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.instructions)


@dataclass(frozen=True)
class PartitionMatches:
    """The matches of a partition in order of start, then of length.

    start, length: of each; path_from, path: the instructions of match i are path[path_from[i]:path_from[i] + length].
    """

    start: np.ndarray
    length: np.ndarray
    path_from: np.ndarray
    path: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def match(self, number: int) -> RowMatch:
        begin, end = int(self.path_from[number]), int(self.path_from[number] + self.length[number])
        return RowMatch(int(self.start[number]), tuple(self.path[begin:end].tolist()))

    def beginning_at(self, row: int) -> list[RowMatch]:
        """The matches with a start, the shortest first."""
        begin, end = np.searchsorted(self.start, [row, row + 1])
        return [self.match(number) for number in range(int(begin), int(end))]

    def before(self, row: int) -> int:
        """The number of matches that begin before a row."""
        return int(np.searchsorted(self.start, row))

    def ending_at(self, row: int) -> RowMatch | None:
        """The first match that ends at a row."""
        found = np.flatnonzero((self.start + self.length - 1 == row) & (self.length > 0))
        return self.match(int(found[0])) if len(found) else None


def matches_of(spec: RowPatternSpec, events: EventBatch, mode: MatchMode | None = None) -> PartitionMatches:
    """All matches of events of one key. mode: instead of the query's own."""
    plan = replace(spec.plan, output=replace(spec.plan.output, rows=RowMode.ONE_ROW, timed_out=False))
    if mode is not None:
        plan = replace(plan, settings=replace(plan.settings, mode=mode))
    nothing = np.zeros(0, np.int64)
    starts, lengths, froms, path = [nothing], [nothing], [nothing], np.zeros(0, np.int32)
    for found in replace(spec, plan=plan).open().find_paths(events):
        starts.append(found.start.copy())
        lengths.append(found.length.copy())
        froms.append(found.path_from[: len(found.start)] + len(path))
        path = np.concatenate([path, found.path])
    start, length, path_from = (np.concatenate(parts) for parts in (starts, lengths, froms))
    order = np.lexsort((length, start))
    return PartitionMatches(start[order], length[order], path_from[order], path)


@dataclass(frozen=True)
class TriedStarts:
    """The start rows that the search tried. longest: the longest match of each, whatever the mode reports."""

    plan: RowPatternPlan
    longest: PartitionMatches

    def skipped_by(self, row: int) -> RowMatch | None:
        """The match because of which a row was not tried."""
        at = self.longest.before(row) - 1
        if at < 0:
            return None
        match = self.longest.match(at)
        return match if row < self._next_start(match) else None

    def _next_start(self, match: RowMatch) -> int:
        """The start row that follows a match."""
        settings = self.plan.settings
        if match.length == 0 or settings.skip_to is SkipTo.NEXT_ROW:
            return match.start + 1
        if settings.skip_to is SkipTo.PAST_LAST_ROW:
            return match.start + match.length
        members = self.plan.labels.members(settings.skip_label)
        instructions = self.plan.program.instructions
        places = [
            place for place, at in enumerate(match.instructions) if members is None or instructions[at].label in members
        ]
        return match.start + (places[0] if settings.skip_to is SkipTo.FIRST_LABEL else places[-1])


def find_tried_starts(spec: RowPatternSpec, events: EventBatch, made: PartitionMatches) -> TriedStarts:
    """Find the start rows that the search tried.

    made: the matches that the query reports. INCREMENTAL MATCH does not report all matches that the search skipped
    past.
    """
    if spec.plan.settings.mode is MatchMode.INCREMENTAL and spec.plan.settings.skip_to is not SkipTo.NEXT_ROW:
        made = matches_of(spec, events, MatchMode.MAXIMAL)
    return TriedStarts(spec.plan, made)


class RowOutput:
    """Makes the tables of a matcher's matches."""

    def __init__(self, plan: RowPatternPlan, label_of: np.ndarray, schema: pa.Schema) -> None:
        self.plan = plan
        self.schema = schema
        excluded = np.array([instruction.excluded for instruction in plan.program.instructions], np.bool_)
        self.path = PathLabels(label_of, excluded)
        self.keyed = False

    def tables(
        self, events: EventBatch, prepared: Prepared, work: WorkArrays, here: FeedPartitions
    ) -> Iterator[pa.Table]:
        """Yield matches in the rows of a feed as output rows, in tables of bounded size."""
        matches, _ = self.select_emitted(*self._in_order(work, here.now), events.time)
        if self.keyed:
            matches = replace(matches, key=events.key[matches.part_lo])
        yield from output_tables(self.plan, self.schema, self.path, events.table, prepared, matches)

    def tables_of_arena(self, held: OpenRows, work: WorkArrays, partitions: SearchPartitions) -> Iterator[pa.Table]:
        """Yield matches in the rows of an arena, of which only the rows that the matches may read are taken."""
        matches, part = self.select_emitted(*self._in_order(work, partitions), held.arena.time)
        if len(part) == 0:
            return
        lo, hi = partitions.lo, partitions.hi
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
        prepared = arena.layout.as_prepared(ints, floats, valid, arena.bits[rows])
        here = replace(
            matches,
            start=matches.start + (first - begin)[part],
            part_lo=first[part],
            part_hi=(first + counts)[part],
            key=events.key[first[part]] if self.keyed else None,
        )
        yield from output_tables(self.plan, self.schema, self.path, events.table, prepared, here)

    def select_emitted(self, matches: MatchRows, part: np.ndarray, time: np.ndarray) -> tuple[MatchRows, np.ndarray]:
        """Select the matches to emit, with their partitions; time: of all rows."""
        return matches, part

    def _in_order(self, work: WorkArrays, partitions: SearchPartitions) -> tuple[MatchRows, np.ndarray]:
        """By partition, and there by start row; INCREMENTAL MATCH: by number, which is the order of end rows."""
        kind, start, length, number, path_from, path = work.matches()
        lo, hi = partitions.lo, partitions.hi
        order = np.argsort(lo, kind="stable")
        part = order[np.searchsorted(lo[order], start, side="right") - 1]
        if self.plan.settings.mode is MatchMode.INCREMENTAL:
            by_number = np.lexsort((number, part))
            kind, start, length, number, path_from, part = (
                array[by_number] for array in (kind, start, length, number, path_from, part)
            )
        return MatchRows(kind, start, length, number, path_from, path, lo[part], hi[part]), part
