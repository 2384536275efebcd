"""Errors that episode raised in a Spark task, recovered from the exception that Spark makes of them."""

from __future__ import annotations

import re

import episode.errors as tree
from episode.errors import EpisodeError

_RAISED = re.compile(r"^(?:episode\.errors\.)(Episode\w*Error): ", re.MULTILINE)
_AFTER = re.compile(
    r"^(?:\s+at [\w.$/]+\(|Driver stacktrace:|JVM stacktrace:|=== Streaming Query ===|Caused by: |\s*SQLSTATE: \w+)",
    re.MULTILINE,
)


def translate(error: BaseException) -> EpisodeError | None:
    """Our error after a Spark exception, with its full text as the message; None if there is none.

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
    """The error of workers that have no episode, or not what it needs, if that is what a Spark exception says."""
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
