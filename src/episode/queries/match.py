"""A pattern over the events that are given to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError
from episode.lang.events.syntax import EventQuery, Strategy
from episode.lang.situations.syntax import SituationQuery
from episode.lang.table_patterns import pattern_of
from episode.queries.inputs import Table, keyword_tables, one_table, session_of
from episode.queries.options import EVENTS, SITUATIONS, Options
from episode.queries.patterns import plan_events, plan_situations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.spark.pattern_query import PatternQuery


@dataclass(frozen=True)
class MatchQuery:
    """A call of `match`, whose arguments these are: events and a pattern, or a pattern and a table per class."""

    events: DataFrame | str
    text: str | None
    time: str | None
    start: str | None
    key: str | Sequence[str]
    type_column: str | None
    strategy: str | None
    detect: str | None
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]

    def planned(self) -> PatternQuery:
        if self.text is None and (not isinstance(self.events, str) or not self.tables):
            raise EpisodeAnalysisError(
                "match needs events and a pattern.",
                hint="Write match(df, 'PATTERN …', time='ts') or match('PATTERN …', time='ts', A=df_a, B=df_b).",
            )
        if self.text is not None and self.tables:
            raise EpisodeAnalysisError(
                f"match has one DataFrame of all events, and tables besides: {', '.join(self.tables)}.",
                hint="Give one of the two.",
            )
        query = pattern_of(str(self.events) if self.text is None else self.text, _strategy(self.strategy))
        planned = self._situations(query) if isinstance(query, SituationQuery) else self._events(query)
        self.options.check_streams([planned])
        return planned

    @property
    def _keys(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def _situations(self, query: SituationQuery) -> PatternQuery:
        if self.text is None:
            raise EpisodeAnalysisError(
                "A situation pattern is matched over one DataFrame of events.",
                hint="Write match(df, 'DEFINE … PATTERN …', time='ts').",
            )
        self.options.check_use([SITUATIONS])
        _refuse_options(SITUATIONS, start=self.start, type_column=self.type_column, strategy=self.strategy)
        session, frame = one_table(self.spark, self.events)
        time, keys = self.time or query.input.time, self._keys or query.input.partition_by
        options = self.options if self.detect is None else replace(self.options, detect=self.detect)
        return plan_situations(session, query, frame, time, keys, options, options.counters)

    def _events(self, query: EventQuery) -> PatternQuery:
        from episode.spark.event_pattern import EventOptions, EventSource, one_stream

        self.options.check_use([EVENTS])
        _refuse_options(EVENTS, detect=self.detect)
        if query.input.table is not None:
            raise query.source.error(
                EpisodeAnalysisError,
                "match is given its events; FROM is for SQL.",
                query.input.table_span,
                "Leave FROM out, or run the text with episode.sql.",
            )
        wanted = EventOptions(
            self.time or query.input.time,
            self.start or query.input.start,
            self._keys or query.input.partition_by,
            self.type_column or query.input.type_column,
            _strategy(self.strategy),
        )
        if self.text is None:
            session = session_of(self.spark, self.tables)
            source = one_stream(query, keyword_tables(session, self.tables), wanted)
        else:
            session, frame = one_table(self.spark, self.events)
            source = EventSource(frame, {})
        return plan_events(session, query, source, wanted, self.options, self.options.counters)


def _refuse_options(what: str, **given: str | None) -> None:
    """Options of the other kind of pattern."""
    for name, value in given.items():
        if value is not None:
            raise EpisodeAnalysisError(f"{name}={value!r} has no meaning for a{'n' if what[0] in 'e' else ''} {what}.")


def _strategy(name: str | None) -> Strategy | None:
    if name is None:
        return None
    try:
        return Strategy(name.lower().replace("_", "-"))
    except ValueError:
        known = ", ".join(strategy.value for strategy in Strategy)
        raise EpisodeAnalysisError(f"There is no selection strategy {name!r}.", hint=f"There are: {known}.") from None
