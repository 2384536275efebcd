"""Compile the kernels for this machine ahead of the first query; they are cached on disk from then on."""

from __future__ import annotations

import pyarrow as pa

from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.json_columns import JsonColumns
from episode.matchers.protocol import InputOrder, MatcherSpec
from episode.matchers.running import run


def run_once(spec: MatcherSpec, table: pa.Table) -> None:
    """Run a query over a few events, in order of time: in pieces, and packed as workers do."""
    half = len(table) // 2
    run(spec, [table.slice(0, half), table.slice(half)])
    chosen = table.select(list(spec.input_columns))
    for _, packed in unpack(pack([chosen], Packing(spec.input_order, shards=2), 0)):
        run(spec, packed)
    names = pa.table({"k": ["a", "b"]})
    list(pack([names], Packing(InputOrder(("k",), ()), shards=2), 0))


def read_records_once() -> None:
    """Read records of JSON, as live tasks do from Kafka."""
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())])
    JsonColumns(schema).read([b'{"k": "a", "ts": "2026-11-01T00:00:00Z", "v": 1.5}', None])
