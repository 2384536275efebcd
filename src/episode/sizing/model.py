"""The cost model of a batch: seconds of a core for each part, and from them the time of a run.

A run is two stages. In the first, tasks scan and pack; in the second they order, match and write; between them
envelopes are shuffled. A task is a Python worker and a thread of the JVM, which work at the same time if there are
cores for both, and wait for each other: together they keep `busy_slot` cores busy. If all cores are busy, each is
slower (`contention`).

See decision 170.
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
"""Ways to read rows: Parquet by the workers themselves, or as rows of Spark."""

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
        """Work of the stage before the shuffle. Writing and reading the shuffle are assumed to cost the same."""
        return self.parts[SCAN] + self.parts[PACK] + self.parts[SHUFFLE] / 2

    @property
    def second(self) -> float:
        return self.total - self.first

    @property
    def of_one_key(self) -> float:
        """Work that only the task with the row's key can do."""
        return self.parts[ORDER] + self.parts[MATCH] + self.parts[WRITE]

    def total_seconds(self, constants: Constants) -> float:
        """Seconds for each row on machines whose cores are all busy."""
        return self.total * constants["contention"] * NANO

    @property
    def largest(self) -> str:
        return max(self.parts, key=lambda part: self.parts[part])


def work_of(profile: QueryProfile, constants: Constants, scan: str = DIRECT, *, written: bool = True) -> Work:
    """The cost of each row. written: matches are written as Parquet, and not only passed to Spark."""
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
class BatchPrediction:
    """The prediction for a batch. seconds: wall time; core_seconds: of all cores; fixed: the part of the wall time that
    does not depend on the rows. bound_by_key: whether one key limits it."""

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
) -> BatchPrediction:
    """Predict a batch of `rows` rows on `slots` tasks at a time. cores: of the machines (default: one per slot).
    hottest: the share of one key, which one task must match."""
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
    return BatchPrediction(fixed + first + max(second, of_key), core_seconds, tasks, fixed, of_key > second)


def tasks_of(size: float, slots: int) -> int:
    """Tasks of the first stage over `size` bytes, in whole waves."""
    least = max(slots * TASKS_PER_CORE, math.ceil(size / TASK_BYTES))
    return -(-least // slots) * slots


def match_tasks(size: float, slots: int) -> int:
    """Tasks of the second stage; at most one per shard."""
    return min(tasks_of(size, slots), max(MOST_SHARDS, slots))


def contention_at(busy: float, cores: int, constants: Constants) -> float:
    """The factor by which a core is slower while `busy` cores are busy."""
    share = (busy - 1) / (cores - 1) if cores > 1 else 0.0
    return 1 + (constants["contention"] - 1) * max(0.0, min(1.0, share))


def imbalance(keys: float, parts: int) -> float:
    """The size of the fullest of equal parts relative to the mean, if keys of equal weight fall into them at random:
    the expected maximum of `parts` normal values (Blom), each with a mean and a variance of keys/parts."""
    if parts < 2 or keys < 1:
        return 1.0
    greatest = NormalDist().inv_cdf((parts - 0.375) / (parts + 0.25))
    return min(float(parts), 1 + greatest * math.sqrt(parts / keys))


def cores_for_batch(
    rows: float, work: Work, constants: Constants, seconds: float, *, row_bytes: float, keys: float
) -> int:
    """The fewest cores on which a batch of `rows` rows is done in time."""

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


# The cost model of streams: micro-batches and live tasks, their state, and the fastest possible key.
#
# Micro-batches follow each other without a pause, each with the events that came during the previous one. If a micro-
# batch takes `floor` seconds whatever its size, and the cores are busy for a share u of the time with events alone, its
# length settles at floor / (1 - u). An event waits for its micro-batch (from nothing to one length), is packed by it,
# and is matched by the next one, which knows the watermark: matches are emitted 2 to 3 lengths after their last event,
# plus the delay of the watermark.


MICRO_BATCHES, LIVE = "micro-batches", "live tasks"
STATE, READ = "state", "read and report"
BUSY = 0.7
"""The largest share of the time that cores may be busy: the rest is for bursts, and to catch up after a failure."""


@dataclass(frozen=True)
class StreamPrediction:
    """The prediction for a stream. work: for each event. utilisation: of the cores by events. length: of a micro-batch.
    median, most: seconds from an event to its match (50%, 99%), with the watermark's delay. one_key: the events/s that
    one key can have."""

    kind: str
    work: Work
    cores: int
    utilisation: float
    length: float | None
    median: float
    most: float
    one_key: float


def micro_batch_work(profile: QueryProfile, constants: Constants) -> Work:
    """Work for each event of a micro-batch: it comes as a row of Spark, and waits in the state for the watermark."""
    parts = dict(work_of(profile, constants, THROUGH_JVM).parts)
    return Work({**parts, STATE: constants["batch_event"] + _snapshots(profile, constants)})


def live_work(profile: QueryProfile, constants: Constants) -> Work:
    """Work for each event of a live task: it reads, orders, matches and writes by itself, without shuffle and JVM."""
    parts = work_of(profile, constants).parts
    state = _snapshots(profile, constants)
    return Work({READ: constants["live_event"], ORDER: parts[ORDER], MATCH: parts[MATCH], STATE: state})


def _snapshots(profile: QueryProfile, constants: Constants) -> float:
    """The cost of snapshots, which write changes only: a held row is written once."""
    held = profile.held
    share = min(1.0, held.rows / held.in_window) if held.measured and held.in_window else profile.passing
    return share * held.bytes * constants["snapshot"]


def micro_batches(
    rate: float,
    keys: float,
    profile: QueryProfile,
    constants: Constants,
    *,
    delay: float = 0.0,
    cores: int | None = None,
) -> StreamPrediction:
    """Predict micro-batches at a rate. cores: default: the fewest that are busy for at most BUSY of the time."""
    work = micro_batch_work(profile, constants)
    of_key = work.parts[ORDER] + work.parts[MATCH] + work.parts[STATE]
    chosen, used = _busy(rate * work.total_seconds(constants), keys, cores)
    length = (constants["batch_floor"] + 2 * chosen * constants["dispatch"]) / (1 - used) if used < 1 else math.inf
    one_key = BUSY / (of_key * constants["contention"] * NANO)
    median, most = 2.5 * length + delay, 2.99 * length + delay
    return StreamPrediction(MICRO_BATCHES, work, chosen, used, length, median, most, one_key)


def live_tasks(
    rate: float,
    keys: float,
    profile: QueryProfile,
    constants: Constants,
    *,
    delay: float = 0.0,
    cores: int | None = None,
) -> StreamPrediction:
    """Predict live tasks at a rate, one per core."""
    work = live_work(profile, constants)
    each = work.total_seconds(constants)
    chosen, used = _busy(rate * each, keys, cores)
    waiting = 1.0 if used < 1 else math.inf
    median, most = constants["live_median"] * waiting + delay, constants["live_99"] * waiting + delay
    return StreamPrediction(LIVE, work, chosen, used, None, median, most, BUSY / each)


def _busy(load: float, keys: float, cores: int | None) -> tuple[int, float]:
    """Return the cores for a load that keeps `load` cores busy, by default the fewest, and the share of the time that
    they are busy. More of them are less evenly loaded, hence the loop."""
    if cores is None:
        cores = max(1, min(math.ceil(load / BUSY), int(keys)))
        while load * imbalance(keys, cores) / cores > BUSY and cores < keys:
            cores += max(1, cores // 64)
    return cores, load * imbalance(keys, cores) / cores


@dataclass(frozen=True)
class State:
    """State of a stream. held: rows that matchers hold for open matches; most: if every row of the window were held;
    waiting: events that wait for the watermark; bytes: of held and waiting rows. measured: whether `held` was."""

    held: float
    most: float
    waiting: float
    bytes: float
    most_bytes: float
    measured: bool


def state_of(rate: float, keys: float, window: float, profile: QueryProfile, waits: float) -> State:
    """Predict the state at a rate. waits: seconds that an event waits until the watermark has passed it."""
    in_window = rate / keys * window
    held = keys * profile.held.of_key(in_window) * (1.0 if profile.held.measured else profile.passing)
    most = rate * window * profile.passing
    waiting = rate * waits
    bytes_ = min(held, most) * profile.held.bytes + waiting * profile.envelope_bytes
    return State(min(held, most), most, waiting, bytes_, most * profile.held.bytes, profile.held.measured)
