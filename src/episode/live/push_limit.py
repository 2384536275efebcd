"""Go4Risk: how many batches may wait before pushing is suspended (Lau's thesis, chapter 4), as functions of counts.

A pattern is a row of *states*: a singleton takes one event, a star any number; `B+` is a singleton and a star. Each
state counts the events that entered and left (Definition 1). The functions below are Definitions 2 to 8 and Table 4.3
over those counts; they know neither threads nor batches. docs/dev/decisions/live.md explains what is counted, and the
choices made if the thesis is ambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from episode.matchers.protocol import EventBatch, Matcher, MatcherSpec, Selective, Selectivities

SINGLETON_EXPECTED = 0.5
"""Equation 4.5: if nothing is known, a singleton is left half of the time."""
FREQUENT = 0.5
"""Share of windows with a match from which on further matches are expected (U)."""


@dataclass(frozen=True)
class StateCount:
    """One state of a pattern: the number of events it was tested with, and of those with which it was left.

    A singleton is left with an event that it takes; a star with one that it does not take.
    """

    star: bool
    entered: int = 0
    left: int = 0

    @property
    def selectivity(self) -> float:
        """Definition 1, equation 4.1; 0 if no event came in, as in Table 4.2."""
        return self.left / self.entered if self.entered else 0.0

    @property
    def expected(self) -> float:
        """The factor of equation 4.5."""
        return 1.0 if self.star else SINGLETON_EXPECTED

    @property
    def inside(self) -> int:
        """Events that a star takes before it is left, on average and rounded up (Definition 6).

        The event with which it is left belongs to the next state; so it is 1/selectivity - 1, as in the thesis's own
        example. A star that was never left has taken all events.
        """
        return -(-(self.entered - self.left) // max(1, self.left))


@dataclass(frozen=True)
class PatternCounts:
    """Counts of a running pattern: its states in order, opened windows, and matches.

    current: the number of the state of the deciding holder; 0 at the beginning of a window.
    """

    states: tuple[StateCount, ...]
    windows: int = 0
    matches: int = 0
    current: int = 0

    @property
    def match_overall(self) -> float:
        """Definition 2: matches for each window."""
        return self.matches / self.windows if self.windows else 0.0

    @property
    def remaining(self) -> float:
        """Definition 3, equation 4.3: how likely the states from the current one on are all left."""
        return prod(1.0 if state.star else state.selectivity for state in self.states[self.current :])

    @property
    def expectation(self) -> float:
        """Definition 5, equation 4.5: K."""
        return prod(state.expected for state in self.states[self.current :])

    @property
    def is_likely(self) -> bool:
        """Definition 4, equation 4.4: whether the remaining selectivity is high."""
        return self.remaining >= self.expectation

    @property
    def to_match(self) -> int:
        """Definition 7, equation 4.8: l_seq, the length of what will decide the open window."""
        return length_of(self.states[self.current :])

    @property
    def whole_match(self) -> int:
        """Definition 8, equation 4.10: l_pattern, the length of a match to come."""
        return length_of(self.states)


def length_of(states: Sequence[StateCount]) -> int:
    """The sum of equations 4.8 and 4.10: singletons take one, the first star its average, further stars nothing."""
    first = next((state for state in states if state.star), None)
    return sum(not state.star for state in states) + (0 if first is None else first.inside)


def push_bound(counts: PatternCounts, *, past_last_row: bool, future: int = 0) -> int:
    """R_bound (Table 4.3): with more waiting batches, pushing is suspended. At least 1.

    past_last_row: a match takes its events out of the window, so one more is kept at hand. future: the thesis's U, the
    number of future matches that are pushed ahead if matches are frequent. Before the first match (listing 4.2), the
    bound is the number of states.
    """
    if counts.matches == 0:
        return max(1, len(counts.states))
    bound = counts.to_match + past_last_row
    if counts.is_likely and counts.match_overall >= FREQUENT:
        bound += future * counts.whole_match
    return max(1, bound)


# Prediction for a running matcher (thesis, sections 4.4.1 and 4.4.2).
#
# One holder serves all keys of a task, since all are matched in one step. The key with the most recent events decides,
# as the busiest holder does in the thesis. Selectivities are those of all keys together.

SURE_WINDOWS = 1_000
"""Windows after which sampling the feeds is enough."""
SAMPLE_EVERY = 8
"""Every n-th feed is counted then: counting costs time."""
DECAY = 0.9
"""Factor of a key's weight after each feed."""


class Busiest:
    """The key with the most recent events, by the events of each feed."""

    def __init__(self) -> None:
        self.key: int | None = None
        self.weight = 0.0

    def note(self, events: EventBatch) -> None:
        """Count the events of a feed."""
        if not len(events):
            return
        keys, counts = events.key[events.bounds[:-1]], np.diff(events.bounds)
        self.weight = self.weight * DECAY + float(counts[keys == self.key].sum())
        most = int(counts.argmax())
        if self.key is None or counts[most] > self.weight:
            self.key, self.weight = int(keys[most]), float(counts[most])


class Prediction:
    """R_bound of one matcher; of one that does not count, the number of states of its pattern."""

    def __init__(self, spec: MatcherSpec, matcher: Matcher, future: int = 0) -> None:
        self.busiest = Busiest()
        self._states = spec.traits.states
        self._past_last_row = spec.traits.consumes
        self._future = future
        self._asked = 0
        self.take(matcher)

    def take(self, matcher: Matcher) -> None:
        """Follow another matcher from now on."""
        self._counting = matcher if isinstance(matcher, Selective) else None
        if self._counting is not None:
            self._counting.counting = True

    def current_bound(self) -> int:
        """R_bound in batches."""
        if self._counting is None:
            return max(1, self._states)
        counts = counts_of(self._counting.selectivities(), self._current(self._counting))
        self._asked += 1
        self._counting.counting = counts.windows < SURE_WINDOWS or self._asked % SAMPLE_EVERY == 0
        return push_bound(counts, past_last_row=self._past_last_row, future=self._future)

    def _current(self, matcher: Selective) -> int:
        """The state of the busiest key."""
        keys, states = matcher.current_states
        at = int(np.searchsorted(keys, self.busiest.key)) if self.busiest.key is not None else len(keys)
        return int(states[at]) if at < len(keys) and keys[at] == self.busiest.key else 0


def counts_of(found: Selectivities, current: int) -> PatternCounts:
    states = zip(found.star.tolist(), found.entered.tolist(), found.left.tolist(), strict=True)
    return PatternCounts(tuple(StateCount(*state) for state in states), found.windows, found.matches, current)
