"""Run a clause with the real matcher in process: no Spark; the reference evaluator finishes the measures."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import sqlglot

from episode.lang.rows.parser import parse_clause
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.times import NEVER
from episode.plan.output import MATCHED_COLUMN, TIMED_OUT_COLUMN
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from tests.reference.scalars import fail, scalar_value

SPARK_TYPES = {"k": "int", "ts": "bigint", "v": "int", "f": "double", "s": "string"}
ARROW_TYPES = {"k": pa.int32(), "ts": pa.int64(), "v": pa.int32(), "f": pa.float64(), "s": pa.string()}


def spec_of(
    text: str, types: dict[str, str] | None = None, arrow: pa.Schema | None = None, **options: Any
) -> RowPatternSpec:
    plan = plan_row_pattern(parse_clause(text), InputSchema(types or SPARK_TYPES))
    return RowPatternSpec(plan, arrow or pa.schema(list(ARROW_TYPES.items())), **options)


def table_in(spec: RowPatternSpec, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=spec.input_schema)


def run_whole(spec: RowPatternSpec, rows: list[dict[str, Any]]) -> pa.Table:
    """One feed of everything."""
    return run(spec, table_in(spec, rows))


def run_in_pieces(
    spec: RowPatternSpec, rows: list[dict[str, Any]], pieces: list[tuple[int, int]], restore: bool
) -> pa.Table:
    """Feeds of rows[begin:end] in event-time order; `restore` moves the state to a new matcher before each."""
    time = spec.plan.order[0].column if spec.plan.order else None
    parts = [rows[begin:end] for begin, end in pieces]
    until = [max((row[time] for row in part), default=NEVER) if time else 0 for part in parts]
    return run(spec, [table_in(spec, part) for part in parts], until=until, restore=restore)


def finished(spec: RowPatternSpec, output: pa.Table) -> list[dict[str, Any]]:
    """The final rows: measures evaluated on the atoms."""
    plan = spec.plan
    trees = [(measure.name, sqlglot.parse_one(measure.sql, read="spark")) for measure in plan.measures.measures]
    rows = []
    for row in output.to_pylist():
        result = {name: row[name] for name in plan.output.columns[: plan.output.before]}
        for name, tree in trees:
            unmatched = row.get(MATCHED_COLUMN) is False
            result[name] = None if unmatched else scalar_value(tree, lambda column, row=row: row[column], fail)
        result.update({name: row[name] for name in plan.output.columns[plan.output.before :]})
        if plan.output.timed_out:
            result[TIMED_OUT_COLUMN] = row[TIMED_OUT_COLUMN]
        rows.append(result)
    return rows
