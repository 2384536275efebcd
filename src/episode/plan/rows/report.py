"""What a matcher of a row pattern did, and that in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from episode.plan.pattern import CarriedReport
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import MATCH
from episode.words import count_of

STAGE_WORDS = {
    "read": "scan or unpack",
    "order": "order",
    "prepare": "prepare",
    "match": "match",
    "assemble": "assemble",
}
"""The stages of a task's work, in their order, as they are shown."""


@dataclass(frozen=True)
class RowReport(CarriedReport):
    """What one matcher did, or several together.

    parts: how many matchers. rows: of the input. attempts: start rows at which a match was looked for. steps: of all
    attempts. taken: rows of matches, by instruction of the program (a row counts once for each match).
    counted: rows over which the following was counted, in a second search that takes no short cuts. offered: of these,
    for each label those for which its row-local conditions hold. tried, refused: by instruction, rows that attempts
    came to, for the first time, and those that it did not take.
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
        """What both did."""

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
        """Rows of matches, by label."""
        found = dict.fromkeys(plan.labels.names, 0)
        for instruction, rows in zip(plan.program.instructions, self.taken, strict=True):
            if instruction.operation == MATCH:
                found[instruction.label] += rows
        return found

    @property
    def shares(self) -> dict[str, float]:
        """The share of each stage in the time of all."""
        total = sum(self.seconds.values())
        return {stage: seconds / total if total else 0.0 for stage, seconds in self.seconds.items()}


def sum_of(texts: list[str]) -> RowReport | None:
    """What the matchers of a run did together; None: there were no events."""
    return reduce(RowReport.__add__, map(RowReport.from_json, texts)) if texts else None


def explain_row_reports(plan: RowPatternPlan, texts: list[str]) -> list[str]:
    """What the matchers of a run did, in words."""
    found = sum_of(texts)
    if found is None:
        return ["  run: there were no events"]
    lines = [
        f"  run: {count_of(found.parts, 'part')} of the input, {found.rows:,} rows, {found.matches:,} matches",
        f"    attempts: at {found.attempts:,} start rows, {found.steps:,} steps"
        + (f" ({found.steps / found.attempts:,.1f} for each)" if found.attempts else ""),
        "    rows by label (in matches; and of all rows those that satisfy the row-local conditions):",
    ]
    for number, (label, rows) in enumerate(found.rows_by_label(plan).items()):
        lines.append(f"      {label}: {rows:,}; {offered_words(plan, found, number)}")
    if found.counted:
        lines.append(
            "    rows that attempts came to (in a search without short cuts), by instruction, and those that it took:"
        )
        for number, instruction in enumerate(plan.program.instructions):
            if instruction.operation == MATCH and number < MOST_INSTRUCTIONS:
                tried, refused = found.tried[number], found.refused[number]
                lines.append(f"      {number:>3}  {instruction}: {tried:,} tried, {tried - refused:,} taken")
    shares = ", ".join(f"{words} {found.shares[stage]:.0%}" for stage, words in STAGE_WORDS.items())
    lines.append(f"    time in tasks: {sum(found.seconds.values()):,.3f} s: {shares}")
    return lines


MOST_INSTRUCTIONS = 60


def offered_words(plan: RowPatternPlan, report: RowReport, label: int) -> str:
    """How many rows satisfy what a label demands of them alone."""
    condition = plan.conditions.get(plan.labels.names[label])
    if condition is None or not condition.row_local:
        return "any row"
    if not report.counted:
        return "not counted"
    return f"{report.offered[label]:,} ({report.offered[label] / report.counted:.1%})"
