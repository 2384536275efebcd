"""Every case that a live query may run, through the loop of live tasks: planned from its text over declared streams,
appended in pieces, in one task or two, pulled, pushed and adaptive; the rows are those that the case says.

(`tests/spark/test_live_tasks.py` has some of them with Spark around.)
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeError
from episode.lang.statement import parse_statement
from episode.live.inputs import StoreInputs
from episode.live.protocol import Position, TaskOptions
from episode.live.task import LiveTask
from episode.matchers.ordering import order_image
from episode.matchers.protocol import OrderKey
from episode.plan.types import is_event_time, is_integer
from episode.queries.live import plan_live
from episode.queries.live_plan import LivePlan
from episode.queries.live_start import LiveOutput, describe_tasks
from episode.store.catalog import Catalog, declare
from episode.store.stream import StreamStore
from tests.conformance.cases import LANGUAGES, Case, Table, all_cases, comparable
from tests.conformance.values import YEAR_MONTH

MOST = 2**61
"""Beyond this is what a watermark cannot say."""
PIECES = 7
LAST = {
    "date": date(2210, 1, 1),
    "timestamp": datetime(2210, 1, 1, tzinfo=timezone.utc),
    "timestamp_ntz": datetime(2210, 1, 1),
}
LEAST = {"rows": 400, "events": 40, "situations": 35}
"""How many cases of each language run live, at least."""


@dataclass(frozen=True)
class Live:
    """A case over a stream of its one table. time, keys: of the stream."""

    case: Case
    table: Table
    time: str
    keys: tuple[str, ...]
    times: np.ndarray = field(compare=False)

    @property
    def numeric(self) -> bool:
        return is_integer(self.table.types[self.time])

    @property
    def end(self) -> int | str:
        return int(self.times.max(initial=0)) + 1000 if self.numeric else "2200-01-01 00:00:00"

    @property
    def has_ties(self) -> bool:
        rows = [tuple(row.values()) for row in self.table.arrow.select([*self.keys, self.time]).to_pylist()]
        return len({repr(row) for row in rows}) < len(rows)

    def plan(self, place: Path, delay: int, tasks: int) -> tuple[LivePlan, StreamStore, Catalog]:
        catalog = Catalog(place)
        declaration = declare(
            self.table.name,
            list(self.table.types.items()),
            time=self.time,
            key=self.keys,
            lanes=4,
            options={"sync": "false"},
        )
        store = StreamStore(catalog.create(replace(declaration, delay=delay)))
        options = replace(self.case.options, stream=episode.StreamOptions(end=self.end))
        plan = plan_live(self.case.query, catalog, options)
        return plan, store, catalog

    def arriving(self, shuffled: bool) -> tuple[pa.Table, int]:
        """The rows in order of time, or so that none comes `delay` or more after a later one; and the delay."""
        delay = int(self.times.max() - self.times.min()) // 3 + 1 if shuffled and len(self.times) else 1
        draw = random.Random(len(self.times))
        jitter = np.array([draw.randrange(delay) for _ in self.times], np.int64)
        order = np.argsort(self.times + jitter, kind="stable")
        return self.table.arrow.take(pa.array(order)), delay

    def marker(self, schema: pa.Schema, delay: int) -> pa.Table:
        """An event that lets the watermark pass the end."""
        when: Any = int(self.end) + delay + 1 if self.numeric else LAST[self.table.types[self.time]]
        return pa.Table.from_pylist([{self.time: when}], schema=schema)


@dataclass
class Collected:
    """A sink of this process."""

    tables: list[pa.Table] = field(default_factory=list)

    def open(self, query: str, task: int) -> Collected:
        return self

    def last_position(self) -> Position | None:
        return None

    def write(self, matches: pa.Table, after: Position) -> None:
        self.tables.append(matches)

    def flush(self, after: Position) -> None: ...

    def close(self) -> None: ...


def live_of(case: Case, place: Callable[[], Path]) -> Live | None:
    """The case as a live query, if it may be one."""
    tables = case.used_tables()
    if case.error is not None or len(tables) != 1 or "spark" in case.fails_on:
        return None
    (table,) = tables
    if YEAR_MONTH in table.types.values():
        return None
    if not _says_its_time(case):
        return None  # over a stream it is in order of the declared event time, and the case of arrival
    times = [name for name, type_ in table.types.items() if is_event_time(type_)]
    for time in times:
        column = table.arrow.column(time)
        if column.null_count:
            continue
        image = order_image(table.arrow, OrderKey(time)).time() if len(column) else np.empty(0, np.int64)
        if len(image) and np.abs(image).max() > MOST:
            continue
        try:
            found = Live(case, table, time, (), image)
            plan, store, _ = found.plan(place(), 1, 1)
            found.marker(store.schema, found.arriving(True)[1])  # must fit the type of the time
        except (EpisodeError, pa.ArrowInvalid):
            continue
        own = tuple(key for key in plan.spec.input_order.keys if key in table.types)
        return replace(found, keys=own)
    return None


def _says_its_time(case: Case) -> bool:
    if case.language == "rows":
        return all(pattern.query.order_by for pattern in parse_statement(case.query).patterns)
    query = case.whole()
    (table,) = case.used_tables()
    stamps = [type_ for type_ in table.types.values() if type_.startswith("timestamp")]
    return query is not None and (query.input.time is not None or len(stamps) == 1)


@cache
def lives() -> tuple[Live, ...]:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        places = (Path(directory) / str(number) for number in range(10**9))
        found = [live_of(case, lambda: next(places)) for language in LANGUAGES for case in all_cases(language)]
    return tuple(one for one in found if one is not None)


def rows_of(live: Live, place: Path, handling: str, shuffled: bool, tasks: int) -> list[dict[str, Any]]:
    """What the tasks put out, one after the other."""
    arriving, delay = live.arriving(shuffled)
    plan, store, _ = live.plan(place / "catalog", delay, tasks)
    for piece in range(PIECES):
        begin, end = (arriving.num_rows * (piece + at) // PIECES for at in (0, 1))
        store.append(arriving.slice(begin, end - begin))
    store.append(live.marker(store.schema, delay))
    sink = Collected()
    output = LiveOutput(sink, plan.finish, "this process")
    options = TaskOptions(handling=handling, batch_rows=2, step_rows=5)  # type: ignore[arg-type]
    inputs = StoreInputs(plan.streams)
    for description in describe_tasks(plan, output, inputs, str(place / "checkpoint"), tasks, options):
        said = LiveTask(description).run()
        assert said["ended"]
        assert said["late"] == 0
    return [row for table in sink.tables for row in table.to_pylist()]


HANDLINGS = [
    pytest.param("adaptive"),
    pytest.param("push", marks=pytest.mark.live),
    pytest.param("pull", marks=pytest.mark.live),
]
WAYS = [(False, 1), (True, 1), (True, 2)]


@pytest.mark.filterwarnings("ignore:The state of this stream is not bounded")
@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("part", range(8))
def test_cases_run_live(tmp_path: Path, handling: str, part: int) -> None:
    wrong = []
    for number, live in list(enumerate(lives()))[part::8]:
        shuffled, tasks = WAYS[number % len(WAYS)]
        shuffled = shuffled and not live.has_ties
        tasks = tasks if live.keys else 1
        found = rows_of(live, tmp_path / str(number), handling, shuffled, tasks)
        case = live.case
        if comparable(found, case.types, False) != case.expected(False):
            wrong.append(f"{case.id}: {found} instead of {case.rows}")
    assert not wrong, "\n\n".join(wrong)


def test_most_cases_run_live() -> None:
    counts = {language: len([one for one in lives() if one.case.language == language]) for language in LANGUAGES}
    print(counts)
    assert all(counts[language] >= LEAST[language] for language in LANGUAGES), counts
