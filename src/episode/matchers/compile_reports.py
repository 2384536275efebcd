"""What is said while kernels are compiled, and by whom. Nothing here loads the compiler."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

PACKING, SLICES, JSON, RULES = "packing", "slices", "json", "rules"
"""The groups of kernels that pack events into envelopes, those of large keys into slices of time, that read records of
JSON, and that find the rows of many rules."""

NAMES = {
    "rows": "row patterns",
    "events": "event patterns",
    "situations": "situation patterns",
    "correlation": "pattern correlation",
}

log = logging.getLogger("episode")

Report = Callable[[int, int], None]
"""Is called with how many kernels are ready, and how many there are."""

Reporter = Callable[[Sequence[str]], AbstractContextManager[Report]]
"""What shows a report about groups of kernels."""


def sentence(groups: Sequence[str]) -> str:
    """What is being done, and how often that happens."""
    languages = dict.fromkeys(group.partition("-")[0] for group in groups)
    names = " and ".join(NAMES[language] for language in languages if language in NAMES)
    return f"Compiling the kernels{' of ' + names if names else ''} for this machine, once"


@contextmanager
def in_the_usual_way(groups: Sequence[str]) -> Iterator[Report]:
    """A bar on a terminal; elsewhere one sentence in the log."""
    if not sys.stderr.isatty():
        log.warning("%s; they are kept for all later queries.", sentence(groups))
        yield lambda ready, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(sentence(groups), total=None)
        yield lambda ready, total: bar.update(task, completed=ready, total=total or None)


_reporter: ContextVar[Reporter] = ContextVar("reporter", default=in_the_usual_way)


def reporter() -> Reporter:
    return _reporter.get()


@contextmanager
def reported_by(reporter: Reporter) -> Iterator[None]:
    """While the body runs, what is compiled is reported in this way."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)
