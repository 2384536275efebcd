"""A progress bar for Spark jobs, from the numbers that Spark's status tracker gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PATIENCE = 1.0
"""Seconds of work before a bar appears."""
PERIOD = 0.25
"""Seconds between two looks at the tracker."""


@contextmanager
def progress(spark: Any, console: Console) -> Iterator[None]:
    """Show how many tasks of the running stages are done, while the body runs a Spark action.

    Nothing is shown where nobody looks (no terminal), or where the session has no status tracker (Spark Connect).
    """
    context = getattr(spark, "sparkContext", None)
    if context is None or not console.is_terminal:
        yield
        return
    done = Event()
    watcher = Thread(target=_watch, args=(context.statusTracker(), console, done), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _watch(tracker: Any, console: Console, done: Event) -> None:
    if done.wait(PATIENCE):
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("planning", total=None)
        while not done.wait(PERIOD):
            stages, finished, total = running_tasks(tracker)
            if total:
                name = "stage " + ", ".join(map(str, stages))
                bar.update(task, description=name, completed=finished, total=total)


def running_tasks(tracker: Any) -> tuple[list[int], int, int]:
    """The active stages, how many of their tasks are done, and how many they have."""
    stages = sorted(tracker.getActiveStageIds())
    infos = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    return stages, sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)
