"""No match is reported later than the delay of its times says: on that, patterns over matches rely in streams."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeError
from episode.lang.rows.parser import parse_clause
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.stream_shard import ShardSettings, StreamShard
from episode.plan.event_time import Delays
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.stream import with_match_times
from episode.plan.schema import InputSchema
from tests.reference.generate import clauses, tables
from tests.support import events as event_support
from tests.support import situations as situation_support
from tests.support.rows import ARROW_TYPES, SPARK_TYPES

SETTINGS = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def check(spec: Any, delays: Delays, table: pa.Table, watermarks: list[int]) -> None:
    """Step a shard through watermarks: times are reported as promised."""
    shard = StreamShard(spec, ShardSettings())
    names = {measure.name: measure.sql.strip(" ()`") for measure in spec.plan.measures.measures}
    step = shard.step([(None, table)], watermarks[0])
    assert step.counters.late == 0
    for before, watermark in pairwise(watermarks):
        matches = shard.step([], watermark).matches
        for column, delay in delays.items():
            values = [value for value in matches.column(names.get(column, column)).to_pylist() if value is not None]
            if delay is not None:
                assert all(value > before - delay for value in values), (column, delay, before, values)


steps = st.lists(st.integers(1, 7), min_size=16, max_size=16)


def sums(start: int, pieces: list[int]) -> list[int]:
    return [start + sum(pieces[:count]) for count in range(len(pieces) + 1)]


@SETTINGS
@given(clauses(), tables(max_rows=14), steps)
def test_row_patterns(text: str, rows: list[dict[str, Any]], pieces: list[int]) -> None:
    try:
        plan = plan_row_pattern(with_match_times(parse_clause(text), SPARK_TYPES), InputSchema(SPARK_TYPES))
    except EpisodeError:
        assume(False)
    assume(plan.order[0].column == "ts" and plan.order[0].ascending and len(plan.order) == 1)
    time = 0
    for event in rows:
        time += 1 + event["ts"] // 4
        event["ts"] = time
    spec = RowPatternSpec(plan, pa.schema(list(ARROW_TYPES.items())))
    table = pa.Table.from_pylist(rows, schema=spec.input_schema)
    try:
        check(spec, plan.delays(), table, sums(0, pieces))
    except EpisodeError:
        assume(False)


@SETTINGS
@given(st.lists(st.integers(0, 3), min_size=25, max_size=25), steps)
@pytest.mark.parametrize(
    ("text", "ends_at_once"),
    [
        ("PATTERN A; B WITHIN 6", True),
        ("PATTERN A; B; C WITHIN 9", True),
        ("PATTERN A; !B WITHIN 6", False),
        ("PATTERN A; B* WITHIN 6", False),
        ("PATTERN A & B WITHIN 6", True),
        ("PATTERN SEQ(A a, B+ b[], C c) WHERE skip-till-next-match WITHIN 8", True),
        ("PATTERN SEQ(A a, B+ b[]) WHERE skip-till-any-match WITHIN 5", True),
        ("PATTERN SEQ(A a, ~B b, C c) WHERE skip-till-any-match WITHIN 8", True),
    ],
)
def test_event_patterns(text: str, ends_at_once: bool, kinds: list[int], pieces: list[int]) -> None:
    spec = event_support.spec_of(text)
    delays = spec.plan.delays()
    assert delays["match_end"] == (0 if ends_at_once else spec.plan.within)
    assert delays["match_start"] == spec.plan.within
    rows = [
        {"position": at, "ts": 2 * at + 1, "te": 2 * at + 1, "type": "ABCD"[kind], "k": 1, "x": 1, "y": 1, "s": "a"}
        for at, kind in enumerate(kinds)
    ]
    table = pa.Table.from_pylist(rows, schema=spec.input_schema)
    check(spec, delays, table, sums(0, pieces))


@SETTINGS
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=25, max_size=25), steps)
@pytest.mark.parametrize("detect", ["earliest", "complete"])
@pytest.mark.parametrize("text", ["A before B", "A overlaps B", "A meets B; A during B", "A contains B"])
def test_situation_patterns(text: str, detect: str, holds: list[tuple[bool, bool]], pieces: list[int]) -> None:
    spec = situation_support.spec_of(
        f"FROM s DEFINE A AS a, B AS b PATTERN {text} WITHIN 12 RETURN A.start AS sa, A.end AS ea", detect
    )
    delays = spec.plan.delays()
    assert delays == {"sa": 12, "ea": 12, "match_start": 12, "detected_at": 0}
    rows = [{"k": "x", "t": 2 * at + 1, "a": a, "b": b} for at, (a, b) in enumerate(holds)]
    table = pa.Table.from_pylist(rows, schema=spec.input_schema)
    check(spec, delays, table, sums(0, pieces))
