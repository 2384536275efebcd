"""Machine expressions to register programs, for one batch: columns are rows of lanes, strings are ranks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from episode.matchers import comparing
from episode.matchers import opcodes as oc
from episode.matchers.encoding import Lanes
from episode.plan.expressions import (
    Apply,
    Constant,
    Current,
    Exists,
    Expression,
    LabelAt,
    Load,
    Navigated,
    Number,
    RowRef,
    Running,
    walk,
)
from episode.plan.types import INTEGER_LIMITS, lane_of
from episode.plan.wide import has_words, is_wide

COMPARE = {
    "eq": comparing.EQUAL, "ne": comparing.UNEQUAL, "lt": comparing.LESS, "le": comparing.AT_MOST,
    "gt": comparing.GREATER, "ge": comparing.AT_LEAST,
}  # fmt: skip
INT64_MAX = 2**63 - 1
BY_LANE = {
    "add": (oc.ADD_I, oc.ADD_F), "subtract": (oc.SUB_I, oc.SUB_F), "multiply": (oc.MUL_I, oc.MUL_F),
    "modulo": (oc.MOD_I, oc.MOD_F), "divide": (oc.DIVIDE_F, oc.DIVIDE_F),
    "int_divide": (oc.INT_DIVIDE_I, -1), "floor_divide": (oc.FLOOR_DIVIDE_I, -1),
    "negate": (oc.NEGATE_I, oc.NEGATE_F), "abs": (oc.ABS_I, oc.ABS_F),
    "eq": (oc.EQ_I, oc.EQ_F), "ne": (oc.NE_I, oc.NE_F), "lt": (oc.LT_I, oc.LT_F), "le": (oc.LE_I, oc.LE_F),
    "gt": (oc.GT_I, oc.GT_F), "ge": (oc.GE_I, oc.GE_F), "same": (oc.SAME_I, oc.SAME_F),
    "is_null": (oc.IS_NULL_I, oc.IS_NULL_F), "coalesce": (oc.COALESCE_I, oc.COALESCE_F),
    "least": (oc.LEAST_I, oc.LEAST_F), "greatest": (oc.GREATEST_I, oc.GREATEST_F), "copy": (oc.COPY_I, oc.COPY_F),
}  # fmt: skip
PLAIN = {
    "and": oc.AND, "or": oc.OR, "not": oc.NOT, "to_float": oc.TO_FLOAT, "round_single": oc.ROUND_SINGLE,
    "sqrt": oc.SQRT, "exp": oc.EXP, "ln": oc.LN, "power": oc.POWER, "is_nan": oc.IS_NAN,
    "order": oc.ORDER_WIDE, "wide_to_float": oc.WIDE_TO_FLOAT,
}  # fmt: skip
WIDE = {"widen": oc.WIDEN, "negate": oc.NEGATE_WIDE, "add": oc.ADD_WIDE, "multiply": oc.MULTIPLY_WIDE}
LIMITED = ("add", "subtract", "multiply", "modulo", "int_divide", "floor_divide", "negate", "abs")


def is_float_lane(type_: str) -> bool:
    return lane_of(type_) == "float"


@dataclass
class Navigations:
    """Distinct rows that the conditions of a query navigate to, numbered."""

    numbers: dict[RowRef, int] = field(default_factory=dict)

    def number(self, at: RowRef) -> int:
        """The row under trial is the last row of the match so far."""
        if isinstance(at, Current):
            at = Navigated(None, False, 0, at.offset)
        return self.numbers.setdefault(at, len(self.numbers))


@dataclass
class Assembler:
    """Emits instructions; constants and running aggregates are pooled over all programs of a query.

    highs: where the high words of running aggregates stand, after the running aggregates.
    values: variables and results of array programs, by number; they stand after those.
    sets: sets of labels, by number.
    """

    lanes: Lanes
    navigations: Navigations = field(default_factory=Navigations)
    runnings: dict[Running, int] = field(default_factory=dict)
    highs: dict[Running, int] = field(default_factory=dict)
    values: dict[Expression, int] = field(default_factory=dict)
    sets: list[frozenset[str] | None] = field(default_factory=lambda: [None])
    code: list[tuple[int, ...]] = field(default_factory=list)
    ints: list[int] = field(default_factory=lambda: [INT64_MAX])
    floats: list[float] = field(default_factory=lambda: [0.0])
    registers: int = 1
    _next: int = 0
    _known: dict[Expression, int] = field(default_factory=dict)

    def number_runnings(self, expressions: Iterable[Expression]) -> None:
        """Give numbers to all running aggregates, those that only say where a row is included."""
        for expression in expressions:
            for node in walk(expression):
                if isinstance(node, Running):
                    self.runnings.setdefault(node, len(self.runnings))
        wide = [running for running in self.runnings if has_words(running)]
        self.highs = {running: len(self.runnings) + number for number, running in enumerate(wide)}

    def set_number(self, labels: frozenset[str] | None) -> int:
        if labels not in self.sets:
            self.sets.append(labels)
        return self.sets.index(labels)

    def program(self, expression: Expression) -> tuple[int, int, int]:
        """(first instruction, end, register of the result)."""
        start, stop, (result,) = self.program_of_all([expression])
        return start, stop, result

    def program_of_all(self, expressions: list[Expression]) -> tuple[int, int, list[int]]:
        """One program for several expressions: (first instruction, end, registers of the results)."""
        self._next = 0
        self._known.clear()
        start = len(self.code)
        results = [self._emit(expression) for expression in expressions]
        self.registers = max(self.registers, self._next)
        return start, len(self.code), results

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(code, int constants, float constants)."""
        code = np.array(self.code or [(oc.NULL, 0, 0, 0, 0, 0, 0)], np.int64)
        return code, np.array(self.ints, np.int64), np.array(self.floats, np.float64)

    def _register(self) -> int:
        self._next += 1
        return self._next - 1

    def _put(self, operation: int, *operands: int) -> int:
        target = self._register()
        self.code.append((operation, target, *operands, *(0,) * (oc.WIDTH - 2 - len(operands))))
        return target

    def _put_wide(self, operation: int, *operands: int) -> int:
        """An instruction that gives two words."""
        target = self._put(operation, *operands)
        self._register()
        return target

    def _put_twice(self, operation: int, low: tuple[int, ...], high: tuple[int, ...]) -> int:
        """An instruction for each of two words."""
        target = self._put(operation, *low)
        self._put(operation, *high)
        return target

    def _int(self, value: int) -> int:
        self.ints.append(value)
        return len(self.ints) - 1

    def _emit(self, expression: Expression) -> int:
        """The register of an expression; equal parts of a program are computed once."""
        if expression not in self._known:
            self._known[expression] = self._emit_new(expression)
        return self._known[expression]

    def _emit_new(self, expression: Expression) -> int:
        if isinstance(expression, Load):
            return self._load(expression, self.lanes.at)
        if isinstance(expression, Constant):
            return self._constant(expression)
        if isinstance(expression, Apply):
            return self._apply(expression)
        if isinstance(expression, LabelAt):
            return self._put(oc.LABEL_AT, self.navigations.number(expression.at))
        if isinstance(expression, Exists):
            if isinstance(expression.at, Current):
                return self._put(oc.EXISTS, expression.at.offset)
            return self._put(oc.EXISTS_NAV, self.navigations.number(expression.at))
        if isinstance(expression, Number):
            return self._put(oc.MATCH_NUMBER)
        number = self.runnings[expression] if isinstance(expression, Running) else self.values[expression]
        if isinstance(expression, Running) and is_wide(expression):
            return self._put_twice(oc.RUNNING_I, (number,), (self.highs[expression],))
        return self._put(oc.RUNNING_F if is_float_lane(expression.type) else oc.RUNNING_I, number)

    def _words(self, load: Load) -> int:
        """A column of two words."""
        low = self._load(load, self.lanes.words_at)
        self._load(load, {name: row + 1 for name, row in self.lanes.words_at.items()})
        return low

    def _load(self, load: Load, at: dict[str, int]) -> int:
        lanes, floating = self.lanes, is_float_lane(load.type)
        missing = (-1, -1) if load.missing is None else (at[load.missing], lanes.valid_at[load.missing])
        column = (at[load.column], lanes.valid_at[load.column])
        if isinstance(load.at, Current):
            return self._put(oc.LOAD_F if floating else oc.LOAD_I, *column, load.at.offset, *missing)
        return self._put(
            oc.LOAD_NAV_F if floating else oc.LOAD_NAV_I, *column, self.navigations.number(load.at), *missing
        )

    def _constant(self, constant: Constant) -> int:
        if constant.value is None:
            return self._put(oc.NULL)
        if is_wide(constant):
            low, high = words_of(int(constant.value))
            return self._put_twice(oc.CONST_I, (self._int(low),), (self._int(high),))
        if is_float_lane(constant.type):
            self.floats.append(float(constant.value))
            return self._put(oc.CONST_F, len(self.floats) - 1)
        if lane_of(constant.type) == "code":
            return self._put(oc.CONST_I, self._int(self.lanes.ranks[(constant.type, constant.value)]))
        return self._put(oc.CONST_I, self._int(int(constant.value)))

    def _apply(self, apply: Apply) -> int:
        operation = apply.operation
        if operation == "scale":
            value, digits = apply.operands
            return self._put_wide(oc.SCALE_WIDE, self._emit(value), _written(digits))
        if operation == "narrow":
            return self._emit(apply.operands[0])  # the low word has all of it
        if operation == "divide" and is_wide(apply):
            one, other, *numbers = apply.operands
            return self._put_wide(oc.DIVIDE_WIDE, self._emit(one), self._emit(other), *map(_written, numbers))
        if operation == "words":
            (load,) = apply.operands
            assert isinstance(load, Load)
            return self._words(load)
        wide = is_wide(apply)
        operands = [self._emit_wide(operand) if wide else self._emit(operand) for operand in apply.operands]
        if wide:
            return self._apply_wide(operation, operands)
        if operation == "if":
            return self._put(oc.IF_F if is_float_lane(apply.type) else oc.IF_I, *operands)
        if operation in ("and", "or"):
            result = operands[0]
            for operand in operands[1:]:
                result = self._put(PLAIN[operation], result, operand)
            return result
        if operation in PLAIN:
            return self._put(PLAIN[operation], *operands)
        floating = is_float_lane(apply.operands[0].type)
        code = BY_LANE[operation][floating]
        if operation in LIMITED and not floating:
            limit = INTEGER_LIMITS.get(apply.type)
            return self._put(code, *operands, 0 if limit is None else self._int(limit - 1))
        return self._put(code, *operands)

    def _emit_wide(self, operand: Expression) -> int:
        """The operand of something of two words: a null has two of them, too."""
        if isinstance(operand, Constant) and operand.value is None:
            return self._put_twice(oc.NULL, (), ())
        return self._emit(operand)

    def _apply_wide(self, operation: str, operands: list[int]) -> int:
        if operation == "if":
            condition, yes, no = operands
            return self._put_twice(oc.IF_I, (condition, yes, no), (condition, yes + 1, no + 1))
        if operation == "coalesce":
            first, second = operands
            return self._put_twice(oc.COALESCE_I, (first, second), (first + 1, second + 1))
        return self._put_wide(WIDE[operation], *operands)


def _written(operand: Expression) -> int:
    """A number that is a part of an instruction."""
    assert isinstance(operand, Constant)
    assert isinstance(operand.value, int)
    return operand.value


def words_of(value: int) -> tuple[int, int]:
    """The words of a number of 128 bits, with signs."""
    low = value & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low, value >> 64


def simple_test(expression: Expression) -> tuple[int, Load, Load] | None:
    """(comparison, left, right) where the expression compares two plain loads: these run without the machine."""
    if not isinstance(expression, Apply) or expression.operation not in COMPARE:
        return None
    left, right = expression.operands
    if isinstance(left, Load) and isinstance(right, Load) and _is_plain(left) and _is_plain(right):
        return COMPARE[expression.operation], left, right
    return None


def _is_plain(load: Load) -> bool:
    return load.missing is None and isinstance(load.at, (Current, Navigated))


def conjunction(parts: tuple[Expression, ...]) -> Expression:
    """All parts at once, however many they are."""
    return parts[0] if len(parts) == 1 else Apply("and", parts, "boolean")
