"""The pattern program as arrays, and what can be said of a start row from the program alone."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from episode.matchers import opcodes as oc
from episode.matchers.rows.arrays import BIT, ENTRY, FIRST, LABEL, LOOP, OP, SECOND, SLOT, RowProgram
from episode.plan.rows.program import ACCEPT, CHECK, END, ENTER, JUMP, MATCH, SPLIT, START, PatternProgram

LARGE_PROGRAM = 2_000
"""Beyond this size the program is run without knowing what each instruction needs next."""

CODES = {
    MATCH: oc.MATCH, SPLIT: oc.SPLIT, JUMP: oc.JUMP, START: oc.START, END: oc.END, ENTER: oc.ENTER, CHECK: oc.CHECK,
    ACCEPT: oc.ACCEPT,
}  # fmt: skip


def lower_program(
    program: PatternProgram, labels: tuple[str, ...], timed_out: bool, conditional: Collection[str] = ()
) -> RowProgram:
    """Arrays of a program; labels are numbered by their place in `labels`. timed_out: are parts of matches given?

    conditional: labels that not every row offers.
    """
    required = required_labels(program).intersection(conditional)
    number = {label: index for index, label in enumerate(labels)}
    instructions = program.instructions
    slots, slot = 0, []
    for instruction, around in zip(instructions, program.enclosing_loops, strict=True):
        if instruction.operation == SPLIT:
            slot.append(slots)
            slots += len(around) + 1
        else:
            slot.append(-1)
    loop_from = np.zeros(len(instructions) + 1, np.int64)
    loop_from[1:] = np.cumsum([len(around) for around in program.enclosing_loops])
    first_bits, follow_bits, one_row_enough, nullable = _openings(program, number)
    label_of = np.array([number.get(i.label, 0) for i in instructions], np.int64)
    code = np.empty((len(instructions), 8), np.int64)
    code[:, OP] = [CODES[i.operation] for i in instructions]
    code[:, FIRST] = [i.first for i in instructions]
    code[:, SECOND] = [i.second for i in instructions]
    code[:, LABEL] = label_of
    code[:, BIT] = (np.uint64(1) << label_of.astype(np.uint64)).view(np.int64)
    code[:, ENTRY] = _entry_bits(program, number).view(np.int64)
    code[:, LOOP] = [_is_loop_choice(program, at) for at in range(len(instructions))]
    code[:, SLOT] = slot
    return RowProgram(
        code=code,
        label_of=label_of,
        loop_from=loop_from,
        loop_ids=np.array([loop for around in program.enclosing_loops for loop in around], np.int32),
        slots=max(1, slots),
        loops=program.loops,
        labels=max(1, len(labels)),
        first_bits=np.uint64(first_bits),
        follow_bits=np.uint64(follow_bits),
        one_row_enough=one_row_enough or timed_out,
        nullable=nullable,
        required=np.array([1 << number[label] for label in sorted(required)], np.uint64),
    )


def _reachable(program: PatternProgram, start: int) -> tuple[set[int], bool]:
    """MATCH instructions reachable without a row (anchors pass, loops may end), and whether ACCEPT is."""
    matches: set[int] = set()
    accepts = False
    seen: set[int] = set()
    stack = [start]
    while stack:
        at = stack.pop()
        if at in seen:
            continue
        seen.add(at)
        instruction = program.instructions[at]
        if instruction.operation == MATCH:
            matches.add(at)
        elif instruction.operation == ACCEPT:
            accepts = True
        else:
            stack += _after(program, at)
    return matches, accepts


def _after(program: PatternProgram, at: int) -> tuple[int, ...]:
    """The instructions that may follow one."""
    instruction = program.instructions[at]
    if instruction.operation == SPLIT:
        return instruction.first, instruction.second
    if instruction.operation == CHECK:
        return at + 1, instruction.second
    return (instruction.first if instruction.operation == JUMP else at + 1,)


def _entry_bits(program: PatternProgram, number: dict[str, int]) -> np.ndarray:
    """uint64 by instruction: labels of which the next row must offer one to go on; all bits if none is needed."""
    bits = np.full(len(program.instructions), np.uint64(2**64 - 1), np.uint64)
    if len(program.instructions) > LARGE_PROGRAM:
        return bits
    for at in range(len(bits)):
        matches, accepts = _reachable(program, at)
        anchored = any(instruction.operation in (START, END) for instruction in program.instructions)
        if not accepts and not anchored:
            bits[at] = np.uint64(sum({1 << number[program.instructions[other].label] for other in matches}))
    return bits


def _is_loop_choice(program: PatternProgram, at: int) -> bool:
    """The choice between one more row of the label just before it (preferred) and going on."""
    instruction = program.instructions[at]
    again = at > 0 and instruction.operation == SPLIT and instruction.first == at - 1
    return again and program.instructions[at - 1].operation == MATCH


def _openings(program: PatternProgram, number: dict[str, int]) -> tuple[int, int, bool, bool]:
    firsts, nullable = _reachable(program, 0)
    large = len(program.instructions) > LARGE_PROGRAM
    first_bits = follow_bits = 0
    one_row_enough = large
    for at in firsts:
        first_bits |= 1 << number[program.instructions[at].label]
        if one_row_enough:
            continue
        following, accepts = _reachable(program, at + 1)
        one_row_enough = accepts
        for other in following:
            follow_bits |= 1 << number[program.instructions[other].label]
    return first_bits, follow_bits, one_row_enough, nullable


def required_labels(program: PatternProgram) -> frozenset[str]:
    """Labels that every match has."""
    if len(program.instructions) > LARGE_PROGRAM:
        return frozenset()
    labels = {instruction.label for instruction in program.instructions if instruction.operation == MATCH}
    return frozenset(label for label in labels if not _accepts_without(program, label))


def _accepts_without(program: PatternProgram, label: str) -> bool:
    """Is there a way through the program on which no row has the label?"""
    seen: set[int] = set()
    stack = [0]
    while stack:
        at = stack.pop()
        instruction = program.instructions[at]
        if at in seen or (instruction.operation == MATCH and instruction.label == label):
            continue
        seen.add(at)
        if instruction.operation == ACCEPT:
            return True
        stack += _after(program, at)
    return False


def later_labels(program: PatternProgram) -> frozenset[str]:
    """Labels that a row after the first of a match may have."""
    pending = list(_reachable(program, 0)[0])
    seen: set[int] = set()
    found: set[int] = set()
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            following, _ = _reachable(program, at + 1)
            found |= following
            pending += following
    return frozenset(program.instructions[at].label for at in found)


def last_labels(program: PatternProgram) -> frozenset[str]:
    """Labels that the last row of a match may have."""
    instructions = program.instructions
    if len(instructions) > LARGE_PROGRAM:
        return frozenset(one.label for one in instructions if one.operation == MATCH)
    return frozenset(
        one.label for at, one in enumerate(instructions) if one.operation == MATCH and _reachable(program, at + 1)[1]
    )
