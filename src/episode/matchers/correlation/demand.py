"""A pattern of which only the matches that the other one asks for are found (PCQ, sections 3.3, 4.3 and 4.4).

Its rows wait in the recent buffer. A match of the other pattern asks for matches that start (archive) or end (live) in
a region. What of it is not known yet becomes a segment: the pattern's own matcher is fed with the rows of the region,
and with those that follow until everything that was asked for is decided; in a stream, until the rows for that have
come. With the result cache the regions of a key are merged, and what has been computed once is never computed again;
without it each match has a segment of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.kernels.correlation import regions
from episode.kernels.times import EVER, NEVER
from episode.matchers.columns import from_bytes, take
from episode.matchers.correlation.matches import Matches, together
from episode.matchers.correlation.older import OlderRows
from episode.matchers.correlation.reach import Reach
from episode.matchers.correlation.recent import RecentBuffer
from episode.matchers.correlation.segments import FIRST_ID, Demands, Segments, looked_up
from episode.matchers.correlation.side import Side
from episode.matchers.held import by_name, chunk_of, least_by_key, ranges
from episode.matchers.protocol import END_OF_TIME, EventBatch, Partial, Snapshot, StateChunk

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan

SLACK = 8
"""Rows after a region that are fed with it, so that what starts in it is most often decided at once."""
_STATE = "segments"
Least = Callable[[np.ndarray], np.ndarray]
"""For keys: the least time that a demand to come may ask for."""


class DemandedSide(Side):
    """One pattern, of which only matches that are asked for are found. cached: is what was found remembered?"""

    def __init__(self, spec: CorrelationSpec, side: SidePlan, flag: int, cached: bool) -> None:
        super().__init__(spec, side, flag)
        assert isinstance(self.matcher, Partial)
        self.partial: Partial = self.matcher
        self.cached = cached
        self.reach = Reach(self.partial, self.traits, self.events)
        self.recent = RecentBuffer(spec.input_schema, [*self.events.outer, *spec.keys])
        self.segments = Segments()
        self.covered_key = self.covered = np.zeros(0, np.int64)
        self.older: OlderRows | None = None
        self.everything = True
        self._unanchored = np.zeros(0, np.int64)
        self._asked_from: Callable[[np.ndarray], np.ndarray] | None = None
        self.fed_rows = 0
        self.buffering = 0.0
        self._next_id = FIRST_ID
        self._groups = self._from = self._to = np.zeros(0, np.int64)

    # ---- all matches, or only some -----------------------------------------------------------------------------------

    def feed(self, rows: EventBatch, until: int) -> Matches:
        """All matches that are certain with these rows. Segments from before are brought to their end."""
        parts = [Matches.none(self.schema)]
        if self._asked_from is not None:  # what is in the buffer has not been asked for yet: now it is, without end
            self.recent.add(rows)
            keys = np.union1d(self.recent.keys, self.segments.key)
            if self.older is not None:
                keys = np.union1d(keys, self.older.past.key)
            lo, self._asked_from = self._asked_from(keys), None
            self._open(Demands(keys, lo, np.full(len(keys), EVER)), until)
            parts += self._advance(until)
            self._adopt()
        elif len(self.segments):  # `until` may pass windows: only when both have all their rows
            parts.append(super().feed(rows, NEVER))
            self.recent.add(rows)
            self._open(Demands(), until)
            parts += self._advance(until)
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
        keys = np.union1d(self.recent.keys, self.segments.key)
        if self.older is not None:
            keys = np.union1d(keys, self.older.past.key)
        bounds = least(keys)
        self._asked_from = lambda wanted: looked_up(keys, bounds, wanted, NEVER)

    def take_some(self, until: int, asked: np.ndarray, wanted: Least) -> None:
        """From now on only what is asked for is found. wanted: for keys, what has been asked for so far (times before
        this one); asked: the keys of which something has. What the matcher holds are segments of their own; rows from
        before are not in the buffer, so these go on until those that are there are enough to begin another one."""
        if not self.everything:
            return
        self.everything = False
        if self._asked_from is not None:  # nothing has come since all matches were asked for
            self._asked_from = None
            return
        held = self.matcher.live_keys
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
        self.covered_key, self.covered = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self.older is not None:
            others = np.setdiff1d(self.older.past.key, keys)
            self.covered_key, self.covered = others, np.full(len(others), until + 1)

    def _adopt(self) -> None:
        """Segments that have no end and that nothing follows are their keys."""
        segments = self.segments
        mine = (segments.limit == EVER) & (segments.hi == EVER)
        moved = np.flatnonzero(mine & (segments.id != segments.key))
        self.partial.rename(segments.id[moved], segments.key[moved])
        self.segments = segments.select(np.flatnonzero(~mine))
        self.covered_key = self.covered = self._unanchored = np.zeros(0, np.int64)

    # ---- one round -------------------------------------------------------------------------------------------------

    def answer(self, rows: EventBatch, until: int, demands: Demands) -> tuple[Matches, np.ndarray]:
        """With new rows of the side, the matches that are asked for and certain now; and the segments of the demands.

        With the cache matches have their keys, and demands share segments; without it matches have the numbers of
        their segments in the place of keys.
        """
        began = thread_time()
        self.recent.add(rows)
        self.buffering += thread_time() - began
        ids = self._open(demands, until)
        return together([Matches.none(self.schema), *self._advance(until)]), ids

    def _open(self, demands: Demands, until: int) -> np.ndarray:
        """Segments for what is asked for and not known yet."""
        if self.older is not None:
            self._fetch(self.older, demands, until)
        recent, active = self.recent, self.segments
        groups = np.unique(np.concatenate([recent.keys, active.key, demands.key]))
        self._groups = groups
        self._from, self._to, fresh = (
            looked_up(recent.keys, rows, groups, 0) for rows in (recent.row_from, recent.row_to, recent.fresh)
        )
        active = active.moved(fresh[np.searchsorted(groups, active.key)])
        order = np.lexsort((demands.lo, demands.key))
        new = demands.select(order)
        if self.cached:
            active, new = _extended(active, new, self.traits.by_end)
        out = np.empty((len(new), 5), np.int64)
        covered = looked_up(self.covered_key, self.covered, groups, NEVER)
        number = np.searchsorted(groups, new.key)
        count = regions.merge(
            number, new.lo, new.hi, self._from, self._to, recent.rows.time, covered, SLACK, until, self.cached, out
        )
        out = out[:count]
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

    def _fetch(self, older: OlderRows, demands: Demands, until: int) -> None:
        """Read rows that are asked for and not in the buffer. A segment that goes on needs none."""
        older.arrive(self.recent)
        going_on = self.segments.key[self.segments.limit == EVER] if self.cached else np.zeros(0, np.int64)
        lo = np.maximum(demands.lo, looked_up(self.covered_key, self.covered, demands.key, NEVER))
        wanted = np.flatnonzero((lo < demands.hi) & ~np.isin(demands.key, going_on))
        older.fetch(self.recent, demands.key[wanted], lo[wanted], until)

    def _advance(self, until: int) -> Iterator[Matches]:
        """Feed the segments until they are decided, or their rows are used up."""
        time = self.recent.rows.time
        inner = self.recent.rows.table.select(self.events.outer).rename_columns(self.events.inner)
        fed = np.zeros(len(self.segments), np.int64)
        while len(self.segments):
            segments = self.segments
            group = np.searchsorted(self._groups, segments.key)
            row_to = self._to[group]
            end = np.empty(len(segments), np.int64)
            regions.first_rows(segments.at, row_to, time, segments.hi, end)
            if not self.traits.by_end:
                end = np.minimum(row_to, np.maximum(end + SLACK, segments.at + fed))
            counts = end - segments.at
            left = end < row_to
            following = np.full(len(segments), EVER if until == END_OF_TIME else until + 1, np.int64)
            following[left] = time[end[left]]
            used_up = self.traits.by_end or not left.any()
            rows = ranges(segments.at, counts)
            self.fed_rows += len(rows)
            events = EventBatch(take(inner, rows), np.repeat(segments.id, counts), time[rows])
            known = until if used_up else min(until, int(following[left].min()) - 1)
            found = self.taken(self.matcher.feed(events, known))
            self.segments, fed = segments.moved(end), fed + counts
            if len(found):
                yield self._accepted(found)
            fed = fed[self._settle(following, known)]
            if used_up:
                break

    def _accepted(self, found: Matches) -> Matches:
        """Those that were asked for, or come for nothing."""
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
            known = np.minimum(following, self._open_starts(segments))
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
                self._cover(segments.key[gone], known[gone])
            self.segments = segments.select(left)
        return left

    def _anchor(self, decided: np.ndarray, known: np.ndarray, until: int) -> tuple[np.ndarray, np.ndarray]:
        """Segments that go on because the rows from before are not in the buffer end when what comes is enough."""
        segments = self.segments
        old = np.flatnonzero(np.isin(segments.id, self._unanchored))
        if self.traits.by_end:
            known = known.copy()
            known[old] = np.maximum(segments.last[old], until + 1)
        group = np.searchsorted(self._groups, segments.key[old])
        row = np.empty(len(old), np.int64)
        regions.first_rows(self._from[group], self._to[group], self.recent.rows.time, known[old], row)
        back, sure = self._reach_back(group, row, known[old])
        sure &= back - self.traits.lookback >= self._from[group]
        decided = decided.copy()
        if self.traits.by_end:
            segments.hi[old[sure]] = known[old[sure]]
            decided[old[sure]] = until >= known[old[sure]] - 1
        decided[old[~sure]] = False
        self._unanchored = np.setdiff1d(self._unanchored, segments.id[old[sure]])
        return decided, known

    def _open_starts(self, segments: Segments) -> np.ndarray:
        """For each segment the first start that is not decided."""
        ids, times = self.matcher.open_from
        return looked_up(ids, times, segments.id, EVER)

    def _cover(self, key: np.ndarray, known: np.ndarray) -> None:
        """Of these keys everything before these times is known."""
        keys, times = np.concatenate([self.covered_key, key]), np.concatenate([self.covered, known])
        self.covered_key, negative = least_by_key(keys, ~times)
        self.covered = ~negative

    def _reach_back(self, group: np.ndarray, row: np.ndarray, lo: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What `Reach.back` says, of rows of groups."""
        return self.reach.back(self.recent.rows, self._from[group], self._to[group], row, lo)

    # ---- after a round ---------------------------------------------------------------------------------------------

    def trim(self, until: int, least: Least) -> None:
        """Keep the rows that a demand to come may need."""
        began = thread_time()
        self._trim(until, least)
        self.buffering += thread_time() - began

    def _trim(self, until: int, least: Least) -> None:
        if until == END_OF_TIME:
            self.recent.forget()
            self.segments = Segments()
            self.covered_key = self.covered = np.zeros(0, np.int64)
            return
        keys = self.recent.keys
        bound = least(keys)
        if self.cached:
            covered = looked_up(self.covered_key, self.covered, keys, NEVER)
            self._forget_covered(keys, covered > bound, least)
            bound = np.maximum(bound, covered)
            if len(self.segments):
                bound = np.maximum(bound, looked_up(*self._pending(), keys, NEVER))
        self._groups, self._from, self._to = keys, self.recent.row_from, self.recent.row_to
        first, _ = self._reach_back(np.arange(len(keys)), self.recent.first_rows(bound), bound)
        first = first - self.traits.lookback
        self.recent.keep_from(first if self.older is None else self.older.cut(self.recent, first, until))

    def _forget_covered(self, keys: np.ndarray, useful: np.ndarray, least: Least) -> None:
        """What is known is remembered of rows that may be asked for again; those in an archive, too."""
        keep = np.isin(self.covered_key, keys[useful])
        if self.older is not None:
            keep |= ~np.isin(self.covered_key, keys) & (self.covered > least(self.covered_key))
        self.covered_key, self.covered = self.covered_key[keep], self.covered[keep]

    def _pending(self) -> tuple[np.ndarray, np.ndarray]:
        """For each key with a segment: before this time nothing will be asked for again."""
        segments = self.segments
        if self.traits.by_end:
            hi = np.where(segments.hi == EVER, segments.last, segments.hi)
            key, negative = least_by_key(segments.key, ~hi)
            return key, ~negative
        return least_by_key(segments.key, self._open_starts(segments))

    def starts_from(self, keys: np.ndarray, until: int) -> np.ndarray:
        """What is still to come of segments; all other starts that were asked for are decided."""
        bounds = np.full(len(keys), EVER, np.int64)
        if len(self.segments):
            bounds = looked_up(*least_by_key(self.segments.key, self._open_starts(self.segments)), keys, EVER)
        return np.minimum(bounds, super().starts_from(keys, until)) if self.everything else bounds

    @property
    def live_keys(self) -> np.ndarray:
        own = self.matcher.live_keys
        return np.unique(np.concatenate([self.recent.keys, self.segments.key, self.covered_key, own[own < FIRST_ID]]))

    @property
    def state_rows(self) -> int:
        return len(self.recent) + self.matcher.state_rows

    # ---- snapshots -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        began = thread_time()
        recent = Snapshot(*self.recent.changes())
        self.buffering += thread_time() - began
        inner = super().snapshot()
        assert self._asked_from is None  # it lasts from the end of a round to the next
        metadata = {"next": str(self._next_id), "everything": str(self.everything)}
        segments = self.segments.table().replace_schema_metadata(metadata)
        covered = pa.table({"key": self.covered_key, "covered": self.covered})
        unanchored = chunk_of("unanchored", pa.table({"key": self._unanchored}))
        own = [chunk_of(_STATE, segments), chunk_of("covered", covered), unanchored]
        if self.older is not None:
            own.append(self.older.chunk())
        return Snapshot((*inner.put, *recent.put, *own), (*inner.removed, *recent.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        super().restore(chunks)
        known = by_name([chunk for chunk in chunks if chunk.name in (_STATE, "covered", "unanchored")])
        if _STATE not in known:
            return
        self.recent.restore(chunks)
        if self.older is not None:
            self.older.restore(chunks)
        table = from_bytes(known[_STATE].data)
        metadata = table.schema.metadata or {}
        self._next_id, self.everything = int(metadata[b"next"]), metadata[b"everything"] == b"True"
        self._unanchored = from_bytes(known["unanchored"].data).column("key").to_numpy().copy()
        self.segments = Segments.from_table(table)
        covered = from_bytes(known["covered"].data)
        self.covered_key, self.covered = (covered.column(name).to_numpy().copy() for name in ("key", "covered"))


def _extended(active: Segments, demands: Demands, by_end: bool) -> tuple[Segments, Demands]:
    """Segments that nothing follows, grown by what is asked for of their keys; and what is left to ask for."""
    last = np.flatnonzero(active.limit == EVER)
    if len(last) == 0 or len(demands) == 0:
        return active, demands
    order = last[np.argsort(active.key[last], kind="stable")]
    at = np.minimum(np.searchsorted(active.key[order], demands.key), len(order) - 1)
    mine = active.key[order[at]] == demands.key
    hi, last = active.hi.copy(), active.last.copy()
    np.maximum.at(hi, order[at[mine]], demands.hi[mine])
    if by_end:
        np.maximum.at(last, order[at[mine]], demands.hi[mine])
    return replace(active, hi=hi, last=last), demands.select(np.flatnonzero(~mine))
