"""`make bench NAME=feeds`: small feeds to event patterns with long windows, as live tasks and micro-batches have them.

Each window is first filled by feeds of a tenth of it; then feeds are timed, by the core's clock, for some seconds.
`--against PATH` runs the same with the source tree of another version, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa

from bench.event_plans import Query
from bench.feeding import one_core
from bench.harness import ROOT, Report, say
from episode.matchers.events.spec import EventPatternSpec
from episode.matchers.running import LocalRun

TYPES = {"id": "bigint", "ts": "bigint", "name": "string", "price": "bigint", "volume": "bigint", "size": "bigint"}
SCHEMA = pa.schema([(name, pa.string() if name == "name" else pa.int64()) for name in TYPES])
NAMES = np.array(["IBM", "Sun", "Oracle"])
CONDITIONS = {
    "comparison": "IBM.price > Sun.price AND IBM.volume = Oracle.volume",
    "equalities": "IBM.volume = Sun.volume AND Sun.size = Oracle.size",
    "conjunction": "IBM.volume = Sun.volume AND Sun.size = Oracle.size",
}
WINDOWS, SIZES = (10_000, 100_000), (10, 1_000)


def query_of(name: str, window: int) -> Query:
    pattern = "IBM & Sun & Oracle" if name == "conjunction" else "IBM; Sun; Oracle"
    text = (
        f"PATTERN {pattern} WHERE {CONDITIONS[name]} WITHIN {window} units RETURN IBM.id, Sun.id AS s, Oracle.id AS o"
    )
    return Query(text, TYPES, SCHEMA, "name")


def feeds_of(name: str, window: int, sizes: Iterator[int]) -> Iterator[pa.Table]:
    """Feeds of these sizes, one event for each unit of time. An event has about as many partners in every window."""
    random, first = np.random.default_rng(1), 0
    volumes = 100 * window if name == "comparison" else window
    for size in sizes:
        ids = np.arange(first, first + size)
        dear = random.random(size) < 20 / window
        names = NAMES[random.integers(0, 3, size)]
        price = np.where(names == "IBM", np.where(dear, 2, 0), 1)
        columns = [ids, ids, names, price, *random.integers(0, volumes, (2, size))]
        yield pa.table(dict(zip(TYPES, columns, strict=True))).cast(SCHEMA)
        first += size


def measure(name: str, window: int, size: int, seconds: float) -> dict[str, float]:
    """Events per second, milliseconds of the slowest feed, and matches for each million events."""
    query = query_of(name, window)
    running = LocalRun(EventPatternSpec(query.plan, query.schema))
    filling = [window // 10] * 12
    feeds = feeds_of(name, window, (filling[n] if n < len(filling) else size for n in count()))
    for _ in filling:
        _feed(running, next(feeds))
    taken, matches = [], 0
    while sum(taken) < seconds:
        table = next(feeds)
        begin = time.process_time()
        matches += _feed(running, table)
        taken.append(time.process_time() - begin)
    events = size * len(taken)
    slowest = max(taken) * 1e3
    return {"rate": events / sum(taken), "slowest": slowest, "events": events, "matches": matches * 1e6 / events}


def _feed(running: LocalRun, table: pa.Table) -> int:
    return running.feed(table, table.column("ts")[-1].as_py()).num_rows


def _elsewhere(path: str, *arguments: object) -> dict[str, float]:
    """Measure with another source tree."""
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", "bench.feeds", "--one", *map(str, arguments)]
    out = subprocess.run(command, env=environment, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def main(options: argparse.Namespace) -> None:
    header = ["query", "window", "events of a feed", "events/s", "slowest feed", "matches per million events"]
    if options.against:
        header += ["events/s of the other version", "times"]
    rows = []
    for name in options.queries:
        for size in SIZES:
            for window in WINDOWS:
                mine = measure(name, window, size, options.seconds)
                row = [name, f"{window:,}", f"{size:,}", f"{mine['rate']:,.0f}", f"{mine['slowest']:.1f} ms"]
                row.append(f"{mine['matches']:,.0f}")
                if options.against:
                    other = _elsewhere(options.against, name, window, size, options.seconds)["rate"]
                    row += [f"{other:,.0f}", f"{mine['rate'] / other:,.1f}"]
                say(", ".join(row))
                rows.append(row)
    page = Report("feeds", "Small feeds to event patterns with long windows")
    page.text(__doc__.split("\n\n")[1].replace("\n", " "))
    page.table(header, rows)
    page.write(packages=("llvmlite", "numpy", "pyarrow"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("queries", nargs="*", default=list(CONDITIONS))
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--against", help="the folder of another version's package")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    one_core()
    if given.one:
        which, window_, size_, seconds_ = given.one
        print(json.dumps(measure(which, int(window_), int(size_), float(seconds_))))
    else:
        main(given)
