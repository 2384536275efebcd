"""`expand`: the final matches of collapsed ones, as the plain query gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.lexer import tokenize
from episode.lang.table_patterns import pattern_of
from episode.plan.events.classes import one_stream_of
from episode.plan.parameters import check_arguments
from episode.plan.schema import PARTITION_COLUMN
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.options import Options
from episode.queries.tables import Table, one_table, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from episode.spark.query import PlannedQuery


@dataclass(frozen=True)
class ExpandQuery:
    """A call of `expand`, whose arguments these are."""

    collapsed: Table
    text: str
    given: Given
    spark: SparkSession | None
    options: Options
    arguments: Mapping[str, object] = field(default_factory=dict)

    def plan(self) -> PlannedQuery:
        from episode.spark.batch.expanding import events_of_variables, plan_expansion, variable_schemas
        from episode.spark.expressions import input_schema
        from episode.spark.query import PlannedQuery

        text = text_of(self.text)
        query: Any = pattern_of(text, strategy_of(self.given.strategy))
        check_arguments(text, tokenize(text), self.arguments)
        language = language_of(query)
        inner, variables = language.expand(query)
        for name in ("shards", "shard_bytes"):
            if getattr(self.options, name) is not None:
                raise EpisodeAnalysisError(
                    f"Options({name}={getattr(self.options, name)}) has no meaning for expand: nothing is shuffled."
                )
        language.check_arguments(self.given)
        self.options.check_use([language])
        self.options.check_streams([])
        session, frame = one_table(self.spark, self.collapsed)
        schemas = variable_schemas(session, frame, variables, query.source)
        time, start = self.given.time or query.input.time, self.given.start or query.input.start
        keys = self.given.key or query.input.partition_by
        tables = one_stream_of(inner, schemas, time, start, keys)
        events = events_of_variables(session, frame, variables, schemas, tables)
        schema = input_schema(session, events, query.source, "the collapsed matches", self.arguments)
        given = replace(self.given, time=time, start=start, key=(PARTITION_COLUMN, *keys), type_column=None)
        run = replace(self.options, results="matches", counts="exact").run(1, self.arguments)
        pattern = language.bind(inner, Input(schema, (), tables), given, run)
        return PlannedQuery(pattern, plan_expansion(events, pattern, run), self.arguments)
