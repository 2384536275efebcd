"""`episode.report`: gathers, and writes the file."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.reports.gathering import gather
from episode.reports.page import page_of
from episode.reports.paths import checked_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_report(
    result: DataFrame,
    path: str | PathLike[str],
    title: str | None = None,
    plots: int = 10,
    rows: int = 50,
    begins: Callable[[str], None] = lambda step: None,
) -> Path:
    """Write the report of a query to a file; see `episode.report`. begins: called with the name of each step."""
    target = checked_path(path)
    for name, value in (("plots", plots), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise EpisodeAnalysisError(f"{name}={value!r}: a number from 0 on is needed.")
    page = page_of(gather(result, title, plots, rows, begins))
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise EpisodeError(f"The report could not be written to {target}: {error.strerror}.") from None
    return target
