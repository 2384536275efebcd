"""One pattern over one table in process: the plans and matchers of Spark's queries, without Spark.

What Spark computes before and after matching, `matchers.scalars` computes here; what it does not know is refused before
anything is matched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.lexer import tokenize
from episode.lang.source import Source
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import Span
from episode.matchers.running import run
from episode.matchers.scalars import NeedsSpark, Scalars
from episode.matchers.spark_types import retyped, spark_name
from episode.plan.compilable import Mistake
from episode.plan.schema import InputSchema
from episode.queries.class_names import rows_of_table
from episode.queries.language import Given, Input, Language
from episode.queries.languages import language_of
from episode.queries.options import Options

if TYPE_CHECKING:
    from sqlglot import exp

    from episode.matchers.bound import BoundPattern
    from episode.plan.output import PlannedMeasure

Arguments = Mapping[str, object]
NO_ARGUMENTS: Arguments = MappingProxyType({})
USE_SPARK = "In process, expressions are those of the expression machine. Use episode.sql, where Spark evaluates all."


def run_local(
    query: object,
    table: pa.Table,
    given: Given,
    options: Options,
    names: tuple[str, ...] = (),
    arguments: Arguments = NO_ARGUMENTS,
) -> pa.Table:
    """The output of a pattern over a table. names: of the table, which may stand before columns. arguments: the values
    of parameters."""
    language = language_of(query)
    check_local(options, [language])
    table = retyped(table)
    schema = local_schema(table, language.source(query), arguments)
    bound = language.bind(query, Input(schema, names), given, options.run(1, arguments))
    language.warn_of_rows(query, given, rows_of_table(table))
    return LocalQuery(bound, arguments).over(table)


def check_local(options: Options, languages: Collection[Language[Any]]) -> None:
    """Options that have a meaning here, for patterns of these languages."""
    options.check_use(languages)
    options.check_streams([])
    for name in ("shards", "shard_bytes", "slices"):
        if isinstance(getattr(options, name), int):
            raise EpisodeAnalysisError(f"Options({name}={getattr(options, name)}) is for Spark; this runs in process.")


@dataclass(frozen=True)
class LocalQuery:
    """A pattern that is bound to a table."""

    pattern: BoundPattern
    arguments: Arguments = field(default_factory=dict)

    def over(self, table: pa.Table) -> pa.Table:
        """The output of the pattern."""
        for sql, name in self.pattern.derived:
            table = table.append_column(name, self._scalars(table).evaluate(tree_of(sql)))
        spec = self.pattern.spec(table.schema)
        self.finished(retyped(spec.output_schema.empty_table()))  # what needs Spark is refused here
        return self.finished(retyped(run(spec, table)))

    def finished(self, matched: pa.Table) -> pa.Table:
        """The matcher's columns, and around its values the measures."""
        columns, kept = self.values(matched)
        table = pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
        return table.filter(reduce(pc.and_, kept)) if kept else table

    def values(self, matched: pa.Table) -> tuple[list[tuple[str, Any]], list[Any]]:
        """The columns of the output, by name, and where the conditions on whole matches hold."""
        result, scalars = self.pattern.result, self._scalars(matched)
        kept = [self._value(scalars, condition).fill_null(False) for condition in result.conditions]
        columns = [(name, matched.column(name)) for name in result.before]
        columns += [(measure.name, self._value(scalars, measure)) for measure in result.columns]
        columns += [(name, matched.column(name)) for name in result.after]
        return columns, kept

    def _scalars(self, table: pa.Table) -> Scalars:
        return Scalars(table, arguments=self.arguments)

    def _value(self, scalars: Scalars, measure: PlannedMeasure) -> pa.Array:
        try:
            return scalars.evaluate(tree_of(measure.sql))
        except (NeedsSpark, Unreadable):
            raise needs_spark(measure.original, self.pattern.result.source, measure.span) from None
        except Mistake as error:
            source = self.pattern.result.source
            raise source.error(EpisodeAnalysisError, error.message, measure.span, error.hint) from None


def needs_spark(what: str, source: Source, span: Span, hint: str = USE_SPARK) -> EpisodeUnsupportedError:
    return source.error(EpisodeUnsupportedError, f"{what} needs Spark.", span, hint)


def tree_of(sql: str) -> exp.Expression:
    """An expression that a plan has written, parsed."""
    return read_expression(sql, tokenize(sql)[:-1])


def local_schema(table: pa.Table, source: Source, arguments: Arguments, utc: bool = True) -> InputSchema:
    """The columns of a table, and the types of expressions over them that can be evaluated here. utc: are times of day
    those of UTC? Otherwise they need Spark."""
    lower = [name.lower() for name in table.column_names]
    twice = next((name for name in table.column_names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise source.error(
            EpisodeAnalysisError, f"The table has two columns named {twice}.", hint="Rename one of them."
        )
    nothing = table.schema.empty_table()

    def type_of(sql: str) -> str:
        try:
            return spark_name(Scalars(nothing, utc, arguments).evaluate(tree_of(sql)).type)
        except (NeedsSpark, Unreadable):
            raise EpisodeUnsupportedError(f"{sql} needs Spark.", hint=USE_SPARK) from None
        except Mistake as error:
            raise EpisodeAnalysisError(error.message, hint=error.hint) from None

    columns = {field.name: spark_name(field.type) for field in table.schema}
    return InputSchema(columns, type_of, utc=utc, arguments=arguments)
