"""Values that conditions keep while rows are taken: running aggregates, and arrays of values of the match."""

from __future__ import annotations

from dataclasses import dataclass, field

from episode.matchers.rows.code.array_code import ArrayRoom
from episode.matchers.rows.code.condition_traits import ConditionTraits


@dataclass(frozen=True)
class RunningValues:
    """keep_row: of each running aggregate, is a row part of its state? arrays: how many there are; room: of the longest
    of them."""

    keep_row: tuple[bool, ...] = ()
    arrays: int = 0
    room: ArrayRoom = field(default_factory=ArrayRoom)

    @staticmethod
    def of(traits: ConditionTraits) -> RunningValues:
        return RunningValues(tuple(one.keeps_row for one in traits.aggregates), traits.array_rows, traits.array_room)

    def shape(self, rows: int) -> tuple[int, int]:
        """The rows and columns that they take if a match has so many rows."""
        elements = self.room.elements(rows) if self.arrays else 0
        return len(self.keep_row) + self.arrays, max(rows, elements) + 1
