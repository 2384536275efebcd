"""Compile the kernels for this machine ahead of the first query; they are cached on disk from then on."""

from __future__ import annotations

import pyarrow as pa

from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.protocol import InputOrder
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import run
from episode.matchers.situations.spec import SituationPatternSpec
from episode.plan.events.cost import PhysicalPlan, default_statistics, search
from episode.plan.events.plan import EventPlan
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.situations.plan import SituationPlan

SAMPLE_CLAUSE = """
    PARTITION BY k ORDER BY ts
    MEASURES A.v AS a, LAST(B.v) AS b, sum(v) AS total, array_agg(B.v) AS collected, max(A.v) AS most
    PATTERN (A B+) DEFINE B AS B.v < PREV(B.v) AND B.v < A.v AND avg(B.v) < 100
"""
"""A query that needs every kernel."""

SAMPLE_TYPES = {"k": "bigint", "ts": "bigint", "v": "double"}

SAMPLE_EVENTS = (
    "PATTERN A; !B; C D; E WHERE A.v < D.v AND A.v + E.v > 0 WITHIN 9",
    "PATTERN A; B+; C D WHERE A.k = D.k WITHIN 9 RETURN A.v, sum(B.v) AS total",
    "PATTERN A & B WITHIN 9",
    "PATTERN !A; B D; E* WHERE A.v > D.v WITHIN 9",
    "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].v > avg(b[..i-1].v) WITHIN 9",
)
"""Event patterns that need every kernel of theirs, over SAMPLE_EVENT_TYPES; each runs as a tree, if it can."""

SAMPLE_EVENT_TYPES = {**SAMPLE_TYPES, "type": "string"}


SAMPLE_SITUATIONS = """
    DEFINE A AS v > 2, B AS v < 3 AT LEAST 1 PATTERN A overlaps B; A before B WITHIN 9
    RETURN count(A.v) AS n, sum(A.v) AS total, avg(B.v) AS mean, stddev(B.v) AS deviation, max(A.v) AS most,
        sum(A.ts) AS whole
"""
"""A situation pattern that needs every kernel of its, over SAMPLE_TYPES."""


def compile_kernels(plan: RowPatternPlan) -> None:
    """Run a small plan of SAMPLE_CLAUSE over SAMPLE_TYPES in process."""
    table = pa.table({"k": [1, 1, 2, 2], "ts": [1, 2, 1, 2], "v": [3.0, 2.0, 2.0, 1.0]})
    spec = RowPatternSpec(plan, table.schema)
    packing = Packing(spec.input_order, shards=2)
    for _, packed in unpack(pack([table.select(list(spec.input_columns))], packing, 0)):
        run(spec, packed)
    names = pa.table({"k": ["a", "b"]})
    list(pack([names], Packing(InputOrder(("k",), ()), shards=2), 0))


def compile_event_kernels(plans: list[EventPlan]) -> None:
    """Run small plans of SAMPLE_EVENTS in process."""
    types = ["A", "B", "C", "E"] * 2
    count = len(types)
    table = pa.table({"k": [1] * count, "ts": list(range(count)), "v": [float(i) for i in range(count)], "type": types})
    for plan in plans:
        forced = None if plan.tree is None else PhysicalPlan(False, search(plan, default_statistics(plan)).shapes, 0.0)
        for choice in dict.fromkeys((forced, None)):
            run(EventPatternSpec(plan, table.schema, forced=choice), table)


def compile_situation_kernels(plan: SituationPlan) -> None:
    """Run a small plan of SAMPLE_SITUATIONS in process."""
    values = [3.0, 2.5, 2.0, 3.0, 3.0, 1.0, 3.0, 1.0]
    count = len(values)
    table = pa.table({"k": [1] * count, "ts": list(range(count)), "v": values})
    run(SituationPatternSpec(plan, table.schema), [table.slice(0, 4), table.slice(4)])
