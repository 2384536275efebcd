"""Errors on the command line: a message and an exit code, and never a stack trace of ours."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from episode.errors import EpisodeDataError, EpisodeError

FAILED, WRONG, INTERRUPTED = 1, 2, 130


@contextmanager
def report_errors(notes: Console) -> Iterator[None]:
    """Turn errors into a message and an exit code; EPISODE_TRACEBACK=1 keeps the traceback, for bug reports."""
    if os.environ.get("EPISODE_TRACEBACK"):
        yield
        return
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # The reader of our output has left, as `head` does: nothing is wrong, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        notes.print("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:  # noqa: BLE001 - the last stop before the user: anything becomes a message
        message, code = explain_error(error)
        notes.print(Text("error: ", style="bold red").append(message, style="default"), soft_wrap=True)
        raise typer.Exit(code) from None


def explain_error(error: Exception) -> tuple[str, int]:
    """Return the message for the user, and the exit code."""
    if not isinstance(error, EpisodeError) and "pyspark" in sys.modules:
        from episode.spark.errors import translate

        error = translate(error) or error
    if isinstance(error, EpisodeError):
        return str(error), FAILED if isinstance(error, EpisodeDataError) else WRONG
    if "pyspark" in sys.modules:
        from pyspark.errors import AnalysisException, PySparkException

        if isinstance(error, PySparkException):
            message = re.split(r"\n\n?(?:JVM stacktrace:|=== Streaming Query ===)", str(error))[0].strip()
            return message, WRONG if isinstance(error, AnalysisException) else FAILED
    return f"{type(error).__name__}: {error}", FAILED
