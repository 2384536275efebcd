"""The situation pattern Matcher: situations derived and related on one shard, in batch and in a stream.

State (`state`): the finished situations that a match to come may have (those of the last window) with their aggregates
so far, each symbol's in its own chunks; the situations that last; and the events of an instant that may not be
complete yet. No event of a situation is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from episode.matchers.prepare import Needs, needs_of
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.situations.adapt import Orders
from episode.matchers.situations.code.arrays import DONE, REPLAN, TOO_MANY
from episode.matchers.situations.prepare import Detector, SituationFeed, needs_beyond, prepare_feed
from episode.matchers.situations.state import SituationState, data_error
from episode.matchers.situations.values import SituationOutput
from episode.matchers.slices.slicing import ALL_TIMES, SliceBounds
from episode.matchers.state import HoldingMatcher
from episode.plan.situations.plan import SituationReport

if TYPE_CHECKING:
    from episode.matchers.situations.spec import SituationPatternSpec

SOFT_LIMIT = 1 << 17
"""Matches after which a table of them is put out."""
MOST_AT_ONCE = 1 << 25
"""Matches of one instant."""


class SituationPatternMatcher(HoldingMatcher["SituationPatternSpec", SituationState, SituationOutput]):
    """One situation pattern at work on one shard, or on one slice of it: then matches are those detected there."""

    def __init__(self, spec: SituationPatternSpec, bounds: SliceBounds = ALL_TIMES) -> None:
        self.spec = spec
        self.bounds = bounds
        self.plan = plan = spec.plan
        self.orders = Orders(plan, spec.forced)
        self.state = SituationState(plan, spec.input_schema, spec.input_columns, spec.limit)
        self.output = SituationOutput(plan, spec.output_schema, spec.input_schema)
        self._needs: Needs = needs_of(plan)
        self.detector = Detector(plan, self.orders, SOFT_LIMIT)

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        for feed, found, rows in self.matches_in(events, until):
            yield self.output.table(feed, self.state.symbols, found, rows)

    def matches_in(self, events: EventBatch, until: int) -> Iterator[tuple[SituationFeed, np.ndarray, np.ndarray]]:
        """The matches of a feed, as `SituationOutput.table` takes them."""
        together = self.state.pending.join(events, until == END_OF_TIME)
        if len(together) == 0:
            return
        needs = self._needs if together.known is None else self._needs_of_known
        feed = prepare_feed(self.plan, needs, self.state.symbols, together, until)
        for found, rows in self._matches(feed):
            if self.bounds == ALL_TIMES:
                yield feed, found, rows
                continue
            own = self.bounds.owns(feed.events.time[rows[:, 0]])
            if own.any():
                yield feed, found[own], rows[own]
        self.state.hold(feed, until)

    @cached_property
    def _needs_of_known(self) -> Needs:
        """Needs of rows for which the truth of the conditions of symbols is known."""
        return needs_beyond(self.plan)

    def _matches(self, feed: SituationFeed) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(matches, rows) as the code finds them, about SOFT_LIMIT at a time."""
        parts: list[tuple[np.ndarray, np.ndarray]] = []
        count = 0
        while True:
            status, found, rows = self.detector.detect(feed, SOFT_LIMIT - count, MOST_AT_ONCE)
            if status == TOO_MANY:
                row = feed.events.values_at(feed.last_row, dict.fromkeys([*self.plan.keys, self.plan.time]))
                raise data_error(
                    self.plan,
                    f"{row} completes more than {MOST_AT_ONCE:,} matches at once.",
                    "Shorten WITHIN, or narrow the pattern: `before` and `after` pair all situations of a window.",
                )
            if status == REPLAN:
                self.orders.make_anew()
            if len(found):
                parts.append((found.copy(), rows.copy()))
                count += len(found)
            if count and (count >= SOFT_LIMIT or status == DONE):
                found, rows = np.concatenate([f for f, _ in parts]), np.concatenate([r for _, r in parts])
                for at in range(0, count, SOFT_LIMIT):
                    yield found[at : at + SOFT_LIMIT], rows[at : at + SOFT_LIMIT]
                parts, count = [], 0
            if status == DONE:
                return

    def report(self) -> SituationReport:
        return self.orders.report()

    @property
    def wakes_at(self) -> int | None:
        """When an instant that may still grow is over."""
        pending = self.state.pending.rows
        if pending is None or len(pending) == 0:
            return None
        return int(pending.time.min())
