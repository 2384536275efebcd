"""From matched values to the rows of a result: columns computed from columns, compiled once when a query is planned.

A `Projection` has a schema, can be pickled, and runs wherever matches are found without Spark: in process, in live
tasks, in rules over streams. Expressions that only Spark evaluates are refused when compiled, as `NeedsSpark` with a
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import TypeVar, Union

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.matchers.scalars import ArrowCall, ScalarCompiler, Scalars
from episode.matchers.spark_types import held_as, spark_name
from episode.plan.compilable import NO_ARGUMENTS, Mistake, NeedsSpark, NotCompilable
from episode.plan.expressions import Expression, Load
from episode.plan.output import Result, ScalarColumn
from episode.plan.parameters import Arguments

Kind = TypeVar("Kind", bound=EpisodeError)


@dataclass(frozen=True)
class CopiedColumn:
    """A column as it is, or of a wider type."""

    column: str
    type: pa.DataType | None = None


@dataclass(frozen=True)
class ConstantColumn:
    """One value in every row."""

    value: object
    type: pa.DataType


Value = Union[CopiedColumn, ConstantColumn, ScalarColumn]
NamedValues = Sequence[tuple[str, Value]]


def value_of(computed: ScalarColumn) -> Value:
    """Return a computed value, or the column that it only copies."""
    tree = computed.tree
    if isinstance(tree, exp.Column) and len(tree.parts) == 1 and not isinstance(tree.this, exp.Star):
        return CopiedColumn(tree.name)
    return computed


@dataclass(frozen=True)
class Projection:
    """Columns computed from those of a table, for the rows for which all conditions hold.

    schema: of the result. calls: the columns that Arrow computes, by name. types: of the columns of the table that are
    read.
    """

    schema: pa.Schema
    values: tuple[Expression | ConstantColumn, ...]
    conditions: tuple[Expression, ...]
    calls: Mapping[str, ArrowCall]
    types: Mapping[str, pa.DataType]

    @classmethod
    def compile(
        cls,
        columns: NamedValues,
        schema: pa.Schema,
        conditions: Sequence[ScalarColumn] = (),
        arguments: Arguments = NO_ARGUMENTS,
        utc: bool = True,
    ) -> Projection:
        """Compile values over the columns of a table. Raises NeedsSpark at the first that only Spark evaluates.

        arguments: the values of parameters. utc: whether times of day are those of UTC; if not, only Spark knows them.
        """
        held = pa.schema([(one.name, held_as(one.type)) for one in schema])
        compiler = ScalarCompiler(held, utc, arguments)
        kept = tuple(_condition(compiler, condition) for condition in conditions)
        values = tuple(_compile(compiler, value) for _, value in columns)
        types = [one.type if isinstance(one, ConstantColumn) else compiler.type_of(one) for one in values]
        output = pa.schema([(name, kind) for (name, _), kind in zip(columns, types, strict=True)])
        return cls(output, values, kept, compiler.calls, compiler.read)

    @classmethod
    def of(cls, result: Result, schema: pa.Schema, arguments: Arguments = NO_ARGUMENTS, utc: bool = True) -> Projection:
        """Compile the columns of a result. schema: of the matcher's output."""
        columns = [(one.name, result.scalar_column(one)) for one in result.outputs]
        return cls.compile(columns, schema, list(map(result.scalar_column, result.conditions)), arguments, utc)

    def __call__(self, table: pa.Table) -> pa.Table:
        scalars = Scalars(table, self.calls, self.types)
        columns = [_column(scalars, value) for value in self.values]
        result = pa.Table.from_arrays(columns, names=self.schema.names)
        return result.filter(self._mask(scalars)) if self.conditions and self.values else result

    def holds(self, table: pa.Table) -> pa.Array:
        """Return, for each row, whether all conditions hold."""
        return self._mask(Scalars(table, self.calls, self.types))

    def _mask(self, scalars: Scalars) -> pa.Array:
        return reduce(pc.and_, [scalars.run(one).cast(pa.bool_()).fill_null(False) for one in self.conditions])


@dataclass(frozen=True)
class Derivation:
    """A table with further columns, which a pattern computes before matching. schema: of the whole table."""

    projection: Projection
    schema: pa.Schema

    @classmethod
    def compile(
        cls,
        derived: Sequence[tuple[str, str]],
        schema: pa.Schema,
        arguments: Arguments = NO_ARGUMENTS,
        utc: bool = True,
    ) -> Derivation:
        """Compile columns, each (SQL, name)."""
        columns = [(name, ScalarColumn.of(sql)) for sql, name in derived]
        projection = Projection.compile(columns, schema, (), arguments, utc)
        return cls(projection, pa.schema([*schema, *projection.schema]))

    def __call__(self, table: pa.Table) -> pa.Table:
        for name, column in zip(self.projection.schema.names, self.projection(table).columns, strict=True):
            table = table.append_column(name, column)
        return table


@dataclass(frozen=True)
class Projections:
    """Columns computed from columns that were computed before."""

    steps: tuple[Projection, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.steps[-1].schema

    def __call__(self, table: pa.Table) -> pa.Table:
        return reduce(lambda before, step: step(before), self.steps, table)

    def then(self, columns: NamedValues, arguments: Arguments = NO_ARGUMENTS, utc: bool = True) -> Projections:
        """Return these projections and a further step over the columns of the last one."""
        return Projections((*self.steps, Projection.compile(columns, self.schema, (), arguments, utc)))


def _column(scalars: Scalars, value: Expression | ConstantColumn) -> pa.Array | pa.ChunkedArray:
    if isinstance(value, ConstantColumn):
        return pa.repeat(pa.scalar(value.value, value.type), scalars.rows)
    return scalars.input_column(value.column) if isinstance(value, Load) else scalars.run(value)


def _compile(compiler: ScalarCompiler, value: Value) -> Expression | ConstantColumn:
    if isinstance(value, ScalarColumn):
        return _expression(compiler, value)
    if isinstance(value, ConstantColumn):
        return value
    column = compiler.column(value.column)
    assert column is not None, f"there is no column {value.column}"
    if value.type is None or value.type == compiler.type_of(column):
        return column
    return compiler.call(ArrowCall(partial(pc.cast, target_type=value.type), (column,)))


def _expression(compiler: ScalarCompiler, value: ScalarColumn) -> Expression:
    if value.tree is None:
        raise _locate(NeedsSpark(value.original), value)
    try:
        return compiler.compile(value.tree)
    except NotCompilable as error:
        if not compiler.utc:
            utc = ScalarCompiler(compiler.schema, True, compiler.arguments)
            _expression(utc, value)  # in UTC it may also need Spark
        why = NeedsSpark.EXPRESSION if compiler.utc else NeedsSpark.ZONE
        raise _locate(NeedsSpark(value.original or error.node.sql("spark"), why), value) from None
    except Mistake as error:
        raise _locate(EpisodeAnalysisError(error.message, hint=error.hint), value) from None


def _condition(compiler: ScalarCompiler, value: ScalarColumn) -> Expression:
    expression = _expression(compiler, value)
    kind = compiler.type_of(expression)
    if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
        message = f"A condition must be true or false, but this is of type {spark_name(kind)}."
        raise _locate(EpisodeAnalysisError(message, hint="Compare it with something: x > 0."), value)
    return expression


def _locate(error: Kind, value: ScalarColumn) -> Kind:
    if value.source is None or value.span is None:
        return error
    return value.source.locate(error, value.span)
