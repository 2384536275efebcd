"""Events and candidates in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import pyarrow as pa

from episode.lang.events.syntax import EventColumn, EventPattern, EventQuery, Negation, classes_of, event_atoms
from episode.queries.reasons.plain import plain
from episode.queries.reasons.wording import length, listed, together

MOST_COLUMNS = 4


@dataclass(frozen=True)
class Words:
    """Speaks of the rows of a table. start, end: the columns of time. tables: where each class has its table, the
    columns of its events by their names there. keys: columns that are the same in all rows."""

    query: EventQuery
    table: pa.Table
    end: str
    time_type: str
    tables: Mapping[str, Mapping[str, str]]
    keys: tuple[str, ...]
    zone: tzinfo | None

    def time(self, row: int) -> Any:
        return self.at_zone(self.table.column(self.end)[row].as_py())

    def at_zone(self, value: Any) -> Any:
        """A time in the zone in which it was asked."""
        if isinstance(value, datetime) and value.tzinfo is not None and self.zone is not None:
            return value.astimezone(self.zone)
        return value

    def moment(self, row: int) -> str:
        return str(plain(self.time(row)))

    def length(self, amount: int) -> str:
        return length(amount, self.time_type)

    def values(self, variable: str, row: int) -> dict[str, object]:
        """What conditions read of events of a variable; where they read nothing, its first columns."""
        columns = self._columns(variable)
        read = [
            atom.path[0]
            for condition in self.query.conditions
            for atom in event_atoms(condition)
            if isinstance(atom, EventColumn) and atom.variable.lower() == variable.lower()
        ]
        names = [columns[name.lower()] for name in dict.fromkeys(read) if name.lower() in columns]
        if not names:
            names = [one for one in columns.values() if one[1] not in (self.end, *self.keys)][:MOST_COLUMNS]
        return {name: self.table.column(column)[row].as_py() for name, column in names}

    def event(self, variable: str, row: int) -> str:
        """`B at 10:04 (v = 3)`"""
        values = listed(self.values(variable, row))
        return f"{variable} at {self.moment(row)}{f' ({values})' if values else ''}"

    def candidate(self, events: Mapping[str, Sequence[int]]) -> str:
        """The events of a candidate, those of a closure by their number and the first."""
        return together([self._some(name, rows) for name, rows in events.items()])

    def written(self, pattern: EventPattern) -> str:
        """A part of the pattern as the query has it."""
        text = self.query.source.written(pattern.span)
        if text:
            return " ".join(text.split())
        names = " | ".join(one.variable for one in classes_of(pattern))
        return f"!{names}" if isinstance(pattern, Negation) else names

    def _some(self, name: str, rows: Sequence[int]) -> str:
        if len(rows) == 1:
            return self.event(name, rows[0])
        return f"{len(rows):,} {name} from {self.moment(rows[0])} to {self.moment(rows[-1])}"

    def _columns(self, variable: str) -> dict[str, tuple[str, str]]:
        """By name in lower case: the name of an attribute, and its column of the table."""
        own: Mapping[str, str] = {name: name for name in self.table.column_names}
        if self.tables:
            one = next(one for one in classes_of(self.query.pattern) if one.variable.lower() == variable.lower())
            own = self.tables[one.name]
        present = set(self.table.column_names)
        return {name.lower(): (name, column) for name, column in own.items() if column in present}
