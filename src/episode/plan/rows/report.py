"""The report of a matcher of row patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from episode.plan.pattern import CarriedReport
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import MATCH


@dataclass(frozen=True)
class RowReport(CarriedReport):
    """Counts and times of one matcher, or of several together.

    parts: the number of matchers. rows: of the input. attempts: start rows at which a match was looked for. steps: of
    all attempts. taken: rows of matches, by instruction of the program (a row counts once for each match).
    counted: rows over which the following was counted, in a second search without short cuts. offered: for each label,
    the rows that satisfy its row-local conditions. tried, refused: by instruction, rows that attempts reached for the
    first time, and those that it did not take.
    seconds: by stage of the tasks' work.
    """

    parts: int
    rows: int
    matches: int
    attempts: int
    steps: int
    taken: tuple[int, ...]
    counted: int
    offered: tuple[int, ...]
    tried: tuple[int, ...]
    refused: tuple[int, ...]
    seconds: dict[str, float]

    def __add__(self, other: RowReport) -> RowReport:
        def by_place(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(left + right for left, right in zip(one, two, strict=True))

        return RowReport(
            self.parts + other.parts,
            self.rows + other.rows,
            self.matches + other.matches,
            self.attempts + other.attempts,
            self.steps + other.steps,
            by_place(self.taken, other.taken),
            self.counted + other.counted,
            by_place(self.offered, other.offered),
            by_place(self.tried, other.tried),
            by_place(self.refused, other.refused),
            {stage: self.seconds[stage] + other.seconds[stage] for stage in self.seconds},
        )

    def rows_by_label(self, plan: RowPatternPlan) -> dict[str, int]:
        """Return the rows of matches, by label."""
        found = dict.fromkeys(plan.labels.names, 0)
        for instruction, rows in zip(plan.program.instructions, self.taken, strict=True):
            if instruction.operation == MATCH:
                found[instruction.label] += rows
        return found

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of each stage in the time of all."""
        total = sum(self.seconds.values())
        return {stage: seconds / total if total else 0.0 for stage, seconds in self.seconds.items()}


def sum_of(texts: Sequence[str]) -> RowReport | None:
    """Add up the reports of all matchers of a run; None if there were no events."""
    return reduce(RowReport.__add__, map(RowReport.from_json, texts)) if texts else None
