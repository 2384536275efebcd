"""`make bench NAME=crimes`: 19 row pattern templates over 7.2 million city crimes, in process on one core and on Spark.

The templates are those of Zhu, Huang and Chaudhuri (PVLDB 16(5), 2023): see bench/crime_queries.py for what they give
and what was chosen. The crimes are made up: see bench/crime_data.py. The paper's own times are of other data and other
machines; none are compared here.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench.crime_data import YEARLY, crimes
from bench.crime_queries import BOX, SEQUENCE, TEMPLATES, Template
from bench.data_sets import DATA
from bench.harness import Report, Taken, local_session, say, side_by_side

ROWS = 7_200_000
"""Twenty years: about the size of the public records that the paper uses."""
RUNS = 3
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="crimes", help="of the report")
    arguments = parser.parse_args()
    path = crimes(arguments.rows)
    found, alone = match_in_process(path, arguments.runs)
    on_spark = match_on_spark(path, arguments.runs, found)
    _report(arguments, {name: matches.num_rows for name, matches in found.items()}, alone, on_spark)


def match_in_process(path: Path, runs: int) -> tuple[dict[str, pa.Table], dict[str, Taken]]:
    """Return the matches of every template and the seconds, from an Arrow table in memory, on one core."""
    cores, threads = os.sched_getaffinity(0), pa.cpu_count()
    table = pq.read_table(path)
    os.sched_setaffinity(0, {max(cores)})
    pa.set_cpu_count(1)
    found: dict[str, pa.Table] = {}

    def work(template: Template) -> Callable[[], None]:
        def match() -> None:
            found[template.name] = episode.sql_local(template.query, crimes=table)

        return match

    taken = side_by_side({template.name: work(template) for template in TEMPLATES}, runs)
    os.sched_setaffinity(0, cores)
    pa.set_cpu_count(threads)
    return found, taken


def match_on_spark(path: Path, runs: int, expected: dict[str, pa.Table]) -> dict[str, Taken]:
    """Return the seconds from Parquet to written Parquet; fail if a template has other matches than in process."""
    spark = local_session()
    out = DATA / "out-crimes"

    def work(template: Template) -> Callable[[], None]:
        def match() -> None:
            frame: Any = episode.sql(template.query, crimes=str(path), spark=spark)
            frame.write.mode("overwrite").parquet(str(out))

        return match

    works = {template.name: work(template) for template in TEMPLATES}
    for template in TEMPLATES:
        works[template.name]()
        theirs, ours = (_in_order(one, template) for one in (pq.read_table(out), expected[template.name]))
        if not theirs.equals(ours):
            raise SystemExit(f"{template.name}: {ours.num_rows:,} matches in process, {theirs.num_rows:,} on Spark")
        say(f"{template.name}: the same {ours.num_rows:,} matches")
    taken = side_by_side(works, runs)
    shutil.rmtree(out)
    spark.stop()
    return taken


def _in_order(matches: pa.Table, template: Template) -> pa.Table:
    """Return the ids of the matches in one order, in one chunk."""
    ids = pa.schema([(name, pa.int64()) for name in template.measures])
    return matches.select(ids.names).cast(ids).sort_by([(name, "ascending") for name in ids.names]).combine_chunks()


def _report(
    arguments: argparse.Namespace, matches: dict[str, int], alone: dict[str, Taken], on_spark: dict[str, Taken]
) -> None:
    page = Report(arguments.name, "Row patterns over city crimes")
    page.text(
        f"The 19 templates of Zhu, Huang and Chaudhuri (PVLDB 16(5), 2023) over {arguments.rows:,} made-up crimes of "
        f"{arguments.rows / YEARLY:.1f} years, all within 30 minutes of the first crime, SKIP TO NEXT ROW. *In "
        "process*: `sql_local` on one core, from an Arrow table in memory to an Arrow table. *On Spark*: local[2], "
        "from Parquet files to written Parquet files; only *by beat* has a PARTITION BY, the others are one "
        "partition. The matches of both are compared first, one by one. One discarded run each, then all templates in "
        f"turns, {arguments.runs} runs; median (least – greatest).",
    )
    lines = []
    for template in TEMPLATES:
        here, there = alone[template.name], on_spark[template.name]
        lines.append(
            [
                template.place,
                f"`{template.shape.pattern.replace('|', chr(92) + '|')}`",
                f"{matches[template.name]:,}",
                here,
                f"{arguments.rows / here.median:,.0f}",
                there,
                f"{there.median_cores:.1f} s",
            ]
        )
    page.table(["place", "pattern", "matches", "in process", "rows/s", "on Spark", "of all cores"], lines)
    here, there = (sum(one.median for one in taken.values()) for taken in (alone, on_spark))
    page.text(f"All {len(TEMPLATES)} together: {here:.1f} s in process, {there:.1f} s on Spark.")
    page.heading("One of the queries")
    page.text(f"```sql\n{Template(SEQUENCE, BOX).query}\n```")
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
