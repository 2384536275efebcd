"""Errors of episode that pass through Spark: recovered, placed in the text that the user wrote, and raised.

See decisions 138 and 139.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
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
    raised = list(_RAISED.finditer(text))
    if not raised:
        cause = error.__cause__ or getattr(error, "_cause", None)  # the latter is PySpark's, of a Java exception
        return missing_on_workers(text) or (translate(cause) if isinstance(cause, BaseException) else None)
    outermost = raised[-1]
    message = _AFTER.split(text[outermost.end() :], maxsplit=1)[0]
    return getattr(tree, outermost[1], EpisodeError)(message.rstrip())


@contextmanager
def raise_translation() -> Iterator[None]:
    """Raise an error of a Spark task as ours alone, if it is one."""
    try:
        yield
    except PySparkException as error:
        ours = translate(error)
        if ours is None:
            raise
        raise ours from None


_MISSING = re.compile(
    r"^(?:\w+\.)*ModuleNotFoundError: No module named '(episode|llvmlite|pyarrow|pandas|sqlglot)[.']", re.MULTILINE
)


def missing_on_workers(text: str) -> EpisodeError | None:
    """The error of workers that lack episode or its dependencies, if a Spark exception reports that."""
    found = _MISSING.search(text)
    if found is None:
        return None
    from importlib.metadata import PackageNotFoundError, version

    own = ""
    with suppress(PackageNotFoundError):
        own = version("episode")
    return EpisodeError(
        f"Spark's Python workers cannot import {found.group(1)}: they run a Python that does not have it.",
        hint=f"Install episode {own} on every machine where workers run, for the Python that they run; or point "
        "Spark at one that has it: PYSPARK_PYTHON in the environment, or spark.pyspark.python, before the session "
        "starts.\n  You can also send an environment along: spark.archives.",
    )


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
    if "_spark_error" in ours.__dict__:  # of both classes already: made anew, of ours alone
        rebuild, state = ours.__reduce__()
        ours = rebuild(*state)
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
        captured.convert_exception = _with_ours(captured.convert_exception)
        streaming.StreamingQuery.exception = _with_ours(streaming.StreamingQuery.exception)
        if type(spark).__module__.startswith("pyspark.sql.connect"):
            client = sys.modules.get("pyspark.sql.connect.client.core")
            queries = sys.modules.get("pyspark.sql.connect.streaming.query")
            if client is not None and hasattr(client, "convert_exception"):
                client.convert_exception = _with_ours(client.convert_exception)  # type: ignore[attr-defined]
            if queries is not None:
                queries.StreamingQuery.exception = _with_ours(queries.StreamingQuery.exception)


def _with_ours(original: Call) -> Call:
    """A function that returns an exception, or None; our error takes the place of an exception that stands for one."""
    if getattr(original, _MARK, False):
        return original

    @wraps(original)
    def replacement(*args: Any, **named: Any) -> Any:
        made = original(*args, **named)
        try:
            ours = None if made is None else translate(made)
        except Exception:  # noqa: BLE001 - the JVM is gone, and the text with it: an error about an error would hide it
            return made
        if ours is not None and isinstance(made, captured.UnknownException):
            # PySpark has no class for this Java exception, and would raise that of py4j: so ours is of that class.
            made = Py4JJavaError(f"An error occurred while calling Spark.\n{ours}", args[0])
        return made if ours is None else both(ours, made)

    setattr(replacement, _MARK, True)
    return replacement  # type: ignore[return-value]


CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers that write every error of a statement with its stack as a line of JSON."""


@contextmanager
def without_context_logs() -> Iterator[None]:
    """Raise errors of statements in the body without logging them."""
    before = {logger: logger.disabled for logger in map(PySparkLogger.getLogger, CONTEXT_LOGGERS)}
    for logger in before:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in before.items():
            logger.disabled = disabled
