"""A query bound to its input: what a runtime needs to know of it, in whichever language it is written."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from episode.matchers.protocol import MatcherSpec, StateLimit
from episode.plan.event_time import Delays, EventTime
from episode.plan.output import Result
from episode.plan.pattern import PatternPlan


class Bound(Protocol):
    """What is matched over one input, with nothing left to resolve."""

    @property
    def input_columns(self) -> tuple[str, ...]: ...

    @property
    def derived(self) -> tuple[tuple[str, str], ...]:
        """(SQL, name) of input columns that are to be computed before matching."""
        ...

    def spec(self, schema: pa.Schema, limit: StateLimit | None = None) -> MatcherSpec:
        """What workers open matchers from, for input columns of an Arrow schema. limit: of the rows held for a key."""
        ...

    def event_time(self, limited: bool) -> EventTime:
        """By what the events of a stream come about in order; an error, or a warning, where it cannot run over one.

        limited: is the number of rows that a key may hold limited?
        """
        ...

    def delays(self) -> Delays:
        """How long after their times matches may be reported: for patterns over the matches of a stream."""
        ...

    def explain(self) -> list[str]:
        """The plan in words."""
        ...

    def explain_reports(self, reports: list[str]) -> list[str]:
        """What the matchers of a run did, in words, from their reports (JSON)."""
        ...


class BoundPattern(Bound, Protocol):
    """One pattern."""

    @property
    def plan(self) -> PatternPlan: ...

    @property
    def result(self) -> Result: ...


class BoundPair(Bound, Protocol):
    """Two patterns that are correlated, over their events as one input."""

    @property
    def live(self) -> BoundPattern: ...

    @property
    def archive(self) -> BoundPattern: ...

    @property
    def shared(self) -> bool:
        """Is every row of the input an event of both?"""
        ...

    @property
    def selections(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """(SQL, column of the input) over the table of either, where rows are of one of them."""
        ...

    @property
    def closed(self) -> bool:
        """Are the archive pattern's events a table that is read as it is needed, and only live ones come in?"""
        ...
