"""Declarations of stream stores, checked: names, types of time and key, durations in units of event time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from episode.errors import EpisodeAnalysisError
from episode.lang.streams import CreateStream, StreamColumn, WrittenName
from episode.lang.syntax import Duration
from episode.plan.event_time import in_units_of_time
from episode.plan.schema import OWN, suggestion
from episode.plan.types import is_event_time, is_integer, lane_of

SERVERS, TOPIC = "kafka.bootstrap.servers", "topic"
KAFKA_NEEDS = (SERVERS, TOPIC)
KAFKA_OPTIONS = (
    TOPIC, "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "groupIdPrefix",
)  # fmt: skip
"""Options of Spark's Kafka connector that a declaration may have, in addition to those that begin with `kafka.`."""


def implied_time(columns: Sequence[tuple[str, str]]) -> str:
    """Return the event time of a stream that does not name it: the only TIMESTAMP, TIMESTAMP_NTZ or DATE; without one,
    the only column of integers."""
    times = [name for name, type_ in columns if is_event_time(type_)]
    clocks = [name for name, type_ in columns if is_event_time(type_) and not is_integer(type_)]
    found = clocks or times
    if len(found) == 1:
        return found[0]
    if found:
        message = f"Which column is the event time: {', '.join(found)}?"
        raise EpisodeAnalysisError(message, hint=f"Add for example TIME {found[0]}.")
    hint = "Event time is a TIMESTAMP, a TIMESTAMP_NTZ, a DATE or an integer: add such a column."
    raise EpisodeAnalysisError("No column can be the event time.", hint=hint)


def check_stream_store(created: CreateStream, store_options: Iterable[str]) -> CreateStream:
    """Check a declaration by itself (the catalog checks that its names are free), and return it with its event time.

    store_options: the names of the embedded store's options.
    """
    _check_columns(created)
    if created.time is None:
        try:
            time = implied_time([(column.name, column.type) for column in created.columns])
        except EpisodeAnalysisError as error:
            raise created.source.error(EpisodeAnalysisError, error.message, created.name.span, error.hint) from None
        created = replace(created, time=WrittenName(time, created.name.span))
    assert created.time is not None
    column = _column(created, created.time, "the event time")
    if not is_event_time(column.type):
        message = f"{column.name} is of type {column.type} and cannot be the event time."
        hint = "Event time is TIMESTAMP, TIMESTAMP_NTZ, DATE or an integer."
        raise created.source.error(EpisodeAnalysisError, message, created.time.span, hint)
    _check_keys(created)
    _check_names(created)
    _check_length(created, created.delay, column, "DELAY", 10)
    _check_length(created, created.retain, column, "RETAIN", 30)
    _check_options(created, tuple(store_options))
    return created


def _check_columns(created: CreateStream) -> None:
    seen: set[str] = set()
    for column in created.columns:
        if column.name.lower() in seen:
            message = f"There are two columns named {column.name}."
            raise created.source.error(EpisodeAnalysisError, message, column.span, "Give one of them another name.")
        if column.name.lower().startswith(OWN):
            message = f"A column of a stream cannot be called {column.name}."
            hint = "Names that begin with __episode_ are taken."
            raise created.source.error(EpisodeAnalysisError, message, column.span, hint)
        seen.add(column.name.lower())


def _column(created: CreateStream, name: WrittenName, what: str) -> StreamColumn:
    found = next((column for column in created.columns if column.name.lower() == name.text.lower()), None)
    if found is not None:
        return found
    names = [column.name for column in created.columns]
    hint = f"{suggestion(name.text, names)}Columns of the stream: {', '.join(names)}."
    raise created.source.error(EpisodeAnalysisError, f"There is no column {name.text} for {what}.", name.span, hint)


def _check_keys(created: CreateStream) -> None:
    keys: list[str] = []
    for name in created.key:
        column = _column(created, name, "the key")
        if lane_of(column.type) is None:
            message = f"{column.name} is of type {column.type} and cannot be a key."
            raise created.source.error(EpisodeAnalysisError, message, name.span, "Keys are columns of atomic types.")
        if column.name in keys:
            message = f"{column.name} is there twice in the key."
            raise created.source.error(EpisodeAnalysisError, message, name.span, "Name each column once.")
        keys.append(column.name)


def _check_names(created: CreateStream) -> None:
    for named, what in ((created.name, "stream"), (created.archive, "archive")):
        if named is not None and not is_store_name(named.text):
            message = f"{named.text!r} is not a name for a {what}."
            hint = "Use letters, digits and underscores, and begin with a letter or an underscore."
            raise created.source.error(EpisodeAnalysisError, message, named.span, hint)
    if created.archive is not None and created.archive.text.lower() == created.name.text.lower():
        message = "The stream and its archive have the same name."
        hint = f"Write for example ARCHIVE AS {created.name.text}Archive."
        raise created.source.error(EpisodeAnalysisError, message, created.archive.span, hint)
    if created.retain is not None and created.archive is None:
        message = "RETAIN sets how long the archive keeps events, and there is no archive."
        hint = f"Add ARCHIVE AS {created.name.text}Archive, or leave RETAIN out."
        raise created.source.error(EpisodeAnalysisError, message, created.retain.span, hint)


def is_store_name(name: str) -> bool:
    """Names of streams are names of files as well: letters, digits and underscores."""
    return name.isidentifier() and len(name) <= 60


def _check_length(
    created: CreateStream, duration: Duration | None, time: StreamColumn, what: str, example: int
) -> None:
    """Does a duration fit the event time?"""
    if duration is not None:
        plain = f"Write for example {what} {example}, in the unit of that column."
        with_unit = f"Write for example {what} {duration.amount or example} seconds."
        place = (duration, created.source, time.name, time.type)
        in_units_of_time(*place, what=what, plain=plain, with_unit=with_unit)


def _check_options(created: CreateStream, store_options: tuple[str, ...]) -> None:
    kafka = created.using.text == "kafka"
    known = KAFKA_OPTIONS if kafka else store_options
    for name, _ in created.options:
        if name.text in known or (kafka and name.text.startswith("kafka.")):
            continue
        guess = suggestion(name.text, [*known, SERVERS] if kafka else known)
        options = [SERVERS, "further kafka.…", *known] if kafka else known
        message = f"There is no option {name.text} of a stream USING {created.using.text}."
        raise created.source.error(EpisodeAnalysisError, message, name.span, f"{guess}Options: {', '.join(options)}.")
    if not kafka:
        return
    given = {name.text for name, _ in created.options}
    missing = next((name for name in KAFKA_NEEDS if name not in given), None)
    if missing is not None:
        message = f"A stream USING kafka needs the option {missing}."
        hint = "Write OPTIONS (kafka.bootstrap.servers 'host:9092', topic 'ticks')."
        raise created.source.error(EpisodeAnalysisError, message, created.using.span, hint)
