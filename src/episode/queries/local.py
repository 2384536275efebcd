"""One pattern over one table in process: the plans and matchers of Spark's queries, without Spark.

What Spark computes before and after matching, a `Projection` computes here; what it does not know is refused before
anything is matched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.lang.syntax import Source
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import Derivation, NamedValues, Projection, Projections
from episode.matchers.running import run
from episode.matchers.spark_types import spark_name, to_spark_types
from episode.plan.compilable import NeedsSpark
from episode.plan.output import Computed
from episode.plan.schema import InputSchema
from episode.queries.class_names import rows_of_table
from episode.queries.language import Given, Input, Language
from episode.queries.languages import language_of
from episode.queries.options import Options

Arguments = Mapping[str, object]
Select = Callable[[Sequence[str]], NamedValues]
NO_ARGUMENTS: Arguments = MappingProxyType({})


@contextmanager
def refusing(hints: Mapping[str, str] = NeedsSpark.HINTS) -> Iterator[None]:
    """Refuse what needs Spark. hints: what to do instead, by the reason."""
    try:
        yield
    except NeedsSpark as error:
        raise error.refused(hints) from None


def run_local(
    query: object,
    table: pa.Table,
    given: Given,
    options: Options,
    names: tuple[str, ...] = (),
    arguments: Arguments = NO_ARGUMENTS,
    select: Select | None = None,
) -> pa.Table:
    """The output of a pattern over a table. names: of the table, which may be written before columns. arguments: the
    values of parameters. select: what is selected of the output, whose columns have these names."""
    language = language_of(query)
    check_local(options, [language])
    table = to_spark_types(table)
    schema = local_schema(table.schema, language.source(query), arguments)
    plan = language.bind(query, Input(schema, names), given, options.run(1, arguments))
    language.warn_of_rows(query, given, rows_of_table(table))
    table = Derivation.compile(plan.derived, table.schema, arguments)(table)
    spec = matcher_spec(plan, table.schema)
    finish = Projections((Projection.of(plan.result, spec.output_schema, arguments),))
    if select is not None:
        finish = finish.then(select(finish.schema.names), arguments)
    return finish(run(spec, table))


def check_local(options: Options, languages: Collection[Language[Any]]) -> None:
    """Options that have a meaning here, for patterns of these languages."""
    options.check_use(languages)
    options.check_streams([])
    for name in ("shards", "shard_bytes", "slices"):
        if isinstance(getattr(options, name), int):
            raise EpisodeAnalysisError(f"Options({name}={getattr(options, name)}) is for Spark; this runs in process.")


def local_schema(schema: pa.Schema, source: Source, arguments: Arguments, utc: bool = True) -> InputSchema:
    """The columns of a table, and the types of expressions over them that can be evaluated here. utc: are times of day
    those of UTC? Otherwise they need Spark."""
    lower = [name.lower() for name in schema.names]
    twice = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise source.error(
            EpisodeAnalysisError, f"The table has two columns named {twice}.", hint="Rename one of them."
        )

    def type_of(sql: str) -> str:
        return spark_name(Projection.compile([("", Computed.of(sql))], schema, (), arguments, utc).schema.types[0])

    columns = {field.name: spark_name(field.type) for field in schema}
    return InputSchema(columns, type_of, utc=utc, arguments=arguments)
