"""The event time of a query's input: its column, and durations in its units."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.events.syntax import EventQuery
from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Duration
from episode.plan.schema import InputSchema
from episode.plan.types import is_event_time, is_integer

Query = EventQuery | SituationQuery


def time_column(query: Query, schema: InputSchema, name: str | None, what: str) -> str:
    """The column of event time that was asked for; an error that lists what there is."""
    if name is None:
        times = [column for column, type_ in schema.columns.items() if type_.startswith("timestamp")]
        if len(times) == 1:
            return times[0]
        raise EpisodeAnalysisError(
            f"Which column is the event time? {what}",
            source=query.source,
            position=query.pattern_span.start,
            hint=f"Columns of the input: {', '.join(schema.columns)}.",
        )
    column = schema.find(name)
    if column is None:
        guess = closest(name, schema.columns)
        raise EpisodeAnalysisError(
            f"There is no column {name} for the event time.",
            hint=(f"Did you mean {guess}? " if guess else "") + f"Columns of the input: {', '.join(schema.columns)}.",
        )
    if not is_event_time(schema.columns[column]):
        raise EpisodeAnalysisError(
            f"{column} is of type {schema.columns[column]} and cannot be the event time.",
            hint="Event time is a timestamp, a date or an integer.",
        )
    return column


def in_units_of_time(
    duration: Duration, query: Query, time: str, type_: str, *, what: str, plain: str, with_unit: str
) -> int:
    """A duration in units of event time: a plain number where that is a number, else one with a unit.

    what, plain, with_unit: what the duration is in an error, and how either should be written.
    """
    span = duration.span
    if is_integer(type_) and duration.unit is not None:
        message, hint = f"The event time {time} is a number; a duration with a unit does not fit it.", plain
    elif not is_integer(type_) and duration.unit is None:
        message, hint = f"The event time {time} is of type {type_}; {what} needs a unit.", with_unit
    else:
        return duration.amount
    raise EpisodeAnalysisError(
        message, source=query.source, position=span.start, length=span.end - span.start, hint=hint
    )
