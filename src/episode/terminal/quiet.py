"""Spark's own messages, kept off the terminal."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from episode.errors import EpisodeError

# pyspark logs every SQL error with its stack, in addition to raising it.
PYSPARK_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_UNRESOLVED = re.compile(r"unresolved dependency: ([^\s:]+)")
_OF_JAVA = re.compile(r"\bjava\b(?!\.)|JAVA_HOME|UnsupportedClassVersion", re.IGNORECASE)
"""Java itself, and not the name of one of its classes."""
SHOWN = 2_000
"""Characters of a failed start that are shown."""


@contextmanager
def quiet_spark() -> Iterator[None]:
    """Keep the messages of a JVM that starts in the body, and of its workers, away from standard error.

    A process writes to the standard error it was started with, so the JVM stays quiet afterwards. Errors arrive as
    exceptions. If the JVM does not start at all, its output is part of the error.
    """
    for name in PYSPARK_LOGGERS:
        logging.getLogger(name).disabled = True
    with tempfile.TemporaryFile("w+", errors="replace") as messages:
        try:
            with _standard_error_to(messages):
                yield
        except (RuntimeError, EpisodeError) as error:
            if "JAVA_GATEWAY_EXITED" not in f"{error} {error.__cause__}":
                raise
            messages.seek(0)
            said = messages.read()[-SHOWN:].strip()
            raise could_not_start(said) from error


def could_not_start(said: str) -> EpisodeError:
    """The reason why Spark did not start, by the output of its process: most often missing packages, or Java."""
    missing = dict.fromkeys(_UNRESOLVED.findall(said))
    if missing or "UNRESOLVED DEPENDENCIES" in said:
        names = ", ".join(one.replace("#", ":").replace(";", ":") for one in missing)
        return EpisodeError(
            f"Spark could not start: packages were not found or could not be loaded{': ' if names else ''}{names}.",
            hint="Check their names (GROUP:ARTIFACT:VERSION) and the network; --conf spark.jars.repositories=URL names "
            "another repository.",
        )
    hint = "Spark needs Java 17 or 21: install it, or set JAVA_HOME."
    java = not said or _OF_JAVA.search(said) is not None
    return EpisodeError(f"Spark could not start.\n{said}", hint=hint if java else None)


@contextmanager
def _standard_error_to(file: IO[str]) -> Iterator[None]:
    """Point the process's standard error to a file; sys.stderr of Python still writes to the old one."""
    saved = os.dup(2)
    python_stderr = sys.stderr
    # closed below, in any case
    mirror = open(os.dup(saved), "w", buffering=1) if _is_standard_error(python_stderr) else None  # noqa: SIM115
    os.dup2(file.fileno(), 2)
    if mirror is not None:
        sys.stderr = mirror
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        if mirror is not None:
            sys.stderr = python_stderr
            mirror.close()


def _is_standard_error(stream: IO[str]) -> bool:
    """Whether a stream writes to file descriptor 2, and not to a buffer of a test."""
    try:
        return stream.fileno() == 2
    except (OSError, ValueError, AttributeError):
        return False
