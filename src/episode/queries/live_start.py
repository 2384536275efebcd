"""A live query from a text to a handle: its settings, checkpoint and tasks, and where its matches go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.live.checkpoint import open_query, tasks_of
from episode.live.input_source import HANDLINGS
from episode.live.inputs import StoreInputs
from episode.live.kafka import TopicReader
from episode.live.kafka_input import KafkaInputs
from episode.live.kafka_sink import KafkaOutput
from episode.live.protocol import InputDescription, SinkDescription, TaskDescription, TaskOptions
from episode.live.sinks import Delivery, FilesOutput, Receiver, StreamOutput
from episode.matchers.projection import ConstantColumn, CopiedColumn, Projections
from episode.matchers.spark_types import spark_name
from episode.matchers.state import fingerprint
from episode.plan.options import Options
from episode.plan.schema import OWN
from episode.plan.streams import SERVERS, TOPIC
from episode.plan.types import is_event_time, is_integer, lane_of
from episode.queries.live import plan_live
from episode.queries.live_plan import LivePlan
from episode.queries.options import seconds_of
from episode.store.catalog import Catalog
from episode.store.conforming import conform
from episode.store.declaration import Declaration, declare, is_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episode.queries.rules.live import DriverRules
    from episode.spark.live import LiveQuery


PLACE = ".live"
"""The folder of checkpoints in a catalog."""


@dataclass(frozen=True)
class LiveSettings:
    """The arguments of `start`, except query and output."""

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
            message = f"push_ahead={self.push_ahead} has no meaning with input={self.input!r}."
            raise EpisodeAnalysisError(message, hint="It sets how far adaptive input runs ahead: input='adaptive'.")
        _check_number("metrics_port", self.metrics_port, 0)
        _check_number("tasks", self.tasks, 1)

    def options(self, plan: LivePlan) -> TaskOptions:
        every = self.snapshot_every
        given: dict[str, Any] = {
            "max_unprocessed": self.max_unprocessed,
            "future": self.push_ahead,
            "snapshot_every": None if every is None else seconds_of("snapshot_every", every),
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return TaskOptions(handling=self.input, late_path=plan.late_path, **chosen)  # type: ignore[arg-type]


def start_live(
    text: str, spark: SparkSession, into: Any, options: Options, arguments: Mapping[str, object], settings: LiveSettings
) -> LiveQuery:
    from episode.spark.expressions import UTC_NAMES
    from episode.spark.stores.catalog import catalog_of

    catalog = catalog_of(spark)
    plan = plan_live(text, catalog, options, arguments, time_zone(spark) in UTC_NAMES)
    checkpoint = checkpoint_of(text, into, arguments, settings.checkpoint, catalog)
    return run_tasks(plan, spark, into, checkpoint, settings)


def time_zone(spark: SparkSession) -> str:
    return spark.conf.get("spark.sql.session.timeZone") or "UTC"


def run_tasks(
    plan: LivePlan,
    spark: SparkSession,
    into: Any,
    checkpoint: str,
    settings: LiveSettings,
    rules_for: Callable[[int], DriverRules] | None = None,
) -> LiveQuery:
    """Start the tasks of a plan. rules_for: makes the driver's part in its rules, for a number of tasks."""
    from episode.spark.live import LiveQuery, LiveRun, running_tasks, slots
    from episode.spark.stores.catalog import catalog_of

    catalog = catalog_of(spark)
    output = output_of(into, plan, catalog, checkpoint)
    topic = next((stream for stream in plan.streams if stream.declaration.using == "kafka"), None)
    input_ = StoreInputs(plan.streams) if topic is None else KafkaInputs(topic, time_zone(spark))
    plan = with_partitions(plan)
    tasks = tasks_for(plan, settings.tasks, tasks_of(checkpoint), slots(spark), running_tasks())
    how = settings.options(plan)
    rules = None if rules_for is None else rules_for(tasks)
    output = output.prepare(catalog)  # all is checked
    rule_log = None if rules is None else str(rules.watcher.log.place)
    descriptions = describe_tasks(plan, output, input_, checkpoint, tasks, how, rule_log)
    if rules is not None:
        rules = rules.of_query(descriptions[0].query)
    numeric = plan.time.units_per_millisecond == 1
    run = LiveRun(descriptions, settings.name, output.words, numeric, output.receiver, settings.metrics_port, rules)
    return LiveQuery(spark, run)


def describe_tasks(
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
    """Return the place of the checkpoint: as given, or in the catalog, named by the query and its output."""
    if given is not None:
        place = fspath(given).removeprefix("file://")
        if "://" in place:
            message = f"checkpoint={place!r}: the checkpoint of a live query is in a directory that all workers reach."
            raise EpisodeAnalysisError(message, hint="Give the path of a directory.")
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


def tasks_for(plan: LivePlan, wanted: int | None, kept: int | None, slots: int, used: int = 0) -> int:
    """Return the number of tasks: as given, as in the checkpoint, or one per lane if slots suffice. used: slots
    of other live queries."""
    if wanted is None and kept is None and plan.reason is not None:
        raise plan.reason
    known = kept if wanted is None else wanted
    tasks = min(plan.lanes, max(1, slots - used - 1)) if known is None else known
    plan.check_tasks(tasks)
    free = max(0, slots - used)
    if tasks > free:
        whence = ", the number in the checkpoint," if wanted is None and kept is not None else ""
        message = f"tasks={tasks}{whence} cannot run at once: Spark has {slots} slot{'s' if slots > 1 else ''}" + (
            f", and other live queries have {used} of them." if used else "."
        )
        hint = (f"Use at most tasks={free}, or" if free else "Stop one of them, or use") + " a session with more cores."
        raise EpisodeAnalysisError(message, hint=hint)
    return tasks


def _check_number(name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise EpisodeAnalysisError(f"{name}={value!r}: a whole number of at least {least} is needed.")


# ---- output: a declared stream (made if missing), files, Kafka, or a function ------------------------
#
# The event time of a stream that is made for matches is the column with a time of the match after which the match is
# reported soonest: the end of a match before its start. Its key are the partition columns among its columns; its delay
# is that of the input, plus the time after which a match may be reported.


Into = Union[str, "PathLike[str]", Mapping[str, str], Callable[[pa.Table], object]]
"""The name of a stream, a path, {"kafka": topic, "kafka.bootstrap.servers": …}, or a function of an Arrow table."""

REPORTED = f"{OWN}reported"
FORMS = (
    "into= is the name of a stream, a path with a slash in it, {'kafka': topic, …}, or a function of an Arrow table."
)


@dataclass(frozen=True)
class LiveOutput:
    """sink: of the tasks. finish: the columns that it takes. words: what it is. made: a stream that is declared when
    the query starts. receiver: a function in the driver that matches are handed to."""

    sink: SinkDescription
    finish: Projections
    words: str
    made: Declaration | None = None
    receiver: Delivery | None = None

    def prepare(self, catalog: Catalog) -> LiveOutput:
        """Declare the stream that is to be made; the location comes from the catalog."""
        if self.made is None:
            return self
        return replace(self, sink=StreamOutput(catalog.create(self.made, if_not_exists=True)), made=None)


def identity_of(into: Any) -> str:
    """Return a text that tells an output from others, for the place of a checkpoint."""
    if callable(into):
        module, name = (getattr(into, one, "") for one in ("__module__", "__qualname__"))
        return f"{module}.{name}" if name else type(into).__qualname__
    return repr(sorted(into.items())) if isinstance(into, Mapping) else os.fspath(into)


def output_of(into: Any, plan: LivePlan, catalog: Catalog, checkpoint: str) -> LiveOutput:
    """The output that was asked for, checked against the columns of the query."""
    if isinstance(into, (str, PathLike)):
        place = os.fspath(into)
        if isinstance(into, str) and is_name(place):
            return _stream(place, plan, catalog)
        if isinstance(into, str) and "/" not in place and "\\" not in place and not Path(place).exists():
            raise EpisodeAnalysisError(f"into={place!r} is neither the name of a stream nor a path.", hint=FORMS)
        whole = place if "://" in place else str(Path(place).expanduser().absolute())
        return LiveOutput(FilesOutput(whole), plan.finish, f"files in {whole}")
    if isinstance(into, Mapping):
        return _topic(into, plan)
    if callable(into):
        return _function(into, plan, checkpoint)
    raise EpisodeAnalysisError(f"into={into!r} does not name a place for matches.", hint=FORMS)


def _stream(name: str, plan: LivePlan, catalog: Catalog) -> LiveOutput:
    read = next((one for one in plan.streams if one.declaration.name.lower() == name.lower()), None)
    if read is not None:
        message = f"into={name!r}: the query reads this stream; its matches would be its events."
        raise EpisodeAnalysisError(message, hint="Give the matches a separate stream.")
    found = catalog.lookup(name)
    if found is None:
        return LiveOutput(StreamOutput(made := made_for(name, plan)), plan.finish, f"the stream {name}", made)
    if found.name.lower() != name.lower():
        hint = f"Write into={found.name!r}."
        raise EpisodeAnalysisError(f"into={name!r} is the archive of the stream {found.name}.", hint=hint)
    _check_fits(found, plan)
    sink = KafkaOutput(found) if found.using == "kafka" else StreamOutput(found)
    return LiveOutput(sink, plan.finish, f"the stream {found.name}")


def _check_fits(declaration: Declaration, plan: LivePlan) -> None:
    """The columns of the query are those of the stream."""
    try:
        conform(plan.output.empty_table(), declaration)
    except EpisodeDataError as error:
        given = ", ".join(f"{one.name} {spark_name(one.type).upper()}" for one in plan.output)
        columns = ", ".join(f"{column} {type_.upper()}" for column, type_ in declaration.columns)
        what = error.message.split(". Nothing of", 1)[0].split(". Nothing", 1)[0]
        message = f"The matches do not fit the stream {declaration.name}: {what[0].lower()}{what[1:]}."
        hint = f"Columns of the query: {given}. Columns of the stream: {columns}."
        raise EpisodeAnalysisError(message, hint=hint) from None


def made_for(name: str, plan: LivePlan, **how: Any) -> Declaration:
    columns = [(one.name, spark_name(one.type)) for one in plan.output]
    time = time_of(name, plan)
    keys = [key for key in plan.keys if lane_of(dict(columns)[key]) is not None]
    made = declare(name, columns, time=time, key=keys, **how)
    delay = plan.delay + (plan.times.get(time) or 0)
    fits = made.event_time.units_per_millisecond == plan.time.units_per_millisecond
    return replace(made, delay=delay if delay and fits else None)


def time_of(name: str, plan: LivePlan) -> str:
    """The column of the matches that is the event time of their stream."""
    order = {one.name: number for number, one in enumerate(plan.output)}
    if plan.times:
        known = [(delay, -order[column], column) for column, delay in plan.times.items() if delay is not None]
        return min(known)[2] if known else max(plan.times, key=lambda column: order[column])
    types = {one.name: spark_name(one.type) for one in plan.output}
    times = [column for column, type_ in types.items() if is_event_time(type_) and not is_integer(type_)]
    if len(times) == 1:
        return times[0]
    which = f"{' and '.join(times)} are times" if times else "none of its columns is the time of a match"
    raise EpisodeAnalysisError(
        f"The stream {name} cannot be made for the matches: {which}.",
        hint=f"Add the time of a match to the result, as in LAST({plan.time.column}) AS match_end, or declare the "
        f"stream: CREATE STREAM {name} (…) TIME …",
    )


def _topic(into: Mapping[str, str], plan: LivePlan) -> LiveOutput:
    """{"kafka": topic, …}: options of the producer as a stream USING kafka has them; servers as those of the input."""
    known = plan.streams[0].declaration.options if plan.streams[0].declaration.using == "kafka" else {}
    options = {name: str(value) for name, value in known.items() if name.startswith(("kafka.", "librdkafka."))}
    options.update({name: str(value) for name, value in into.items() if name != "kafka"})
    strange = next((name for name in into if name != "kafka" and not name.startswith(("kafka.", "librdkafka."))), None)
    if "kafka" not in into or strange is not None:
        what = "has no topic" if strange is None else f"has an option {strange}"
        hint = f"Write into={{'kafka': 'alerts', '{SERVERS}': 'host:9092'}}."
        raise EpisodeAnalysisError(f"into={dict(into)!r} {what}.", hint=hint)
    if SERVERS not in options:
        raise EpisodeAnalysisError(f"into={dict(into)!r}: which broker?", hint=f"Add '{SERVERS}': 'host:9092'.")
    made = made_for("matches", plan, using="kafka", options={**options, TOPIC: str(into["kafka"])})
    return LiveOutput(KafkaOutput(made), plan.finish, f"the topic {into['kafka']}")


def _function(function: Receiver, plan: LivePlan, checkpoint: str) -> LiveOutput:
    """Matches go to a stream in the checkpoint, whose events are in order of arrival; the driver hands them over."""
    columns = [(one.name, spark_name(one.type)) for one in plan.output]
    location = str(Path(checkpoint) / "matches")
    inner = Declaration(
        "matches", (*columns, (REPORTED, "bigint")), REPORTED, location=location, lanes=1, managed=False
    )
    kept = tuple((one.name, CopiedColumn(one.name)) for one in plan.output)
    finish = plan.finish.then((*kept, (REPORTED, ConstantColumn(0, pa.int64()))))
    names = tuple(one.name for one in plan.output)
    delivery = Delivery(inner, str(Path(checkpoint) / "delivered"), names, function)
    return LiveOutput(StreamOutput(inner), finish, f"the function {identity_of(function)}", receiver=delivery)
