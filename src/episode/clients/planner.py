"""The planner: a Python process that plans the statements of a JVM with episode's clauses, in the callers' sessions.

The parser extension starts it (`jvm/io/episode/Planner.java`), and it takes statements until its standard input ends:
with the JVM, however that ends. Each thread waits for a statement, and has another one wait before it plans: plans
may need plans, as views over views do.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from episode.clients.commands import plan_command
from episode.clients.leaving import by_spark
from episode.errors import EpisodeError
from episode.lang.positional import NamedParameters, name_parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGER = logging.getLogger("episode.clients")
PATIENCE = 60
"""Seconds for which a thread waits for a statement at a time."""


class PlanningThreads:
    """Threads that take statements from the JVM's planner."""

    def __init__(self, planner: Any) -> None:
        self.planner = planner
        self._lock = Lock()
        self._waiting = 0

    def begin(self) -> None:
        """Have at least one thread wait for statements."""
        with self._lock:
            if self._waiting:
                return
            self._waiting += 1
        Thread(target=self._serve, name="episode-planner", daemon=True).start()

    def _serve(self) -> None:
        while True:
            statement = self.planner.take(PATIENCE)
            if statement is None:
                continue
            with self._lock:
                self._waiting -= 1
            self.begin()
            self._answer(statement)
            with self._lock:
                if self._waiting:  # as many threads as there are statements at a time, and one more
                    return
                self._waiting += 1

    def _answer(self, statement: Any) -> None:
        text = statement.text()
        try:
            self._plan(statement, text)
        except EpisodeError as error:
            _refuse(statement, error)
        except Exception as error:
            LOGGER.exception("a statement could not be planned")
            message = f"episode could not plan this statement: {type(error).__name__}: {error}"
            statement.refuse("error", message, *_NOWHERE)
        finally:
            self.planner.done(statement)

    def _plan(self, statement: Any, text: str) -> None:
        from episode.spark.startup.gateway import active, analysed_alone, plan_of, session_of

        spark = session_of(statement.session())
        with active(spark):
            if by_spark(spark, lambda: analysed_alone(spark, statement.parsedBySpark())) is not None:
                statement.leave()
                return
            named = _parameters(spark, statement, text)
            try:
                command = plan_command(named.text, spark, named.arguments)
            except EpisodeError as error:
                named.place_in_written(error)
                raise
            if command is None:
                statement.leave()
                return
            statement.planned(
                [piece.original for piece in command.pieces],
                [piece.written for piece in command.pieces],
                {name: plan_of(frame) for name, frame in command.relations.items()},
            )


def _parameters(spark: SparkSession, statement: Any, text: str) -> NamedParameters:
    """The text with names for its parameters, and their values: bound in patterns here, and around them by Spark."""
    from episode.spark.startup.gateway import items, values_of

    positional, named = statement.positional(), statement.named()
    if positional is not None:
        statement.nameParameters()
        return name_parameters(text, values_of(spark, items(positional)))
    entries = [] if named is None else list(items(named))
    values = values_of(spark, [entry._2() for entry in entries])
    return NamedParameters(text, text, {str(entry._1()): one for entry, one in zip(entries, values, strict=True)}, ())


_NOWHERE = (0, 0, 0, 0)


def _refuse(statement: Any, error: EpisodeError) -> None:
    """Hand an error over with its place, for which Spark counts in UTF-16: lines from 1, all else from 0."""
    place = error.line_and_column
    if error.source is None or error.position is None or place is None:
        statement.refuse(error.kind, str(error), *_NOWHERE)
        return
    begin = _utf16(error.source[: error.position])
    end = begin + max(1, _utf16(error.source[error.position : error.position + error.length])) - 1
    line, column = place
    line_begin = error.position - (column - 1)
    before = _utf16(error.source[line_begin : error.position])
    message = str(error)
    if error.kind == "syntax":  # Spark shows the place of a parse error itself
        message = error.message if error.hint is None else f"{error.message}\n  {error.hint}"
    statement.refuse(error.kind, message, line, before, begin, end)


def _utf16(text: str) -> int:
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def main(number: int) -> None:
    from episode.spark.startup.gateway import attach, connect

    gateway = connect()
    planner = gateway.jvm.io.episode.Planner.numbered(number)
    try:
        attach(gateway, planner.context(), planner.defaultSession())
    except EpisodeError as error:
        sys.exit(f"{error.message} {error.hint}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the client: its terminal sends it to every process
    PlanningThreads(planner).begin()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
