"""From a plan and a batch to lanes of values, what can be computed row by row, and the bits of row-local conditions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from episode.kernels import machine
from episode.kernels import opcodes as oc
from episode.kernels.user_aggregates import code_of
from episode.matchers.encoding import Lanes, encode
from episode.matchers.lowering import Assembler, is_float_lane
from episode.plan.expressions import (
    Constant,
    Current,
    Expression,
    LabelAt,
    Load,
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
    if running.user is not None:
        return code_of(running.user.functions, running.user.takes)
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


@dataclass(frozen=True)
class Prepared:
    """A batch in the machine's terms. bits uint64: the labels whose row-local conditions hold, for each row."""

    lanes: Lanes
    bits: np.ndarray
    computed: dict[Expression, tuple[bool, int, int]]

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
    """Encode the columns, and evaluate the row-local parts."""
    floats = sum(is_float_lane(expression.type) for expression in needs.computed)
    room = (len(needs.computed) - floats, floats)
    lanes = encode(table, needs.columns, needs.null_tests, needs.constants, room)
    assembler = Assembler(lanes)
    computed_programs = [(expression, assembler.program(expression)) for expression in needs.computed]
    row_local = [
        (number, part)
        for number, label in enumerate(plan.labels.names)
        if label in plan.conditions
        for part in plan.conditions[label].row_local
    ]
    start_all, stop_all, results = assembler.program_of_all([part for _, part in row_local])
    code, ints, reals = assembler.arrays()
    prepared = Prepared(lanes, np.full(len(key), np.uint64(2**64 - 1), np.uint64), {})
    shared = (assembler.registers, key, lanes.ints, lanes.floats, lanes.valid, ints, reals)
    for expression, (start, stop, result) in computed_programs:
        prepared.computed[expression] = compute_lane(lanes, expression, code, start, stop, result, shared)
    if row_local:
        masks = np.array([1 << number for number, _ in row_local], np.uint64)
        machine.set_bits(code, start_all, stop_all, np.array(results, np.int64), masks, prepared.bits, *shared)
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


def membership(sets: list[frozenset[str] | None], labels: Labels) -> np.ndarray:
    """uint8[sets, labels]: is the label in the set?"""
    return np.array(
        [[members is None or label in members for label in labels.names] or [True] for members in sets], np.uint8
    )
