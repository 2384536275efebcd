"""The declaration of a stream: CREATE STREAM and its types, checked, and as JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.matchers.spark_types import held_as, spark_name
from episode.plan.event_time import EventTime, duration_in_units
from episode.plan.schema import OWN
from episode.plan.streams import KAFKA_NEEDS, implied_time
from episode.plan.types import is_event_time, lane_of
from episode.store.files import translate_errors

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
Columns = Union[str, Mapping[str, str], Iterable[tuple[str, str]], pa.Schema]
"""Columns of a stream: as in a statement (`symbol STRING, price DOUBLE`), names with types, or an Arrow schema."""


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
        return dict(self.columns)[self.time]

    @property
    def event_time(self) -> EventTime:
        return EventTime(self.time, self.time_type)

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self), "options": dict(self.options), "lengths": dict(self.lengths)}

    @staticmethod
    def of_json(found: Mapping[str, Any], file: str) -> Declaration:
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
    """Check and return a declaration. delay, retain: durations ('10 seconds'), or numbers of an integer time."""
    check_name(name, "a stream")
    if archive is not None:
        check_name(archive, "an archive")
        if archive.lower() == name.lower():
            raise EpisodeAnalysisError(f"The archive of {name} needs its own name.")
    found, lengths = without_lengths(columns_of(columns))
    _check_columns(name, found)
    when = EventTime(*_column_of(found, implied_time(found) if time is None else time, "the event time"))
    if not is_event_time(when.type):
        raise EpisodeAnalysisError(
            f"{when.column} is of type {when.type} and cannot be the event time.",
            hint="Event time is a TIMESTAMP, a TIMESTAMP_NTZ, a DATE or an integer.",
        )
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
    elif missing := [name for name in KAFKA_NEEDS if name not in given]:
        raise EpisodeAnalysisError(
            f"A stream USING kafka needs the option {missing[0]}.",
            hint="Write OPTIONS (kafka.bootstrap.servers 'host:9092', topic 'ticks').",
        )
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


def _column_of(columns: Sequence[tuple[str, str]], name: str, what: str) -> tuple[str, str]:
    column = find_column(columns, name)
    if column is None:
        names = ", ".join(column for column, _ in columns)
        raise EpisodeAnalysisError(f"There is no column {name} for {what}.", hint=f"Columns: {names}.")
    return column


def _key_of(columns: Sequence[tuple[str, str]], name: str) -> str:
    column, type_ = _column_of(columns, name, "the key")
    if lane_of(type_) is None:
        raise EpisodeAnalysisError(
            f"{column} is of type {type_} and cannot be in the key.", hint="Choose columns of atomic types."
        )
    return column


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
            numbers = time.units_per_millisecond == 1
            if not (value.isdigit() and int(value) > 0 if numbers else value.lower() in ("day", "hour")):
                wanted = "a number of units of time" if numbers else "day or hour"
                raise EpisodeAnalysisError(
                    f"The option partition of a stream with this event time is {wanted}, not {value}."
                )


# Spark's types, as declarations write them, and the Arrow types that hold their values in stores.

_ATOMS = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_ALIASES = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "timestamp_ltz": "timestamp", "dec": "decimal(10,0)", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)",
}  # fmt: skip
_KNOWN = (
    "Types are those of Spark SQL: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, "
    "VARCHAR(n), BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<…>, MAP<…>, STRUCT<…>."
)


def spark_type(text: str) -> str:
    """Return the simple name of a type that is written in SQL: `LONG` is `bigint`."""
    return spark_name(arrow_type(text))


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that holds the values of a Spark type."""
    name = re.sub(r"\s+", " ", text.strip()).lower()
    name = _ALIASES.get(name, name)
    if name in _ATOMS:
        return _ATOMS[name]
    decimal = re.fullmatch(r"(?:decimal|dec|numeric) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", name)
    if decimal:
        precision, scale = int(decimal.group(1)), int(decimal.group(2) or 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint="A decimal has at most 38 digits.")
        return pa.decimal128(precision, scale)
    nested = re.fullmatch(r"\s*(array|map|struct)\s*<(.*)>\s*", text, re.IGNORECASE | re.DOTALL)
    if nested:
        return _nested_type(text, nested.group(1).lower(), nested.group(2))
    raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint=_KNOWN)


def _nested_type(text: str, kind: str, inside: str) -> pa.DataType:
    parts = list(split(inside))
    if kind == "array" and len(parts) == 1:
        return pa.list_(arrow_type(parts[0]))
    if kind == "map" and len(parts) == 2:
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    if kind == "struct" and parts:
        fields = [_field(part) for part in parts]
        return pa.struct([pa.field(name, arrow_type(type_)) for name, type_ in fields])
    raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint=_KNOWN)


def _field(text: str) -> tuple[str, str]:
    """Split `name: type` or `name type`; a name with other characters is quoted with backticks."""
    found = re.fullmatch(r"\s*(`(?:[^`]|``)+`|[^\W\d]\w*)\s*:?\s*(.+?)\s*", text, re.DOTALL)
    if found is None or (not found.group(1).startswith("`") and not re.match(r"\s*\w+[\s:`]", text)):
        raise EpisodeAnalysisError(
            f"{text.strip()!r} is not a column: a name and its type are needed.", hint="Write for example price DOUBLE."
        )
    name = found.group(1)
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name), found.group(2)


def split(text: str) -> Iterator[str]:
    """Split a list at the commas outside brackets and back quotes."""
    depth, quoted, start = 0, False, 0
    for i, sign in enumerate(text):
        if sign == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    if text[start:].strip() or start:
        yield text[start:]


def _column_type(text: str) -> str:
    """Return the simple name of a type, or `varchar(n)`; the width in INT(11) only affects how MySQL shows it."""
    name = re.sub(r"\s+", "", text).lower()
    limited = re.fullmatch(r"(?:var)?char(?:acter)?\((\d+)\)", name)
    if limited and int(limited.group(1)) > 0:
        return f"varchar({int(limited.group(1))})"
    shown = re.fullmatch(r"(tinyint|smallint|int|integer|bigint)\(\d+\)", name)
    return spark_type(shown.group(1) if shown else text)


def without_lengths(columns: Sequence[tuple[str, str]]) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """Columns with VARCHAR(n) as STRING, and the lengths by name."""
    lengths = {name: int(type_[8:-1]) for name, type_ in columns if type_.startswith("varchar(")}
    return tuple((name, "string" if name in lengths else type_) for name, type_ in columns), lengths


def columns_of(columns: Columns) -> tuple[tuple[str, str], ...]:
    """Return columns as names with simple Spark types, or `varchar(n)`; only the types are checked."""
    if isinstance(columns, str):
        pairs: Iterable[tuple[str, str]] = [_field(part) for part in split(columns)]
    elif isinstance(columns, pa.Schema):
        return tuple((field.name, _declared_type(field)) for field in columns)
    elif isinstance(columns, Mapping):
        pairs = columns.items()
    else:
        pairs = columns
    found = []
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise EpisodeAnalysisError(
                f"{pair!r} is not a column: a name and its type are needed.",
                hint="Write for example ('price', 'DOUBLE').",
            )
        found.append((pair[0], _column_type(pair[1])))
    return tuple(found)


def _declared_type(field: pa.Field) -> str:
    try:
        return spark_type(spark_name(held_as(field.type)))
    except (EpisodeUnsupportedError, EpisodeAnalysisError):
        raise EpisodeAnalysisError(f"The column {field.name} of type {field.type} has no type of Spark.") from None
