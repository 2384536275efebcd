"""The states of a row pattern (Lau, 4.3.1), and the counts of the search by state.

A state is an instruction that takes rows. A repeated instruction, `B+`, is two states: the first row, and the star that
holds the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.matchers.protocol import Selectivities
from episode.matchers.rows.program import reach
from episode.plan.rows.program import JUMP, MATCH, SPLIT, PatternProgram


@dataclass(frozen=True)
class States:
    """States of a pattern, by number.

    star: may it hold any number of rows? first, repeated: does it count rows that come to the instruction for the first
    time, and again after a row that it took? optional: may it be skipped, and holds at most one row (`B?`)? at: the
    next state when the search is at an instruction; again: the same after it took a row there.
    """

    labels: tuple[str, ...]
    star: np.ndarray
    instruction: np.ndarray
    first: np.ndarray
    repeated: np.ndarray
    optional: np.ndarray
    at: np.ndarray
    again: np.ndarray

    @staticmethod
    def of(program: PatternProgram) -> States:
        instructions = program.instructions
        rows: list[tuple[str, bool, int, bool, bool, bool]] = []
        places: dict[int, tuple[int, int]] = {}
        for number, instruction in enumerate(instructions):
            if instruction.operation != MATCH:
                continue
            repeats = _leads_to(program, number + 1, number)
            passed = number > 0 and _passes(program, number - 1, number)
            begin = len(rows)
            if not repeats or passed:
                rows.append((instruction.label, passed, number, True, True, passed and not repeats))
            else:
                rows.append((instruction.label, False, number, True, False, False))
                rows.append((instruction.label, True, number, False, True, False))
            places[number] = begin, len(rows) - 1
        labels, star, instruction_of, first, repeated, optional = zip(*rows, strict=True) if rows else ((),) * 6
        at = [_next_state(program, number, places) for number in range(len(instructions))]
        again = [places[number][1] if number in places else at[number] for number in range(len(instructions))]
        return States(
            tuple(labels), np.array(star, np.bool_), np.array(instruction_of, np.int64), np.array(first, np.bool_),
            np.array(repeated, np.bool_), np.array(optional, np.bool_), np.array(at, np.int64),
            np.array(again, np.int64),
        )  # fmt: skip

    def selectivities(self, counts: np.ndarray, windows: int, matches: int) -> Selectivities:
        """counts: those of the search, see `matchers.rows.arrays.Work`."""
        counts = counts[self.instruction]
        both = counts[:, 0] * self.first[:, np.newaxis] + counts[:, 1] * self.repeated[:, np.newaxis]
        entered, refused = both[:, 0], both[:, 1]
        left = np.where(self.optional, entered, np.where(self.star, refused, entered - refused))
        return Selectivities(self.labels, self.star, entered, left, windows, matches)


def _leads_to(program: PatternProgram, choice: int, to: int) -> bool:
    instruction = program.instructions[choice]
    return instruction.operation == SPLIT and to in (instruction.first, instruction.second)


def _passes(program: PatternProgram, choice: int, taken: int) -> bool:
    """Whether a choice takes one of its branches or passes it by: the other is also reached after it, as in `B?`."""
    instruction = program.instructions[choice]
    if not _leads_to(program, choice, taken):
        return False
    other = instruction.second if instruction.first == taken else instruction.first
    return other in reach(program, taken + 1)


def _next_state(program: PatternProgram, at: int, places: dict[int, tuple[int, int]]) -> int:
    """The state that is tried next at an instruction, by the pattern's preference; the last one if none follows."""
    seen: set[int] = set()
    while at not in seen and at < len(program.instructions):
        if at in places:
            return places[at][0]
        seen.add(at)
        instruction = program.instructions[at]
        at = instruction.first if instruction.operation in (SPLIT, JUMP) else at + 1
    return max((last for _, last in places.values()), default=0)
