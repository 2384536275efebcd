"""From a demand and a query's profile to a cluster: cores, memory, network, state, settings, and the bottleneck."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.cursor import Cursor
from episode.lang.duration import parse_duration
from episode.lang.lexer import tokenize
from episode.sizing import model
from episode.sizing.constants import Constants
from episode.sizing.model import MICRO_BATCHES, State, StreamPrediction, Work, live_tasks, micro_batches, state_of
from episode.sizing.profile import QueryProfile

SECOND = 1_000_000


@dataclass(frozen=True)
class Demand:
    """Load on a cluster, and the machines to use.

    rate: events/s. keys: number of partition keys. window: seconds that a match may take (None: the query's WITHIN).
    delay: seconds of the watermark. hottest: the share of the busiest key (None: as in the sample, or as all). span,
    finish: a batch over `span` seconds of events is to be done in `finish` seconds. executor_cores, executor_memory: of
    one executor, in bytes at most.
    """

    rate: float
    keys: float
    window: float | None = None
    delay: float = 0.0
    hottest: float | None = None
    span: float = 86_400.0
    finish: float = 3_600.0
    executor_cores: int = 8
    executor_memory: float = 64 * 2.0**30

    def __post_init__(self) -> None:
        if self.hottest is not None and not 0 < self.hottest <= 1:
            message = f"--hot-key {self.hottest:g}: the share of one key in all events is above 0 and at most 1."
            raise EpisodeAnalysisError(message, hint="Write 0.05 if one event in twenty is of the same key.")
        if self.hottest is not None and self.hottest < 1 / self.keys:
            raise EpisodeAnalysisError(
                f"--hot-key {self.hottest:g}: the busiest of {self.keys:,.0f} keys has at least 1/{self.keys:,.0f}.",
                hint="Leave it out where all keys are alike.",
            )


def number(text: str, option: str, *, least: float = 1.0) -> float:
    """Parse a number that is written 1e7, 10000000 or 10_000_000."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise EpisodeAnalysisError(
            f"{option} {text!r} is not a number.", hint="Write for example 1e7, 10000000 or 10,000,000."
        ) from None
    if not math.isfinite(value) or value < least:
        raise EpisodeAnalysisError(f"{option} {text!r} must be a number of at least {least:g}.")
    return value


def seconds(text: str, option: str, *, positive: bool = True) -> float:
    """Parse a duration with a unit, in seconds."""
    try:
        cursor = Cursor(text, tokenize(text))
        duration = parse_duration(cursor)
    except EpisodeError as error:
        raise EpisodeAnalysisError(f"{option} {text!r} is not a duration: {error.message}", hint=error.hint) from None
    if not cursor.at_end or duration.unit is None or (positive and duration.amount == 0):
        message = f"{option} {text!r} is not a duration{' above zero' if positive else ''} with a unit."
        raise EpisodeAnalysisError(message, hint="Write for example '10 minutes', '1 hour 30 minutes' or '500 ms'.")
    return duration.amount / SECOND


BATCH = "batch"
SHARD_BYTES = 256 * 2**20
FAR_ABOVE = 5
"""A key with this many times the rows of an average one is busier than the others."""
NETWORK_BUSY = 0.7
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(frozen=True)
class Machines:
    """Executors of a cluster.

    heap, workers: bytes of one executor, Java's and the Python workers'. network: bytes/s between all executors.
    by_work: executors that the work alone would need; there are more if the state needs their memory.
    """

    cores: int
    executors: int
    executor_cores: int
    heap: float
    workers: float
    network: float
    by_work: int

    @property
    def memory(self) -> float:
        return self.heap + self.workers

    @property
    def together(self) -> float:
        return self.memory * self.executors


@dataclass(frozen=True)
class Deployment:
    """One way to run the query, with its machines and settings.

    partitions: of the shuffle; None without a shuffle. seconds: of a batch; length: of a micro-batch; median, most:
    from an event to its match in a stream. one_key: events/s (in a batch: the share of rows) that one key can have
    before it limits the query. too_hot: whether the busiest key has more. bottleneck: the part that costs most, or what
    limits instead.
    """

    kind: str
    machines: Machines
    work: Work
    busy: float
    partitions: int | None
    seconds: float | None
    length: float | None
    median: float | None
    most: float | None
    one_key: float
    too_hot: bool
    bottleneck: str
    settings: dict[str, str]


@dataclass(frozen=True)
class SizingResult:
    """The result of `episode size`.

    hottest: the share of the busiest key. state: of micro-batches; live_state: of live tasks; None: unbounded.
    """

    demand: Demand
    window: float | None
    profile: QueryProfile
    constants: Constants
    hottest: float
    batch: Deployment
    micro: Deployment
    live: Deployment
    state: State | None
    live_state: State | None

    @property
    def ways(self) -> tuple[Deployment, Deployment, Deployment]:
        return self.batch, self.micro, self.live


def size(demand: Demand, profile: QueryProfile, constants: Constants) -> SizingResult:
    window = profile.within if demand.window is None else demand.window
    keys = demand.keys if profile.keyed else 1.0
    hottest = _hottest(demand, profile, keys)
    micro = micro_batches(demand.rate, keys, profile, constants, delay=demand.delay)
    live = live_tasks(demand.rate, keys, profile, constants, delay=demand.delay)
    state = live_state = None
    if window is not None:
        state = state_of(demand.rate, keys, window, profile, demand.delay + _finite(2 * (micro.length or 0.0)))
        live_state = state_of(demand.rate, keys, window, profile, _finite(live.median))
    return SizingResult(
        demand,
        window,
        profile,
        constants,
        hottest,
        _batch(demand, keys, profile, constants, hottest),
        _stream(micro, demand, profile, constants, hottest, state),
        _stream(live, demand, profile, constants, hottest, live_state),
        state,
        live_state,
    )


def _finite(seconds: float) -> float:
    """Return 0 for the infinite waiting time of a stream that cannot keep up."""
    return seconds if math.isfinite(seconds) else 0.0


def _hottest(demand: Demand, profile: QueryProfile, keys: float) -> float:
    """The share of the busiest key: as given, or as in the sample if one key has far more than others there."""
    if not profile.keyed:
        return 1.0
    if demand.hottest is not None:
        return demand.hottest
    if profile.hottest is not None and profile.hottest > FAR_ABOVE / profile.keys:
        return profile.hottest
    return 1 / keys


def _batch(demand: Demand, keys: float, profile: QueryProfile, constants: Constants, hottest: float) -> Deployment:
    work = model.work_of(profile, constants)
    rows = demand.rate * demand.span
    spread = keys if profile.keyed else math.inf  # slices of time are alike
    shape = {"row_bytes": profile.row_bytes, "keys": spread}
    alone = not (profile.keyed or profile.bounded)
    cores = 1 if alone else model.cores_for_batch(rows, work, constants, demand.finish, **shape)
    predicted = partial(model.predict_batch, rows, work, constants, cores, row_bytes=profile.row_bytes, keys=spread)
    run = predicted()
    cut = profile.bounded
    of_key = predicted(hottest=hottest)
    shown = run if cut else of_key
    alone = alone or of_key.bound_by_key
    tasks = model.match_tasks(rows * profile.row_bytes, cores)
    shard = min(SHARD_BYTES, rows * profile.row_bytes * profile.passing / max(tasks, 1))
    moved = rows * profile.passing * profile.envelope_bytes * profile.wire_share / shown.seconds
    worker = constants["worker"] + constants["worker_factor"] * max(model.TASK_BYTES / 8, shard)
    machines = _machines(cores, demand, constants, worker, moved)
    costs_most = _bottleneck(work, run.fixed / run.seconds, machines, constants)
    return Deployment(
        kind=BATCH,
        machines=machines,
        work=work,
        busy=run.core_seconds / (cores * run.seconds),
        partitions=tasks,
        seconds=shown.seconds,
        length=None,
        median=None,
        most=None,
        one_key=work.second / (work.of_one_key * cores),
        too_hot=alone,
        bottleneck="one key" if alone and not cut else costs_most,
        settings=_settings(machines, {}),
    )


def _stream(
    stream: StreamPrediction,
    demand: Demand,
    profile: QueryProfile,
    constants: Constants,
    hottest: float,
    state: State | None,
) -> Deployment:
    held = 0.0 if state is None else state.bytes
    micro = stream.kind == MICRO_BATCHES
    moved = demand.rate * profile.passing * profile.envelope_bytes * profile.wire_share if micro else 0.0
    machines = _machines(stream.cores, demand, constants, constants["worker"], moved, held)
    floor = 1 - stream.utilisation if micro else 0.0
    too_hot = demand.rate * hottest > stream.one_key or not math.isfinite(stream.median)
    bottleneck = "one key" if too_hot else _bottleneck(stream.work, floor, machines, constants)
    further = {"episode.start(tasks=…)": str(machines.cores)}
    if micro:
        store = {"spark.sql.streaming.stateStore.providerClass": ROCKSDB}
        further = {"spark.sql.shuffle.partitions": str(machines.cores), **store}
    return Deployment(
        kind=stream.kind,
        machines=machines,
        work=stream.work,
        busy=stream.utilisation,
        partitions=machines.cores if micro else None,
        seconds=None,
        length=stream.length,
        median=stream.median,
        most=stream.most,
        one_key=stream.one_key,
        too_hot=too_hot,
        bottleneck=bottleneck,
        settings=_settings(machines, further),
    )


def _machines(
    cores: int, demand: Demand, constants: Constants, worker: float, moved: float, held: float = 0.0
) -> Machines:
    """Executors of the requested size, more of them if the state needs their memory. worker: bytes of a core's worker.
    moved: bytes/s of the shuffle, a part of which stays on its machine. held: bytes of the state."""
    each = min(cores, demand.executor_cores)
    heap = constants["heap"] + each * constants["heap_core"]
    state = held * constants["state_factor"]
    room = demand.executor_memory - heap - each * worker
    if room <= 0:
        raise EpisodeAnalysisError(
            f"--executor-memory {demand.executor_memory / 2**30:g}: an executor of {each} cores needs "
            f"{(heap + each * worker) / 2**30:.1f} GiB before it holds any state.",
            hint="Give executors more memory or, with --executor-cores, fewer cores.",
        )
    executors = max(-(-cores // each), math.ceil(state / room))
    workers = each * worker + state / executors
    return Machines(executors * each, executors, each, heap, workers, moved * (1 - 1 / executors), -(-cores // each))


def _bottleneck(work: Work, fixed: float, machines: Machines, constants: Constants) -> str:
    """Name the bottleneck: the network, fixed costs of a run, or a part of the work. fixed: their share."""
    if machines.network / machines.executors > NETWORK_BUSY * constants["network"]:
        return "network"
    if machines.executors > machines.by_work:
        return "memory of the state"
    return "fixed costs" if fixed > 0.5 else work.largest


def _settings(machines: Machines, further: dict[str, str]) -> dict[str, str]:
    def mebibytes(size: float) -> str:
        return f"{math.ceil(size / 2**20 / 256) * 256}m"

    return {
        "spark.executor.instances": str(machines.executors),
        "spark.executor.cores": str(machines.executor_cores),
        "spark.executor.memory": mebibytes(machines.heap),
        "spark.executor.memoryOverhead": mebibytes(machines.workers),
        "spark.python.daemon.module": "episode.spark.daemon",
        **further,
    }
