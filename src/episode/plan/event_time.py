"""The event time of a query's input: its column, durations in its units, and the watermark of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import Cursor
from episode.lang.duration import parse_duration
from episode.lang.lexer import tokenize
from episode.lang.syntax import Duration, Source
from episode.plan.expressions import Load
from episode.plan.output import ColumnAtPlace, Extreme, MeasurePlan
from episode.plan.parameters import microseconds, read_time, zone_of
from episode.plan.schema import InputSchema, quote, suggestion
from episode.plan.types import is_event_time, is_integer


@dataclass(frozen=True)
class EventTime:
    """The column by which a stream's events come about in order.

    counted: how many whole numbers of event time are a millisecond of Spark's clock, where event time is a number; one
        is, unless it is said what they count.
    units_per_millisecond: the same for all types: other event times are microseconds.
    """

    column: str
    type: str
    counted: int = 1

    @property
    def units_per_millisecond(self) -> int:
        return self.counted if is_integer(self.type) else 1000


TIME_UNITS = {"milliseconds": 1, "microseconds": 1_000, "nanoseconds": 1_000_000}
"""Units of event times that are whole numbers, each with the number of them in a millisecond."""


def counted_in(time: EventTime, unit: str | None) -> EventTime:
    """The same time, with what its whole numbers count: `StreamOptions(time_unit=…)`."""
    if unit is None:
        return time
    if not is_integer(time.type):
        raise EpisodeAnalysisError(
            f"StreamOptions(time_unit={unit!r}): the event time {time.column} of type {time.type} counts nothing.",
            hint="Leave it out; it is for whole numbers.",
        )
    return replace(time, counted=TIME_UNITS[unit])


def time_column(source: Source, schema: InputSchema, name: str | None, what: str) -> str:
    """Return the column of event time that was asked for, or raise an error that lists the available columns."""
    if name is None and schema.time is not None:
        return schema.time
    if name is None:
        times = [column for column, type_ in schema.columns.items() if type_.startswith("timestamp")]
        if len(times) == 1:
            return times[0]
        message = f"Which column is the event time? {what}"
        hint = f"Columns of the input: {', '.join(schema.columns)}."
        raise source.error(EpisodeAnalysisError, message, source.pattern.beginning, hint)
    column = schema.find(name)
    if column is None:
        hint = f"{suggestion(name, schema.columns)}Columns of the input: {', '.join(schema.columns)}."
        raise EpisodeAnalysisError(f"There is no column {name} for the event time.", hint=hint)
    if not is_event_time(schema.columns[column]):
        message = f"{column} is of type {schema.columns[column]} and cannot be the event time."
        raise EpisodeAnalysisError(message, hint="Event time is a timestamp, a date or an integer.")
    return column


def in_units_of_time(
    duration: Duration, source: Source, time: str, type_: str, *, what: str, plain: str = "", with_unit: str = ""
) -> int:
    """Convert a duration to units of event time: a plain number if that is a number, else one with a unit.

    what: the name of the duration in an error. plain, with_unit: how to write either.
    """
    if is_integer(type_) and duration.unit is not None:
        message = f"The event time {time} is a number; a duration with a unit does not fit it."
        hint = plain or f"Write a plain number, in the unit of the time itself: {what} 200."
    elif not is_integer(type_) and duration.unit is None:
        message = f"The event time {time} is of type {type_}; {what} needs a unit."
        hint = with_unit or f"Write for example {what} {duration.amount} seconds."
    else:
        return duration.amount
    raise source.error(EpisodeAnalysisError, message, duration.span, hint)


def watermark_delay(option: str | int, time: EventTime) -> str:
    """The delay in the words of Spark."""
    return f"{watermark_milliseconds(option, time)} milliseconds"


def watermark_milliseconds(option: str | int, time: EventTime) -> int:
    """Return the delay that `Options(watermark=…)` sets: a duration, or a number if time is one."""
    what = f"Options(watermark={option!r})"
    return -(-_amount(option, time, what, what) // time.units_per_millisecond)


def duration_in_units(option: str | int, time: EventTime, what: str) -> int:
    """A duration that is given as an option, in units of event time; what: its name in errors."""
    return _amount(option, time, f"{what} {option!r}", f"{what} {option}")


def _amount(option: str | int, time: EventTime, quoted: str, shown: str) -> int:
    """The units of event time in a duration, or number if time is one. quoted, shown: the option in errors."""
    if isinstance(option, bool) or not isinstance(option, (str, int)):
        raise EpisodeAnalysisError(f"{quoted}: a duration is needed.", hint=_examples(time))
    cursor = Cursor(str(option), tokenize(str(option)))
    duration = parse_duration(cursor)
    if not cursor.at_end or (duration.unit is None) != is_integer(time.type):
        fitting = f" the event time {time.column} of type {time.type}" if time.column else " the clock"
        raise EpisodeAnalysisError(f"{shown} does not fit{fitting}.", hint=_examples(time))
    return duration.amount


def end_of_stream(end: datetime | str | int | None, time: EventTime, zone: str | None) -> int | None:
    """The end of a stream that was given, in units of event time. zone: of times that name none; None: they must."""
    if end is None:
        return None
    if is_integer(time.type):
        if isinstance(end, int) and not isinstance(end, bool):
            return end
        raise EpisodeAnalysisError(f"StreamOptions(end={end!r}): the event time {time.column} is a whole number.")
    local, named = (None if isinstance(end, int) else read_time(str(end))) or (None, None)
    there = zone_of(named or zone or "UTC")
    if local is None or there is None:
        raise EpisodeAnalysisError(
            f"StreamOptions(end={end!r}) is not a time.", hint="Write for example '2026-11-01 00:00:00'."
        )
    if named is None and zone is None:
        hint = "Write for example '2026-11-01 00:00:00+01:00'."
        raise EpisodeAnalysisError(f"StreamOptions(end={end!r}): in which time zone?", hint=hint)
    if time.type == "timestamp_ntz":  # what a clock there shows
        shown = local if named is None else local.replace(tzinfo=there).astimezone(zone_of(zone or "UTC"))
        return microseconds(shown.replace(tzinfo=None))
    return microseconds(local.replace(tzinfo=there))


def _examples(time: EventTime) -> str:
    return "Write for example 200." if is_integer(time.type) else "Write for example '10 seconds'."


# Delays: how long after its time a match may be reported. A further pattern over the matches of a stream needs them.
#
# Every output column with a time of the match has a delay: the least d such that, when the watermark has reached W,
# every match that is still to be reported has a time later than W - d in that column.

UNBOUNDED = None
"""The delay of a time that has no bound."""

Delays = dict[str, int | None]
"""Delays of the output's times, in units of event time; UNBOUNDED where a match may be reported at any later time."""


def plain_values(measures: MeasurePlan) -> Iterator[tuple[str, Any]]:
    """Measures that are nothing but one value of the match: their names and the atoms that deliver the values."""
    atoms: dict[str, Any] = {quote(name): atom for atom, name in measures.atoms.items()}
    for measure in measures.measures:
        atom = atoms.get(measure.sql.strip(" \n\t()"))
        if atom is not None:
            yield measure.name, atom


def column_at_event(atom: object) -> str | None:
    """The column whose value at one event an atom is."""
    if isinstance(atom, ColumnAtPlace):
        return atom.column
    if isinstance(atom, Extreme) and isinstance(atom.value, Load) and atom.by == atom.value:
        return atom.value.column
    return None


def widest(delays: Iterable[int | None]) -> int | None:
    """The delay that holds for all of them; that of no time at all has no bound."""
    known = list(delays)
    return UNBOUNDED if not known or UNBOUNDED in known else max(one for one in known if one is not None)
