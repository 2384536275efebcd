"""Columns computed from columns, where a live task runs: the input of a matcher, and the result from its output.

What is computed was read and checked when the query was planned; only trees of expressions travel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from episode.matchers.columns import one_chunk
from episode.matchers.scalars import Scalars
from episode.matchers.spark_types import held_as, retyped


@dataclass(frozen=True)
class Copied:
    """A column as it is, or of a wider type."""

    column: str
    type: pa.DataType | None = None


@dataclass(frozen=True)
class Same:
    """One value in every row."""

    value: object
    type: pa.DataType


@dataclass(frozen=True)
class Computed:
    """A scalar expression over the columns."""

    tree: exp.Expression


Value = Copied | Same | Computed


def columns_of(value: Value) -> list[str]:
    """The columns that a value is made of."""
    if isinstance(value, Copied):
        return [value.column]
    return [column.parts[0].name for column in value.tree.find_all(exp.Column)] if isinstance(value, Computed) else []


def value_of(tree: exp.Expression) -> Value:
    """A tree as a value: a plain column is copied."""
    if isinstance(tree, exp.Column) and len(tree.parts) == 1 and not isinstance(tree.this, exp.Star):
        return Copied(tree.name)
    return Computed(tree)


@dataclass(frozen=True)
class Columns:
    """A table of computed columns, of the rows for which all conditions hold.

    arguments: the values of parameters. utc: whether times of day are those of UTC; where they are not, only Spark
    knows them, and a query that asks for them is refused when it is planned.
    """

    columns: tuple[tuple[str, Value], ...]
    conditions: tuple[exp.Expression, ...] = ()
    arguments: Mapping[str, object] = field(default_factory=dict)
    utc: bool = True

    def __call__(self, table: pa.Table) -> pa.Table:
        scalars = _Scalars(table, self.utc, self.arguments)
        held = [scalars.of(value) for _, value in self.columns]
        names = [name for name, _ in self.columns]
        result = pa.Table.from_arrays(held, names=names)
        if not self.conditions:
            return result
        kept = [scalars.of(Computed(condition)).fill_null(False) for condition in self.conditions]
        return result.filter(reduce(pc.and_, kept))


@dataclass(frozen=True)
class Steps:
    """Columns computed from columns that were computed before."""

    steps: tuple[Columns, ...]

    def __call__(self, table: pa.Table) -> pa.Table:
        return reduce(lambda before, step: step(before), self.steps, table)


@dataclass(frozen=True)
class Finishing:
    """The columns of a result from those of a matcher, step by step."""

    steps: tuple[Columns, ...]

    def __call__(self, matched: pa.Table) -> pa.Table:
        return Steps(self.steps)(retyped(matched))

    def then(self, step: Columns) -> Finishing:
        return Finishing((*self.steps, step))


class _Scalars:
    """The values over one table; the expression machine is called only where something is computed."""

    def __init__(self, table: pa.Table, utc: bool, arguments: Mapping[str, object]) -> None:
        self.table = table
        self.utc = utc
        self.arguments = arguments
        self._known: Scalars | None = None

    def of(self, value: Value) -> Any:
        if isinstance(value, Copied):
            column = self.table.column(_own(self.table, value.column))
            return column if value.type is None or value.type == column.type else column.cast(value.type)
        if isinstance(value, Same):
            return pa.repeat(pa.scalar(value.value, value.type), self.table.num_rows)
        if self._known is None:
            self._known = Scalars(self.table, self.utc, self.arguments)
        return one_chunk(self._known.evaluate(value.tree))


def _own(table: pa.Table, name: str) -> str:
    """A column's own spelling."""
    if name in table.column_names:
        return name
    return next(own for own in table.column_names if own.lower() == name.lower())


def held_schema(schema: pa.Schema) -> pa.Schema:
    """The types in which a matcher's output is computed with."""
    return pa.schema([(one.name, held_as(one.type)) for one in schema])
