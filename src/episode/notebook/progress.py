"""A progress bar in the output of a cell, while Spark works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from html import escape
from threading import Event, Thread
from typing import Any

from episode.terminal.progress import PATIENCE, PERIOD, running_tasks

_STYLE = "font:13px system-ui,sans-serif;color:#5b6675"
_TRACK = "display:inline-block;width:240px;height:9px;background:#dfe5ee;border-radius:4px;vertical-align:middle"
_BAR = "display:block;height:9px;background:#2f5fb3;border-radius:4px"


@contextmanager
def notebook_progress(spark: Any, patience: float = PATIENCE) -> Iterator[None]:
    """Show how many tasks are done while the body runs Spark actions. patience: seconds of work before a bar appears:
    what is faster shows nothing. Where the session has no status tracker (Spark Connect), there is no bar."""
    context = getattr(spark, "sparkContext", None)
    publish = _publisher()
    if context is None or publish is None:
        yield
        return
    done = Event()
    # The thread writes to the output of this cell: it needs the cell's context.
    work = (copy_context().run, (_watch, context.statusTracker(), publish, done, patience))
    watcher = Thread(target=work[0], args=work[1], daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _publisher() -> Callable[[], Any] | None:
    """What makes a place in the output of a cell; None where nobody sees it."""
    from IPython.core.getipython import get_ipython
    from IPython.display import DisplayHandle

    shell = get_ipython()
    return None if shell is None or not hasattr(shell, "kernel") else DisplayHandle


def _watch(tracker: Any, publish: Callable[[], Any], done: Event, patience: float) -> None:
    if done.wait(patience):
        return
    place = publish()
    place.display(_html("planning", 0, 0), raw=True)
    while not done.wait(PERIOD):
        stages, finished, total = running_tasks(tracker)
        if total:
            place.update(_html("stage " + ", ".join(map(str, stages)), finished, total), raw=True)
    place.update({"text/html": "", "text/plain": ""}, raw=True)


def _html(what: str, finished: int, total: int) -> dict[str, str]:
    """The bar, for both kinds of screens."""
    words = f"{what}: {finished} of {total} tasks" if total else what
    width = 100 * finished / total if total else 0
    bar = f'<span style="{_TRACK}"><span style="{_BAR};width:{width:.0f}%"></span></span>'
    return {"text/html": f'<div style="{_STYLE}" role="status">{bar} {escape(words)}</div>', "text/plain": words}
