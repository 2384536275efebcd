"""A pattern of which only the matches are found that the other one asks for (PCQ, sections 3.3, 4.3 and 4.4).

Its rows wait in the recent buffer. A match of the other pattern asks for matches that start (archive) or end (live) in
a region. They are found from the rows of that region, and from those that follow; in a stream, when these have come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.code.searching import first_rows
from episode.matchers.columns import from_bytes
from episode.matchers.correlation import regions
from episode.matchers.correlation.matches import SideMatches, together
from episode.matchers.correlation.recent import OlderRows, RecentBuffer
from episode.matchers.correlation.regions import FIRST_ID, Covered, RegionDemands, Segments, extend_last, looked_up
from episode.matchers.correlation.side import RecencySide
from episode.matchers.protocol import END_OF_TIME, EventBatch, Partial, Snapshot, StateChunk
from episode.matchers.state import arrays_in, by_name, chunk_of, least_by_key, ranges
from episode.matchers.times import EVER, NEVER, window_starts

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan

# Segments at work: the pattern's own matcher is fed with the rows that were asked for (PCQ, sections 4.3 and 4.4).
#
# What of a demand is not known yet becomes a segment. It is fed with the rows of its region, and with those that follow
# until everything that was asked for is decided. With the result cache the regions of a key are merged, and what has
# been computed once is never computed again; without it each demand has its own segment.

SLACK = 8
"""Rows after a region that are fed with it, so that what starts in it is most often decided at once."""
FIRST_BLOCK = 8
"""Rows among which a wall is looked for first."""
_STATE, _UNANCHORED = "segments", "unanchored"
Least = Callable[[np.ndarray], np.ndarray]
"""For keys: the least time that a demand to come may ask for."""


class Answers:
    """The segments of one side. recent: its rows; older: those that are in an archive. cached: is what was found
    remembered? fed_rows: how many rows were fed to segments so far."""

    def __init__(self, side: RecencySide, recent: RecentBuffer, cached: bool) -> None:
        assert isinstance(side.matcher, Partial)
        self.partial: Partial = side.matcher
        self.side, self.traits, self.recent, self.cached = side, side.traits, recent, cached
        self.older: OlderRows | None = None
        self.segments = Segments()
        self.covered = Covered()
        self.fed_rows = 0
        self._unanchored = np.zeros(0, np.int64)
        self._next_id = FIRST_ID
        self._groups = self._from = self._to = np.zeros(0, np.int64)

    def open(self, demands: RegionDemands, until: int) -> np.ndarray:
        """Segments for what is asked for and not known yet."""
        if self.older is not None:
            self._fetch(self.older, demands, until)
        recent, active = self.recent, self.segments
        groups = np.unique(np.concatenate([recent.keys, active.key, demands.key]))
        self._groups = groups
        self._from, self._to, fresh = (
            looked_up(recent.keys, rows, groups, 0) for rows in (recent.row_from, recent.row_to, recent.fresh)
        )
        active = active.move_to(fresh[np.searchsorted(groups, active.key)])
        order = np.lexsort((demands.lo, demands.key))
        new = demands.select(order)
        if self.cached:
            active, new = extend_last(active, new, self.traits.by_end)
        covered = self.covered.until(groups)
        number = np.searchsorted(groups, new.key)
        out = regions.merge(number, new, self._from, self._to, recent.time, covered, SLACK, until, self.cached)
        count = len(out)
        group, lo, hi = out[:, regions.KEY], out[:, regions.LO].copy(), out[:, regions.HI].copy()
        limit = hi.copy()
        if self.cached:
            limit[:] = EVER
            followed = np.flatnonzero(group[1:] == group[:-1])
            limit[followed] = lo[followed + 1]
        back, _ = self._reach_back(group, out[:, regions.FROM].copy(), lo)
        first = np.maximum(back - self.traits.lookback, self._from[group])
        ids = self._next_id + np.arange(count)
        self._next_id += count
        self.segments = active.followed_by(Segments(ids, groups[group], lo, hi, limit, first, np.full(count, NEVER)))
        if self.cached:
            return ids
        by_demand = np.empty(len(order), np.int64)
        by_demand[order] = ids
        return by_demand

    def _fetch(self, older: OlderRows, demands: RegionDemands, until: int) -> None:
        """Read rows that are asked for and not in the buffer. A segment that continues needs none."""
        older.arrive(self.recent)
        going_on = self.segments.key[self.segments.limit == EVER] if self.cached else np.zeros(0, np.int64)
        lo = np.maximum(demands.lo, self.covered.until(demands.key))
        wanted = np.flatnonzero((lo < demands.hi) & ~np.isin(demands.key, going_on))
        older.fetch(self.recent, demands.key[wanted], lo[wanted], until)

    def advance(self, until: int) -> Iterator[SideMatches]:
        """Feed the segments until they are decided, or their rows are used up."""
        time = self.recent.time
        fed = np.zeros(len(self.segments), np.int64)
        while len(self.segments):
            segments = self.segments
            group = np.searchsorted(self._groups, segments.key)
            row_to = self._to[group]
            end = first_rows(segments.at, row_to, time, segments.hi)
            if not self.traits.by_end:
                end = np.minimum(row_to, np.maximum(end + SLACK, segments.at + fed))
            counts = end - segments.at
            left = end < row_to
            following = np.full(len(segments), EVER if until == END_OF_TIME else until + 1, np.int64)
            following[left] = time[end[left]]
            used_up = self.traits.by_end or not left.any()
            rows = ranges(segments.at, counts)
            self.fed_rows += len(rows)
            events = self._own_rows(rows, np.repeat(segments.id, counts))
            known = until if used_up else min(until, int(following[left].min()) - 1)
            found = self.side.matches_in(self.side.matcher.feed(events, known))
            self.segments, fed = segments.move_to(end), fed + counts
            if len(found):
                yield self._select_asked(found)
            fed = fed[self._settle(following, known)]
            if used_up:
                break

    def _select_asked(self, found: SideMatches) -> SideMatches:
        segments = self.segments
        at = np.searchsorted(segments.id, found.key)
        when = found.end if self.traits.by_end else found.start
        taken = np.flatnonzero((when >= segments.lo[at]) & (when < segments.limit[at]))
        if not self.traits.by_end:
            np.maximum.at(segments.last, at, found.start)
        found = found.select(taken)
        if not self.cached:
            return found
        return replace(found, key=segments.key[at[taken]])

    def _settle(self, following: np.ndarray, until: int) -> np.ndarray:
        """Let go of segments in which all is decided; gives those that are not. following: times of their next rows.
        until: as they were fed."""
        segments = self.segments
        if self.traits.by_end:
            decided = (segments.hi <= following) & (until >= segments.hi - 1)
            known = segments.hi
        else:
            known = np.minimum(following, self.open_starts(segments))
            # Of rows with one time, some may have started a match while others are not decided.
            decided = (known >= segments.hi) & ((known > segments.last) | (not self.cached))
        if until == END_OF_TIME:
            decided[:] = True
        elif len(self._unanchored):
            decided, known = self._anchor(decided, known, until)
        gone, left = np.flatnonzero(decided), np.flatnonzero(~decided)
        if len(gone):
            self.partial.forget(segments.id[gone])
            if self.cached:
                self.covered.cover(segments.key[gone], known[gone])
            self.segments = segments.select(left)
        return left

    def _anchor(self, decided: np.ndarray, known: np.ndarray, until: int) -> tuple[np.ndarray, np.ndarray]:
        """End segments that continue only because the rows before them are not buffered, once new rows are enough."""
        segments = self.segments
        old = np.flatnonzero(np.isin(segments.id, self._unanchored))
        if self.traits.by_end:
            known = known.copy()
            known[old] = np.maximum(segments.last[old], until + 1)
        group = np.searchsorted(self._groups, segments.key[old])
        row = first_rows(self._from[group], self._to[group], self.recent.time, known[old])
        back, sure = self._reach_back(group, row, known[old])
        sure &= back - self.traits.lookback >= self._from[group]
        decided = decided.copy()
        if self.traits.by_end:
            segments.hi[old[sure]] = known[old[sure]]
            decided[old[sure]] = until >= known[old[sure]] - 1
        decided[old[~sure]] = False
        self._unanchored = np.setdiff1d(self._unanchored, segments.id[old[sure]])
        return decided, known

    def open_starts(self, segments: Segments) -> np.ndarray:
        """For each segment the first start that is not decided."""
        ids, times = self.side.matcher.open_from
        return looked_up(ids, times, segments.id, EVER)

    def _own_rows(self, places: np.ndarray, keys: np.ndarray) -> EventBatch:
        """Rows of the buffer as the pattern's matcher takes them, under other keys."""
        table = self.side.events.own_columns(self.recent.rows_at(places))
        return EventBatch(table, keys, self.recent.time[places])

    def _reach_back(self, group: np.ndarray, row: np.ndarray, lo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first rows to feed of groups, so that all is known of matches that start with `row` or later, or end
        there; and are they enough even where the key has rows before? lo: the time that belongs to `row`."""
        if not self.traits.by_end:
            return row, np.ones(len(row), np.bool_)
        row_from = self._from[group]
        if self.traits.longest is None and self.traits.within is None:
            return self._walls(row_from, np.minimum(row + 1, self._to[group]))
        back = np.full(len(row), NEVER, np.int64)
        sure = np.zeros(len(row), np.bool_)
        if self.traits.longest is not None:
            back = row - max(0, self.traits.longest - 1)
            sure |= back >= row_from
        if self.traits.within is not None:
            first = first_rows(row_from, row, self.recent.time, window_starts(lo, self.traits.within))
            back = np.maximum(back, first)
            sure |= first > row_from
        return np.maximum(back, row_from), sure

    def _walls(self, row_from: np.ndarray, row_to: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The last wall in each range of rows: a row that can only be the first of a match, so that no earlier match
        crosses it. Without one, the first row of the range. And is there one?"""
        last = row_from.copy()
        has_wall = np.zeros(len(row_from), np.bool_)
        pending = np.flatnonzero(row_from < row_to)
        high, block = row_to.copy(), FIRST_BLOCK
        while len(pending):
            low = np.maximum(row_from[pending], high[pending] - block)
            begin = np.maximum(row_from[pending], low - self.traits.lookback)
            counts = high[pending] - begin
            tried = ranges(begin, counts)
            events = self._own_rows(tried, np.repeat(pending, counts))
            walls = np.flatnonzero(self.partial.walls(events))
            owner = events.key[walls]
            np.maximum.at(last, owner, tried[walls])
            has_wall[owner] = True
            high[pending] = low
            pending = pending[~has_wall[pending] & (low > row_from[pending])]
            block *= 4
        return last, has_wall

    def first_needed(self, bound: np.ndarray) -> np.ndarray:
        """For each key of the buffer, the first row that is needed for matches from this time on."""
        recent = self.recent
        self._groups, self._from, self._to = recent.keys, recent.row_from, recent.row_to
        first, _ = self._reach_back(np.arange(len(recent.keys)), recent.first_rows(bound), bound)
        return first - self.traits.lookback

    def pending(self) -> tuple[np.ndarray, np.ndarray]:
        """For each key with a segment: before this time nothing will be asked for again."""
        segments = self.segments
        if self.traits.by_end:
            hi = np.where(segments.hi == EVER, segments.last, segments.hi)
            key, negative = least_by_key(segments.key, ~hi)
            return key, ~negative
        return least_by_key(segments.key, self.open_starts(segments))

    def adopt(self) -> None:
        """Segments that have no end and that nothing follows are their keys."""
        segments = self.segments
        mine = (segments.limit == EVER) & (segments.hi == EVER)
        moved = np.flatnonzero(mine & (segments.id != segments.key))
        self.partial.rename(segments.id[moved], segments.key[moved])
        self.segments = segments.select(np.flatnonzero(~mine))
        self._unanchored = np.zeros(0, np.int64)
        self.covered = Covered()

    def detach(self, until: int, asked: np.ndarray, wanted: Least) -> None:
        """Turn what the matcher holds of each key into a segment. wanted: for keys, what has been asked for so far
        (times before this one); asked: the keys of which something has. Rows from before are not in the buffer, so
        these segments continue until the buffered rows are enough to begin another one."""
        held = self.side.matcher.live_keys
        held = keys = held[held < FIRST_ID]
        if self.traits.by_end:
            keys = np.union1d(held, asked[wanted(asked) > until + 1])
        count = len(keys)
        hi = np.maximum(wanted(keys), until + 1) if self.traits.by_end else np.full(count, until + 1)
        never, ever, at = np.full(count, NEVER), np.full(count, EVER), np.zeros(count, np.int64)
        if self.traits.by_end:  # of keys that nothing is held of, what comes begins anew
            own = Segments(keys, keys, never, np.where(np.isin(keys, held), EVER, hi), ever, at, hi)
        else:
            own = Segments(keys, keys, never, hi, ever, at, never.copy())
        self.segments = own.followed_by(self.segments)
        self._unanchored = held
        self.covered = Covered()
        if self.older is not None:
            others = np.setdiff1d(self.older.past.key, keys)
            self.covered = Covered(others, np.full(len(others), until + 1))

    def chunks(self, metadata: dict[str, str]) -> list[StateChunk]:
        """metadata: what else is to be remembered."""
        segments = self.segments.table().replace_schema_metadata({"next": str(self._next_id), **metadata})
        unanchored = chunk_of(_UNANCHORED, pa.table({"key": self._unanchored}))
        own = [chunk_of(_STATE, segments), self.covered.chunk(), unanchored]
        return own if self.older is None else [*own, self.older.chunk()]

    def restore(self, chunks: Sequence[StateChunk]) -> dict[bytes, bytes] | None:
        """Resume from these chunks; return what else was remembered, if anything was."""
        known = by_name([chunk for chunk in chunks if chunk.name == _STATE])
        unanchored = arrays_in(chunks, _UNANCHORED, "key")
        if not known or unanchored is None:
            return None
        if self.older is not None:
            self.older.restore(chunks)
        table = from_bytes(known[_STATE].data)
        metadata: dict[bytes, bytes] = table.schema.metadata
        self._next_id = int(metadata[b"next"])
        self.segments = Segments.from_table(table)
        (self._unanchored,) = unanchored
        self.covered.restore(chunks)
        return metadata


class DemandedSide(RecencySide):
    """One pattern, of which only matches that are asked for are found. cached: is what was found remembered?
    everything: are all matches found for now? buffering: seconds for the recent buffer."""

    def __init__(self, spec: CorrelationSpec, side: SidePlan, flag: int, cached: bool) -> None:
        super().__init__(spec, side, flag)
        self.cached = cached
        self.recent = RecentBuffer(spec.input_schema, [*self.events.outer, *spec.keys])
        self.answers = Answers(self, self.recent, cached)
        self.everything = True
        self.buffering = 0.0
        self._asked_from: Least | None = None

    def feed(self, rows: EventBatch, until: int) -> SideMatches:
        """All matches that are certain with these rows. Segments from before are brought to their end."""
        parts = [SideMatches.none(self.schema)]
        if self._asked_from is not None:  # what is in the buffer has not been asked for yet: now it is, without end
            self.recent.add(rows)
            keys = self._known_keys()
            lo, self._asked_from = self._asked_from(keys), None
            self.answers.open(RegionDemands(keys, lo, np.full(len(keys), EVER)), until)
            parts += self.answers.advance(until)
            self.answers.adopt()
        elif len(self.answers.segments):  # `until` may pass windows: only when both have all their rows
            parts.append(super().feed(rows, NEVER))
            self.recent.add(rows)
            self.answers.open(RegionDemands(), until)
            parts += self.answers.advance(until)
            nothing = EventBatch(rows.table.slice(0, 0), rows.key[:0], rows.time[:0])
            parts.append(super().feed(nothing, until))
        else:
            parts.append(super().feed(rows, until))
        self.recent.forget()
        return together(parts)

    def take_all(self, least: Least) -> None:
        """From now on all matches are found. least: what a demand could have asked for until now."""
        if self.everything:
            return
        self.everything = True
        keys = self._known_keys()
        bounds = least(keys)
        self._asked_from = lambda wanted: looked_up(keys, bounds, wanted, NEVER)

    def take_some(self, until: int, asked: np.ndarray, wanted: Least) -> None:
        """Find only what is asked for from now on. For the arguments see `Answers.detach`."""
        if not self.everything:
            return
        self.everything = False
        if self._asked_from is not None:  # nothing has come since all matches were asked for
            self._asked_from = None
            return
        self.answers.detach(until, asked, wanted)

    def _known_keys(self) -> np.ndarray:
        keys = np.union1d(self.recent.keys, self.answers.segments.key)
        older = self.answers.older
        return keys if older is None else np.union1d(keys, older.past.key)

    def answer(self, rows: EventBatch, until: int, demands: RegionDemands) -> tuple[SideMatches, np.ndarray]:
        """Feed new rows; return the matches that are asked for and now certain, and the segments of the demands.

        With the cache matches have their keys, and demands share segments; without it matches have the numbers of
        their segments in the place of keys.
        """
        began = thread_time()
        self.recent.add(rows)
        self.buffering += thread_time() - began
        ids = self.answers.open(demands, until)
        return together([SideMatches.none(self.schema), *self.answers.advance(until)]), ids

    def trim(self, until: int, least: Least) -> None:
        """Keep the rows that a demand to come may need."""
        began = thread_time()
        if until == END_OF_TIME:
            self.recent.forget()
            self.answers.segments, self.answers.covered = Segments(), Covered()
        else:
            self._forget_unneeded(until, least)
        self.buffering += thread_time() - began

    def _forget_unneeded(self, until: int, least: Least) -> None:
        keys, answers = self.recent.keys, self.answers
        bound = least(keys)
        if self.cached:
            covered = answers.covered.until(keys)
            # What is known of rows that may be asked for again is kept, including those in an archive.
            useful = np.isin(answers.covered.key, keys[covered > bound])
            if answers.older is not None:
                useful |= ~np.isin(answers.covered.key, keys) & (answers.covered.time > least(answers.covered.key))
            answers.covered.keep(useful)
            bound = np.maximum(bound, covered)
            if len(answers.segments):
                bound = np.maximum(bound, looked_up(*answers.pending(), keys, NEVER))
        first = answers.first_needed(bound)
        self.recent.keep_from(first if answers.older is None else answers.older.cut(self.recent, first, until))

    def starts_from(self, keys: np.ndarray, until: int) -> np.ndarray:
        """Bounds of the starts that segments may still add; all others that were asked for are decided."""
        segments = self.answers.segments
        bounds = np.full(len(keys), EVER, np.int64)
        if len(segments):
            bounds = looked_up(*least_by_key(segments.key, self.answers.open_starts(segments)), keys, EVER)
        return np.minimum(bounds, super().starts_from(keys, until)) if self.everything else bounds

    @property
    def live_keys(self) -> np.ndarray:
        own, known = self.matcher.live_keys, self.answers.covered.key
        return np.unique(np.concatenate([self.recent.keys, self.answers.segments.key, known, own[own < FIRST_ID]]))

    @property
    def state_rows(self) -> int:
        return len(self.recent) + self.matcher.state_rows

    def snapshot(self) -> Snapshot:
        began = thread_time()
        recent = Snapshot(*self.recent.changes())
        self.buffering += thread_time() - began
        inner = super().snapshot()
        assert self._asked_from is None  # it lasts from the end of a round to the next
        own = self.answers.chunks({"everything": str(self.everything)})
        return Snapshot((*inner.put, *recent.put, *own), (*inner.removed, *recent.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        super().restore(chunks)
        remembered = self.answers.restore(chunks)
        if remembered is not None:
            self.recent.restore(chunks)
            self.everything = remembered[b"everything"] == b"True"
