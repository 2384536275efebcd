"""Patterns in `spark.sql`, as methods of Spark's DataFrames, and as functions for `DataFrame.transform`.

`install()` extends `spark.sql`, and adds methods to PySpark's DataFrame class, which those of classic and of Connect
sessions share:

    spark.sql("SELECT * FROM ticks MATCH_RECOGNIZE ( … )")
    df.match_recognize("PARTITION BY symbol ORDER BY ts … PATTERN (A B+) DEFINE …")
    df.match_events("PATTERN A; B WITHIN 10 seconds", time="ts", key="symbol")
    df.match_situations("DEFINE … PATTERN A before B …", time="ts")
    df.transform(episode.matching("PATTERN A; B", time="ts"))
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from episode.clients.session_sql import install_sql, uninstall_sql
from episode.errors import EpisodeError
from episode.plan.options import Options
from episode.queries.events import EventColumns, events_of
from episode.queries.language import Given
from episode.queries.match import MatchQuery
from episode.queries.options import options_of
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
    """Have `spark.sql` take statements with episode's clauses, and add match_recognize, match_events and
    match_situations to Spark's DataFrames. Once is enough; twice does no harm; `uninstall` takes it back.

    spark: a session to be made ready now (its workers find this Python, and declared streams their data source) instead
    of at the first query. All sessions of its class are extended, and all classic ones.
    """
    from pyspark.sql import DataFrame

    for name, method in METHODS.items():
        there = getattr(DataFrame, name, None)
        if there is not None and getattr(there, "__module__", None) != __name__:
            hint = "Use df.transform(episode.matching(…))."
            raise EpisodeError(f"Spark's DataFrames have a method {name} already, which is not episode's.", hint=hint)
        setattr(DataFrame, name, method)
    ready = spark if spark is None else session_of(spark, {})
    install_sql(*_session_classes(), *([] if ready is None else [type(ready)]))


def uninstall() -> None:
    """Take back what `install` and `episode.auto` added to Spark's classes."""
    from pyspark.sql import DataFrame

    for name, method in METHODS.items():
        if getattr(DataFrame, name, None) is method:
            delattr(DataFrame, name)
    uninstall_sql(*_session_classes())


def install_everywhere() -> None:
    """`install` for sessions of Connect as well, which may begin later: what `import episode.auto` does."""
    if find_spec("grpc") is not None:  # Connect has dependencies that a classic Spark does not need
        with suppress(ImportError, SystemExit):  # pyspark's answer if others of them are missing
            import pyspark.sql.connect.session  # noqa: F401
    install()


def _session_classes() -> list[type]:
    """Spark's classes of sessions: that of Connect, if it is loaded."""
    from pyspark.sql import SparkSession

    connect = sys.modules.get(CONNECT)
    return [SparkSession] if connect is None else [SparkSession, connect.SparkSession]


def match_recognize(
    self: DataFrame, text: str, args: Mapping[str, object] | None = None, *, options: Options | None = None
) -> DataFrame:
    """The rows of MATCH_RECOGNIZE over this DataFrame; lazy.

    text: the clause: `MATCH_RECOGNIZE ( … )`, or the text between its brackets. args: the values of its parameters.
    """
    return _match_frame(self, "match_recognize", text, args, Given(), options)


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
    return _match_frame(self, "match_events", text, args, events_of("match_events", None, columns).given, options)


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
    return _match_frame(
        self, "match_situations", text, args, events_of("match_situations", None, columns).given, options
    )


CONNECT = "pyspark.sql.connect.session"
METHODS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (match_recognize, match_events, match_situations)
}


def _match_frame(
    frame: DataFrame, method: str, text: str, args: Mapping[str, object] | None, given: Given, options: Options | None
) -> DataFrame:
    arguments = arguments_of(args)
    return MatchQuery(frame, text_of(text), given, None, options_of(options), {}, arguments, method).frame()
