"""`make bench NAME=scans`: the tick query over a partitioned, filtered table: files read directly, or by Spark.

Both ways read the same table in one Spark session, in turns: partitions are chosen, and rows by a filter on prices. The
row path is had by an option of the reader that only Spark heeds.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import episode
from bench.harness import Report, local_session, say, side_by_side
from bench.queries import TICK
from bench.ticks import ROW_GROUP, ticks

ROWS, KEYS, PARTS, RUNS = 20_000_000, 1_000, 16, 5
PACKAGES = ("pyspark", "pyarrow", "numpy", "llvmlite")
QUERY = f"""\
SELECT symbol, init_price, max_price
FROM (SELECT key, ts, price FROM ticks WHERE part >= {{first}} AND price > 60.0) MATCH_RECOGNIZE (
{TICK}
)"""


def partitioned(source: Path, parts: int) -> Path:
    """The ticks of a set in as many directories, one after the other in time."""
    place = source.with_name(f"{source.name}-parts-{parts}")
    if not place.exists():
        unfinished = place.with_name(f"{place.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        table = pq.read_table(source)
        size = -(-table.num_rows // parts)
        for number in range(parts):
            folder = unfinished / f"part={number}"
            folder.mkdir(parents=True)
            pq.write_table(table.slice(number * size, size), folder / "1.parquet", row_group_size=ROW_GROUP)
        unfinished.rename(place)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="scans", help="of the report")
    arguments = parser.parse_args()
    path = str(partitioned(ticks(arguments.rows, KEYS), PARTS))
    query = QUERY.format(first=PARTS // 4)
    spark = local_session()
    tables: dict[str, Any] = {
        "direct": lambda: spark.read.parquet(path),
        "rows": lambda: spark.read.option("ignoreMissingFiles", True).parquet(path),
    }
    scans = {name: _scan(episode.explain(query, spark=spark, ticks=table())) for name, table in tables.items()}
    found = {name: _matches(episode.sql(query, spark=spark, ticks=table())) for name, table in tables.items()}
    if found["direct"] != found["rows"]:
        raise SystemExit(f"the two ways differ: {found}")
    say(f"the same {found['rows'][0]:,} matches")

    def work(table: Any) -> Any:
        return lambda: episode.sql(query, spark=spark, ticks=table()).write.format("noop").mode("overwrite").save()

    taken = side_by_side({name: work(table) for name, table in tables.items()}, arguments.runs)
    page = Report(arguments.name, "A partitioned, filtered table: read directly, and as rows of Spark")
    page.text(
        f"{arguments.rows:,} ticks of {KEYS:,} keys in {PARTS} directories (`part=…`), of which three quarters are "
        f"read; `price > 60.0` keeps {_share(path):.0%} of these rows. The tick query finds {found['rows'][0]:,} "
        f"matches both ways. To noop, Spark on local[2], {arguments.runs} runs each after a discarded one, in turns; "
        "medians (least – greatest)."
    )
    page.table(
        ["scan", "time", "of all cores", "of the direct way's time"],
        [
            [
                scans[name],
                taken[name],
                f"{taken[name].median_cores:.1f} s",
                f"{taken[name].median / taken['direct'].median:.2f}×",
            ]
            for name in tables
        ],
    )
    page.write(packages=PACKAGES)
    spark.stop()


def _scan(text: str) -> str:
    return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("scan:"))


def _matches(frame: Any) -> tuple[int, float]:
    row = frame.selectExpr("count(*)", "round(sum(init_price + max_price), 2)").collect()[0]
    return row[0], row[1]


def _share(path: str) -> float:
    price: pa.ChunkedArray = pq.read_table(path, columns=["price", "part"], filters=[("part", ">=", PARTS // 4)])[
        "price"
    ]
    return pc.mean(pc.greater(price, 60.0).cast(pa.int8())).as_py()


if __name__ == "__main__":
    main()
