"""A pattern over an Arrow table, as pictures see one over Spark's DataFrames."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from episode.matchers.spark_types import to_spark_types
from episode.plan.options import RunOptions
from episode.queries.language import Given
from episode.queries.languages import language_of
from episode.queries.local import local_schema
from episode.queries.origins import InProcessRun, LocalEvents, LocalPattern
from episode.see.inspecting import Inspected, patterns_at


def local_input(query: Any, table: pa.Table, **given: Any) -> Inspected:
    """A parsed query over a table. given: what callers of `match` say beside it."""
    table = to_spark_types(table)
    language = language_of(query)
    said = Given(**given)
    run = RunOptions(detect=said.detect or "earliest")
    events = LocalEvents(table, local_schema(table.schema, language.source(query), {}), said)
    plan = language.bind(query, events.input(query, run), said, run)
    planned: Any = InProcessRun(plan, None, table.num_rows)  # type: ignore[arg-type]  # no matcher is asked of it
    (found,) = patterns_at(LocalPattern(query, (events,), planned, run))
    return found
