"""Imprecise time: SEQ(A a, B+ b[], C c) over uncertainty intervals of U points (SASE++, figures 5(a) and 5(b)).

One event per unit of time, an interval of U points around it. About `chosen` events of each class pass their predicate
in a window, however long it is: the paper controls the number of matches with value predicates in the same way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.lang.events.parser import parse_event_query
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import LocalRun
from episode.plan.events.classes import EventClasses
from episode.plan.events.plan import plan_event_pattern
from episode.plan.events.returns import EventTimes, Imprecision
from episode.plan.schema import InputSchema

TYPES = {"lo": "bigint", "hi": "bigint", "type": "string", "v": "double", "w": "double"}
WINDOWS = (100, 300, 1_000, 3_000, 10_000, 30_000)
THRESHOLDS = (0.0, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Measured:
    """events_per_second: of the second of two runs, without planning."""

    window: int
    threshold: float
    correlated: bool
    events: int
    matches: int
    seconds: float

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


def imprecise_events(count: int, points: int, window: int, chosen: float = 5.0, seed: int = 7) -> pa.Table:
    """A third of the events each are A, B and C. v: negative for about `chosen` of each class in a window."""
    random = np.random.default_rng(seed)
    lo = np.arange(count, dtype=np.int64) + random.integers(0, points, count) - points
    few = random.random(count) < min(1.0, chosen / (window / 3))
    v = np.where(few, -1.0, 1.0)
    kinds = pa.array(np.array(["A", "B", "C"])[random.integers(0, 3, count)])
    return pa.table({"lo": lo, "hi": lo + points - 1, "type": kinds, "v": v, "w": random.random(count)})


def imprecise_spec(window: int, threshold: float, schema: pa.Schema, correlated: bool = False) -> EventPatternSpec:
    """correlated: the events of the closure come in order (of w), else they are a set."""
    confidence = f" CONFIDENCE >= {threshold}" if threshold > 0 else ""
    ordered = " AND b[i].w >= b[i-1].w" if correlated else ""
    query = parse_event_query(
        f"PATTERN SEQ(A a, B+ b[], C c) WHERE a.v < 0 AND b[i].v < 0 AND c.v < 0{ordered} "
        f"WITHIN {window}{confidence} RETURN a.w, count(b[]) AS n"
    )
    classes = EventClasses(query, InputSchema(TYPES), "type")
    plan = plan_event_pattern(query, classes, EventTimes("hi", "lo", "bigint", Imprecision(1, None, 1_000)))
    return EventPatternSpec(plan, schema, step_budget=1 << 40)


def measure(
    window: int, threshold: float, *, count: int = 100_000, points: int = 10, correlated: bool = False, runs: int = 2
) -> Measured:
    """The last of some runs over the same events."""
    table = imprecise_events(count, points, window)
    spec = imprecise_spec(window, threshold, table.schema, correlated)
    seconds, matches = 0.0, 0
    for _ in range(runs):
        running = LocalRun(spec)
        events = running.events(table)
        begin = time.perf_counter()
        matches = sum(found.num_rows for found in running.matcher.feed(events, int(events.time.max())))
        seconds = time.perf_counter() - begin
    return Measured(window, threshold, correlated, count, matches, seconds)


def main() -> None:
    print("| window | threshold | closure | matches | events/s |")
    print("| ---: | ---: | --- | ---: | ---: |")
    for correlated in (False, True):
        for window in WINDOWS:
            for threshold in THRESHOLDS:
                one = measure(window, threshold, correlated=correlated)
                kind = "in order" if correlated else "a set"
                print(f"| {window:,} | {threshold} | {kind} | {one.matches:,} | {one.events_per_second:,.0f} |")


if __name__ == "__main__":
    main()
