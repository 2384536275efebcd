"""Event patterns in one file: what runs on a cluster, from its log, and a pattern of stock prices.

The first two queries are those of the SASE++ paper (Zhang, Diao, Immerman, SIGMOD 2014, table 1), the third is one of
ZStream's (Mei, Madden, SIGMOD 2009).

Run it: python examples/event_patterns.py
"""

import random
from datetime import datetime, timedelta

import episode
from episode.spark.startup.session import session

MAPPERS = """
PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c)
WHERE   skip-till-next-match AND a.job_id = b[i].job_id AND a.job_id = c.job_id
WITHIN  1 day
RETURN  a.job_id, count(b[]) AS mappers, round(avg(b[].period), 1) AS average, max(b[].period) AS longest
"""
# The load of the cluster only rose while such a reducer was at work.
REDUCERS = """
PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c)
WHERE   partition-contiguity AND [task_id] AND b[i].val >= b[i-1].val
WITHIN  10 minutes
RETURN  a.task_id, b[].val AS loads
"""
# Much trade in Google, and then another stock is a fifth above its earlier price.
GOOGLE = """
FROM    stock ORDER BY ts
PATTERN T1; T2^3; T3
WHERE   T1.name = T3.name AND T1.name <> 'Google' AND T2.name = 'Google'
        AND sum(T2.volume) > 1000 AND T3.price > (1 + 20%) * T1.price
WITHIN  10 seconds
RETURN  T1.name, T1.price AS before, sum(T2.volume) AS google_volume, T3.price AS after
"""
BEGIN = datetime(2026, 1, 1)
SEED = 2008
TRADES = [
    ("IBM", 90.0, 100), ("Google", 300.0, 400), ("Sun", 10.0, 50), ("Google", 301.0, 350), ("Google", 299.0, 300),
    ("IBM", 110.0, 80), ("Sun", 11.0, 60), ("Google", 298.0, 100), ("Sun", 13.0, 70), ("IBM", 95.0, 10),
]  # fmt: skip


Logged = tuple[datetime, str, str | None, str | None, int | None, float | None]


def cluster_log() -> list[Logged]:
    """(ts, type, job_id, task_id, period, val) of four jobs that overlap; the same ones every time."""
    chance = random.Random(SEED)
    rows = [row for number in range(1, 5) for row in job_log(number, chance)]
    return sorted(rows, key=lambda row: row[0])


def job_log(number: int, chance: random.Random) -> list[Logged]:
    job, reducer = f"job{number}", f"reducer{number}"
    mappers = [("Mapper", job, f"mapper{number}", chance.randint(5, 60), None) for _ in range(chance.randint(2, 5))]
    loads = [("LoadStd", None, reducer, None, round(chance.random(), 2)) for _ in range(chance.randint(2, 4))]
    events = [
        ("JobStart", job, None, None, None), *mappers, ("ReducerStart", job, reducer, None, None), *loads,
        ("ReducerEnd", job, reducer, None, None), ("JobEnd", job, None, None, None),
    ]  # fmt: skip
    begin = BEGIN + timedelta(seconds=40 * number)
    return [(begin + timedelta(seconds=15 * place), *event) for place, event in enumerate(events)]


def main() -> None:
    spark = session()
    columns = "ts timestamp, type string, job_id string, task_id string, period int, val double"
    log = spark.createDataFrame(cluster_log(), columns)
    trades = [(BEGIN + timedelta(seconds=second), *trade) for second, trade in enumerate(TRADES)]
    stock = spark.createDataFrame(trades, "ts timestamp, name string, price double, volume int")

    episode.match(log, MAPPERS, type_column="type").drop("match_start", "match_end").orderBy("job_id").show()
    episode.match(log, REDUCERS, type_column="type").select("task_id", "loads").orderBy("task_id").show()
    episode.sql(GOOGLE, stock=stock).show(truncate=False)


if __name__ == "__main__":
    main()
