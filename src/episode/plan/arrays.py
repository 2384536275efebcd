"""Arrays of values of a match, and what is made of them: what `array_agg` in a condition is compiled to.

Arrays are made anew whenever a condition is tried. Each element remembers the row it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.plan.expressions import ArrayExpression, ElementRow, Expression, LambdaVariable


@dataclass(frozen=True)
class Walk:
    """One pass over the elements of an array, one after the other: an element, its place from 0, its row."""

    element: LambdaVariable
    place: LambdaVariable
    row: ElementRow


@dataclass(frozen=True)
class Collected(ArrayExpression):
    """The values of `element` on the rows of labels (None: all rows of the match so far), nulls left out."""

    labels: frozenset[str] | None
    element: Expression
    row: ElementRow
    type: str

    inside = ("element",)

    @property
    def title(self) -> str:
        return f"array over {'*' if self.labels is None else '|'.join(sorted(self.labels))}"


@dataclass(frozen=True)
class Listed(ArrayExpression):
    """`array(1, 2, x)`."""

    values: tuple[Expression, ...]
    type: str

    inside = ("values",)


@dataclass(frozen=True)
class Mapped(ArrayExpression):
    """`value` for each element of an array for which `keep` holds."""

    source: Expression
    walk: Walk
    keep: Expression | None
    value: Expression
    type: str

    inside = ("source", "keep", "value")


@dataclass(frozen=True)
class Rearranged(ArrayExpression):
    """The elements of an array in another order, or each once: DISTINCT, REVERSED or an order."""

    arrangement: str
    source: Expression
    type: str

    @property
    def title(self) -> str:
        return self.arrangement


DISTINCT, REVERSED = "distinct", "reversed"
ASCENDING, ASCENDING_NULLS_FIRST, DESCENDING = "ascending", "ascending nulls first", "descending"


@dataclass(frozen=True)
class Joined(ArrayExpression):
    """The elements of several arrays one after the other."""

    sources: tuple[Expression, ...]
    type: str

    inside = ("sources",)


@dataclass(frozen=True)
class Size(ArrayExpression):
    source: Expression
    type: str = "int"


@dataclass(frozen=True)
class ElementOf(ArrayExpression):
    """The element at a place from 0; null beyond the end."""

    source: Expression
    place: Expression
    type: str

    inside = ("source", "place")


@dataclass(frozen=True)
class Contains(ArrayExpression):
    """Is a value of the elements' type among them? Null if it may be one that is null. Without a walk: it is quick."""

    source: Expression
    value: Expression
    type: str = "boolean"

    inside = ("source", "value")


@dataclass(frozen=True)
class Folded(ArrayExpression):
    """`step` applied to the result so far for each element, from `start` on."""

    source: Expression
    walk: Walk
    result: LambdaVariable
    start: Expression
    step: Expression
    type: str

    inside = ("source", "start", "step")


@dataclass(frozen=True)
class Order(ArrayExpression):
    """-1, 0 or 1: how two arrays of one type compare, element by element; a null is less than a value."""

    left: Expression
    right: Expression
    type: str = "int"

    inside = ("left", "right")


def is_array(type_: str) -> bool:
    return type_.startswith("array<")


def element_type(type_: str) -> str:
    return type_[len("array<") : -1]
