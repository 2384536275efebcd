"""Runs of queries: each in its own thread, with its jobs in a group of Spark's, so that it can be watched and
cancelled. A page that is loaded again finds its run here."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.queries.checking import check_plan, confine, named_tables
from episode.queries.origins import QueryOrigin, origin_of
from episode.see.studio.tables import Tables, columns_of, rows_of
from episode.see.studio.views import problem_of, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_ROWS = 10_000
"""Rows of a result that are kept for the page."""
MOST_RUNS = 40
"""Runs that are kept; the oldest ones that have ended are forgotten."""
PATIENCE = 10.0
"""Seconds that cancelled runs have to end."""

AGAIN = 0.5
"""Seconds between two attempts to cancel the jobs of a run."""

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"


@dataclass
class Run:
    """One query that was started. result: its first rows, once they are there; frame: all of it, lazily."""

    text: str
    number: int
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: str = RUNNING
    begun: float = field(default_factory=time.time)
    ended: float | None = None
    problem: dict[str, Any] | None = None
    frame: DataFrame | None = None
    result: pa.Table | None = None
    more: bool = False
    total: int | None = None
    cancelling: Event = field(default_factory=Event)
    thread: Thread | None = None

    @property
    def origin(self) -> QueryOrigin | None:
        """The patterns of the query, once it is planned; a query without any has none."""
        try:
            return None if self.frame is None else origin_of(self.frame)
        except EpisodeAnalysisError:
            return None

    @property
    def seconds(self) -> float:
        return (self.ended or time.time()) - self.begun

    def summary(self) -> dict[str, Any]:
        """Return the entry of a run in the list of runs."""
        first = next((line.strip() for line in self.text.splitlines() if line.strip()), "")
        return {
            "id": self.id,
            "number": self.number,
            "title": first.removeprefix("--").strip()[:80],
            "state": self.state,
            "begun": self.begun,
            "seconds": round(self.seconds, 2),
            "rows": None if self.result is None else self.result.num_rows,
            "more": self.more,
        }

    def describe(self) -> dict[str, Any]:
        """Return all that a page shows of a run, except its rows."""
        origin = self.origin
        patterns = () if origin is None else origin.patterns
        return {
            **self.summary(),
            "text": self.text,
            "problem": self.problem,
            "columns": [] if self.result is None else columns_of(self.result.schema),
            "total": self.total,
            "patterns": [_pattern(number, placed) for number, placed in enumerate(patterns, start=1)],
        }

    def rows(self, first: int, count: int) -> list[list[Any]]:
        return [] if self.result is None else rows_of(self.result, first, count)


def _pattern(number: int, placed: Any) -> dict[str, Any]:
    """A pattern as the page offers it: its language, and by which columns its events are partitioned and ordered."""
    from episode.see.inspecting import patterns_at

    first = patterns_at(placed)[0]
    return {
        "number": number,
        "language": placed.language.name,
        "keys": list(first.keys),
        "time": first.time,
        "start": placed.source.span.start,
    }


class Runs:
    """The runs of all pages."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._lock = Lock()
        self._started = 0
        self.closed = False

    def start(self, text: str) -> Run:
        """Run a text; what is wrong with it becomes the problem of the run."""
        with self._lock:
            if self.closed:
                raise EpisodeError("The studio is stopping.")
            self._started += 1
            run = Run(text, self._started)
            self._runs[run.id] = run
            self._forget()
        run.thread = Thread(target=self._work, args=(run,), name=f"run {run.number}", daemon=True)
        run.thread.start()
        return run

    def _forget(self) -> None:
        ended = [run.id for run in self._runs.values() if run.state != RUNNING]
        for one in ended[: max(0, len(self._runs) - MOST_RUNS)]:
            del self._runs[one]

    def get(self, name: str) -> Run | None:
        return self._runs.get(name)

    def summaries(self) -> list[dict[str, Any]]:
        return [run.summary() for run in reversed(list(self._runs.values()))]

    def progress(self, run: Run) -> dict[str, int] | None:
        """Return the numbers of tasks of a run that is not over: done, at work, and all."""
        if run.state != RUNNING:
            return None
        from episode.spark.jobs import count_tasks

        tasks = count_tasks(self.tables.spark, run.id)
        return {"done": tasks.done, "active": tasks.active, "total": tasks.total, "stages": tasks.stages}

    def cancel(self, run: Run) -> None:
        """End a run; its thread sets the state when it has ended. A run that is being planned has no jobs yet: those
        that it begins before it notices are cancelled as they come."""
        if not run.cancelling.is_set():
            run.cancelling.set()
            Thread(target=self._cancel, args=(run,), name=f"cancelling run {run.number}", daemon=True).start()

    def _cancel(self, run: Run) -> None:
        from episode.spark.jobs import cancel_group

        while run.state == RUNNING:
            cancel_group(self.tables.spark, run.id)
            if run.thread is not None:
                run.thread.join(AGAIN)

    def close(self) -> None:
        """Cancel all runs and wait for them; no new one begins."""
        with self._lock:
            self.closed = True
        going = [run for run in self._runs.values() if run.state == RUNNING]
        for run in going:
            self.cancel(run)
        deadline = time.monotonic() + PATIENCE
        for run in going:
            if run.thread is not None:
                run.thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self, run: Run) -> None:
        try:
            with self.jobs(run):
                self._execute(run)
            state = CANCELLED if run.result is None and run.cancelling.is_set() else DONE
        except Exception as error:  # noqa: BLE001 - the page shows it
            state = CANCELLED if run.cancelling.is_set() else FAILED
            run.problem = None if run.cancelling.is_set() else problem_of(error)
        run.ended = time.time()
        run.state = state

    @contextmanager
    def jobs(self, run: Run) -> Iterator[None]:
        """Jobs of this thread belong to a run, and its texts are judged before Spark parses them."""
        from episode.spark.jobs import job_group

        spark = self.tables.spark
        with confine(spark), job_group(spark, run.id, f"episode studio, run {run.number}"):
            yield

    def _execute(self, run: Run) -> None:
        from episode.api import sql
        from episode.spark.jobs import first_rows

        statement = read(run.text)
        given = named_tables(statement, self.tables.frames)
        frame = sql(run.text, spark=self.tables.spark, tables=given)
        check_plan(frame, list(self.tables.frames.values()))
        run.frame = frame
        if run.cancelling.is_set():
            return
        rows = first_rows(frame, MOST_ROWS + 1)
        run.more = rows.num_rows > MOST_ROWS
        run.total = None if run.more else rows.num_rows
        run.result = rows.slice(0, MOST_ROWS)

    def count(self, run: Run) -> int:
        """All rows of a result of which the first ones were fetched."""
        if run.total is None and run.frame is not None:
            with self.jobs(run):
                run.total = run.frame.count()
        return run.total or 0
