"""A thread that writes matches to a sink while the next events are matched.

An append waits for the disk; the task does not. Matches found meanwhile are written together, in order, as one write:
a task that finds many writes seldom, and one that finds few writes at once.

See decision 124.
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
"""Matches that may wait; beyond that the task waits."""


@runtime_checkable
class Staging(Protocol):
    """A sink that can write a part of a step's matches before the rest of the step is known."""

    def stage(self, matches: pa.Table) -> None: ...


@dataclass(frozen=True)
class StepMatches:
    """Matches of a step: the position after it, and when its first event was appended (0: unknown)."""

    matches: pa.Table
    after: Position
    appended: float


class SinkWriter:
    """Writes matches to a sink, in order. written: the position of the last matches that were written.

    on_written: called by the thread with the matches that were written.
    """

    def __init__(self, sink: LiveSink, on_written: Callable[[StepMatches], None]) -> None:
        self.written: Position | None = None
        self._sink = sink
        self._on_written = on_written
        self._waiting: deque[StepMatches] = deque()
        self._rows = 0
        self._busy = False
        self._ending = False
        self._error: BaseException | None = None
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="episode output", daemon=True)
        self._thread.start()

    # ---- the loop's side -------------------------------------------------------------------------------

    def write(self, found: StepMatches) -> None:
        """Enqueue matches; waits if too many are queued. Raises the error of an earlier write."""
        with self._changed:
            self._wait(lambda: self._rows < MOST_ROWS)
            self._waiting.append(found)
            self._rows += found.matches.num_rows
            self._changed.notify_all()

    @property
    def can_stage(self) -> bool:
        return isinstance(self._sink, Staging)

    def stage(self, matches: pa.Table) -> None:
        """Write a part of the next matches; they are committed with the rest."""
        self._drain()
        assert isinstance(self._sink, Staging)
        self._sink.stage(matches)

    def flush(self, after: Position) -> None:
        """Write everything that is queued."""
        self._drain()
        self._sink.flush(after)

    def check(self) -> None:
        """Raise the error of the thread, if there was one."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """End the thread after it has written the queue."""
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
            while (found := self._take()) is not None:
                tables = [one.matches for one in found]
                self._sink.write(pa.concat_tables(tables) if len(tables) > 1 else tables[0], found[-1].after)
                for one in found:
                    self._on_written(one)
                with self._changed:
                    self.written = found[-1].after
                    self._busy = False
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  # raised again in the loop
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _take(self) -> list[StepMatches] | None:
        """Wait for matches and take all; None at the end."""
        with self._changed:
            while not self._waiting and not self._ending:
                self._changed.wait()
            found = list(self._waiting)
            self._waiting.clear()
            self._rows = 0
            self._busy = bool(found)
            self._changed.notify_all()
            return found or None
