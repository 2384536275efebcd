"""A pattern over the events that are given to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.lexer import tokenize
from episode.lang.table_patterns import pattern_of
from episode.plan.parameters import check_arguments
from episode.queries.keywords import check_pattern_tables
from episode.queries.language import Given
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.options import Options
from episode.queries.origins import PlacedPattern, QueryOrigin, remember
from episode.queries.planning import PatternEvents, events_of_classes, plan_over, warn_of_input
from episode.queries.tables import Table, checked_tables, is_value, keyword_tables, like, one_table, session_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.lang.events.syntax import Strategy
    from episode.lang.rows.syntax import MatchRecognize
    from episode.lang.table_patterns import PatternQuery
    from episode.plan.pattern import RunOptions
    from episode.queries.live_start import Into, LiveSettings
    from episode.queries.local import LocalPlan
    from episode.spark.live import LiveQuery
    from episode.spark.query import PlannedQuery


Reader = Callable[[str, "Strategy | None"], "PatternQuery | MatchRecognize"]


@dataclass(frozen=True)
class MatchQuery:
    """A pattern over one table of events, or over one table per class; nothing is planned yet.

    events: None if there is a table per class. read: what reads the pattern, if not every language will do. function:
    the public function that was called.
    """

    events: Table | None
    text: str
    given: Given
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object] = field(default_factory=dict)
    read: Reader = pattern_of
    function: str = "match"

    def query(self) -> Any:
        if self.events is None and (not isinstance(self.text, str) or not self.tables):
            hint = "Write match(df, 'PATTERN …', time='ts') or match('PATTERN …', time='ts', A=df_a, B=df_b)."
            raise EpisodeAnalysisError(f"{self.function} needs events and a pattern.", hint=hint)
        if self.events is not None and self.tables:
            check_pattern_tables(self.function, self.tables, None)
            message = f"{self.function} has one table of all events, and further tables: {', '.join(self.tables)}."
            raise EpisodeAnalysisError(message, hint="Give one of the two.")
        text = text_of(self.text)
        query = self.read(text, strategy_of(self.given.strategy))
        check_arguments(text, tokenize(text), self.arguments)
        language = language_of(query)
        language.check_arguments(self.given)
        language.check_given_events(query)
        if self.events is None and language.classes(query):
            check_pattern_tables(self.function, self.tables, language.classes(query))
        return query

    def origin(self) -> QueryOrigin:
        query = self.query()
        session, events, planned = self._plan(query)
        warn_of_input(query, events, planned)
        return QueryOrigin(text_of(self.text), session, (PlacedPattern(query, (events,), planned, self._run),))

    def frame(self) -> DataFrame:
        """The matches, lazily, with a note of this call."""
        origin = self.origin()
        return remember(origin.pattern().planned.frame(), origin)

    def local(self) -> Any:
        return like(self.events, self._plan_local().run())

    @property
    def is_local(self) -> bool:
        return self.spark is None and self.events is not None and is_value(self.events)

    def local_origin(self) -> QueryOrigin:
        return QueryOrigin(text_of(self.text), None, (self._plan_local().placed,))

    def _plan_local(self) -> LocalPlan:
        from episode.queries.local import plan_match

        self.query()
        if self.events is None:
            hint = "Put the events into one table with a type column: Events(table, type_column=…), or use Spark."
            raise EpisodeUnsupportedError("In process, a pattern is over one table of all events.", hint=hint)
        return plan_match(self.events, text_of(self.text), self.given, self.options, self.arguments)

    def start(self, into: Into, settings: LiveSettings) -> LiveQuery:
        """Refuse: live tasks read a declared stream, which a statement names."""
        hint = "Name the stream in the pattern: episode.query('FROM stream PATTERN …')."
        raise EpisodeUnsupportedError("A live query is a statement over a declared stream.", hint=hint)

    def _plan(self, query: object) -> tuple[SparkSession, PatternEvents, PlannedQuery]:
        self.options.check_use([language_of(query)])
        session, events = self.events_of(query)
        planned = plan_over(session, query, events, self._run)
        self.options.check_streams([planned])
        return session, events, planned

    @property
    def _run(self) -> RunOptions:
        detect = self.given.detect
        return (self.options if detect is None else replace(self.options, detect=detect)).run(1, self.arguments)

    def events_of(self, query: object) -> tuple[SparkSession, PatternEvents]:
        """The session, and the events of the pattern in it."""
        if self.events is not None:
            session, frame = one_table(self.spark, self.events)
            return session, PatternEvents(frame, self.given)
        language = language_of(query)
        if not language.classes(query):
            message = f"{language.one.capitalize()} is matched over one DataFrame of events."
            raise EpisodeAnalysisError(message, hint="Write match(df, 'DEFINE … PATTERN …', time='ts').")
        tables = checked_tables(self.tables)
        session = session_of(self.spark, tables)
        frames = keyword_tables(session, tables)
        return session, events_of_classes(session, query, frames, self.given)
