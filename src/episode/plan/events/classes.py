"""Which rows are events of a class, and which columns they have."""

from __future__ import annotations

from dataclasses import dataclass, field

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.events.syntax import EventClass, EventQuery
from episode.lang.syntax import ColumnRef, Span
from episode.plan.events.names import MARK
from episode.plan.expressions import Apply, Constant, Current, Expression, Load
from episode.plan.schema import InputSchema
from episode.plan.tables import CLASS_COLUMN, EventTable
from episode.plan.types import is_string


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
        members = [self._of_class(name) for name in self.by_variable[variable].names]
        return members[0] if len(members) == 1 else Apply("or", tuple(members), "boolean")

    def _of_class(self, name: str) -> Expression:
        if self.tables:
            column = Load(CLASS_COLUMN, Current(0), "int")
            return Apply("eq", (column, Constant(self.tables[name].number, "int")), "boolean")
        assert self.type_column is not None
        type_ = self.schema.columns[self.type_column]
        return Apply("eq", (Load(self.type_column, Current(0), type_), Constant(name, "string")), "boolean")

    @property
    def exclude_each_other(self) -> bool:
        """Is no row an event of two classes?"""
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
            guess = closest(path[0], own)
            raise self.query.source.error(
                EpisodeAnalysisError,
                f"The events of {table} have no column {path[0]}.",
                span,
                (f"Did you mean {guess}? " if guess else "") + f"Columns of {table}: {', '.join(own)}.",
            )
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
            raise self.query.source.error(
                EpisodeAnalysisError,
                f"{variable} stands for events of {' and '.join(sorted(tables))}, which have different columns.",
                found[-1].span,
                "Give each its own variable.",
            )
        return found[0]

    def check(self) -> None:
        """Every class must be there."""
        named = [(name, one) for one in self.by_variable.values() for name in one.names]
        for name, one in named:
            if self.tables and name not in self.tables:
                guess = closest(name, self.tables)
                raise self.query.source.error(
                    EpisodeAnalysisError,
                    f"There is no table {name} for the class {name}.",
                    one.span,
                    (f"Did you mean {guess}? " if guess else "") + f"Tables: {', '.join(self.tables)}.",
                )
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
