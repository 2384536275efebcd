"""The declaration of a stream: CREATE STREAM, checked, and as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.plan.event_time import EventTime, duration_in_units
from episode.plan.schema import OWN
from episode.plan.streams import KAFKA_NEEDS, implied_time
from episode.plan.types import is_event_time, lane_of
from episode.store.files import translate_errors
from episode.store.types import Columns, arrow_type, columns_of, without_lengths

FORMAT = 1
LANES = 8
"""Lanes over which the keys of a stream are spread, unless the declaration gives another number."""
MOST_LANES = 4096
STORES = ("episode", "kafka")
OPTIONS = {
    "log_retain": "how long events stay in the log once they are archived: a duration by the clock",
    "partition": "how the archive is partitioned: day or hour, or a number where time is one",
    "sync": "true, or false: whether an append waits until its events are on the disk",
    "lanes": "into how many lanes the keys are spread",
    "maxEventsPerTrigger": "events of a micro-batch, at most, where a query names the stream",
}
"""Options of the embedded store."""

Length = Union[str, int]


@dataclass(frozen=True)
class Declaration:
    """A declared stream.

    columns: names with simple Spark types. time: the column of event time. key: columns whose equal values are one key.
    lengths: of columns that are VARCHAR, by name.
    delay, retain: in units of event time (microseconds, or those of an integer time).
    archive: the name of the archive, None: events stay in the log. location: the directory of log and archive.
    managed: the location is the catalog's own, and goes with the stream.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    time: str
    key: tuple[str, ...] = ()
    delay: int | None = None
    archive: str | None = None
    retain: int | None = None
    location: str = ""
    using: str = "episode"
    options: Mapping[str, str] = field(default_factory=dict)
    lanes: int = LANES
    managed: bool = True
    lengths: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as Arrow holds them."""
        return pa.schema([(name, arrow_type(type_)) for name, type_ in self.columns])

    def written_type(self, column: str) -> str:
        """The type of a column as it was declared: with the length of a VARCHAR."""
        return f"varchar({self.lengths[column]})" if column in self.lengths else dict(self.columns)[column]

    @property
    def time_type(self) -> str:
        """The Spark type of the event time."""
        return dict(self.columns)[self.time]

    @property
    def event_time(self) -> EventTime:
        return EventTime(self.time, self.time_type)

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as the catalog stores it."""
        return {"format": FORMAT, **asdict(self), "options": dict(self.options), "lengths": dict(self.lengths)}

    @staticmethod
    def of_json(found: Mapping[str, Any], file: str) -> Declaration:
        """Read a declaration from a file of the catalog."""
        if found.get("format") != FORMAT:
            raise EpisodeError(
                f"{file} is of format {found.get('format')}; this version of episode reads format {FORMAT}."
            )
        values = {name: found[name] for name in Declaration.__dataclass_fields__ if name in found}
        values["columns"] = tuple((name, type_) for name, type_ in values["columns"])
        values["key"] = tuple(values["key"])
        declaration = Declaration(**values)
        _check_values(declaration)
        return declaration


def _check_values(found: Declaration) -> None:
    """Raise ValueError if `declare` would not give this declaration: its file may have been damaged."""
    columns = [(name, found.written_type(name)) for name, _ in found.columns]
    try:
        declared = declare(
            found.name,
            columns,
            time=found.time,
            key=found.key,
            archive=found.archive,
            using=found.using,
            options=found.options,
            lanes=found.lanes,
        )
    except EpisodeError as error:
        raise ValueError(error.message) from None
    kept = {name: getattr(found, name) for name in ("delay", "retain", "location", "managed")}
    if replace(declared, **kept) != found or not isinstance(found.location, str):
        raise ValueError("it is not one that CREATE STREAM writes")
    if not all(isinstance(length, int) for length in (found.delay or 0, found.retain or 0)):
        raise ValueError("delay and retain are numbers")


@translate_errors
def declare(
    name: str,
    columns: Columns,
    *,
    time: str | None,
    key: str | Sequence[str] = (),
    delay: Length | None = None,
    archive: str | None = None,
    retain: Length | None = None,
    location: str | None = None,
    using: str = "episode",
    options: Mapping[str, str] | None = None,
    lanes: int | None = None,
) -> Declaration:
    """Check and return a declaration. delay, retain: durations ('10 seconds'), or numbers if event time is an
    integer."""
    check_name(name, "a stream")
    if archive is not None:
        check_name(archive, "an archive")
        if archive.lower() == name.lower():
            raise EpisodeAnalysisError(f"The archive of {name} needs a name of its own.")
    found, lengths = without_lengths(columns_of(columns))
    _check_columns(name, found)
    when = _time_of(found, time)
    keys = tuple(_key_of(found, part) for part in ([key] if isinstance(key, str) else key))
    _check_repeated([*keys], "the key")
    given = {option: str(value) for option, value in (options or {}).items()}
    if lanes is None and using == "episode" and "lanes" in given:
        lanes = int(given["lanes"]) if given["lanes"].isdigit() else 0
    lanes = LANES if lanes is None else lanes
    if isinstance(lanes, bool) or not isinstance(lanes, int) or not 1 <= lanes <= MOST_LANES:
        raise EpisodeAnalysisError(f"A stream has 1 to {MOST_LANES:,} lanes.")
    if using.lower() not in STORES:
        raise EpisodeAnalysisError(f"There is no store {using}.", hint=f"USING {' or USING '.join(STORES)}.")
    if using.lower() == "episode":
        _check_options(given, when)
    else:
        check_kafka(given)
    declaration = Declaration(
        name=name,
        columns=found,
        time=when.column,
        key=keys,
        delay=None if delay is None else duration_in_units(delay, when, "DELAY"),
        archive=archive,
        retain=None if retain is None else duration_in_units(retain, when, "RETAIN"),
        location="" if location is None else _absolute(location),
        using=using.lower(),
        options=given,
        lanes=lanes if keys else 1,
        managed=location is None,
        lengths=lengths,
    )
    os.fsencode(declaration.location)  # refuses texts that cannot name a directory or a column
    assert declaration.schema
    return declaration


def is_name(name: object) -> bool:
    """Whether a stream can have this name."""
    return isinstance(name, str) and re.fullmatch(r"[^\W\d]\w{0,59}", name) is not None


def check_name(name: str, what: str) -> None:
    """Raise an error unless a name is a plain identifier: it also names files."""
    if not is_name(name):
        raise EpisodeAnalysisError(
            f"{name!r} is not a name for {what}.", hint="Use letters, digits and underscores, and a letter first."
        )


def _absolute(location: str) -> str:
    path = location.removeprefix("file://")
    if "://" in path:
        raise EpisodeAnalysisError(
            f"LOCATION {location!r}: a stream store is on a disk of this machine.", hint="Give the path of a directory."
        )
    return str(Path(path).expanduser().absolute())


def _check_columns(name: str, columns: Sequence[tuple[str, str]]) -> None:
    if not columns:
        raise EpisodeAnalysisError(f"The stream {name} has no columns.", hint="Write (symbol STRING, ts TIMESTAMP).")
    _check_repeated([column for column, _ in columns], f"the stream {name}")
    for column, _ in columns:
        if not column or column.lower().startswith(OWN):
            raise EpisodeAnalysisError(f"A column cannot be called {column!r}.", hint="Choose another name.")


def _check_repeated(names: Sequence[str], what: str) -> None:
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise EpisodeAnalysisError(f"The column {twice} is twice in {what}.")


def find_column(columns: Sequence[tuple[str, str]], name: str) -> tuple[str, str] | None:
    """Return the column of a name, an exact match before one in other case."""
    exact = [column for column in columns if column[0] == name]
    return next(iter(exact + [column for column in columns if column[0].lower() == name.lower()]), None)


def _time_of(columns: Sequence[tuple[str, str]], time: str | None) -> EventTime:
    column = find_column(columns, implied_time(columns) if time is None else time)
    if column is None:
        names = ", ".join(column for column, _ in columns)
        raise EpisodeAnalysisError(f"There is no column {time} for the event time.", hint=f"Columns: {names}.")
    if not is_event_time(column[1]):
        raise EpisodeAnalysisError(
            f"{column[0]} is of type {column[1]} and cannot be the event time.",
            hint="Event time is a TIMESTAMP, a TIMESTAMP_NTZ, a DATE or an integer.",
        )
    return EventTime(*column)


def _key_of(columns: Sequence[tuple[str, str]], name: str) -> str:
    column = find_column(columns, name)
    if column is None:
        names = ", ".join(column for column, _ in columns)
        raise EpisodeAnalysisError(f"There is no column {name} for the key.", hint=f"Columns: {names}.")
    if lane_of(column[1]) is None:
        raise EpisodeAnalysisError(
            f"{column[0]} is of type {column[1]} and cannot be in the key.", hint="Choose columns of atomic types."
        )
    return column[0]


def _check_options(options: Mapping[str, str], time: EventTime) -> None:
    for option, value in options.items():
        if option not in OPTIONS:
            known = "; ".join(f"{name}: {what}" for name, what in OPTIONS.items())
            raise EpisodeAnalysisError(f"The store has no option {option}.", hint=f"Options: {known}.")
        if option == "sync" and value.lower() not in ("true", "false"):
            raise EpisodeAnalysisError(f"The option sync is true or false, not {value}.")
        if option == "maxEventsPerTrigger" and not (value.isdecimal() and int(value) > 0):
            raise EpisodeAnalysisError(f"The option {option} is a number of at least 1, not {value}.")
        if option == "log_retain":
            duration_in_units(value, EventTime("", "timestamp"), "log_retain")
        if option == "partition":
            _check_partition(value, time)


def check_kafka(options: Mapping[str, str]) -> None:
    """Raise an error unless a stream in Kafka names its servers and its topic."""
    missing = next((name for name in KAFKA_NEEDS if name not in options), None)
    if missing is not None:
        raise EpisodeAnalysisError(
            f"A stream USING kafka needs the option {missing}.",
            hint="Write OPTIONS (kafka.bootstrap.servers 'host:9092', topic 'ticks').",
        )


def _check_partition(value: str, time: EventTime) -> None:
    numbers = time.units_per_millisecond == 1
    if value.lower() not in ("day", "hour") if not numbers else not (value.isdigit() and int(value) > 0):
        wanted = "a number of units of time" if numbers else "day or hour"
        raise EpisodeAnalysisError(f"The option partition of a stream with this event time is {wanted}, not {value}.")
