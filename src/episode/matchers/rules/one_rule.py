"""A rule as one of many: whatever its language, its matches are a key, two times, and its own columns as JSON.

What Spark computes around a single query's matcher is computed here: rules come and go while Spark's plan stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.protocol import (
    EventBatch,
    Forgets,
    InputOrder,
    Matcher,
    MatcherSpec,
    Snapshot,
    StateChunk,
    Traits,
)

MATCH_START, MATCH_END, RESULT = "match_start", "match_end", "result"
Computing = Callable[[pa.Table], pa.Table]


@dataclass(frozen=True)
class RuleSpec:
    """A planned rule: the spec of its pattern, and what is computed before and after it.

    derives: the names of columns that `derive` adds to events, for the pattern to read. finish: from the matcher's
    tables the keys, match_start, match_end and result of matches, some of which may be left out; output_schema: of
    these. result_schema: of what the result is made of.
    """

    inner: MatcherSpec
    derives: tuple[str, ...]
    derive: Computing
    finish: Computing
    output_schema: pa.Schema
    result_schema: pa.Schema

    @property
    def input_order(self) -> InputOrder:
        return self.inner.input_order

    @property
    def input_columns(self) -> tuple[str, ...]:
        return self.inner.input_columns

    @property
    def input_schema(self) -> pa.Schema:
        return self.inner.input_schema

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    @property
    def traits(self) -> Traits:
        return self.inner.traits

    def open(self) -> RuleMatcher:
        return RuleMatcher(self)


class RuleMatcher:
    """The Matcher of a rule: that of its pattern, with what comes before and after it."""

    keyed = False

    def __init__(self, spec: RuleSpec) -> None:
        self.spec = spec
        self.matcher: Matcher = spec.inner.open()

    def feed(self, events: EventBatch, until: int) -> Iterator[pa.Table]:
        yield from self._finished(self.matcher.feed(self._own(events), until))

    def finish(self) -> Iterator[pa.Table]:
        yield from self._finished(self.matcher.finish())

    def _own(self, events: EventBatch) -> EventBatch:
        """The events with the columns that the pattern reads."""
        columns = self.spec.inner.input_columns or tuple(events.table.column_names[:1])
        if not self.spec.derives:
            return events.select(columns)
        with _errors_of_data():
            return EventBatch(self.spec.derive(events.table).select(columns), events.key, events.time)

    def _finished(self, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            with _errors_of_data():
                finished = self.spec.finish(table)
            if finished.num_rows:
                yield finished

    def snapshot(self) -> Snapshot:
        return self.matcher.snapshot()

    def restore(self, chunks: Sequence[StateChunk]) -> None:
        self.matcher.restore(chunks)

    def forget(self, keys: np.ndarray) -> None:
        """What `Forgets` says."""
        assert isinstance(self.matcher, Forgets)
        self.matcher.forget(keys)

    @property
    def state_rows(self) -> int:
        return self.matcher.state_rows

    @property
    def given_up(self) -> int:
        return self.matcher.given_up

    @property
    def live_keys(self) -> np.ndarray:
        return self.matcher.live_keys

    @property
    def wakes_at(self) -> int | None:
        return self.matcher.wakes_at

    @property
    def open_from(self) -> tuple[np.ndarray, np.ndarray]:
        return self.matcher.open_from


@contextmanager
def _errors_of_data() -> Iterator[None]:
    """What Arrow refuses to compute is an error of the data."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise EpisodeDataError(f"A value of the rule cannot be computed: {error}") from None
