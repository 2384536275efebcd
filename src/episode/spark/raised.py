"""Errors of episode that come out of Spark, raised as what they are.

A worker's error reaches the driver as the text of some exception of Spark. Once `install` has been called, it is an
instance of both: of the class that Spark raises, so that handlers of Spark's exceptions go on working, and of the
EpisodeError that was raised in the worker, with its message and no more. Spark's own exception is its `__cause__`. All
other exceptions stay as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.streaming import query as streaming

from episode.errors import EpisodeError
from episode.spark.errors import translate

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
        _classes[kinds] = _joined(*kinds)
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


def _joined(kind: type[EpisodeError], spark: type[BaseException]) -> type[EpisodeError]:
    """A class of two bases, under the name of ours. Its instances are made by `both` alone.

    PySpark raises with `from None`, which would drop a cause: the property keeps it.
    """
    plain = kind.__reduce__

    def reduced(self: EpisodeError) -> Any:
        """Copies in other processes are of our class alone: Spark's is about objects of this process."""
        rebuild, (_, *state) = plain(self)
        return rebuild, (kind, *state)

    def cause(self: Any) -> BaseException:
        return self.__dict__["_spark_error"]

    own = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__qualname__": kind.__qualname__,
        "__reduce__": reduced,
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
    """The modules of Connect are loaded where a session is one of its own."""
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
"""They write every error of a statement with its stack as a line of JSON."""


@contextmanager
def without_context_logs() -> Iterator[None]:
    """Errors of statements that run in the body are raised, and not logged, too."""
    loggers = [PySparkLogger.getLogger(name) for name in CONTEXT_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled
