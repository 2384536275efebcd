"""Values that conditions keep while rows are taken: running aggregates, and arrays of values of the match."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Room:
    """How long an array may become: so many times the longest partition, and so many elements more."""

    times: int = 0
    more: int = 0

    def elements(self, longest: int) -> int:
        """The most elements if the longest partition has so many rows."""
        return self.times * longest + self.more


@dataclass(frozen=True)
class RunningValues:
    """aggregates: their opcodes. arrays: how many there are; room: of the longest of them."""

    aggregates: tuple[int, ...] = ()
    arrays: int = 0
    room: Room = Room()

    def shape(self, rows: int) -> tuple[int, int]:
        """The rows and columns that they take if a match has so many rows."""
        elements = self.room.elements(rows) if self.arrays else 0
        return len(self.aggregates) + self.arrays, max(rows, elements) + 1
