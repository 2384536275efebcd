"""Patterns as methods of Spark's DataFrames, and as functions for `DataFrame.transform`.

`install()` adds them to PySpark's DataFrame class, which those of classic and of Connect sessions share:

    df.match_recognize("PARTITION BY symbol ORDER BY ts … PATTERN (A B+) DEFINE …")
    df.match_events("PATTERN A; B WITHIN 10 seconds", time="ts", key="symbol")
    df.match_situations("DEFINE … PATTERN A before B …", time="ts")
    df.transform(episode.matching("PATTERN A; B", time="ts"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.events.syntax import Strategy
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.table_patterns import PatternQuery, clause_of, pattern_of
from episode.queries.events import EventColumns, events_of
from episode.queries.language import Given
from episode.queries.languages import language_of
from episode.queries.match import MatchQuery, Reader
from episode.queries.options import Options, options_of
from episode.queries.tables import arguments_of, session_of, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack


def matching(
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> Callable[[DataFrame], DataFrame]:
    """A function from a DataFrame to its matches, for `DataFrame.transform`: `df.transform(matching(text, time='ts'))`.

    text: an event pattern, a situation pattern, or MATCH_RECOGNIZE ( … ), which has its order and its partitions
    inside. By keyword, the arguments of `Events`. Mistakes in the text itself are errors here.
    """
    given = events_of("matching", None, columns).given
    chosen, arguments = options_of(options), arguments_of(args)

    def matches(events: DataFrame) -> DataFrame:
        return MatchQuery(events, text, given, None, chosen, {}, arguments).frame()

    MatchQuery("", text_of(text), given, None, chosen, {}, arguments).query()  # checked before there are events
    return matches


def install(spark: SparkSession | None = None) -> None:
    """Add match_recognize, match_events and match_situations to Spark's DataFrames. Once is enough; twice does no harm.

    spark: a session to be made ready now (its workers find this Python, and declared streams their data source) instead
    of at the first query.
    """
    from pyspark.sql import DataFrame

    for name, method in METHODS.items():
        there = getattr(DataFrame, name, None)
        if there is not None and getattr(there, "__module__", None) != __name__:
            hint = "Use df.transform(episode.matching(…))."
            raise EpisodeError(f"Spark's DataFrames have a method {name} already, which is not episode's.", hint=hint)
        setattr(DataFrame, name, method)
    if spark is not None:
        session_of(spark, {})


def match_recognize(
    self: DataFrame, text: str, args: Mapping[str, object] | None = None, *, options: Options | None = None
) -> DataFrame:
    """The rows of MATCH_RECOGNIZE over this DataFrame; lazy.

    text: the clause: `MATCH_RECOGNIZE ( … )`, or the text between its brackets. args: the values of its parameters.
    """
    return _match_frame(self, text, args, Given(), options, _row_pattern)


def match_events(
    self: DataFrame,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> DataFrame:
    """The matches of an event pattern (`PATTERN … WHERE … WITHIN … RETURN …`) in the rows of this DataFrame; lazy.
    By keyword, the arguments of `Events`."""
    given = events_of("match_events", None, columns).given
    return _match_frame(self, text, args, given, options, _event_pattern)


def match_situations(
    self: DataFrame,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> DataFrame:
    """The matches of a situation pattern (`DEFINE … PATTERN … WITHIN … RETURN …`) in the rows of this DataFrame; lazy.
    By keyword, the arguments of `Events`."""
    given = events_of("match_situations", None, columns).given
    return _match_frame(self, text, args, given, options, _situation_pattern)


METHODS: dict[str, Callable[..., Any]] = {
    "match_recognize": match_recognize,
    "match_events": match_events,
    "match_situations": match_situations,
}


def _match_frame(
    frame: DataFrame, text: str, args: Mapping[str, object] | None, given: Given, options: Options | None, read: Reader
) -> DataFrame:
    arguments = arguments_of(args)
    query = MatchQuery(frame, text_of(text), given, None, options_of(options), {}, arguments, read)
    return query.frame()


def _row_pattern(text: str, strategy: Strategy | None) -> MatchRecognize:
    return clause_of(text)


def _event_pattern(text: str, strategy: Strategy | None) -> PatternQuery:
    return _pattern_for("match_events", pattern_of(text, strategy))


def _situation_pattern(text: str, strategy: Strategy | None) -> PatternQuery:
    return _pattern_for("match_situations", pattern_of(text, strategy))


def _pattern_for(method: str, query: Any) -> Any:
    language = language_of(query)
    if language.method != method:
        raise EpisodeAnalysisError(f"This is {language.one}.", hint=f"Use {language.method}.")
    return query
