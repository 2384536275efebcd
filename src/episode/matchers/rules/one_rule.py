"""A rule as one of many: whatever its language, its matches are a key, two times, and its own columns as JSON.

What Spark computes around a single query's matcher is computed here: rules come and go while Spark's plan stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.aside import Feed
from episode.matchers.protocol import EventBatch, Matcher, MatcherSpec

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


@dataclass(frozen=True)
class RuleFeed(Feed):
    """A feed of the matcher of a rule's pattern, with what the rule computes before and after it."""

    rule: RuleSpec

    def into(self, matcher: Matcher) -> Iterator[pa.Table]:
        for table in Feed(self._read(), self.until, self.final, self.done).into(matcher):
            with _errors_of_data():
                finished = self.rule.finish(table)
            if finished.num_rows:
                yield finished

    def _read(self) -> EventBatch:
        """Return the events with the columns that the pattern reads."""
        events = self.events
        columns = self.rule.inner.input_columns or tuple(events.table.column_names[:1])
        if not self.rule.derives:
            return events.select(columns)
        with _errors_of_data():
            return EventBatch(self.rule.derive(events.table).select(columns), events.key, events.time)


@contextmanager
def _errors_of_data() -> Iterator[None]:
    """Raise what Arrow refuses to compute as an error of the data."""
    try:
        yield
    except pa.ArrowInvalid as error:
        raise EpisodeDataError(f"A value of the rule cannot be computed: {error}") from None
