"""Watching a compute cluster: the six queries of the SASE++ paper's case study (Zhang, Diao, Immerman, section 6.5).

The log is generated: jobs with mappers and reducers, the spread of the load over the nodes every 15 seconds, and the
data that waits for the reducers. Planted in it are reducers that pull their data slowly, and reducers that leave the
load more and more uneven. `docs/cluster-monitoring.md` tells the story.

Run it: python examples/cluster_monitoring.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import episode
from episode.spark.startup.session import session

MAPPERS = """
PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c)
WHERE   skip-till-next-match AND a.job_id = b[i].job_id AND a.job_id = c.job_id
WITHIN  1 day
RETURN  a.job_id, count(b[]) AS mappers, round(avg(b[].period), 1) AS average, round(max(b[].period), 1) AS longest
"""
REDUCERS = """
PATTERN SEQ(JobStart a, Reducer+ b[], JobEnd c)
WHERE   skip-till-next-match AND [job_id]
WITHIN  1 day
RETURN  a.job_id, count(b[]) AS reducers, round(avg(b[].period), 1) AS average, round(max(b[].period), 1) AS longest
"""
# A reducer that takes twice as long to pull its data as those before it on average.
STRAGGLERS = """
PATTERN SEQ(JobStart a, DataPull+ b[], DataPull c)
WHERE   skip-till-next-match AND [job_id] AND c.period > 2 * avg(b[].period) AND count(b[]) >= 3
WITHIN  1 day
RETURN  c.job_id, c.task_id, c.period
"""
# How much data waited for the reducers of a job, from its beginning to its end.
QUEUES = """
PATTERN SEQ(JobStart a, QueueSize+ b[], JobEnd c)
WHERE   skip-till-next-match AND [job_id]
WITHIN  1 day
RETURN  a.job_id, b[].val AS sizes, max(b[].val) AS peak
"""
# The load is uneven while a reducer is at work. Its readings come every 15 seconds: when, within these, is not known.
UNEVEN = """
PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c)
WHERE   [task_id] AND b[i].val > 0.6
WITHIN  10 minutes
CONFIDENCE >= 0.8
RETURN  a.task_id, count(b[]) AS readings
"""
# The load becomes more and more uneven: how many rising series of readings are there in the life of a reducer?
RISING = """
PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c)
WHERE   [task_id] AND b[i].val >= b[i-1].val
WITHIN  10 minutes
AGGREGATE count(*) AS series, count(b[]) AS readings
GROUP BY a.task_id
"""

BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
SECOND = 1_000_000
READING = 15 * SECOND
"""Readings of the load and of the queues come every 15 seconds."""
TIMESTAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("ts", TIMESTAMP), ("lo", TIMESTAMP), ("hi", TIMESTAMP), ("type", pa.string()), ("job_id", pa.int64()),
        ("task_id", pa.int64()), ("period", pa.float64()), ("val", pa.float64()),
    ]
)  # fmt: skip
TYPES = (
    "JobStart", "JobEnd", "Mapper", "Reducer", "ReducerStart", "ReducerEnd", "DataPull", "LoadStd", "QueueSize"
)  # fmt: skip


@dataclass(frozen=True)
class ClusterLog:
    """events: ordered by time. stragglers, uneven: the reducers that were planted."""

    events: pa.Table
    stragglers: list[int]
    uneven: list[int]


def cluster_log(jobs: int = 40, *, jobs_per_hour: int = 60, seed: int = 2014, first_job: int = 0) -> ClusterLog:
    """The log of some jobs, the same every time; about 280 events for each.

    An event has a time, and an interval lo .. hi in which it surely happened: that of a reading is 15 seconds long.
    first_job: jobs and tasks are numbered from there on, and are later by as many jobs.
    """
    rng = np.random.default_rng(seed)
    begin = np.sort(rng.integers(0, jobs * 3600 * SECOND // jobs_per_hour, jobs))
    mappers, reducers = rng.integers(20, 60, jobs), rng.integers(8, 17, jobs)
    job_of_mapper, job_of_reducer = np.repeat(np.arange(jobs), mappers), np.repeat(np.arange(jobs), reducers)
    tasks = len(job_of_mapper) + len(job_of_reducer)
    mapper, reducer = np.arange(len(job_of_mapper)), np.arange(len(job_of_mapper), tasks)
    straggles = _planted(rng, job_of_reducer, share=0.02)
    uneven = _planted(rng, job_of_reducer, share=0.03) & ~straggles

    seconds = rng.normal(90, 15, len(mapper)).clip(30)
    mapped = begin[job_of_mapper] + _micros(rng.uniform(0, 60, len(mapper)) + seconds)
    pull = np.where(straggles, 4.0, 1.0) * rng.uniform(20, 30, len(reducer))
    started = begin[job_of_reducer] + _micros(rng.uniform(60, 120, len(reducer)))
    ended = started + _micros(pull + rng.uniform(150, 210, len(reducer)))
    done = np.maximum(_latest(mapped, job_of_mapper, jobs), _latest(ended, job_of_reducer, jobs)) + SECOND

    parts = [
        _events("JobStart", begin, np.arange(jobs)),
        _events("JobEnd", done, np.arange(jobs)),
        _events("Mapper", mapped, job_of_mapper, mapper, period=seconds),
        _events("ReducerStart", started, job_of_reducer, reducer),
        _events("DataPull", started + _micros(pull), job_of_reducer, reducer, period=pull),
        _events("ReducerEnd", ended, job_of_reducer, reducer),
        _events("Reducer", ended + 1, job_of_reducer, reducer, period=(ended - started) / SECOND),
        _loads(rng, started, ended, reducer, uneven),
        _queues(begin, done, mapped, job_of_mapper, ended, job_of_reducer),
    ]
    table = pa.concat_tables(parts)
    order = np.argsort(table.column("ts").to_numpy(), kind="stable")
    table = table.take(order)
    if first_job:
        later = np.timedelta64(first_job * 3600 * SECOND // jobs_per_hour, "us")
        for at, name in enumerate(("ts", "lo", "hi")):
            table = table.set_column(at, SCHEMA.field(name), pc.add(table.column(name), pa.scalar(later)))
        for name in ("job_id", "task_id"):
            more = pc.add(table.column(name), first_job * 100)
            table = table.set_column(table.column_names.index(name), SCHEMA.field(name), more)
    return ClusterLog(
        table, (reducer[straggles] + first_job * 100).tolist(), (reducer[uneven] + first_job * 100).tolist()
    )


def _planted(rng: np.random.Generator, job: np.ndarray, share: float) -> np.ndarray:
    """Some tasks, but none of the first four of a job."""
    first = np.searchsorted(job, job)
    return (rng.random(len(job)) < share) & (np.arange(len(job)) - first >= 4)


def _loads(
    rng: np.random.Generator, started: np.ndarray, ended: np.ndarray, task: np.ndarray, uneven: np.ndarray
) -> pa.Table:
    """The spread of the load, read every 15 seconds while a reducer is at work: low, or rising to the end."""
    which, number, at = _readings(started, ended)
    count = np.bincount(which, minlength=len(task))[which]
    rising = 0.3 + 0.5 * (number + 1) / count
    return _events(
        "LoadStd", at, None, task[which], val=np.where(uneven[which], rising, rng.uniform(0.1, 0.4, len(at)))
    )


def _queues(
    begin: np.ndarray, done: np.ndarray, mapped: np.ndarray, job_of_mapper: np.ndarray,
    ended: np.ndarray, job_of_reducer: np.ndarray,
) -> pa.Table:  # fmt: skip
    """Data that waits for the reducers of a job: each mapper brings some, each reducer takes its share away."""
    which, _, at = _readings(begin, done)
    brought = _before(mapped, job_of_mapper, at, which)
    share = np.bincount(job_of_mapper)[which] / np.bincount(job_of_reducer)[which]
    waiting = (brought - share * _before(ended, job_of_reducer, at, which)).clip(0)
    return _events("QueueSize", at, which, val=waiting)


def _readings(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(of which, the how manyth, time) of readings every 15 seconds between the beginnings and the ends."""
    first = (begin // READING + 1) * READING
    counts = np.maximum(0, (end - 1 - first) // READING + 1)
    which = np.repeat(np.arange(len(begin)), counts)
    number = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, number, first[which] + number * READING


def _before(times: np.ndarray, group: np.ndarray, at: np.ndarray, which: np.ndarray) -> np.ndarray:
    """How many times of its group are before each moment; groups lie one after the other on a longer axis of time."""
    axis = 1 + max(int(times.max(initial=0)), int(at.max(initial=0)))
    placed = np.sort(group * axis + times)
    return np.searchsorted(placed, which * axis + at) - np.searchsorted(placed, which * axis)


def _events(
    type_: str, at: np.ndarray, job: np.ndarray | None, task: np.ndarray | None = None,
    period: np.ndarray | None = None, val: np.ndarray | None = None,
) -> pa.Table:  # fmt: skip
    count = len(at)
    times = pa.array(BEGIN + at, TIMESTAMP)
    earliest = pa.array(BEGIN + at - (READING - SECOND if type_ == "LoadStd" else 0), TIMESTAMP)

    def column(values: np.ndarray | None, kind: pa.DataType) -> pa.Array:
        return pa.nulls(count, kind) if values is None else pa.array(values, kind)

    columns = [
        times, earliest, times, pa.array(np.full(count, type_)), column(job, pa.int64()), column(task, pa.int64()),
        column(period, pa.float64()), column(val, pa.float64()),
    ]  # fmt: skip
    return pa.table(columns, schema=SCHEMA)


def _micros(seconds: np.ndarray) -> np.ndarray:
    return (seconds * SECOND).astype(np.int64)


def _latest(times: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    found = np.zeros(groups, np.int64)
    np.maximum.at(found, group, times)
    return found


def main() -> None:
    spark = session()
    log = cluster_log()
    events = spark.createDataFrame(log.events)
    precise = {"time": "ts", "type_column": "type"}
    for title, query in (("Q1: mappers", MAPPERS), ("Q2: reducers", REDUCERS)):
        print(title)
        episode.match(events, query, **precise).drop("match_start", "match_end").orderBy("job_id").show(3)
    print("Q3: reducers that pull their data slowly; planted:", sorted(log.stragglers))
    episode.match(events, STRAGGLERS, **precise).select("job_id", "task_id", "period").distinct().orderBy(
        "task_id"
    ).show()
    print("Q4: data that waits for reducers")
    episode.match(events, QUEUES, **precise).orderBy("job_id").select("job_id", "peak", "sizes").show(3)
    print("Q5: reducers with uneven load; planted:", sorted(log.uneven))
    found = episode.match(events, UNEVEN, time=("lo", "hi"), type_column="type", granularity="1 second")
    found.groupBy("task_id").count().orderBy("task_id").show()
    print("Q6: rising series of readings")
    episode.match(events, RISING, **precise).orderBy("series", ascending=False).show(len(log.uneven))


if __name__ == "__main__":
    main()
