"""The pattern program as arrays, and the sieves that show start rows to fail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from episode.matchers import codes as oc
from episode.matchers.codes import BY_OPERATION, orders_of, swap_sides
from episode.matchers.encoding import is_float_lane
from episode.matchers.prepare import Needs, Prepared
from episode.matchers.rows import arrays as codes
from episode.matchers.rows.arrays import RowProgram, SearchPartitions, SearchRows
from episode.matchers.rows.code import sieves as sieve_code
from episode.plan.expressions import Apply, Constant, Current, Expression, Load, Navigated, walk
from episode.plan.pattern import OrderColumn
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import ACCEPT, CHECK, END, ENTER, JUMP, MATCH, SPLIT, START, PatternProgram
from episode.plan.types import lane_of

LARGE_PROGRAM = 2_000
"""Larger programs are run without knowing which labels each instruction needs next."""

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
    around = np.array([len(loops) for loops in program.enclosing_loops], np.int64)
    is_split = np.array([i.operation == SPLIT for i in instructions])
    slots = np.where(is_split, around + 1, 0)
    first_bits, follow_bits, one_row_enough, nullable = _openings(program, number)
    label_of = np.array([number.get(i.label, 0) for i in instructions], np.int64)
    code = np.empty((len(instructions), 8), np.int64)
    code[:, codes.OP] = [CODES[i.operation] for i in instructions]
    code[:, codes.FIRST] = [i.first for i in instructions]
    code[:, codes.SECOND] = [i.second for i in instructions]
    code[:, codes.LABEL] = label_of
    code[:, codes.BIT] = (np.uint64(1) << label_of.astype(np.uint64)).view(np.int64)
    code[:, codes.ENTRY] = _entry_bits(program, number).view(np.int64)
    code[:, codes.LOOP] = [_is_loop_choice(program, at) for at in range(len(instructions))]
    code[:, codes.SLOT] = np.where(is_split, np.cumsum(slots) - slots, -1)
    return RowProgram(
        code=code,
        label_of=label_of,
        loop_from=np.append(0, np.cumsum(around)),
        loop_ids=np.array([loop for loops in program.enclosing_loops for loop in loops], np.int32),
        slots=max(1, int(slots.sum())),
        loops=program.loops,
        labels=max(1, len(labels)),
        first_bits=np.uint64(first_bits),
        follow_bits=np.uint64(follow_bits),
        one_row_enough=one_row_enough or timed_out,
        nullable=nullable,
        required=np.array([1 << number[label] for label in sorted(required)], np.uint64),
    )


def reach(program: PatternProgram, start: int, without: str | None = None) -> set[int]:
    """Instructions to which the search may come from one without a row (anchors pass, loops may end); without: or with
    rows of all labels but this one."""
    reached: set[int] = set()
    pending = [start]
    while pending:
        at = pending.pop()
        one = program.instructions[at]
        if at in reached:
            continue
        reached.add(at)
        if one.operation == ACCEPT or (one.operation == MATCH and without in (None, one.label)):
            continue
        pending.append(one.first if one.operation in (SPLIT, JUMP) else at + 1)
        if one.operation in (SPLIT, CHECK):
            pending.append(one.second)
    return reached


def _reachable(program: PatternProgram, start: int) -> tuple[set[int], bool]:
    """MATCH instructions reachable without a row, and whether ACCEPT is."""
    reached = {at: program.instructions[at].operation for at in reach(program, start)}
    return {at for at, operation in reached.items() if operation == MATCH}, ACCEPT in reached.values()


def _entry_bits(program: PatternProgram, number: dict[str, int]) -> np.ndarray:
    """uint64 by instruction: labels of which the next row must offer one to continue; all bits if none is needed."""
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
    """Is it the choice between one more row of the label just before it (preferred) and the rest?"""
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
    steps = program.instructions
    labels = {step.label for step in steps if step.operation == MATCH}
    return frozenset(
        label for label in labels if all(steps[at].operation != ACCEPT for at in reach(program, 0, without=label))
    )


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


# Sieves: comparisons of a row that every match has with the start row, which show a start row to fail. `A B*? C` with
# `C AS C.price < A.price - 1000`: a search that has become long looks through the rows of its window for one that could
# be C, which costs much less than to try them all.


@dataclass(frozen=True)
class Sieve:
    """A row with this label has a value `own` that compares so (`orders`) with the start row's value `start`; both are
    row-local. first_decides: if the first row that could have the label fails, all later ones do."""

    label: str
    own: Expression
    start: Expression
    orders: int
    first_decides: bool


_FROM_FIRST = {
    True: (sieve_code.LESS, sieve_code.LESS | sieve_code.EQUAL),
    False: (sieve_code.GREATER, sieve_code.GREATER | sieve_code.EQUAL),
}
"""By the direction of an order: comparisons that fail from some row on."""


def sieves_of(plan: RowPatternPlan) -> tuple[Sieve, ...]:
    """The sieve of a pattern whose first row alone has the first label; none or one."""
    first = _label_of_start(plan.program)
    if plan.output.timed_out or first is None:
        return ()
    for label in sorted(required_labels(plan.program) - {first}):
        for part in plan.conditions[label].residual if label in plan.conditions else ():
            sieve = _sieve(label, first, part, plan.order[:1])
            if sieve is not None:
                return (sieve,)
    return ()


def _label_of_start(program: PatternProgram) -> str | None:
    """The label of the first row of every match, if no other row has it."""
    first, *others = program.instructions
    if first.operation != MATCH or any(one.operation == MATCH and one.label == first.label for one in others):
        return None
    comes_back = any(
        (one.operation in (SPLIT, JUMP) and one.first == 0) or (one.operation in (SPLIT, CHECK) and one.second == 0)
        for one in others
    )
    return None if comes_back else first.label


def _sieve(label: str, first: str, part: Expression, order: Sequence[OrderColumn]) -> Sieve | None:
    """The sieve of one condition of the label. order: the first column of the order of rows, if there is one."""
    if not isinstance(part, Apply) or part.operation not in BY_OPERATION:
        return None
    left, right = part.operands
    if left.type != right.type or lane_of(left.type) not in ("int", "float"):
        return None
    compare = BY_OPERATION[part.operation]
    for own, other, code in ((left, right, compare), (right, left, swap_sides(compare))):
        at_start = _read_at_start(other, first)
        if at_start is not None and _reads_own_row(own):
            orders = orders_of(code)
            decides = isinstance(own, Load) and any(
                own.column == one.column and orders in _FROM_FIRST[one.ascending] for one in order
            )
            return Sieve(label, own, at_start, orders, decides)
    return None


def _reads_own_row(expression: Expression) -> bool:
    """Does it read values of the row under trial, and nothing else?"""
    nodes = list(walk(expression))
    loads = [node for node in nodes if isinstance(node, Load)]
    return (
        bool(loads)
        and all(isinstance(node, (Load, Apply, Constant)) for node in nodes)
        and all(load.at == Current(0) and load.missing is None for load in loads)
        and all(lane_of(node.type) in ("int", "float") for node in nodes)
    )


def _read_at_start(expression: Expression, first: str) -> Expression | None:
    """An expression that reads values of the start row, as it reads them at that row; None if it reads others."""
    if isinstance(expression, Load):
        at = expression.at
        is_start = isinstance(at, Navigated) and at.labels == frozenset((first,)) and at.offset == at.shift == 0
        return replace(expression, at=Current(0)) if is_start and expression.missing is None else None
    if isinstance(expression, Constant):
        return expression if lane_of(expression.type) in ("int", "float") else None
    if not isinstance(expression, Apply) or lane_of(expression.type) not in ("int", "float"):
        return None
    operands = [_read_at_start(operand, first) for operand in expression.operands]
    moved = tuple(operand for operand in operands if operand is not None)
    return replace(expression, operands=moved) if len(moved) == len(operands) else None


def with_sieves(needs: Needs, sieves: tuple[Sieve, ...]) -> Needs:
    """The needs of a plan and its sieves."""
    computed = [part for sieve in sieves for part in (sieve.own, sieve.start) if not isinstance(part, Load)]
    return replace(needs, computed=tuple(dict.fromkeys((*needs.computed, *computed))))


def lower_sieves(sieves: tuple[Sieve, ...], labels: tuple[str, ...], prepared: Prepared) -> np.ndarray:
    """int64[sieves, 8]: in the columns of `code.sieves`."""
    table = np.empty((len(sieves), sieve_code.FIRST_DECIDES + 1), np.int64)
    for row, sieve in zip(table, sieves, strict=True):
        _, own, own_valid = prepared.column(sieve.own)
        floating, start, start_valid = prepared.column(sieve.start)
        assert floating == is_float_lane(sieve.own.type)
        bit = np.uint64(1 << labels.index(sieve.label)).view(np.int64)
        row[:] = bit, floating, own, own_valid, start, start_valid, sieve.orders, sieve.first_decides
    return table


def without_hopeless_starts(
    sieve: np.ndarray, program: RowProgram, rows: SearchRows, partitions: SearchPartitions, within: int
) -> np.ndarray:
    """The bits of all rows at the end of input; a start row that the sieve shows to fail does not offer its label."""
    first = np.uint64(program.code[0, codes.BIT])
    offers_first, is_candidate = rows.bits & first != 0, rows.bits & sieve[sieve_code.SIEVE_BIT].view(np.uint64) != 0
    is_start = offers_first.copy()
    for check, offered in ((sieve[sieve_code.OWN_CHECK], is_candidate), (sieve[sieve_code.START_CHECK], is_start)):
        if check >= 0:
            offered &= rows.valid[check] != 0
    lane = rows.floats if sieve[sieve_code.IN_FLOAT_LANE] else rows.ints
    own_values, start_values = lane[sieve[sieve_code.OWN_COLUMN]], lane[sieve[sieve_code.START_COLUMN]]
    values = np.concatenate([own_values[is_candidate], start_values[is_start]])
    ranks = np.unique(values, return_inverse=True)[1]
    own, wanted = np.zeros((2, len(rows.bits)), np.int64)
    own[is_candidate], wanted[is_start] = np.split(ranks, [np.count_nonzero(is_candidate)])
    lo, hi, accepted = partitions.lo, partitions.hi, int(sieve[sieve_code.ACCEPTED])
    hopeless = sieve_code.hopeless_starts(lo, hi, within, rows.time, is_start, is_candidate, own, wanted, accepted)
    return np.where(hopeless | (offers_first & ~is_start), rows.bits & ~first, rows.bits)
