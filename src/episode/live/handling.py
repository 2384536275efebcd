"""How events come to the matching loop (Lau's thesis, chapters 3 and 4), and those that are read and not yet matched.

*pull*: the loop reads when it has nothing. *push*: an input thread reads while the matchers run; it waits where
`max_unprocessed` events are held, so that the store keeps the rest. *adaptive*: the thread pushes while no more than
R_bound slices wait (`switch`), is suspended above it, and resumed when at most one is left.

A loop that has nothing to do reads by itself in every mode, and the thread reads only while the loop is at work on a
large step: to hand a few events from one thread to another takes longer than to read them.

The loop asks one object, `InputSource`, whichever it is. What comes out is the same, in the same order.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Condition, Lock, Thread

import numpy as np

from episode.live.protocol import Handling, LiveInput, Position, Slice, TaskOptions
from episode.live.switch import Prediction
from episode.matchers.columns import concat
from episode.matchers.stream_shard import LiveShard

# Events that were read and are not matched yet: the input holder of one task (thesis, section 2.5.2).


@dataclass
class Held:
    """How many events were held: the average over all events that came, each counting what was held with it; the most.

    The thesis measures memory in the same way: with each tuple that is routed to a holder, all that is held is summed.
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
    """Slices in order of arrival. It does not lock: who shares it between threads does.

    waiting: events in it. taken: events of the slice that was taken last, until the next one is asked for: they are
    being matched.
    """

    def __init__(self) -> None:
        self._slices: deque[Slice] = deque()
        self.waiting = 0
        self.taken = 0

    def __bool__(self) -> bool:
        return bool(self._slices)

    @property
    def events(self) -> int:
        """All that is held, waiting or being matched."""
        return self.waiting + self.taken

    def put(self, slice: Slice) -> None:
        """Add a slice at the end. One without events only moves the time of the one before it on."""
        if not slice.rows and self._slices and not self._slices[-1].barrier:
            last = self._slices[-1]
            slice = replace(last, after=slice.after, watermark=slice.watermark, barrier=slice.barrier)
            self._slices[-1] = slice
            return
        self._slices.append(slice)
        self.waiting += slice.rows

    def take(self, rows: int) -> Slice | None:
        """The next slice, joined with those after it while there are not more than so many events; None: none is here.

        What was taken before has been matched.
        """
        self.taken = 0
        if not self._slices:
            return None
        found = [self._slices.popleft()]
        total = found[0].rows
        while self._slices and total + self._slices[0].rows <= rows and _joins(found[-1], self._slices[0]):
            found.append(self._slices.popleft())
            total += found[-1].rows
        self.waiting -= total
        self.taken = total
        return joined(found)


def _joins(first: Slice, second: Slice) -> bool:
    """Whether two slices give the same together as one after the other: each event must know what it is late by, and
    events of several streams are in order of the streams."""
    return (
        not first.barrier and first.reached is not None and second.reached is not None and first.source == second.source
    )


def joined(slices: Sequence[Slice]) -> Slice:
    """Slices that follow each other, as one."""
    if len(slices) == 1:
        return slices[0]
    reached = np.concatenate([slice.reached for slice in slices if slice.reached is not None])
    table = concat([slice.table for slice in slices])
    return replace(slices[-1], table=table, reached=reached, appended=slices[0].appended)


HANDLINGS: tuple[Handling, ...] = ("pull", "push", "adaptive")

RESUMED_AT = 1
"""Slices with which pushing is resumed: at the first moment without the risk that the loop finds nothing."""
SLICES = 8
"""Slices that a step has at least."""
AHEAD = 6 / SLICES
"""Of the events of a step: what may wait in adaptive mode for each match that is pushed ahead, however long a match is
predicted to be. Then what waits and what is being matched are together, on average, about a step: what pull holds."""
LOOKS = 0.05
"""Seconds after which an input thread that waits for events looks whether it shall end."""


@dataclass(frozen=True)
class Sizes:
    """How much is read and matched at once, in events.

    step: what the loop takes at most; pull reads as much. slice: the unit in which adaptive handling reads and counts.
    most: what may wait; adaptive handling is suspended there, whatever the bound is. small: what a step has at most in
    which the input thread does not read.
    """

    step: int = 1 << 17
    slice: int = 1 << 14
    most: int = 1_000_000
    small: int = 1 << 12


def open_source(input: LiveInput, after: Position, options: TaskOptions, shard: LiveShard) -> InputSource:
    """The events of a task from a position on, as the options say, for a loop that matches them with this shard.

    Where less may wait than a step has, steps are smaller.
    """
    step = min(options.step_rows, options.max_unprocessed)
    sizes = Sizes(step, options.slice_rows, options.max_unprocessed)
    if options.handling != "adaptive":
        return InputSource(input, after, options.handling, sizes).start()
    prediction = Prediction(shard.spec, shard.matcher, options.future)
    shard.watched, shard.replaced = prediction.busiest.note, prediction.take
    ahead = int(AHEAD * step * (1 + options.future))
    sizes = Sizes(step, min(options.slice_rows, max(1, step // SLICES)), max(1, min(ahead, options.max_unprocessed)))
    return InputSource(input, after, "adaptive", sizes, prediction.bound).start()


class InputSource:
    """The events of a task, for its matching loop, from a position on.

    bound: R_bound in slices; the loop's thread asks for it at first, and where more waits after a step. window: how
    many events the matcher holds, which the loop sets after each step; it counts as held.
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
        self.held = Held()
        self.suspends = self.resumes = self.stalls = 0
        self._input = input
        self._after = after
        self._bound_of = bound
        self._bound: int | None = None
        self._clock = clock
        self._holder = InputHolder()
        self._changed = Condition()
        self._reading = Lock()  # held by the thread that uses the input
        self._reads_ahead = True  # the loop begins, or is at work on a large step
        self._suspended = handling == "pull"
        self._barrier = False
        self._ending = False
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    # ---- the loop's side -------------------------------------------------------------------------------

    def start(self) -> InputSource:
        """Let the input thread begin; with pull there is none."""
        if self.handling != "pull" and self._thread is None:
            self._thread = Thread(target=self._push, name="episode input", daemon=True)
            self._thread.start()
        return self

    def next(self, timeout: float) -> Slice | None:
        """The next events; None where there are none for so many seconds. What came before has been matched, and kept
        where it asked for that. An error of the input thread is raised here, after all that was read before it."""
        if self.handling == "pull":
            return self._pulled(timeout)
        if self._bound_of is not None and (self._bound is None or self._slices > RESUMED_AT):
            self._bound = self._bound_of()  # with less to do, nothing depends on it
        with self._changed:
            found = self._taken()
            self._reads_ahead = False
        if found is None and timeout > 0:
            found = self._read_here(timeout) if self._reading.acquire(blocking=False) else self._pushed(timeout)
        with self._changed:
            if found is None and self._error is not None:
                found = self._taken()  # read before the error
                if found is None:
                    raise self._error
            self._reads_ahead = found is not None and found.rows > self.sizes.small
            if self._reads_ahead:
                self._changed.notify_all()
        return found

    def _read_here(self, timeout: float) -> Slice | None:
        """What the loop reads by itself, while the input thread does not read."""
        try:
            if self._error is None and not self._stands_still() and not self.push():
                self._input.wait(self._after, timeout)
                self.push()
        finally:
            self._reading.release()
        with self._changed:
            return self._taken()

    def _pushed(self, timeout: float) -> Slice | None:
        """What the input thread is reading."""
        deadline = self._clock() + timeout
        with self._changed:
            found = self._taken()
            while found is None and self._error is None:
                left = deadline - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
                found = self._taken()
            return found

    def close(self) -> None:
        """End the input thread; what it has read and nobody has asked for is forgotten."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    @property
    def waiting(self) -> int:
        """Events that were read and not asked for yet."""
        return self._holder.waiting

    @property
    def unprocessed(self) -> int:
        """Events that were read and are not matched yet."""
        return self._holder.events

    @property
    def mode(self) -> str:
        """What is done at this moment: push or pull."""
        return "pull" if self._suspended else "push"

    @property
    def switches(self) -> int:
        """How often the mode has changed."""
        return self.suspends + self.resumes

    def _pulled(self, timeout: float) -> Slice | None:
        self._holder.take(0)
        found = self._input.read(self._after, self.sizes.step)
        if found is None and timeout > 0:
            self._input.wait(self._after, timeout)
            found = self._input.read(self._after, self.sizes.step)
        if found is not None:
            self._arrived(found)
            found = self._holder.take(self.sizes.step)
        return found

    def _taken(self) -> Slice | None:
        """The next events of the holder; a thread that waited for room, or for less to wait, goes on."""
        stood = self._stands_still()
        self._barrier = self._barrier and bool(self._holder)
        found = self._holder.take(self.sizes.step)
        if self._suspended and self._slices <= RESUMED_AT:
            self._suspended = False
            self.resumes += 1
        if stood and not self._stands_still():
            self._changed.notify_all()
        return found

    # ---- the input thread's side -----------------------------------------------------------------------

    def _push(self) -> None:
        try:
            while self._waited():
                with self._reading:
                    if self._may_push() and not self.push():
                        self._input.wait(self._after, LOOKS)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the loop must know
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _waited(self) -> bool:
        """Stand still as long as that is asked for, and where the loop reads by itself; False: end."""
        with self._changed:
            while not self._ending and not self._may_push():
                self._changed.wait()
            return not self._ending

    def _may_push(self) -> bool:
        """Whether the input thread shall read now."""
        return self._reads_ahead and not self._stands_still()

    def push(self) -> bool:
        """Read once and put it into the holder; False where there was nothing to read."""
        found = self._input.read(self._after, self._readable())
        if found is None:
            return False
        with self._changed:
            self._arrived(found)
            if self.handling == "push":
                self.stalls += self._is_full()
            elif self._slices > (self._bound or 1) or self._is_full():
                self._suspended = True
                self.suspends += 1
            self._changed.notify_all()
        return True

    def _readable(self) -> int:
        """How many events to read at once; in push mode no more than there is room for."""
        if self.handling == "adaptive":
            return self.sizes.slice
        return max(1, min(self.sizes.step, self.sizes.most - self._holder.waiting))

    def _arrived(self, found: Slice) -> None:
        self._after = found.after
        self._barrier = found.barrier
        self._holder.put(found)
        self.held.note(found.rows, self._holder.events + self.window)

    # ---- when to stand still ---------------------------------------------------------------------------

    @property
    def _slices(self) -> int:
        """R: the events that wait, in slices."""
        return -(-self._holder.waiting // self.sizes.slice)

    def _is_full(self) -> bool:
        return self._holder.waiting >= self.sizes.most

    def _stands_still(self) -> bool:
        return self._suspended or self._barrier or (self.handling == "push" and self._is_full())
