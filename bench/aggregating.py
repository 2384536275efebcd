"""Aggregates over all matches in process, on one core: SEQ(A a, B+ b[], C c) over random events at any window.

`measure(...)` is one measurement; the script prints a few. Event time is a number, one event per unit: a window of W
has W events.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.matchers.events.aggregated import AggregatedSpec
from episode.matchers.running import LocalRun
from episode.plan.events.aggregated import plan_aggregated
from episode.plan.events.classes import EventClasses
from episode.plan.events.returns import EventTimes
from episode.plan.schema import InputSchema

TYPES = {"ts": "bigint", "type": "string", "x": "bigint"}
EVENTS = 1_000_000
RARE = {"A": 0.007, "B": 0.007, "C": 0.007}
DENSE = {"A": 1 / 3, "B": 1 / 3, "C": 1 / 3}


def events(count: int, shares: dict[str, float], seed: int = 7) -> pa.Table:
    """Events of classes with these shares, and of another one; x is uniform."""
    rng = np.random.default_rng(seed)
    names = [*shares, "D"]
    rest = max(0.0, 1.0 - sum(shares.values()))
    codes = rng.choice(len(names), count, p=[*shares.values(), rest])
    kind = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), names).cast(pa.string())
    return pa.table({"ts": np.arange(count), "type": kind, "x": rng.integers(0, 1_000_000, count)})


def spec_of(text: str, table: pa.Table, doubles: bool = False) -> AggregatedSpec:
    query = parse_event_query(text)
    classes = EventClasses(query, InputSchema(TYPES), "type")
    plan = plan_aggregated(query, classes, EventTimes("ts", None, "bigint"), doubles=doubles)
    return AggregatedSpec(plan, table.schema)


def measure(text: str, table: pa.Table, *, doubles: bool = False, repeats: int = 3) -> tuple[float, list[dict]]:
    """(least seconds of a feed of the whole table, the rows). Ordering and kernel compilation are not counted."""
    spec = spec_of(text, table, doubles)
    LocalRun(spec).feed(table.slice(0, 1000))
    best, rows = float("inf"), []
    for _ in range(repeats):
        run = LocalRun(spec)
        batch = run.events(table)
        begin = perf_counter()
        rows = run.concat(run.matcher.feed(batch, np.iinfo(np.int64).max)).to_pylist()
        best = min(best, perf_counter() - begin)
    return best, rows


def main() -> None:
    rare, dense = events(EVENTS, RARE), events(EVENTS, DENSE)
    for title, pattern, table in (
        ("count, closure, rare", "SEQ(A a, B+ b[], C c)", rare),
        ("count, single events, dense", "SEQ(A a, B b, C c)", dense),
    ):
        for window in (100, 1_000, 10_000):
            seconds, _ = measure(f"PATTERN {pattern} WITHIN {window} AGGREGATE count(*) AS trends", table)
            print(f"{title}, W = {window:>6,}: {seconds:.3f} s, {EVENTS / seconds:,.0f} events/s")
    rising = "PATTERN SEQ(A a, B+ b[], C c) WHERE b[i].x > b[i-1].x WITHIN {} AGGREGATE count(*) AS trends"
    for title, table, windows in (("dense", dense, (30, 100, 300)), ("rare", rare, (100, 1_000, 10_000))):
        for window in windows:
            seconds, _ = measure(rising.format(window), table)
            print(f"rising, {title}, W = {window:>6,}: {seconds:.3f} s, {EVENTS / seconds:,.0f} events/s")


if __name__ == "__main__":
    main()
