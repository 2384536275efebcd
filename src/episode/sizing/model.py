"""The cost model of a batch: seconds of a core for each part, and from them the time of a run.

A run is two stages. In the first, tasks scan and pack; in the second they order, match and write; between them
envelopes are shuffled. A task is a Python worker and a thread of the JVM, which work at the same time as far as there
are cores for both, and wait for each other: together they keep `busy_slot` cores busy. Where all cores are busy, each
is slower (`contention`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from episode.errors import EpisodeError
from episode.sizing.constants import Constants
from episode.sizing.profile import QueryProfile

SCAN, PACK, SHUFFLE, ORDER, MATCH, WRITE = "scan", "pack", "shuffle", "order", "match", "write"
PARTS = (SCAN, PACK, SHUFFLE, ORDER, MATCH, WRITE)
DIRECT, THROUGH_JVM = "direct", "rows"
"""How rows are read: Parquet by the workers themselves, or as rows of Spark."""

TASK_BYTES = 128 * 2**20
TASKS_PER_CORE = 2
MOST_SHARDS = 4096
MOST_CORES = 1 << 20
NANO = 1e-9


@dataclass(frozen=True)
class Work:
    """Nanoseconds of a core for each row of the input, by part."""

    parts: dict[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    @property
    def first(self) -> float:
        """Of the stage before the shuffle. Writing and reading the shuffle are taken to be alike."""
        return self.parts[SCAN] + self.parts[PACK] + self.parts[SHUFFLE] / 2

    @property
    def second(self) -> float:
        return self.total - self.first

    @property
    def of_one_key(self) -> float:
        """What only the task that has the row's key can do."""
        return self.parts[ORDER] + self.parts[MATCH] + self.parts[WRITE]

    @property
    def largest(self) -> str:
        return max(self.parts, key=lambda part: self.parts[part])


def work_of(profile: QueryProfile, constants: Constants, scan: str = DIRECT, *, written: bool = True) -> Work:
    """What each row costs. written: matches are written as Parquet, and not only handed to Spark."""
    through = constants["spark_row"] + (constants["jvm_row"] if scan == THROUGH_JVM else 0.0)
    of_match = constants["hand_over"] + (constants["write"] if written else 0.0)
    return Work(
        {
            SCAN: profile.scan + through,
            PACK: profile.pack,
            SHUFFLE: profile.passing * (constants["moved_row"] + profile.envelope_bytes * constants["transport"]),
            ORDER: profile.passing * profile.order,
            MATCH: profile.passing * profile.match,
            WRITE: profile.matches * of_match,
        }
    )


@dataclass(frozen=True)
class Run:
    """A batch, as predicted. seconds: by the clock; core_seconds: of all cores; fixed: of the clock's, whatever the
    rows. bound_by_key: does one key decide?"""

    seconds: float
    core_seconds: float
    tasks: int
    fixed: float
    bound_by_key: bool


def predict_batch(
    rows: float,
    work: Work,
    constants: Constants,
    slots: int,
    *,
    row_bytes: float,
    keys: float,
    cores: int | None = None,
    hottest: float = 0.0,
) -> Run:
    """A run of so many rows on `slots` tasks at a time. cores: of the machines (default: as many as slots). hottest:
    the share of one key, which one task must match."""
    cores = slots if cores is None else cores
    tasks = tasks_of(rows * row_bytes, slots) + match_tasks(rows * row_bytes, slots)
    lanes = min(slots * constants["busy_slot"], float(cores))
    slower = contention_at(lanes, cores, constants)
    core_seconds = constants["query_cores"] + rows * work.total * NANO * slower
    launching = tasks * (constants["dispatch"] + constants["task"] / slots)
    fixed = constants["query"] + constants["commit"] + launching
    first = rows * work.first * NANO * slower / lanes
    second = rows * work.second * NANO * slower / lanes * imbalance(keys, slots)
    of_key = rows * hottest * work.of_one_key * NANO * slower / min(constants["busy_slot"], float(cores))
    return Run(fixed + first + max(second, of_key), core_seconds, tasks, fixed, of_key > second)


def tasks_of(size: float, slots: int) -> int:
    """Tasks of the first stage over so many bytes, in whole waves."""
    least = max(slots * TASKS_PER_CORE, math.ceil(size / TASK_BYTES))
    return -(-least // slots) * slots


def match_tasks(size: float, slots: int) -> int:
    """Tasks of the second stage; there are no more than so many shards."""
    return min(tasks_of(size, slots), max(MOST_SHARDS, slots))


def contention_at(busy: float, cores: int, constants: Constants) -> float:
    """How many times as long a core takes where so many of them are busy."""
    share = (busy - 1) / (cores - 1) if cores > 1 else 0.0
    return 1 + (constants["contention"] - 1) * max(0.0, min(1.0, share))


def imbalance(keys: float, parts: int) -> float:
    """What the fullest of some equal parts has more than the mean, where keys of equal weight fall into them at random:
    the expected greatest of so many normal values (Blom), each with a mean and a variance of keys/parts."""
    if parts < 2 or keys < 1:
        return 1.0
    greatest = NormalDist().inv_cdf((parts - 0.375) / (parts + 0.25))
    return min(float(parts), 1 + greatest * math.sqrt(parts / keys))


def cores_for_batch(
    rows: float, work: Work, constants: Constants, seconds: float, *, row_bytes: float, keys: float
) -> int:
    """The fewest cores on which a batch of so many rows is done in time."""

    def late(cores: int) -> bool:
        return predict_batch(rows, work, constants, cores, row_bytes=row_bytes, keys=keys).seconds > seconds

    low, high = 0, 1
    while late(high):
        low, high = high, high * 2
        if high > MOST_CORES:
            raise EpisodeError(
                f"No number of cores does a batch of {rows:,.0f} rows in {seconds:g} s: a query takes "
                f"{constants['query']:.1f} s before its first task, and tasks are started one after the other.",
                hint="Give the batch more time, or fewer rows.",
            )
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if late(middle) else (low, middle)
    return high
