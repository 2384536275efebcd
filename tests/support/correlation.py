"""Two row patterns correlated with the real matcher in process, without Spark."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pyarrow as pa

from episode.lang.rows.parser import parse_clause
from episode.matchers.correlation.archive import History
from episode.matchers.correlation.spec import CorrelationSpec, SidePlan
from episode.matchers.protocol import OrderKey
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX, CorrelationPlan
from episode.plan.output import MATCH_END, MATCH_START, MeasurePlan
from episode.plan.rows.plan import RowPatternPlan, plan_row_pattern
from episode.plan.rows.stream import with_match_times
from episode.plan.schema import InputSchema

ARROW = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
TICKS = {"symbol": "string", "ts": "bigint", "price": "double"}

FALL = """
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS init, LAST(B.price) AS least
    AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE B AS B.price < PREV(B.price)
"""
TICK = """
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS init, LAST(D.price) AS most
    AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+ C* D+)
    DEFINE B AS B.price < PREV(B.price), C AS C.price >= PREV(C.price) AND C.price <= A.price,
        D AS D.price > PREV(D.price) AND D.price > A.price
"""
RISE = """
    PARTITION BY symbol ORDER BY ts MEASURES A.price AS init, LAST(B.price) AS most
    AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH PATTERN (A B+) DEFINE B AS B.price > PREV(B.price)
"""


def side_of(text: str, types: dict[str, str], names: dict[str, str] | None = None) -> SidePlan:
    """A row pattern as one side. names: of the correlation's columns, where they differ from its own."""
    plan = _planned(text, tuple(types.items()))
    schema = pa.schema([(name, ARROW[type_]) for name, type_ in types.items()])
    columns = tuple((name, (names or {}).get(name, name)) for name in plan.input_columns)
    return SidePlan(
        RowPatternSpec(plan, schema), columns, _column(plan.measures, MATCH_START), _column(plan.measures, MATCH_END)
    )


@lru_cache(maxsize=16)
def _planned(text: str, types: tuple[tuple[str, str], ...]) -> RowPatternPlan:
    """Planned once for the runs of a case."""
    return plan_row_pattern(with_match_times(parse_clause(text), dict(types)), InputSchema(dict(types)))


def _column(measures: MeasurePlan, name: str) -> str:
    """The output column that is nothing but a measure."""
    return next(measure.sql for measure in measures.measures if measure.name == name).strip(" `()")


def correlation(
    live: str = FALL,
    archive: str = TICK,
    recency: int = 7,
    *,
    types: dict[str, str] | None = None,
    keys: tuple[str, ...] = ("symbol",),
    time: str = "ts",
    plan: CorrelationPlan | None = None,
    history: History | None = None,
    side: str | None = None,
    closed: bool = False,
) -> CorrelationSpec:
    types = types or TICKS
    schema = pa.schema([(name, ARROW[type_]) for name, type_ in types.items()])
    return CorrelationSpec(
        side_of(live, types),
        side_of(archive, types),
        recency,
        keys,
        (OrderKey(time),),
        schema if side is None else schema.append(pa.field(side, pa.int8())),
        plan or CorrelationPlan(),
        side,
        history,
        closed,
    )


def pairs_of(spec: CorrelationSpec, output: pa.Table) -> list[tuple[Any, ...]]:
    """Pairs as (start, end, first measures of the live match, of the archive match)."""
    columns = [MATCH_START, MATCH_END]
    for prefix, side in ((LIVE_PREFIX, spec.live), (ARCHIVE_PREFIX, spec.archive)):
        plan = side.spec.plan  # type: ignore[attr-defined]
        names = [measure.sql.strip(" `()") for measure in plan.measures.measures[:-2]]
        columns += [prefix + name for name in names]
    return [tuple(row.values()) for row in output.select(columns).to_pylist()]
