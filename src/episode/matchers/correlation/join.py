"""The join of two patterns by recency: matches kept for partners to come, pairs that new ones make, and their order.

See decisions 104 and 131.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.matchers.assembly import with_keys
from episode.matchers.code.searching import first_at_least, window_start
from episode.matchers.columns import one_chunk, take_array
from episode.matchers.correlation.matches import KeptMatches, SideMatches, passing_pairs
from episode.matchers.correlation.regions import FIRST_ID
from episode.matchers.protocol import Snapshot, StateChunk
from episode.matchers.state import arrays_in, chunk_of
from episode.matchers.times import EVER, NEVER, window_ends
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope
from episode.native.ir import BOOL, I64, Value
from episode.native.running import compiled_for
from episode.plan.correlation.pairs import PairTest
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START

# Pairs of live and archive matches by recency (PCQ, Definitions 6, 8 and 9), without a look at pairs that are too old.
#
# A live match l and an archive match a of one key are a pair iff a.start < l.start, a.end < l.end and l.end - a.start
# is at most the recency. Matches of a key are contiguous, keys ascending; within a key, archive matches are in order of
# their starts and live matches in order of their ends. The output arrays have a fixed size: when they are full, the
# code notes how far it is in `place`, and continues there when it is called again. All arrays are int64.

AT_OUTER, AT_INNER, NOT_BEGUN = 0, 1, -1

_READ = ("live_key", "live_start", "live_end", "key", "start", "end", "low", "high", "recency")
_WRITTEN = ("place", "out_live", "out_archive")
TYPES: ArrayTypes = dict.fromkeys(_READ, (I64, False)) | dict.fromkeys(_WRITTEN, (I64, True))


def beginning() -> np.ndarray:
    """The place of a join that has not begun."""
    return np.array([0, NOT_BEGUN], np.int64)


@dataclass(frozen=True)
class RecencyJoin:
    """A join of the matches of one side, in order, with those of the other.

    outer, inner: the arrays of their keys; outer_out, inner_out: those of their numbers in pairs. begin: the first
    inner match that an outer one looks at, of those of its key; is_over: it looks at no inner match from this one on;
    fits: are the two a pair?
    """

    outer: str
    inner: str
    outer_out: str
    inner_out: str
    begin: Callable[[Scope, Value, Value, Value], Value]
    is_over: Callable[[Scope, Value, Value], Value]
    fits: Callable[[Scope, Value, Value], Value]

    def program(self) -> Program:
        """The program that lists pairs in the order of outer matches, then of inner ones, and returns their number."""
        s = entry_scope(f"join_{self.outer}", TYPES)
        f, place = s.f, s.place
        key, inner = s.array(self.outer), s.array(self.inner)
        count, lo, hi = (f.variable(name, 0) for name in ("count", "lo", "hi"))
        current, is_known = f.variable("current", 0), f.variable("is_known", f.constant(False, BOOL))
        with f.loop(place[AT_OUTER], key.length) as number:
            its_key = key[number]
            with f.when(~is_known | current.differs(its_key)):
                lo.set(first_at_least(s, self.inner, hi, inner.length, its_key))
                hi.set(lo)
                with f.during(lambda: hi < inner.length) as other_key:
                    f.jump_if(inner[hi].differs(its_key), other_key)
                    hi.set(hi + 1)
                current.set(its_key)
                is_known.set(True)
            at = f.variable("at", place[AT_INNER])
            with f.when(at.equals(NOT_BEGUN)):
                at.set(self.begin(s, number, lo.value, hi.value))
            with f.during(lambda: at < hi) as over:
                f.jump_if(self.is_over(s, number, at.value), over)
                with f.when(self.fits(s, number, at.value)):
                    with f.when(count.equals(s.out_live.length)):
                        place[AT_OUTER], place[AT_INNER] = number, at
                        f.give(count)
                    s.array(self.outer_out)[count], s.array(self.inner_out)[count] = number, at
                    count.set(count + 1)
                at.set(at + 1)
            place[AT_INNER] = NOT_BEGUN
        place[AT_OUTER] = key.length
        f.give(count)
        return s.program


BY_LIVE = RecencyJoin(
    "live_key", "key", "out_live", "out_archive",
    begin=lambda s, live, lo, hi: first_at_least(
        s, "start", lo, hi, window_start(s.f, s.live_end[live], s.recency[0])
    ),
    is_over=lambda s, live, at: s.start[at] >= s.live_start[live],
    fits=lambda s, live, at: s.end[at] < s.live_end[live],
)  # fmt: skip
"""Archive matches of each live match."""
BY_ARCHIVE = RecencyJoin(
    "key", "live_key", "out_archive", "out_live",
    begin=lambda s, archive, lo, hi: first_at_least(s, "live_end", lo, hi, s.low[archive]),
    is_over=lambda s, archive, at: s.live_end[at] > s.high[archive],
    fits=lambda s, archive, at: s.live_start[at] > s.start[archive],
)  # fmt: skip
"""Live matches of each archive match: they start after it and end in low <= end <= high."""

# The join: matches that are kept for partners to come, and the pairs that new ones make.
#
# With the result cache, or where all matches are found, both sides keep their matches by key. Without it the side that
# is evaluated first keeps its matches, each under the number of the segment that was computed for it alone.


class MatchJoin:
    """Kept matches of both sides. recency: in units of event time. ordered: do pairs come in order? tests: of pairs."""

    def __init__(
        self,
        output: PairOutput,
        live: pa.Schema,
        archive: pa.Schema,
        recency: int,
        ordered: bool,
        tests: tuple[PairTest, ...] = (),
    ) -> None:
        self.output, self.recency, self.tests = output, recency, tests
        self.live = KeptMatches("kept.live", live, by_start=False)
        self.archive = KeptMatches("kept.archive", archive, by_start=True)
        self.in_order = InOrder(recency) if ordered else None

    def __len__(self) -> int:
        return len(self.live) + len(self.archive)

    def add(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        """Join new matches with each other and with those that are kept, and keep them."""
        live, archive = self.live.sort(live), self.archive.sort(archive)
        if self.in_order is not None:
            self.live.add(live)
            self.archive.add(archive)
            return
        kept = self.archive.matches
        recency = np.array([self.recency], np.int64)
        yield from self._tables(live, kept, _pairs(BY_LIVE, live, kept, end=kept.end, recency=recency))
        self.live.add(live)
        yield from self._by_archive(self.live.matches, archive)
        self.archive.add(archive)

    def emit_ordered(self, starts: np.ndarray, ends: np.ndarray) -> Iterator[pa.Table]:
        """Emit the pairs before which none can come any more. starts, ends: for each kept archive match, no later
        archive match of its key starts before, and no later live match ends before."""
        if self.in_order is not None:
            live, archive = self.live.matches, self.archive.matches
            yield from self._tables(live, archive, self.in_order.pairs(live, archive, starts, ends))

    def own(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        """Pairs of matches with those that were found for them alone: their keys are numbers of segments."""
        yield from self._by_archive(self.live.sort(live), self.archive.sort(archive))

    def _by_archive(self, live: SideMatches, archive: SideMatches) -> Iterator[pa.Table]:
        high = window_ends(archive.start, self.recency)
        yield from self._tables(live, archive, pairs_by_archive(live, archive, ends_after(archive), high))

    def _tables(self, live: SideMatches, archive: SideMatches, found: Iterator[Pairs]) -> Iterator[pa.Table]:
        for of_live, of_archive in found:
            passing = passing_pairs(self.tests, live, archive, of_live, of_archive)
            if len(passing[0]):
                yield self.output.table(live, archive, *passing)

    def expire(self, archive_starts: np.ndarray, live_ends: np.ndarray) -> None:
        """Keep only archive matches that a live match to come may be a pair with. Bounds as for `emit_ordered`."""
        archive = self.archive.matches
        if self.in_order is None:
            self.archive.keep(live_ends <= window_ends(archive.start, self.recency))
        else:
            self.archive.keep(~self.in_order.whole(archive, archive_starts, live_ends))

    def expire_live(self, archive_starts: np.ndarray) -> None:
        """The same of live matches. archive_starts: of each, no archive match of its key to come starts before."""
        live = self.live.matches
        if self.in_order is not None:  # pairs with archive matches that are kept may not be out yet
            archive_starts = np.minimum(archive_starts, self.first_kept(live.key))
        self.live.keep(archive_starts < live.start)

    def first_kept(self, keys: np.ndarray) -> np.ndarray:
        """For each key the first start of an archive match that is kept."""
        kept = self.archive.matches
        if len(kept) == 0:
            return np.full(len(keys), EVER, np.int64)
        first = np.minimum(np.searchsorted(kept.key, keys), len(kept) - 1)
        return np.where(kept.key[first] == keys, kept.start[first], EVER)

    def last_wanted(self, keys: np.ndarray) -> np.ndarray:
        """For each key: live matches that end before this time may be pairs with archive matches that are kept."""
        kept = self.archive.matches
        if len(kept) == 0:
            return np.full(len(keys), NEVER, np.int64)
        last = np.maximum(np.searchsorted(kept.key, keys, side="right") - 1, 0)
        ends = np.minimum(window_ends(kept.start[last], self.recency), EVER - 1) + 1
        return np.where(kept.key[last] == keys, ends, NEVER)

    @property
    def keys(self) -> np.ndarray:
        keys = np.unique(np.concatenate([self.live.matches.key, self.archive.matches.key]))
        return keys[keys < FIRST_ID]

    @property
    def wakes_at(self) -> int | None:
        """When the next pairs may be out, because none can come before them any more."""
        if self.in_order is None or len(self.live) == 0 or len(self.archive) == 0:
            return None
        return int(min(window_ends(self.archive.matches.start, self.recency).min(), EVER - 1))

    def forget(self) -> None:
        self.live.forget()
        self.archive.forget()

    def snapshot(self) -> Snapshot:
        (live, gone_live), (archive, gone_archive) = self.live.changes(), self.archive.changes()
        in_order = () if self.in_order is None else (self.in_order.chunk(),)
        return Snapshot((*live, *archive, *in_order), (*gone_live, *gone_archive))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.live.restore(chunks)
        self.archive.restore(chunks)
        if self.in_order is not None:
            self.in_order.restore(chunks)


# Pairs of matches as tables of output columns, of bounded size.

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
        """The match, and the column of it, from which a column of the output is taken."""
        if name == MATCH_START:
            return ARCHIVE_PREFIX, self.start
        if name == MATCH_END:
            return LIVE_PREFIX, self.end
        prefix = LIVE_PREFIX if name.startswith(LIVE_PREFIX) else ARCHIVE_PREFIX
        return prefix, name.removeprefix(prefix)


def pairs_by_archive(live: SideMatches, archive: SideMatches, low: np.ndarray, high: np.ndarray) -> Iterator[Pairs]:
    """The pairs of archive matches with live matches that end in low <= end <= high, in order of archive matches."""
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


# Pairs in order of their start, then of their end (PCQ, Definition 5), as soon as none can come before them.
#
# A pair starts with its archive match. So the pairs of an archive match come when all archive matches that start
# earlier are known, and no live match to come can be a pair with one of those; and then as far as their ends are
# certain.

_NAME = "in order"


class InOrder:
    """Progress of output, by key: pairs of archive matches that start before `start` have all been emitted, of those
    that start at it the pairs that end before `end`. Keys ascend."""

    def __init__(self, recency: int) -> None:
        self.recency = recency
        self.key = self.start = self.end = np.zeros(0, np.int64)

    def pairs(self, live: SideMatches, archive: SideMatches, starts: np.ndarray, ends: np.ndarray) -> Iterator[Pairs]:
        """Pairs that are due. starts, ends: for each archive match, no later match of its key starts or ends before."""
        last = window_ends(archive.start, self.recency)
        whole = self.whole(archive, starts, ends)
        first = _first_left(archive, whole)
        ready = np.flatnonzero((archive.start < starts) & (whole | (archive.start == first)))
        low, high = ends_after(archive), np.where(whole, last, np.minimum(last, np.maximum(ends, NEVER + 1) - 1))
        low = np.maximum(low, self._out(archive))
        self._note(archive, whole, ready, ends)
        if len(ready) == 0:
            return
        chosen = SideMatches(archive.table, archive.key[ready], archive.start[ready], archive.end[ready])
        found = pairs_by_archive(live, chosen, low[ready], high[ready])
        if not ((chosen.key[1:] == chosen.key[:-1]) & (chosen.start[1:] == chosen.start[:-1])).any():
            for of_live, of_archive in found:
                yield of_live, ready[of_archive]
            return
        parts = list(found)
        if parts:
            of_live, of_archive = (np.concatenate(part) for part in zip(*parts, strict=True))
            of_archive = ready[of_archive]
            order = np.lexsort((live.end[of_live], archive.start[of_archive], archive.key[of_archive]))
            for at in range(0, len(order), MOST_PAIRS):
                yield of_live[order[at : at + MOST_PAIRS]], of_archive[order[at : at + MOST_PAIRS]]

    def whole(self, archive: SideMatches, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether all pairs of each archive match can be emitted; then it is not needed any more."""
        last = window_ends(archive.start, self.recency)
        return (archive.start < starts) & ((ends > last) | (ends == EVER))

    def _out(self, archive: SideMatches) -> np.ndarray:
        """For each archive match the end from which on its pairs are still to come."""
        if len(self.key) == 0:
            return np.full(len(archive), NEVER, np.int64)
        at = np.minimum(np.searchsorted(self.key, archive.key), len(self.key) - 1)
        begun = (self.key[at] == archive.key) & (self.start[at] == archive.start)
        return np.where(begun, self.end[at], NEVER)

    def _note(self, archive: SideMatches, whole: np.ndarray, ready: np.ndarray, ends: np.ndarray) -> None:
        """Record the progress: for each key, the first archive match of which not all pairs have been emitted."""
        begun = ready[~whole[ready]]
        self.key, first = np.unique(archive.key[begun], return_index=True)
        self.start, self.end = archive.start[begun[first]], ends[begun[first]]

    def chunk(self) -> StateChunk:
        return chunk_of(_NAME, pa.table({"key": self.key, "start": self.start, "end": self.end}))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        known = arrays_in(chunks, _NAME, "key", "start", "end")
        if known is not None:
            self.key, self.start, self.end = known


def _first_left(archive: SideMatches, whole: np.ndarray) -> np.ndarray:
    """For each archive match, in order of key and start: the first start of its key that is not out as a whole."""
    if len(archive) == 0:
        return archive.start
    first = np.flatnonzero(np.diff(archive.key, prepend=archive.key[0] - 1))
    least = np.minimum.reduceat(np.where(whole, EVER, archive.start), first)
    return np.repeat(least, np.diff(np.append(first, len(archive))))
