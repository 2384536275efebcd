"""What a user is shown where the data make a query fail: what is wrong, where, and what would help."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeDataError
from episode.lang.rows.parser import parse_clause
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from tests.golden.cases import Case, check, parametrized

TYPES = {"symbol": "string", "ts": "timestamp", "volume": "bigint"}
COUNT = 3_000
TABLE = pa.table(
    {
        "symbol": ["X"] * COUNT,
        "ts": pa.array(np.arange(COUNT) * 1_000_000, pa.timestamp("us", "UTC")),
        "volume": np.arange(COUNT) % 7,
    }
)


def error_of(clause: str) -> str:
    spec = RowPatternSpec(plan_row_pattern(parse_clause(clause), InputSchema(TYPES)), TABLE.schema, step_budget=100)
    with pytest.raises(EpisodeDataError) as raised:
        run(spec, TABLE)
    return f"{type(raised.value).__name__}: {raised.value}"


@parametrized("running")
def test_error(case: Case) -> None:
    check(case, error_of)
