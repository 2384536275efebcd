"""Compile the kernels for this machine ahead of the first query; they are cached on disk from then on."""

from __future__ import annotations

import pyarrow as pa

from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of
from episode.matchers.protocol import END_OF_TIME, InputOrder
from episode.matchers.row_pattern import RowPatternSpec
from episode.plan.row_pattern import RowPatternPlan

SAMPLE_CLAUSE = """
    PARTITION BY k ORDER BY ts
    MEASURES A.v AS a, LAST(B.v) AS b, sum(v) AS total, array_agg(B.v) AS collected, max(A.v) AS most
    PATTERN (A B+) DEFINE B AS B.v < PREV(B.v) AND B.v < A.v AND avg(B.v) < 100
"""
"""A query that needs every kernel."""

SAMPLE_TYPES = {"k": "bigint", "ts": "bigint", "v": "double"}


def compile_kernels(plan: RowPatternPlan) -> None:
    """Run a small plan of SAMPLE_CLAUSE over SAMPLE_TYPES in process."""
    table = pa.table({"k": [1, 1, 2, 2], "ts": [1, 2, 1, 2], "v": [3.0, 2.0, 2.0, 1.0]})
    spec = RowPatternSpec(plan, table.schema)
    matcher = spec.open()
    packing = Packing(spec.input_order, shards=2)
    for _, packed in unpack(pack([table.select(list(spec.input_columns))], packing, 0)):
        events = events_of(packed, spec.input_order, KeyCoder(spec.input_order.keys))
        matcher.feed(events, END_OF_TIME)
    names = pa.table({"k": ["a", "b"]})
    list(pack([names], Packing(InputOrder(("k",), ()), shards=2), 0))
