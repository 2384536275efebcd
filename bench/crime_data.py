"""City crimes for the experiments: seeded, in order of time, as Parquet with a file for each year.

The shape roughly follows Chicago's public crime records from 2001 to 2020: 360,000 reports a year, times in whole
minutes with many at the full hour, 22 police districts, and the shares of the types. A smaller set is a prefix of a
larger one, equally dense in time. Not from the records: coordinates (each district is a cell of a grid, each beat a
part of it), the hours of the day, and flurries: one row in 250 is followed by 3 to 15 crimes in the same beat, mostly
of frequent types. Without flurries, patterns of seven adjacent rows in one place would match nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.data_sets import DATA, made_once

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("datetime", pa.timestamp("us", tz="UTC")),
        ("primary_type", pa.string()),
        ("district", pa.int32()),
        ("beat", pa.int32()),
        ("latitude", pa.float64()),
        ("longitude", pa.float64()),
    ]
)

SEED = 11
FIRST_YEAR = 2001
YEARLY = 360_000
"""Rows of a year, and of a file."""
ROW_GROUP = 90_000

THOUSANDS = {
    "THEFT": 1530,
    "BATTERY": 1330,
    "CRIMINAL DAMAGE": 829,
    "NARCOTICS": 737,
    "ASSAULT": 466,
    "OTHER OFFENSE": 451,
    "BURGLARY": 404,
    "MOTOR VEHICLE THEFT": 338,
    "DECEPTIVE PRACTICE": 306,
    "ROBBERY": 273,
    "CRIMINAL TRESPASS": 203,
    "WEAPONS VIOLATION": 87,
    "PROSTITUTION": 69,
    "PUBLIC PEACE VIOLATION": 50,
    "OFFENSE INVOLVING CHILDREN": 50,
    "CRIM SEXUAL ASSAULT": 27,
    "SEX OFFENSE": 27,
    "INTERFERENCE WITH PUBLIC OFFICER": 17,
    "GAMBLING": 14,
    "LIQUOR LAW VIOLATION": 14,
    "ARSON": 12,
    "HOMICIDE": 11,
    "KIDNAPPING": 7,
    "INTIMIDATION": 4,
    "STALKING": 4,
    "OBSCENITY": 1,
}
"""Reports of each type in twenty years, in thousands, roughly; types with fewer than 500 are left out."""
FLURRY_STARTS, FLURRY_ROWS = 1 / 250, (4, 16)
FREQUENT, OF_FREQUENT = 3, 0.8
"""The share of rows of flurries that have one of the three most frequent types."""

DISTRICTS = np.array([*range(1, 13), *range(14, 21), 22, 24, 25], np.int32)
BEATS = np.array([100 * d + 10 * sector + n for d in DISTRICTS for sector in (1, 2, 3) for n in (1, 2, 3, 4)], np.int32)
"""A beat's number begins with its district: 2232 is in district 22."""
SOUTH, WEST, NORTH, EAST = 41.65, -87.85, 42.02, -87.53
COLUMNS, LINES = 4, 6
"""Districts in the grid, from west to east and from south to north."""

HOURS = np.array(
    [57, 34, 29, 23, 17, 14, 16, 23, 34, 43, 43, 45, 58, 48, 51, 54, 52, 52, 56, 57, 57, 54, 54, 44], float
)
"""How frequent each hour of the day is."""
FULL_HOUR = 0.3
"""The share of times that are reported as a full hour."""


def crimes(rows: int) -> Path:
    """Return the directory of a set of crimes; write it if it does not exist."""
    return made_once(DATA / f"crimes-{rows}", yearly_tables(rows), ROW_GROUP)


def yearly_tables(rows: int) -> Iterator[pa.Table]:
    """Yield the crimes of one year after the other, in order of time. Each year has its own random numbers."""
    for number, start in enumerate(range(0, rows, YEARLY)):
        yield _year(number).slice(0, min(YEARLY, rows - start))


def _year(number: int) -> pa.Table:
    rng = np.random.default_rng([SEED, number])
    time = _times(rng, FIRST_YEAR + number)
    leader, in_flurry = _flurries(rng)
    beat = rng.choice(len(BEATS), YEARLY, p=_shares(np.random.default_rng(SEED).uniform(0.5, 1.5, len(BEATS))))[leader]
    counts = np.array(list(THOUSANDS.values()), float)
    kind = rng.choice(len(counts), YEARLY, p=_shares(counts))
    frequent = rng.choice(FREQUENT, YEARLY, p=_shares(counts[:FREQUENT]))
    kind = np.where(in_flurry & (rng.random(YEARLY) < OF_FREQUENT), frequent, kind)
    latitude, longitude = _coordinates(rng, beat)
    names = pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), pa.array(list(THOUSANDS)))
    columns = [
        pa.array(np.arange(YEARLY) + number * YEARLY + 1),
        pa.array(time).cast(SCHEMA.field("datetime").type),
        names.cast(pa.string()),
        pa.array(BEATS[beat] // 100),
        pa.array(BEATS[beat]),
        pa.array(latitude),
        pa.array(longitude),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _shares(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum()


def _times(rng: np.random.Generator, year: int) -> np.ndarray:
    """Return the times of a year in order, in microseconds."""
    first, end = (np.datetime64(f"{one}-01-01", "D").astype(np.int64) for one in (year, year + 1))
    hour = rng.integers(first, end, YEARLY) * 24 + rng.choice(24, YEARLY, p=_shares(HOURS))
    minute = np.where(rng.random(YEARLY) < FULL_HOUR, 0, rng.integers(0, 60, YEARLY))
    return np.sort(hour * 60 + minute) * 60_000_000


def _flurries(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the row whose place each row shares (its own unless it is in a flurry), and which rows are in one."""
    row = np.arange(YEARLY)
    starts = rng.random(YEARLY) < FLURRY_STARTS
    starts[0] = True
    start = np.maximum.accumulate(np.where(starts, row, 0))
    in_flurry = row - start < rng.integers(*FLURRY_ROWS, YEARLY, endpoint=True)[start]
    return np.where(in_flurry, start, row), in_flurry


def _coordinates(rng: np.random.Generator, beat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return latitudes and longitudes: a random point in the beat's part of the district's cell, three by four."""
    cell, part = np.divmod(beat, 12)
    north, east = rng.random((2, len(beat)))
    latitude = SOUTH + (cell // COLUMNS + (part // 4 + north) / 3) * (NORTH - SOUTH) / LINES
    longitude = WEST + (cell % COLUMNS + (part % 4 + east) / 4) * (EAST - WEST) / COLUMNS
    return latitude.round(6), longitude.round(6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=int)
    print(crimes(parser.parse_args().rows))
