"""Small tables in process: how long a call of sql_local and match_local takes once its code is compiled.

A call parses, plans, matches and finishes; nothing is kept between two calls.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import episode
from bench.harness import Report, say, verdict

PACKAGES = ("llvmlite", "numpy", "pyarrow", "pandas")
TARGET = 0.05
"""Seconds: the median call over a thousand rows."""

ROWS = (100, 1_000, 10_000, 100_000)
V_SHAPE = """
    SELECT k, begins, ends, fall FROM t MATCH_RECOGNIZE (
        PARTITION BY k ORDER BY ts MEASURES A.ts AS begins, LAST(UP.ts) AS ends, A.v - LAST(DOWN.v) AS fall
        PATTERN (A DOWN+ UP+) DEFINE DOWN AS DOWN.v < PREV(DOWN.v), UP AS UP.v > PREV(UP.v))
"""
SEQUENCE = "PATTERN A; !B; C WHERE A.v < C.v WITHIN 20 RETURN A.ts AS a, C.ts AS c, C.v - A.v AS more"
SITUATIONS = "DEFINE A AS v > 0.6, B AS v < 0.9 AT LEAST 2 PATTERN A overlaps B WITHIN 50 RETURN count(A.v) AS n"


def events(rows: int) -> pa.Table:
    draw = np.random.default_rng(7)
    kinds = pa.array(np.array(["A", "B", "C", "D"])[draw.integers(0, 4, rows)])
    return pa.table({"k": draw.integers(0, 10, rows), "ts": np.arange(rows), "v": draw.random(rows), "type": kinds})


def calls(table: pa.Table) -> dict[str, Callable[[], object]]:
    frame = table.to_pandas()
    return {
        "row pattern, Arrow": lambda: episode.sql_local(V_SHAPE, t=table),
        "row pattern, pandas": lambda: episode.sql_local(V_SHAPE, t=frame),
        "event pattern": lambda: episode.match_local(table, SEQUENCE, time="ts", key="k", type_column="type"),
        "situation pattern": lambda: episode.match_local(table, SITUATIONS, time="ts", key="k"),
    }


def milliseconds(call: Callable[[], object], runs: int) -> list[float]:
    call()
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        taken.append((time.perf_counter() - begin) * 1e3)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--name", default="local", help="of the report")
    arguments = parser.parse_args()
    rows, met = [], True
    for count in ROWS:
        for name, call in calls(events(count)).items():
            taken = milliseconds(call, arguments.runs)
            middle, high = statistics.median(taken), sorted(taken)[int(0.95 * len(taken))]
            say(f"{count:,} rows, {name}: {middle:.1f} ms")
            rows.append([f"{count:,}", name, f"{middle:.1f} ms", f"{high:.1f} ms"])
            met = met and (count > 1_000 or middle < TARGET * 1e3)
    page = Report(arguments.name, "Small tables in process")
    page.text(
        f"Calls of `sql_local` and `match_local`, each {arguments.runs} times after one that is not counted: parsing, "
        "planning, matching and finishing, by the clock.",
        f"Target: under {TARGET * 1e3:.0f} ms in the median for up to 1,000 rows: {verdict(met)}.",
    )
    page.table(["rows", "call", "median", "95%"], rows)
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
