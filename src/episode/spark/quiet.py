"""What PySpark logs besides raising it, kept off standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.logger import PySparkLogger

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
