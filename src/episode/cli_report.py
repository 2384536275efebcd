"""`episode run … --report`: the report of a query beside its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from episode.errors import EpisodeError


def check(path: Path | None, follow: bool, live: bool) -> None:
    """What has no meaning beside it, and a path that cannot be written, before anything is started."""
    if path is None:
        return
    for option, given in (("--follow", follow), ("--live", live)):
        if given:
            raise typer.BadParameter(f"A query with {option} does not end: no report.", param_hint="--report")
    from episode.reports.paths import checked_path

    try:
        checked_path(path)
    except EpisodeError as error:
        raise typer.BadParameter(str(error), param_hint="--report") from None


def beside(result: Any, path: Path, take: Callable[[], None], notes: Console) -> None:
    """Let the result be taken, and write its report; Spark computes it once for both."""
    from episode.queries.origins import origin_of
    from episode.reports.writing import write_report
    from episode.spark.statistics import kept

    origin_of(result)  # a query without a pattern is refused before it runs
    with kept(result):
        take()
        with notes.status("Writing the report") as shown:
            write_report(result, path, begins=lambda step: shown.update(f"The report: {step}"))
    notes.print(Text(f"Report: {path}"), soft_wrap=True)
