"""Typed expressions of the machine: what a compiled condition or argument is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeGuard, Union

from episode.lang.functions import UserAggregate


@dataclass(frozen=True)
class Current:
    """The row being tried (or evaluated), `offset` rows away within its partition."""

    offset: int = 0


@dataclass(frozen=True)
class Navigated:
    """A row found through labels: FIRST or LAST of `labels` (None: all), `offset` in, then `shift` rows away."""

    labels: frozenset[str] | None
    first: bool
    offset: int
    shift: int


@dataclass(frozen=True)
class ExtremeRow:
    """The row where a running min_by or max_by has its least or greatest value so far."""

    by: Running


@dataclass(frozen=True)
class ElementRow:
    """The row of the element that an array function visits. Every walk over an array has its own number."""

    number: int


RowRef = Union[Current, Navigated, ExtremeRow, ElementRow]


@dataclass(frozen=True)
class Load:
    """The value of an input column at a row; null if the row does not exist.

    missing: a column to take the value from if the row does not exist (a Spark function of null), if any.
    """

    column: str
    at: RowRef
    type: str
    missing: str | None = None


@dataclass(frozen=True)
class Constant:
    """A literal in the lane of its type; a string stays a string until ranks are known. None is null."""

    value: int | float | str | bytes | None
    type: str


@dataclass(frozen=True)
class Apply:
    """An operation of the machine on operands."""

    operation: str
    operands: tuple[Expression, ...]
    type: str


@dataclass(frozen=True)
class LabelAt:
    """CLASSIFIER: the name of the label of a row of the match."""

    at: RowRef
    type: str = "string"


@dataclass(frozen=True)
class Exists:
    """Is there such a row?"""

    at: RowRef
    type: str = "boolean"


@dataclass(frozen=True)
class Number:
    """MATCH_NUMBER()."""

    type: str = "bigint"


@dataclass(frozen=True)
class Running:
    """A running aggregate over rows of labels (None: every label). `argument` is row-local; None for count of rows.

    reach: in event patterns, whether all rows are covered, those before the current one, or those up to it.
    min_by and max_by stand for the row of their extreme `argument`: `ExtremeRow` reads other values there.
    user: where `function` is an aggregate of a user.
    """

    function: str
    labels: frozenset[str] | None
    argument: Expression | None
    type: str
    reach: str = "all"
    user: UserAggregate | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LambdaVariable:
    """A variable of a lambda: an element, its place or the result so far. It changes as an array is walked."""

    number: int
    type: str


class ArrayExpression:
    """Arrays of values of a match, and what is made of them: see `plan.arrays`. inside: fields with expressions."""

    type: str
    inside: ClassVar[tuple[str, ...]] = ("source",)

    @property
    def parts(self) -> tuple[Expression, ...]:
        found = [getattr(self, name) for name in self.inside]
        return tuple(part for one in found for part in (one if isinstance(one, tuple) else (one,)) if part is not None)

    @property
    def title(self) -> str:
        """A short description for `explain`."""
        return type(self).__name__.lower()


Expression = Union[Load, Constant, Apply, LabelAt, Exists, Number, Running, LambdaVariable, ArrayExpression]


@dataclass(frozen=True)
class Condition:
    """The condition of one label; empty parts always hold. residual: what relates the row to others."""

    label: str
    row_local: tuple[Expression, ...]
    residual: tuple[Expression, ...]


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the operands of an expression, without the arguments of aggregates."""
    if isinstance(expression, Apply):
        return expression.operands
    if isinstance(expression, ArrayExpression):
        return expression.parts
    if isinstance(expression, (Load, LabelAt, Exists)) and isinstance(expression.at, ExtremeRow):
        return (expression.at.by,)
    return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, aggregates' arguments excluded."""
    yield expression
    for part in parts_of(expression):
        yield from walk(part)


def looks_beside(expression: Expression) -> bool:
    """Does it depend on other rows than its own?"""
    return any(isinstance(node, (Load, Exists)) and node.at != Current(0) for node in walk(expression))


def depth(expression: Expression) -> int:
    """Levels of the expression; what recurses over it goes as deep."""
    deepest, pending = 0, [(expression, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending += [(part, level + 1) for part in parts_of(node)]
    return deepest


def is_row_local(expression: Expression) -> bool:
    """Does it depend on one row and rows at fixed offsets of it only?"""
    for node in walk(expression):
        if isinstance(node, (LabelAt, Number, Running, LambdaVariable, ArrayExpression)):
            return False
        if isinstance(node, (Load, Exists)) and not isinstance(node.at, Current):
            return False
    return True


def conjuncts(expression: Expression) -> list[Expression]:
    """Parts that must all hold; a null part does not hold, so they may be tested one by one."""
    if isinstance(expression, Apply) and expression.operation == "and":
        return [part for operand in expression.operands for part in conjuncts(operand)]
    return [expression]


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
FLIPPED = {"gt": "lt", "ge": "le", "lt": "gt", "le": "ge", "eq": "eq", "ne": "ne"}
"""Comparisons with their sides exchanged."""
NEGATED = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt", "eq": "ne", "ne": "eq"}


def is_operation(expression: Expression, *operations: str) -> TypeGuard[Apply]:
    return isinstance(expression, Apply) and expression.operation in operations


def with_operands(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression with each operand of an operation changed."""
    if not isinstance(expression, Apply):
        return expression
    return replace(expression, operands=tuple(change(operand) for operand in expression.operands))


def at_current_row(expression: Expression) -> Expression:
    """The expression with every load at the current row."""
    if isinstance(expression, Load):
        return replace(expression, at=Current(0))
    return with_operands(expression, at_current_row)


def is_comparison(expression: Expression) -> bool:
    """Are two values compared that each come from one row? Anything else is for the expression machine."""
    if not isinstance(expression, Apply) or expression.operation not in COMPARISONS:
        return False
    for operand in expression.operands:
        nodes = list(walk(operand))
        loads = [node for node in nodes if isinstance(node, Load)]
        if not all(isinstance(node, (Load, Apply, Constant)) for node in nodes):
            return False
        if len({load.at for load in loads}) != 1 or any(load.missing is not None for load in loads):
            return False
        if isinstance(loads[0].at, Current) and loads[0].at.offset != 0:
            return False
    return True


def render(expression: Expression) -> str:
    """A readable form, for `explain`."""
    if isinstance(expression, Load):
        place = render_row(expression.at)
        return expression.column if place == "row" else f"{expression.column}@{place}"
    if isinstance(expression, Constant):
        return "null" if expression.value is None else repr(expression.value)
    if isinstance(expression, LabelAt):
        return f"CLASSIFIER@{render_row(expression.at)}"
    if isinstance(expression, Exists):
        return f"exists({render_row(expression.at)})"
    if isinstance(expression, Number):
        return "MATCH_NUMBER()"
    if isinstance(expression, Running):
        over = "*" if expression.labels is None else "|".join(sorted(expression.labels))
        argument = "*" if expression.argument is None else render(expression.argument)
        return f"{expression.function}({argument} over {over})"
    if isinstance(expression, LambdaVariable):
        return f"${expression.number}"
    if isinstance(expression, ArrayExpression):
        return f"{expression.title}({', '.join(render(part) for part in expression.parts)})"
    operands = [render(operand) for operand in expression.operands]
    symbol = SYMBOLS.get(expression.operation)
    if symbol is not None and len(operands) == 2:
        return f"({operands[0]} {symbol} {operands[1]})"
    return f"{expression.operation}({', '.join(operands)})"


SYMBOLS = {
    "and": "AND", "or": "OR", "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "eq": "=", "ne": "<>",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "same": "<=>", "modulo": "%",
}  # fmt: skip


def render_row(at: RowRef) -> str:
    if isinstance(at, Current):
        return "row" if at.offset == 0 else f"row{at.offset:+d}"
    if isinstance(at, ExtremeRow):
        return f"row of {render(at.by)}"
    if isinstance(at, ElementRow):
        return f"element {at.number}"
    over = "match" if at.labels is None else "|".join(sorted(at.labels))
    text = f"{'first' if at.first else 'last'} {over}"
    if at.offset:
        text += f"[{at.offset}]"
    return text if at.shift == 0 else f"{text}{at.shift:+d}"
