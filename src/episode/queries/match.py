"""A pattern over the events that are given to it, and `expand`, over its collapsed matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.lexer import tokenize
from episode.lang.table_patterns import clause_of, pattern_of
from episode.plan.events.classes import one_stream_of
from episode.plan.options import Options
from episode.plan.parameters import check_arguments
from episode.plan.schema import PARTITION_COLUMN
from episode.queries.events import check_pattern_tables
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.options import check_streams, check_use, refuse_options
from episode.queries.origins import PlacedPattern, QueryOrigin, remember
from episode.queries.planning import PatternEvents, events_of_classes, plan_over, warn_of_input
from episode.queries.tables import Table, checked_tables, is_value, keyword_tables, like, one_table, session_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.plan.options import RunOptions
    from episode.queries.live_start import Into, LiveSettings
    from episode.queries.local import LocalPlan
    from episode.spark.live import LiveQuery
    from episode.spark.query import PlannedQuery


@dataclass(frozen=True)
class MatchQuery:
    """A pattern over one table of events, or over one table per class; nothing is planned yet.

    events: None if there is a table per class. method: of DataFrames, if it is for patterns of one language only.
    function: the public function that was called.
    """

    events: Table | None
    text: str
    given: Given
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object] = field(default_factory=dict)
    method: str | None = None
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
        rows = self.method == "match_recognize"
        query = clause_of(text) if rows else pattern_of(text, strategy_of(self.given.strategy))
        language = language_of(query)
        if self.method not in (None, language.method):
            raise EpisodeAnalysisError(f"This is {language.one}.", hint=f"Use {language.method}.")
        check_arguments(text, tokenize(text), self.arguments)
        language.check_arguments(self.given)
        language.check_given_events(query)
        if self.events is None and language.classes(query):
            check_pattern_tables(self.function, self.tables, language.classes(query))
        return query

    def origin(self) -> QueryOrigin:
        query = self.query()
        check_use(self.options, [language_of(query)])
        session, events = self.events_of(query)
        planned = plan_over(session, query, events, self._run)
        check_streams(self.options, [planned])
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


def plan_expansion_of(
    collapsed: Table,
    text: str,
    given: Given,
    spark: SparkSession | None,
    options: Options,
    arguments: Mapping[str, object],
) -> PlannedQuery:
    """Plan `expand`: the final matches of collapsed ones, as the plain query gives them."""
    from episode.spark.batch.expanding import events_of_variables, plan_expansion, variable_schemas
    from episode.spark.expressions import input_schema
    from episode.spark.query import PlannedQuery

    text = text_of(text)
    query: Any = pattern_of(text, strategy_of(given.strategy))
    check_arguments(text, tokenize(text), arguments)
    language = language_of(query)
    inner, variables = language.expand(query)
    refuse_options(options, dict.fromkeys(("shards", "shard_bytes"), "has no meaning for expand: nothing is shuffled"))
    language.check_arguments(given)
    check_use(options, [language])
    check_streams(options, [])
    session, frame = one_table(spark, collapsed)
    schemas = variable_schemas(session, frame, variables, query.source)
    time, start = given.time or query.input.time, given.start or query.input.start
    keys = given.key or query.input.partition_by
    tables = one_stream_of(inner, schemas, time, start, keys)
    events = events_of_variables(session, frame, variables, schemas, tables)
    schema = input_schema(session, events, query.source, "the collapsed matches", arguments)
    given = replace(given, time=time, start=start, key=(PARTITION_COLUMN, *keys), type_column=None)
    run = replace(options, tuning=replace(options.tuning, counts="exact")).run(1, arguments)
    pattern = language.bind(inner, Input(schema, (), tables), given, run)
    return PlannedQuery(pattern, plan_expansion(events, pattern, run), arguments)
