"""Stock ticks for the experiments: seeded, in global order of time, as Parquet in several files and row groups.

Rows are made slice by slice; the walk of every key goes on from slice to slice. So memory does not grow with the
data, and a smaller set is a prefix of a larger one with as many keys. Times are whole milliseconds, all different.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.data_sets import DATA, made_once

SCHEMA = pa.schema([("key", pa.int32()), ("ts", pa.timestamp("us", tz="UTC")), ("price", pa.float64())])

SEED = 7
SLICE = 1_250_000
"""Rows of one file."""
ROW_GROUP = 312_500
OPENING = np.datetime64("2026-03-02T09:30:00", "us").astype(np.int64)
MOVES = np.array([-2, -1, 0, 1, 2])
CHANCES = [0.1, 0.25, 0.3, 0.25, 0.1]
"""Moves of a price in cents, as in the sample data of `episode demo`."""
LEAST = 100


def ticks(rows: int, keys: int) -> Path:
    """The directory of a tick set; made when it is not there yet."""
    return made_once(DATA / f"ticks-{rows}-{keys}", _slices(rows, keys), ROW_GROUP)


def skewed(rows: int, keys: int) -> Path:
    """A tick set in which key 0 has half of all rows."""
    return made_once(DATA / f"ticks-{rows}-{keys}-skewed", _slices(rows, keys, 0.5), ROW_GROUP)


def sample(source: Path, keys: int) -> Path:
    """The ticks of the first keys of a tick set, as a set of its own with at least two files."""
    return made_once(source.with_name(f"{source.name}-first-{keys}"), _first_keys(source, keys), ROW_GROUP)


def _first_keys(source: Path, keys: int) -> Iterator[pa.Table]:
    table = pq.read_table(source, filters=[("key", "<", keys)])
    size = min(SLICE, -(-table.num_rows // 2))
    for start in range(0, table.num_rows, size):
        yield table.slice(start, size)


def _slices(rows: int, keys: int, of_first: float = 0.0) -> Iterator[pa.Table]:
    """Tables of at most SLICE rows. Every slice has its own random numbers, whatever comes after it. of_first: the
    share of the rows that are given to key 0, beside its own."""
    cents = np.random.default_rng([SEED, keys]).integers(2_000, 40_000, size=keys)
    now = OPENING
    for number, start in enumerate(range(0, rows, SLICE)):
        rng = np.random.default_rng([SEED, keys, number])
        key = rng.integers(0, keys, SLICE, dtype=np.int32)
        time = now + np.cumsum(1_000 * rng.integers(1, 4, SLICE))
        if of_first:
            key[rng.random(SLICE) < of_first] = 0
        price = _walk(key, rng.choice(MOVES, SLICE, p=CHANCES), cents)
        now = time[-1]
        columns = [pa.array(key), pa.array(time).cast(SCHEMA.field("ts").type), pa.array(price / 100.0)]
        yield pa.Table.from_arrays(columns, schema=SCHEMA).slice(0, min(SLICE, rows - start))


def _walk(key: np.ndarray, moves: np.ndarray, cents: np.ndarray) -> np.ndarray:
    """Prices in cents after every move of a key; `cents`, where the keys stand, is moved on to where they end."""
    order = np.argsort(key, kind="stable")
    grouped = key[order]
    total = np.cumsum(moves[order])
    first = np.flatnonzero(np.diff(grouped, prepend=-1))
    before = total[first] - moves[order][first]
    lengths = np.diff(first, append=len(key))
    walked = total - np.repeat(before, lengths) + np.repeat(cents[grouped[first]], lengths)
    walked = LEAST + np.abs(walked - LEAST)
    last = first + lengths - 1
    cents[grouped[first]] = walked[last]
    price = np.empty(len(key), np.int64)
    price[order] = walked
    return price


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    parser.add_argument("keys", type=int)
    arguments = parser.parse_args()
    print(ticks(arguments.rows, arguments.keys))
