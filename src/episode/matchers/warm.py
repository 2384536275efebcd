"""Small pieces of work that call the kernels of queries, and these kernels compiled ahead of the first query."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from episode.kernels.compiling import by_kernel, compile_calls, usual_jobs
from episode.kernels.recording import recorded_calls
from episode.kernels.stamps import empty_stale_caches, mark_ready
from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.json_columns import JsonColumns
from episode.matchers.keys import KeyCoder
from episode.matchers.ordering import events_of, times_of
from episode.matchers.protocol import InputOrder, MatcherSpec, OrderKey
from episode.matchers.running import run
from episode.matchers.slicing import Sliceable, Slicing, run_sliced

_SPREADS = (1 << 4, 1 << 12, 1 << 24, 1 << 40)
"""Of values that travel in one, two, four and eight bytes."""
_ROWS = 8


def compile_kernels_of(
    work: Callable[[], None], groups: Sequence[str], jobs: int | None, say: Callable[[str], None]
) -> None:
    """Compile the kernels that a piece of work calls, in several processes; and note that all of some groups is
    compiled. say: is called with how many kernels there are, then with the name of each that is ready."""
    with warnings.catch_warnings(), recorded_calls() as calls:
        warnings.simplefilter("ignore")  # whole numbers that overflow are meant to, and only the compiler knows
        work()
    empty_stale_caches()
    for call in calls:
        if call.arguments in call.kernel.overloads:  # compiled to be recorded, and perhaps emptied with a stale cache
            call.kernel.recompile()
    say(str(len(by_kernel(calls))))
    compile_calls(calls, usual_jobs() if jobs is None else jobs, say)
    mark_ready(groups)


def run_once(spec: MatcherSpec, table: pa.Table) -> None:
    """Run a query over a few events, in order of time: in pieces, in slices of time, and packed as workers do."""
    half = len(table) // 2
    run(spec, [table.slice(0, half), table.slice(half)])
    if isinstance(spec, Sliceable) and isinstance(spec.slicing, Slicing):
        run_sliced(spec, table, [int(np.sort(times_of(table, spec.input_order))[len(table) // 4])])
    chosen = table.select(list(spec.input_columns))
    for _, packed in unpack(pack([chosen], Packing(spec.input_order, shards=2), 0)):
        run(spec, packed)


def pack_once() -> None:
    """Pack events with columns of all kinds, also into one shard, and group and order what is unpacked."""
    plain = _events(_ROWS)
    some_null = pa.table(
        {name: plain[name] if name == "ts" else _with_nulls(plain[name]) for name in plain.schema.names}
    )
    in_order = plain.take(pa.array(np.arange(_ROWS)[::-1]))
    for key in ("word", "number", "code"):
        order = InputOrder((key,), (OrderKey("ts"),))
        for table, shards in ((plain, 1), (plain, 3), (some_null, 3), (in_order, 1)):
            for _, unpacked in unpack(pack([table], Packing(order, shards), 0)):
                events_of(unpacked, order, KeyCoder(order.keys))
            events_of(table, order, KeyCoder(order.keys))


def _events(rows: int) -> pa.Table:
    """Events, the last one first, with values of all widths."""
    places = np.arange(rows)[::-1].copy()
    columns: dict[str, pa.Array] = {
        "word": pa.array([f"w{place % 3}" for place in places]),
        "number": pa.array(places % 3),
        "code": pa.array([f"c{place % 2}" for place in places]).dictionary_encode(),
        "ts": pa.array(places * 1_000_000, pa.timestamp("us", "UTC")),
        "truth": pa.array(places % 2 == 0),
        "real": pa.array(np.sqrt(places + 2.0)),
        "price": pa.array(places / 4.0),
        "small": pa.array(places, pa.int32()),
    }
    for spread in _SPREADS:
        columns[f"to_{spread}"] = pa.array(places * (spread // rows))
    return pa.table(columns)


def _with_nulls(column: pa.ChunkedArray) -> pa.Array:
    values = [value if row % 2 else None for row, value in enumerate(column.to_pylist())]
    return pa.array(values, column.type)


def read_records_once() -> None:
    """Read records of JSON, as live tasks do from Kafka."""
    schema = pa.schema([("k", pa.string()), ("ts", pa.timestamp("us", "UTC")), ("v", pa.float64())])
    JsonColumns(schema).read([b'{"k": "a", "ts": "2026-11-01T00:00:00Z", "v": 1.5}', None])
