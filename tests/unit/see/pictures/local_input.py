"""A pattern over an Arrow table, as pictures see one over Spark's DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.projection import Derivation
from episode.matchers.spark_types import to_spark_types
from episode.plan.pattern import RunOptions
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.local import local_schema
from episode.queries.origins import PlacedPattern
from episode.queries.planning import PatternEvents
from episode.see.inspecting import Inspected


@dataclass(frozen=True, kw_only=True)
class LocalInput(Inspected):
    table: pa.Table

    def rows(
        self,
        key: Mapping[str, object],
        between: tuple[object, object] = (None, None),
        further: Sequence[str] = (),
        most: int | None = None,
    ) -> pa.Table:
        table = self.table
        for name, value in key.items():
            column = table.column(name)
            table = table.filter(pc.is_null(column) if value is None else pc.equal(column, value))
        table = Derivation.compile(self.plan.derived, table.schema)(table)
        read = self.plan.input_columns
        table = table.select([*read, *(name for name in further if name not in read)])
        return table if most is None else table.slice(0, most)

    def count(self, key: Mapping[str, object]) -> int:
        return self.rows(key).num_rows

    def keys_by_rows(self, most: int) -> pa.Table:
        counted = self.table.group_by(list(self.keys)).aggregate([([], "count_all")])
        return counted.sort_by([("count_all", "descending")]).slice(0, most)


def local_input(query: Any, table: pa.Table, **given: Any) -> LocalInput:
    """A parsed query over a table. given: what callers of `match` say beside it."""
    table = to_spark_types(table)
    language = language_of(query)
    said = Given(**given)
    run = RunOptions(eager=said.detect != "complete")
    plan = language.bind(query, Input(local_schema(table.schema, language.source(query), {})), said, run)
    frame: Any = SimpleNamespace(columns=table.column_names, isStreaming=False, count=lambda: table.num_rows)
    events = PatternEvents(frame, said)
    planned: Any = SimpleNamespace(pattern=plan)
    return LocalInput(PlacedPattern(query, (events,), planned, run), events, plan, table=table)
