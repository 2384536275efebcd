"""A table per class as one stream of events: which columns of the tables are one, and of which type."""

from __future__ import annotations

from collections.abc import Mapping

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.events.syntax import EventQuery, classes_of
from episode.plan.schema import InputSchema
from episode.plan.tables import EventTable
from episode.plan.types import wider

Tables = Mapping[str, InputSchema]
TIME, START, KEY = "the event time", "the start of an event", "the key"


def declared_time(tables: Tables) -> str | None:
    """The event time that all tables declare, if they agree."""
    times = {None if schema.time is None else schema.time.lower() for schema in tables.values()}
    return next(iter(tables.values())).time if len(times) == 1 else None


def one_stream_of(
    query: EventQuery, tables: Tables, time: str | None, start: str | None, keys: tuple[str, ...]
) -> dict[str, EventTable]:
    """Every table's columns, and the columns of the stream after them.

    Columns of one name and type are one. Time, start and keys are in every table and are one column, of the widest type
    that they have. Others of one name and several types are distinguished.
    """
    shared = _shared(query, tables, time, start, keys)
    by_name: dict[str, list[tuple[str, str]]] = {}
    for schema in tables.values():
        for column, type_ in schema.columns.items():
            by_name.setdefault(column.lower(), []).append((column, type_))
    bound = {}
    for number, (table, schema) in enumerate(tables.items()):
        columns, widened = {}, {}
        for column, type_ in schema.columns.items():
            same = by_name[column.lower()]
            wanted = shared.get(column.lower())
            if wanted is not None and wanted != type_:
                widened[column] = wanted
            one_type = wanted is not None or len({other for _, other in same}) == 1
            one_name = not schema.case_sensitive or len({other for other, _ in same}) == 1
            columns[column] = same[0][0] if one_type and one_name else _apart(column, number, by_name)
        bound[table] = EventTable(number, columns, widened)
    return bound


def _shared(
    query: EventQuery, tables: Tables, time: str | None, start: str | None, keys: tuple[str, ...]
) -> dict[str, str]:
    """Types of the columns that all tables must have, by names in lower case."""
    types = {key.lower(): _type_in_all(query, tables, key, KEY) for key in keys}
    time = _only_timestamp(tables) if time is None else time
    if time is not None:
        types[time.lower()] = _type_in_all(query, tables, time, TIME)
    if start is not None:
        types[start.lower()] = _type_in_all(query, tables, start, START)
    if time is not None and start is not None:
        both = wider(types[time.lower()], types[start.lower()])
        if both is not None:
            types[time.lower()] = types[start.lower()] = both
    return types


def _type_in_all(query: EventQuery, tables: Tables, name: str, what: str) -> str:
    """The widest type of a column that all tables have."""
    found: dict[str, str] = {}
    widest = None
    for table, schema in tables.items():
        column = schema.find(name)
        if column is None:
            guess = closest(name, schema.columns)
            hint = f"Every table of a class needs it. Columns of {table}: {', '.join(schema.columns)}."
            message = f"The table {table} has no column {name} for {what}."
            raise _error(query, table, message, f"Did you mean {guess}? {hint}" if guess else hint)
        found[table] = schema.columns[column]
        widest = found[table] if widest is None else wider(widest, found[table])
        if widest is None:
            first = next(iter(found))
            message = f"{column} is of type {found[first]} in {first} and of type {found[table]} in {table}."
            raise _error(query, table, message, f"As {what} it must be of one type in all tables: cast it in one.")
    assert widest is not None
    return widest


def _only_timestamp(tables: Tables) -> str | None:
    """The one name that timestamps have in the tables."""
    names = [
        column
        for schema in tables.values()
        for column, type_ in schema.columns.items()
        if type_.startswith("timestamp")
    ]
    return names[0] if len({name.lower() for name in names}) == 1 else None


def _apart(column: str, number: int, taken: Mapping[str, object]) -> str:
    name = f"{column}__{number}"
    while name.lower() in taken:
        name += "_"
    return name


def _error(query: EventQuery, table: str, message: str, hint: str) -> EpisodeAnalysisError:
    """An error at the place where the pattern speaks of a table."""
    span = next((one.span for one in classes_of(query.pattern) if one.name == table), query.source.pattern)
    return query.source.error(EpisodeAnalysisError, message, span, hint)
