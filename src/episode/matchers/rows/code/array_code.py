"""Emits arrays of values of the running match, and the values that conditions make of them: loops over their elements.

An array is a row of agg_* after those of the running aggregates: elements in agg_i or agg_f, by their lane; whether
they are null in agg_n, if any can be; and in agg_m the row that an element comes from, or -1, if that is read. Arrays
are made anew whenever a condition is tried. Parts that do not depend on the element of a loop are made before the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from episode.matchers.code.expressions import COMPARE, Emitted, Emitter
from episode.matchers.code.searching import merge_sort
from episode.matchers.rows.code.arrays import is_member
from episode.native.builder import Scope, subroutine
from episode.native.ir import BOOL, F64, I64, Operand, Value, Variable
from episode.plan import arrays as plan
from episode.plan import expressions as ex
from episode.plan.expressions import Expression
from episode.plan.types import lane_of

if TYPE_CHECKING:
    from episode.matchers.rows.code.arrays import RunningMatch
    from episode.matchers.rows.code.shape import ConditionTraits


# Functions over arrays of a condition: sorting and comparing. An array begins at a place of agg_i or agg_f, by its
# lane; agg_n at the same place is 1 for a null. These functions are built once in a program for each lane.


@subroutine()
def sort_places(
    s: Scope, source: Value, size: Value, order: Value, spare: Value, *, floating: bool, nullable: bool,
    nulls_first: bool,
) -> None:  # fmt: skip
    """Sort the places 0, 1, … of an array by their elements, ascending; equal ones stay in order.

    order, spare: two areas of agg_i with room for all places; the result is the one that holds them.
    """
    with s.f.loop(0, size) as place:
        s.agg_i[order + place] = place

    def is_less(one: Value, two: Value) -> Value:
        return _is_less(s, floating, nullable, nulls_first, source + one, source + two)

    s.f.give(merge_sort(s.f, s.agg_i, size, order, spare, is_less))


def _is_less(s: Scope, floating: bool, nullable: bool, nulls_first: bool, one: Value, two: Value) -> Value:
    values = s.agg_f if floating else s.agg_i
    less = COMPARE["lt"](values[one], values[two])
    if not nullable:
        return less
    one_null, two_null = s.agg_n[one].differs(0), s.agg_n[two].differs(0)
    by_null = one_null & ~two_null if nulls_first else two_null & ~one_null
    return by_null | (less & ~one_null & ~two_null)


def are_equal(s: Scope, floating: bool, nullable: bool, one: Value, two: Value) -> Value:
    """Are two elements equal, at these places of agg_*? Nulls are."""
    values = s.agg_f if floating else s.agg_i
    equal = COMPARE["eq"](values[one], values[two])
    if not nullable:
        return equal
    one_null, two_null = s.agg_n[one].differs(0), s.agg_n[two].differs(0)
    return s.f.select(one_null | two_null, one_null & two_null, equal)


@subroutine()
def order_arrays(
    s: Scope, left: Value, left_size: Value, right: Value, right_size: Value, *, floating: bool, left_nullable: bool,
    right_nullable: bool,
) -> None:  # fmt: skip
    """-1, 0 or 1: the first difference decides; a null is less than a value, a shorter array than a longer one."""
    f = s.f
    values = s.agg_f if floating else s.agg_i
    with f.loop(0, f.least(left_size, right_size)) as place:
        one, two = values[left + place], values[right + place]
        order = _sign(COMPARE["gt"](one, two), COMPARE["lt"](one, two))
        if left_nullable or right_nullable:
            one_null = s.agg_n[left + place] if left_nullable else f.value(0)
            two_null = s.agg_n[right + place] if right_nullable else f.value(0)
            order = f.select((one_null | two_null).equals(0), order, two_null - one_null)
        f.give_if(order.differs(0), order)
    f.give(_sign(left_size > right_size, left_size < right_size))


def _sign(greater: Value, less: Value) -> Value:
    return greater.to(I64) - less.to(I64)


NULLS_FIRST = {plan.DISTINCT: True, plan.ASCENDING: False, plan.ASCENDING_NULLS_FIRST: True, plan.DESCENDING: True}
"""By arrangement: where nulls are when the elements have been sorted, ascending; those of DESCENDING are reversed."""


@dataclass(frozen=True)
class ArrayRoom:
    """The greatest length of an array: N times the longest partition, and N elements more."""

    times: int = 0
    more: int = 0

    @staticmethod
    def of_longest(rooms: Iterable[ArrayRoom]) -> ArrayRoom:
        """Room for any of these arrays."""
        found = list(rooms)
        return ArrayRoom(max((one.times for one in found), default=0), max((one.more for one in found), default=0))

    def elements(self, longest: int) -> int:
        """The most elements if the longest partition has `longest` rows."""
        return self.times * longest + self.more


@dataclass(frozen=True)
class ArrayPlaces:
    """The arrays of one condition, each with the number of its row after the running aggregates.

    scratch: rows of agg_i that sorting needs, after those. keeps_rows: does a lambda read the rows of elements?
    """

    numbers: dict[Expression, int] = field(default_factory=dict)
    scratch: int = 0
    keeps_rows: bool = False

    @classmethod
    def of(cls, condition: Iterable[Expression]) -> ArrayPlaces:
        nodes = [node for part in condition for node in ex.walk(part)]
        made = dict.fromkeys(
            node for node in nodes if isinstance(node, ex.ArrayExpression) and plan.is_array(node.type)
        )
        sorts = any(isinstance(node, plan.Rearranged) and node.arrangement != plan.REVERSED for node in made)
        own = {node.row for node in made if isinstance(node, plan.Collected)}
        read = {
            node.at
            for node in nodes
            if isinstance(node, (ex.Load, ex.LabelAt, ex.Exists)) and type(node.at) is ex.ElementRow
        }
        return cls({node: number for number, node in enumerate(made)}, 2 if sorts else 0, not read <= own)

    @property
    def rows(self) -> int:
        """Rows of agg_* that the condition needs."""
        return len(self.numbers) + self.scratch

    @property
    def room(self) -> ArrayRoom:
        return ArrayRoom.of_longest(map(_room_of, self.numbers))


def _room_of(array: Expression) -> ArrayRoom:
    if isinstance(array, plan.Collected):
        return ArrayRoom(1, 0)
    if isinstance(array, plan.Listed):
        return ArrayRoom(0, len(array.values))
    if isinstance(array, (plan.Rearranged, plan.Mapped)):
        return _room_of(array.source)
    assert isinstance(array, plan.Joined)
    rooms = [_room_of(source) for source in array.sources]
    return ArrayRoom(sum(one.times for one in rooms), sum(one.more for one in rooms))


@dataclass(frozen=True)
class Elements:
    """An array that has been made. begin: its place in agg_*."""

    begin: Value
    size: Value
    floating: bool
    nullable: bool


class ArrayEmitter(Emitter):
    """Emits array expressions of one condition at a time."""

    s: Scope
    match: RunningMatch
    first_array: int
    array_places: ArrayPlaces
    columns: Value
    _arrays: dict[Expression, Elements]

    def begin_arrays(self, places: ArrayPlaces, columns: Value) -> None:
        """Begin the code of a condition. columns: the number of columns of agg_*."""
        self.array_places, self.columns = places, columns
        self._arrays = {}

    def emit_array_value(self, expression: Expression) -> Emitted:
        """A value that is made of arrays."""
        if isinstance(expression, plan.Size):
            return self._make(expression.source).size, None
        if isinstance(expression, plan.ElementOf):
            return self._element_of(self._make(expression.source), self.emit(expression.place))
        if isinstance(expression, plan.Contains):
            return self._contains(self._make(expression.source), self.emit(expression.value))
        if isinstance(expression, plan.Order):
            left, right = self._make(expression.left), self._make(expression.right)
            order = order_arrays(
                self.s, left.begin, left.size, right.begin, right.size,
                floating=left.floating, left_nullable=left.nullable, right_nullable=right.nullable,
            )  # fmt: skip
            return order, None
        assert isinstance(expression, plan.Folded), expression
        return self._fold(expression)

    # ---- values of arrays ------------------------------------------------------------------------------------

    def _cell_of(self, array: Elements, place: Operand) -> Emitted:
        at = array.begin + place
        value = self.s.agg_f[at] if array.floating else self.s.agg_i[at]
        return value, self.s.agg_n[at].differs(0) if array.nullable else None

    def _element_of(self, array: Elements, place: Emitted) -> Emitted:
        wanted, unknown = place
        is_outside = (wanted < 0) | (wanted >= array.size)
        if unknown is not None:
            is_outside = is_outside | unknown
        value, null = self._cell_of(array, self.f.select(is_outside, 0, wanted))
        return value, is_outside if null is None else is_outside | null

    def _contains(self, array: Elements, sought: Emitted) -> Emitted:
        """Null if the value is not there but a null is, or if it is null and there are elements."""
        f = self.f
        value, unknown = sought
        found, null = f.variable("found", False), f.variable("may_be", False)
        place = f.variable("place", 0)
        if unknown is not None:
            null.set(unknown & (array.size > 0))
            place.set(f.select(unknown, array.size, 0))
        with f.during(lambda: (place < array.size) & ~found.value):
            element, its_null = self._cell_of(array, place)
            equal = COMPARE["eq"](element, value)
            if its_null is not None:
                null.set(null | its_null)
                equal = equal & ~its_null
            found.set(equal)
            place.set(place + 1)
        is_found = found.value
        return is_found.to(I64), null & ~is_found

    def _fold(self, fold: plan.Folded) -> Emitted:
        f = self.f
        array = self._make(fold.source)
        value, null = self.emit(fold.start)
        result = f.variable("result", value)
        is_null = f.variable("result_null", f.constant(False, BOOL) if null is None else null)
        with self._each(array, fold.walk, [fold.step]):
            self._known[fold.result] = result.value, is_null.value
            next_value, next_null = self.emit(fold.step)
            result.set(next_value)
            is_null.set(False if next_null is None else next_null)
        return result.value, is_null.value

    # ---- arrays ----------------------------------------------------------------------------------------------

    def _make(self, expression: Expression) -> Elements:
        """The array, made here unless it is known."""
        if expression not in self._arrays:
            begin = self.columns * (self.first_array + self.array_places.numbers[expression])
            self._arrays[expression] = self._make_new(expression, begin)
        return self._arrays[expression]

    def _make_new(self, expression: Expression, begin: Value) -> Elements:
        floating = lane_of(plan.element_type(expression.type)) == "float"
        if isinstance(expression, plan.Collected):
            return self._collect(expression, begin, floating)
        if isinstance(expression, plan.Mapped):
            return self._map(expression, begin, floating)
        if isinstance(expression, plan.Rearranged):
            return self._rearrange(expression.arrangement, self._make(expression.source), begin)
        if isinstance(expression, plan.Listed):
            values = [self.emit(one) for one in expression.values]
            size = self.f.variable("size", 0)
            nullable = any(null is not None for _, null in values)
            for value in values:
                self._push(begin, size, value, nullable, self.f.value(-1))
            return Elements(begin, size.value, floating, nullable)
        assert isinstance(expression, plan.Joined)
        return self._join([self._make(source) for source in expression.sources], begin, floating)

    def _push(self, begin: Value, size: Variable, element: Emitted, nullable: bool, row: Value) -> None:
        """Put an element at the end of an array."""
        s = self.s
        value, null = element
        at = begin + size
        if value.type is F64:
            s.agg_f[at] = value
        else:
            s.agg_i[at] = value
        if nullable:
            s.agg_n[at] = 0 if null is None else null.to(I64)
        if self.array_places.keeps_rows:
            s.agg_m[at] = row.to(F64)
        size.set(size + 1)

    def _copy(self, source: Elements, place: Value, begin: Value, size: Variable, nullable: bool) -> None:
        row = self.s.agg_m[source.begin + place].to(I64) if self.array_places.keeps_rows else self.row
        self._push(begin, size, self._cell_of(source, place), nullable, row)

    def _collect(self, expression: plan.Collected, begin: Value, floating: bool) -> Elements:
        f, match = self.f, self.match
        size = f.variable("size", 0)
        with self._inside([expression.element]):
            with f.loop(f.value(match.start), self.row + 1) as row:
                after = f.block("next_row")
                if expression.labels is not None:
                    self.f.jump_unless(is_member(self.s, self.mask_of(expression.labels), row - match.origin), after)
                self._rows[expression.row] = row, None
                value, null = self.emit(expression.element)
                if null is not None:
                    self.f.jump_unless(~null, after)
                self._push(begin, size, (value, None), False, row)
                f.join(after)
        return Elements(begin, size.value, floating, False)

    def mask_of(self, labels: frozenset[str]) -> int:
        """A set of labels as bits."""
        raise NotImplementedError  # conditions, which know the labels, have it

    def _map(self, expression: plan.Mapped, begin: Value, floating: bool) -> Elements:
        f = self.f
        source = self._make(expression.source)
        size = f.variable("size", 0)
        inside = [*([expression.keep] if expression.keep is not None else []), expression.value]
        with self._each(source, expression.walk, inside) as place:
            after = f.block("next_element")
            if expression.keep is not None:
                self.f.jump_unless(self.holds(expression.keep), after)
            value, null = self.emit(expression.value)
            row = self.s.agg_m[source.begin + place].to(I64) if self.array_places.keeps_rows else self.row
            self._push(begin, size, (value, null), null is not None, row)
            f.join(after)
        return Elements(begin, size.value, floating, null is not None)

    def _join(self, sources: Sequence[Elements], begin: Value, floating: bool) -> Elements:
        size = self.f.variable("size", 0)
        nullable = any(source.nullable for source in sources)
        for source in sources:
            with self.f.loop(0, source.size) as place:
                self._copy(source, place, begin, size, nullable)
        return Elements(begin, size.value, floating, nullable)

    def _rearrange(self, arrangement: str, source: Elements, begin: Value) -> Elements:
        f, s = self.f, self.s
        size = f.variable("size", 0)
        last = source.size - 1
        if arrangement == plan.REVERSED:
            with f.loop(0, source.size) as at:
                self._copy(source, last - at, begin, size, source.nullable)
            return Elements(begin, size.value, source.floating, source.nullable)
        first = self.first_array + len(self.array_places.numbers)
        order, spare = self.columns * first, self.columns * (first + 1)
        places = sort_places(
            s, source.begin, source.size, order, spare,
            floating=source.floating, nullable=source.nullable, nulls_first=NULLS_FIRST[arrangement],
        )  # fmt: skip
        if arrangement == plan.DISTINCT:
            self._copy_first_of_equal(source, places, f.select(places.equals(order), spare, order), begin, size)
        else:
            with f.loop(0, source.size) as at:
                place = s.agg_i[places + (last - at if arrangement == plan.DESCENDING else at)]
                self._copy(source, place, begin, size, source.nullable)
        return Elements(begin, size.value, source.floating, source.nullable)

    def _copy_first_of_equal(
        self, source: Elements, places: Value, firsts: Value, begin: Value, size: Variable
    ) -> None:  # fmt: skip
        """Copy the first of equal elements, in the order of the array. firsts: room in agg_i for a mark of each."""
        f, s = self.f, self.s
        before = f.variable("before", -1)
        with f.loop(0, source.size) as at:
            place = s.agg_i[places + at]
            other = f.greatest(before, 0)
            same = are_equal(s, source.floating, source.nullable, source.begin + other, source.begin + place)
            s.agg_i[firsts + place] = ((before < 0) | ~same).to(I64)
            before.set(place)
        with f.loop(0, source.size) as place:
            with f.when(s.agg_i[firsts + place].differs(0)):
                self._copy(source, place, begin, size, source.nullable)

    # ---- loops -----------------------------------------------------------------------------------------------

    @contextmanager
    def _each(self, array: Elements, one: plan.Walk, inside: Sequence[Expression]) -> Iterator[Value]:
        """Code for each element; yields its place."""
        f = self.f
        with self._inside(inside):
            with f.loop(0, array.size) as place:
                self._known[one.element] = self._cell_of(array, place)
                self._known[one.place] = place, None
                if self.array_places.keeps_rows:
                    row = self.s.agg_m[array.begin + place].to(I64)
                    self._rows[one.row] = f.select(row >= 0, row, self.row), row >= 0
                yield place

    @contextmanager
    def _inside(self, parts: Sequence[Expression]) -> Iterator[None]:
        """Make the values that do not change inside a loop; values made inside are unknown after it."""
        for part in parts:
            self._make_ahead(part)
        before = dict(self._known), dict(self._rows), dict(self._arrays)
        yield
        self._known, self._rows, self._arrays = before

    def _make_ahead(self, expression: Expression) -> None:
        """Make arrays, values of arrays, aggregates and rows whose variables all have a value by now."""
        if isinstance(expression, (ex.ArrayExpression, ex.Running)) and self._is_ready(expression):
            if plan.is_array(expression.type):
                self._make(expression)
            else:
                self.emit(expression)
            return
        if isinstance(expression, (ex.Load, ex.LabelAt, ex.Exists)) and not isinstance(expression.at, ex.ElementRow):
            self._row_at(expression.at)
        for part in ex.parts_of(expression):
            self._make_ahead(part)

    def _is_ready(self, expression: Expression) -> bool:
        bound: set[ex.LambdaVariable | ex.ElementRow] = set()
        read: set[ex.LambdaVariable | ex.ElementRow] = set()
        for node in ex.walk(expression):
            if isinstance(node, plan.Collected):
                bound.add(node.row)
            elif isinstance(node, (plan.Mapped, plan.Folded)):
                bound |= {node.walk.element, node.walk.place, node.walk.row}
            if isinstance(node, plan.Folded):
                bound.add(node.result)
            elif isinstance(node, ex.LambdaVariable):
                read.add(node)
            elif isinstance(node, (ex.Load, ex.LabelAt, ex.Exists)) and isinstance(node.at, ex.ElementRow):
                read.add(node.at)
        return all(one in self._known or one in self._rows for one in read - bound)


# Values that conditions keep while rows are taken: running aggregates, and arrays of values of the match.


@dataclass(frozen=True)
class RunningValues:
    """keep_row: is a row part of the state of each running aggregate? arrays: their number; room: of the longest."""

    keep_row: tuple[bool, ...] = ()
    arrays: int = 0
    room: ArrayRoom = field(default_factory=ArrayRoom)

    @staticmethod
    def of(traits: ConditionTraits) -> RunningValues:
        return RunningValues(tuple(one.keeps_row for one in traits.aggregates), traits.array_rows, traits.array_room)

    def shape(self, rows: int) -> tuple[int, int]:
        """The rows and columns needed for matches of `rows` rows."""
        elements = self.room.elements(rows) if self.arrays else 0
        return len(self.keep_row) + self.arrays, max(rows, elements) + 1
