"""The cost model of streams: micro-batches and live tasks, their state, and how fast one key can be.

Micro-batches follow each other without a pause, each with the events that came during the one before. If a micro-batch
takes `floor` seconds whatever its size, and the cores are busy for a share u of the time with events alone, its length
settles at floor / (1 - u). An event waits for its micro-batch (from nothing to one length), is packed by it, and is
matched by the next one, which knows the watermark: matches are out 2 to 3 lengths after their last event, and the
delay of the watermark later.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from episode.sizing.constants import Constants
from episode.sizing.model import MATCH, NANO, ORDER, THROUGH_JVM, Work, imbalance, work_of
from episode.sizing.profile import QueryProfile

MICRO_BATCHES, LIVE = "micro-batches", "live tasks"
STATE, READ = "state", "read and report"
BUSY = 0.7
"""The share of the time that cores may be busy: the rest is for bursts, and to catch up after a failure."""


@dataclass(frozen=True)
class Stream:
    """A stream, as predicted. work: for each event. utilisation: of the cores by events. length: of a micro-batch.
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
    """Events come as rows of Spark; beyond what a batch does, they wait in the state for the watermark."""
    parts = dict(work_of(profile, constants, THROUGH_JVM).parts)
    return Work({**parts, STATE: constants["batch_event"] + _snapshots(profile, constants)})


def live_work(profile: QueryProfile, constants: Constants) -> Work:
    """A task reads a stream store or a topic, orders, matches and writes by itself: no shuffle, no JVM."""
    parts = work_of(profile, constants).parts
    state = _snapshots(profile, constants)
    return Work({READ: constants["live_event"], ORDER: parts[ORDER], MATCH: parts[MATCH], STATE: state})


def _snapshots(profile: QueryProfile, constants: Constants) -> float:
    """Snapshots have what has changed: a row that is held is written once."""
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
) -> Stream:
    """Micro-batches at a rate. cores: so many (default: the fewest that are busy for no more than BUSY of the time)."""
    work = micro_batch_work(profile, constants)
    of_key = work.parts[ORDER] + work.parts[MATCH] + work.parts[STATE]
    each = work.total * constants["contention"] * NANO
    chosen = cores or _fewest(rate * each, keys)
    used = rate * each * imbalance(keys, chosen) / chosen
    length = (constants["batch_floor"] + 2 * chosen * constants["dispatch"]) / (1 - used) if used < 1 else math.inf
    one_key = BUSY / (of_key * constants["contention"] * NANO)
    return Stream(MICRO_BATCHES, work, chosen, used, length, 2.5 * length + delay, 2.99 * length + delay, one_key)


def live_tasks(
    rate: float,
    keys: float,
    profile: QueryProfile,
    constants: Constants,
    *,
    delay: float = 0.0,
    cores: int | None = None,
) -> Stream:
    """Live tasks at a rate, one for each core."""
    work = live_work(profile, constants)
    each = work.total * constants["contention"] * NANO
    chosen = cores or _fewest(rate * each, keys)
    used = rate * each * imbalance(keys, chosen) / chosen
    waiting = 1.0 if used < 1 else math.inf
    median, most = constants["live_median"] * waiting + delay, constants["live_99"] * waiting + delay
    return Stream(LIVE, work, chosen, used, None, median, most, BUSY / each)


def _fewest(load: float, keys: float) -> int:
    """Cores for a load of so many busy cores. More of them are less evenly loaded, so a few steps are needed."""
    cores = max(1, min(math.ceil(load / BUSY), int(keys)))
    while load * imbalance(keys, cores) / cores > BUSY and cores < keys:
        cores += max(1, cores // 64)
    return cores


# ---- state -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """held: rows that matchers hold for open matches; most: were every row of the window held; waiting: events that
    wait for the watermark; bytes: of the held and the waiting in the state. measured: was `held`?"""

    held: float
    most: float
    waiting: float
    bytes: float
    most_bytes: float
    measured: bool


def state_of(rate: float, keys: float, window: float, profile: QueryProfile, waits: float) -> State:
    """The state at a rate. waits: seconds that an event waits until the watermark has passed it."""
    in_window = rate / keys * window
    held = keys * profile.held.of_key(in_window) * (1.0 if profile.held.measured else profile.passing)
    most = rate * window * profile.passing
    waiting = rate * waits
    bytes_ = min(held, most) * profile.held.bytes + waiting * profile.envelope_bytes
    return State(min(held, most), most, waiting, bytes_, most * profile.held.bytes, profile.held.measured)
