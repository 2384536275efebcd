"""Event classes: the rows that are events of a class, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from episode.errors import EpisodeAnalysisError
from episode.lang.events.syntax import EventClass, EventQuery, classes_of
from episode.lang.syntax import ColumnRef, Span
from episode.plan.events.alternatives import MARK
from episode.plan.expressions import Apply, Constant, Current, Expression, Load
from episode.plan.schema import CLASS_COLUMN, EventTable, InputSchema, suggestion
from episode.plan.types import is_string, wider


@dataclass(frozen=True)
class EventClasses:
    """Binds the classes of a query to the rows of its input.

    One table with a type column: rows whose type is the name. Several tables: the rows of the table of that name. Else
    the name is only an alias: every row.
    """

    query: EventQuery
    schema: InputSchema
    type_column: str | None = None
    tables: dict[str, EventTable] = field(default_factory=dict)
    by_variable: dict[str, EventClass] = field(default_factory=dict)

    def member(self, variable: str) -> Expression | None:
        """The condition under which a row is an event of the variable's class; None: always."""
        if not self.exclude_each_other:
            return None
        names = self.by_variable[variable].names
        if self.tables:
            column = Load(CLASS_COLUMN, Current(0), "int")
            values = [Constant(self.tables[name].number, "int") for name in names]
        else:
            assert self.type_column is not None
            column = Load(self.type_column, Current(0), self.schema.columns[self.type_column])
            values = [Constant(name, "string") for name in names]
        members = tuple(Apply("eq", (column, value), "boolean") for value in values)
        return members[0] if len(members) == 1 else Apply("or", members, "boolean")

    @property
    def exclude_each_other(self) -> bool:
        """Is every row an event of at most one class?"""
        return bool(self.tables) or self.type_column is not None

    def exclusive(self, one: str, other: str) -> bool:
        """Can no row be an event of both variables?"""
        return self.exclude_each_other and not set(self.by_variable[one].names) & set(self.by_variable[other].names)

    def column(self, variable: str, path: tuple[str, ...], span: Span) -> ColumnRef:
        """The column of the input after an attribute of a variable."""
        if not self.tables:
            return ColumnRef(None, path, span)
        own = self.own_columns(variable)
        name = InputSchema(own, case_sensitive=self.schema.case_sensitive).find(path[0])
        if name is None:
            table = self._class_of(variable).name
            message = f"The events of {table} have no column {path[0]}."
            hint = f"{suggestion(path[0], own)}Columns of {table}: {', '.join(own)}."
            raise self.query.source.error(EpisodeAnalysisError, message, span, hint)
        return ColumnRef(None, (own[name], *path[1:]), span)

    def own_columns(self, variable: str) -> dict[str, str]:
        """Columns of the variable's events: their names, and the columns of the input after them."""
        if self.tables:
            return self.tables[self._class_of(variable).name].columns
        return {name: name for name in self.schema.columns}

    def _class_of(self, variable: str) -> EventClass:
        """The class of a variable, or of all places of a variable that has several."""
        if variable in self.by_variable and not self.by_variable[variable].others:
            return self.by_variable[variable]
        found = [one for name, one in self.by_variable.items() if variable in (name, name.split(MARK)[0])]
        tables = {name for one in found for name in one.names}
        if len({tuple(self.tables[name].columns.values()) for name in tables}) > 1:
            message = f"{variable} stands for events of {' and '.join(sorted(tables))}, which have different columns."
            raise self.query.source.error(EpisodeAnalysisError, message, found[-1].span, "Give each its own variable.")
        return found[0]

    def check(self) -> None:
        """Every class must be there."""
        named = [(name, one) for one in self.by_variable.values() for name in one.names]
        for name, one in named:
            if self.tables and name not in self.tables:
                message = f"There is no table {name} for the class {name}."
                hint = f"{suggestion(name, self.tables)}Tables: {', '.join(self.tables)}."
                raise self.query.source.error(EpisodeAnalysisError, message, one.span, hint)
        if self.type_column is not None:
            column = self.schema.find(self.type_column)
            if column is None or not is_string(self.schema.columns[column]):
                found = "is not there" if column is None else f"is of type {self.schema.columns[column]}"
                raise self.query.source.error(
                    EpisodeAnalysisError,
                    f"The type column {self.type_column} {found}; a string column with the names of classes is needed.",
                    self.query.source.pattern,
                    f"Columns of the input: {', '.join(self.schema.columns)}.",
                )


# A table per class as one stream of events: the common columns of the tables and their types.

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
    time = _only_timestamp(tables) if time is None else time
    named = [*((key, KEY) for key in keys), (time, TIME), (start, START)]
    shared = {name.lower(): _type_in_all(query, tables, name, what) for name, what in named if name is not None}
    if time is not None and start is not None:
        both = wider(shared[time.lower()], shared[start.lower()])
        if both is not None:
            shared[time.lower()] = shared[start.lower()] = both
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


def _type_in_all(query: EventQuery, tables: Tables, name: str, what: str) -> str:
    """The widest type of a column that all tables have."""
    found: dict[str, str] = {}
    widest = None
    for table, schema in tables.items():
        column = schema.find(name)
        if column is None:
            hint = f"Every table of a class needs it. Columns of {table}: {', '.join(schema.columns)}."
            message = f"The table {table} has no column {name} for {what}."
            raise _error(query, table, message, suggestion(name, schema.columns) + hint)
        found[table] = schema.columns[column]
        widest = found[table] if widest is None else wider(widest, found[table])
        if widest is None:
            first = next(iter(found))
            message = f"{column} is of type {found[first]} in {first} and of type {found[table]} in {table}."
            raise _error(query, table, message, f"As {what} it must be of one type in all tables: cast it in one.")
    assert widest is not None
    return widest


def _only_timestamp(tables: Tables) -> str | None:
    """Return the name that the timestamps of all tables share, if there is exactly one."""
    columns = [column for schema in tables.values() for column in schema.columns.items()]
    names = [name for name, type_ in columns if type_.startswith("timestamp")]
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
