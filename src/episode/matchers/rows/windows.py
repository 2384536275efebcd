"""Row patterns in windows: every row of a shard is emitted, with the values of its match.

The search moves from row to row as for MATCH_RECOGNIZE, within the frames of the rows, and numbers each match by the
row it belongs to. A match may depend on all rows of its partition, so that rows are held until the input has ended: in
a batch, partitions that do not fit the memory come in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import MatchRows, OutputAssembler, output_ranges, with_keys
from episode.matchers.codes import EMPTY, MATCHED
from episode.matchers.columns import one_chunk
from episode.matchers.prepare import Prepared, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.rows.arrays import AT_PARTITION, OUTS, Frames, WorkArrays
from episode.matchers.rows.code.frames import ALL_ROWS
from episode.matchers.rows.matcher import RowPatternMatcher
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.slices.slicing import Slicing, Unsliced
from episode.matchers.stage_clock import StageClock
from episode.plan.rows.windows import WindowPlan


@dataclass(frozen=True)
class WindowSpec(RowPatternSpec):
    """A planned window with a row pattern over rows of a known Arrow schema."""

    plan: WindowPlan

    @property
    def slicing(self) -> Slicing | Unsliced:
        """See `Sliceable`."""
        return Unsliced("a row pattern in a window may depend on all rows of a frame")

    def open(self) -> WindowMatcher:
        return WindowMatcher(self)

    def open_analyzed(self, clock: StageClock) -> RowPatternMatcher:
        """See `Analyzes.open_analyzed`."""
        from episode.matchers.rows.analyze import AnalyzedWindowMatcher

        return AnalyzedWindowMatcher(self, clock)


class WindowMatcher(RowPatternMatcher):
    """One window with a row pattern at work on one shard."""

    plan: WindowPlan

    def __init__(self, spec: WindowSpec) -> None:
        super().__init__(spec)
        self.settings = self.settings._replace(with_unmatched=False)
        self.sieves = ()
        following = spec.plan.frame.following
        reach = ALL_ROWS if following is None else min(following + 1, ALL_ROWS - 1)
        self.frames = Frames(spec.plan.frame.seek, reach, spec.plan.lookback)

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        events = self.state.held.join(events)
        if until == END_OF_TIME:
            yield from self._all(events)
        else:
            self.state.hold(events, self.state.here(events))

    def finish(self) -> Iterator[pa.Table]:
        held = self.state.held.rows
        if held is not None and len(held):
            yield from self._all(held)

    def _all(self, events: EventBatch) -> Iterator[pa.Table]:
        here = self.state.here(events)
        prepared = prepare(self.plan, self.needs, events.table, events.key)
        done = 0
        for work in self._work(events, prepared, here, END_OF_TIME, True):
            finished = int(work.cursor[AT_PARTITION]) == len(here.at)
            outs = int(work.cursor[OUTS])
            end = len(events) if finished else int(work.found.number[outs - 1]) + 1
            yield from self._tables(events, prepared, work, done, end)
            done = end
        self.state.forget()

    def _tables(
        self, events: EventBatch, prepared: Prepared, work: WorkArrays, begin: int, end: int
    ) -> Iterator[pa.Table]:
        """Yield the rows from `begin` to before `end`, with their matches."""
        matches, out_match, out_position = self._matches_of(events, work, begin, end)
        for at, stop in output_ranges(self.plan, matches, out_match, out_position):
            assembler = OutputAssembler(
                self.plan, self.output.schema, self.output.path, events.table, prepared, matches, out_match[at:stop],
                out_position[at:stop],
            )  # fmt: skip
            columns = [
                one_chunk(events.table.column(name)).slice(begin + at, stop - at) for name in self.plan.output.columns
            ]
            found = assembler.table_with(columns, out_match[at:stop] < len(matches.kind) - 1)
            yield with_keys(found, events.key[begin + at : begin + stop]) if self.keyed else found

    def _matches_of(
        self, events: EventBatch, work: WorkArrays, begin: int, end: int
    ) -> tuple[MatchRows, np.ndarray, np.ndarray]:
        """The matches followed by an empty one, for rows without a match; and the match and the place of each row."""
        kind, start, length, frame, path_from, path = work.matches()
        part = np.searchsorted(events.bounds, frame, side="right") - 1
        until = events.bounds[1:][part] if len(part) else np.zeros(0, np.int64)
        if self.plan.frame.following is not None:
            until = np.minimum(until, frame + self.plan.frame.following + 1)
        nothing = np.zeros(1, np.int64)
        kinds = np.concatenate([kind, np.full(1, EMPTY, kind.dtype)])
        starts, lengths, frames, paths_from, untils = (
            np.concatenate([array, nothing]) for array in (start, length, frame, path_from, until)
        )
        matches = MatchRows(kinds, starts, lengths, frames, paths_from, path, part_lo=frames, part_hi=untils)
        out_match = np.full(end - begin, len(kind), np.int64)
        out_position = np.full(end - begin, -1, np.int64)
        out_match[frame - begin] = np.arange(len(kind))
        out_position[frame - begin] = np.where(kind == MATCHED, length - 1, -1)
        return matches, out_match, out_position
