"""The matches of one partition as the search found them, and the start rows that were never tried because of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from episode.matchers.protocol import EventBatch
from episode.matchers.rows.arrays import FoundPaths
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.output import RowMode
from episode.plan.rows.plan import MatchMode, RowPatternPlan, SkipTo


@dataclass(frozen=True)
class RowMatch:
    """Rows from start on, and the instruction that took each of them; none: an empty match."""

    start: int
    instructions: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.instructions)


@dataclass(frozen=True)
class Made:
    """The matches of a partition in order of start, then of length.

    start, length: of each; path_from, path: the instructions of match i are path[path_from[i]:path_from[i] + length].
    resumed: where the search went on after the matches with this start, for the last match with each start.
    """

    start: np.ndarray
    length: np.ndarray
    path_from: np.ndarray
    path: np.ndarray

    def __len__(self) -> int:
        return len(self.start)

    def match(self, number: int) -> RowMatch:
        begin = int(self.path_from[number])
        length = int(self.length[number])
        return RowMatch(int(self.start[number]), tuple(self.path[begin : begin + length].tolist()))

    def beginning_at(self, row: int) -> list[RowMatch]:
        """The matches with a start, the shortest first."""
        begin, end = np.searchsorted(self.start, [row, row + 1])
        return [self.match(number) for number in range(int(begin), int(end))]

    def before(self, row: int) -> int:
        """How many matches begin before a row."""
        return int(np.searchsorted(self.start, row))

    def ending_at(self, row: int) -> RowMatch | None:
        """The first match whose last row this is."""
        found = np.flatnonzero((self.start + self.length - 1 == row) & (self.length > 0))
        return self.match(int(found[0])) if len(found) else None


def matches_of(spec: RowPatternSpec, events: EventBatch, mode: MatchMode | None = None) -> Made:
    """All matches of events of one key. mode: instead of the query's own."""
    plan = replace(spec.plan, output=replace(spec.plan.output, rows=RowMode.ONE_ROW, timed_out=False))
    if mode is not None:
        plan = replace(plan, rules=replace(plan.rules, mode=mode))
    found = list(replace(spec, plan=plan).open().found(events))
    return _joined(found)


def _joined(found: list[FoundPaths]) -> Made:
    """What the search handed out in parts, in order."""
    starts = [one.start.copy() for one in found]
    lengths = [one.length.copy() for one in found]
    used = np.cumsum([0, *(len(one.path) for one in found)])
    froms = [one.path_from[: len(one.start)] + base for one, base in zip(found, used[:-1], strict=True)]
    paths = [one.path.copy() for one in found]
    nothing = np.zeros(0, np.int64)
    start, length, path_from = (np.concatenate([nothing, *parts]) for parts in (starts, lengths, froms))
    order = np.lexsort((length, start))
    return Made(start[order], length[order], path_from[order], np.concatenate([nothing.astype(np.int32), *paths]))


@dataclass(frozen=True)
class Tried:
    """Which start rows the search tried. longest: of each start row with a match the longest one, whatever the mode
    reports."""

    plan: RowPatternPlan
    longest: Made

    def skipped_by(self, row: int) -> RowMatch | None:
        """The match because of which a row was not tried."""
        at = self.longest.before(row) - 1
        if at < 0:
            return None
        match = self.longest.match(at)
        return match if row < self._resumed(match) else None

    def _resumed(self, match: RowMatch) -> int:
        """The start row after a match."""
        rules = self.plan.rules
        if match.length == 0 or rules.skip_to is SkipTo.NEXT_ROW:
            return match.start + 1
        if rules.skip_to is SkipTo.PAST_LAST_ROW:
            return match.start + match.length
        members = self.plan.labels.members(rules.skip_label)
        instructions = self.plan.program.instructions
        places = [
            place for place, at in enumerate(match.instructions) if members is None or instructions[at].label in members
        ]
        return match.start + (places[0] if rules.skip_to is SkipTo.FIRST_LABEL else places[-1])


def tried_by(spec: RowPatternSpec, events: EventBatch, made: Made) -> Tried:
    """made: the matches that the query reports. INCREMENTAL MATCH leaves some out that the search passed over."""
    if spec.plan.rules.mode is MatchMode.INCREMENTAL and spec.plan.rules.skip_to is not SkipTo.NEXT_ROW:
        made = matches_of(spec, events, MatchMode.MAXIMAL)
    return Tried(spec.plan, made)
