"""Residual conditions in the terms of the row pattern kernel: what depends on the rows of the match so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from episode.kernels import opcodes as oc
from episode.kernels.rows.arrays import (
    ALL_LABELS,
    EXTREME,
    PUSHED,
    SET_OF_LABELS,
    Aggregates,
    Navigations,
    Residuals,
    Tests,
)
from episode.matchers.lowering import Assembler, conjunction, is_float_lane, simple_test
from episode.matchers.prepare import Prepared, function_code, membership, running_argument
from episode.matchers.rows.array_programs import ArrayAssembler, ArrayPrograms
from episode.matchers.rows.sieves import Sieve, lower_sieves
from episode.plan.expressions import Current, ElementRow, ExtremeRow, Load, Navigated, Running, is_row_local
from episode.plan.labels import Labels
from episode.plan.rows.plan import RowPatternPlan

MachineProgram = tuple[int, int, int]
"""First instruction, end, register of the result."""
NO_PROGRAM: MachineProgram = (0, 0, 0)


class Lowered(NamedTuple):
    """The residual conditions of a query over one batch."""

    tests: Tests
    residuals: Residuals
    navigations: Navigations
    aggregates: Aggregates
    arrays: ArrayPrograms


def lower_residuals(plan: RowPatternPlan, prepared: Prepared, sieves: tuple[Sieve, ...] = ()) -> Lowered:
    """Comparisons of two loads become tests, all else programs; both read the rows that navigations find."""
    assembler = Assembler(prepared.lanes)
    assembler.number_runnings(part for condition in plan.conditions.values() for part in condition.residual)
    arrays = ArrayAssembler(assembler)
    tests: list[tuple[int, ...]] = []
    test_from = [0]
    programs: list[MachineProgram] = []
    nav_from = [0]
    nav_ids: list[int] = []
    for label in plan.labels.names:
        condition = plan.conditions.get(label)
        program = NO_PROGRAM
        arrays.next_label()
        rest = []
        for part in () if condition is None else condition.residual:
            test = simple_test(part)
            if test is None:
                rest.append(part)
            else:
                tests.append(_test(assembler, *test))
        if rest:
            condition_holds = conjunction(tuple(rest))
            evaluated = arrays.prepare_for(condition_holds)
            program = assembler.program(condition_holds)
            nav_ids += _navigations_of(assembler, [*evaluated, program])
        programs.append(program)
        test_from.append(len(tests))
        nav_from.append(len(nav_ids))
    arrays.next_label()
    pushed = _pushed_programs(assembler)
    placed = arrays.place()
    code, const_i, const_f = assembler.arrays()
    from_, to, result = np.array(programs or [NO_PROGRAM], np.int64).T.copy()
    return Lowered(
        _tests(tests, test_from, lower_sieves(sieves, plan.labels.names, prepared)),
        Residuals(
            from_, to, result, _bounds(nav_from), np.array(nav_ids, np.int64), placed.from_,
            code, assembler.registers, const_i, const_f,
        ),
        _navigations(assembler, plan),
        _aggregates(assembler, prepared, pushed),
        placed,
    )  # fmt: skip


def _bounds(from_: list[int]) -> np.ndarray:
    """Of at least one label."""
    return np.array(from_ if len(from_) > 1 else [0, 0], np.int64)


# ---- tests -----------------------------------------------------------------------------------------


def _test(assembler: Assembler, compare: int, left: Load, right: Load) -> tuple[int, ...]:
    lanes = assembler.lanes

    def side(load: Load) -> tuple[int, int, int]:
        nav = -1 if load.at == Current(0) else assembler.navigations.number(load.at)
        return lanes.at[load.column], lanes.valid_at[load.column], nav

    return compare, int(is_float_lane(left.type)), *side(left), *side(right)


def _tests(tests: list[tuple[int, ...]], test_from: list[int], sieves: np.ndarray) -> Tests:
    return Tests(_bounds(test_from), np.array(tests or [(0,) * 8], np.int64), sieves)


# ---- navigations -----------------------------------------------------------------------------------


def _navigations_of(assembler: Assembler, programs: list[MachineProgram]) -> list[int]:
    """Numbers of the navigations that programs read; the rows of elements are the array programs' to find."""
    found: dict[int, None] = {}
    for start, stop, _ in programs:
        for instruction in assembler.code[start:stop]:
            if instruction[0] in (oc.LOAD_NAV_I, oc.LOAD_NAV_F):
                found[instruction[4]] = None
            elif instruction[0] in (oc.LABEL_AT, oc.EXISTS_NAV):
                found[instruction[2]] = None
    elements = {number for at, number in assembler.navigations.numbers.items() if isinstance(at, ElementRow)}
    return [number for number in found if number not in elements]


def _navigations(assembler: Assembler, plan: RowPatternPlan) -> Navigations:
    navigations: list[Navigated] = []
    label_of: list[int] = []
    sets: list[int] = []
    for at in assembler.navigations.numbers:
        if isinstance(at, Navigated):
            navigations.append(at)
            label_of.append(_label_number(at.labels, plan.labels))
            sets.append(assembler.set_number(at.labels))
        else:  # not by labels: the row of an extreme, and the row of an element, which array programs set
            offset = assembler.runnings[at.by] if isinstance(at, ExtremeRow) else 0
            navigations.append(Navigated(None, False, offset, 0))
            label_of.append(EXTREME)
            sets.append(0)
    for running in assembler.runnings:
        assembler.set_number(running.labels)
    plain = [
        label >= 0 and not (navigation.first or navigation.offset or navigation.shift)
        for navigation, label in zip(navigations, label_of, strict=True)
    ]
    ranks = assembler.lanes.ranks
    return Navigations(
        first=np.array([navigation.first for navigation in navigations], np.bool_),
        offset=np.array([navigation.offset for navigation in navigations], np.int64),
        shift=np.array([navigation.shift for navigation in navigations], np.int64),
        label=np.array(label_of, np.int64),
        set=np.array(sets, np.int64),
        plain=np.array(plain, np.bool_),
        track=any(label >= 0 for label in label_of),
        sets=membership([*assembler.sets, plan.labels.members(plan.rules.skip_label)], plan.labels),
        label_codes=np.array([ranks.get(("string", name), -1) for name in plan.labels.names] or [0], np.int64),
    )


def _label_number(members: frozenset[str] | None, labels: Labels) -> int:
    """In the place of a label: see `kernels.rows.arrays`."""
    if members is None:
        return ALL_LABELS
    return labels.names.index(next(iter(members))) if len(members) == 1 else SET_OF_LABELS


# ---- running aggregates ----------------------------------------------------------------------------


def _pushed_programs(assembler: Assembler) -> dict[Running, MachineProgram]:
    """Programs of arguments that depend on the label or the match; they run as rows are taken."""
    programs: dict[Running, MachineProgram] = {}
    for running in list(assembler.runnings):
        argument = running_argument(running)
        if argument is not None and not is_row_local(argument):
            programs[running] = assembler.program(argument)
    return programs


def _aggregates(assembler: Assembler, prepared: Prepared, pushed: dict[Running, MachineProgram]) -> Aggregates:
    rows: list[tuple[int, ...]] = []
    for running in assembler.runnings:
        argument = running_argument(running)
        floating, column, check = False, -1, -1
        program, navigation = NO_PROGRAM, -1
        if running in pushed:
            assert argument is not None
            program = pushed[running]
            navigation = next(iter(_navigations_of(assembler, [program])), -1)
            floating, column = is_float_lane(argument.type), PUSHED
        elif argument is not None:
            floating, column, check = prepared.column(argument)
            if running.function == "count":
                floating, column = False, 0
        function, members = function_code(running), assembler.set_number(running.labels)
        high = assembler.highs.get(running, -1)
        rows.append((function, members, column, check, floating, *program, navigation, high))
    width = len(Aggregates._fields)
    return Aggregates(*np.array(rows, np.int64).reshape(-1, width).T.copy())
