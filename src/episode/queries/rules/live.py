"""Rules over a declared stream in live tasks, added, replaced and removed while they run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.lang.syntax import Source
from episode.live.rule_changes import agree
from episode.matchers.projection import CopiedColumn, Projection, Projections
from episode.matchers.protocol import StateLimit
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START
from episode.matchers.state import fingerprint
from episode.matchers.stream_shard import ShardSettings
from episode.plan.options import Options
from episode.plan.schema import key_columns
from episode.queries.language import Given
from episode.queries.live import check_options, no_stream
from episode.queries.live_plan import LivePlan, Matched, Read, end_of, lanes_of
from episode.queries.live_start import LiveSettings, checkpoint_of, run_tasks, time_zone
from episode.queries.local import local_schema
from episode.queries.options import seconds_of
from episode.queries.rules.planning import StreamPlanner
from episode.queries.rules.streaming import spec_of, versions_of, warn_of_problems
from episode.queries.rules.watching import RuleWatcher, reader_of
from episode.store.catalog import Catalog
from episode.store.rule_log import RuleLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episode.spark.live import LiveQuery

LOGGER = logging.getLogger("episode.live")
AGREES = 0.02
"""Seconds between two looks at the answers of tasks."""


@dataclass(frozen=True)
class DriverRules:
    """The driver's part in the rules of a live query. See `DrivenRules`."""

    watcher: RuleWatcher
    query: str
    tasks: int
    every: float | None

    def of_query(self, query: str) -> DriverRules:
        """Let the tasks of a query agree on the first changes."""
        agree(self.watcher.log, query, self.tasks)
        return replace(self, query=query)

    def run(self, finished: Event) -> None:
        looked = monotonic()
        is_settled = True
        while not finished.wait(AGREES if not is_settled or self.every is None else min(AGREES * 10, self.every)):
            if self.every is not None and is_settled and monotonic() - looked >= self.every:
                looked = monotonic()
                self.watcher.look()
            is_settled = agree(self.watcher.log, self.query, self.tasks)

    def look(self) -> object:
        return self.watcher.look()

    def table(self) -> pa.Table:
        return versions_of(self.watcher)


def start_rules(
    stream: str,
    given_rules: Any,
    given: Given,
    spark: SparkSession,
    into: Any,
    options: Options,
    arguments: Mapping[str, object],
    settings: LiveSettings,
    look_every: float | str | None,
) -> LiveQuery:
    from episode.spark.expressions import UTC_NAMES
    from episode.spark.stores.catalog import catalog_of

    catalog = catalog_of(spark)
    planner, plan = plan_rules(stream, catalog, given, options, arguments, time_zone(spark) in UTC_NAMES)
    every = None if look_every is None else seconds_of("look_every", look_every)
    what = fspath(given_rules) if isinstance(given_rules, (str, PathLike)) else "given"
    checkpoint = checkpoint_of(f"rules {what} over {stream}", into, arguments, settings.checkpoint, catalog)

    def rules_for(tasks: int) -> DriverRules:
        watcher = RuleWatcher(reader_of(given_rules, spark), planner, RuleLog(f"{checkpoint}/rules"))
        watcher.look()
        warn_of_problems(watcher.log)
        return DriverRules(watcher, "", tasks, every)

    return run_tasks(plan, spark, into, checkpoint, settings, rules_for)


def plan_rules(
    stream: str, catalog: Catalog, given: Given, options: Options, arguments: Mapping[str, object], utc: bool = True
) -> tuple[StreamPlanner, LivePlan]:
    """The planner of all rules over a declared stream, and the query that runs them. utc: is UTC the time zone?"""
    check_options(options, [])
    declaration = catalog.lookup(stream)
    if declaration is None or declaration.name.lower() != stream.lower():
        message, hint = no_stream(stream, catalog)
        raise EpisodeAnalysisError(message, hint=hint)
    if given.time not in (None, declaration.time):
        message = f"time={given.time!r}: the event time of the stream {declaration.name} is {declaration.time}."
        hint = "Leave time out; or run the rules in micro-batches: match_all on the stream."
        raise EpisodeAnalysisError(message, hint=hint)
    source, schema, time = Source(declaration.name), declaration.schema, declaration.event_time
    keys = key_columns(local_schema(schema, source, arguments, utc), given.key or declaration.key)
    limit = StateLimit.of(options.stream)
    said = replace(given, time=declaration.time, key=keys)
    rules = StreamPlanner(schema, declaration.time, keys, said, options.run(1, arguments), limit, utc)
    spec = spec_of(rules)
    own = {name: name for name in schema.names}
    reading = Read(declaration, tuple((name, CopiedColumn(name)) for name in own), own)
    streams = (reading.stream(reading.prepare(utc, arguments)),)
    output = [(name, CopiedColumn(name)) for name in spec.output_schema.names]
    finish = Projections((Projection.compile(output, spec.output_schema),))
    matched = Matched(None, (reading,), streams, schema, finish, source, source.span)  # type: ignore[arg-type]
    lanes, reason = lanes_of(matched, spec)
    end = end_of(options.stream.end, time, utc)
    settings = ShardSettings(end, options.stream.event_id, options.stream.late_path is not None, True)
    identity = fingerprint(
        spec.fingerprint, repr((end, options.stream.event_id)), f"{declaration.name} {declaration.location}"
    )
    times = {MATCH_START: None, MATCH_END: None}
    return rules, LivePlan(
        streams,
        spec,
        settings,
        finish,
        finish.schema,
        time,
        times,
        keys,
        lanes,
        reason,
        identity,
        options.stream.late_path,
    )
