"""Matches on their way out: a thread writes them while the next events are matched.

An append waits for the disk; the task does not. What comes meanwhile goes out together, in order, as one write: so a
task that finds much writes seldom, and one that finds little at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Protocol, runtime_checkable

import pyarrow as pa

from episode.live.protocol import LiveSink, Position

MOST_ROWS = 1 << 17
"""Matches that may wait; then the task waits."""


@runtime_checkable
class Staging(Protocol):
    """A sink that can write a part of a step's matches aside, where there are many."""

    def stage(self, matches: pa.Table) -> None: ...


@dataclass(frozen=True)
class Found:
    """Matches of a step: up to which position, and when the first event of the step was appended (0: unknown)."""

    matches: pa.Table
    after: Position
    appended: float


class Outgoing:
    """What goes to a sink, in order. written: the position of the last matches that are out.

    is_out: is called with each of them when they are, by the thread.
    """

    def __init__(self, sink: LiveSink, is_out: Callable[[Found], None]) -> None:
        self.written: Position | None = None
        self._sink = sink
        self._is_out = is_out
        self._waiting: deque[Found] = deque()
        self._rows = 0
        self._busy = False
        self._ending = False
        self._error: BaseException | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="episode output", daemon=True)
        self._thread.start()

    # ---- the loop's side -------------------------------------------------------------------------------

    def write(self, found: Found) -> None:
        """Let matches go out; waits where too many do. An error of those before is raised here."""
        with self._changed:
            self._wait(lambda: self._rows < MOST_ROWS)
            self._waiting.append(found)
            self._rows += found.matches.num_rows
            self._changed.notify_all()

    @property
    def can_stage(self) -> bool:
        return isinstance(self._sink, Staging)

    def stage(self, matches: pa.Table) -> None:
        """Write a part of the next matches aside."""
        self._drain()
        assert isinstance(self._sink, Staging)
        self._sink.stage(matches)

    def flush(self, after: Position) -> None:
        """Everything is out after this."""
        self._drain()
        self._sink.flush(after)

    def check(self) -> None:
        """Raise what has gone wrong meanwhile."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread, when what waits is out."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join()

    def _drain(self) -> None:
        with self._changed:
            self._wait(lambda: not self._waiting and not self._busy)

    def _wait(self, ready: Callable[[], bool]) -> None:
        while self._error is None and not ready():
            self._changed.wait()
        self.check()

    # ---- the thread's side -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while (found := self._taken()) is not None:
                tables = [one.matches for one in found]
                self._sink.write(pa.concat_tables(tables) if len(tables) > 1 else tables[0], found[-1].after)
                for one in found:
                    self._is_out(one)
                with self._changed:
                    self.written = found[-1].after
                    self._busy = False
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop must know
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _taken(self) -> list[Found] | None:
        """All that waits; None: there will be no more."""
        with self._changed:
            while not self._waiting and not self._ending:
                self._changed.wait()
            found = list(self._waiting)
            self._waiting.clear()
            self._rows = 0
            self._busy = bool(found)
            self._changed.notify_all()
            return found or None
