"""Situations of a key, searches for their matches by the engine itself, up to the first ones; both in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from episode.errors import EpisodeDataError
from episode.lang.situations.syntax import Constraint, SituationQuery
from episode.matchers.prepare import needs_of, prepare
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.situations.plan import SituationPlan
from episode.see.reasons.finding import Finding, Words, plain
from episode.see.reasons.trials import MOST, Candidates, TimeRange, Trials
from episode.words import join_words

MOST_SEARCHED = 2_000_000
"""Matches that are searched for those at the place."""


@dataclass(frozen=True)
class SituationRuns:
    """Situations of one symbol in order, of any duration: runs of events for which a condition holds.

    start, end: times; the end of a situation that still lasts is the time of the last event, and `lasting` is true.
    first, last: the rows with which they begin and end."""

    start: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray
    lasting: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def at(self, which: np.ndarray) -> SituationRuns:
        return SituationRuns(*(column[which] for column in vars(self).values()))

    def meeting(self, place: TimeRange) -> SituationRuns:
        """Return the situations that are at the place at least in part."""
        end = self.end if place.first is None else np.where(self.lasting, np.maximum(self.end, place.first), self.end)
        return self.at(place.meets(self.start, end))

    def beginning_in(self, place: TimeRange) -> SituationRuns:
        """Return the situations that do not begin before the place."""
        return self if place.first is None else self.at(self.start >= place.first)

    def long_enough(self, at_least: int | None, at_most: int | None) -> SituationRuns:
        """Return the situations with a duration that is allowed, or may still be."""
        duration = self.end - self.start
        return self.at(TimeRange(at_least, at_most).holds(duration, duration))


def runs_of(plan: SituationPlan, events: EventBatch) -> tuple[SituationRuns, ...]:
    """Return the situations of each symbol in the events of one key."""
    bits = prepare(plan, needs_of(plan), events.table, events.key).bits
    return tuple(_runs(bits & np.uint64(1 << number) != 0, events.time) for number in range(len(plan.symbols)))


def _runs(holds: np.ndarray, time: np.ndarray) -> SituationRuns:
    edges = np.diff(np.concatenate([[False], holds, [False]]).astype(np.int8))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lasting = last == len(holds)
    last = np.where(lasting, len(holds) - 1, last)
    start, end = time[first], time[last]
    real = (start < end) | lasting  # a run that ends at the time of its start is not a situation
    return SituationRuns(start[real], end[real], first[real], last[real], lasting[real])


@dataclass(frozen=True)
class SituationCandidates(Candidates):
    """Matches from their first start to when they are detected. starts, ends: of each situation of each match; lasting:
    does it still last when the match is certain?"""

    symbols: tuple[str, ...]
    starts: np.ndarray
    ends: np.ndarray
    lasting: np.ndarray


@dataclass(frozen=True)
class SituationTrials(Trials[SituationQuery, SituationPlan]):
    """Searches for matches at a place. runs: the situations of all symbols of the query that is asked about."""

    runs: tuple[SituationRuns, ...]

    def candidates(self, query: SituationQuery, place: TimeRange, whole: bool, most: int = MOST) -> SituationCandidates:
        """Return at most a number of matches of a query. whole: only those that are at the place as a whole."""
        plan = self.bind(query)
        rows = self._rows(place if whole else place.wider(plan.within))
        table = self.columns(plan.derived, rows)
        spec = SituationPatternSpec(plan.for_workers(), table.schema)
        batch = self.batch(table, plan.input_columns, rows)
        width = len(plan.symbols)
        nothing = [np.zeros((0, width), np.int64)] * 2 + [np.zeros((0, width), np.bool_), np.zeros(0, np.int64)]
        found, count, searched, more = [nothing], 0, 0, False
        try:
            for feed, slots, at in spec.open().matches_in(batch, END_OF_TIME):
                detected = batch.time[at[:, 0]]
                starts = feed.starts[slots[:, :-1]]
                which = np.flatnonzero((place.holds if whole else place.meets)(starts.min(axis=1), detected))
                lasting = (slots[which, -1:] >> np.arange(width) & 1).astype(np.bool_)
                found.append([starts[which], feed.ends[slots[which, :-1]], lasting, detected[which]])
                count += len(which)
                searched += len(slots)
                if count > most or searched > MOST_SEARCHED:
                    more = True
                    break
        except EpisodeDataError:
            more = True
        starts, ends, lasting, detected = (np.concatenate(parts)[:most] for parts in zip(*found, strict=True))
        return SituationCandidates(starts.min(axis=1), detected, more, plan.symbols, starts, ends, lasting)

    def _rows(self, place: TimeRange) -> slice:
        """Return the events of the place, from the beginning of the situations that are open where it begins."""
        rows = place.rows(self.events.end)
        low = begun = rows.start
        if place.first is not None:
            for runs in self.runs:
                open_ = runs.first[(runs.first < low) & ((runs.last >= low) | runs.lasting)]
                begun = min(begun, int(open_.min())) if len(open_) else begun
        return slice(begun, rows.stop)


@dataclass(frozen=True)
class SituationWords(Words):
    """Situations and their matches in words. times: of the rows of the table, as integers."""

    query: SituationQuery
    times: np.ndarray

    def time_at(self, image: int) -> Any:
        """Return the time of the events that has an integer."""
        row = int(np.searchsorted(self.times, image))
        return self.time(row) if row < len(self.times) else image

    def moment_at(self, image: int) -> str:
        """Return the time that has an integer in words."""
        return str(plain(self.time_at(image)))

    def situation(self, symbol: str, start: int, end: int, lasting: bool) -> str:
        """Return `A from 3 to 7`."""
        until = f"on, which still lasts at {self.moment_at(end)}" if lasting else f"to {self.moment_at(end)}"
        if lasting and end <= start:
            until = "on"
        return f"{symbol} from {self.moment_at(start)} {until}"

    def run(self, symbol: str, runs: SituationRuns, number: int) -> str:
        return self.situation(symbol, int(runs.start[number]), int(runs.end[number]), bool(runs.lasting[number]))

    def match(self, found: SituationCandidates, number: int) -> str:
        parts = []
        for index, symbol in enumerate(found.symbols):
            lasts = bool(found.lasting[number, index])
            end = int(found.end[number] if lasts else found.ends[number, index])
            parts.append(self.situation(symbol, int(found.starts[number, index]), end, lasts))
        return join_words(parts)

    def constraint(self, constraint: Constraint) -> str:
        """Return a constraint as the query writes it."""
        return " ".join(self.query.source.text_at(constraint.span).split())

    def report_match(self, found: SituationCandidates) -> Finding:
        """Report that there is a match at the place."""
        number = int(np.argmin(found.start))
        return self._report("found", "There is a match", found, number, found.in_all)

    def report_elsewhere(self, found: SituationCandidates, place: TimeRange, the: str = "The") -> Finding:
        """Report the match nearest to the place; none if there were too many to search."""
        if len(found) == 0:
            message = "There is no match, but too many combinations of situations to find what prevents one."
            return Finding("bound", message, self.query.source.pattern)
        before = 0 if place.first is None else place.first - found.end
        after = 0 if place.last is None else found.start - place.last
        number = int(np.argmin(np.broadcast_to(np.maximum(before, after), len(found))))
        return self._report("elsewhere", f"{the} nearest match is elsewhere", found, number)

    def _report(self, kind: str, opening: str, found: SituationCandidates, number: int, more: str = "") -> Finding:
        detected = int(found.end[number])
        message = f"{opening}: {self.match(found, number)}, detected at {self.moment_at(detected)}{more}."
        situations = {
            symbol: [
                self.time_at(int(found.starts[number, index])),
                None if found.lasting[number, index] else self.time_at(int(found.ends[number, index])),
            ]
            for index, symbol in enumerate(found.symbols)
        }
        data: dict[str, object] = {"situations": situations, "detected_at": self.time_at(detected)}
        return Finding(kind, message, at=self.time_at(int(found.start[number])), count=len(found), data=data)
