"""Processes around a query that is measured: one that appends events at a rate, one that follows its matches.

Run as `python -m bench.live_events produce|follow '{…}'` by `bench/live.py`; both stop when the file `stop` appears.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from episode.store.catalog import Catalog
from episode.store.stream import StreamStore

KEYS = 1_000
TICK = 0.004
"""Seconds between two appends."""
POLL = 0.0005
"""Seconds between two looks for matches."""
MICROSECONDS = 1_000_000
COLUMNS = "key INT, ts TIMESTAMP, price DOUBLE, sent BIGINT"


class Walks:
    """Prices of all keys, each a random walk."""

    def __init__(self, seed: int = 1, keys: int = KEYS) -> None:
        self.draw = np.random.default_rng(seed)
        self.last = np.full(keys, 100.0)

    def events(self, ts: np.ndarray, sent: int) -> pa.Table:
        """An event at each of some times (microseconds), of random keys."""
        key = self.draw.integers(0, len(self.last), len(ts)).astype(np.int32)
        steps = np.round(self.draw.normal(0, 1, len(ts)), 2)
        order = np.argsort(key, kind="stable")
        sums = np.cumsum(steps[order])
        first = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0]) if len(ts) else np.zeros(0, np.int64)
        before = np.repeat(sums[first] - steps[order][first], np.diff(np.r_[first, len(ts)]))
        price = np.empty(len(ts))
        price[order] = self.last[key[order]] + sums - before
        self.last[key] = price  # of several events of a key the last one counts
        return pa.table(
            {
                "key": key,
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "price": np.round(price, 2),
                "sent": np.full(len(ts), sent),
            }
        )


def lines_of(table: pa.Table) -> bytes:
    """Events as lines of CSV, times in milliseconds."""
    columns = [table.column(name).to_pylist() for name in ("key", "price", "sent")]
    millis = (table.column("ts").cast(pa.int64()).to_numpy() // 1000).tolist()
    rows = zip(columns[0], millis, columns[1], columns[2])
    return "".join(f"{key},{ts},{price},{sent}\n" for key, ts, price, sent in rows).encode()


def paced(rate: float, stop: Path, least: int = 1) -> Iterator[pa.Table]:
    """The events that have become due since the last time, every few milliseconds; event time is the clock's.

    least: the least distance of two events' times, in microseconds.
    """
    walks = Walks()
    begin = time.time()
    made, last = 0, 0
    while not stop.exists():
        now = time.time()
        due = int((now - begin) * rate)
        if due > made:
            spread = (begin + np.arange(made + 1, due + 1) / rate) * MICROSECONDS
            ts = np.maximum(spread.astype(np.int64) // least * least, last)
            made, last = due, int(ts[-1])
            yield walks.events(ts, int(time.time() * MICROSECONDS))
        time.sleep(max(0.0, TICK - (time.time() - now)))


def produce(catalog: str, stream: str, rate: float, stop: str, report: str) -> None:
    """Append to a stream at a rate; the report has the seconds that appends took."""
    store = StreamStore(Catalog(catalog).find(stream))
    taken, events = [], 0
    begin = time.time()
    for table in paced(rate, Path(stop)):
        before = time.perf_counter()
        store.append(table)
        taken.append(time.perf_counter() - before)
        events += table.num_rows
    np.savez(report, appends=np.array(taken), events=events, seconds=time.time() - begin)


def follow(catalog: str, stream: str, stop: str, report: str) -> None:
    """Read a stream as it grows; the report has for each match when its last event was sent and when it was read."""
    known = Catalog(catalog)
    found = known.lookup(stream)
    while found is None and not Path(stop).exists():
        time.sleep(0.05)
        found = known.lookup(stream)
    sent, read = [], []
    if found is not None:
        store, position = StreamStore(found), 0
        while not Path(stop).exists():
            if not store.log.path(position + 1).exists():
                time.sleep(POLL)
                continue
            table, position = store.read(position, position + 1, columns=["sent"])
            sent.append(table.column("sent").to_numpy())
            read.append(np.full(table.num_rows, int(time.time() * MICROSECONDS)))
    both = [np.concatenate(values) if values else np.zeros(0, np.int64) for values in (sent, read)]
    np.savez(report, sent=both[0], read=both[1])


def main() -> None:
    which, arguments = sys.argv[1], json.loads(sys.argv[2])
    {"produce": produce, "follow": follow}[which](**arguments)


if __name__ == "__main__":
    main()
