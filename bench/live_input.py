"""`make bench NAME=live-input`: the measurements of Lau's thesis (chapter 5) again: pull, push and adaptive input.

In process on two cores: the loop of a live task with its input thread, over a stream store whose commits become
readable at a chosen rate (`paced.py`). Rates are those of the thesis relative to what its engine could do.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np
import pyarrow as pa

from bench.figures import new_figure, put_figure
from bench.harness import Report, median, say, verdict
from bench.paced import NAME, PacedInput, stored
from episode.lang.rows.parser import parse_clause
from episode.live.input_source import open_source
from episode.live.inputs import StoreInput, StreamRead
from episode.live.protocol import Handling, TaskOptions
from episode.live.task import SWITCH_INTERVAL_S
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.stream_shard import Arrived, ShardSettings, StreamShard
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from episode.spark.startup.workers import prepare_worker
from episode.store.stream import StreamStore

PACKAGES = ("llvmlite", "numpy", "pyarrow")
TYPES = {"symbol": "int", "ts": "bigint", "price": "double"}
SCHEMA = pa.schema([("symbol", pa.int32()), ("ts", pa.int64()), ("price", pa.float64())])
KEYS = 1_000
COMMIT_ROWS = 2_048
COLUMNS = "symbol INT, ts BIGINT, price DOUBLE"
MOST_EVENTS = 8_000_000
ENDLESS = 1e12
"""A rate at which everything is there from the start."""
SECONDS = 4.0
"""How long events come, at most; at rates beyond the engine's, as many events as it can match in this time."""
FACTORS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 7.0)
"""Rates, as parts of what pull can do; the thesis has 98 to 7,793 tuples/s, and its engine 1,100 in pull mode."""
OVERLOAD = 1.5
"""From this rate on the engine is behind in every mode: there throughput and memory are compared."""
FUTURES = (1, 2, 10)
THROUGHPUT, MEMORY = 0.95, 1.2
"""Targets: of push's throughput at least, and of pull's memory at most."""

CLAUSE = """
    {partition} ORDER BY ts MEASURES MATCH_NUMBER() AS matchno AFTER MATCH SKIP {skip} ALL MATCHES
    PATTERN (A B+ C* D+)
    DEFINE B AS B.price < A.price AND B.price <= PREV(B.price),
           C AS C.price > B.price AND C.price >= PREV(C.price) AND C.price <= A.price,
           D AS D.price > PREV(D.price) AND D.price > A.price
"""
QUERIES = {
    "Q1": ("", "PAST LAST ROW"),
    "Q2": ("PARTITION BY symbol", "PAST LAST ROW"),
    "Q3": ("", "TO NEXT ROW"),
    "Q4": ("PARTITION BY symbol", "TO NEXT ROW"),
}
FIGURES = {"Q1": "5.1–5.3, 5.11–5.13", "Q2": "5.4 and 5.5", "Q3": "5.6–5.8, 5.14–5.16", "Q4": "5.9 and 5.10"}
HOW = (
    "The loop of a live task in process, on two cores, over a stream store: {commit:,} events in a commit, which "
    "become readable at the rate in question. Ways of input in turns, medians of {runs} runs; the matches are the same."
)
IN_THESIS = {"Q1": ("+100 %", "+30 %"), "Q2": ("+20 %", "+12 %"), "Q3": ("+100 %", "+20 %"), "Q4": ("+20 %", "+5 %")}
"""Table 5.1: what push has more than pull in memory and throughput."""


@dataclass(frozen=True)
class Way:
    """How events come. future: U."""

    handling: Handling
    future: int = 0

    def __str__(self) -> str:
        return self.handling if not self.future else f"adaptive, U = {self.future}"


PULL, PUSH, ADAPTIVE = Way("pull"), Way("push"), Way("adaptive")


@dataclass(frozen=True)
class Run:
    """One run, or the medians of several. held: events, on average and at most, with those that the matcher holds.
    queued: events that could be read and were not, on average. latency: seconds from readable to matched, on
    average."""

    held: float
    most: float
    queued: float
    throughput: float
    latency: float
    matches: float
    switches: float
    steps: float


def spec_of(query: str) -> RowPatternSpec:
    partition, skip = QUERIES[query]
    clause = parse_clause(CLAUSE.format(partition=partition, skip=skip))
    return RowPatternSpec(plan_row_pattern(clause, InputSchema(TYPES)), SCHEMA)


def ticks(rows: int) -> pa.Table:
    """Prices of many stocks, each a random walk in cents; all stocks together are as good as random, as in the
    thesis's data."""
    draw = np.random.default_rng(2009)
    symbol = draw.integers(0, KEYS, rows).astype(np.int32)
    moves = draw.choice([-2, -1, 0, 1, 2], rows, p=[0.1, 0.25, 0.3, 0.25, 0.1])
    order = np.argsort(symbol, kind="stable")
    walked = np.cumsum(moves[order])
    first = np.flatnonzero(np.diff(symbol[order], prepend=-1))
    before = np.repeat(walked[first] - moves[order][first], np.diff(first, append=rows))
    cents = np.empty(rows, np.int64)
    cents[order] = walked - before + draw.integers(10_000, 40_000, KEYS)[symbol[order]]
    return pa.table({"symbol": symbol, "ts": np.arange(rows), "price": cents / 100.0}, schema=SCHEMA)


SHAPE = (100.0, 99.0, 98.0, 99.0, 101.0)
"""A match of the pattern: A B B C D."""


def shaped(rows: int) -> pa.Table:
    """Prices of which most are a shape after the other, so that most windows have a match; some are random."""
    draw = np.random.default_rng(2010)
    price = np.resize(np.array(SHAPE), rows)
    wrong = np.repeat(draw.random(-(-rows // len(SHAPE))) < 0.2, len(SHAPE))[:rows]
    price[wrong] = draw.integers(9_000, 11_000, int(wrong.sum())) / 100.0
    return pa.table({"symbol": np.zeros(rows, np.int32), "ts": np.arange(rows), "price": price}, schema=SCHEMA)


# ---- one run ----------------------------------------------------------------------------------------------------


def run_once(store: StreamStore, spec: RowPatternSpec, way: Way, rate: float, commits: int) -> Run:
    """The loop of a live task, until so many commits are matched."""
    gc.collect()
    shard = StreamShard(spec, ShardSettings(late_by_last_step=True))
    reading = StreamRead(store.declaration, tuple(spec.input_columns))
    paced = PacedInput(StoreInput([reading], task=0, tasks=1), commits, COMMIT_ROWS, rate)
    source = open_source(paced, {}, TaskOptions(handling=way.handling, future=way.future), shard)
    at = matches = steps = 0
    latency = 0.0
    while at < commits:
        slice = source.next(0.05)
        if slice is None:
            continue
        arrived = Arrived(None, slice.table, slice.reached, slice.source)
        matches += sum(found.num_rows for found in shard.advance([arrived], slice.watermark))
        source.window = shard.counters.state_rows + shard.counters.waiting_events
        latency += paced.latency(at, slice.after[NAME])
        at = slice.after[NAME]
        steps += 1
    seconds = paced.now
    source.close()
    events = commits * COMMIT_ROWS
    held = source.held
    return Run(
        held.average,
        held.most,
        paced.queued / events,
        events / seconds,
        latency / events,
        matches,
        source.switches,
        steps,
    )


def in_turns(
    store: StreamStore, query: str, ways: Sequence[Way], rate: float, commits: int, options: argparse.Namespace
) -> dict[Way, Run]:
    """Medians of several runs of each way, one after the other, so that disturbances hit all alike."""
    spec = spec_of(query)
    taken: dict[Way, list[Run]] = {way: [] for way in ways}
    for _ in range(options.runs):
        for way in ways:
            taken[way].append(run_once(store, spec, way, rate, commits))
    if len({run.matches for several in taken.values() for run in several}) > 1:
        raise SystemExit(f"{query}: the ways of input have given different matches.")
    found = {way: Run(*map(median, zip(*map(astuple, several), strict=True))) for way, several in taken.items()}
    for way, run in found.items():
        say(f"{query} at {rate:,.0f}/s, {way}: {run.throughput:,.0f}/s, {run.held:,.0f} held, {run.latency:.4f} s")
    return found


# ---- the figures ------------------------------------------------------------------------------------------------

Found = dict[float, dict[Way, Run]]
"""By rate."""


def measured(store: StreamStore, query: str, commits: int, options: argparse.Namespace) -> tuple[float, Found]:
    """What pull can do, and all ways at all rates."""
    ways = (PULL, PUSH, ADAPTIVE)
    in_turns(store, query, ways, ENDLESS, min(commits, 100), argparse.Namespace(runs=1))  # not counted
    most = in_turns(store, query, [PULL], ENDLESS, commits, options)[PULL].throughput
    most = float(f"{most:.2g}")
    found = {}
    for factor in FACTORS:
        rate = factor * most
        count = min(commits, max(1, int(min(rate, most) * SECONDS * options.scale / COMMIT_ROWS)))
        found[rate] = in_turns(store, query, ways, rate, count, options)
    return most, found


def figure_of(query: str, most: float, found: Found, options: argparse.Namespace) -> None:
    """One page for each query: memory, throughput and latency by the rate."""
    page = Report(f"{options.name}-{query.lower()}", f"Input handling, Figures {FIGURES[query]}: {query}")
    partition, skip = QUERIES[query]
    page.text(
        HOW.format(runs=options.runs, commit=COMMIT_ROWS),
        f"{query}: `PATTERN (A B+ C* D+)`, {partition or 'one partition'}, AFTER MATCH SKIP {skip}, ALL MATCHES. Pull"
        f" alone matches {most:,.0f} events/s here; rates are up to {FACTORS[-1]:g} times as much.",
    )
    ways = (PULL, PUSH, ADAPTIVE)
    header = ["events/s that come", *(f"{way}: {what}" for what in ("held", "events/s", "ms") for way in ways)]
    page.table(
        header,
        [
            [
                f"{rate:,.0f}",
                *(f"{one[way].held:,.0f}" for way in ways),
                *(f"{one[way].throughput:,.0f}" for way in ways),
                *(f"{one[way].latency * 1e3:,.1f}" for way in ways),
            ]
            for rate, one in found.items()
        ],
    )
    page.text(
        "Held: events in memory on average, read and not matched or in the matcher's window. ms: from readable to "
        "matched, on average over all events. Events of adaptive handling that wait in the store, its switches, its "
        "steps and the most that was held:"
    )
    page.table(
        ["events/s that come", "in the store", "most held", "switches", "steps", "steps of push", "most held by push"],
        [
            [f"{rate:,.0f}", f"{one[ADAPTIVE].queued:,.0f}", f"{one[ADAPTIVE].most:,.0f}",
             f"{one[ADAPTIVE].switches:,.0f}", f"{one[ADAPTIVE].steps:,.0f}",
             f"{one[PUSH].steps:,.0f}", f"{one[PUSH].most:,.0f}"]
            for rate, one in found.items()
        ],
    )  # fmt: skip
    _plotted(page, ways, found, f"{query}: pull, push and adaptive input")


def _plotted(page: Report, ways: Sequence[Way], found: Found, caption: str) -> None:
    figure, axes = new_figure(3, width=4.4)
    panels = (
        ("events held", lambda run: run.held),
        ("events/s matched", lambda run: run.throughput),
        ("ms until matched", lambda run: run.latency * 1e3),
    )
    for ax, (label, value) in zip(axes, panels, strict=True):
        for way in ways:
            ax.plot([rate / 1e6 for rate in found], [value(one[way]) for one in found.values()], "o-", label=str(way))
        ax.set(xlabel="million events/s that come", ylabel=label, ylim=(0, None))
        ax.legend()
    put_figure(page, figure, caption)
    page.write(packages=PACKAGES)


def future_of(store: StreamStore, commits: int, options: argparse.Namespace) -> Found:
    """Figure 5.17: matches that are pushed ahead (U), over prices most of which are in a match."""
    ways = (PULL, PUSH, ADAPTIVE, *(Way("adaptive", future) for future in FUTURES))
    in_turns(store, "Q1", ways, ENDLESS, min(commits, 100), argparse.Namespace(runs=1))  # not counted
    most = float(f"{in_turns(store, 'Q1', [PULL], ENDLESS, commits, options)[PULL].throughput:.2g}")
    rates = [factor * most for factor in FACTORS if factor >= OVERLOAD]
    count = min(commits, max(1, int(most * SECONDS * options.scale / COMMIT_ROWS)))
    found = {rate: in_turns(store, "Q1", ways, rate, count, options) for rate in rates}
    page = Report(f"{options.name}-future", "Input handling, Figure 5.17: matches that are pushed ahead")
    page.text(
        HOW.format(runs=options.runs, commit=COMMIT_ROWS),
        "Q1 with U = 0, 1, 2, 10: where at least half of the windows have a match, so many more are pushed ahead. For "
        "this, four in five of the prices are in one. In the thesis memory grows from 7 to 34 tuples and throughput by "
        "15 % with U = 1; its tables of U = 1, 2 and 10 are the same.",
    )
    page.table(
        ["events/s that come", *(f"{way}: {what}" for what in ("held", "events/s") for way in ways)],
        [
            [
                f"{rate:,.0f}",
                *(f"{one[way].held:,.0f}" for way in ways),
                *(f"{one[way].throughput:,.0f}" for way in ways),
            ]
            for rate, one in found.items()
        ],
    )
    _plotted(page, ways, found, "Q1: U = 0, 1, 2, 10")
    return found


def summary(results: dict[str, Found], options: argparse.Namespace) -> None:
    """Table 5.1, and the targets: over all rates at which the engine is behind."""
    page = Report(options.name, "Input handling: pull, push, adaptive")
    page.text(
        HOW.format(runs=options.runs, commit=COMMIT_ROWS),
        f"Over the rates from {OVERLOAD:g} times what pull can do, medians. Pages of their own: "
        + ", ".join(f"[{query}]({options.name}-{query.lower()}.md)" for query in results)
        + f", [U]({options.name}-future.md).",
    )
    rows, targets = [], []
    for query, found in results.items():
        behind = list(found.values())[-sum(factor >= OVERLOAD for factor in FACTORS) :]
        memory = median([one[PUSH].held / one[PULL].held for one in behind])
        speed = median([one[PUSH].throughput / one[PULL].throughput for one in behind])
        rows.append([query, IN_THESIS[query][0], f"{memory - 1:+.0%}", IN_THESIS[query][1], f"{speed - 1:+.0%}"])
        near = median([one[ADAPTIVE].throughput / one[PUSH].throughput for one in behind])
        held = median([one[ADAPTIVE].held / one[PULL].held for one in behind])
        targets.append([query, f"{near:.2f}", verdict(near >= THROUGHPUT), f"{held:.2f}", verdict(held <= MEMORY)])
    page.heading("Push against pull (Table 5.1)")
    page.table(["", "memory: thesis", "here", "throughput: thesis", "here"], rows)
    page.text(
        "Push holds as much as `max_unprocessed` allows (a million events), and the rest waits in the store. In the "
        "thesis a tuple that pull does not need is routed to its partition's holder all the same, so that pull holds "
        "almost as much as push in Q2 and Q4; here all partitions of a task are matched in one step."
    )
    page.heading("Adaptive")
    page.table(
        ["", "throughput of push's", f"at least {THROUGHPUT:g}", "memory of pull's", f"at most {MEMORY:g}"], targets
    )
    page.write(packages=PACKAGES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("query", nargs="*", choices=[*QUERIES, []], help="all, if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of events, for a trial")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", default="live-input", help="begin of the reports' names")
    options = parser.parse_args()
    prepare_worker()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    rows = int(MOST_EVENTS * options.scale)
    commits = rows // COMMIT_ROWS
    results: dict[str, Found] = {}
    with (
        tempfile.TemporaryDirectory(prefix="episode-bench-") as catalog,
        tempfile.TemporaryDirectory(prefix="episode-bench-") as shapes,
    ):
        say(f"{rows:,} ticks")
        store = stored(ticks(commits * COMMIT_ROWS), COLUMNS, COMMIT_ROWS, catalog)
        for query in options.query or QUERIES:
            most, results[query] = measured(store, query, commits, options)
            figure_of(query, most, results[query], options)
            if query == "Q1":
                future_of(stored(shaped(commits * COMMIT_ROWS), COLUMNS, COMMIT_ROWS, shapes), commits, options)
    summary(results, options)


if __name__ == "__main__":
    main()
