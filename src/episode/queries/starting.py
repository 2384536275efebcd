"""A live query from a text to a handle: planned, with an output, a checkpoint and tasks, and started on Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.live.checkpoint import open_query, tasks_of
from episode.live.input_source import HANDLINGS
from episode.live.inputs import StoreInputs
from episode.live.kafka import TopicReader
from episode.live.kafka_input import KafkaInputs
from episode.live.protocol import InputDescription, TaskDescription, TaskOptions
from episode.matchers.state import fingerprint
from episode.plan.event_time import EventTime, duration_in_units
from episode.queries.live import plan_live
from episode.queries.live_output import LiveOutput, identity_of, output_of
from episode.queries.live_plan import LivePlan
from episode.queries.options import Options
from episode.store.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episode.spark.live import LiveQuery

PLACE = ".live"
"""Where checkpoints are in a catalog, unless asked for elsewhere."""


@dataclass(frozen=True)
class Wishes:
    """The arguments of `start` beside query and output."""

    input: str = "adaptive"
    checkpoint: str | PathLike[str] | None = None
    tasks: int | None = None
    name: str | None = None
    max_unprocessed: int | None = None
    push_ahead: int | None = None
    snapshot_every: float | str | None = None
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        if self.input not in HANDLINGS:
            known = ", ".join(repr(one) for one in HANDLINGS)
            raise EpisodeAnalysisError(f"input={self.input!r}: one of {known} is needed.")
        _check_number("max_unprocessed", self.max_unprocessed, 1)
        _check_number("push_ahead", self.push_ahead, 0)
        if self.push_ahead is not None and self.input != "adaptive":
            raise EpisodeAnalysisError(
                f"push_ahead={self.push_ahead} has no meaning with input={self.input!r}.",
                hint="It says how far adaptive input runs ahead: input='adaptive'.",
            )
        _check_number("metrics_port", self.metrics_port, 0)
        _check_number("tasks", self.tasks, 1)

    def options(self, plan: LivePlan) -> TaskOptions:
        options = TaskOptions(handling=self.input, late_path=plan.late_path)  # type: ignore[arg-type]
        if self.max_unprocessed is not None:
            options = replace(options, max_unprocessed=self.max_unprocessed)
        if self.push_ahead is not None:
            options = replace(options, future=self.push_ahead)
        if self.snapshot_every is not None:
            options = replace(options, snapshot_every=_seconds(self.snapshot_every))
        return options


def start_live(
    text: str,
    spark: SparkSession,
    into: Any,
    options: Options,
    arguments: Mapping[str, object],
    wishes: Wishes,
) -> LiveQuery:
    """Plan a query, and start it."""
    from episode.spark.expressions import UTC_NAMES
    from episode.spark.live import LiveQuery, LiveRun, running_tasks, slots
    from episode.spark.stores.catalog import catalog_of

    catalog = catalog_of(spark)
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    plan = plan_live(text, catalog, options, arguments, zone in UTC_NAMES)
    checkpoint = checkpoint_of(text, into, arguments, wishes.checkpoint, catalog)
    output = output_of(into, plan, catalog, checkpoint)
    plan, input_ = with_partitions(plan), input_of(plan, zone)
    tasks = tasks_for(plan, wishes.tasks, tasks_of(checkpoint), slots(spark), running_tasks())
    how = wishes.options(plan)
    output = output.prepare(catalog)  # all is checked
    descriptions = described(plan, output, input_, checkpoint, tasks, how)
    numeric = plan.time.units_per_millisecond == 1
    run = LiveRun(descriptions, wishes.name, output.words, numeric, output.receiver, wishes.metrics_port)
    return LiveQuery(spark, run)


def described(
    plan: LivePlan,
    output: LiveOutput,
    input: InputDescription,
    checkpoint: str,
    tasks: int,
    options: TaskOptions,
    rule_log: str | None = None,
) -> tuple[TaskDescription, ...]:
    """All tasks of a query; the checkpoint is made, or checked."""
    identity = fingerprint(plan.fingerprint, output.words)
    query = open_query(checkpoint, identity, tasks)
    return tuple(
        TaskDescription(
            spec=plan.spec,
            settings=plan.settings,
            finish=output.finish,
            input=input,
            sink=output.sink,
            checkpoint=checkpoint,
            query=query,
            fingerprint=identity,
            task=number,
            tasks=tasks,
            options=options,
            rule_log=rule_log,
        )
        for number in range(tasks)
    )


def checkpoint_of(
    text: str, into: Any, arguments: Mapping[str, object], given: str | PathLike[str] | None, catalog: Catalog
) -> str:
    """Where the state is kept: as asked for, or in the catalog, by what the query is and where its matches go."""
    if given is not None:
        place = fspath(given).removeprefix("file://")
        if "://" in place:
            raise EpisodeAnalysisError(
                f"checkpoint={place!r}: the checkpoint of a live query is in a directory that all workers reach.",
                hint="Give the path of a directory.",
            )
        return str(Path(place).expanduser().absolute())
    what = f"{' '.join(text.split())}\n{sorted(arguments.items())!r}\n{identity_of(into)}"
    return str(catalog.directory / PLACE / hashlib.sha256(what.encode()).hexdigest()[:16])


def with_partitions(plan: LivePlan) -> LivePlan:
    """A plan over a topic, whose partitions are known now: there may be as many tasks."""
    declaration = plan.streams[0].declaration
    if declaration.using != "kafka":
        return plan
    reader = TopicReader(declaration)
    try:
        return replace(plan, lanes=min(plan.lanes, reader.count()))
    finally:
        reader.close()


def input_of(plan: LivePlan, zone: str) -> InputDescription:
    topics = [stream for stream in plan.streams if stream.declaration.using == "kafka"]
    if not topics:
        return StoreInputs(plan.streams)
    return KafkaInputs(topics[0], zone)


def tasks_for(plan: LivePlan, wanted: int | None, kept: int | None, slots: int, used: int = 0) -> int:
    """How many tasks there are: as asked for, as in the checkpoint, or as many as there are lanes and slots for. used:
    slots of other live queries."""
    if wanted is None and kept is None and plan.reason is not None:
        raise plan.reason
    known = kept if wanted is None else wanted
    tasks = min(plan.lanes, max(1, slots - used - 1)) if known is None else known
    plan.check_tasks(tasks)
    free = max(0, slots - used)
    if tasks > free:
        whence = ", as many as the checkpoint has," if wanted is None and kept is not None else ""
        raise EpisodeAnalysisError(
            f"tasks={tasks}{whence} cannot run at once: Spark has {slots} slot{'s' if slots > 1 else ''}"
            + (f", and other live queries have {used} of them." if used else "."),
            hint=(f"Use at most tasks={free}, or" if free else "Stop one of them, or use")
            + " a session with more cores.",
        )
    return tasks


def _seconds(value: float | str) -> float:
    if isinstance(value, str):
        value = duration_in_units(value, EventTime("", "timestamp"), "snapshot_every") / 1e6
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise EpisodeAnalysisError(f"snapshot_every={value!r}: a number of seconds is needed, or '5 seconds'.")
    return float(value)


def _check_number(name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise EpisodeAnalysisError(f"{name}={value!r}: a whole number of at least {least} is needed.")
