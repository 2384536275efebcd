"""Stream stores: appending, archiving, reading and looking back, against plain Parquet files by pyarrow.

Contenders work on the same ticks in turns. A batch that is appended is durable (`sync`), or is left to the system to
write (`no sync`); Parquet files of the same batches are written without and with the same care (file and directory).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.harness import Report, Taken, millions, say, side_by_side
from episode.store.catalog import Catalog
from episode.store.declaration import declare
from episode.store.files import sync_path
from episode.store.stream import StreamStore

PACKAGES = ("pyarrow", "numpy", "llvmlite")
COLUMNS = "symbol STRING, ts TIMESTAMP, price DOUBLE, volume INT"
KEYS = 1_000
BATCHES = ((1, 200), (1_000, 200), (1_000_000, 4))
"""Rows of a batch, and how many batches."""


def ticks(rows: int, seed: int = 7) -> pa.Table:
    """Ticks of a thousand symbols, a millisecond apart."""
    draw = np.random.default_rng(seed)
    symbols = pa.array([f"S{i:04d}" for i in range(KEYS)])
    return pa.table(
        {
            "symbol": symbols.take(pa.array(draw.integers(0, KEYS, rows))),
            "ts": pa.array(np.arange(rows) * 1_000, pa.timestamp("us", tz="UTC")),
            "price": np.round(100 + draw.normal(size=rows).cumsum() / 100, 2),
            "volume": pa.array(draw.integers(1, 1_000, rows), pa.int32()),
        }
    )


class Places:
    """Directories that come new, each for one run."""

    def __init__(self, root: Path) -> None:
        self.root, self.count = root, 0

    def new(self) -> Path:
        self.count += 1
        place = self.root / str(self.count)
        place.mkdir()
        return place

    def store(self, *, sync: bool = True, key: str | tuple[str, ...] = "symbol") -> StreamStore:
        options = {"sync": "true" if sync else "false", "log_retain": "0 seconds"}
        declaration = declare("Live", COLUMNS, time="ts", key=key, archive="Past", options=options)
        return StreamStore(Catalog(self.new()).create(declaration))

    def clear(self) -> None:
        for place in self.root.iterdir():
            shutil.rmtree(place)


def write_files(batches: list[pa.Table], directory: Path, *, sync: bool) -> None:
    """Each batch as a Parquet file."""
    for i, batch in enumerate(batches):
        path = directory / f"{i}.parquet"
        pq.write_table(batch, path)
        if sync:
            handle = os.open(path, os.O_RDWR)
            os.fsync(handle)
            os.close(handle)
            sync_path(directory)


def append_all(store: StreamStore, batches: list[pa.Table]) -> None:
    for batch in batches:
        store.append(batch)


def appending(table: pa.Table, places: Places, runs: int) -> list[list[str]]:
    found = []
    for rows, count in BATCHES:
        batches = [table.slice(i * rows % table.num_rows, rows) for i in range(count)]
        works: dict[str, Callable[[], object]] = {
            "append, sync": lambda batches=batches: append_all(places.store(), batches),
            "append, no sync": lambda batches=batches: append_all(places.store(sync=False), batches),
            "Parquet, sync": lambda batches=batches: write_files(batches, places.new(), sync=True),
            "Parquet, no sync": lambda batches=batches: write_files(batches, places.new(), sync=False),
        }
        say(f"batches of {rows:,}")
        for name, taken in side_by_side(works, runs).items():
            each = taken.median / count
            found.append([f"{rows:,}", name, f"{each * 1e3:,.2f} ms", f"{1 / each:,.0f}", f"{rows / each:,.0f}"])
        places.clear()
    return found


def archiving(table: pa.Table, places: Places, runs: int) -> dict[str, Taken]:
    filled = []
    for _ in range(runs + 1):
        store = places.store()
        append_all(store, [table.slice(i, 1_000_000) for i in range(0, table.num_rows, 1_000_000)])
        filled.append(store)

    def sorted_by_pyarrow() -> None:
        ordered = table.sort_by([("symbol", "ascending"), ("ts", "ascending")])
        pq.write_table(ordered, places.new() / "sorted.parquet", row_group_size=1 << 16, compression="zstd")

    works: dict[str, Callable[[], object]] = {
        "archive": lambda: filled.pop().archive(),
        "pyarrow: sort and write Parquet": sorted_by_pyarrow,
        "pyarrow: write Parquet": lambda: pq.write_table(table, places.new() / "plain.parquet"),
    }
    return side_by_side(works, runs)


def reading(table: pa.Table, places: Places, runs: int) -> dict[str, Taken]:
    logged, archived = places.store(), places.store()
    for store in (logged, archived):
        append_all(store, [table.slice(i, 1_000_000) for i in range(0, table.num_rows, 1_000_000)])
    archived.archive()
    plain = places.new() / "plain.parquet"
    pq.write_table(table, plain, row_group_size=1 << 16, compression="zstd")
    expected = table.num_rows

    def checked(found: pa.Table) -> None:
        assert found.num_rows == expected

    return side_by_side(
        {
            "log": lambda: checked(logged.read()[0]),
            "archive": lambda: checked(archived.table()),
            "pyarrow: read Parquet": lambda: checked(pq.read_table(plain)),
        },
        runs,
    )


def looking_back(table: pa.Table, places: Places, runs: int) -> dict[str, Taken]:
    """The last tenth of one symbol, a hundred symbols one after the other."""
    store = places.store()
    append_all(store, [table.slice(i, 1_000_000) for i in range(0, table.num_rows, 1_000_000)])
    store.archive()
    plain = places.new() / "plain.parquet"
    pq.write_table(table, plain, row_group_size=1 << 16, compression="zstd")
    times = table.column("ts").cast(pa.int64()).to_numpy()
    lo, hi = int(np.quantile(times, 0.9)), int(times.max())
    names = [f"S{i:04d}" for i in range(0, KEYS, KEYS // 100)]
    columns = ["symbol", "ts", "price"]
    history = store.history()
    instants = [pa.scalar(value, pa.int64()).cast(pa.timestamp("us", tz="UTC")) for value in (lo, hi)]

    def by_dataset() -> None:
        files = ds.dataset(plain)
        for name in names:
            wanted = (ds.field("symbol") == name) & (ds.field("ts") >= instants[0]) & (ds.field("ts") <= instants[1])
            files.to_table(columns, filter=wanted)

    def by_history() -> None:
        for name in names:
            history.read(pa.table({"symbol": [name]}), lo, hi, columns)

    return side_by_side({"history of the store": by_history, "pyarrow: unsorted Parquet, filtered": by_dataset}, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--name", default="store", help="of the report")
    parser.add_argument("--directory", help="where the stores are (default: the system's place for temporary files)")
    given = parser.parse_args()
    table = ticks(given.rows)
    page = Report(given.name, "Stream stores")
    with tempfile.TemporaryDirectory(prefix="episode-bench-", dir=given.directory) as root:
        places = Places(Path(root))
        page.text(
            f"Ticks of {KEYS:,} symbols (symbol, time, price, volume), 8 lanes. Medians of {given.runs} runs after one "
            "that is not counted, contenders in turns."
        )
        page.heading("Appending")
        page.text("One producer. With *sync*, a batch is on the disk when `append` returns.")
        header = ["rows in a batch", "", "time of a batch", "batches/s", "rows/s"]
        page.table(header, appending(table, places, given.runs))
        for title, work, rows in (
            ("Archiving", archiving, given.rows),
            ("Reading everything", reading, given.rows),
            ("Looking back", looking_back, None),
        ):
            say(title)
            taken = work(table, places, given.runs)
            page.heading(title)
            if rows is not None:
                page.table(
                    ["", f"{millions(rows)} rows", "rows/s", "seconds of cores"],
                    [
                        [name, str(one), f"{rows / one.median:,.0f}", f"{one.median_cores:.2f}"]
                        for name, one in taken.items()
                    ],
                )
            else:
                page.text(f"The last tenth of the time of one symbol, out of {millions(given.rows)} rows.")
                page.table(["", "one look"], [[name, f"{one.median * 10:,.1f} ms"] for name, one in taken.items()])
            places.clear()
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
