"""A pattern of which only the matches that the other one asks for are found (PCQ, sections 3.3, 4.3 and 4.4).

Its rows wait in the recent buffer. A match of the other pattern asks for matches that start (archive) or end (live) in
a region. They are found from the rows of that region, and from those that follow; in a stream, when these have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time
from typing import TYPE_CHECKING

import numpy as np

from episode.matchers.correlation.answers import Answers, Least
from episode.matchers.correlation.matches import SideMatches, together
from episode.matchers.correlation.older import OlderRows
from episode.matchers.correlation.recent import RecentBuffer
from episode.matchers.correlation.segments import FIRST_ID, RegionDemands, Segments, looked_up
from episode.matchers.correlation.side import RecencySide
from episode.matchers.held import least_by_key
from episode.matchers.protocol import END_OF_TIME, EventBatch, Snapshot, StateChunk
from episode.matchers.times import EVER, NEVER

if TYPE_CHECKING:
    from episode.matchers.correlation.spec import CorrelationSpec, SidePlan


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

    @property
    def segments(self) -> Segments:
        return self.answers.segments

    @property
    def fed_rows(self) -> int:
        return self.answers.fed_rows

    def read_older(self, older: OlderRows) -> None:
        """Rows that are not in the buffer any more are in an archive."""
        self.answers.older = older

    # ---- all matches, or only some -----------------------------------------------------------------------------------

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
        elif len(self.segments):  # `until` may pass windows: only when both have all their rows
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
        """From now on only what is asked for is found. Of the arguments `Answers.detach` says more."""
        if not self.everything:
            return
        self.everything = False
        if self._asked_from is not None:  # nothing has come since all matches were asked for
            self._asked_from = None
            return
        self.answers.detach(until, asked, wanted)

    def _known_keys(self) -> np.ndarray:
        keys = np.union1d(self.recent.keys, self.segments.key)
        older = self.answers.older
        return keys if older is None else np.union1d(keys, older.past.key)

    # ---- one round -------------------------------------------------------------------------------------------------

    def answer(self, rows: EventBatch, until: int, demands: RegionDemands) -> tuple[SideMatches, np.ndarray]:
        """With new rows of the side, the matches that are asked for and certain now; and the segments of the demands.

        With the cache matches have their keys, and demands share segments; without it matches have the numbers of
        their segments in the place of keys.
        """
        began = thread_time()
        self.recent.add(rows)
        self.buffering += thread_time() - began
        ids = self.answers.open(demands, until)
        return together([SideMatches.none(self.schema), *self.answers.advance(until)]), ids

    # ---- after a round ---------------------------------------------------------------------------------------------

    def trim(self, until: int, least: Least) -> None:
        """Keep the rows that a demand to come may need."""
        began = thread_time()
        self._trim(until, least)
        self.buffering += thread_time() - began

    def _trim(self, until: int, least: Least) -> None:
        if until == END_OF_TIME:
            self.recent.forget()
            self.answers.forget()
            return
        keys, answers = self.recent.keys, self.answers
        bound = least(keys)
        if self.cached:
            covered = answers.covered.until(keys)
            self._forget_covered(keys, covered > bound, least)
            bound = np.maximum(bound, covered)
            if len(self.segments):
                bound = np.maximum(bound, looked_up(*answers.pending(), keys, NEVER))
        first = answers.first_needed(bound)
        self.recent.keep_from(first if answers.older is None else answers.older.cut(self.recent, first, until))

    def _forget_covered(self, keys: np.ndarray, useful: np.ndarray, least: Least) -> None:
        """What is known is remembered of rows that may be asked for again; those in an archive, too."""
        covered = self.answers.covered
        keep = np.isin(covered.key, keys[useful])
        if self.answers.older is not None:
            keep |= ~np.isin(covered.key, keys) & (covered.time > least(covered.key))
        covered.keep(keep)

    def starts_from(self, keys: np.ndarray, until: int) -> np.ndarray:
        """What is still to come of segments; all other starts that were asked for are decided."""
        bounds = np.full(len(keys), EVER, np.int64)
        if len(self.segments):
            bounds = looked_up(*least_by_key(self.segments.key, self.answers.open_starts(self.segments)), keys, EVER)
        return np.minimum(bounds, super().starts_from(keys, until)) if self.everything else bounds

    @property
    def live_keys(self) -> np.ndarray:
        own, known = self.matcher.live_keys, self.answers.covered.key
        return np.unique(np.concatenate([self.recent.keys, self.segments.key, known, own[own < FIRST_ID]]))

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
        own = self.answers.chunks({"everything": str(self.everything)})
        return Snapshot((*inner.put, *recent.put, *own), (*inner.removed, *recent.removed))

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        super().restore(chunks)
        remembered = self.answers.restore(chunks)
        if remembered is not None:
            self.recent.restore(chunks)
            self.everything = remembered[b"everything"] == b"True"
