"""`python -m bench.slices --part memory`: the memory of tasks that match slices of time, against one task.

One key of several sizes, without PARTITION BY, from Parquet to a written result. Every task has a worker of its own
(spark.python.worker.reuse is off), so that the greatest memory of a worker is that of a task. What a task takes that
matches next to nothing is left out of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import episode
from bench.harness import Report, local_session, say, verdict
from bench.memory import WorkerMemory
from bench.ticks import ticks
from episode import Options, Tuning

ROWS = (5_000_000, 10_000_000, 20_000_000)
SLICE_ROWS = 2_500_000
"""Rows of slices of the same size, whatever the size of the key."""
FEW_ROWS = 20_000
"""Of the run that shows what a worker takes without events."""
ROW_BYTES = 20
"""Of the columns that the query reads: a key, a time and a price."""
SMALL = 8 * 2**20
"""A budget that two slices of the key do not fit."""
BOUNDED_WITHIN = 1.25
HEADER = ("rows", "matched in", "slices", "rows of a slice", "bytes of it", "peak", "own", "own bytes by row", "all")
KINDS = (("one task", "one"), ("slices of the same size", "slices of"), ("a small budget", "2 slices"))
"""Of runs, and how their names begin."""
BOUND = (
    "What a task takes is bounded by the rows of its slice and its overlap, and where a slice is larger than "
    "`shard_bytes` (256 MiB by default), by that and the overlap; not by the rows of the key. Bytes of events are "
    "counted as they come; while they are read, ordered and matched, a task takes several times as many. Spilled rows "
    "are mapped until the slice is done: the peak has as much of them as there is, the own memory has not."
)
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")


@dataclass(frozen=True)
class Run:
    """One way to match a key. skip: AFTER MATCH. slices: as said; count: how many there were. largest, own: bytes of a
    task at the most, all and without mapped files. found: the matches, by number and hash."""

    skip: str
    rows: int
    name: str
    options: Options
    count: int = 1
    largest: int = 0
    own: int = 0
    together: int = 0
    found: tuple[int, int] = (0, 0)

    @property
    def slice_rows(self) -> int:
        return self.rows // self.count


def ways(skip: str, rows: int) -> Iterator[Run]:
    """How a key of so many rows is matched."""
    yield Run(skip, rows, "one task", Options(tuning=Tuning(slices="off")))
    yield Run(skip, rows, f"slices of {SLICE_ROWS:,} rows", Options(tuning=Tuning(slices=max(2, rows // SLICE_ROWS))))
    small = Options(tuning=Tuning(slices=2, shard_bytes=SMALL))
    yield Run(skip, rows, f"2 slices, `shard_bytes` of {SMALL // 2**20} MiB", small)


def measure(
    sizes: Sequence[int], skips: Sequence[str], query_of: Callable[[str], str], fingerprint: Callable[[Any, Path], Any],
    out: Path,
) -> tuple[Run, list[Run]]:  # fmt: skip
    """What a worker takes without events, and all runs."""
    for rows in (FEW_ROWS, *sizes):
        ticks(rows, 1)
    spark = local_session(settings={"spark.python.worker.reuse": "false"})

    def measured(run: Run) -> Run:
        query, data = query_of(run.skip), str(ticks(run.rows, 1))
        with WorkerMemory() as watch:
            frame = episode.sql(query, ticks=data, spark=spark, options=run.options)
            frame.write.mode("overwrite").parquet(str(out))
        plan = episode.explain(query, ticks=data, spark=spark, options=run.options)
        say(f"{run.skip}, {run.rows:,} rows, {run.name}: {_mib(watch.largest)}, own {_mib(watch.largest_own)}")
        return replace(
            run, count=_slices(plan), largest=watch.largest, own=watch.largest_own, together=watch.together,
            found=fingerprint(spark, out),
        )  # fmt: skip

    idle = max(
        (measured(Run(skip, FEW_ROWS, "few rows", Options(tuning=Tuning(slices="off")))) for skip in skips),
        key=lambda r: r.own,
    )
    runs = [measured(run) for skip in skips for rows in sizes for run in ways(skip, rows)]
    spark.stop()
    shutil.rmtree(out)
    for run in runs:
        one = next(other for other in runs if (other.skip, other.rows) == (run.skip, run.rows))
        if run.found != one.found:
            raise SystemExit(f"{run.skip}, {run.rows:,} rows: {run.name} gives other matches than {one.name}")
    return idle, runs


def _slices(plan: str) -> int:
    """How many slices a plan has."""
    found = [line.split(" slices of time")[0].split()[-1] for line in plan.splitlines() if " slices of time" in line]
    return sum(int(number.replace(",", "")) for number in found) or 1


def report(
    name: str, sizes: Sequence[int], skips: Sequence[str], idle: Run, runs: Sequence[Run], seconds: float
) -> None:
    """The page. seconds: of the overlap of a slice."""
    page = Report(name, "Memory of slices of time")
    overlap = _rows_within(ticks(sizes[-1], 1), seconds)
    millions = ", ".join(f"{rows / 10**6:g}" for rows in sizes)
    page.text(
        f"One key of {millions} million ticks in Parquet, {ROW_BYTES} bytes each as the query reads them, without "
        "PARTITION BY; the query of `slices.md`, to written Parquet, on local[2]. A slice is matched with an overlap "
        f"of {seconds:g} seconds, about {overlap:,} rows ({_mib(overlap * ROW_BYTES)}). Each task has a worker of its "
        "own. *Peak*: the greatest resident memory of a task, beyond that of a task that matches "
        f"{FEW_ROWS:,} rows ({_mib(idle.largest)}, most of it libraries). *Own*: without mapped files, "
        "which the system takes back when it needs to; sampled every 20 ms. *All*: of all workers at one time, pages "
        "that they share counted for each. Matches are those of one task, by their number and a sum of hashes.",
    )
    for skip in skips:
        page.heading(f"AFTER MATCH {skip}")
        lines = [_line(run, idle) for run in runs if run.skip == skip]
        named = [
            "rows",
            "matched in",
            "slices",
            "rows of a slice",
            "bytes of it",
            "peak",
            "own",
            "own bytes by row",
            "all",
        ]
        page.table(named, lines)
    page.heading("What bounds it")
    page.text(*_findings(skips, idle, runs))
    page.write(packages=PACKAGES)


def _line(run: Run, idle: Run) -> list[object]:
    own = run.own - idle.own
    slices = f"{run.count:,}" if run.count > 1 else "none"
    peaks = [_mib(run.largest - idle.largest), _mib(own), f"{own / run.slice_rows:,.0f}", _mib(run.together)]
    size = run.slice_rows * ROW_BYTES
    return [f"{run.rows / 10**6:g} million", run.name, slices, f"{run.slice_rows:,}", _mib(size), *peaks]


def _findings(skips: Sequence[str], idle: Run, runs: Sequence[Run]) -> Iterator[str]:
    """A sentence for each kind of slices: whether memory grows with the key."""
    for skip in skips:
        for title, wanted in (
            ("one task", "one"),
            ("slices of the same size", "slices of"),
            ("a small budget", "2 slices"),
        ):
            some = [run for run in runs if run.skip == skip and run.name.startswith(wanted)]
            rows, times = some[-1].rows / some[0].rows, (some[-1].own - idle.own) / max(1, some[0].own - idle.own)
            target = f" (≤ {BOUNDED_WITHIN}: {verdict(times <= BOUNDED_WITHIN)})" if wanted != "one" else ""
            yield f"{skip}, {title}: a key of {rows:g} times the rows takes {times:.2f} times the memory{target}."


def _rows_within(path: Path, seconds: float) -> int:
    """Rows of so many seconds, by the first file of a set."""
    times = pq.read_table(sorted(path.glob("*.parquet"))[0], columns=["ts"]).column("ts")
    span = (times[-1].as_py() - times[0].as_py()).total_seconds()
    return round(len(times) * seconds / span)


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"
