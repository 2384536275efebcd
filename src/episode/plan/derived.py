"""Columns that Spark computes before matching, because the machine does not know a function in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from episode.plan.schema import InputSchema

PREFIX = "__derived_"
DIGITS = 20
"""Of the hash of an expression that names a column of several queries."""


@dataclass
class DerivedColumns:
    """sql → (column name, type), in order of first use."""

    schema: InputSchema
    by_sql: dict[str, tuple[str, str]] = field(default_factory=dict)

    def add(self, sql: str, wanted: str | None = None) -> tuple[str, str]:
        """Name and Spark type of the column for an expression over the input. wanted: the name, if it is free."""
        if sql not in self.by_sql:
            type_ = self.schema.type_of(sql)
            self.by_sql[sql] = (self._name(sql, wanted), type_)
        return self.by_sql[sql]

    def _name(self, sql: str, wanted: str | None) -> str:
        """The one that is wanted, or by number; or if other queries also read the column, by what it is."""
        if not self.schema.shared:
            taken = {name.lower() for name, _ in self.by_sql.values()}
            if wanted is not None and self.schema.find(wanted) is None and wanted.lower() not in taken:
                return wanted
            return f"{PREFIX}{len(self.by_sql)}"
        return f"{PREFIX}{sha256(sql.encode()).hexdigest()[:DIGITS]}"

    def selections(self) -> list[tuple[str, str]]:
        """(sql, name) pairs to add to the input."""
        return [(sql, name) for sql, (name, _) in self.by_sql.items()]
