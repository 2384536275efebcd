"""Array expressions to array programs: flat steps with loops, run before a condition's own program.

An array that does not depend on the element of a loop around it is made before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from episode.kernels import opcodes as oc
from episode.matchers.lowering import Assembler, is_float_lane
from episode.matchers.rows.code.array_code import Room
from episode.plan.arrays import (
    ASCENDING,
    ASCENDING_NULLS_FIRST,
    DESCENDING,
    DISTINCT,
    REVERSED,
    Collected,
    Contains,
    ElementOf,
    Folded,
    Joined,
    Listed,
    Mapped,
    Order,
    Rearranged,
    Size,
    Walk,
    element_type,
    is_array,
)
from episode.plan.expressions import (
    ArrayExpression,
    ElementRow,
    Exists,
    Expression,
    LabelAt,
    Load,
    Variable,
    parts_of,
    walk,
)
from episode.plan.wide import is_wide

ARRANGEMENTS = {
    DISTINCT: oc.DISTINCT, REVERSED: oc.REVERSED, ASCENDING: oc.ASCENDING,
    ASCENDING_NULLS_FIRST: oc.ASCENDING_NULLS_FIRST, DESCENDING: oc.DESCENDING,
}  # fmt: skip
JUMPS = {oc.EACH_ROW: 3, oc.EACH: 4, oc.BACK: 0}
"""Which operand is a step to go on with."""

NONE = -1


@dataclass(frozen=True)
class ArrayPrograms:
    """The array programs in their place. from_: see array_from of `kernels.rows.arrays.Residuals`; arrays: how many
    they need; room: of the longest of them."""

    from_: np.ndarray
    arrays: int
    room: Room


@dataclass
class ArrayAssembler:
    """The array programs of a query, label by label."""

    assembler: Assembler
    code: list[tuple[int, ...]] = field(default_factory=list)
    label_from: list[int] = field(default_factory=list)
    rooms: dict[int, Room] = field(default_factory=dict)
    _values: int = 0
    _made: dict[Expression, int] = field(default_factory=dict)
    _evaluated: list[tuple[int, int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._values = len(self.assembler.highs)

    # ---- for the caller ------------------------------------------------------------------------------

    def prepare_for(self, condition: Expression) -> list[tuple[int, int, int]]:
        """Steps that compute what the condition reads of arrays; returns the machine programs they run."""
        self._evaluated = []
        self._prepare(condition)
        return self._evaluated

    def next_label(self) -> None:
        """The steps of a label begin; once more after the last one."""
        self.label_from.append(len(self.code))
        self._made = {}

    def place(self) -> ArrayPrograms:
        """Put the steps after the machine programs."""
        base = len(self.assembler.code)
        for operation, *operands in self.code:
            if operation in JUMPS:
                operands[JUMPS[operation]] += base
            self.assembler.code.append((operation, *operands))
        times = max((room.times for room in self.rooms.values()), default=0)
        more = max((room.more for room in self.rooms.values()), default=0)
        from_ = np.array([*(base + step for step in self.label_from), self._values], np.int64)
        return ArrayPrograms(from_, len(self.rooms), Room(times, more))

    # ---- values --------------------------------------------------------------------------------------

    def _put(self, operation: int, *operands: int) -> int:
        self.code.append((operation, *operands, *(0,) * (oc.WIDTH - 1 - len(operands))))
        return len(self.code) - 1

    def _new_value(self) -> int:
        self._values += 1
        return len(self.assembler.runnings) + self._values - 1

    def _number(self, variable: Variable) -> int:
        return self.assembler.values.setdefault(variable, self._new_value())

    def _prepare(self, expression: Expression) -> None:
        """Compute the values that an expression takes from arrays."""
        if isinstance(expression, ArrayExpression):
            self._value(expression)
        else:
            for part in parts_of(expression):
                self._prepare(part)

    def _value(self, expression: Expression) -> int:
        """The number of an expression's value, computed here unless it is known."""
        if isinstance(expression, Variable):
            return self._number(expression)
        if expression not in self._made:
            if isinstance(expression, Folded):
                number = self._fold(expression)
            else:
                number = self._new_value()
                self._evaluate(expression, number)
            self._made[expression] = self.assembler.values[expression] = number
        return self._made[expression]

    def _evaluate(self, expression: Expression, number: int) -> None:
        if isinstance(expression, Size):
            self._put(oc.SIZE, number, self._array(expression.source))
        elif isinstance(expression, ElementOf):
            array, place = self._array(expression.source), self._value(expression.place)
            self._put(oc.ELEMENT, number, array, place, is_float_lane(expression.type))
        elif isinstance(expression, Contains):
            array, value = self._array(expression.source), self._value(expression.value)
            self._put(oc.CONTAINS, number, array, value, is_float_lane(expression.value.type))
        elif isinstance(expression, Order):
            left, right = self._array(expression.left), self._array(expression.right)
            self._put(oc.ORDER, number, left, right, is_float_lane(element_type(expression.left.type)))
        else:
            assert not is_wide(expression), "values of arrays are of one word"
            self._prepare(expression)
            program = self.assembler.program(expression)
            self._evaluated.append(program)
            self._put(oc.EVALUATE, number, *program, is_float_lane(expression.type))

    def _fold(self, fold: Folded) -> int:
        result = self._number(fold.result)
        array = self._array(fold.source)
        self._evaluate(fold.start, result)
        with self._each(array, fold.walk, [fold.step], fold.result):
            self._evaluate(fold.step, result)
        return result

    # ---- arrays --------------------------------------------------------------------------------------

    def _array(self, expression: Expression) -> int:
        """The number of an array, made here unless it is known."""
        if expression not in self._made:
            self._made[expression] = self._make(expression)
        return self._made[expression]

    def _new_array(self, room: Room) -> int:
        number = len(self.assembler.runnings) + len(self.rooms)
        self.rooms[number] = room
        return number

    def _make(self, expression: Expression) -> int:
        floating = is_float_lane(element_type(expression.type))
        if isinstance(expression, Collected):
            return self._collect(expression, floating)
        if isinstance(expression, Rearranged):
            source = self._array(expression.source)
            array = self._new_array(self.rooms[source])
            self._put(oc.ARRANGE, array, source, ARRANGEMENTS[expression.arrangement], floating)
            return array
        if isinstance(expression, Mapped):
            return self._map(expression, floating)
        if isinstance(expression, Listed):
            values = [self._value(value) for value in expression.values]
            array = self._new_array(Room(0, len(values)))
            self._put(oc.CLEAR, array)
            for value in values:
                self._put(oc.PUSH, array, value, NONE, False, NONE, floating)
            return array
        assert isinstance(expression, Joined)
        sources = [self._array(source) for source in expression.sources]
        array = self._new_array(
            Room(
                sum(self.rooms[source].times for source in sources), sum(self.rooms[source].more for source in sources)
            )
        )
        self._put(oc.CLEAR, array)
        for source in sources:
            element, row = self._new_value(), self.assembler.navigations.number(ElementRow(-1 - len(self.code)))
            with self._loop(source, element, self._new_value(), row, floating):
                self._put(oc.PUSH, array, element, NONE, False, row, floating)
        return array

    def _collect(self, expression: Collected, floating: bool) -> int:
        array = self._new_array(Room(1, 0))
        row = self.assembler.navigations.number(expression.row)
        labels = self.assembler.set_number(expression.labels)
        element = expression.element
        if isinstance(element, Load) and element.at == expression.row:
            lanes = self.assembler.lanes
            self._put(oc.COLLECT, array, labels, lanes.at[element.column], lanes.valid_at[element.column], floating)
            return array
        self._put(oc.CLEAR, array)
        place, value = self._new_value(), self._new_value()
        self._put(oc.RESET, place)
        begin = self._put(oc.EACH_ROW, labels, place, row, 0)
        self._evaluate(element, value)
        self._put(oc.PUSH, array, value, NONE, True, row, floating)
        self._put(oc.BACK, begin)
        self.code[begin] = (oc.EACH_ROW, labels, place, row, len(self.code), 0, 0)
        return array

    def _map(self, expression: Mapped, floating: bool) -> int:
        source = self._array(expression.source)
        array = self._new_array(self.rooms[source])
        inside = [expression.value, *([expression.keep] if expression.keep is not None else [])]
        self._put(oc.CLEAR, array)
        with self._each(source, expression.walk, inside):
            keep = NONE if expression.keep is None else self._value(expression.keep)
            row = self.assembler.navigations.number(expression.walk.row)
            self._put(oc.PUSH, array, self._value(expression.value), keep, False, row, floating)
        return array

    # ---- loops ---------------------------------------------------------------------------------------

    @contextmanager
    def _each(self, array: int, one: Walk, inside: list[Expression], result: Variable | None = None) -> Iterator[None]:
        """Steps for each element. What is made inside is not known after the loop."""
        for part in inside:
            self._make_ahead(part, one, result)
        made = dict(self._made)
        element, place = self._number(one.element), self._number(one.place)
        row = self.assembler.navigations.number(one.row)
        with self._loop(array, element, place, row, is_float_lane(one.element.type)):
            yield
        self._made = made

    @contextmanager
    def _loop(self, array: int, element: int, place: int, row: int, floating: bool) -> Iterator[None]:
        self._put(oc.RESET, place)
        begin = self._put(oc.EACH)
        yield
        self._put(oc.BACK, begin)
        self.code[begin] = (oc.EACH, array, place, element, row, len(self.code), floating)

    def _make_ahead(self, expression: Expression, one: Walk, result: Variable | None) -> None:
        """Make what does not change from element to element."""
        if isinstance(expression, ArrayExpression) and not _depends(expression, one, result):
            if is_array(expression.type):
                self._array(expression)
            else:
                self._value(expression)
            return
        for part in parts_of(expression):
            self._make_ahead(part, one, result)


def _depends(expression: Expression, one: Walk, result: Variable | None) -> bool:
    for node in walk(expression):
        if node in (one.element, one.place) or (result is not None and node == result):
            return True
        if isinstance(node, (Load, LabelAt, Exists)) and node.at == one.row:
            return True
    return False
