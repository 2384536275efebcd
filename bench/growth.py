"""`make bench NAME=growth`: how time and memory grow with the rows and with the keys.

Time: the tick query from Parquet to a written result, all sizes in one Spark session, in turns.
Memory: of the Python workers, each size in a session of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import episode
from bench.data_sets import DATA
from bench.figures import new_figure, put_figure
from bench.harness import ROOT, Report, Taken, local_session, say, side_by_side, verdict
from bench.memory import WorkerMemory
from bench.queries import TICK, select
from bench.ticks import ticks

ROWS, KEYS = (5_000_000, 10_000_000, 20_000_000, 40_000_000), 1_000
KEY_ROWS, MANY_KEYS = 10_000_000, (10, 1_000, 100_000, 1_000_000)
RUNS = 3
LINEAR_WITHIN, ALIKE_WITHIN, BOUNDED_WITHIN = 1.25, 1.5, 1.25
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="of all row counts, for a trial")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="growth", help="of the report")
    parser.add_argument("--memory", type=int, help="only measure the workers' memory at so many rows, and print it")
    arguments = parser.parse_args()
    if arguments.memory:
        print(json.dumps(_memory(arguments.memory)))
        return
    rows = [int(n * arguments.scale) for n in ROWS]
    key_rows = int(KEY_ROWS * arguments.scale)
    sizes = [(n, KEYS) for n in rows] + [
        (key_rows, keys) for keys in MANY_KEYS if (key_rows, keys) not in [(n, KEYS) for n in rows]
    ]
    for n, keys in sizes:
        ticks(n, keys)
    memory = {n: _memory_apart(n) for n in (rows[0], rows[-1])}
    spark = local_session()
    taken = side_by_side({f"{n:,} rows, {keys:,} keys": _run(spark, n, keys) for n, keys in sizes}, arguments.runs)
    spark.stop()
    shutil.rmtree(DATA / "out-growth")
    times = dict(zip(sizes, taken.values(), strict=True))
    _report(
        arguments,
        {n: times[n, KEYS] for n in rows},
        {keys: times[key_rows, keys] for keys in MANY_KEYS},
        key_rows,
        memory,
    )


def _run(spark: Any, rows: int, keys: int) -> Callable[[], None]:
    path, out = str(ticks(rows, keys)), str(DATA / "out-growth")
    return lambda: episode.sql(select(TICK), ticks=path, spark=spark).write.mode("overwrite").parquet(out)


def _memory(rows: int) -> dict[str, int]:
    """Peak memory of the workers of a new session, two runs."""
    spark = local_session()
    run = _run(spark, rows, KEYS)
    with WorkerMemory() as watch:
        run()
        run()
    spark.stop()
    return {"together": watch.together, "largest": watch.largest, "workers": watch.workers}


def _memory_apart(rows: int) -> dict[str, int]:
    command = [sys.executable, "-m", "bench.growth", "--memory", str(rows)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.strip().splitlines()[-1])
    say(
        f"{rows:,} rows: workers together {found['together'] / 2**20:,.0f} MiB, the largest "
        f"{found['largest'] / 2**20:,.0f} MiB"
    )
    return found


# ---- the report ------------------------------------------------------------------------------------


def _report(
    arguments: argparse.Namespace,
    by_rows: dict[int, Taken],
    by_keys: dict[int, Taken],
    key_rows: int,
    memory: dict[int, dict[str, int]],
) -> None:
    page = Report(arguments.name, "How cost grows")
    page.text(
        "The tick query (`A B+ C* D+`, SKIP TO NEXT ROW) from Parquet to written Parquet, Spark on local[2]; one "
        f"discarded run each, then in turns, {arguments.runs} runs; median (least – greatest)."
    )
    page.heading(f"Rows, at {KEYS:,} keys")
    smallest, largest = min(by_rows), max(by_rows)
    slope = (by_rows[largest].median - by_rows[smallest].median) / (largest - smallest)
    fixed = by_rows[smallest].median - slope * smallest
    page.table(
        ["rows", "time", "for each row", "of half as many rows' time", "of the straight line's time"],
        [
            [
                f"{n:,}",
                taken,
                _each(taken, n),
                _doubling(by_rows, n),
                f"{taken.median / (fixed + slope * n):.2f}",
            ]
            for n, taken in by_rows.items()
        ],
    )
    worse = (by_rows[largest].median / largest) / (by_rows[smallest].median / smallest)
    page.text(
        f"The straight line through the first and the last: {fixed:.2f} s and {slope * 1e9:.0f} ns for each row. From "
        f"{smallest:,} to {largest:,} rows the time for each row changes by {worse:.2f}×. Target: linear (no more "
        f"than {LINEAR_WITHIN}× as much for each row): {verdict(worse <= LINEAR_WITHIN)}."
    )
    page.heading(f"Keys, at {key_rows:,} rows")
    usual = by_keys[KEYS].median
    page.table(
        ["keys", "rows for each key", "time", "for each row", f"of the time at {KEYS:,} keys"],
        [
            [
                f"{keys:,}",
                f"{key_rows // keys:,}",
                taken,
                _each(taken, key_rows),
                f"{taken.median / usual:.2f}",
            ]
            for keys, taken in by_keys.items()
        ],
    )
    medians = [taken.median for taken in by_keys.values()]
    ratio = max(medians) / min(medians)
    page.text(
        f"Between the dearest and the cheapest: {ratio:.2f}×. Target: about the same for each row (no more than "
        f"{ALIKE_WITHIN}×): {verdict(ratio <= ALIKE_WITHIN)}."
    )
    page.heading("Memory of the Python workers")
    page.table(
        ["rows", "workers", "together at one time", "the largest worker"],
        [[f"{n:,}", found["workers"], _mib(found["together"]), _mib(found["largest"])] for n, found in memory.items()],
    )
    more = memory[largest]["together"] / memory[smallest]["together"]
    page.text(
        "Resident memory, shared libraries counted once for each worker; two runs in a session of their own. When "
        f"the data grows {largest // smallest}×, memory grows {more:.2f}×. Target: bounded (no more than "
        f"{BOUNDED_WITHIN}×): {verdict(more <= BOUNDED_WITHIN)}."
    )
    _plot(page, by_rows, by_keys, fixed, slope)
    page.write(packages=PACKAGES)


def _each(taken: Taken, rows: int) -> str:
    return f"{taken.median / rows * 1e9:.0f} ns"


def _doubling(by_rows: dict[int, Taken], rows: int) -> str:
    half = by_rows.get(rows // 2)
    return f"{by_rows[rows].median / half.median:.2f}×" if half else ""


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _plot(page: Report, by_rows: dict[int, Taken], by_keys: dict[int, Taken], fixed: float, slope: float) -> None:
    figure, (left, right) = new_figure(2, width=5)
    millions = [n / 1e6 for n in by_rows]
    left.plot([0, max(millions)], [fixed, fixed + slope * max(by_rows)], color="0.7", label="straight line")
    left.plot(millions, [taken.median for taken in by_rows.values()], "o", label="measured")
    left.set(xlabel="million rows", ylabel="seconds", title=f"Rows ({KEYS:,} keys)", xlim=(0, None), ylim=(0, None))
    left.legend()
    right.plot(list(by_keys), [taken.median for taken in by_keys.values()], "o-")
    right.set(xlabel="keys", ylabel="seconds", title="Keys (the same number of rows)", xscale="log", ylim=(0, None))
    put_figure(page, figure, "Time by rows, and time for each row by keys")


if __name__ == "__main__":
    main()
