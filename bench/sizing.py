"""`make bench NAME=sizing`: what `episode size` predicts, against runs. `python -m bench.sizing calibrate`: constants.

Constants come from small runs of other queries than those that are predicted: one without matches, one with very many,
tasks that do nothing; and from the parts of the work in this process. What is predicted is then run: the tick query and
an event pattern, 5 to 40 million rows, on one and on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cars import aggressive_drivers, cars, thresholds
from bench.harness import ROOT, Report, say, verdict
from bench.live import QUERY as LIVE_QUERY
from bench.live_events import Walks
from bench.queries import TICK, select
from bench.simulated_cluster import (
    Cluster,
    Faults,
    Load,
    live_costs,
    micro_batch_costs,
    simulate_live,
    simulate_micro_batches,
)
from bench.sizing_runs import (
    EVENT,
    FEW_ROWS,
    FEW_TASKS,
    KEYS,
    LIVE_RATE,
    MANY,
    MANY_TASKS,
    NONE,
    QUERIES,
    SCREENED,
    STREAM_SIZES,
    WIDE,
    wide,
)
from bench.stream import BEGIN, PRICE_FALL
from bench.ticks import ticks
from episode.queries.language import Given
from episode.sizing import measuring as calibrating
from episode.sizing.constants import STORED, UNITS, Constants, MeasuredConstant, load_constants
from episode.sizing.measuring import measure_query, snapshot_cost
from episode.sizing.model import contention_at, live_tasks, micro_batch_work, micro_batches, predict_batch, work_of
from episode.sizing.profile import QueryProfile, assumed_profile, bind_to, read_pattern

CALIBRATION_SIZES, SAMPLE_ROWS = (2_500_000, 10_000_000), 1_250_000
SIZES, RUNS = (5_000_000, 10_000_000, 20_000_000, 40_000_000), (3, 3, 3, 3)
MICRO_SIZES = (200_000, 2_000_000)
WITHIN, QUIET = 0.20, 1.0
HOLD = """\
SELECT * FROM ticks MATCH_RECOGNIZE (
  PARTITION BY key ORDER BY ts MEASURES A.price AS p
  PATTERN (A B*? C) WITHIN 10 minutes DEFINE C AS C.price < -1000)"""
"""Every row waits for its whole window."""
SIMULATED_RATES, SIMULATED_KEYS, SIMULATED_SECONDS, NODE_CORES = (1e5, 1e6, 1e7), 1_000_000, 300.0, 4
SCENARIOS = (
    ("all well", Faults(), 0.0),
    ("stragglers", Faults(stragglers=0.05), 0.0),
    ("lost", Faults(lost=(60.0,)), 0.0),
    ("busiest key 1%", Faults(), 0.01),
    ("busiest key 20%", Faults(), 0.2),
)
COMMAND = "python -m bench.sizing calibrate"
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
NANO = 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["check", "calibrate", "simulate"], default="check")
    parser.add_argument("--scale", type=float, default=1.0, help="of all row counts, for a trial")
    parser.add_argument("--runs", type=int, default=3, help="of the calibration")
    parser.add_argument("--name", default="sizing", help="of the report")
    arguments = parser.parse_args()
    if arguments.what == "calibrate":
        found = calibrate(arguments.scale, arguments.runs)
        STORED.write_text(found.to_json(), encoding="utf-8")
        say(f"written: {STORED.relative_to(ROOT)}")
        simulate()
    elif arguments.what == "simulate":
        simulate()
    else:
        check(arguments)


def on_spark(what: str, cores: int, **given: Any) -> dict[str, Any]:
    """What a session of its own measures."""
    command = [sys.executable, "-m", "bench.sizing_runs", what, str(cores), json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


# ---- in process ----------------------------------------------------------------------------------------------


def sample(rows: int) -> pa.Table:
    """The first ticks of the smallest set."""
    return pq.read_table(sorted(ticks(rows, KEYS).glob("*.parquet"))[0]).slice(0, SAMPLE_ROWS)


def profile_of(text: str, table: pa.Table, given: Given | None = None, window: float | None = None) -> QueryProfile:
    query = read_pattern(text)
    found = measure_query(bind_to(query, table, given or Given()), query.language.name, "bench", window)
    say(
        f"{query.language.name}: scan {found.scan:.1f}, pack {found.pack:.1f}, order {found.order:.1f}, "
        f"match {found.match:.1f} ns a row; {found.passing:.2f} pass, {found.matches:.3f} matches"
    )
    return found


def price_falls(rows: int) -> pa.Table:
    """Events like those of the streams that are measured."""
    ts = BEGIN + np.arange(rows) * 10
    return Walks().events(ts, 0)


# ---- calibrating ---------------------------------------------------------------------------------------------


def calibrate(scale: float, runs: int) -> Constants:
    machine, today = calibrating.machine_name(), date.today().isoformat()
    sizes = [int(rows * scale) for rows in CALIBRATION_SIZES]
    for rows in (FEW_ROWS, *sizes):
        ticks(rows, KEYS)
    wide(sizes[1])
    own = in_process(sizes[0])
    two = on_spark("calibrate", 2, sizes=sizes, runs=runs, streams=True)
    one = on_spark("calibrate", 1, sizes=sizes, runs=runs, streams=False)
    known: dict[str, MeasuredConstant] = {}

    def put(name: str, value: float, how: str) -> None:
        unit = UNITS.get(name, "ns/row")
        known[name] = MeasuredConstant(float(f"{max(0.0, value):.4g}"), unit, how, machine, today)

    for name, (value, how) in {**own, **fitted(own, two, one, sizes)}.items():
        put(name, value, how if how.startswith("assumed") else f"{COMMAND}: {how}")
    return Constants(known)


Found = dict[str, tuple[float, str]]


def in_process(rows: int) -> Found:
    """Parts that need no Spark."""
    table = sample(rows)
    tick, hold = profile_of(select(TICK), table), profile_of(HOLD, table)
    event = profile_of(EVENT, table)
    driving = next(iter(cars(SAMPLE_ROWS)))
    situation = profile_of(aggressive_drivers(thresholds(driving)), driving, Given(time="ts", key=("car_id",)))
    here = f"in process, {table.num_rows:,} ticks"
    reference = calibrating.part_costs(calibrating.reference())
    return {
        "scan": (tick.scan / tick.row_bytes, f"{here}, read from Parquet"),
        "pack": (tick.pack, here),
        "order": (tick.order, f"{here}, opened and ordered"),
        "match_rows": (tick.match, f"{here}, the tick query"),
        "match_events": (event.match, f"{here}, a sequence of two (bench/sizing_runs.py, EVENT)"),
        "match_situations": (
            situation.match,
            f"in process, {driving.num_rows:,} reports of cars, TPStream's Listing 1",
        ),
        "row_bytes": (tick.row_bytes, "of a tick in Arrow: int, timestamp, double"),
        "envelope_bytes": (tick.envelope_bytes, f"{here}, packed"),
        "wire_share": (tick.wire_share, f"{here}, packed, LZ4"),
        "matches": (tick.matches, f"{here}, the tick query"),
        "state_bytes": (hold.held.bytes, f"{here}, every row held for its window: bytes of a snapshot"),
        "snapshot": (snapshot_cost(bind_to(read_pattern(HOLD), table, Given())), f"{here}, the same snapshot"),
        "contention": (
            calibrating.contention(),
            "the work of episode size --calibrate, alone and on all cores at once",
        ),
        **{name: (value, "the work of episode size --calibrate") for name, value in reference.items()},
    }


def fitted(own: Found, two: dict[str, Any], one: dict[str, Any], sizes: list[int]) -> Found:
    """Spark's own parts: what runs take beyond the parts in process, cores' seconds unless said otherwise."""
    table = sample(sizes[0])
    slower = own["contention"][0]
    none, many = profile_of(NONE, table), profile_of(MANY, table)
    clock, cores = line_of(two, sizes, 0), line_of(two, sizes, 1)
    screened = profile_of(SCREENED, table)
    of_row = max(0.0, line_of(two, sizes, 1, "screened")[1] * NANO / slower - screened.scan - screened.pack)
    wider = profile_of(WIDE, pq.read_table(sorted(wide(sizes[1]).glob("*.parquet"))[0]).slice(0, SAMPLE_ROWS))
    rest = max(0.0, cores[1] * NANO / slower - of_row - in_a_batch(none))
    more_of_wide = (two["wide"][1] - two[f"none|{sizes[1]}"][1]) / sizes[1] * NANO / slower
    more_bytes = wider.envelope_bytes - none.envelope_bytes
    transport = max(0.0, more_of_wide - (in_a_batch(wider) - in_a_batch(none))) / more_bytes
    transport = min(transport, rest / none.envelope_bytes)
    alone_clock, alone_cores = line_of(one, sizes, 0), line_of(one, sizes, 1)
    least = two[f"none|{sizes[0]}"][1]
    further = sizes[1] - FEW_ROWS
    of_spark = NANO / slower / (many.matches * further)
    more = (many.match - none.match) * further / NANO * slower
    grown = {what: two[f"{what}|{sizes[1]}"][1] - two[f"{what}|{FEW_ROWS}"][1] for what in ("none", "many", "written")}
    task = (two[f"tasks|{MANY_TASKS}"][0] - two[f"tasks|{FEW_TASKS}"][0]) / (MANY_TASKS - FEW_TASKS) * 2
    jvm = (two["through"][1] - least) / sizes[0] * NANO / slower
    dispatch = 0.0005
    launched = 2 * 4 * (dispatch + task / 2)
    on_two = f"local[2], {sizes[0]:,} and {sizes[1]:,} ticks without a match, to noop"
    found: Found = {
        "spark_row": (
            of_row,
            "local[2], ticks of which none passes the screen: cores' seconds by the row, less reading and screening",
        ),
        "transport": (transport, f"local[2], {sizes[1]:,} ticks with two more columns against those without"),
        "moved_row": (
            rest - transport * none.envelope_bytes,
            f"{on_two}: cores' seconds by the row, less the parts in process and the bytes moved",
        ),
        "hand_over": (
            (grown["many"] - grown["none"] - more) * of_spark,
            "local[2], a match for every two rows against none, to noop, less the matching in process",
        ),
        "write": ((grown["written"] - grown["many"]) * of_spark, "the same, written as Parquet against noop"),
        "commit": (
            two[f"written|{FEW_ROWS}"][0] - two[f"many|{FEW_ROWS}"][0],
            f"the same with {FEW_ROWS:,} rows: what is left of writing without rows, by the clock",
        ),
        "query_cores": (
            cores[0] + two[f"written|{FEW_ROWS}"][1] - two[f"many|{FEW_ROWS}"][1],
            f"{on_two} and {FEW_ROWS:,}: where the straight line begins, cores' seconds; and those of committing",
        ),
        "jvm_row": (jvm, "local[2], rows through Spark against a direct scan"),
        "session": (two["session"], "local[2], from nothing to the first job done, by the clock"),
        "query": (max(0.05, clock[0] - launched), f"{on_two} and 20,000: where the straight line begins, by the clock"),
        "task": (task, f"{MANY_TASKS} and {FEW_TASKS} tasks that do nothing, local[2], by the clock"),
        "dispatch": (dispatch, "assumed: what the driver takes for a task, one after the other"),
        "busy_slot": (
            alone_cores[1] / alone_clock[1],
            "local[1] on two cores, the same runs: cores' seconds by the row against the clock's",
        ),
        "worker": (
            max(0.0, two["worker"] - 4 * 16 * 2**20),
            "the largest worker of these runs, less four groups of 16 MiB",
        ),
        "worker_factor": (4.0, "assumed: arrays of a shard while it is ordered (src/episode/matchers/shard.py)"),
        "state_factor": (2.0, "assumed: held rows as arrays, and once more as a snapshot or in RocksDB's memory"),
        "heap": (2.0**30, "assumed: of an executor, whatever its cores"),
        "heap_core": (2.0**29, "assumed: for each core of an executor"),
        "network": (1.25e9, "assumed: 10 Gbit/s for each executor"),
        "restart": (10.0, "assumed: a task of a lost executor begins again and loads its state"),
    }
    return {**found, **of_streams(own, two, found)}


def in_a_batch(profile: QueryProfile) -> float:
    """The parts in process of a query all of whose rows are moved."""
    return profile.scan + profile.pack + profile.order + profile.match


def of_streams(own: Found, two: dict[str, Any], found: Found) -> Found:
    slower = own["contention"][0]
    fall = profile_of(PRICE_FALL.format(window="1 minute"), price_falls(500_000).drop_columns(["sent"]))
    small, large = (two["micro"][str(rows)] for rows in STREAM_SIZES)
    each = (large - small) / (STREAM_SIZES[1] - STREAM_SIZES[0])
    of_batch = (
        fall.scan + found["spark_row"][0] + found["jvm_row"][0] + fall.pack
        + found["moved_row"][0] + fall.envelope_bytes * found["transport"][0] + fall.order + fall.match
        + fall.matches * (found["hand_over"][0] + found["write"][0])
    )  # fmt: skip
    read = profile_of(LIVE_QUERY.replace("PARTITION BY key", "PARTITION BY key ORDER BY ts"), price_falls(500_000))
    live = 2 / two["live"]["rate"] * NANO / slower
    sizes = " and ".join(f"{rows:,}" for rows in STREAM_SIZES)
    return {
        "batch_floor": (
            small - each * STREAM_SIZES[0],
            f"micro-batches of {sizes} events, local[2]: where the line begins",
        ),
        "batch_event": (
            each * 2 * NANO / slower - of_batch,
            "the same: core seconds by the event, less the parts that a batch has, too",
        ),
        "live_event": (live - read.order - read.match, "two live tasks over a backlog, less ordering and matching"),
        "live_median": (two["live"]["median"], f"one live task, {LIVE_RATE:,} events/s: from append to match, 50%"),
        "live_99": (two["live"]["most"], "the same, 99%"),
    }


def line_of(found: dict[str, Any], sizes: list[int], which: int, what: str = "none") -> tuple[float, float]:
    """(where it begins, by the row) of the straight line through runs of a query. which: the clock, or cores."""
    rows = [FEW_ROWS, *sizes]
    slope, begin = np.polyfit(rows, [found[f"{what}|{n}"][which] for n in rows], 1)
    return float(begin), float(slope)


# ---- a simulated cluster -----------------------------------------------------------------------------------------


def simulate() -> None:
    """What the simulated cluster does, as a page and as the pictures of docs/scale.md."""
    runpy.run_path(str(ROOT / "docs" / "images" / "draw_scale.py"))["main"]()
    constants = load_constants()
    query = assumed_profile("row pattern", constants, "the tick query")
    page = Report("scale", "A simulated cluster")
    page.text(
        "Nothing here was run on a cluster: `bench/simulated_cluster.py`, with the stored constants "
        f"({constants.date}, {constants.machine}), the tick query over {SIMULATED_KEYS:,} keys, nodes of "
        f"{NODE_CORES} cores, as many as `episode size` asks for (two at least), {SIMULATED_SECONDS:.0f} s. "
        "*stragglers*: one task in twenty takes four times as long. *lost*: a node is lost after a minute and is back "
        "30 s later; live tasks replay what came since their last checkpoint, every 10 s. *busiest key*: one key has "
        "this share of all events.",
    )
    lines = []
    for rate in SIMULATED_RATES:
        needed = (
            ("micro-batches", micro_batches(rate, SIMULATED_KEYS, query, constants).cores),
            ("live tasks", live_tasks(rate, SIMULATED_KEYS, query, constants).cores),
        )
        for kind, cores in needed:
            cluster = Cluster(max(2, -(-cores // NODE_CORES)), NODE_CORES)
            for name, faults, hottest in SCENARIOS:
                load = Load(rate, SIMULATED_SECONDS, SIMULATED_KEYS, hottest)
                if kind == "micro-batches":
                    found = simulate_micro_batches(
                        cluster, load, micro_batch_costs(query, constants, cluster.slots), faults
                    )
                else:
                    found = simulate_live(cluster, load, live_costs(query, constants), faults)
                recovery = found.recovery(faults.lost[0], 0.1) if faults.lost else None
                lines.append(
                    [
                        f"{rate:,.0f}", kind, f"{cluster.nodes} × {cluster.cores}", name, f"{found.throughput:,.0f}",
                        f"{found.busy:.0%}", *(_seconds(found.at(quantile)) for quantile in (0.5, 0.9, 0.99)),
                        f"{found.backlog[-1]:,.0f}", "" if recovery is None else _seconds(recovery),
                    ]
                )  # fmt: skip
    page.table(
        ["events/s", "way", "nodes × cores", "scenario", "throughput", "busy", "50%", "90%", "99%",
         "backlog in the end", "recovered after"],
        lines,
    )  # fmt: skip
    page.write(packages=("numpy",))


def _seconds(value: float) -> str:
    if not np.isfinite(value):
        return "not"
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


# ---- checking ------------------------------------------------------------------------------------------------


def check(arguments: argparse.Namespace) -> None:
    constants = load_constants()
    before = os.getloadavg()[0]
    sizes = [max(100_000, int(rows * arguments.scale)) for rows in SIZES]
    micro = [int(rows * arguments.scale) for rows in MICRO_SIZES]
    for rows in sizes:
        ticks(rows, KEYS)
    table = sample(sizes[0])
    profiles = {name: profile_of(text, table) for name, text in QUERIES.items()}
    fall = profile_of(PRICE_FALL.format(window="1 minute"), price_falls(500_000).drop_columns(["sent"]))
    taken = {
        cores: on_spark("check", cores, sizes=sizes, runs=list(RUNS), micro=micro if cores == 2 else [])
        for cores in (2, 1)
    }
    report(arguments.name, constants, profiles, fall, taken, sizes, before)


def report(
    name: str,
    constants: Constants,
    profiles: dict[str, QueryProfile],
    fall: QueryProfile,
    taken: dict[int, dict[str, Any]],
    sizes: list[int],
    load: float,
) -> None:
    page = Report(name, "Sizing: predictions against runs")
    page.text(
        "`episode size` predicts from constants that were measured by other, smaller runs (`python -m bench.sizing "
        f"calibrate`, {constants.date}, {constants.machine}), and from a profile of the query on "
        f"{SAMPLE_ROWS:,} rows in process. Here its predictions are held against runs: ticks of {KEYS:,} keys from "
        "Parquet to written Parquet, a warm session; medians.",
        "* *row pattern*: the tick query, `A B+ C* D+` from every row.\n* *event pattern*: "
        f"`{' '.join(EVENT.splitlines()[1:])}`",
    )
    if load > QUIET:
        page.text(
            f"**Other work ran on the machine** (load average {load:.1f} before the first run): times by the clock say "
            "nothing about the model then; cores' seconds say a little, and are longer, too, as caches are shared."
        )
    errors = []
    for query, profile in profiles.items():
        page.heading(query.capitalize())
        work = work_of(profile, constants)
        lines = []
        for cores in sorted(taken):
            for rows in sizes:
                wall, busy = taken[cores]["batch"][f"{query}|{rows}"]
                run = predict_batch(
                    rows, work, constants, cores, row_bytes=profile.row_bytes, keys=KEYS, cores=os.cpu_count() or cores
                )
                error = run.seconds / wall - 1
                errors.append(abs(error))
                lines.append(
                    [
                        f"local[{cores}]", f"{rows:,}", f"{wall:.2f} s", f"{run.seconds:.2f} s", f"{error:+.0%}",
                        f"{busy:.1f} s", f"{run.core_seconds:.1f} s", f"{run.core_seconds / busy - 1:+.0%}",
                        verdict(abs(error) <= WITHIN),
                    ]
                )  # fmt: skip
        page.table(
            [
                "cores",
                "rows",
                "time",
                "predicted",
                "error",
                "cores' seconds",
                "predicted",
                "error",
                f"time within {WITHIN:.0%}",
            ],
            lines,
        )
        parts = ", ".join(f"{part} {value:.1f}" for part, value in work.parts.items())
        page.text(f"Predicted ns of a core for each row: {parts}; all {work.total:.1f}.")
    page.heading("Micro-batches")
    page.text(
        "Price falls (`A B{3,} C`, WITHIN 1 minute), local[2], from files to noop; medians. Predicted: fixed costs and "
        "the work of the events on two cores. Simulated: a cluster of one node with two cores, at the rate at which "
        "micro-batches of this size follow each other."
    )
    lines = []
    each = micro_batch_work(fall, constants).total * contention_at(2, 2, constants) / NANO
    costs = micro_batch_costs(fall, constants, 2)
    for text, length in taken[2]["micro"].items():
        events = int(text)
        predicted = costs.fixed + events * each / 2
        simulated = simulate_micro_batches(Cluster(1, 2), Load(events / length, 60 * length, KEYS), costs)
        lines.append(
            [
                f"{events:,}", f"{length:.2f} s", f"{predicted:.2f} s", f"{predicted / length - 1:+.0%}",
                f"{float(np.median(simulated.lengths[-10:])):.2f} s", verdict(abs(predicted / length - 1) <= WITHIN),
            ]
        )  # fmt: skip
    page.table(["events", "measured", "predicted", "error", "simulated at this rate", f"within {WITHIN:.0%}"], lines)
    page.heading("In short")
    page.text(
        f"Of {len(errors)} predictions of batches {sum(error <= WITHIN for error in errors)} are within {WITHIN:.0%}; "
        f"the median error is {np.median(errors):.0%}, the greatest {max(errors):.0%}."
    )
    page.heading("Constants")
    page.table(
        ["constant", "value", "unit", "how", "date"],
        [[name, f"{one.value:g}", one.unit, one.how, one.date] for name, one in constants.known.items()],
    )
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
