"""`make bench NAME=slices`: slices of time against one task, from Parquet to a written result.

1. One key of 20 million ticks, without PARTITION BY: in slices, and matched by one task (`Tuning(slices="off")`).
   AFTER MATCH SKIP TO NEXT ROW (slices do not depend on each other) and SKIP PAST LAST ROW (a chain over all slices).
2. 1,000 keys of which one has half of all ticks, against 1,000 even keys.
All in one Spark session on two cores, in turns. Results with and without slices are compared row by row.
3. The memory of tasks, with keys of 5, 10 and 20 million ticks (`bench/slice_memory.py`), on a page of its own.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import episode
from bench import slice_memory
from bench.data_sets import DATA
from bench.harness import Report, Taken, local_session, say, side_by_side, verdict
from bench.queries import TICK
from bench.ticks import skewed, ticks
from episode import Options, Tuning

ROWS, KEYS, RUNS = 20_000_000, 1_000, 3
AT_LEAST_TIMES, AT_MOST_MORE, AT_MOST_OF_EVEN = 1.7, 0.15, 1.3
NEXT_ROW, PAST_LAST_ROW = "SKIP TO NEXT ROW", "SKIP PAST LAST ROW"
WITHIN, WITHIN_SECONDS = "1 MINUTE", 60.0
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
COLUMNS = "symbol, init_price, max_price"


def main() -> None:
    arguments = _arguments()
    if arguments.part != "memory":
        _times(arguments)
    if arguments.part != "times":
        _memory(arguments)


def _memory(arguments: argparse.Namespace) -> None:
    sizes = sorted(arguments.memory_rows)
    skips = (NEXT_ROW, PAST_LAST_ROW)
    idle, runs = slice_memory.measure(sizes, skips, partial(_query, keyed=False), _fingerprint, _out("memory"))
    slice_memory.report(f"{arguments.name}-memory", sizes, skips, idle, runs, WITHIN_SECONDS)


def _times(arguments: argparse.Namespace) -> None:
    spark = local_session()
    sets = {
        "one": ticks(arguments.rows, 1),
        "skewed": skewed(arguments.rows, arguments.keys),
        "even": ticks(arguments.rows, arguments.keys),
    }
    sliced = Options(tuning=Tuning(slices=arguments.slices or "auto"))
    whole = Options(tuning=Tuning(slices="off"))
    runs = {
        "next, one task": (_query(NEXT_ROW, keyed=False), "one", whole),
        "next, slices": (_query(NEXT_ROW, keyed=False), "one", sliced),
        "past, one task": (_query(PAST_LAST_ROW, keyed=False), "one", whole),
        "past, slices": (_query(PAST_LAST_ROW, keyed=False), "one", sliced),
        "skewed, one task": (_query(NEXT_ROW), "skewed", whole),
        "skewed, slices": (_query(NEXT_ROW), "skewed", sliced),
        "even": (_query(NEXT_ROW), "even", sliced),
    }

    def work(name: str) -> Callable[[], None]:
        query, data, options = runs[name]

        def write() -> None:
            frame = episode.sql(query, ticks=str(sets[data]), spark=spark, options=options)
            frame.write.mode("overwrite").parquet(str(_out(name)))

        return write

    say(f"{arguments.rows:,} ticks")
    taken = side_by_side({name: work(name) for name in runs}, arguments.runs)
    found = {name: _fingerprint(spark, _out(name)) for name in runs}
    for kind in ("next", "past", "skewed"):
        if found[f"{kind}, one task"] != found[f"{kind}, slices"]:
            raise SystemExit(f"{kind}: slices give other matches than one task: {found}")
    plans = {
        name: _plan(episode.explain(query, ticks=str(sets[data]), spark=spark, options=options))
        for name, (query, data, options) in runs.items()
    }
    _report(arguments, taken, found, plans)
    spark.stop()
    for name in runs:
        shutil.rmtree(_out(name))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=("times", "memory", "all"), default="all")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--memory-rows", type=int, nargs="+", default=slice_memory.ROWS, help="of the memory part")
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--slices", type=int, help="of a large key (default: chosen by a sample)")
    parser.add_argument("--name", default="slices", help="of the report")
    return parser.parse_args()


def _query(skip: str, *, keyed: bool = True) -> str:
    clause = TICK.replace(NEXT_ROW, skip).replace("PATTERN (A B+ C* D+)", f"PATTERN (A B+ C* D+) WITHIN {WITHIN}")
    if not keyed:
        clause = clause.replace("  PARTITION BY key\n", "")
    return f"SELECT {COLUMNS} FROM ticks MATCH_RECOGNIZE (\n{clause}\n)"


def _out(name: str) -> Path:
    return DATA / f"out-slices-{name.replace(', ', '-').replace(' ', '-')}"


def _fingerprint(spark: Any, path: Path) -> tuple[int, int]:
    """How many rows a result has, and a sum of hashes over them, whatever their order."""
    row = spark.sql(f"SELECT count(*), sum(CAST(xxhash64({COLUMNS}) AS DECIMAL(38, 0))) FROM parquet.`{path}`").first()
    return int(row[0]), int(row[1] or 0)


def _plan(text: str) -> list[str]:
    """What a plan says of slices."""
    lines = [line.strip() for line in text.splitlines()]
    return [line for line in lines if line.startswith(("slices:", "overlap:", "chain:", "reading:"))]


def _report(
    arguments: argparse.Namespace,
    taken: dict[str, Taken],
    found: dict[str, tuple[int, int]],
    plans: dict[str, list[str]],
) -> None:
    page = Report(arguments.name, "Slices of time against one task")
    page.text(
        f"{arguments.rows:,} ticks in Parquet, in order of time, about 2 ms apart. `A B+ C* D+` of the PCQ paper's "
        f"Figure 2, WITHIN {WITHIN}, ONE ROW PER MATCH with three measures, to written Parquet. Spark on local[2]; one "
        f"discarded run each, then in turns, {arguments.runs} runs; median (least – greatest). Times of all cores are "
        "those of all processes. Matches with and without slices are the same, by their number and a sum of hashes.",
    )
    page.heading("One key, without PARTITION BY")
    lines = []
    for kind, skip in (("next", NEXT_ROW), ("past", PAST_LAST_ROW)):
        one, sliced = taken[f"{kind}, one task"], taken[f"{kind}, slices"]
        times, more = one.median / sliced.median, sliced.median_cores / one.median_cores - 1
        lines.append([f"AFTER MATCH {skip}: one task", *_time(one), "", "", f"{found[f'{kind}, one task'][0]:,}"])
        lines.append(
            [
                f"AFTER MATCH {skip}: slices",
                *_time(sliced),
                f"{times:.2f}× (≥ {AT_LEAST_TIMES}: {verdict(times >= AT_LEAST_TIMES)})",
                f"{more:+.0%} (≤ +{AT_MOST_MORE:.0%}: {verdict(more <= AT_MOST_MORE)})",
                f"{found[f'{kind}, slices'][0]:,}",
            ]
        )
    page.table(["from Parquet", "time", "of all cores", "as fast", "core seconds", "matches"], lines)
    page.text(*(f"`explain`, {kind}: {'; '.join(plans[f'{kind}, slices'])}." for kind in ("next", "past")))
    page.heading(f"{arguments.keys:,} keys of which one has half of all rows")
    even = taken["even"]
    lines = [["even keys", *_time(even), "1", ""]]
    for name, title in (
        ("skewed, one task", "a key with half of all rows, matched by one task"),
        ("skewed, slices", "a key with half of all rows, in slices"),
    ):
        ratio = taken[name].median / even.median
        judged = f"≤ {AT_MOST_OF_EVEN}: {verdict(ratio <= AT_MOST_OF_EVEN)}" if name.endswith("slices") else ""
        lines.append([title, *_time(taken[name]), f"{ratio:.2f}", judged])
    page.table(["keys", "time", "of all cores", "of the time of even keys", "target"], lines)
    page.text(f"`explain`: {'; '.join(plans['skewed, slices'])}.")
    page.write(packages=PACKAGES)


def _time(taken: Taken) -> tuple[str, str]:
    return str(taken), f"{taken.median_cores:.1f} s"


if __name__ == "__main__":
    main()
