"""From a plan and a batch to the arrays that the row pattern kernel runs on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.rows import matching as kernel
from episode.matchers.array_programs import ArrayAssembler
from episode.matchers.encoding import Lanes, encode
from episode.matchers.lowering import Assembler, conjunction, is_float_lane, simple_test
from episode.plan.expressions import (
    Constant,
    Current,
    ElementRow,
    Expression,
    ExtremeRow,
    LabelAt,
    Load,
    Navigated,
    Running,
    is_row_local,
    walk,
)
from episode.plan.labels import Labels
from episode.plan.native import to_float
from episode.plan.output import (
    Extreme,
    Gathered,
    RowAggregate,
)
from episode.plan.pattern import PatternPlan
from episode.plan.types import lane_of
from episode.plan.wide import has_words

FUNCTIONS = {
    "count": oc.COUNT, "count_if": oc.COUNT_IF, "sum": oc.SUM, "avg": oc.AVG, "min": oc.MIN, "max": oc.MAX,
    "var_samp": oc.VAR_SAMP, "var_pop": oc.VAR_POP, "stddev_samp": oc.STDDEV_SAMP, "stddev_pop": oc.STDDEV_POP,
    "min_by": oc.MIN_BY, "max_by": oc.MAX_BY,
}  # fmt: skip
FLOAT_FUNCTIONS = ("avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")


def running_argument(running: Running) -> Expression | None:
    """The argument in the lane that the aggregate adds up."""
    if running.argument is not None and running.function in FLOAT_FUNCTIONS and not has_words(running):
        return to_float(running.argument)
    return running.argument


def function_code(running: Running) -> int:
    return oc.AVG_WHOLE if running.function == "avg" and has_words(running) else FUNCTIONS[running.function]


@dataclass(frozen=True)
class Needs:
    """What a plan needs of a batch: columns in lanes, columns of which only nulls matter, constants, computed."""

    columns: dict[str, str]
    null_tests: tuple[str, ...]
    constants: tuple[tuple[str, object], ...]
    computed: tuple[Expression, ...]


def needs_of(plan: PatternPlan) -> Needs:
    """Computed once per plan."""
    columns: dict[str, str] = {}
    null_tests: dict[str, None] = {}
    constants: dict[tuple[str, object], None] = {}
    computed: dict[Expression, None] = {}
    value_only: list[Expression] = []

    def read(expression: Expression) -> None:
        for node in walk(expression):
            if isinstance(node, Load):
                columns[node.column] = node.type
                if node.missing is not None:
                    columns[node.missing] = node.type
            elif isinstance(node, Constant) and lane_of(node.type) == "code" and node.value is not None:
                constants[(node.type, node.value)] = None
            elif isinstance(node, LabelAt):
                for label in plan.labels.names:
                    constants[("string", label)] = None
            elif isinstance(node, Running):
                argument = running_argument(node)
                if argument is not None:
                    take(argument, node.function == "count")

    def take(argument: Expression, only_nulls: bool) -> None:
        if isinstance(argument, Load) and argument.at == Current(0):
            if only_nulls:
                null_tests[argument.column] = None
            else:
                columns[argument.column] = argument.type
        else:
            if is_row_local(argument):
                computed[argument] = None
            read(argument)

    for condition in plan.conditions.values():
        for part in (*condition.row_local, *condition.residual):
            read(part)
    for atom in plan.measures.atoms:
        if isinstance(atom, RowAggregate) and atom.argument is not None:
            take(_measure_argument(atom), atom.function == "count")
        elif isinstance(atom, Extreme):
            take(atom.by, False)
            value_only.append(atom.value)
        elif isinstance(atom, Gathered) and atom.value is not None:
            value_only.append(atom.value)
    for value in value_only:
        if isinstance(value, Load) and value.at == Current(0):
            null_tests[value.column] = None
        else:
            computed[value] = None
            read(value)
    return Needs(columns, tuple(null_tests), tuple(constants), tuple(computed))


def _measure_argument(atom: RowAggregate) -> Expression:
    assert atom.argument is not None
    return to_float(atom.argument) if atom.function in FLOAT_FUNCTIONS else atom.argument


measure_argument = _measure_argument


@dataclass
class Prepared:
    """A batch in the machine's terms."""

    lanes: Lanes
    bits: np.ndarray
    computed: dict[Expression, tuple[bool, int, int]]
    kernel: dict[str, Any] = field(default_factory=dict)

    def column(self, argument: Expression) -> tuple[bool, int, int]:
        """(is float, row in its lane, row in validity) of an argument; the lane row is -1 if only nulls are known."""
        if argument in self.computed:
            return self.computed[argument]
        assert isinstance(argument, Load)
        return (
            is_float_lane(argument.type),
            self.lanes.at.get(argument.column, -1),
            self.lanes.valid_at[argument.column],
        )


def prepare(plan: PatternPlan, needs: Needs, table: pa.Table, key: np.ndarray) -> Prepared:
    """Encode the columns, evaluate the row-local parts, and lower the residuals."""
    floats = sum(is_float_lane(expression.type) for expression in needs.computed)
    room = (len(needs.computed) - floats, floats)
    lanes = encode(table, needs.columns, needs.null_tests, needs.constants, room)
    assembler = Assembler(lanes)
    assembler.number_runnings(part for condition in plan.conditions.values() for part in condition.residual)
    label_count = max(1, len(plan.labels.names))
    arrays = ArrayAssembler(assembler)
    row_local: list[tuple[int, Expression]] = []
    tests: list[tuple[int, ...]] = []
    test_from = np.zeros(label_count + 1, np.int64)
    programs: list[tuple[int, int, int]] = []
    nav_from = np.zeros(label_count + 1, np.int64)
    nav_ids: list[int] = []
    computed_programs = [(expression, assembler.program(expression)) for expression in needs.computed]
    for number, label in enumerate(plan.labels.names):
        condition = plan.conditions.get(label)
        program = (0, 0, 0)
        arrays.next_label()
        if condition is not None:
            row_local += [(number, part) for part in condition.row_local]
            rest = []
            for part in condition.residual:
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
        test_from[number + 1] = len(tests)
        nav_from[number + 1] = len(nav_ids)
    arrays.next_label()
    pushed = _pushed_programs(assembler)
    row_local_program = assembler.program_of_all([part for _, part in row_local])
    placed = arrays.place()
    code, ints, reals = assembler.arrays()
    prepared = Prepared(lanes, np.full(len(key), np.uint64(2**64 - 1), np.uint64), {})
    shared = (assembler.registers, key, lanes.ints, lanes.floats, lanes.valid, ints, reals)
    for expression, (start, stop, result) in computed_programs:
        prepared.computed[expression] = compute_lane(lanes, expression, code, start, stop, result, shared)
    if row_local:
        masks = np.array([1 << number for number, _ in row_local], np.uint64)
        start, stop, results = row_local_program
        machine.set_bits(code, start, stop, np.array(results, np.int64), masks, prepared.bits, *shared)
    prepared.kernel = {
        **_tests_arrays(tests, test_from),
        "program_from": np.array([p[0] for p in programs] or [0], np.int64),
        "program_to": np.array([p[1] for p in programs] or [0], np.int64),
        "program_result": np.array([p[2] for p in programs] or [0], np.int64),
        "code": code, "registers": assembler.registers, "const_i": ints, "const_f": reals,
        "nav_from": nav_from, "nav_ids": np.array(nav_ids, np.int64),
        **_navigation_arrays(assembler, plan.labels),
        "label_codes": np.array([lanes.ranks.get(("string", name), -1) for name in plan.labels.names] or [0], np.int64),
        **_aggregate_arrays(assembler, prepared, pushed),
        **placed,
    }  # fmt: skip
    return prepared


def compute_lane(lanes: Lanes, expression: Expression, code, start, stop, result, shared) -> tuple[bool, int, int]:  # type: ignore[no-untyped-def]
    """Run a row-local program into free rows of the lanes: (is float, row in its lane, row of validity)."""
    registers, key, ints, floats, valid, const_i, const_f = shared
    floating = is_float_lane(expression.type)
    row = lanes.next_float() if floating else lanes.next_int()
    check = lanes.next_valid()
    spare_i = np.empty(len(key), np.int64) if floating else ints[row]
    spare_f = floats[row] if floating else np.empty(len(key), np.float64)
    machine.compute_column(
        code, start, stop, result, spare_i, spare_f, valid[check], registers, key, ints, floats, valid, const_i, const_f
    )
    return floating, row, check


def _test(assembler: Assembler, compare: int, left: Load, right: Load) -> tuple[int, ...]:
    lanes = assembler.lanes

    def side(load: Load) -> tuple[int, int, int]:
        nav = -1 if load.at == Current(0) else assembler.navigations.number(load.at)
        return lanes.at[load.column], lanes.valid_at[load.column], nav

    return compare, int(is_float_lane(left.type)), *side(left), *side(right)


def _tests_arrays(tests: list[tuple[int, ...]], test_from: np.ndarray) -> dict[str, np.ndarray]:
    names = (
        "test_compare", "test_float", "test_a", "test_a_valid", "test_a_nav", "test_b", "test_b_valid", "test_b_nav",
    )  # fmt: skip
    columns = np.array(tests or [(0,) * 8], np.int64).T.copy()
    return {"test_from": test_from, **{name: columns[index] for index, name in enumerate(names)}}


def _navigations_of(assembler: Assembler, programs: list[tuple[int, int, int]]) -> list[int]:
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


def _navigation_arrays(assembler: Assembler, labels: Labels) -> dict[str, Any]:
    number = {label: index for index, label in enumerate(labels.names)}
    navigations: list[Navigated] = []
    nav_label, nav_set = [], []
    for at in assembler.navigations.numbers:
        if isinstance(at, Navigated):
            members = at.labels
            navigations.append(at)
            nav_label.append(-1 if members is None else number[next(iter(members))] if len(members) == 1 else -2)
            nav_set.append(assembler.set_number(members))
        else:  # not by labels: the row of an extreme, and the row of an element, which array programs set
            offset = assembler.runnings[at.by] if isinstance(at, ExtremeRow) else 0
            navigations.append(Navigated(None, False, offset, 0))
            nav_label.append(kernel.EXTREME)
            nav_set.append(0)
    for running in assembler.runnings:
        assembler.set_number(running.labels)
    return {
        "nav_first": np.array([n.first for n in navigations], np.bool_),
        "nav_offset": np.array([n.offset for n in navigations], np.int64),
        "nav_shift": np.array([n.shift for n in navigations], np.int64),
        "nav_label": np.array(nav_label, np.int64),
        "nav_set": np.array(nav_set, np.int64),
        "nav_plain": np.array(
            [
                label >= 0 and not (n.first or n.offset or n.shift)
                for n, label in zip(navigations, nav_label, strict=True)
            ],
            np.bool_,
        ),
        "sets": membership(assembler.sets, labels),
        "track": any(label >= 0 for label in nav_label),
    }


def membership(sets: list[frozenset[str] | None], labels: Labels) -> np.ndarray:
    """uint8[sets, labels]: is the label in the set?"""
    return np.array(
        [[members is None or label in members for label in labels.names] or [True] for members in sets], np.uint8
    )


def _pushed_programs(assembler: Assembler) -> dict[Running, tuple[int, int, int]]:
    """Programs of arguments that depend on the label or the match; they run as rows are taken."""
    programs: dict[Running, tuple[int, int, int]] = {}
    for running in list(assembler.runnings):
        argument = running_argument(running)
        if argument is not None and not is_row_local(argument):
            programs[running] = assembler.program(argument)
    return programs


def _aggregate_arrays(
    assembler: Assembler, prepared: Prepared, pushed: dict[Running, tuple[int, int, int]]
) -> dict[str, np.ndarray]:
    rows = []
    for running in assembler.runnings:
        argument = running_argument(running)
        floating, column, check = False, -1, -1
        program, navigation = (0, 0, 0), -1
        if running in pushed:
            assert argument is not None
            program = pushed[running]
            navigation = next(iter(_navigations_of(assembler, [program])), -1)
            floating, column = is_float_lane(argument.type), kernel.PUSHED
        elif argument is not None:
            floating, column, check = prepared.column(argument)
            if running.function == "count":
                floating, column = False, 0
        rows.append(
            (
                function_code(running),
                assembler.set_number(running.labels),
                column,
                check,
                floating,
                *program,
                navigation,
                assembler.highs.get(running, -1),
            )
        )
    columns = list(zip(*rows, strict=True)) if rows else [()] * 10
    names = (
        "agg_function", "agg_set", "agg_column", "agg_valid", "agg_float", "agg_from", "agg_to",
        "agg_result", "agg_nav", "agg_high",
    )  # fmt: skip
    return {name: np.array(values, np.int64) for name, values in zip(names, columns, strict=True)}
