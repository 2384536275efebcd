"""Every single-clause case that a stream may run, through Structured Streaming: in 1, 7 and 50 micro-batches, in order
and shuffled within the delay of the watermark, as over a table.

All cases together are one stream (`tests/spark/many.py`): their rows come in order of event time, so one watermark
passes through all of them. Each case is run as a query of its own as well. One way and a few cases belong to
`make test-live`, all of them to the long run (`make test-long`).
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.conformance.cases import Case, Table, cases_for, comparable
from tests.conformance.test_conformance_in_streams import has_ties
from tests.spark.test_conformance_on_spark import frame_of
from tests.support import many
from tests.support import rows as in_process
from tests.support.streams import Files, counters

import episode
from episode.api import Options
from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.syntax import Source
from episode.matchers.columns import from_bytes, to_bytes
from episode.matchers.ordering import order_image
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.running import LocalRun
from episode.matchers.running import run as run_in_process
from episode.plan.event_time import EventTime
from episode.plan.options import RunOptions, StreamOptions
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.stream import event_time_of
from episode.plan.schema import InputSchema
from episode.plan.types import is_integer
from episode.spark.expressions import input_schema
from episode.spark.stream.runtime import plan_stream

pytestmark = [pytest.mark.spark, pytest.mark.live, pytest.mark.usefixtures("rocksdb", "utc")]

cloudpickle.register_pickle_by_value(many)

WAYS = [(pieces, shuffled) for pieces in (1, 7, 50) for shuffled in (False, True)]
SHORT = (7, True)
"""The way of `make test-live`; the others are for the long run."""


@dataclass(frozen=True)
class Kind:
    """Event times of one kind: the type in the stream, the delay of the watermark, the end of the stream."""

    type: str
    delay: int
    end: int | str
    last: int

    @property
    def columns(self) -> str:
        return f"query int, key string, time {self.type}, rank long, row binary"

    @property
    def arrow(self) -> pa.Schema:
        time = pa.int64() if self.type == "bigint" else pa.timestamp("us", tz="UTC")
        types = (pa.int32(), pa.string(), time, pa.int64(), pa.binary())
        return pa.schema(list(zip(many.COLUMNS, types)))


MOST = 2**61
"""Beyond this is what a watermark cannot say."""
NUMBERS = Kind("bigint", delay=3, end=10**12, last=2 * 10**12)
MINUTE = 60_000_000
CALENDAR = Kind("timestamp", delay=15 * MINUTE, end="2200-01-01 00:00:00", last=8_000_000_000_000_000)


@dataclass(frozen=True)
class Run:
    """A case with its plan and its table, derived columns included."""

    case: Case
    spec: RowPatternSpec
    table: pa.Table
    time: EventTime

    @property
    def kind(self) -> Kind:
        return NUMBERS if is_integer(self.time.type) else CALENDAR

    def rows(self, number: int) -> pa.Table:
        """The rows as those of one stream of many."""
        events = LocalRun(self.spec).events(self.table)
        keys = events.table.select(list(self.spec.input_order.keys)).to_pylist()
        blobs = [to_bytes(events.table.slice(at, 1)) for at in range(len(events))]
        texts = [repr(list(key.values())) for key in keys] or [""] * len(events)
        rows = zip(texts, events.time.tolist(), range(len(events)), blobs)
        return pa.Table.from_pylist([dict(zip(many.COLUMNS, (number, *row))) for row in rows], self.kind.arrow)

    def in_batch(self) -> pa.Table:
        return run_in_process(self.spec, self.table)

    def verify(self, output: pa.Table) -> None:
        """What came out of a stream is what comes out of a table, and what the case says."""
        assert sorted(map(repr, output.to_pylist())) == sorted(map(repr, self.in_batch().to_pylist()))
        if "process" in self.case.runs_on:
            rows = in_process.finished(self.spec, output)
            assert comparable(rows, self.case.types, False) == self.case.expected(False)


@pytest.fixture(scope="module")
def utc(spark: SparkSession) -> Iterator[None]:
    """The cases write times in UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Cases that a stream may run, where the order of arrival does not matter and Spark computes nothing ahead."""
    found = []
    for case in CASES:
        with suppress(EpisodeUnsupportedError):
            found += _planned(case, InputSchema(_table(case).types), _table(case).arrow)
    assert len(found) >= 380
    return found


@pytest.fixture(scope="module")
def more_runs(spark: SparkSession, utc: None, runs: list[Run]) -> list[Run]:
    """All cases that a stream may run."""
    known = {run.case.id for run in runs}
    found = list(runs)
    for case in CASES:
        if case.id not in known:
            frame = frame_of(spark, _table(case))
            with suppress(EpisodeUnsupportedError):  # subqueries, which a statement replaces by their values
                found += _planned(case, input_schema(spark, frame, Source(case.query), "MATCH_RECOGNIZE"), frame)
    assert len(found) >= 420
    return found


CASES = [case for case in cases_for("spark") if case.error is None and case.clause() is not None]


def _table(case: Case) -> Table:
    return case.tables[case.clause().name]


def _planned(case: Case, schema: InputSchema, rows: DataFrame | pa.Table) -> list[Run]:
    pattern = case.clause()
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    plan = plan_row_pattern(pattern.clause, schema, names)
    if isinstance(rows, DataFrame):
        rows = rows.selectExpr("*", *(f"{sql} AS `{name}`" for sql, name in plan.derived)).toArrow()
    try:
        time = event_time_of(plan)
    except EpisodeAnalysisError:
        return []
    spec = RowPatternSpec(plan, rows.schema)
    image = order_image(rows, spec.input_order.order[0]).time()
    if rows.column(time.column).null_count or has_ties(spec, rows) or (len(image) and np.abs(image).max() > MOST):
        return []
    return [Run(case, spec, rows, time)]


def arriving(table: pa.Table, time: np.ndarray, delay: int, shuffled: bool) -> pa.Table:
    """Rows in order of time, or so that none comes `delay` or more after a later one."""
    draw = random.Random(len(time))
    jitter = [draw.randrange(delay) if shuffled else 0 for _ in time]
    return table.take(pa.array(np.argsort(time + np.array(jitter, np.int64), kind="stable")))


# ---- all cases as one stream -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pieces", "shuffled"),
    [
        pytest.param(
            kind,
            *way,
            id=f"{kind.type}-{way[0]}-{'shuffled' if way[1] else 'in order'}",
            marks=[] if kind is NUMBERS and way == SHORT else [pytest.mark.slow],
        )
        for kind in (NUMBERS, CALENDAR)
        for way in WAYS
    ],
)
def test_all_cases_as_one_stream(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, kind: Kind, pieces: int, shuffled: bool
) -> None:
    runs = request.getfixturevalue("runs" if kind is NUMBERS and (pieces, shuffled) == SHORT else "more_runs")
    numbered = {number: run for number, run in enumerate(runs) if run.kind is kind}
    table = pa.concat_tables([run.rows(number) for number, run in numbered.items()])
    time = table.column("time").cast(pa.int64()).to_numpy()
    files = Files(spark, tmp_path, kind.columns)
    files.add_in_pieces(arriving(table, time, kind.delay, shuffled), pieces)
    marker = [pa.array([value], f.type) for value, f in zip([many.NO_QUERY, "", kind.last, 0, b""], kind.arrow)]
    files.add(pa.Table.from_arrays(marker, schema=kind.arrow))
    query = files.run(_matches(spark, files, kind, {number: run.spec for number, run in numbered.items()}))
    totals = counters(query)
    assert (totals["events"], totals["late"], totals["after_end"]) == (table.num_rows + 1, 0, 1)
    found = files.matches().toArrow()
    wrong = []
    for number, run in numbered.items():
        mine = found.filter(pc.equal(found.column("query"), number)).column("matches").to_pylist()
        output = pa.concat_tables([run.spec.output_schema.empty_table(), *(from_bytes(blob) for blob in mine)])
        try:
            run.verify(output)
        except AssertionError as error:
            wrong.append(f"{run.case.id}: {error}")
    assert not wrong, "\n\n".join(wrong)


def _matches(spark: SparkSession, files: Files, kind: Kind, specs: dict[int, RowPatternSpec]) -> DataFrame:
    delay = kind.delay if kind is NUMBERS else f"{kind.delay} microseconds"
    path = files.place / "specs"
    path.write_bytes(pickle.dumps(specs))
    stream = plan_stream(
        spark,
        files.stream(),
        many.COLUMNS,
        (),
        lambda schema: many.ManySpec(str(path), schema),
        EventTime("time", kind.type),
        {},
        RunOptions(watermark=delay, stream=StreamOptions(end=kind.end)),
    )
    return stream.frame()


# ---- each case as a query of its own -----------------------------------------------------------------

AT_ONCE = 3
SHORT_CASES = 3
"""How many cases `make test-live` has; the long run has all of them."""


@dataclass
class Query:
    """A case as a streaming query."""

    run: Run
    files: Files
    query: StreamingQuery

    @staticmethod
    def started(spark: SparkSession, run: Run, place: Path, pieces: int, shuffled: bool) -> Query:
        pattern = run.case.clause()
        assert pattern is not None
        types = run.case.tables[pattern.name].types
        table = run.table.select(list(types))
        kind = run.kind
        files = Files(spark, place, ", ".join(f"`{column}` {type_}" for column, type_ in types.items()))
        time = order_image(table, run.spec.input_order.order[0]).time()
        files.add_in_pieces(arriving(table, time, kind.delay, shuffled), pieces)
        end = int(time.max()) + 1000 if len(time) and kind is NUMBERS else kind.end
        last = {"date": date(2210, 1, 1), "timestamp": datetime(2210, 1, 1, tzinfo=timezone.utc)}
        marker = int(time.max(initial=0)) + 2000 if kind is NUMBERS else last.get(run.time.type, datetime(2210, 1, 1))
        files.add(pa.Table.from_pylist([{run.time.column: marker}], schema=table.schema))
        delay = kind.delay if kind is NUMBERS else f"{kind.delay} microseconds"
        options = Options(watermark=delay, stream=StreamOptions(end=end if len(time) else kind.end))
        matches = episode.sql(run.case.query, spark=spark, options=options, **{pattern.name: files.stream()})
        return Query(run, files, files.start(matches))

    def problem(self) -> str | None:
        """What is wrong with its matches, if anything."""
        self.query.awaitTermination()
        rows = self.files.matches().toArrow().to_pylist()
        case = self.run.case
        found, expected = comparable(rows, case.types, False), case.expected(False)
        return None if found == expected else f"{case.id}: {found} instead of {expected}"


@pytest.mark.parametrize(
    "part", [pytest.param(0, id="short"), *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 21))]
)
def test_cases_as_queries_of_their_own(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, part: int
) -> None:
    """Case after case in one of the ways; a few queries run at once."""
    runs = request.getfixturevalue("runs" if part == 0 else "more_runs")
    every = [
        run
        for run in runs
        if not any("month" in type_ or "year" in type_ for type_ in run.case.types.values())
        and not (run.kind is NUMBERS and run.time.type in ("tinyint", "smallint"))  # no room for the last event
    ]
    chosen = every[:: len(every) // SHORT_CASES][:SHORT_CASES] if part == 0 else every[part - 1 :: 20]
    problems: list[str | None] = []
    waiting: list[Query] = []
    for number, run in enumerate(chosen):
        pieces, shuffled = WAYS[(2 * number + part) % len(WAYS) if part == 0 else (number + part) % len(WAYS)]
        waiting.append(Query.started(spark, run, tmp_path / str(number), pieces, shuffled))
        if len(waiting) == AT_ONCE:
            problems.append(waiting.pop(0).problem())
    problems += [query.problem() for query in waiting]
    wrong = [problem for problem in problems if problem is not None]
    assert not wrong, "\n\n".join(wrong)
