"""The public functions and `Query`, which they are shortcuts of: `sql`, `match`, `explain`, `start`; in process
`sql_local` and `match_local`; rules, and aggregates written in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.plan.options import Options
from episode.queries.calls import QueryCall, ResultCall, StatementCall
from episode.queries.correlating import CorrelateQuery, On
from episode.queries.events import EVENT_COLUMNS, EventColumns, Events, events_of, keys_of
from episode.queries.explaining import check_format, explain_pattern
from episode.queries.language import Given, Length
from episode.queries.match import MatchQuery, plan_expansion_of
from episode.queries.options import options_of
from episode.queries.origins import QueryOrigin
from episode.queries.tables import Table, arguments_of, every_table, session_of, text_of
from episode.queries.user_aggregates import register_aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

    from episode.queries.live_start import Into
    from episode.queries.rules.binding import RuleSet
    from episode.queries.rules.local import LocalMatches
    from episode.queries.rules.rule import Rules
    from episode.see.pictures.picture import Picture
    from episode.see.reasons.why_not import WhyNot
    from episode.spark.live import LiveQuery


class Query:
    """A query with its input, made by `query`. Nothing is planned or run before one of its methods is called.

    `plot`, `why_not` and `explain` need no Spark if the tables are in this process (Arrow, pandas, Polars), no session
    is given, and the patterns can run here.
    """

    def __init__(self, call: QueryCall) -> None:
        self._call = call

    def _origin(self) -> QueryOrigin:
        """Its patterns, planned in this process if the tables are here and Spark is not needed."""
        if self._call.is_local:
            try:
                return self._call.local_origin()
            except EpisodeUnsupportedError:  # Spark may know it
                pass
        return self._call.origin()

    def run(self) -> DataFrame:
        """Run it on Spark; returns a lazy DataFrame.

        CREATE TABLE … AS, CREATE TEMP VIEW, INSERT, MERGE, UPDATE and DELETE are run at once.
        """
        return self._call.frame()

    def local(self) -> Any:
        """Run it in this process, without Spark: one pattern over one table, or two that are correlated.

        Tables are Arrow tables, pandas or Polars frames; the result is of the same kind. Timestamps with a zone are
        Spark's timestamp, those without are timestamp_ntz; days are those of UTC. What needs Spark is an
        EpisodeUnsupportedError.
        """
        return self._call.local()

    def start(
        self,
        *,
        into: Into,
        input: str = "adaptive",
        checkpoint: str | PathLike[str] | None = None,
        tasks: int | None = None,
        name: str | None = None,
        max_unprocessed: int | None = None,
        push_ahead: int | None = None,
        snapshot_every: float | str | None = None,
        metrics_port: int | None = None,
    ) -> LiveQuery:
        """Start it over declared streams in live tasks, which report a match milliseconds after its last event.

        Returns a handle like that of Spark's streaming queries: isActive, status, lastProgress, recentProgress, stop,
        awaitTermination, exception. Every match is emitted once, through kills and restarts with the same checkpoint.

        into: where matches go: the name of a stream, which is created with the query's columns if needed; a path
            with a slash in it, for Parquet files; {'kafka': topic, 'kafka.bootstrap.servers': …}; or a function that is
            called in this process with an Arrow table.
        input: how events come to the matching loop: 'pull', 'push', or 'adaptive' (pushed, unless the loop falls
            behind).
        checkpoint: a directory for the state that all workers reach; without one, the state is kept in the catalog, by
            the query's text and its output.
        tasks: the number of tasks (default: the slots that Spark has, less one, and at most the lanes of the stream).
        max_unprocessed: events that may wait in a worker's memory.
        push_ahead: the number of coming matches that adaptive input is pushed ahead when matches are frequent
            (default 0): a higher throughput for more memory.
        snapshot_every: seconds between two snapshots.
        metrics_port: serve the figures to Prometheus, on 127.0.0.1; 0: at any free port.
        """
        from episode.queries.live_start import LiveSettings

        settings = LiveSettings(
            input, checkpoint, tasks, name, max_unprocessed, push_ahead, snapshot_every, metrics_port
        )
        return self._call.start(into, settings)

    def explain(self, *, analyze: bool = False, format: str = "text") -> str:
        """Show how it would be evaluated: for each pattern the program, predicate split, scan, shards, state.

        A query over tables of this process, with no session given, is explained as `local` runs it; with analyze, as
        Spark does.

        analyze: run the patterns, and show what the plans of all shards did.
        format: 'text'; 'svg', a picture; 'html', a page with pictures, tables and the text. All are strings; a notebook
            shows them as pictures. 'native': the code that each pattern is compiled to, for people who work on episode;
            with analyze, how long compiling it takes and how large it is.
        """
        wanted = check_format(format)
        return _explain_origin(self._call.origin() if analyze else self._origin(), analyze, wanted)

    def why_not(
        self,
        *,
        of: object = None,
        at: object = None,
        between: tuple[object, object] | None = None,
        pattern: int | None = None,
    ) -> WhyNot:
        """Explain why there is no match at a place: how far the pattern came there, and what kept it from continuing.

        Returns the findings: `print` shows them with their places in the query, `.findings` and `.to_dict()` have them
        as data, a notebook shows them as HTML. If there is a match, they name it.
        of: the value of the key that partitions the events; several in order, or a mapping by column.
        at, between: when the match was expected to begin (of situations: to be); a time, or the first and the last one.
            Left out, all times.
        pattern: which one of several patterns in the query, from 1 on.
        """
        from episode.see.reasons.why_not import why_not

        return why_not(self._origin(), of, at, between, pattern)

    def plot(
        self,
        *,
        of: object = None,
        between: tuple[object, object] | None = None,
        match: int | None = None,
        choose: str = "longest",
        pattern: int | None = None,
        series: str | None = None,
        most: int = 12,
        width: int = 760,
        height: int | None = None,
    ) -> Picture:
        """Draw matches: an Altair chart that shows itself in a notebook; `.save(path)` writes HTML, SVG, PNG or PDF,
        with nothing from the network. It needs altair and vl-convert-python (the extra 'plot').

        The picture shows one key of the pattern's input and its matches: of a row pattern the series with the rows
        marked by label, of an event pattern lanes of events, of a situation pattern bars, of a correlation both matches
        and the recency. The query need not return the labels.
        of: the value of the key; several in order, or a mapping by column. None: that of the match that is chosen.
        between: the first and the last time to show; None: without a bound. Else, the match and what lies around it.
        match: the number of a match within its key, from 1 on. None: the one that `choose` names.
        choose: 'longest', 'shortest', or 'rarest key': the longest match of a key with the fewest.
        pattern: which one of a statement with several, from 1 on.
        series: the column to draw (default: the first number that the conditions are about).
        most: how many matches are drawn at most; the picture notes if there are more.
        width, height: in pixels; height of the panel with the matches (default: as fits).
        """
        from episode.see.pictures.plotting import plot

        wish = {"pattern": pattern, "of": of, "between": between, "match": match, "choose": choose}
        return plot(self._origin(), **wish, series=series, most=most, width=width, height=height)

    def report(self, path: str | PathLike[str], *, title: str | None = None, plots: int = 10, rows: int = 50) -> Path:
        """Write its matches over tables to one HTML file, which opens anywhere, without the network; returns the path.

        path: of the file; an existing one is replaced.
        title: the heading (None: from the query).
        plots: how many pictures of single matches, the most telling ones, for each pattern. They need the extra 'plot';
            without it, the report has a note instead.
        rows: how many rows of the result are shown.

        In it: the query, counts, matches over time, by key and by length, pictures, the first rows, what the columns of
        the input hold, the plan, and how long it took. Spark runs the query twice, and collects only what the report
        shows.
        """
        from episode.see.reports.page import write_report

        return write_report(self._call.frame(), path, title, plots, rows)

    def correlate(
        self,
        archive: Query,
        args: Mapping[str, object] | None = None,
        *,
        recency: Length,
        on: On = (),
        where: str | None = None,
        ordered: bool = False,
        options: Options | None = None,
    ) -> Query:
        """Join its matches with those of another pattern by recency: each match of this one, the live one, with the
        matches of `archive` that began before it, ended before it, and began at most `recency` before its end.

        Both are patterns with `Events`. Columns: those of the live match, those of the archive match (live_x and
        archive_x if both have x), match_start (the start of the archive match) and match_end (the end of the live
        match). A row pattern must be INCREMENTAL MATCH as the live one, MAXIMAL MATCH as the archive.
        recency: a duration ('7 seconds'), or a number if event time is one.
        on: columns that both must have equal: a name, several, or a mapping of the live one's names to the archive
            one's.
        where: a further condition in SQL, over live.x and archive.x. args: the values of its parameters.
        ordered: pairs with one key come in order of their start, then of their end; a stream waits for that.
        """
        other: Any = archive._call if isinstance(archive, Query) else archive
        live: Any = self._call
        return Query(CorrelateQuery(live, other, recency, on, where, ordered, options_of(options), arguments_of(args)))


def query(
    text: str,
    events: Events | Table | None = None,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> Query:
    """Make a query that can be run, explained, plotted and started.

    text: a Spark SQL statement, which may hold MATCH_RECOGNIZE, EVENTS and SITUATIONS clauses, row patterns in windows
        and RECENCY; or, with `events`, an event pattern, a situation pattern or MATCH_RECOGNIZE ( … ).
    events: the events of a pattern: `Events(table, time='ts', key='id')`, or a table.
    args: the values of parameters, which are written :name. They are bound, never pasted.
    tables, or by keyword: names used in the statement, each with a DataFrame, an Arrow table, a pandas or Polars frame,
        or the path of Parquet, CSV or JSON files; with Events without a table, one for each class of the pattern. In
        `tables`, names may be any that can be quoted with backticks. Other names come from Spark's catalog.
    spark: the session to use (default: the active one; else a local one is started).
    """
    chosen, every, arguments = options_of(options), every_table(tables, named), arguments_of(args)
    if events is None:
        return Query(StatementCall(text, spark, chosen, every, arguments, "query"))
    one = events_of("query", events, {})
    return Query(MatchQuery(one.table, text, one.given, spark, chosen, every, arguments, function="query"))


# ---- shortcuts -------------------------------------------------------------------------------------------------------


def sql(
    text: str,
    /,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> DataFrame:
    """Run a Spark SQL statement that may hold MATCH_RECOGNIZE clauses and row patterns in windows; returns a lazy
    DataFrame. Short for `query(text, …).run()`, and the arguments are those of `query`."""
    return _statement("sql", text, args, spark, options, tables, named).run()


def sql_local(
    text: str,
    /,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    tables: Mapping[str, Any] | None = None,
    **named: Any,
) -> Any:
    """Run one pattern over one table in this process, without Spark: `SELECT columns FROM t MATCH_RECOGNIZE (…)`,
    EVENTS (…) or SITUATIONS (…) in its place, `SELECT … FROM t WINDOW w AS (… PATTERN …)`, or an event or situation
    pattern with FROM. Short for `query(text, …).local()`, which describes tables and results."""
    return _statement("sql_local", text, args, None, options, tables, named).local()


def explain(
    text: str,
    /,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    analyze: bool = False,
    format: str = "text",
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> str:
    """Show how `sql` would evaluate a statement on Spark; see `Query.explain` for the arguments."""
    wanted = check_format(format)
    return _explain_origin(
        _statement("explain", text, args, spark, options, tables, named)._call.origin(), analyze, wanted
    )


def _explain_origin(origin: QueryOrigin, analyze: bool, format: str) -> str:
    from episode.see.pictures.plans.formats import render

    return render([explain_pattern(one, analyze, format) for one in origin.patterns], origin.no_patterns, format)


def start(
    text: str,
    /,
    args: Mapping[str, object] | None = None,
    *,
    into: Into,
    spark: SparkSession | None = None,
    options: Options | None = None,
    **settings: Any,
) -> LiveQuery:
    """Start a statement over declared streams in live tasks. Short for `query(text, …).start(into=…)`, which describes
    the settings."""
    return _statement("start", text, args, spark, options, None, {}).start(into=into, **settings)


def _statement(
    function: str,
    text: str,
    args: Mapping[str, object] | None,
    spark: SparkSession | None,
    options: Options | None,
    tables: Mapping[str, Any] | None,
    named: Mapping[str, Any],
) -> Query:
    every = every_table(tables, named)
    return Query(StatementCall(text_of(text), spark, options_of(options), every, arguments_of(args), function))


def match(
    events: Events | Table,
    text: str | None = None,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Any,
) -> DataFrame:
    """Find an event pattern (`PATTERN … WHERE … WITHIN … RETURN …`), a situation pattern (`DEFINE … PATTERN … WITHIN …
    RETURN …`) or a row pattern (`MATCH_RECOGNIZE ( … )`); returns a lazy DataFrame. Short for
    `query(text, Events(table, …)).run()`.

    `match(table, text, time='ts', key='id')` over one table of all events; by keyword, the arguments of `Events`.
    `match(text, time='ts', A=…, B=…)`, or tables={'A': …}, over a table per class.
    args: the values of the pattern's parameters, which are written :name.
    """
    columns = {name: named.pop(name) for name in EVENT_COLUMNS if name in named}
    table, pattern = (None, events) if text is None else (events, text)
    one = events_of("match", table, columns)
    every, arguments = every_table(tables, named), arguments_of(args)
    wanted: Any = pattern  # the query checks that it is a text
    return MatchQuery(one.table, wanted, one.given, spark, options_of(options), every, arguments).frame()


def match_local(
    events: Any,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> Any:
    """Find a pattern in a table in this process, without Spark. Short for `query(text, Events(table, …)).local()`; by
    keyword, the arguments of `Events`."""
    return query(text, events_of("match_local", events, columns), args, options=options).local()


def plot(result: DataFrame, **how: Any) -> Picture:
    """Draw the matches of a result, as `sql` or `match` returned it; the arguments are those of `Query.plot`."""
    return Query(ResultCall(result)).plot(**how)


def why_not(result: DataFrame, **where: Any) -> WhyNot:
    """Explain why a result, as `sql` or `match` returned it, has no match at a place; the arguments are those of
    `Query.why_not`."""
    return Query(ResultCall(result)).why_not(**where)


def report(result: DataFrame, path: str | PathLike[str], **how: Any) -> Path:
    """Write a report of a result, as `sql` or `match` returned it; the arguments are those of `Query.report`."""
    return Query(ResultCall(result)).report(path, **how)


# ---- rules -----------------------------------------------------------------------------------------------------------


def match_all(
    events: Events | Table,
    rules: Rules,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    table: str | None = None,
    log: str | PathLike[str] | None = None,
    look_every: float | str | None = "1 second",
    **columns: Unpack[EventColumns],
) -> Any:
    """Find many patterns in one table or stream, which is read once; returns their matches, lazily.

    rules: a folder of `.sql` and `.pattern` files, a dict of names and texts, or a table (name, text, enabled). A text
        is a pattern, as for `match`, or SELECT columns FROM events with one pattern.
    The result has `frame`, one DataFrame of all matches (rule, key columns, match_start, match_end, result: a VARIANT,
    or JSON if Spark has none); `of(rule)`, the matches of one rule, typed as the rule alone gives them; `explain()`.
    By keyword, the arguments of `Events`, for the rules that have a use for them. args: of all rules together.
    table: the name of the events, if rules that name a table must name this one.
    Mistakes in rules are raised for all of them together, as an EpisodeRulesError.

    Over a stream (a streaming DataFrame) rules may change while it runs: they are looked at every `look_every` (None:
    only by `look()`), and what has changed takes effect with the next micro-batch. The result then has `writeStream`,
    `frame`, `of(rule)` and `rules()`, a table of the rules' versions with the event times from which each is active.
    All rules are partitioned by `key` and ordered by `time`. log: a directory for the versions of rules, next to the
    stream's checkpoint. A text that is not a rule is reported, and leaves the others running.
    """
    from episode.queries.rules.matching import match_table

    one = events_of("match_all", events, columns)
    if getattr(one.table, "isStreaming", False):
        from episode.queries.rules.streaming import over_stream

        chosen, arguments = options_of(options), arguments_of(args)
        return over_stream(one.table, rules, one.given, chosen, arguments, log, look_every, table)
    if log is not None:
        message = f"log={fspath(log)!r} is for rules over a stream; these are over a table."
        raise EpisodeAnalysisError(message, hint="Leave it out.")
    return match_table(one.table, _rule_set(rules, one.given, options, args, table), spark)


def match_all_local(
    events: Any,
    rules: Rules,
    args: Mapping[str, object] | None = None,
    *,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> LocalMatches:
    """Find many patterns in a table in this process, without Spark; see `match_all` for rules, and `Query.local` for
    tables. The result has `of(rule)`, `table` (as `frame` there, with JSON), `counts`, `explain()`."""
    from episode.queries.rules import local

    one = events_of("match_all_local", events, columns)
    return local.match_all_local(one.table, _rule_set(rules, one.given, options, args))


def _rule_set(
    rules: Rules, given: Given, options: Options | None, args: Mapping[str, object] | None, table: str | None = None
) -> RuleSet:
    from episode.queries.rules.binding import RuleSet
    from episode.queries.rules.rule import rules_of

    return RuleSet(rules_of(rules), given, options_of(options), arguments_of(args), table)


def start_rules(
    stream: str,
    rules: Rules,
    args: Mapping[str, object] | None = None,
    *,
    into: Into,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    spark: SparkSession | None = None,
    input: str = "adaptive",
    checkpoint: str | PathLike[str] | None = None,
    tasks: int | None = None,
    name: str | None = None,
    options: Options | None = None,
    look_every: float | str | None = "1 second",
    snapshot_every: float | str | None = None,
    metrics_port: int | None = None,
) -> LiveQuery:
    """Start rules over a declared stream in live tasks; they may change while these run.

    Returns the handle that `start` returns; its `rules()` is a table of the rules' versions, with the event times from
    which each is active. rules: as in `match_all`, looked at every `look_every`. key, type_column, strategy: of
    all rules (default: the stream's KEY). All other arguments: as in `start`. When a change takes effect is agreed by
    all tasks, and written into the checkpoint, before one of them is beyond that time.
    """
    from episode.queries.live_start import LiveSettings
    from episode.queries.rules.live import start_rules as started

    settings = LiveSettings(input, checkpoint, tasks, name, None, None, snapshot_every, metrics_port)
    given = Given(None, None, keys_of(key), type_column, strategy)
    session = session_of(spark, {})
    return started(
        text_of(stream), rules, given, session, into, options_of(options), arguments_of(args), settings, look_every
    )  # fmt: skip


# ---- further functions -----------------------------------------------------------------------------------------------


def expand(
    collapsed: Table,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    spark: SparkSession | None = None,
    options: Options | None = None,
    **columns: Unpack[EventColumns],
) -> DataFrame:
    """The final matches of collapsed ones, as the pattern without COLLAPSED gives them; returns a lazy DataFrame.

    collapsed: a table (or a stream) of the rows that RETURN COLLAPSED gives, or some of them: a struct for each single
        variable of the pattern, an array of structs for each closure; other columns do not matter.
    text and the other arguments: as they were given to `match`. The variables of the events give their classes:
    type_column is not read.
    """
    given = events_of("expand", collapsed, columns).given
    if given.interval is not None:
        raise EpisodeAnalysisError(f"time={given.interval!r}: matches over imprecise time are not collapsed.")
    return plan_expansion_of(collapsed, text, given, spark, options_of(options), arguments_of(args)).frame()


def aggregate(
    name: str,
    *,
    initial: float | tuple[float, ...],
    step: Callable[..., Any],
    finish: Callable[..., Any] | None = None,
    takes: str = "double",
) -> None:
    """Register an aggregate: conditions, MEASURES and RETURN may call it from now on, in this process.

    initial: the state before the first value: a number, or a tuple of up to three.
    step: the next state, from the state and a value that is not null.
    finish: the result, from the state (a number, a truth value, or None: null). Left out, the state is the result.
    takes: what the step is given: 'double' (any number), or 'bigint' (whole numbers only).

    Over no values, the result is null. The functions are called once, now, with proxies that record what is done with
    them; that is compiled. So they use `episode.where` in place of `if`, and `episode.least` and `episode.greatest` in
    place of `min` and `max`. A function that cannot be traced is an error here.
    """
    register_aggregate(name, initial, step, finish, takes)
