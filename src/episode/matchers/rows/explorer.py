"""The pattern's program run from a start row step by step, with all failures noted: how far attempts come, and why.

The same search as the compiled one, in its order, for few start rows and with a bound on its steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Union

from episode.matchers import codes as oc
from episode.matchers.rows.arrays import FIRST, LABEL, OP, SECOND, SLOT
from episode.matchers.rows.stepwise import StepwiseAttempt
from episode.plan.rows.plan import NO_MEMORY

CONDITION, END_OF_ROWS, WINDOW, AT_START, AT_END = "condition", "end of rows", "window", "start anchor", "end anchor"
"""Reasons why an attempt ends: a condition; no row is left, or none in the window; `^` or `$` does not hold."""

LONGER = "longer"


class TakenRow(NamedTuple):
    """A row that was taken, the instruction that took it, and the rows before."""

    instruction: int
    before: TakenRow | None


Path = Union[TakenRow, None]


def instructions_of(path: Path) -> list[int]:
    """The instructions that took the rows, the first first."""
    found = []
    while path is not None:
        found.append(path.instruction)
        path = path.before
    return found[::-1]


@dataclass(frozen=True)
class FailedWay:
    """The end of a way. row: the row that was not taken (after the last one if rows end); path: the rows before."""

    kind: str
    instruction: int
    row: int
    path: Path


@dataclass
class Exploration:
    """The result of an attempt.

    accepted: ways through the pattern, by preference. farthest: the last row that was tried; failures: those at it, one
    for each kind and label, by preference. refused: the farthest failure of a condition for each label, and its number
    of failures. complete: are all ways explored (or enough)? shorter_than: longer ways are of no interest.
    """

    start: int
    number: int
    accepted: list[tuple[int, Path]] = field(default_factory=list)
    farthest: int = -1
    failures: dict[tuple[str, int], FailedWay] = field(default_factory=dict)
    refused: dict[int, tuple[FailedWay, int]] = field(default_factory=dict)
    steps: int = 0
    complete: bool = True
    shorter_than: int | None = None

    def note(self, failure: FailedWay, label: int) -> None:
        """Add the end of a way."""
        if failure.row > self.farthest:
            self.farthest = failure.row
            self.failures.clear()
        if failure.row == self.farthest:
            self.failures.setdefault((failure.kind, label), failure)
        if failure.kind == CONDITION:
            known, count = self.refused.get(label, (failure, 0))
            self.refused[label] = (failure if failure.row > known.row else known, count + 1)


@dataclass(frozen=True)
class Explorer:
    """Explores attempts over one partition. code: the instructions, as lists."""

    trial: StepwiseAttempt
    code: list[list[int]]
    loops_around: list[list[int]]
    remembers: bool
    within: int | None

    @staticmethod
    def of(trial: StepwiseAttempt) -> Explorer:
        program, plan = trial.program, trial.plan
        bounds, ids = program.loop_from.tolist(), program.loop_ids.tolist()
        around = [ids[bounds[at] : bounds[at + 1]] for at in range(len(program.code))]
        return Explorer(trial, program.code.tolist(), around, plan.memory != NO_MEMORY, plan.within)

    def explore(
        self,
        start: int,
        number: int,
        steps: int,
        *,
        ways: int = 1,
        alike: bool = False,
        windowed: bool = True,
        shortest: bool = False,
        reluctant: bool = False,
    ) -> Exploration:
        """Explore a start row until `ways` ways through the pattern are found.

        number: of the last match before it. steps: the search is given up after this number. alike: are ways of
        interest that continue as one before them did? Ways with the same labels are one. windowed: does WITHIN hold?
        shortest: of all ways through the pattern, keep only those shorter than the ones before. reluctant: at every
        choice, the other side first.
        """
        found = Exploration(start, number)
        known: set[tuple[int, ...]] = set()
        for depth, path in self._ways(found, steps, windowed, self.remembers and not alike, reluctant):
            if shortest:
                found.accepted = [(depth, path)]
                found.shorter_than = depth
                continue
            labels = tuple(self.code[at][LABEL] for at in instructions_of(path)) if alike else ()
            if labels in known:
                continue
            known |= {labels} if alike else set()
            found.accepted.append((depth, path))
            if len(found.accepted) >= ways:
                break
        return found

    def _ways(
        self, found: Exploration, most: int, windowed: bool, remembers: bool, reluctant: bool
    ) -> Iterator[tuple[int, Path]]:
        trial, code, start = self.trial, self.code, found.start
        trial.begin(start, found.number)
        rows, time = len(trial.events), trial.events.time
        ends = None if self.within is None or not windowed else int(time[start]) + self.within
        stack: list[tuple[int, int, Path, int]] = []
        loop_rows = [-1] * (trial.program.loops + 1)
        seen: set[tuple[int, int]] = set()
        sooner, later = (SECOND, FIRST) if reluctant else (FIRST, SECOND)
        row, pc = start, 0
        path: Path = None
        while True:
            if found.steps >= most:
                found.complete = False
                return
            found.steps += 1
            instruction = code[pc]
            operation, failed = instruction[OP], False
            if operation == oc.MATCH:
                label = instruction[LABEL]
                if found.shorter_than is not None and row - start + 1 >= found.shorter_than:
                    failure = LONGER
                elif row >= rows:
                    failure = END_OF_ROWS
                elif ends is not None and int(time[row]) > ends:
                    failure = WINDOW
                else:
                    failure = "" if self._takes(pc, row, label) else CONDITION
                failed = failure != ""
                if not failed:
                    path, row, pc = TakenRow(pc, path), row + 1, pc + 1
                elif failure != LONGER:
                    found.note(FailedWay(failure, pc, row, path), label)
            elif operation == oc.SPLIT:
                if remembers:
                    slot = instruction[SLOT] + sum(loop_rows[loop] == row for loop in self.loops_around[pc])
                    failed = (slot, row) in seen
                    seen.add((slot, row))
                if not failed:
                    stack.append((instruction[later], row, path, -1))
                    pc = instruction[sooner]
            elif operation == oc.JUMP:
                pc = instruction[FIRST]
            elif operation in (oc.START, oc.END):
                place, kind = (0, AT_START) if operation == oc.START else (rows, AT_END)
                failed = row != place
                if failed:
                    found.note(FailedWay(kind, pc, row, path), -1)
                else:
                    pc += 1
            elif operation == oc.ENTER:
                loop = instruction[FIRST]
                stack.append((-1, loop_rows[loop], None, loop))
                loop_rows[loop] = row
                pc += 1
            elif operation == oc.CHECK:
                pc = instruction[SECOND] if loop_rows[instruction[FIRST]] == row else pc + 1
            else:
                yield row - start, path
                failed = True
            if failed:
                while stack and stack[-1][3] >= 0:
                    _, before, _, loop = stack.pop()
                    loop_rows[loop] = before
                if not stack:
                    return
                pc, row, path, _ = stack.pop()
                trial.back_to(row)

    def _takes(self, pc: int, row: int, label: int) -> bool:
        """Take a row, if its label's condition holds there."""
        trial = self.trial
        if not trial.offers(row, label):
            return False
        trial.take(pc)
        if trial.holds(label):
            return True
        trial.back_to(row)
        return False
