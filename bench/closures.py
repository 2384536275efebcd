"""Streams for closures, and queries over them in process: what the experiments after SASE++'s evaluation share.

Timed is everything that a worker does with the events of a shard: finding the matches and making their rows; on one
core; the clock counts the seconds that the core worked for this process.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import median, say
from episode import Options
from episode.errors import EpisodeDataError
from episode.lang.events.parser import parse_event_query
from episode.matchers.running import LocalRun
from episode.matchers.spark_types import spark_name
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages import language_of

SEED = 2014
SCHEMA = pa.schema(
    [("ts", pa.int64()), ("lo", pa.int64()), ("hi", pa.int64()), ("type", pa.string()), ("val", pa.float64())]
)


@dataclass(frozen=True)
class Rates:
    """Shares of the classes A, B and C; the rest of the events is of class D. highest: values of C are uniform in
    [0, highest), all others in [0, 1)."""

    a: float
    b: float
    c: float
    highest: float = 1.0


def stream(rows: int, rates: Rates, uncertain: int = 1, seed: int = SEED) -> pa.Table:
    """One event for each unit of time. uncertain: points of the interval lo .. hi that has the time in it."""
    random = np.random.default_rng([seed, rows])
    shares = [rates.a, rates.b, rates.c, max(0.0, 1.0 - rates.a - rates.b - rates.c)]
    code = random.choice(4, rows, p=np.array(shares) / sum(shares))
    value = random.random(rows)
    value[code == 2] *= rates.highest
    ts = np.arange(rows, dtype=np.int64)
    lo = ts - random.integers(0, uncertain, rows)
    names = np.array(["A", "B", "C", "D"], object)[code]
    columns = [ts, lo, lo + uncertain - 1, pa.array(names, pa.string()), value]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


@dataclass(frozen=True)
class Task:
    """A query over a stream of events. limit: seconds after which a contender is not asked for more runs."""

    text: str
    options: Options = field(default_factory=Options)
    given: Given = field(default_factory=lambda: Given(time="ts", type_column="type"))


@dataclass(frozen=True)
class Result:
    """seconds: of the core. rows: that came out. value: of the column `matches` or `trends`, added up; else rows."""

    seconds: float
    events: int
    rows: int
    value: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds


def run(task: Task, table: pa.Table) -> Result | None:
    """One run of a query; None where it ends in an error that says it is too much."""
    query = parse_event_query(task.text)
    schema = InputSchema({one.name: spark_name(one.type) for one in table.schema})
    plan = language_of(query).bind(query, Input(schema), task.given, task.options.run())
    spec = language_of(query).spec(plan, table.schema)
    running = LocalRun(spec)
    events = running.events(table)
    gc.collect()
    begin = time.process_time()
    rows, value = 0, 0.0
    names = {one.name: one.sql.strip(" `") for one in plan.result.columns if one.name in ("matches", "trends")}
    try:
        for part in (running.matcher.feed, None):
            for out in running.matcher.finish() if part is None else part(events, int(events.time.max())):
                rows += out.num_rows
                for column in names.values():
                    value += float(sum(one for one in out.column(column).to_pylist() if one is not None))
    except EpisodeDataError as error:
        say(str(error).splitlines()[0])
        return None
    return Result(time.process_time() - begin, len(events), rows, value if names else float(rows))


def side_by_side(setting: str, tasks: dict[str, Task], table: pa.Table, runs: int) -> dict[str, Result | None]:
    """Each task once without counting, then all in turns; medians. A task that fails or is very slow runs once."""
    first = {name: run(task, table) for name, task in tasks.items()}
    taken: dict[str, list[Result]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            known = first[name]
            if known is not None and (known.seconds < 10 or not taken[name]):
                again = run(task, table) if known.seconds < 10 else known
                assert again is not None
                taken[name].append(again)
    found: dict[str, Result | None] = {}
    for name, several in taken.items():
        if not several:
            found[name] = None
            say(f"{setting}, {name}: ended")
            continue
        last = several[-1]
        found[name] = Result(median([one.seconds for one in several]), last.events, last.rows, last.value)
        say(f"{setting}, {name}: {found[name].seconds:.4f} s, {found[name].rate:,.0f} events/s, {last.value:,.0f}")  # type: ignore[union-attr]
    return found


def shown_rate(result: Result | None) -> str:
    return "—" if result is None else f"{result.rate:,.0f}"


def agree(setting: str, found: dict[str, Result | None], names: tuple[str, ...]) -> None:
    """All that came to an end must have found as many matches."""
    values: dict[str, Any] = {name: found[name].value for name in names if found.get(name) is not None}  # type: ignore[union-attr]
    if len(set(values.values())) > 1:
        raise SystemExit(f"{setting}: {values}")
