"""`make bench NAME=trino`: the tick query through Trino and through episode on the same files, Parquet to Parquet.

Trino runs as a server of one node on this machine (bench/trino_server.py). The query is the same text for both; their
matches are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import episode
from bench.data_sets import DATA
from bench.harness import Report, Taken, local_session, say, side_by_side
from bench.queries import TICK, select
from bench.ticks import ticks
from bench.trino_server import MEMORY_GB, VERSION, TrinoServer

SIZES = (10_000, 100_000, 1_000_000, 20_000_000)
LARGE = 5_000_000
"""From so many rows on there are fewer runs, and none without Spark."""
KEYS = 1_000
RUNS, LARGE_RUNS = 5, 3
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
TRINO, SPARK, LOCAL = "Trino", "episode", "episode, without Spark"
COLUMNS = ["symbol", "init_price", "max_price"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--large-runs", type=int, default=LARGE_RUNS)
    parser.add_argument("--name", default="trino", help="of the report")
    arguments = parser.parse_args()
    spark = local_session()
    found: dict[int, tuple[int, dict[str, Taken]]] = {}
    with TrinoServer() as server:
        for rows in arguments.sizes:
            found[rows] = _compare(server, spark, rows, arguments.large_runs if rows >= LARGE else arguments.runs)
    spark.stop()
    _report(arguments, found)


def _compare(server: TrinoServer, spark: Any, rows: int, runs: int) -> tuple[int, dict[str, Taken]]:
    """The number of matches, and what each took."""
    source, out = ticks(rows, KEYS), DATA / "out-trino"
    theirs, ours, alone = (out / name for name in ("theirs", "ours", "alone"))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    server.run("DROP TABLE IF EXISTS hive.bench.ticks")
    server.run(
        "CREATE TABLE hive.bench.ticks (key integer, ts timestamp(6), price double) "
        f"WITH (external_location = 'local:///{source.name}', format = 'PARQUET')"
    )

    def through_trino() -> None:
        server.run("DROP TABLE IF EXISTS hive.bench.matches")
        shutil.rmtree(theirs, ignore_errors=True)
        query = select(TICK).replace("FROM ticks", "FROM hive.bench.ticks")
        server.run(
            "CREATE TABLE hive.bench.matches WITH (format = 'PARQUET', "
            f"external_location = 'local:///{theirs.relative_to(DATA)}') AS {query}"
        )

    def through_spark() -> None:
        frame = episode.sql(select(TICK), ticks=str(source), spark=spark)
        frame.write.mode("overwrite").parquet(str(ours))

    def without_spark() -> None:
        alone.mkdir(exist_ok=True)
        pq.write_table(episode.sql_local(select(TICK), ticks=pq.read_table(source)), alone / "part.parquet")

    works = {TRINO: (through_trino, theirs), SPARK: (through_spark, ours)}
    if rows < LARGE:
        works[LOCAL] = (without_spark, alone)
    say(f"{rows:,} rows")
    results: dict[str, pa.Table] = {}
    for name, (work, place) in works.items():
        work()
        results[name] = _matches_in(place)
        if not results[name].equals(results[TRINO]):
            raise SystemExit(f"{name} finds {results[name].num_rows:,} matches, Trino {results[TRINO].num_rows:,}")
    say(f"the same {results[TRINO].num_rows:,} matches")
    taken = side_by_side({name: work for name, (work, _) in works.items()}, runs)
    shutil.rmtree(out)
    return results[TRINO].num_rows, taken


def _matches_in(place: Path) -> pa.Table:
    """The matches of a result in one order, in one chunk."""
    tables = [pq.read_table(file).select(COLUMNS) for file in sorted(place.iterdir()) if _is_data(file)]
    types = pa.schema([("symbol", pa.int32()), ("init_price", pa.float64()), ("max_price", pa.float64())])
    table = pa.concat_tables([types.empty_table(), *(one.cast(types) for one in tables)])
    return table.sort_by([(name, "ascending") for name in COLUMNS]).combine_chunks()


def _is_data(file: Path) -> bool:
    return file.is_file() and not file.name.startswith(("_", ".")) and not file.name.endswith(".crc")


def _report(arguments: argparse.Namespace, found: dict[int, tuple[int, dict[str, Taken]]]) -> None:
    page = Report(arguments.name, "The tick query through Trino")
    page.text(
        f"`A B+ C* D+`, SKIP TO NEXT ROW, from Parquet files to written Parquet files, ticks of {KEYS:,} keys. The "
        f"same text for both. Trino {VERSION}, one node with {MEMORY_GB} GB of heap, Hive connector over local files; "
        "episode on local[2]; *without Spark*: `sql_local` over the table as pyarrow reads it. The matches of all are "
        f"compared first. One discarded run each, then in turns, {arguments.runs} runs ({arguments.large_runs} from "
        f"{LARGE:,} rows on); median (least – greatest).",
    )
    lines = []
    for rows, (matches, taken) in found.items():
        for name, one in taken.items():
            lines.append(
                [
                    f"{rows:,}",
                    f"{matches:,}",
                    name,
                    one,
                    f"{one.median_cores:.1f} s",
                    f"{rows / one.median:,.0f}",
                    f"{taken[TRINO].median / one.median:.1f}×",
                ]
            )
    page.table(["rows", "matches", "", "time", "of all cores", "rows/s", "of Trino's rate"], lines)
    page.text(
        "The server and the Spark session are up and warm before the clock starts. Small inputs show the fixed cost of "
        "a query, which without Spark is next to none."
    )
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
