"""Events that were read and are not matched yet: the input holder of one task (thesis, section 2.5.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from episode.live.protocol import Slice
from episode.matchers.columns import concat


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
