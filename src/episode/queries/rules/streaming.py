"""Rules over a stream, added, replaced and removed while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError, warn
from episode.lang.syntax import Source
from episode.matchers.json_text import JsonForm
from episode.matchers.protocol import InputOrder, OrderKey, StateLimit
from episode.matchers.rules.one_rule import Effect, RuleChange
from episode.matchers.rules.spec import ChangingSpec, rule_groups
from episode.matchers.spark_types import held_as
from episode.plan.event_time import EventTime, time_column
from episode.plan.options import STOP, Options, RunOptions
from episode.plan.schema import key_columns
from episode.queries.language import Given
from episode.queries.options import check_streams, check_use, seconds_of
from episode.queries.rules.planning import StreamPlanner
from episode.queries.rules.results import Plan, RuleMatches
from episode.queries.rules.watching import UNREADABLE, RuleWatcher, Watch, reader_of
from episode.store.rule_log import RuleLog, active_of
from episode.words import DAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

WAITING, ACTIVE, REPLACED, REMOVED, REFUSED = "waiting", "active", "replaced", "removed", "refused"


@dataclass(frozen=True)
class StreamMatches(RuleMatches):
    """The matches of rules over a stream: `writeStream` as of a DataFrame, and what is known of the rules. A rule is
    that of now; matches of an earlier version with other columns have nulls there.

    frame: rule, key columns, match_start, match_end, result. texts: the same with the result as JSON.
    """

    frame: DataFrame
    texts: DataFrame
    watcher: RuleWatcher
    watch: Watch | None
    reasons: tuple[str, ...]

    @property
    def writeStream(self) -> DataStreamWriter:
        """Starts as that of a DataFrame does. From now on the rules are looked at, until no stream runs any more."""
        return self.watch_rules(self.frame).writeStream

    def watch_rules(self, frame: DataFrame) -> DataFrame:
        """Return a frame made of these matches, to be started: from now on the rules are looked at."""
        if self.watch is not None:
            self.watch.start()
        return frame

    @property
    def isStreaming(self) -> bool:
        return True

    @property
    def columns(self) -> list[str]:
        return list(self.frame.columns)

    @property
    def schema(self) -> StructType:
        return self.frame.schema

    def look(self) -> list[RuleChange]:
        """Look at the rules now; the changes that the stream will take up with its next micro-batch."""
        return self.watcher.look()

    def close(self) -> None:
        """Stop looking at the rules. The stream continues."""
        if self.watch is not None:
            self.watch.stop()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(active_of(self.watcher.log.changes()))

    def _of(self, rule: str) -> DataFrame:
        from episode.spark.stream.rules import of_rule

        text = active_of(self.watcher.log.changes())[rule]
        return of_rule(self.texts, rule, self.watcher.rules.plan(rule, text).result_schema)

    def _plan(self) -> Plan:
        rules = self.watcher.rules
        active = active_of(self.watcher.log.changes())
        specs = [(name, rules.plan(name, text).inner) for name, text in active.items()]
        fields = {
            one.name: one for schema in (rules.schema, *(spec.input_schema for _, spec in specs)) for one in schema
        }
        groups = rule_groups(specs, pa.schema(list(fields.values())))
        return [rules.bind(*one) for one in active.items()], groups, self.reasons

    def rules(self) -> pa.Table:
        """Every version of every rule, and what became of it, as a table: see `rules_table`."""
        return versions_of(self.watcher)


def versions_of(watcher: RuleWatcher) -> pa.Table:
    return rules_table(watcher.log, held_as(watcher.rules.schema.field(watcher.rules.time).type))


def rules_table(log: RuleLog, time: pa.DataType) -> pa.Table:
    """Return what a rule log records.

    version: the number of the change. status: waiting (no micro-batch has taken it up), active, replaced, removed, or
    refused (it is not a rule; error: why). active_from, active_until: the first and the last event time that count for
    it (null: the stream's first event; it is still active). failed_keys: the number of keys it is disabled for, because
    it failed on their data; error: what one of them raised. query: Spark's id of the query that took it up.
    """
    changes, effects = log.changes(), log.effects()
    queries: list[str | None] = list(dict.fromkeys(effect.query for effect in effects))
    queries = queries or [None]
    rows = [
        row for query in queries for row in _versions(changes, [one for one in effects if one.query == query], query)
    ]
    for failure in log.failures():
        for row in rows:
            if row["version"] == failure.number:
                row["failed_keys"] += failure.keys
                row["error"] = failure.reason
    for name, reason in log.problems().items():
        rows.append(
            {"name": name if name != UNREADABLE else None, "status": REFUSED, "failed_keys": 0, "error": reason}
        )
    for row in rows:
        row["active_from"] = _moment(row.get("active_from"), time, first=True)
        row["active_until"] = _moment(row.get("active_until"), time, first=False)
    return pa.Table.from_pylist(rows, schema=_schema(time))


def _schema(time: pa.DataType) -> pa.Schema:
    return pa.schema(
        [
            ("name", pa.string()), ("version", pa.int64()), ("status", pa.string()), ("active_from", time),
            ("active_until", time), ("failed_keys", pa.int64()), ("error", pa.string()), ("text", pa.string()),
            ("query", pa.string()),
        ]
    )  # fmt: skip


def _versions(changes: list[RuleChange], effects: list[Effect], query: str | None) -> list[dict[str, Any]]:
    """The versions of rules as one query has seen them."""
    taken = {effect.number: effect.after for effect in effects}
    rows: list[dict[str, Any]] = []
    latest: dict[str, dict[str, Any]] = {}
    for change in changes:
        is_taken = change.number in taken
        before = latest.pop(change.name, None)
        if before is not None and is_taken:
            before["status"] = REMOVED if change.text is None else REPLACED
            before["active_until"] = taken[change.number]
        elif before is not None:
            latest[change.name] = before
        if change.text is None:
            continue
        row: dict[str, Any] = {"name": change.name, "version": change.number, "text": change.text, "query": query}
        row |= {"status": ACTIVE if is_taken else WAITING, "failed_keys": 0}
        after = taken.get(change.number)
        if after is not None:
            row["active_from"] = after + 1
        rows.append(row)
        if is_taken:
            latest[change.name] = row
    return rows


def _moment(value: int | None, time: pa.DataType, first: bool) -> object:
    """A time in units of event time, as a value of its type: the first that is not before it, or the last one."""
    if value is None or pa.types.is_integer(time):
        return value
    if pa.types.is_date(time):
        days = -(-value // DAY) if first else value // DAY
        return date(1970, 1, 1) + timedelta(days=days)
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=value)
    return moment if time.tz is not None else moment.replace(tzinfo=None)


def spec_of(rules: StreamPlanner) -> ChangingSpec:
    """Return the spec of a set of rules, without any rule yet."""
    order = InputOrder(rules.keys, (OrderKey(rules.time),), needs_time=True, start=rules.given.start)
    return ChangingSpec(rules, rules.schema, order)


def over_stream(
    frame: Any,
    rules: Any,
    given: Given,
    options: Options,
    arguments: Mapping[str, object],
    log: str | PathLike[str] | None,
    every: float | str | None,
    table: str | None = None,
) -> StreamMatches:
    """Rules over a streaming DataFrame. table: its name, which rules that name a table must name."""
    from episode.queries.tables import session_of
    from episode.spark.stream.rules import plan_rule_stream, with_variants

    spark = session_of(None, {"events": frame})
    for name in ("detect", "interval", "granularity", "probabilities", "interval_width"):
        if getattr(given, name) is not None:
            said = "time=(…, …)" if name == "interval" else f"{name}={getattr(given, name)!r}"
            hint = "Options(detect=…) is for all situation patterns; run patterns of imprecise time on their own."
            raise EpisodeUnsupportedError(f"{said} is not for rules over a stream.", hint=hint)
    seconds = None if every is None else seconds_of("look_every", every)
    read = reader_of(rules, spark)
    if log is None:
        message = "Rules over a stream need a rule log: a directory in which their versions are kept."
        hint = "Give log='…', a separate directory next to the stream's checkpoint."
        raise EpisodeAnalysisError(message, hint=hint)
    rule_log = RuleLog(log)
    run = options.run(1, arguments)
    run = replace(run, stream=replace(run.stream, on_error=STOP))  # a rule that fails on a key is disabled for it
    planner, readable = _planner(spark, frame, given, run, table)
    watcher = RuleWatcher(read, planner, rule_log)
    watcher.look()
    warn_of_problems(rule_log)
    active = active_of(rule_log.changes())
    check_use(options, [planner.bind(*one).parsed.language for one in active.items()])
    time = EventTime(planner.time, frame.schema[planner.time].dataType.simpleString())
    planned = plan_rule_stream(spark, readable, spec_of(planner), time, run, str(rule_log.place))
    check_streams(options, [planned])
    watch = None if seconds is None else Watch(watcher, seconds, lambda: bool(spark.streams.active))
    texts = planned.frame()
    return StreamMatches(with_variants(texts), texts, watcher, watch, tuple(planned.reasons))


def _planner(
    spark: SparkSession, events: DataFrame, given: Given, run: RunOptions, table: str | None
) -> tuple[StreamPlanner, DataFrame]:
    """Return what all rules have in common, and the events with the columns that rules may read."""
    from episode.spark.batch.rules import has_variant
    from episode.spark.expressions import input_schema
    from episode.spark.stream.rules import readable_columns

    source = Source("")
    known = input_schema(spark, events, source, "the rules", run.arguments)
    time = time_column(source, known, given.time, "Say time='ts'.")
    keys = key_columns(known, given.key)
    frame, schema = readable_columns(events)
    limit = StateLimit.of(run.stream)
    start = None if given.start is None else known.find(given.start)
    given = replace(given, time=time, key=keys, start=start)
    form = JsonForm(exponents=has_variant(frame))
    return StreamPlanner(schema, time, keys, given, run, limit, known.utc, table, form), frame


def warn_of_problems(log: RuleLog) -> None:
    """Warn, when a stream is started, of texts that are not rules. It runs with all others."""
    for name, reason in log.problems().items():
        warn(f"The rule {name} is refused: {reason}" if name else reason)
