"""The code of patterns, as `explain(format="native")` shows it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from episode.lang.rows.parser import parse_clause
from episode.matchers.code.listing import code_lines
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema

SCHEMA = pa.schema({"key": pa.int32(), "ts": pa.timestamp("us"), "price": pa.float64(), "name": pa.string()})
TYPES = InputSchema({"key": "int", "ts": "timestamp", "price": "double", "name": "string"})


def lines(define: str, analyze: bool = False) -> list[str]:
    clause = f"PARTITION BY key ORDER BY ts MEASURES A.ts AS t PATTERN (A B+) DEFINE {define}"
    spec = RowPatternSpec(plan_row_pattern(parse_clause(clause), TYPES), SCHEMA)
    return list(code_lines(spec, analyze))


def test_the_search_and_its_conditions_are_listed() -> None:
    found = lines("B AS price > A.price")
    assert any(line.startswith("  program search: ") for line in found)
    assert any(": bool = gt " in line for line in found)
    assert not any("compiled in" in line for line in found)


def test_code_has_only_what_a_query_needs() -> None:
    plain, strings = lines("B AS price > 1"), lines("B AS price > 1 AND sum(B.price) < 10 AND name = 'x'")
    assert len(strings) > len(plain)
    assert not any("agg_f" in line for line in plain)
    assert any("agg_f" in line for line in strings)


def test_analyze_says_what_compiling_costs() -> None:
    found = [line for line in lines("B AS price > A.price", analyze=True) if "compiled in" in line]
    assert found
    assert all(float(line.split()[2]) > 0 and line.endswith(" bytes") for line in found)


def test_queries_that_differ_in_constants_have_the_same_code() -> None:
    assert lines("B AS price > 1") == lines("B AS price > 2")


@pytest.mark.parametrize("type_", [pa.decimal128(10, 2), pa.list_(pa.int32()), pa.date32(), pa.binary(), pa.bool_()])
def test_columns_of_any_type_have_values(type_: pa.DataType) -> None:
    from episode.matchers.code.listing import _column

    assert _column(type_).null_count == 0
