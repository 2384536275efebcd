"""`make bench NAME=kernel`: the matcher alone on one core: preparing, matching, assembling; what the hardware allows.

The ticks are cut into shards of whole keys, as the workers see them. The clock counts the seconds that the core worked
for this process, so that other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from bench.feeding import Clock, one_core
from bench.harness import Report, median, millions, say, verdict
from bench.queries import RARE, TICK, TICK_MAXIMAL
from bench.ticks import SCHEMA, ticks
from episode.lang.rows.parser import parse_clause
from episode.matchers import assembly
from episode.matchers.code import measures as measure_code
from episode.matchers.protocol import END_OF_TIME, EventBatch
from episode.matchers.rows import matcher as row_pattern
from episode.matchers.rows.code.row_code import RowCode
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import LocalRun
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema

ROWS, KEYS, SHARDS, RUNS = 20_000_000, 1_000, 32, 5
AT_LEAST, AT_LEAST_RARE = 15e6, 40e6
STEPS = ("order", "prepare", "kernel", "assemble", "rest")
PACKAGES = ("llvmlite", "numpy", "pyarrow")


@contextmanager
def clocked() -> Iterator[Clock]:
    """The matcher with a clock in its steps."""
    clock = Clock.of(*STEPS)
    kept = row_pattern.prepare, RowCode.run, measure_code.output_rows, assembly.OutputAssembler
    row_pattern.prepare = clock.timed("prepare", kept[0])
    RowCode.run = clock.timed("kernel", kept[1])  # type: ignore[method-assign]
    measure_code.output_rows = clock.timed("assemble", kept[2])

    class Assembler(kept[3]):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            clock.timed("assemble", super().__init__)(*arguments, **options)

        def table_of_matches(self) -> pa.Table:
            return clock.timed("assemble", super().table_of_matches)()

    assembly.OutputAssembler = Assembler
    try:
        yield clock
    finally:
        row_pattern.prepare, RowCode.run, measure_code.output_rows, assembly.OutputAssembler = kept


def spec_of(clause: str) -> RowPatternSpec:
    plan = plan_row_pattern(parse_clause(clause), InputSchema({"key": "int", "ts": "timestamp", "price": "double"}))
    return RowPatternSpec(plan, SCHEMA)


def shards_of(path: Path, shards: int) -> list[pa.Table]:
    """The ticks by shard, in order of arrival."""
    table = pq.read_table(path)
    number = table.column("key").to_numpy() % shards
    return [table.filter(pa.array(number == shard)).combine_chunks() for shard in range(shards)]


def run(spec: RowPatternSpec, shards: list[pa.Table]) -> tuple[dict[str, float], int]:
    """Seconds by step and the number of matches, every shard ordered and matched after the other."""
    matches = 0
    with clocked() as clock:
        for shard in shards:
            running = LocalRun(spec)
            events: EventBatch = clock.timed("order", running.events)(shard)
            inside = sum(clock.seconds.values())
            begin = time.process_time()
            matches += sum(table.num_rows for table in running.matcher.feed(events, END_OF_TIME))
            total = time.process_time() - begin
            clock.seconds["rest"] += total - (sum(clock.seconds.values()) - inside)
    return clock.seconds, matches


# ---- what the hardware allows ----------------------------------------------------------------------


@njit(cache=True)
def by_hand(key: np.ndarray, price: np.ndarray, out_start: np.ndarray, out_end: np.ndarray) -> int:
    """The tick query and nothing else: first and last rows of the matches."""
    found = 0
    n = len(key)
    for start in range(n - 2):
        at = start + 1
        initial = price[start]
        if key[at] != key[start] or not price[at] < initial:
            continue
        own = key[start]
        at += 1
        while at < n and key[at] == own and price[at] < price[at - 1]:
            at += 1
        while at < n and key[at] == own and price[at] >= price[at - 1] and price[at] <= initial:
            at += 1
        begin = at
        while at < n and key[at] == own and price[at] > price[at - 1] and price[at] > initial:
            at += 1
        if at > begin:
            out_start[found] = start
            out_end[found] = at - 1
            found += 1
    return found


@njit(cache=True)
def sum_of(values: np.ndarray) -> float:
    """A pass over memory; four sums, so that the additions do not wait for each other."""
    a = b = c = d = 0.0
    for i in range(0, len(values) - 3, 4):
        a += values[i]
        b += values[i + 1]
        c += values[i + 2]
        d += values[i + 3]
    return a + b + c + d


def hand_seconds(events: list[EventBatch]) -> tuple[float, int]:
    seconds, matches = 0.0, 0
    for shard in events:
        price = shard.table.column("price").chunk(0).to_numpy()
        out = np.empty(len(shard), np.int64), np.empty(len(shard), np.int64)
        begin = time.process_time()
        matches += by_hand(shard.key, price, *out)
        seconds += time.process_time() - begin
    return seconds, matches


def bandwidth(runs: int) -> float:
    """Bytes read from memory in a second, by one core."""
    values = np.ones(64_000_000)
    sum_of(values)
    taken = []
    for _ in range(runs):
        begin = time.process_time()
        sum_of(values)
        taken.append(time.process_time() - begin)
    return values.nbytes / median(taken)


# ---- the report ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """Medians by step of one query."""

    name: str
    seconds: dict[str, float]
    matches: int


def measure(name: str, clause: str, shards: list[pa.Table], runs: int) -> Measured:
    spec = spec_of(clause)
    run(spec, shards[:1])
    taken = []
    for _ in range(runs):
        seconds, matches = run(spec, shards)
        say(f"{name}: " + ", ".join(f"{step} {value:.2f} s" for step, value in seconds.items()))
        taken.append(seconds)
    return Measured(name, {step: median([seconds[step] for seconds in taken]) for step in STEPS}, matches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="kernel", help="of the report")
    arguments = parser.parse_args()
    path = ticks(arguments.rows, KEYS)
    one_core()
    shards = shards_of(path, SHARDS)
    say(f"{arguments.rows:,} rows in {SHARDS} shards, one core")
    tick = measure("tick", TICK, shards, arguments.runs)
    maximal = measure("tick, MAXIMAL MATCH", TICK_MAXIMAL, shards, arguments.runs)
    rare = measure("rare starts", RARE, shards, arguments.runs)
    events = [LocalRun(spec_of(TICK)).events(shard) for shard in shards]
    hand_seconds(events)
    hand = [hand_seconds(events) for _ in range(arguments.runs)]
    speed = bandwidth(arguments.runs)
    if not hand[0][1] == tick.matches == maximal.matches:
        raise SystemExit(f"by hand: {hand[0][1]:,} matches; episode: {tick.matches:,}, maximal {maximal.matches:,}")
    report(arguments, [tick, maximal, rare], median([seconds for seconds, _ in hand]), speed)


def report(arguments: argparse.Namespace, measured: list[Measured], hand: float, speed: float) -> None:
    rows = arguments.rows
    tick, _, rare = measured
    rates = {m.name: rows / m.seconds["kernel"] for m in measured}
    page = Report(arguments.name, "The matcher on one core")
    page.text(
        f"{rows:,} ticks of {KEYS:,} keys in {SHARDS} shards, in memory; seconds of one core; medians of "
        f"{arguments.runs} runs after a discarded one.",
        "* *tick*: `A B+ C* D+` of the PCQ paper's Figure 2, tried from every row; *MAXIMAL MATCH* as the paper "
        "prints it.\n* *rare starts*: `A B+ C+`, all conditions row-local, one row in a hundred fits A.",
    )
    page.heading("Targets")
    with_conditions = rows / (rare.seconds["kernel"] + rare.seconds["prepare"])
    page.table(
        ["measure", "rows/s", "target", ""],
        [
            [
                "kernel, tick",
                millions(rates[tick.name]),
                f"≥ {millions(AT_LEAST)}",
                verdict(rates[tick.name] >= AT_LEAST),
            ],
            [
                "kernel, rare starts",
                millions(rates[rare.name]),
                f"≥ {millions(AT_LEAST_RARE)}",
                verdict(rates[rare.name] >= AT_LEAST_RARE),
            ],
            [
                "the same, with preparing (the row-local conditions)",
                millions(with_conditions),
                f"≥ {millions(AT_LEAST_RARE)}",
                verdict(with_conditions >= AT_LEAST_RARE),
            ],
        ],
    )
    page.heading("Where the time goes")
    page.text(
        "Seconds, and nanoseconds for each row. *order*: grouping by key and ordering; *prepare*: columns as lanes, "
        "row-local conditions as bits; *assemble*: the output table."
    )
    page.table(
        ["query", "matches", *STEPS, "all", "all, rows/s"],
        [
            [
                m.name,
                f"{m.matches:,}",
                *(f"{m.seconds[step]:.2f} s ({m.seconds[step] / rows * 1e9:.1f} ns)" for step in STEPS),
                f"{sum(m.seconds.values()):.2f} s",
                millions(rows / sum(m.seconds.values())),
            ]
            for m in measured
        ],
    )
    page.heading("What the hardware allows")
    least_bytes = 8 + 8
    bound = speed / least_bytes
    page.table(
        ["bound", "rows/s", "the kernel on tick reaches"],
        [
            ["kernel, tick", millions(rates[tick.name]), ""],
            [
                "a loop written by hand for this pattern alone (numba; key and price only)",
                millions(rows / hand),
                f"{rates[tick.name] * hand / rows:.0%}",
            ],
            [
                f"memory: {speed / 1e9:.1f} GB/s read by one core, {least_bytes} bytes a row (bits, price)",
                millions(bound),
                f"{rates[tick.name] / bound:.0%}",
            ],
        ],
    )
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
