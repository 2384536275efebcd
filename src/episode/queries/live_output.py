"""Where the matches of a live query go: a declared stream (made where there is none), files, Kafka, or a function.

The event time of a stream that is made for matches is the column with a time of the match after which the match is
reported soonest: the end of a match before its start. Its key are the partition columns among the columns; its delay is
that of the input, and how long after that time a match may be reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.live.kafka_sink import KafkaOutput
from episode.live.protocol import SinkDescription
from episode.live.sinks import Delivery, FilesOutput, Receiver, StreamOutput
from episode.matchers.projection import Copied, Projections, Same
from episode.matchers.spark_types import spark_name
from episode.plan.schema import OWN
from episode.plan.streams import SERVERS, TOPIC
from episode.plan.types import is_event_time, is_integer, lane_of
from episode.queries.live_plan import LivePlan
from episode.store.catalog import Catalog
from episode.store.conforming import conform
from episode.store.declaration import Declaration, declare, is_name

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
    """What tells an output from others, for the place of a checkpoint."""
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
    raise EpisodeAnalysisError(f"into={into!r} says nothing of where matches go.", hint=FORMS)


# ---- streams -----------------------------------------------------------------------------------------


def _stream(name: str, plan: LivePlan, catalog: Catalog) -> LiveOutput:
    read = next((one for one in plan.streams if one.declaration.name.lower() == name.lower()), None)
    if read is not None:
        raise EpisodeAnalysisError(
            f"into={name!r}: the query reads this stream; its matches would be its events.",
            hint="Give matches a stream of their own.",
        )
    found = catalog.lookup(name)
    if found is None:
        return LiveOutput(StreamOutput(made := made_for(name, plan)), plan.finish, f"the stream {name}", made)
    if found.name.lower() != name.lower():
        raise EpisodeAnalysisError(
            f"into={name!r} is the archive of the stream {found.name}.", hint=f"Write into={found.name!r}."
        )
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
        raise EpisodeAnalysisError(
            f"The matches do not fit the stream {declaration.name}: {what[0].lower()}{what[1:]}.",
            hint=f"Columns of the query: {given}. Columns of the stream: {columns}.",
        ) from None


def made_for(name: str, plan: LivePlan, **how: Any) -> Declaration:
    """A stream for the matches of a query."""
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


# ---- other places ------------------------------------------------------------------------------------


def _topic(into: Mapping[str, str], plan: LivePlan) -> LiveOutput:
    """{"kafka": topic, …}: options of the producer as a stream USING kafka has them; servers as those of the input."""
    known = plan.streams[0].declaration.options if plan.streams[0].declaration.using == "kafka" else {}
    options = {name: str(value) for name, value in known.items() if name.startswith(("kafka.", "librdkafka."))}
    options.update({name: str(value) for name, value in into.items() if name != "kafka"})
    strange = next((name for name in into if name != "kafka" and not name.startswith(("kafka.", "librdkafka."))), None)
    if "kafka" not in into or strange is not None:
        what = "has no topic" if strange is None else f"has an option {strange}"
        raise EpisodeAnalysisError(
            f"into={dict(into)!r} {what}.", hint=f"Write into={{'kafka': 'alerts', '{SERVERS}': 'host:9092'}}."
        )
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
    kept = tuple((one.name, Copied(one.name)) for one in plan.output)
    finish = plan.finish.then((*kept, (REPORTED, Same(0, pa.int64()))))
    names = tuple(one.name for one in plan.output)
    delivery = Delivery(inner, str(Path(checkpoint) / "delivered"), names, function)
    return LiveOutput(StreamOutput(inner), finish, f"the function {identity_of(function)}", receiver=delivery)
