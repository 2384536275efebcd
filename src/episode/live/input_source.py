"""Events on their way to the matching loop of a live task (Lau's thesis, chapters 3 and 4).

*pull*: the loop reads when it has nothing to match. *push*: an input thread reads while the matchers run; it waits
while `max_unprocessed` events are held, so the rest stays in the store. *adaptive*: the thread pushes while at most
R_bound batches wait (`push_limit`), is suspended above that, and resumes when at most one is left.

An idle loop reads by itself in every mode, and the thread reads only while the loop works on a large step: passing a
few events between threads takes longer than reading them.

The loop calls `InputSource` in all modes. The events and their order are the same.

See decisions 117 and 118.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Lock, Thread

import numpy as np

from episode.live.protocol import Handling, InputBatch, LiveInput, Position, TaskOptions
from episode.live.push_limit import Prediction
from episode.matchers.columns import concat
from episode.matchers.stream_shard import StreamShard


@dataclass
class HeldCount:
    """Number of events in memory: the maximum, and the average over arriving events.

    Measured as in the thesis: for each arriving event, all held events are added up.
    """

    events: int = 0
    sum: int = 0
    most: int = 0

    def note(self, came: int, held: int) -> None:
        self.events += came
        self.sum += came * held
        self.most = max(self.most, held)

    @property
    def average(self) -> float:
        return self.sum / self.events if self.events else 0.0


class InputHolder:
    """Batches in order of arrival (the thesis's input holder, section 2.5.2). It is not locked.

    waiting: events in it. taken: events of the batch that was taken last, which is being matched until the next `take`.
    """

    def __init__(self) -> None:
        self._waiting_batches: deque[InputBatch] = deque()
        self.waiting = 0
        self.taken = 0

    def __bool__(self) -> bool:
        return bool(self._waiting_batches)

    @property
    def events(self) -> int:
        """Events held, waiting or being matched."""
        return self.waiting + self.taken

    def put(self, batch: InputBatch) -> None:
        """Append a batch. One without events only advances the time of the previous batch."""
        if not batch.rows and self._waiting_batches and not self._waiting_batches[-1].barrier:
            last = self._waiting_batches[-1]
            batch = replace(last, after=batch.after, watermark=batch.watermark, barrier=batch.barrier)
            self._waiting_batches[-1] = batch
            return
        self._waiting_batches.append(batch)
        self.waiting += batch.rows

    def take(self, rows: int) -> InputBatch | None:
        """Return the next batch, joined with those after it up to `rows` events; None if it is empty.

        The batch taken before has been matched.
        """
        self.taken = 0
        if not self._waiting_batches:
            return None
        found = [self._waiting_batches.popleft()]
        total = found[0].rows
        while (
            self._waiting_batches
            and total + self._waiting_batches[0].rows <= rows
            and _joins(found[-1], self._waiting_batches[0])
        ):
            found.append(self._waiting_batches.popleft())
            total += found[-1].rows
        self.waiting -= total
        self.taken = total
        return join_batches(found)


def _joins(first: InputBatch, second: InputBatch) -> bool:
    """Whether two batches give the same together as one after the other: each event must carry the watermark that makes
    it late, and events of several streams are in order of the streams."""
    return (
        not first.barrier and first.reached is not None and second.reached is not None and first.source == second.source
    )


def join_batches(batches: Sequence[InputBatch]) -> InputBatch:
    if len(batches) == 1:
        return batches[0]
    reached = np.concatenate([batch.reached for batch in batches if batch.reached is not None])
    table = concat([batch.table for batch in batches])
    return replace(batches[-1], table=table, reached=reached, appended=batches[0].appended)


HANDLINGS: tuple[Handling, ...] = ("pull", "push", "adaptive")

RESUME_AT = 1
"""Waiting batches at which pushing resumes: early enough that the loop does not run dry."""
STEP_BATCHES = 8
"""Batches per step, at least."""
AHEAD = 6 / STEP_BATCHES
"""Share of a step's events that may wait in adaptive mode per match pushed ahead, however long a match is predicted to
be. Waiting events and those being matched are then, on average, about one step together: what pull holds."""
END_POLL_S = 0.05
"""Seconds between two checks of an idle input thread whether it shall end."""


@dataclass(frozen=True)
class Sizes:
    """Events that are read and matched at once.

    step: the most that the loop takes; pull reads as many. batch: the unit in which adaptive handling reads and counts.
    most: the limit of waiting events, in push and adaptive mode. small: the largest step during which the input thread
    does not read.
    """

    step: int = 1 << 17
    batch: int = 1 << 14
    most: int = 1_000_000
    small: int = 1 << 12


def open_source(input: LiveInput, after: Position, options: TaskOptions, shard: StreamShard) -> InputSource:
    """Open the input of a task at a position, in the mode that the options set, for a loop that feeds this shard.

    Steps are smaller if fewer events may wait than a step has.
    """
    step = min(options.step_rows, options.max_unprocessed)
    sizes = Sizes(step, options.batch_rows, options.max_unprocessed)
    if options.handling != "adaptive":
        return InputSource(input, after, options.handling, sizes).start()
    prediction = Prediction(shard.spec, shard.matcher, options.future)
    shard.watched, shard.replaced = prediction.busiest.note, prediction.take
    ahead = int(AHEAD * step * (1 + options.future))
    sizes = Sizes(
        step, min(options.batch_rows, max(1, step // STEP_BATCHES)), max(1, min(ahead, options.max_unprocessed))
    )
    return InputSource(input, after, "adaptive", sizes, prediction.current_bound).start()


class InputSource:
    """The events of a task, for its matching loop, from a position on.

    bound: computes R_bound in batches; called at the start, and after a step if more batches wait. window: events that
    the matcher holds, set by the loop after each step; they count as held.
    """

    def __init__(
        self,
        input: LiveInput,
        after: Position,
        handling: Handling,
        sizes: Sizes,
        bound: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.handling = handling
        self.sizes = sizes
        self.window = 0
        self.held = HeldCount()
        self.suspends = self.resumes = self.stalls = 0
        self._input = input
        self._after = after
        self._bound_of = bound
        self._bound: int | None = None
        self._clock = clock
        self._holder = InputHolder()
        self._changed = Condition()
        self._reading = Lock()  # held by the thread that uses the input
        self._reads_ahead = True  # the loop starts, or works on a large step
        self._suspended = handling == "pull"
        self._barrier = False
        self._ending = False
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    # ---- the loop's side -------------------------------------------------------------------------------

    def start(self) -> InputSource:
        """Start the input thread, unless the mode is pull."""
        if self.handling != "pull" and self._thread is None:
            self._thread = Thread(target=self._push, name="episode input", daemon=True)
            self._thread.start()
        return self

    def next(self, timeout: float) -> InputBatch | None:
        """Return the next events; None if none arrive within the timeout. Those returned before have been matched, and
        a snapshot was kept after a barrier. An error of the input thread is raised here, after all that it read
        before."""
        if self.handling == "pull":
            return self._pull(timeout)
        if self._bound_of is not None and (self._bound is None or self._waiting_batches > RESUME_AT):
            self._bound = self._bound_of()  # with fewer batches, nothing depends on it
        with self._changed:
            found = self._take()
            self._reads_ahead = False
        if found is None and timeout > 0:
            found = (
                self._read_here(timeout) if self._reading.acquire(blocking=False) else self._wait_for_thread(timeout)
            )
        with self._changed:
            if found is None and self._error is not None:
                found = self._take()  # read before the error
                if found is None:
                    raise self._error
            self._reads_ahead = found is not None and found.rows > self.sizes.small
            if self._reads_ahead:
                self._changed.notify_all()
        return found

    def _read_here(self, timeout: float) -> InputBatch | None:
        """Read in the loop's thread, while the input thread does not read."""
        try:
            if self._error is None and not self._is_paused() and not self.push():
                self._input.wait(self._after, timeout)
                self.push()
        finally:
            self._reading.release()
        with self._changed:
            return self._take()

    def _wait_for_thread(self, timeout: float) -> InputBatch | None:
        """Return the batch that the input thread is reading."""
        deadline = self._clock() + timeout
        with self._changed:
            found = self._take()
            while found is None and self._error is None:
                left = deadline - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
                found = self._take()
            return found

    def close(self) -> None:
        """End the input thread; batches that were not taken are dropped."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Events that were read and not taken yet."""
        return self._holder.waiting

    @property
    def unprocessed(self) -> int:
        """Events that were read and are not matched yet."""
        return self._holder.events

    @property
    def mode(self) -> str:
        """The current mode: push or pull."""
        return "pull" if self._suspended else "push"

    @property
    def switches(self) -> int:
        return self.suspends + self.resumes

    def _pull(self, timeout: float) -> InputBatch | None:
        self._holder.take(0)
        found = self._input.read(self._after, self.sizes.step)
        if found is None and timeout > 0:
            self._input.wait(self._after, timeout)
            found = self._input.read(self._after, self.sizes.step)
        if found is not None:
            self._receive(found)
            found = self._holder.take(self.sizes.step)
        return found

    def _take(self) -> InputBatch | None:
        """Take the next events from the holder; wakes an input thread that waited for room or was suspended."""
        stood = self._is_paused()
        self._barrier = self._barrier and bool(self._holder)
        found = self._holder.take(self.sizes.step)
        if self._suspended and self._waiting_batches <= RESUME_AT:
            self._suspended = False
            self.resumes += 1
        if stood and not self._is_paused():
            self._changed.notify_all()
        return found

    # ---- the input thread's side -----------------------------------------------------------------------

    def _push(self) -> None:
        try:
            while self._wait_to_read():
                with self._reading:
                    if self._may_push() and not self.push():
                        self._input.wait(self._after, END_POLL_S)
        except BaseException as error:  # noqa: BLE001  # raised again in the loop
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _wait_to_read(self) -> bool:
        """Wait until the input thread may read; False if it shall end."""
        with self._changed:
            self._changed.wait_for(lambda: self._ending or self._may_push())
            return not self._ending

    def _may_push(self) -> bool:
        return self._reads_ahead and not self._is_paused()

    def push(self) -> bool:
        """Read once into the holder; False if there was nothing to read."""
        rows = self.sizes.batch
        if self.handling == "push":  # at most the free room
            rows = max(1, min(self.sizes.step, self.sizes.most - self._holder.waiting))
        found = self._input.read(self._after, rows)
        if found is None:
            return False
        with self._changed:
            self._receive(found)
            if self.handling == "push":
                self.stalls += self._is_full()
            elif self._waiting_batches > (self._bound or 1) or self._is_full():
                self._suspended = True
                self.suspends += 1
            self._changed.notify_all()
        return True

    def _receive(self, found: InputBatch) -> None:
        self._after = found.after
        self._barrier = found.barrier
        self._holder.put(found)
        self.held.note(found.rows, self._holder.events + self.window)

    # ---- when to pause ---------------------------------------------------------------------------------

    @property
    def _waiting_batches(self) -> int:
        """R: the waiting events, in batches."""
        return -(-self._holder.waiting // self.sizes.batch)

    def _is_full(self) -> bool:
        return self._holder.waiting >= self.sizes.most

    def _is_paused(self) -> bool:
        return self._suspended or self._barrier or (self.handling == "push" and self._is_full())
