"""A pattern over the events that are given to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.lexer import tokenize
from episode.lang.table_patterns import pattern_of
from episode.plan.events.imprecise import NO_TIE_BREAKER
from episode.plan.parameters import check_arguments
from episode.queries.inputs import Table, checked_tables, keyword_tables, one_table, session_of, text_of
from episode.queries.keywords import check_pattern_tables
from episode.queries.language import Given, Length
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.options import Options
from episode.queries.origins import Origin, PlacedPattern, remember
from episode.queries.planning import PatternEvents, events_of_classes, plan_over, warn_of_input

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.lang.events.syntax import Strategy
    from episode.lang.rows.syntax import MatchRecognize
    from episode.lang.table_patterns import PatternQuery
    from episode.plan.pattern import RunOptions
    from episode.spark.query import PlannedQuery


Reader = Callable[[str, "Strategy | None"], "PatternQuery | MatchRecognize"]


@dataclass(frozen=True)
class MatchQuery:
    """A call of `match`, whose arguments these are: events and a pattern, or a pattern and a table per class.

    read: what reads the pattern, where not every language will do.
    """

    events: Table
    text: str | None
    given: Given
    spark: SparkSession | None
    options: Options
    tables: dict[str, Table]
    arguments: Mapping[str, object] = field(default_factory=dict)
    read: Reader = pattern_of

    def query(self) -> Any:
        """The pattern, parsed; its arguments are checked."""
        if self.text is None and (not isinstance(self.events, str) or not self.tables):
            raise EpisodeAnalysisError(
                "match needs events and a pattern.",
                hint="Write match(df, 'PATTERN …', time='ts') or match('PATTERN …', time='ts', A=df_a, B=df_b).",
            )
        if self.text is not None and self.tables:
            check_pattern_tables("match", self.tables, None)
            raise EpisodeAnalysisError(
                f"match has one DataFrame of all events, and tables besides: {', '.join(self.tables)}.",
                hint="Give one of the two.",
            )
        text = text_of(self.events if self.text is None else self.text)
        query = self.read(text, strategy_of(self.given.strategy))
        check_arguments(text, tokenize(text), self.arguments)
        language = language_of(query)
        language.check_arguments(self.given)
        language.check_given_events(query)
        if self.text is None and language.classes(query):
            check_pattern_tables("match", self.tables, language.classes(query))
        return query

    def placed(self) -> PlacedPattern:
        """The pattern, planned over its events."""
        query = self.query()
        events, planned = self._planned(query)
        warn_of_input(query, events, planned)
        return PlacedPattern(query, (events,), planned, self._run)

    def frame(self) -> DataFrame:
        """The matches, lazily, with a note of this call."""
        placed = self.placed()
        frame = placed.planned.frame()
        return remember(frame, Origin(placed.source.text, frame.sparkSession, (placed,)))

    def _planned(self, query: object) -> tuple[PatternEvents, PlannedQuery]:
        self.options.check_use([language_of(query)])
        session, events = self.events_of(query)
        planned = plan_over(session, query, events, self._run)
        self.options.check_streams([planned])
        return events, planned

    @property
    def _run(self) -> RunOptions:
        detect = self.given.detect
        return (self.options if detect is None else replace(self.options, detect=detect)).run(1, self.arguments)

    def events_of(self, query: object) -> tuple[SparkSession, PatternEvents]:
        """The session, and the events of the pattern in it."""
        if self.text is not None:
            session, frame = one_table(self.spark, self.events)
            return session, PatternEvents(frame, self.given)
        language = language_of(query)
        if not language.classes(query):
            raise EpisodeAnalysisError(
                f"{language.one.capitalize()} is matched over one DataFrame of events.",
                hint="Write match(df, 'DEFINE … PATTERN …', time='ts').",
            )
        tables = checked_tables(self.tables)
        session = session_of(self.spark, tables)
        frames = keyword_tables(session, tables)
        return session, events_of_classes(session, query, frames, self.given)


def given_of(
    time: str | tuple[str, str] | None,
    start: str | None,
    key: str | Sequence[str],
    type_column: str | None,
    strategy: str | None,
    detect: str | None,
    granularity: Length | None,
    probabilities: str | None,
    width: Length | None,
) -> Given:
    """The arguments of `match`, whose time is a column, or the two between which it lies."""
    names_given = {"start": start, "type_column": type_column, "probabilities": probabilities}
    for name, value in {**names_given, "strategy": strategy, "detect": detect}.items():
        if value is not None and not isinstance(value, str):
            what = "the name of a column" if name in names_given else "a text"
            raise EpisodeAnalysisError(f"{name}={value!r}: {what} is needed.")
    interval = None
    if time is not None and not isinstance(time, str):
        if not isinstance(time, tuple) or len(time) != 2 or not all(isinstance(name, str) for name in time):
            raise EpisodeAnalysisError(
                f"time={time!r}: the name of one column is needed, or a tuple of two names.",
                hint="Write time='ts', or time=('lo', 'hi') if the time of an event is imprecise, between two columns. "
                + NO_TIE_BREAKER,
            )
        time, interval = None, time
    elif granularity is not None or probabilities is not None or width is not None:
        raise EpisodeAnalysisError(
            "granularity, probabilities and width are for imprecise time.",
            hint="Say between which columns time lies: time=('lo', 'hi').",
        )
    return Given(
        time, start, keys_of(key), type_column, strategy, detect, interval, granularity, probabilities, width
    )  # fmt: skip


def keys_of(key: str | Sequence[str]) -> tuple[str, ...]:
    """The names of partition columns: one, or several."""
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else (key,)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise EpisodeAnalysisError(
            f"key={key!r}: {wrong[0]!r} is no name of a column.", hint="Write for example key='id' or key=['a', 'b']."
        )
    return names
