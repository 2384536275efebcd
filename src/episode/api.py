"""The public functions: `sql`, `match`, `start`, `explain`; in process `sql_local`, `match_local`; and `aggregate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.statement import parse_statement
from episode.queries.correlating import CorrelateQuery, On, Pattern
from episode.queries.expanding import ExpandQuery
from episode.queries.explaining import check_format, explained
from episode.queries.inputs import Table, arguments_of, checked_tables, every_table, session_of, text_of
from episode.queries.keywords import check_statement_tables
from episode.queries.language import Given, Length
from episode.queries.match import MatchQuery, given_of, keys_of
from episode.queries.options import Options, options_of
from episode.queries.origins import PlacedPattern, origin_of, remember
from episode.queries.statement import StatementQuery
from episode.queries.user_aggregates import register_aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from episode.queries.live_output import Into
    from episode.queries.rules.binding import RuleSet
    from episode.queries.rules.local import LocalMatches
    from episode.queries.rules.rule import Rules
    from episode.see.pictures.picture import Picture
    from episode.see.reasons.why_not import WhyNot
    from episode.spark.live import LiveQuery


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
    DataFrame.

    CREATE TABLE … AS, CREATE TEMP VIEW, INSERT, MERGE, UPDATE and DELETE are run at once.

    args: the values of the statement's parameters, which are written :name. They are bound, never pasted.
    tables, or by keyword: names used in the statement, each with a DataFrame, an Arrow table, a pandas or Polars frame,
        or the path of Parquet, CSV or JSON files. In `tables`, names may be any that stand between backticks. Other
        names come from Spark's catalog.
    spark: the session to use; else the one that there is; else a local one is started.
    """
    query = _statement(text, args, spark, options, every_table(tables, named))
    return remember(query.result(), query.origin)


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
    """How `sql` would evaluate the statement: per MATCH_RECOGNIZE the program, predicate split, scan, shards, state.

    analyze: run the patterns, and say what the plans of all shards did.
    format: 'text'; 'svg', a picture; 'html', a page with pictures, tables and the text. All are strings; a notebook
        shows them as pictures. 'native': the code that each pattern is compiled to, for people who work on episode;
        with analyze, how long compiling it takes and how large it is.
    """
    wanted = check_format(format)
    query = _statement(text, args, spark, options, every_table(tables, named))
    query.plan()
    of_streams = query.statement.streams is not None
    none = "No pattern in this statement: " + ("it is about streams." if of_streams else "Spark evaluates all of it.")
    return _shown(query.origin.patterns, analyze, wanted, none)


def _shown(patterns: Sequence[PlacedPattern], analyze: bool, format: str, none: str = "") -> str:
    from episode.see.pictures.plans.shown import shown

    return shown([explained(one, analyze, format) for one in patterns], none, format)


def why_not(
    query: DataFrame | str,
    args: Mapping[str, object] | None = None,
    *,
    key: object = None,
    at: object = None,
    between: tuple[object, object] | None = None,
    pattern: int | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> WhyNot:
    """Why there is no match at a place: how far the pattern came there, and what kept it from going on.

    Returns the findings: `print` shows them with their places in the query, `.findings` and `.to_dict()` have them as
    data, a notebook shows them as HTML. Where there is a match, they say so.
    query: a DataFrame that sql, match or correlate returned, or a statement as for `sql`, with args, spark, options and
        tables.
    key: the values of the columns that partition the events: one value, several in order, or a mapping by name.
    at, between: when the match was expected to begin (of situations: to be); a time, or the first and the last one.
        Left out, all times.
    pattern: which one of several patterns in the query, from 1 on.
    """
    from episode.see.reasons.why_not import why_not as answer

    every = every_table(tables, named)
    if isinstance(query, str):
        planned = _statement(query, args, spark, options, every)
        planned.plan()
        origin = planned.origin
    else:
        origin = origin_of(query)
        given = {"args": args, "spark": spark, "options": options, **every}
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            raise EpisodeAnalysisError(
                f"{unused[0]}= has no meaning here: the DataFrame knows its query.",
                hint="Leave it out, or give the statement's text.",
            )
    return answer(origin, key, at, between, pattern)


def start(
    query: str,
    args: Mapping[str, object] | None = None,
    *,
    into: Into,
    spark: SparkSession | None = None,
    input: str = "adaptive",
    checkpoint: str | PathLike[str] | None = None,
    tasks: int | None = None,
    name: str | None = None,
    options: Options | None = None,
    max_unprocessed: int | None = None,
    push_ahead: int | None = None,
    snapshot_every: float | str | None = None,
    metrics_port: int | None = None,
) -> LiveQuery:
    """Start a query over declared streams in live tasks, which report a match milliseconds after its last event.

    Returns a handle like that of Spark's streaming queries: isActive, status, lastProgress, recentProgress, stop,
    awaitTermination, exception. Every match comes out once, through kills and restarts with the same checkpoint.

    into: where matches go: the name of a stream, which is made with the query's columns where there is none; a path
        with a slash in it, for Parquet files; {'kafka': topic, 'kafka.bootstrap.servers': …}; or a function that is
        called in this process with an Arrow table.
    input: how events come to the matching loop: 'pull', 'push', or 'adaptive' (pushed, unless the loop falls behind).
    checkpoint: a directory for the state that all workers reach; without one, the state is kept in the catalog, by the
        query's text and its output.
    tasks: how many tasks there are (default: as many as Spark has slots for, but one, and the stream has lanes).
    max_unprocessed: events that may wait in a worker's memory. push_ahead: how many matches to come adaptive input is
        pushed ahead where matches are frequent (default 0): a higher throughput for more memory.
    snapshot_every: seconds between two snapshots.
    metrics_port: serve the figures to Prometheus, on 127.0.0.1; 0: at any free port.
    """
    from episode.queries.starting import Wishes, start_live

    wishes = Wishes(input, checkpoint, tasks, name, max_unprocessed, push_ahead, snapshot_every, metrics_port)
    text, arguments = text_of(query), arguments_of(args)
    return start_live(text, session_of(spark, {}), into, options_of(options), arguments, wishes)


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
    from episode.queries.rules.live import start_rules as started
    from episode.queries.starting import Wishes

    wishes = Wishes(input, checkpoint, tasks, name, None, None, snapshot_every, metrics_port)
    given = Given(None, None, keys_of(key), type_column, strategy)
    session = session_of(spark, {})
    return started(
        text_of(stream), rules, given, session, into, options_of(options), arguments_of(args), wishes, look_every
    )  # fmt: skip


def _statement(
    text: str,
    args: Mapping[str, object] | None,
    spark: SparkSession | None,
    options: Options | None,
    tables: dict[str, Table],
) -> StatementQuery:
    statement, arguments, chosen = parse_statement(text_of(text)), arguments_of(args), options_of(options)
    check_statement_tables("sql", tables, statement.tokens)
    given = checked_tables(tables)
    return StatementQuery(statement, session_of(spark, given), chosen, given, arguments)


def match(
    events: Table,
    text: str | None = None,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> DataFrame:
    """Find an event pattern (`PATTERN … WHERE … WITHIN … RETURN …`) or a situation pattern (`DEFINE … PATTERN …
    WITHIN … RETURN …`); returns a lazy DataFrame.

    `match(events, text, …)` over one table of all events (see `sql` for what it may be): rows whose `type_column` is
    the name of a class are its events; without a type column the names of classes are aliases of any row.
    `match(text, A=…, B=…)`, or tables={'A': …}, over a table per class.
    args: the values of the pattern's parameters, which are written :name.
    time: the column of event time (default: the only timestamp). start: where events last, their start; time is then
        their end. So the matches of one query are events of the next: time='match_end', start='match_start'.
        Where time is imprecise, time=('lo', 'hi'): the columns of the earliest and the latest time an event can have.
    granularity, probabilities, width: of imprecise time: from one possible time to the next (timestamps need it), the
        column with an array of the probabilities of all of them, and the longest interval (streams need it).
    key: columns that partition the events. strategy: a selection strategy, where WHERE has none.
    detect: when a match of situations is reported: 'earliest' or 'complete'.
    """
    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    every = every_table(tables, named)
    query = MatchQuery(events, text, given, spark, options_of(options), every, arguments_of(args))
    return query.frame()


def match_all(
    events: Table,
    rules: Rules,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    table: str | None = None,
    log: str | PathLike[str] | None = None,
    look_every: float | str | None = "1 second",
) -> Any:
    """Find many patterns in one table or stream, which is read once; returns their matches, lazily.

    rules: a folder of `.sql` and `.pattern` files, a dict of names and texts, or a table (name, text, enabled). A text
    is what `match` takes, MATCH_RECOGNIZE ( … ) among it, or SELECT columns FROM events with one pattern.
    The result has `frame`, one DataFrame of all matches (rule, key columns, match_start, match_end, result: a VARIANT,
    or JSON where Spark has none); `of(rule)`, the matches of one rule, typed as the rule alone gives them; `explain()`.
    All other arguments are those of `match`, for the rules that have a use for them; args: of all rules together.
    table: the name of the events, where rules that name a table must name this one.
    What is wrong with rules is raised for all of them together, as an EpisodeRulesError.

    Over a stream (a streaming DataFrame) rules may change while it runs: they are looked at every `look_every` (None:
    only by `look()`), and what has changed takes effect with the next micro-batch. The result then has `writeStream`,
    `frame`, `of(rule)` and `rules()`, a table of the rules' versions with the event times from which each is active.
    All rules are partitioned by `key` and ordered by `time`. log: a directory for the versions of rules, beside the
    stream's checkpoint. A text that is no rule is reported, and leaves the others running.
    """
    from episode.queries.rules.matching import RulesQuery

    if getattr(events, "isStreaming", False):
        from episode.queries.rules.streaming import over_stream

        given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
        return over_stream(events, rules, given, options_of(options), arguments_of(args), log, look_every, table)
    if log is not None:
        raise EpisodeAnalysisError(
            f"log={fspath(log)!r} is for rules over a stream; these are over a table.", hint="Leave it out."
        )
    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    return RulesQuery(events, _rule_set(rules, given, options, args, table), spark).planned()


def match_all_local(
    events: Any,
    rules: Rules,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    options: Options | None = None,
) -> LocalMatches:
    """Find many patterns in a table in this process, without Spark; see `match_all` for rules, and `sql_local` for
    tables and expressions. The result has `of(rule)`, `table` (as `frame` there, with JSON), `counts`, `explain()`."""
    from episode.queries.rules import local

    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    return local.match_all_local(events, _rule_set(rules, given, options, args))


def _rule_set(
    rules: Rules,
    given: Given,
    options: Options | None,
    args: Mapping[str, object] | None,
    table: str | None = None,
) -> RuleSet:
    from episode.queries.rules.binding import RuleSet
    from episode.queries.rules.rule import rules_of

    return RuleSet(rules_of(rules), given, options_of(options), arguments_of(args), table)


def expand(
    collapsed: Table,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    time: str | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
) -> DataFrame:
    """The final matches of collapsed ones, as the pattern without COLLAPSED gives them; returns a lazy DataFrame.

    collapsed: a table (or a stream) of the rows that RETURN COLLAPSED gives, or some of them: a struct
    for each single variable of the pattern, an array of structs for each closure; other columns do not matter.
    text and the other arguments: as they were given to `match`. The events' variables say of which class they are:
    type_column is not looked at.
    """
    given = Given(time, start, keys_of(key), type_column, strategy)
    return ExpandQuery(collapsed, text, given, spark, options_of(options), arguments_of(args)).planned().frame()


def explain_match(
    events: Table,
    text: str | None = None,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    spark: SparkSession | None = None,
    options: Options | None = None,
    analyze: bool = False,
    format: str = "text",
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> str:
    """How `match` would evaluate the pattern. analyze: run it, and say what the plans of all shards did. format: as in
    `explain`."""
    wanted = check_format(format)
    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    every = every_table(tables, named)
    query = MatchQuery(events, text, given, spark, options_of(options), every, arguments_of(args))
    return _shown([query.placed()], analyze, wanted)


def pattern(
    events: Table,
    text: str | None = None,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    spark: SparkSession | None = None,
    tables: Mapping[str, Table] | None = None,
    **named: Table,
) -> Pattern:
    """A pattern with its events, for `correlate`; nothing is planned yet. The arguments are those of `match`; the text
    may also be `MATCH_RECOGNIZE ( … )`, which has its order and its partitions inside."""
    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    return Pattern(MatchQuery(events, text, given, spark, Options(), every_table(tables, named), arguments_of(args)))


def correlate(
    live: Pattern,
    archive: Pattern,
    args: Mapping[str, object] | None = None,
    *,
    recency: Length,
    on: On = (),
    where: str | None = None,
    ordered: bool = False,
    spark: SparkSession | None = None,
    options: Options | None = None,
) -> DataFrame:
    """Join the matches of two patterns by recency: each match of `live` with the matches of `archive` that began before
    it, ended before it, and began at most `recency` before its end; returns a lazy DataFrame.

    Columns: those of the live match, those of the archive match (live_x and archive_x where both have x), match_start
    (the start of the archive match) and match_end (the end of the live match).
    live, archive: by `pattern`. A row pattern must be INCREMENTAL MATCH as the live one, MAXIMAL MATCH as the archive.
    recency: a duration ('7 seconds'), or a number where event time is one.
    on: columns that both must have equal: a name, several, or a mapping of the live one's names to the archive one's.
    where: a further condition in SQL, over live.x and archive.x. args: the values of its parameters.
    ordered: pairs with one key come in order of their start, then of their end; a stream waits for that.
    """
    return _correlation(live, archive, args, recency, on, where, ordered, spark, options).frame()


def explain_correlate(
    live: Pattern,
    archive: Pattern,
    args: Mapping[str, object] | None = None,
    *,
    recency: Length,
    on: On = (),
    where: str | None = None,
    ordered: bool = False,
    spark: SparkSession | None = None,
    options: Options | None = None,
    analyze: bool = False,
    format: str = "text",
) -> str:
    """How `correlate` would evaluate it. analyze: run it, and say what the plans of all shards did. format: as in
    `explain`."""
    wanted = check_format(format)
    query = _correlation(live, archive, args, recency, on, where, ordered, spark, options)
    return _shown([query.placed()], analyze, wanted)


def _correlation(
    live: Pattern,
    archive: Pattern,
    args: Mapping[str, object] | None,
    recency: Length,
    on: On,
    where: str | None,
    ordered: bool,
    spark: SparkSession | None,
    options: Options | None,
) -> CorrelateQuery:
    arguments = arguments_of(args)
    return CorrelateQuery(live, archive, recency, on, where, ordered, options_of(options), spark, arguments)


def plot(
    result: DataFrame,
    *,
    pattern: int | None = None,
    key: object = None,
    between: tuple[object, object] | None = None,
    match: int | None = None,
    choose: str = "longest",
    series: str | None = None,
    most: int = 12,
    width: int = 760,
    height: int | None = None,
) -> Picture:
    """A picture of matches: an Altair chart that shows itself in a notebook; `.save(path)` writes HTML, SVG, PNG or
    PDF, with nothing from the network. It needs altair and vl-convert-python (the extra 'plot').

    result: as `sql`, `match` or `correlate` returned it. The picture shows one key of the pattern's input and its
    matches: of a row pattern the series with the rows marked by label, of an event pattern lanes of events, of a
    situation pattern bars, of a correlation both matches and the recency. Labels are asked of the engine: the
    query need not put them out.
    pattern: which one of a statement with several, from 1 on.
    key: the value of the key column; several in order, or a mapping by name. None: that of the match that is chosen.
    between: the first and the last time to show; None is no bound. Else, the match and what lies around it.
    match: the number of a match within its key, from 1 on. None: the one that `choose` says.
    choose: 'longest', 'shortest', or 'rarest key': the longest match of a key with the fewest.
    series: the column to draw (default: the first number that the conditions are about).
    most: how many matches are drawn at most; the picture says where there are more.
    width, height: in pixels; height of the panel with the matches (default: as fits).
    """
    from episode.see.pictures.plotting import plot

    wish = {"pattern": pattern, "key": key, "between": between, "match": match, "choose": choose}
    return plot(result, **wish, series=series, most=most, width=width, height=height)


def report(
    result: DataFrame,
    path: str | PathLike[str],
    *,
    title: str | None = None,
    plots: int = 10,
    rows: int = 50,
) -> Path:
    """Write what a query found to one HTML file, which opens anywhere, without the network; returns its path.

    result: what `sql`, `match` or `correlate` returned, over tables.
    path: of the file; one that is there is replaced.
    title: the heading (None: from the query).
    plots: how many pictures of single matches, the most telling ones, for each pattern. They need the extra 'plot';
        without it, the report says so.
    rows: how many rows of the result are shown.

    In it: the query, counts, matches over time, by key and by length, pictures, the first rows, what the columns of the
    input hold, the plan, and how long it took. Spark runs the query twice, and collects only what the report shows.
    """
    from episode.see.reports.page import write_report

    return write_report(result, path, title, plots, rows)


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
    pattern with FROM.

    tables, or by keyword: Arrow tables, pandas or Polars frames; the result is of the same kind. Timestamps with a zone
        are Spark's timestamp, those without are timestamp_ntz; days are those of UTC.
    args: the values of the query's parameters, which are written :name.
    Expressions are those that the expression machine knows; anything else is an EpisodeUnsupportedError.
    """
    from episode.queries import local_statement

    every = every_table(tables, named)
    return local_statement.sql_local(text_of(text), every, options_of(options), arguments_of(args))


def match_local(
    events: Any,
    text: str,
    args: Mapping[str, object] | None = None,
    *,
    time: str | tuple[str, str] | None = None,
    start: str | None = None,
    key: str | Sequence[str] = (),
    type_column: str | None = None,
    strategy: str | None = None,
    detect: str | None = None,
    granularity: Length | None = None,
    probabilities: str | None = None,
    width: Length | None = None,
    options: Options | None = None,
) -> Any:
    """Find an event pattern or a situation pattern in a table in this process, without Spark; see `match` for the
    options, and `sql_local` for tables and expressions."""
    from episode.queries import local_statement

    given = given_of(time, start, key, type_column, strategy, detect, granularity, probabilities, width)
    return local_statement.match_local(events, text_of(text), given, options_of(options), arguments_of(args))


__all__ = ["Options", "explain", "explain_match", "match", "match_local", "sql", "sql_local"]


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
