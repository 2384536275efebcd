"""Reports of cars on an expressway, after the Linear Road benchmark: seeded, every car once a second, in order of time.

A car cruises for a while, then accelerates or brakes to its next speed, and so on; a few drive aggressively: faster,
with harder changes. Reports are made in blocks of 1,000 seconds; a car goes on from block to block with its speed. So
a smaller set is a prefix of a larger one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.data_sets import DATA, made_once

SCHEMA = pa.schema(
    [
        ("car_id", pa.int32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("speed", pa.float64()),
        ("accel", pa.float64()),
    ]
)
"""speed in mph, accel in m/s²."""
TYPES = {"car_id": "int", "ts": "timestamp", "speed": "double", "accel": "double"}

SEED = 2004
CARS = 1_000
SECONDS = 1_000
"""Of one block; one file of Parquet."""
ROW_GROUP = 250_000
BEGIN = np.datetime64("2026-03-02T06:00:00", "s").astype(np.int64)
SECOND = 1_000_000
MPH = 2.23694
"""Miles an hour of one metre a second."""
AGGRESSIVE = 0.03
CRUISE = (5, 40)
FASTEST = 120.0
NOISE = 0.15


@dataclass(frozen=True)
class Thresholds:
    """Of speeding, of hard acceleration and of hard braking."""

    speed: float
    accel: float
    brake: float


def cars(rows: int, number: int = CARS) -> Iterator[pa.Table]:
    """Reports in order of time, in tables of 1,000 seconds."""
    random = np.random.default_rng([SEED, number])
    aggressive = random.random(number) < AGGRESSIVE
    speed = _speeds(random, aggressive, 1)[:, 0]
    for block, start in enumerate(range(0, rows, number * SECONDS)):
        random = np.random.default_rng([SEED, number, block])
        speeds, accels = _drive(random, aggressive, speed, SECONDS)
        speed = speeds[:, -1].copy()
        time = (BEGIN + block * SECONDS + np.arange(SECONDS)) * SECOND
        columns = [
            pa.array(np.tile(np.arange(number, dtype=np.int32), SECONDS)),
            pa.array(np.repeat(time, number)).view(SCHEMA.field("ts").type),
            pa.array(speeds.T.ravel()),
            pa.array(accels.T.ravel()),
        ]
        yield pa.Table.from_arrays(columns, schema=SCHEMA).slice(0, min(number * SECONDS, rows - start))


def _speeds(random: np.random.Generator, aggressive: np.ndarray, count: int) -> np.ndarray:
    """Speeds to go for, [cars, count]."""
    mean, spread = np.where(aggressive, 66.0, 52.0)[:, None], np.where(aggressive, 18.0, 14.0)[:, None]
    return np.clip(random.normal(mean, spread, (len(aggressive), count)), 0.0, FASTEST)


def _drive(
    random: np.random.Generator, aggressive: np.ndarray, speed: np.ndarray, seconds: int
) -> tuple[np.ndarray, np.ndarray]:
    """(speeds, accelerations), [cars, seconds] each: cruising and changing of speed in turns, from `speed` on."""
    number, pairs = len(aggressive), seconds // (CRUISE[0] + 1) + 1
    target = _speeds(random, aggressive, pairs)
    before = np.concatenate([speed[:, None], target[:, :-1]], axis=1)
    change = (target - before) / MPH
    rate = random.uniform(0.6, 2.4, change.shape) * np.where(aggressive, 2.0, 1.0)[:, None]
    rate *= np.where(change < 0, 1.4, 1.0)
    changing = np.maximum(1, np.rint(np.abs(change) / rate)).astype(np.int64)
    cruising = random.integers(CRUISE[0], CRUISE[1] + 1, change.shape)
    lengths = np.stack([cruising, changing], axis=2).reshape(number, 2 * pairs)
    slope = np.stack([np.zeros_like(change), change / changing], axis=2).ravel()
    initial = np.repeat(before, 2, axis=1).ravel()
    ends = np.minimum(np.cumsum(lengths, axis=1), seconds)
    lengths = np.diff(ends, axis=1, prepend=0).ravel()
    phase = np.repeat(np.arange(len(lengths)), lengths)
    since = np.arange(number * seconds) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    speeds = initial[phase] + slope[phase] * MPH * (since + 1)
    accels = slope[phase] * (1 + 0.05 * random.standard_normal(len(phase))) + NOISE * random.standard_normal(len(phase))
    return speeds.reshape(number, seconds), accels.reshape(number, seconds)


def thresholds(table: pa.Table) -> Thresholds:
    """The paper's: the 99th percentile of speed, the 90th of positive and of negative accelerations."""
    speed, accel = table.column("speed").to_numpy(), table.column("accel").to_numpy()
    return Thresholds(
        round(float(np.quantile(speed, 0.99)), 2),
        round(float(np.quantile(accel[accel > 0], 0.90)), 2),
        round(float(np.quantile(accel[accel < 0], 0.10)), 2),
    )


def cars_on_disk(rows: int, number: int = CARS) -> Path:
    """The directory of a set of reports in Parquet; made when it is not there yet."""
    return made_once(DATA / f"cars-{rows}-{number}", cars(rows, number), ROW_GROUP)


# ---- the query -----------------------------------------------------------------------------------

FULL = (
    "A meets B; A overlaps B; A starts B; A during B "
    "AND C during B; B finishes C; B overlaps C; B meets C AND A before C"
)
SIMPLIFIED = "A meets B; A overlaps B AND B overlaps C; B meets C AND A before C"


def aggressive_drivers(limits: Thresholds, pattern: str = FULL, *, durations: bool = True) -> str:
    """TPStream's Listing 1."""
    a, b, c = (" AT LEAST 5 s", " BETWEEN 4 s AND 30 s", " AT LEAST 3 s") if durations else ("", "", "")
    return (
        f"DEFINE A AS accel > {limits.accel}{a}, B AS speed > {limits.speed}{b}, C AS accel < {limits.brake}{c} "
        f"PATTERN {pattern} WITHIN 5 minutes RETURN first(B.car_id) AS id, avg(B.speed) AS avg_speed"
    )
