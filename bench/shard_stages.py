"""What the workers of a batch on Spark do, in this process: where the time of a query over Parquet goes.

The same functions on the same files, one after the other: reading, leaving rows out, packing; unpacking, ordering,
matching. What Spark takes beyond that is its own: planning, starting tasks, moving envelopes and matches.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from bench.phases import Phases, Places
from episode import Options
from episode.lang.events.parser import parse_event_query
from episode.matchers import envelope, shard
from episode.matchers.engines import matcher_spec
from episode.matchers.envelope import Packing, group_shards, pack, unpack
from episode.matchers.events import aggregated as aggregated_matcher
from episode.matchers.events import aggregated as aggregated_output
from episode.matchers.events import matcher, output
from episode.matchers.screening import Screen
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.spark.batch.runtime import GROUP_BYTES, Batch, plan_batch
from episode.spark.expressions import input_schema
from episode.spark.scan.direct import ParquetScan

READ, SCREEN, PACK, UNPACK, ORDER, QUALIFY, MATCH, ROWS = (
    "read", "screen", "pack", "unpack", "order", "qualify", "match", "rows"
)  # fmt: skip
STAGES = (READ, SCREEN, PACK, UNPACK, ORDER, QUALIFY, MATCH, ROWS)
PLACES: Places = {
    READ: [(ParquetScan, "read")],
    SCREEN: [(Screen, "passing")],
    UNPACK: [(envelope, "open_envelope")],
    ORDER: [(shard, "events_of"), (shard, "concat")],
    QUALIFY: [(matcher, "prepare_events"), (aggregated_matcher, "prepare_aggregated")],
    MATCH: [(matcher.EventPatternMatcher, "feed"), (aggregated_matcher.AggregatedMatcher, "feed")],
    ROWS: [(output.EventOutput, "tables"), (aggregated_output.AggregatedOutput, "table")],
}


@dataclass(frozen=True)
class Stages:
    """phases: seconds of the core. rows, moved, bytes: read, packed, and in envelopes. matches: rows that come out."""

    phases: Phases
    rows: int
    moved: int
    bytes: int
    matches: int


def planned(session: Any, frame: Any, text: str, given: Given) -> Batch:
    """The batch of an event pattern over a DataFrame of Parquet files."""
    query = parse_event_query(text)
    run = Options().run()
    language = language_of(query)
    schema = input_schema(session, frame, language.source(query), language.called)
    bound = language.bind(query, Input(schema), given, run)
    return plan_batch(session, frame, bound.input_columns, bound.derived, partial(matcher_spec, bound), run)


def stages_of(batch: Batch, *, screened: bool = True) -> Stages:
    """Both stages of a batch, on one core. screened: rows that no match can have are left out."""
    scan, spec = batch.scan, batch.spec
    assert scan is not None
    screen = batch.screen if screened else None
    packing = Packing(spec.input_order, batch.shards.count, batch.shards.flush_bytes, screen)
    phases = Phases()
    with phases.watching(PLACES):
        packed: list[pa.RecordBatch] = []
        with phases.phase(PACK):
            for number, task in enumerate(batch.tasks):
                packed += pack(scan.read(task), packing, number)
        envelopes = pa.Table.from_batches(packed).sort_by([("shard", "ascending"), ("origin", "ascending")])
        moved = matches = 0
        with phases.phase(UNPACK):
            for group in group_shards(unpack(envelopes.to_batches(max_chunksize=1)), GROUP_BYTES):
                tables = list(group)
                moved += sum(table.num_rows for table in tables)
                matches += sum(found.num_rows for found in shard.run_shard(spec, tables, batch.budget_bytes))
    return Stages(phases, scan.rows, moved, envelopes.nbytes, matches)
