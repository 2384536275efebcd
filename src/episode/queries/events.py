"""A table of events and what its columns mean, as callers describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypedDict

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.lexer import Token
from episode.plan.events.imprecise import NO_TIE_BREAKER
from episode.plan.options import Detect
from episode.queries.language import Given, Length
from episode.queries.tables import Table


@dataclass(frozen=True)
class Events:
    """A table of events for a pattern, and what its columns mean.

    table: as for `sql`. Rows whose `type_column` is the name of a class are its events; without a type column, the
        names of classes are aliases of any row. Leave the table out to describe one table per class.
    time: the column of event time (default: the only timestamp). If time is imprecise, time=('lo', 'hi'): the columns
        of the earliest and the latest time an event can have.
    start: for events that last, the column of their start; time is then their end. The matches of one query can be the
        events of the next: time='match_end', start='match_start'.
    key: columns that partition the events.
    type_column: the column with the class of each event.
    strategy: a selection strategy, if WHERE has none.
    detect: when a match of situations is reported: 'earliest' or 'complete'.
    granularity, probabilities, interval_width: for imprecise time: from one possible time to the next (timestamps need
        it), the column with an array of the probabilities of all of them, and the longest interval (streams need it).
    """

    table: Table | None = None
    time: str | tuple[str, str] | None = None
    start: str | None = None
    key: str | Sequence[str] = ()
    type_column: str | None = None
    strategy: str | None = None
    detect: Detect | None = None
    granularity: Length | None = None
    probabilities: str | None = None
    interval_width: Length | None = None

    def __new__(cls, *values: object, **named: object) -> Events:
        """Name misspelt arguments before the constructor would complain in Python's words."""
        check_event_columns("Events", named, ("table",))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        columns = ("start", "type_column", "probabilities")
        for name in (*columns, "strategy", "detect"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                what = "the name of a column" if name in columns else "a text"
                raise EpisodeAnalysisError(f"{name}={value!r}: {what} is needed.")
        keys_of(self.key)
        pair = isinstance(self.time, tuple) and len(self.time) == 2 and all(isinstance(one, str) for one in self.time)
        if self.time is not None and not isinstance(self.time, str) and not pair:
            raise EpisodeAnalysisError(
                f"time={self.time!r}: the name of one column is needed, or a tuple of two names.",
                hint="Write time='ts', or time=('lo', 'hi') if the time of an event is imprecise, between two columns. "
                + NO_TIE_BREAKER,
            )
        if not pair and not self.granularity is self.probabilities is self.interval_width is None:
            message = "granularity, probabilities and interval_width are for imprecise time."
            raise EpisodeAnalysisError(message, hint="Give the two columns between which time lies: time=('lo', 'hi').")

    @property
    def given(self) -> Given:
        """Arguments that a language gets about the events."""
        time, interval = (self.time, None) if isinstance(self.time, str) else (None, self.time)
        columns = {name: getattr(self, name) for name in EVENT_COLUMNS}
        return Given(**{**columns, "time": time, "key": keys_of(self.key)}, interval=interval)


class EventColumns(TypedDict, total=False):
    """Arguments of `Events` except the table, as keywords of other functions."""

    time: str | tuple[str, str] | None
    start: str | None
    key: str | Sequence[str]
    type_column: str | None
    strategy: str | None
    detect: Detect | None
    granularity: Length | None
    probabilities: str | None
    interval_width: Length | None


EVENT_COLUMNS = tuple(one.name for one in fields(Events) if one.name != "table")


def events_of(function: str, events: Any, columns: Mapping[str, Any]) -> Events:
    """The events of a call: an `Events`, or a table and what its columns mean."""
    check_event_columns(function, columns)
    if not isinstance(events, Events):
        return Events(events, **columns)
    if columns:
        name = next(iter(columns))
        raise EpisodeAnalysisError(f"{name}= is given in addition to Events(…).", hint=f"Write Events(…, {name}=…).")
    return events


def check_event_columns(function: str, given: Mapping[str, Any], further: tuple[str, ...] = ()) -> None:
    """Refuse keywords that are not about events. further: other arguments of the function."""
    unknown = next((name for name in given if name not in EVENT_COLUMNS and name not in further), None)
    if unknown is not None:
        guess = closest(unknown, (*EVENT_COLUMNS, *further))
        message = f"{unknown} is not an option of {function}{f'; did you mean {guess}?' if guess else '.'}"
        hint = None if guess else f"Options about events: {', '.join(EVENT_COLUMNS)}."
        raise EpisodeAnalysisError(message, hint=hint)


def keys_of(key: str | Sequence[str]) -> tuple[str, ...]:
    """The names of partition columns: one, or several."""
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else (key,)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        hint = "Write for example key='id' or key=['a', 'b']."
        raise EpisodeAnalysisError(f"key={key!r}: {wrong[0]!r} is not the name of a column.", hint=hint)
    return names


# Keyword arguments that are neither options nor tables of a query: mistakes, which are named. The public functions take
# tables by keyword, so that Python lets a misspelt option through as a table.


OPTIONS = {
    "query": ("events", "args", "spark", "options", "tables"),
    "sql": ("args", "spark", "options", "tables"),
    "sql_local": ("args", "options", "tables"),
    "explain": ("args", "spark", "options", "analyze", "format", "tables"),
    "match": ("events", "text", "args", *EVENT_COLUMNS, "spark", "options", "tables"),
}
"""Arguments of the public functions that take tables by keyword."""
WRITTEN = {"key": "PARTITION BY", "time": "ORDER BY", "type_column": "TYPE BY"}


def check_statement_tables(function: str, tables: Mapping[str, Any], tokens: Iterable[Token]) -> None:
    """Every table that is given must be named in the statement."""
    names = {token.identifier for token in tokens if token.is_identifier}
    mentioned = {name.lower() for name in names}
    for name in tables:
        if not isinstance(name, str) or not name or name.lower() in mentioned:
            continue  # what is not a name is refused with the tables
        _check_option(function, name)
        if name in EVENT_COLUMNS:
            message = f"{name} is about events, and {function} runs a statement, which has its columns inside."
            hint = f"Write {WRITTEN.get(name, 'it')} there, or give a pattern alone, and Events(table, {name}=…)."
            raise EpisodeAnalysisError(message, hint=hint)
        guess = closest(name, names)
        hint = f"Did you mean {guess}?" if guess else "Leave it out, or name it in FROM."
        raise EpisodeAnalysisError(f"The table {name} is given, but the statement does not use it.", hint=hint)


def check_pattern_tables(function: str, tables: Mapping[str, Any], classes: Iterable[str] | None) -> None:
    """Every table that is given must be that of a class. classes: None if all events are in one table."""
    known = None if classes is None else list(classes)
    for name in tables:
        if known is None or name not in known:
            _check_option(function, name)
    unknown = [] if known is None else [name for name in tables if name not in known]
    if known is not None and unknown:
        guess = closest(unknown[0], [name for name in known if name not in tables])
        message = f"The table {unknown[0]} is given, but the pattern has no class {unknown[0]}."
        hint = (f"Did you mean {guess}? " if guess else "") + f"Classes of the pattern: {', '.join(known)}."
        raise EpisodeAnalysisError(message, hint=hint)


def _check_option(function: str, name: str) -> None:
    guess = closest(name, OPTIONS[function])
    if guess is not None:
        raise EpisodeAnalysisError(f"{name} is not an option of {function}; did you mean {guess}?")
