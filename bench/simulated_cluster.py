"""A simulated cluster: nodes and cores, a rate of events, uneven keys, stragglers and lost executors.

No event is simulated by itself: micro-batches and tasks are discrete, events flow between them. Random numbers come
from a seed. What a task takes comes from the cost model; what the simulation adds is time: queues that build up, the
fullest task, work that is done again. `tests/unit/sizing` holds it against closed forms.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from episode.sizing.constants import Constants
from episode.sizing.model import MATCH, NANO, ORDER, SHUFFLE, STATE, WRITE, Work, live_work, micro_batch_work, work_of
from episode.sizing.profile import QueryProfile

OF_KEY = (ORDER, MATCH, WRITE, STATE)
"""Parts of the work that the task of a key does."""

QUANTILES = (0.5, 0.9, 0.99)
_POINTS = 16
"""Arrival times of a micro-batch at which latency is looked at."""


@dataclass(frozen=True)
class Cluster:
    """So many nodes (one executor each) of so many cores."""

    nodes: int
    cores: int

    @property
    def slots(self) -> int:
        return self.nodes * self.cores


@dataclass(frozen=True)
class Load:
    """rate: events/s, for so many seconds. keys: of equal weight but for the busiest, which has the share `hottest`."""

    rate: float
    seconds: float
    keys: int
    hottest: float = 0.0


@dataclass(frozen=True)
class Faults:
    """stragglers: the share of tasks that take `slowdown` times as long; in live tasks they come in spells of `spell`
    seconds. lost: at these times a node is lost, and is back after `replaced` seconds. checkpoint: seconds between two
    checkpoints of live tasks, since when events are replayed."""

    stragglers: float = 0.0
    slowdown: float = 4.0
    spell: float = 5.0
    lost: tuple[float, ...] = ()
    replaced: float = 30.0
    checkpoint: float = 10.0


@dataclass(frozen=True)
class Costs:
    """Seconds of a core for each event. even: of work that any task can do; by_key: of what the task of its key must
    do. fixed: seconds of a batch or a micro-batch whatever its size. base: of the latency of a live task; restore: to
    load the state of a lost task."""

    even: float
    by_key: float
    fixed: float = 0.0
    base: float = 0.0
    restore: float = 0.0

    @property
    def each(self) -> float:
        return self.even + self.by_key


@dataclass(frozen=True)
class Simulated:
    """What happened. time, backlog: at some moments, the events that had come and were not yet done. arrived, latency,
    weight: of events: when, seconds from then to their match, and for how many each stands. done: events. busy: the
    share of the cores' time that work on events took. lengths: of micro-batches."""

    time: np.ndarray
    backlog: np.ndarray
    arrived: np.ndarray
    latency: np.ndarray
    weight: np.ndarray
    done: float
    busy: float
    lengths: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def throughput(self) -> float:
        """Events/s, from the first moment to the last."""
        return self.done / float(self.time[-1])

    def at(self, quantile: float) -> float:
        """The latency within which such a share of the events is answered."""
        order = np.argsort(self.latency)
        below = np.cumsum(self.weight[order])
        return float(self.latency[order][np.searchsorted(below, quantile * below[-1])])

    def over_time(self, width: float, quantile: float = 0.99) -> tuple[np.ndarray, np.ndarray]:
        """(time, latency): the quantile of the events that arrived in each stretch of time."""
        bins = (self.arrived / width).astype(np.int64)
        found = []
        for number in np.unique(bins):
            inside = bins == number
            order = np.argsort(self.latency[inside])
            below = np.cumsum(self.weight[inside][order])
            place = np.searchsorted(below, quantile * below[-1])
            found.append(((number + 0.5) * width, self.latency[inside][order][place]))
        times, values = zip(*found, strict=True)
        return np.array(times), np.array(values)

    def recovery(self, lost: float, tolerance: float = 0.01) -> float:
        """Seconds from the loss of a node until the backlog is again about what it was; infinite if it never is."""
        before = self.time < lost
        usual = float(self.backlog[before][-max(1, before.sum() // 4) :].max()) if before.any() else 0.0
        above = np.flatnonzero(~before & (self.backlog > usual * (1 + tolerance) + 1e-9))
        if not len(above):
            return 0.0
        last = int(above[-1])
        return float(self.time[last + 1] - lost) if last + 1 < len(self.time) else math.inf


# ---- keys and tasks --------------------------------------------------------------------------------------


def shares_of(load: Load, tasks: int, draw: np.random.Generator) -> np.ndarray:
    """The share of the events that each task has: keys fall to tasks at random, the busiest one too."""
    others = max(0, load.keys - 1)
    hottest = max(load.hottest, 1 / load.keys)
    counts = draw.multinomial(others, np.full(tasks, 1 / tasks))
    shares = counts / others * (1 - hottest) if others else np.zeros(tasks)
    shares[draw.integers(tasks)] += hottest
    return shares / shares.sum()


def makespan(work: np.ndarray, cores: int) -> float:
    """When the last task is done, if each free core takes the next one."""
    if cores >= len(work):
        return float(work.max(initial=0.0))
    free = [0.0] * cores
    for one in work:
        heapq.heapreplace(free, free[0] + float(one))
    return max(free)


def _slowed(tasks: int, faults: Faults, draw: np.random.Generator) -> np.ndarray:
    return np.where(draw.random(tasks) < faults.stragglers, faults.slowdown, 1.0)


def _alive(cluster: Cluster, faults: Faults, time: float) -> int:
    """Nodes at a moment; one at least, which has to do all the work."""
    down = sum(lost <= time < lost + faults.replaced for lost in faults.lost)
    return max(1, cluster.nodes - down)


# ---- a batch -----------------------------------------------------------------------------------------------


def simulate_batch(
    cluster: Cluster,
    rows: float,
    costs: Costs,
    load: Load,
    faults: Faults = Faults(),
    *,
    tasks: int | None = None,
    seed: int = 1,
) -> float:
    """Seconds of a batch of two stages: tasks of even work, then tasks by key.

    A node that is lost takes the tasks with it that run there, and what its finished ones have packed: both are done
    again by the others.
    """
    draw = np.random.default_rng(seed)
    count = 2 * cluster.slots if tasks is None else tasks
    first = np.full(count, rows * costs.even / count) * _slowed(count, faults, draw)
    second = rows * costs.by_key * shares_of(load, count, draw) * _slowed(count, faults, draw)
    time = costs.fixed
    for work in (first, second):
        time = _stage(work, cluster, faults, time)
    return time


def _stage(work: np.ndarray, cluster: Cluster, faults: Faults, begin: float) -> float:
    """When a stage is done that begins at a time."""
    cores = _alive(cluster, faults, begin) * cluster.cores
    end = begin + makespan(work, cores)
    for lost in sorted(faults.lost):
        if begin <= lost < end:
            share = 1 / cluster.nodes
            done = (lost - begin) / (end - begin)
            again = float(work.sum()) * share * done
            left = float(work.sum()) * (1 - done) + again
            end = lost + left / (max(1, cluster.nodes - 1) * cluster.cores)
    return end


# ---- micro-batches -----------------------------------------------------------------------------------------


def simulate_micro_batches(
    cluster: Cluster, load: Load, costs: Costs, faults: Faults = Faults(), *, seed: int = 1
) -> Simulated:
    """Micro-batches one after the other, each with what came during the one before.

    Its events are matched by the next one. A lost node's tasks of the running micro-batch are done again by others,
    after they have loaded its state.
    """
    draw = np.random.default_rng(seed)
    shares = shares_of(load, cluster.slots, draw)
    begins, lengths, taken = [0.0], [], [0.0]
    ends: list[float] = []
    busy = 0.0
    seen = 0.0
    while begins[-1] < load.seconds:
        begin, events = begins[-1], taken[-1]
        cores = _alive(cluster, faults, begin) * cluster.cores
        work = events * costs.by_key * shares * _slowed(len(shares), faults, draw)
        length = costs.fixed + events * costs.even / cores + makespan(work, cores)
        for lost in faults.lost:
            if begin <= lost < begin + length:
                left = max(1, cluster.nodes - 1) * cluster.cores
                again = float(work.sum() + events * costs.even) / cluster.nodes
                length += costs.restore + again / left
        busy += events * costs.each
        end = begin + length
        lengths.append(length)
        ends.append(end)
        taken.append(load.rate * (end - seen))
        seen = end
        begins.append(end)
    return _of_batches(load, np.array(begins), np.array(ends), np.array(taken), np.array(lengths), busy, cluster)


def _of_batches(
    load: Load,
    begins: np.ndarray,
    ends: np.ndarray,
    taken: np.ndarray,
    lengths: np.ndarray,
    busy: float,
    cluster: Cluster,
) -> Simulated:
    """Latencies: events of micro-batch i came between the beginnings of i - 1 and of i, and are out with the end of
    i + 1."""
    last = len(ends) - 1
    numbers = np.arange(1, last)
    points = (np.arange(_POINTS) + 0.5) / _POINTS
    arrived = begins[numbers - 1, None] + points * (begins[numbers] - begins[numbers - 1])[:, None]
    latency = ends[numbers + 1, None] - arrived
    weight = np.repeat(taken[numbers] / _POINTS, _POINTS)
    done = float(taken[: last + 1].sum())
    return Simulated(
        begins[1:],
        taken[1:],
        arrived.ravel(),
        latency.ravel(),
        weight,
        done,
        busy / (cluster.slots * float(ends[-1])),
        lengths,
    )


# ---- live tasks --------------------------------------------------------------------------------------------


def simulate_live(
    cluster: Cluster, load: Load, costs: Costs, faults: Faults = Faults(), *, step: float = 0.1, seed: int = 1
) -> Simulated:
    """Live tasks, one for each core: a queue each, which is worked off at the speed of a core.

    The tasks of a lost node stop; when it is back they load their state and replay the events since the last
    checkpoint. Latency is that of an event that joins the queue: what is before it, and the rest of the time without a
    task.
    """
    draw = np.random.default_rng(seed)
    tasks = cluster.slots
    shares = shares_of(load, tasks, draw)
    rates = load.rate * shares
    backlog = np.zeros(tasks)
    slow = np.zeros(tasks, np.bool_)
    down_until = np.zeros(tasks)
    replay = np.zeros(tasks)
    losses = _losses(cluster, faults)
    steps = round(load.seconds / step)
    total, latency = np.zeros(steps), np.zeros((steps, tasks))
    served = 0.0
    for number in range(steps):
        now = number * step
        while losses and losses[0][0] < now + step:
            lost, node = losses.pop(0)
            own = slice(node * cluster.cores, (node + 1) * cluster.cores)
            down_until[own] = lost + faults.replaced + costs.restore
            replay[own] = rates[own] * (lost % faults.checkpoint)
        up = down_until <= now + step / 2
        backlog[up] += replay[up]
        replay[up] = 0.0
        slow = _spells(slow, faults, step, draw)
        each = costs.each * np.where(slow, faults.slowdown, 1.0)
        able = np.where(up, step / each, 0.0)
        arriving = rates * step
        done = np.minimum(backlog + arriving, able)
        backlog += arriving - done
        served += float(done.sum())
        total[number] = backlog.sum()
        latency[number] = costs.base + (backlog + replay) * each + np.maximum(0.0, down_until - now)
    times = (np.arange(steps) + 1) * step
    arrived = np.repeat(times, tasks)
    weight = np.tile(rates * step, steps)
    busy = served * costs.each / (tasks * load.seconds)
    return Simulated(times, total, arrived, latency.ravel(), weight, served, busy)


def _losses(cluster: Cluster, faults: Faults) -> list[tuple[float, int]]:
    """When which node is lost: one after the other."""
    return [(time, number % cluster.nodes) for number, time in enumerate(sorted(faults.lost))]


def _spells(slow: np.ndarray, faults: Faults, step: float, draw: np.random.Generator) -> np.ndarray:
    """Tasks begin and end to be slow at random, so that the share of slow ones is `stragglers` on the average."""
    if not faults.stragglers:
        return slow
    ends = step / faults.spell
    begins = ends * faults.stragglers / (1 - faults.stragglers)
    chance = draw.random(len(slow))
    return np.where(slow, chance >= ends, chance < begins)


def percentiles(found: Simulated, quantiles: Sequence[float] = QUANTILES) -> dict[str, float]:
    """Latencies by share of the events."""
    return {f"{quantile:.0%}": found.at(quantile) for quantile in quantiles}


# ---- costs of a query, from the cost model ------------------------------------------------------------------


def batch_costs(profile: QueryProfile, constants: Constants) -> Costs:
    return _costs(work_of(profile, constants), constants, constants["query"] + constants["commit"])


def micro_batch_costs(profile: QueryProfile, constants: Constants, slots: int) -> Costs:
    floor = constants["batch_floor"] + 2 * slots * constants["dispatch"]
    return _costs(micro_batch_work(profile, constants), constants, floor)


def live_costs(profile: QueryProfile, constants: Constants) -> Costs:
    each = live_work(profile, constants).total * constants["contention"] * NANO
    return Costs(0.0, each, base=constants["live_median"], restore=constants["restart"])


def _costs(work: Work, constants: Constants, fixed: float) -> Costs:
    """Half of the shuffle is read by the task of a key."""
    by_key = sum(work.parts.get(part, 0.0) for part in OF_KEY) + work.parts[SHUFFLE] / 2
    slower = constants["contention"] * NANO
    return Costs((work.total - by_key) * slower, by_key * slower, fixed, restore=constants["restart"])
