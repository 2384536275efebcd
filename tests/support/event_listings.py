"""The listings of the ZStream and SASE++ papers with data for them.

ZStream's Queries 1 to 8 as printed, with numbers for x, y and v, and [ip] for "same IP address". Of SASE++ Q1 and Q6
are printed; Q2 to Q5 are written from their descriptions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

STOCK_SCHEMA = "id int, name string, price double, volume int, ts long"
LOG_SCHEMA = "event string, job_id int, task_id int, period double, val double, size long, ts timestamp"
WEB_SCHEMA = "ts timestamp, ip string, page string"
BEGIN = datetime(2026, 3, 2, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Listing:
    text: str
    data: str
    options: dict[str, Any] = field(default_factory=dict)


STOCKS, STOCKS_BY_NAME = {"time": "ts"}, {"time": "ts", "type_column": "name"}
LOG = {"time": "ts", "type_column": "event"}

LISTINGS = {
    "ZStream 1": Listing(
        "PATTERN T1; T2; T3 WHERE T1.name = T3.name AND T2.name = ‘Google’ AND T1.price > (1 + 1%) * T2.price "
        "AND T3.price < (1 - 1%) * T2.price WITHIN 10 units RETURN T1, T2, T3",
        "stocks", STOCKS,
    ),
    "ZStream 2": Listing(
        "PATTERN T1; !T2; T3 WHERE T1.name = T2.name = T3.name AND T1.price > 20 AND T2.price < 20 "
        "AND T3.price > 20 * (1 + 20%) WITHIN 10 units RETURN T1, T3",
        "stocks", STOCKS,
    ),
    "ZStream 3": Listing(
        "PATTERN T1; T2^5; T3 WHERE T1.name = T3.name WHERE T2.name = ‘Google’ AND sum(T2.volume) > 240 "
        "AND T3.price > (1 + 20%) * T1.price WITHIN 30 units RETURN T1, sum(T2.volume), T3",
        "stocks", STOCKS,
    ),
    "ZStream 4": Listing(
        "PATTERN IBM; Sun; Oracle WHERE IBM.price > Sun.price WITHIN 12 units", "stocks", STOCKS_BY_NAME
    ),
    "ZStream 5": Listing("PATTERN IBM; Sun; Oracle WITHIN 10 units", "stocks", STOCKS_BY_NAME),
    "ZStream 6": Listing(
        "PATTERN IBM; Sun; Oracle; Google WHERE Oracle.price > Sun.price AND Oracle.price > Google.price "
        "WITHIN 12 units",
        "stocks", STOCKS_BY_NAME,
    ),
    "ZStream 7": Listing("PATTERN IBM; !Sun; Oracle WITHIN 20 units", "stocks", STOCKS_BY_NAME),
    "ZStream 8": Listing(
        "PATTERN Publication; Project; Course WHERE [ip] WITHIN 10 hours", "web", {"time": "ts", "type_column": "page"}
    ),
    "SASE++ 1": Listing(
        "PATTERN SEQ(JobStart a, Mapper+ b[], JobEnd c) WHERE a.job_id = b[i].job_id AND a.job_id = c.job_id "
        "WITHIN 1 day RETURN avg(b[].period), max(b[].period)",
        "log", LOG,
    ),
    "SASE++ 2": Listing(
        "PATTERN SEQ(JobStart a, Reducer+ b[], JobEnd c) WHERE [job_id] AND skip-till-next-match WITHIN 1 day "
        "RETURN a.job_id, avg(b[].period) AS average, max(b[].period) AS longest",
        "log", LOG,
    ),
    "SASE++ 3": Listing(
        "PATTERN SEQ(JobStart a, Reducer+ b[], Reducer c, JobEnd d) WHERE [job_id] "
        "AND c.period > 2 * avg(b[].period) WITHIN 1 day RETURN c.task_id, c.period, avg(b[].period) AS others",
        "log", LOG,
    ),
    "SASE++ 4": Listing(
        "PATTERN SEQ(JobStart a, Mapper+ b[], Reducer c) WHERE [job_id] AND skip_till_next_match WITHIN 1 day "
        "RETURN a.job_id, sum(b[].size) - c.size AS queued",
        "log", LOG,
    ),
    "SASE++ 5": Listing(
        "PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c) WHERE [task_id] "
        "AND b[i].val > avg(b[..i-1].val) WITHIN 10 minutes RETURN a.task_id, count(b[]) AS samples",
        "log", LOG,
    ),
    "SASE++ 6, option 1": Listing(
        "PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c) WHERE [task_id] AND b[i].val >= b[i-1].val "
        "WITHIN 10 minutes RETURN a.task_id",
        "log", LOG,
    ),
    "SASE++ 6, option 2": Listing(
        "PATTERN SEQ(ReducerStart a, LoadStd+ b[], ReducerEnd c) WHERE [task_id] "
        "∧ b[i].val ≥ max(b[1..i-1].val) WITHIN 10 minutes RETURN a.task_id",
        "log", LOG,
    ),
}  # fmt: skip


def stocks(count: int = 160, seed: int = 5) -> list[tuple]:
    draw = random.Random(seed)
    names = ["IBM", "Sun", "Oracle", "Google"]
    return [(i, draw.choice(names), float(draw.randrange(10, 40)), draw.randrange(10, 90), i) for i in range(count)]


def web(count: int = 300, seed: int = 6) -> list[tuple]:
    draw = random.Random(seed)
    pages = ["Publication", "Project", "Course", "Other"]
    return [
        (BEGIN + timedelta(minutes=10 * i), f"10.0.0.{draw.randrange(8)}", draw.choice(pages)) for i in range(count)
    ]


def log(jobs: int = 4, seed: int = 7) -> list[tuple]:
    draw = random.Random(seed)
    rows: list[tuple] = []

    def add(at: float, event: str, job: int, task: int | None = None, period: float | None = None,
            val: float | None = None, size: int | None = None) -> None:  # fmt: skip
        rows.append((event, job, task, period, val, size, BEGIN + timedelta(seconds=at)))

    for job in range(jobs):
        at = job * 300.0
        add(at, "JobStart", job)
        for task in range(5):
            add(at + 10 + task, "Mapper", job, task, float(draw.randrange(5, 60)), None, draw.randrange(100, 900))
        for task in range(5):
            number = 100 * job + task
            begin = at + 40 + 30 * task
            add(begin, "ReducerStart", job, number)
            for sample in range(5):
                add(begin + 2 + 4 * sample, "LoadStd", job, number, None, draw.randrange(100) / 100)
            add(begin + 26, "ReducerEnd", job, number)
            add(begin + 27, "Reducer", job, number, float(draw.choice([10, 12, 14, 50])), None, draw.randrange(50, 90))
        add(at + 250, "JobEnd", job)
    return sorted(rows, key=lambda row: row[-1])


DATA = {"stocks": (stocks, STOCK_SCHEMA), "web": (web, WEB_SCHEMA), "log": (log, LOG_SCHEMA)}
