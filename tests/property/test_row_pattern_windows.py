"""The laws for row patterns in windows: equality with the oracle, and pieces of the input do not matter."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.lang.rows.syntax import PatternWindow
from episode.lang.statement import parse_statement
from episode.matchers.rows.windows import WindowSpec
from episode.matchers.running import run
from episode.plan.output import MATCHED_COLUMN
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema
from tests.reference.generate import COLUMNS, tables
from tests.reference.generate_windows import windowed
from tests.reference.row_pattern_windows import evaluate
from tests.reference.row_patterns import Exploded
from tests.reference.scalars import fail, scalar_value
from tests.support.rows import ARROW_TYPES, SPARK_TYPES

SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
SCHEMA = pa.schema(list(ARROW_TYPES.items()))


def canonical(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as comparable texts, in any order; floats to nine digits, as they are summed in any order."""

    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else round(value, 9) + 0.0
        return [plain(part) for part in value] if isinstance(value, list) else value

    return sorted(repr(sorted((name, plain(value)) for name, value in row.items())) for row in rows)


def planned(text: str) -> tuple[PatternWindow, WindowSpec]:
    """The window of a SELECT and its spec; combinations that are refused at plan time are none of this test's."""
    try:
        (select,) = parse_statement(text).windowed
        (window,) = select.windows
        return window, WindowSpec(plan_window(window, InputSchema(SPARK_TYPES)), SCHEMA)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)
        raise


def expectation(window: PatternWindow, rows: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The oracle's rows, None where it raises a data error; cases that it cannot decide are given up."""
    try:
        return evaluate(window, rows, columns=COLUMNS, budget=30_000)
    except EpisodeDataError:
        return None
    except (Exploded, NotImplementedError, ArithmeticError, RecursionError):
        assume(False)
        raise


def finished(spec: WindowSpec, output: pa.Table) -> list[dict[str, Any]]:
    """The rows with the values of all calls, as the reference evaluates what Spark would finish."""
    plan = spec.plan
    trees = [(measure.name, sqlglot.parse_one(measure.sql, read="spark")) for measure in plan.measures.measures]
    found = []
    for row in output.to_pylist():
        values = {name: row[name] for name in plan.output.columns}
        for name, tree in trees:
            try:
                values[name] = scalar_value(tree, lambda column, row=row: row[column], fail)
            except (NotImplementedError, ArithmeticError):  # only Spark can finish it
                assume(False)
        found.append(values)
    assert MATCHED_COLUMN in output.column_names
    return found


@SETTINGS
@given(windowed(), tables(max_rows=9))
def test_equals_the_oracle(text: str, rows: list[dict[str, Any]]) -> None:
    window, spec = planned(text)
    expected = expectation(window, rows)
    table = pa.Table.from_pylist(rows, schema=spec.input_schema)
    if expected is None:
        with pytest.raises(EpisodeDataError):
            run(spec, table)
        return
    assert canonical(finished(spec, run(spec, table))) == canonical(expected)


@SETTINGS
@given(windowed(), tables(max_rows=9), st.data())
def test_shards_do_not_matter(text: str, rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Keys one by one give what all keys together give."""
    window, spec = planned(text)
    assume(bool(window.clause.partition_by))
    expected = expectation(window, rows)
    assume(expected is not None)
    keys = {repr((row["k"], row["s"] if len(window.clause.partition_by) > 1 else None)) for row in rows}
    found: list[dict[str, Any]] = []
    for key in sorted(keys):
        part = [
            row for row in rows if repr((row["k"], row["s"] if len(window.clause.partition_by) > 1 else None)) == key
        ]
        found += finished(spec, run(spec, pa.Table.from_pylist(part, schema=spec.input_schema)))
    assert canonical(found) == canonical(expected or [])
