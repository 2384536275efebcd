"""Errors of episode that pass through Spark: recovered, placed in the text that the user wrote, and raised.

See decisions 138 and 139.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from string import Formatter
from threading import Lock
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions import captured
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.streaming import query as streaming

import episode.errors as tree
from episode.errors import EpisodeError

# Errors that episode raised in a Spark task, recovered from the exception that Spark makes of them.


_RAISED = re.compile(r"^(?:episode\.errors\.)(Episode\w*Error): ", re.MULTILINE)
_AFTER = re.compile(
    r"^(?:\s+at [\w.$/]+\(|Driver stacktrace:|JVM stacktrace:|=== Streaming Query ===|Caused by: |\s*SQLSTATE: \w+)",
    re.MULTILINE,
)


def translate(error: BaseException) -> EpisodeError | None:
    """Our error after a Spark exception, with its full text as the message; None for other exceptions.

    A worker's exception reaches the driver as text: a Python traceback that ends with the exception's name and message.
    """
    if isinstance(error, EpisodeError):
        return error
    text = str(error)
    raised = None
    for raised in _RAISED.finditer(text):  # noqa: B007 - the last one is the outermost
        pass
    if raised is None:
        missing = missing_on_workers(text)
        if missing is not None:
            return missing
        cause = error.__cause__ or getattr(error, "_cause", None)  # the latter is PySpark's, of a Java exception
        return translate(cause) if isinstance(cause, BaseException) else None
    kind = getattr(tree, raised.group(1), EpisodeError)
    message = text[raised.end() :]
    after = _AFTER.search(message)
    return kind((message[: after.start()] if after else message).rstrip())


_MISSING = re.compile(
    r"^(?:\w+\.)*ModuleNotFoundError: No module named '(episode|llvmlite|pyarrow|pandas|sqlglot)[.']", re.MULTILINE
)


def missing_on_workers(text: str) -> EpisodeError | None:
    """The error of workers that lack episode or its dependencies, if a Spark exception reports that."""
    found = _MISSING.search(text)
    if found is None:
        return None
    return EpisodeError(
        f"Spark's Python workers cannot import {found.group(1)}: they run a Python that does not have it.",
        hint=f"Install episode {_version()} on every machine where workers run, for the Python that they run; or point "
        "Spark at one that has it: PYSPARK_PYTHON in the environment, or spark.pyspark.python, before the session "
        "starts.\n  An environment can be sent along, too: spark.archives.",
    )


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("episode")
    except PackageNotFoundError:
        return ""


# Places in the text that Spark runs, as places in the text that the user wrote.
#
# A statement is passed to Spark with references to DataFrames in place of its patterns; the rest is
# copied as it is. A complaint of Spark about a copied part is about the same part of the statement.


Range = tuple[int, int]
"""Begin and end in a text."""

VIEW = re.compile(r"_pyspark_(?:connect_temp_view_)?[0-9a-f]{32}")
"""The names that PySpark gives to DataFrames in a statement."""
_LENGTHS = (len("_pyspark_") + 32, len("_pyspark_connect_temp_view_") + 32)
_LINE = re.compile(r"\(line (\d+), pos (\d+)\)")
_NEAR = re.compile(r"at or near '([^']+)'")


@dataclass(frozen=True)
class Copies:
    """A statement of the user, and which parts of it are copied into the texts that Spark is given."""

    source: str
    ranges: Collection[Range]

    def place(self, text: str, named: Iterable[str], error: PySparkException) -> Range | None:
        """The place of an error in the statement. text: as it was run, with the names of DataFrames in braces."""
        names = set(named)
        for length in _LENGTHS if names else _LENGTHS[:1]:
            run = _as_run(text, names, length)
            for begin, end in _complaints(run, error):
                found = self._source_of(run, begin, end)
                if found is not None:
                    return found
        return None

    def place_of(self, text: str, named: Iterable[str], begin: int, end: int) -> Range | None:
        """The place in the statement of a place in the text that was run in a classic session."""
        return self._source_of(_as_run(text, set(named), _LENGTHS[0]), begin, end)

    def _source_of(self, run: str, begin: int, end: int) -> Range | None:
        """The place whose copy covers a place of the text that is run; of several copies, the longest."""
        for start, stop in sorted(self.ranges, key=lambda one: one[0] - one[1]):
            copied = self.source[start:stop]
            at = run.find(copied) if copied.strip() else -1
            while at >= 0:
                if at <= begin < at + len(copied):
                    place = start + begin - at
                    return place, min(place + max(1, end - begin), stop)
                at = run.find(copied, at + 1)
        return None


def _as_run(text: str, names: set[str], length: int) -> str:
    """The text as Spark sees it; the names of DataFrames are as long as they are there."""
    if not names:
        return text.replace("{{", "{").replace("}}", "}")
    pieces = []
    for literal, name, _, _ in Formatter().parse(text):
        pieces += [literal, "" if name is None else "_" * length]
    return "".join(pieces)


def _complaints(run: str, error: PySparkException) -> Iterator[Range]:
    """The places of which an error speaks: those of its query contexts; else the line and column in its message."""
    for context in error.getQueryContext():
        try:
            begin, end, fragment = context.startIndex(), context.stopIndex() + 1, context.fragment()
        except Exception:  # noqa: BLE001 - contexts of DataFrames have no such place
            continue
        if fragment and run[begin:end] == fragment:
            yield begin, end
    written = _LINE.search(str(error))
    if written is not None:
        line, column = int(written.group(1)), int(written.group(2))
        begin = sum(len(one) + 1 for one in run.split("\n")[: line - 1]) + column
        near = _NEAR.search(str(error))
        word = "" if near is None else near.group(1)
        if run[begin : begin + len(word)].lower() == word.lower():
            yield begin, begin + max(1, len(word))


# Errors of episode that arrive through Spark, raised with their own class.
#
# A worker's error reaches the driver as the text of some exception of Spark. Once `install` has been called, it is an
# instance of both: of the class that Spark raises, so that handlers of Spark's exceptions keep working, and of the
# EpisodeError that was raised in the worker, with its message and no more. Spark's own exception is its `__cause__`.
# All other exceptions stay as they are.


Call = TypeVar("Call", bound=Callable[..., Any])

_classes: dict[tuple[type, type], type[EpisodeError]] = {}
_MARK = "_episode_raises"
"""An attribute of functions that are replaced already."""
_lock = Lock()


def both(ours: EpisodeError, spark: BaseException) -> EpisodeError:
    """Our error as an instance of the class of Spark's exception, too, which is its cause."""
    if isinstance(spark, EpisodeError):
        return spark
    ours = _plain(ours)
    kinds = (type(ours), type(spark))
    if kinds not in _classes:
        _classes[kinds] = _class_of_both(*kinds)
    error = _classes[kinds].__new__(_classes[kinds], ours.message)
    error.__dict__.update(spark.__dict__)
    error.__dict__.update(ours.__dict__)
    error.args = (ours.message,)
    error.__dict__["_spark_error"] = spark
    error.__suppress_context__ = True
    return error


def _plain(ours: EpisodeError) -> EpisodeError:
    """An error that is of our class alone."""
    if "_spark_error" not in ours.__dict__:
        return ours
    rebuild, state = ours.__reduce__()
    return rebuild(*state)


def _class_of_both(kind: type[EpisodeError], spark: type[BaseException]) -> type[EpisodeError]:
    """A class of two bases, under the name of ours. Its instances are made by `both` alone.

    PySpark raises with `from None`, which would drop a cause: the property keeps it.
    """
    plain = kind.__reduce__

    def reduce_to_ours(self: EpisodeError) -> Any:
        """Copies in other processes are of our class alone: Spark's is about objects of this process."""
        rebuild, (_, *state) = plain(self)
        return rebuild, (kind, *state)

    def cause(self: Any) -> BaseException:
        return self.__dict__["_spark_error"]

    own = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__qualname__": kind.__qualname__,
        "__reduce__": reduce_to_ours,
        "__cause__": property(cause, lambda self, value: None),
    }
    return type(kind.__name__, (kind, spark), own)


# ---- where Spark makes exceptions ------------------------------------------------------------------------


def install(spark: SparkSession) -> None:
    """Have errors of episode raised as such, in this process from now on; to call it again does nothing."""
    with _lock:
        captured.convert_exception = _once(captured.convert_exception, _converting)
        streaming.StreamingQuery.exception = _once(streaming.StreamingQuery.exception, _returning)
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            _install_in_connect()


def _install_in_connect() -> None:
    """Do the same for Connect, if its modules are loaded."""
    client = sys.modules.get("pyspark.sql.connect.client.core")
    queries = sys.modules.get("pyspark.sql.connect.streaming.query")
    if client is not None and hasattr(client, "convert_exception"):
        client.convert_exception = _once(client.convert_exception, _returning)  # type: ignore[attr-defined]
    if queries is not None:
        queries.StreamingQuery.exception = _once(queries.StreamingQuery.exception, _returning)


def _once(function: Call, replaced: Callable[[Call], Call]) -> Call:
    if getattr(function, _MARK, False):
        return function
    made = replaced(function)
    setattr(made, _MARK, True)
    return made


def _ours(made: BaseException) -> EpisodeError | None:
    """Our error in an exception. Where its text cannot be had (the JVM is gone), the exception stays as it is."""
    try:
        return translate(made)
    except Exception:  # noqa: BLE001 - an error about an error would hide it
        return None


def _returning(original: Call) -> Call:
    """A function that returns an exception, or None."""

    @wraps(original)
    def returning(*args: Any, **named: Any) -> Any:
        made = original(*args, **named)
        ours = None if made is None else _ours(made)
        return made if ours is None else both(ours, made)

    return returning  # type: ignore[return-value]


def _converting(original: Call) -> Call:
    """PySpark's conversion of a Java exception.

    Where it knows no class for it, py4j's exception is raised: ours is one, too, and not an UnknownException, which
    PySpark would drop.
    """

    @wraps(original)
    def converting(exception: Any, *args: Any, **named: Any) -> Any:
        made = original(exception, *args, **named)
        ours = _ours(made)
        if ours is None:
            return made
        if isinstance(made, captured.UnknownException):
            return both(ours, Py4JJavaError(f"An error occurred while calling Spark.\n{ours}", exception))
        return both(ours, made)

    return converting  # type: ignore[return-value]


CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers that write every error of a statement with its stack as a line of JSON."""


@contextmanager
def without_context_logs() -> Iterator[None]:
    """Raise errors of statements in the body without logging them."""
    loggers = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
