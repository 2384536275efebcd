"""What is predicted of a matcher at work: R_bound, by what its search counts (thesis, sections 4.4.1 and 4.4.2).

One holder serves all keys of a task, as all of them are matched in one step; the key with the most events of late is
the one whose state decides, as in the thesis the busiest holder. Selectivities are those of all keys together.
"""

from __future__ import annotations

import numpy as np

from episode.live.switch import PatternCounts, StateCount, bound_of
from episode.matchers.correlation.spec import CorrelationSpec
from episode.matchers.protocol import EventBatch, Matcher, MatcherSpec, Selective, Selectivities
from episode.plan.pattern import PatternPlan
from episode.plan.rows.plan import RowPatternPlan, SkipTo

SURE = 1_000
"""Windows after which a sample of the feeds is enough to count on."""
SAMPLED = 8
"""Of so many feeds, one is counted then: counting costs time."""
FADES = 0.9
"""What is left of a key's weight after each feed."""


class Busiest:
    """The key with the most events of late. It looks at the events of a feed only."""

    def __init__(self) -> None:
        self.key: int | None = None
        self.weight = 0.0

    def note(self, events: EventBatch) -> None:
        """Events that are fed."""
        if not len(events):
            return
        keys, counts = events.key[events.bounds[:-1]], np.diff(events.bounds)
        self.weight = self.weight * FADES + float(counts[keys == self.key].sum())
        most = int(counts.argmax())
        if self.key is None or counts[most] > self.weight:
            self.key, self.weight = int(keys[most]), float(counts[most])


class Prediction:
    """R_bound of one matcher. Where it counts nothing, the number of the pattern's states is the bound."""

    def __init__(self, spec: MatcherSpec, matcher: Matcher, future: int = 0) -> None:
        self.busiest = Busiest()
        self._states = states_of(spec)
        self._past_last_row = skips_past_last_row(spec)
        self._future = future
        self._asked = 0
        self.take(matcher)

    def take(self, matcher: Matcher) -> None:
        """The matcher at work, from now on."""
        self._counting = matcher if isinstance(matcher, Selective) else None
        if self._counting is not None:
            self._counting.counting = True

    def bound(self) -> int:
        """R_bound in slices, as things stand."""
        if self._counting is None:
            return max(1, self._states)
        counts = counts_of(self._counting.selectivities(), self._current(self._counting))
        self._asked += 1
        self._counting.counting = counts.windows < SURE or self._asked % SAMPLED == 0
        return bound_of(counts, past_last_row=self._past_last_row, future=self._future)

    def _current(self, matcher: Selective) -> int:
        """The state of the busiest key."""
        keys, states = matcher.current_states
        at = int(np.searchsorted(keys, self.busiest.key)) if self.busiest.key is not None else len(keys)
        return int(states[at]) if at < len(keys) and keys[at] == self.busiest.key else 0


def counts_of(found: Selectivities, current: int) -> PatternCounts:
    """What a matcher has counted, for the switch."""
    states = zip(found.star.tolist(), found.entered.tolist(), found.left.tolist(), strict=True)
    return PatternCounts(tuple(StateCount(*state) for state in states), found.windows, found.matches, current)


def states_of(spec: MatcherSpec) -> int:
    """How many states a pattern has: its labels, variables or symbols; those of both patterns where two are
    correlated."""
    if isinstance(spec, CorrelationSpec):
        return states_of(spec.live.spec) + states_of(spec.archive.spec)
    plan = getattr(spec, "plan", None)
    return len(plan.labels.names) if isinstance(plan, PatternPlan) else 1


def skips_past_last_row(spec: MatcherSpec) -> bool:
    """Whether the events of a match are gone with it."""
    plan = getattr(spec, "plan", None)
    return isinstance(plan, RowPatternPlan) and plan.rules.skip_to is SkipTo.PAST_LAST_ROW
