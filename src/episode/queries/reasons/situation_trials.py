"""Situation patterns tried out over the events of one key by the engine itself, as far as the first matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.lang.situations.syntax import SituationQuery
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.queries.languages.situations import BoundSituationPattern
from episode.queries.reasons.situation_runs import Runs

MOST = 10_000
"""Matches that are counted; where there are more, an answer says 'at least'."""
MOST_SEARCHED = 2_000_000
"""Matches that are looked at for those that are at the place."""


@dataclass(frozen=True)
class Place:
    """Between two times; None: no bound."""

    first: int | None
    last: int | None

    def wider(self, reach: int | None) -> Place:
        """With so much time around it; None: all time."""
        if reach is None:
            return Place(None, None)
        return Place(
            None if self.first is None else self.first - reach, None if self.last is None else self.last + reach
        )

    def meets(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """What is at the place, in part at least."""
        found = np.ones(len(start), np.bool_)
        if self.first is not None:
            found &= end >= self.first
        return found if self.last is None else found & (start <= self.last)

    def holds(self, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """What is at the place as a whole."""
        found = np.ones(len(start), np.bool_)
        if self.first is not None:
            found &= start >= self.first
        return found if self.last is None else found & (end <= self.last)


@dataclass(frozen=True)
class Chosen:
    """Matches: for each symbol the starts, the ends, and whether a situation still lasts when the match is certain.
    detected: when it is. more: there may be more than these."""

    symbols: tuple[str, ...]
    start: np.ndarray
    end: np.ndarray
    lasting: np.ndarray
    detected: np.ndarray
    more: bool

    def __len__(self) -> int:
        return len(self.detected)

    @property
    def passes(self) -> bool:
        """Is there one? Where there was too much to search, it counts as found."""
        return self.more or len(self) > 0

    @property
    def began(self) -> np.ndarray:
        """The start of each match."""
        least: np.ndarray = self.start.min(axis=1)
        return least


@dataclass(frozen=True)
class Trials:
    """Tries queries. bind: plans one over the input of the query that is asked about. runs: the situations of all its
    symbols."""

    bind: Callable[[SituationQuery], BoundSituationPattern]
    events: EventBatch
    derived: dict[str, pa.ChunkedArray]
    runs: tuple[Runs, ...]

    def matches(self, query: SituationQuery, place: Place, whole: bool, most: int = MOST) -> Chosen:
        """At most so many matches of a query: those that are at the place as a whole, or in part."""
        bound = self.bind(query)
        plan = bound.plan
        rows = self._rows(place if whole else place.wider(plan.within))
        table = self.events.table.slice(rows.start, rows.stop - rows.start)
        for sql, name in plan.derived:
            table = table.append_column(name, self.derived[sql].slice(rows.start, rows.stop - rows.start))
        spec = bound.spec(table.schema)
        chosen = table.select(list(plan.input_columns)).combine_chunks()
        batch = EventBatch(chosen, np.zeros(table.num_rows, np.int64), np.ascontiguousarray(self.events.time[rows]))
        found: list[list[np.ndarray]] = []
        count = searched = 0
        more = False
        try:
            for feed, slots, at in spec.open().matches_in(batch, END_OF_TIME):
                detected = batch.time[at[:, 0]]
                start = feed.buffers.start[slots[:, :-1]]
                which = np.flatnonzero((place.holds if whole else place.meets)(start.min(axis=1), detected))
                lasting = (slots[which, -1:] >> np.arange(len(plan.symbols)) & 1).astype(np.bool_)
                found.append([start[which], feed.buffers.end[slots[which, :-1]], lasting, detected[which]])
                count += len(which)
                searched += len(slots)
                if count > most or searched > MOST_SEARCHED:
                    more = True
                    break
        except EpisodeDataError:
            more = True
        width = len(plan.symbols)
        nothing = [np.zeros((0, width), np.int64)] * 2 + [np.zeros((0, width), np.bool_), np.zeros(0, np.int64)]
        start, end, lasting, detected = (np.concatenate(parts)[:most] for parts in zip(nothing, *found, strict=True))
        return Chosen(plan.symbols, start, end, lasting, detected, more)

    def _rows(self, place: Place) -> slice:
        """The events of the place, from the beginning of the situations that are open where it begins."""
        time = self.events.time
        high = len(time) if place.last is None else int(np.searchsorted(time, place.last, side="right"))
        if place.first is None:
            return slice(0, high)
        low = int(np.searchsorted(time, place.first, side="left"))
        begun = low
        for runs in self.runs:
            open_ = runs.first[(runs.first < low) & ((runs.last >= low) | runs.lasting)]
            begun = min(begun, int(open_.min())) if len(open_) else begun
        return slice(begun, max(begun, high))
