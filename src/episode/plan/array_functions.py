"""Spark's functions over arrays that a condition makes of rows of the match: array_contains(array_agg(A.x), 3).

Each function becomes walks over the array. A lambda's body is compiled like the rest of the condition, with its
variables in scope; a part of it that only Spark can evaluate is computed by Spark on the row that the element comes
from, if nothing but the element is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from episode.lang.syntax import Scalar
from episode.lang.trees import exp
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
from episode.plan.compilable import COMPARISONS, Mistake, NativeCompiler, NotCompilable
from episode.plan.expressions import (
    Apply,
    ArrayExpression,
    Constant,
    ElementRow,
    Expression,
    LambdaVariable,
    RowRef,
    Running,
    parts_of,
    walk,
)
from episode.plan.places import placeholders_in
from episode.plan.types import is_integer, is_wide, lane_of

ARRAY, VALUE, FUNCTION, ANY = "array", "value", "function", "any"
"""Arguments of a function: compiled to an array that is made of rows, or to any value; the tree of a lambda."""
NO, YES = Constant(0, "boolean"), Constant(1, "boolean")


@dataclass(frozen=True)
class CollectedFrom:
    """The source of a collected array: the argument of array_agg, and other aggregates of it by name."""

    scalar: Scalar
    running: Callable[[str], Expression]


@dataclass(frozen=True)
class _Origin:
    """The elements of an array as an expression of their rows, in terms of the argument of array_agg."""

    tree: exp.Expression
    scalar: Scalar


@dataclass(frozen=True)
class _Bound:
    """The meaning of a lambda's variable; for elements also where they come from."""

    value: Expression
    row: ElementRow | None = None
    origin: _Origin | None = None


@dataclass
class ArrayFunctions:
    """The array functions of one condition.

    is_collected: does a placeholder stand for an array that the condition collects?
    relates_rows: does an expression read several rows, so that Spark cannot compute it?
    by_spark: a column that Spark computes from the columns of one row.
    native: the compiler of the condition, set when it calls for a function.
    """

    is_collected: Callable[[str], bool]
    relates_rows: Callable[[exp.Expression], bool]
    by_spark: Callable[[exp.Expression, Scalar, RowRef], Expression | None]
    sources: dict[Expression, CollectedFrom] = field(default_factory=dict)
    origins: dict[Expression, _Origin] = field(default_factory=dict)
    scope: dict[str, _Bound] = field(default_factory=dict)
    native: NativeCompiler = field(init=False)
    _numbers: int = 0
    _inside: int = 0

    # ---- arrays and variables ------------------------------------------------------------------------

    def new_row(self) -> ElementRow:
        return ElementRow(self._next())

    def collect(self, array: Collected, source: CollectedFrom) -> Collected:
        """Take note of an array that is collected from the rows of a match."""
        self.sources[array] = source
        self.origins[array] = _Origin(source.scalar.tree, source.scalar)
        return array

    def distinct(self, array: Expression) -> Expression:
        """The array with each element once, where it first stands."""
        return self._keep_origin(Rearranged(DISTINCT, array, array.type), array)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    def _variable(self, type_: str) -> LambdaVariable:
        return LambdaVariable(self._next(), type_)

    def _walk(self, array: Expression) -> Walk:
        return Walk(self._variable(element_type(array.type)), self._variable("int"), self.new_row())

    # ---- dispatch ------------------------------------------------------------------------------------

    def compile(self, native: NativeCompiler, node: exp.Expression) -> Expression:
        """A call of an array function, or a variable of the lambda around it."""
        self.native = native
        if isinstance(node, exp.Identifier) and node.name.lower() in self.scope:
            return self.scope[node.name.lower()].value
        name, arguments = _call(node)
        known = self.HANDLERS.get(name) if self._inside or self._reads_rows(node) else None
        parent = node.parent if name == "array" else None
        if parent is not None and parent.key in (*COMPARISONS, "in") and self._reads_rows(parent):
            known = self.HANDLERS[name]  # array_agg(A.x) = array(1, 2)
        if known is None:
            if any(self.is_collected(each) for each in placeholders_in(node)):
                raise NotCompilable(node, "this is Spark's to evaluate, and the array is of several rows", WORKING)
            raise NotCompilable(node, OF_SPARK)
        handler, *kinds = known
        self._inside += 1
        try:
            if kinds == [ANY]:
                return _of_one_word(node, handler(self, node, arguments))
            _exactly(node, arguments, len(kinds))
            operands = [self._operand(kind, argument) for kind, argument in zip(kinds, arguments, strict=True)]
            return _of_one_word(node, handler(self, node, *operands))
        finally:
            self._inside -= 1

    def compare(
        self, native: NativeCompiler, node: exp.Expression, operation: str, left: Expression, right: Expression
    ) -> Expression:
        """Arrays compare element by element."""
        self.native = native
        left, right = self._alike(node, [self._check_array(node, left), self._check_array(node, right)])
        operation = "eq" if operation == "same" else operation
        return Apply(operation, (Order(left, right), Constant(0, "int")), "boolean")

    def _reads_rows(self, node: exp.Expression | None) -> bool:
        """Is it of several rows, or of elements of an array of such?"""
        return node is not None and (bool(self.free_variables(node)) or self.relates_rows(node))

    # ---- what Spark computes for one element ---------------------------------------------------------

    def free_variables(self, node: exp.Expression) -> set[str]:
        """Variables of lambdas around the node that it reads."""
        return {name for name in _variables_in(node, frozenset()) if name in self.scope}

    def of_one_element(self, node: exp.Expression) -> Expression | None:
        """A column that Spark computes on the rows of the elements, where the node reads one element and no more."""
        names = self.free_variables(node)
        bound = [self.scope[name] for name in names]
        origin, row = (bound[0].origin, bound[0].row) if len(bound) == 1 else (None, None)
        if origin is None or row is None or placeholders_in(node):
            return None
        tree = _substitute(node, names.pop(), origin.tree)
        return None if tree is None else self.by_spark(tree, origin.scalar, row)

    def _apply(self, node: exp.Expression, bound: list[_Bound], *, least: int | None = None) -> Expression:
        """The body of a lambda with its variables bound; it may leave out the last ones down to `least`."""
        names = [name.name.lower() for name in node.expressions] if isinstance(node, exp.Lambda) else []
        if not (least or len(bound)) <= len(names) <= len(bound):
            example = "x -> x > 0" if len(bound) == 1 else "(x, y) -> x + y"
            raise Mistake(node, "A function of the elements is needed here.", f"Write for example {example}.")
        before = self.scope
        self.scope = {**before, **dict(zip(names, bound))}
        try:
            return self.native.compile(node.this)
        finally:
            self.scope = before

    def _of_element(self, array: Expression, walk: Walk) -> _Bound:
        return _Bound(walk.element, walk.row, self.origins.get(array))

    # ---- operands ------------------------------------------------------------------------------------

    def _operand(self, kind: str, node: exp.Expression) -> Expression | exp.Expression:
        return node if kind == FUNCTION else self._array(node) if kind == ARRAY else self.native.compile(node)

    def _array(self, node: exp.Expression) -> Expression:
        return self._check_array(node, self.native.compile(node))

    def _check_array(self, node: exp.Expression, array: Expression) -> Expression:
        """An array of values that the machine holds, made of rows of the match."""
        if not is_array(array.type):
            raise NotCompilable(node.parent or node, OF_SPARK)
        if not isinstance(array, (Collected, Listed, Mapped, Rearranged, Joined)):
            raise NotCompilable(node, f"{array.type} of one row in a function over arrays of several rows", WORKING)
        if lane_of(element_type(array.type)) is None:
            raise NotCompilable(node, f"arrays of type {element_type(array.type)} of several rows", ATOMIC)
        return array

    def _keep_origin(self, array: Expression, source: Expression) -> Expression:
        if source in self.origins:
            self.origins[array] = self.origins[source]
        return array

    def _select(self, array: Expression, walk: Walk, keep: Expression) -> Expression:
        """The elements of an array for which a condition holds."""
        return self._keep_origin(Mapped(array, walk, keep, walk.element, array.type), array)

    def _alike(self, node: exp.Expression, arrays: list[Expression]) -> list[Expression]:
        walks = [self._walk(array) for array in arrays]
        values = self.native.unify(node, [walk.element for walk in walks])
        return [
            array if value == walk.element else Mapped(array, walk, None, value, f"array<{value.type}>")
            for array, walk, value in zip(arrays, walks, values)
        ]

    def _fold(
        self, array: Expression, walk: Walk, start: Expression, step: Callable[[LambdaVariable], Expression]
    ) -> Folded:
        result = self._variable(start.type)
        return Folded(array, walk, result, start, step(result), start.type)

    def _contains(
        self, node: exp.Expression, array: Expression, value: Expression, operation: str = "eq"
    ) -> Expression:
        """Is the value among the elements? Null if it is not, but may be one that is null."""
        array = _in_any_order(array)
        walk = self._walk(array)
        equal = self.native.comparison(node, operation, walk.element, value)
        if equal == Apply("eq", (walk.element, value), "boolean"):
            return Contains(array, value)
        return self._fold(array, walk, NO, lambda result: Apply("or", (result, equal), "boolean"))

    # ---- functions that give a value -----------------------------------------------------------------

    def _size(self, node: exp.Expression, array: Expression) -> Expression:
        if array in self.sources:
            return Apply("copy", (self.sources[array].running("count"),), "int")
        return Size(self._check_array(node, array))

    def _extreme(self, node: exp.Expression, array: Expression) -> Expression:
        array = _in_any_order(array)
        least = _call(node)[0] == "array_min"
        if array in self.sources:
            return self.sources[array].running("min" if least else "max")
        walk, type_ = self._walk(array), element_type(array.type)
        function = "least" if least else "greatest"
        start = Constant(None, type_)
        return self._fold(array, walk, start, lambda result: Apply(function, (result, walk.element), type_))

    def _array_contains(self, node: exp.Expression, array: Expression, value: Expression) -> Expression:
        return _unless_null(value, self._contains(node, array, value))

    def _array_position(self, node: exp.Expression, array: Expression, value: Expression) -> Expression:
        walk = self._walk(array)
        equal = self.native.comparison(node, "eq", walk.element, value)
        place = Apply("add", (walk.place, Constant(1, "bigint")), "bigint")

        def step(result: LambdaVariable) -> Expression:
            missing = Apply("eq", (result, Constant(0, "bigint")), "boolean")
            return Apply("if", (Apply("and", (missing, equal), "boolean"), place, result), "bigint")

        return _unless_null(value, self._fold(array, walk, Constant(0, "bigint"), step))

    def _element_at(self, node: exp.Expression, array: Expression, number: Expression) -> Expression:
        """From 1 on, or from the last on with -1; null outside, as faults are in conditions."""
        _require_integer(node, number)
        place: Expression = _place_of(array, number)
        if isinstance(number, Constant) and isinstance(number.value, int):
            from_end = Apply("add", (Size(array), number), "bigint")
            place = Constant(number.value - 1, "bigint") if number.value > 0 else from_end
        return ElementOf(array, place, element_type(array.type))

    def _get(self, node: exp.Expression, array: Expression, place: Expression) -> Expression:
        _require_integer(node, place)
        return ElementOf(array, place, element_type(array.type))

    def _any_or_all(self, node: exp.Expression, array: Expression, function: exp.Expression) -> Expression:
        array = _in_any_order(array)
        walk = self._walk(array)
        holds = _condition(function, self._apply(function, [self._of_element(array, walk)]))
        operation, start = ("and", YES) if _call(node)[0] == "forall" else ("or", NO)
        return self._fold(array, walk, start, lambda result: Apply(operation, (result, holds), "boolean"))

    def _aggregate(self, node: exp.Expression, arguments: list[exp.Expression]) -> Expression:
        if not 3 <= len(arguments) <= 4:
            message = "aggregate takes an array, a start and a function."
            raise Mistake(node, message, "Write aggregate(xs, 0, (s, x) -> s + x).")
        array, start = self._array(arguments[0]), self.native.compile(arguments[1])
        if lane_of(start.type) is None:
            raise NotCompilable(node, f"a result of type {start.type}", WORKING)
        walk, result = self._walk(array), self._variable(start.type)
        step = self._apply(arguments[2], [_Bound(result), self._of_element(array, walk)])
        if step.type != start.type:
            message = f"The result of aggregate starts as {start.type} and becomes {step.type}."
            raise Mistake(arguments[2], message, f"Cast the start or the step: CAST(0 AS {step.type.upper()}).")
        total = Folded(array, walk, result, start, step, start.type)
        return total if len(arguments) == 3 else self._apply(arguments[3], [_Bound(total)])

    def _overlap(self, node: exp.Expression, left: Expression, right: Expression) -> Expression:
        walk = self._walk(left)
        shared = self._contains(node, right, walk.element)
        return self._fold(left, walk, NO, lambda result: Apply("or", (result, shared), "boolean"))

    # ---- functions that give an array ----------------------------------------------------------------

    def _list(self, node: exp.Expression, arguments: list[exp.Expression]) -> Expression:
        values = self.native.unify(node, [self.native.compile(argument) for argument in arguments])
        return Listed(tuple(values), f"array<{values[0].type if values else 'void'}>")

    def _filter(self, node: exp.Expression, array: Expression, function: exp.Expression) -> Expression:
        walk = self._walk(array)
        bound = [self._of_element(array, walk), _Bound(walk.place)]
        return self._select(array, walk, _condition(function, self._apply(function, bound, least=1)))

    def _transform(self, node: exp.Expression, array: Expression, function: exp.Expression) -> Expression:
        walk = self._walk(array)
        element = self._of_element(array, walk)
        value = self._apply(function, [element, _Bound(walk.place)], least=1)
        result = self._check_array(node, Mapped(array, walk, None, value, f"array<{value.type}>"))
        name = function.expressions[0].name.lower()
        only_element = not placeholders_in(function.this) and {*_variables_in(function.this, frozenset())} <= {name}
        if element.origin is not None and only_element:
            tree = _substitute(function.this, name, element.origin.tree)
            if tree is not None:
                self.origins[result] = _Origin(tree, element.origin.scalar)
        return result

    def _rearrange(self, node: exp.Expression, arguments: list[exp.Expression]) -> Expression:
        name = _call(node)[0]
        arrangement = {"array_distinct": DISTINCT, "reverse": REVERSED, "array_sort": ASCENDING}.get(name)
        if name == "array_sort" and len(arguments) == 2:
            raise NotCompilable(node, "array_sort by a function", "Sort by the values themselves: array_sort(xs).")
        if arrangement is None:
            arrangement = ASCENDING_NULLS_FIRST
            if len(arguments) == 2:
                if not isinstance(arguments[1], exp.Boolean):
                    raise NotCompilable(node, "sort_array in an order that is not written out", "Write true or false.")
                arrangement = ASCENDING_NULLS_FIRST if arguments[1].this else DESCENDING
                arguments = arguments[:1]
        array = self._array(_exactly(node, arguments, 1)[0])
        return self._keep_origin(Rearranged(arrangement, array, array.type), array)

    def _slice(self, node: exp.Expression, array: Expression, start: Expression, length: Expression) -> Expression:
        """From 1 on, or from the last on with -1; what lies outside is left out."""
        for number in (start, length):
            _require_integer(node, number)
            if not _is_never_null(number):
                raise NotCompilable(node, MAY_BE_NULL, "Write numbers, or sizes of arrays.")
        if start == Constant(0, "int") or (isinstance(length, Constant) and int(length.value or 0) < 0):
            message = "slice takes elements from 1 on, or from the last on with -1, and none or more of them."
            raise Mistake(node, message)
        walk = self._walk(array)
        low = _place_of(array, start)
        high = Apply("add", (low, length), "bigint")
        bounds = (("ge", low, Constant(0, "int")), ("ge", walk.place, low), ("lt", walk.place, high))
        tests = tuple(Apply(operation, (one, other), "boolean") for operation, one, other in bounds)
        return self._select(array, walk, Apply("and", tests, "boolean"))

    def _compact(self, node: exp.Expression, array: Expression) -> Expression:
        walk = self._walk(array)
        return self._select(array, walk, Apply("not", (Apply("is_null", (walk.element,), "boolean"),), "boolean"))

    def _join(self, node: exp.Expression, arguments: list[exp.Expression]) -> Expression:
        name = _call(node)[0]
        if name in ("array_append", "array_prepend"):
            first, second = _exactly(node, arguments, 2)
            array, value = self._array(first), self.native.compile(second)
            one = Listed((value,), f"array<{value.type}>")
            arrays = [array, one] if name == "array_append" else [one, array]
        else:
            arrays = [self._array(argument) for argument in arguments]
        arrays = self._alike(node, arrays)
        joined = Joined(tuple(arrays), arrays[0].type)
        return self.distinct(joined) if name == "array_union" else joined

    def _select_elements(self, node: exp.Expression, left: Expression, right: Expression) -> Expression:
        """Elements that are (array_intersect) or are not (array_except) in another array, each once."""
        left, right = self._alike(node, [left, right])
        walk = self._walk(left)
        keep = self._contains(node, right, walk.element, "same")
        if _call(node)[0] == "array_except":
            keep = Apply("not", (keep,), "boolean")
        return self.distinct(Mapped(left, walk, keep, walk.element, left.type))

    def _remove(self, node: exp.Expression, array: Expression, value: Expression) -> Expression:
        """array_remove leaves out what equals the value; nulls stay."""
        if not _is_never_null(value):
            raise NotCompilable(node, MAY_BE_NULL, "Write filter(xs, x -> x <> y) where y may be null.")
        walk = self._walk(array)
        equal = self.native.comparison(node, "eq", walk.element, value)
        return self._select(array, walk, Apply("not", (Apply("coalesce", (equal, NO), "boolean"),), "boolean"))

    HANDLERS: ClassVar[dict[str, tuple[Any, ...]]] = {
        **dict.fromkeys(("size", "cardinality", "array_size"), (_size, VALUE)),
        **dict.fromkeys(("array_min", "array_max"), (_extreme, ARRAY)),
        "array_contains": (_array_contains, ARRAY, VALUE),
        "array_position": (_array_position, ARRAY, VALUE),
        **dict.fromkeys(("element_at", "try_element_at"), (_element_at, ARRAY, VALUE)),
        **dict.fromkeys(("get", "[]"), (_get, ARRAY, VALUE)),
        **dict.fromkeys(("exists", "forall"), (_any_or_all, ARRAY, FUNCTION)),
        **dict.fromkeys(("aggregate", "reduce"), (_aggregate, ANY)),
        "arrays_overlap": (_overlap, ARRAY, ARRAY),
        "array": (_list, ANY),
        "filter": (_filter, ARRAY, FUNCTION),
        "transform": (_transform, ARRAY, FUNCTION),
        **dict.fromkeys(("array_distinct", "reverse", "array_sort", "sort_array"), (_rearrange, ANY)),
        "slice": (_slice, ARRAY, VALUE, VALUE),
        "array_compact": (_compact, ARRAY),
        "array_remove": (_remove, ARRAY, VALUE),
        **dict.fromkeys(("concat", "||", "array_append", "array_prepend", "array_union"), (_join, ANY)),
        **dict.fromkeys(("array_intersect", "array_except"), (_select_elements, ARRAY, ARRAY)),
    }
    """The method for each function, and what it is given of each argument, or ANY number of trees."""


WORKING = (
    "Over arrays of values of several rows these work in DEFINE: "
    + ", ".join(sorted(name for name in ArrayFunctions.HANDLERS if name.isidentifier()))
    + ", xs[0], || and comparison."
)


OF_SPARK = "this is Spark's to evaluate, and Spark sees one row at a time"
MAY_BE_NULL = "an array that would be null where a value is"
ATOMIC = "Collect numbers, strings, times or booleans; of a struct one field after the other: array_agg(A.x.y)."
NARROWER = "Cast it to double: CAST(sum(A.x) AS double)."


def _call(node: exp.Expression) -> tuple[str, list[exp.Expression]]:
    if isinstance(node, exp.Anonymous):
        return node.name.lower(), list(node.expressions)
    if isinstance(node, exp.Transform):
        return "transform", [node.this, node.expression]
    if isinstance(node, exp.Bracket) and len(node.expressions) == 1:
        return "[]", [node.this, node.expressions[0]]
    if isinstance(node, exp.DPipe):
        return "||", [node.this, node.expression]
    return "", []


def _exactly(node: exp.Expression, arguments: list[exp.Expression], count: int) -> list[exp.Expression]:
    if len(arguments) != count:
        wanted = "one argument" if count == 1 else f"{count} arguments"
        raise Mistake(node, f"{_call(node)[0]} takes {wanted}, not {len(arguments)}.")
    return arguments


def _place_of(array: Expression, number: Expression) -> Apply:
    """The place from 0 of an element, numbered from 1 on, or from the last on with -1."""
    from_start = Apply("subtract", (number, Constant(1, "bigint")), "bigint")
    from_end = Apply("add", (Size(array), number), "bigint")
    is_positive = Apply("gt", (number, Constant(0, "int")), "boolean")
    return Apply("if", (is_positive, from_start, from_end), "bigint")


def _in_any_order(array: Expression) -> Expression:
    """The same elements, where neither their order nor their number matters."""
    while isinstance(array, Rearranged):
        array = array.source
    return array


def _condition(node: exp.Expression, value: Expression) -> Expression:
    if value.type != "boolean":
        raise Mistake(node, f"A condition is needed here, but this is of type {value.type}.", "Compare it: x -> x > 0.")
    return value


def _of_one_word(node: exp.Expression, result: Expression) -> Expression:
    """The result, unless a value of two words goes into or through an array in it."""
    for value in (part for each in walk(result) if isinstance(each, ArrayExpression) for part in parts_of(each)):
        if is_wide(value):
            raise NotCompilable(node, f"computed values of type {value.type} in a function over arrays", NARROWER)
    return result


def _require_integer(node: exp.Expression, value: Expression) -> None:
    if not is_integer(value.type):
        raise Mistake(node, f"A place in an array is a whole number, but this is of type {value.type}.")


def _is_never_null(value: Expression) -> bool:
    if isinstance(value, Constant):
        return value.value is not None
    if isinstance(value, Apply) and value.operation in ("copy", "add", "subtract", "multiply", "negate"):
        return all(_is_never_null(operand) for operand in value.operands)
    return isinstance(value, Size) or (isinstance(value, Running) and value.function in ("count", "count_if"))


def _unless_null(value: Expression, result: Expression) -> Expression:
    if isinstance(value, Constant) and value.value is not None:
        return result
    return Apply("if", (Apply("is_null", (value,), "boolean"), Constant(None, result.type), result), result.type)


def _variables_in(node: exp.Expression, bound: frozenset[str]) -> Iterator[str]:
    """Names that are variables of lambdas outside the node, if anything."""
    if isinstance(node, exp.Column):
        return
    if isinstance(node, exp.Identifier):
        if node.name.lower() not in bound:
            yield node.name.lower()
        return
    if isinstance(node, exp.Dot):
        yield from _variables_in(node.this, bound)
        return
    if isinstance(node, exp.Lambda):
        inner = bound | {name.name.lower() for name in node.expressions}
        yield from _variables_in(node.this, inner)
        return
    for child in node.iter_expressions():
        yield from _variables_in(child, bound)


def _substitute(node: exp.Expression, name: str, tree: exp.Expression) -> exp.Expression | None:
    """The node with a tree in place of a variable; None where a lambda inside uses the name again."""
    if any(name == inner.name.lower() for each in node.find_all(exp.Lambda) for inner in each.expressions):
        return None

    def replace(part: exp.Expression) -> exp.Expression:
        if not isinstance(part, exp.Identifier) or part.name.lower() != name:
            return part
        is_field = isinstance(part.parent, exp.Dot) and part.arg_key == "expression"
        return part if is_field or isinstance(part.parent, exp.Column) else exp.Paren(this=tree.copy())

    return node.copy().transform(replace)
