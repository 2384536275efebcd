"""A ZStream tree in plain Python, as one would write it: what engines in Python of the OpenCEP kind do.

Events are dicts, records are tuples (events, start, end), buffers are lists sorted by end. A left-deep tree of sequence
operators, evaluated in assembly rounds after batches of events (the paper's sections 4.3 and 4.4.1, Algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Event = dict[str, Any]
Record = tuple[tuple[Event, ...], int, int]
Predicate = Callable[[tuple[Event, ...]], bool]

BATCH = 100
"""Events between two assembly rounds."""


class Sequence:
    """SEQ(left, right): `right` is a leaf; the left buffer holds events or what the operator below has put out."""

    def __init__(self, window: int, predicates: list[Predicate]) -> None:
        self.window = window
        self.predicates = predicates
        self.left: list[Record] = []
        self.right: list[Record] = []

    def assemble(self, earliest: int) -> list[Record]:
        """Algorithm 1: every new right record with all left records before it."""
        out: list[Record] = []
        self.left = [record for record in self.left if record[1] >= earliest]
        for events, start, end in self.right:
            oldest = end - self.window
            for left_events, left_start, left_end in self.left:
                if left_end >= start:
                    break
                if left_start < oldest:
                    continue
                together = left_events + events
                if not self.predicates or all(predicate(together) for predicate in self.predicates):
                    out.append((together, left_start, end))
        self.right.clear()
        return out


class LeftDeepTree:
    """[[A; B]; C] …, with the predicates that each operator can decide."""

    def __init__(self, names: list[str], window: int, predicates: dict[int, list[Predicate]] | None = None) -> None:
        self.names = names
        self.window = window
        self.operators = [Sequence(window, (predicates or {}).get(number, [])) for number in range(1, len(names))]
        self.matches = 0

    def run(self, events: Iterable[Event]) -> int:
        """The number of matches in a stream of events."""
        count = 0
        for count, event in enumerate(events, start=1):
            self._insert(event)
            if count % BATCH == 0:
                self._round()
        self._round()
        return self.matches

    def _insert(self, event: Event) -> None:
        name, ts = event["name"], event["ts"]
        for place, wanted in enumerate(self.names):
            if name == wanted:
                record = ((event,), ts, ts)
                if place == 0:
                    self.operators[0].left.append(record)
                else:
                    self.operators[place - 1].right.append(record)

    def _round(self) -> None:
        """From the leaves to the root; nothing to do as long as there is no event of the last class."""
        last = self.operators[-1].right
        if not last:
            return
        earliest = last[0][2] - self.window
        records: list[Record] = []
        for number, operator in enumerate(self.operators):
            if number:
                operator.left += records
            records = operator.assemble(earliest)
        self.matches += len(records)
