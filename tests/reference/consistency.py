"""The judge of predicate classes: what a Kleene predicate's class is, by trying all short sequences.

A predicate P(e, S) compares the current event e with the sequence S of the selected events of a closure (SASE++, 5.2):

* true-value consistent: whenever P(e, S) holds, it holds for every non-empty subset of S, in the same order;
* false-value consistent: whenever P(e, S) does not hold, it holds for no non-empty subset of S.

In place of e there may be a value that does not depend on the closure: a constant, or an event of another component,
which is the same since its value may be anything. Where the aggregate reaches to the current event itself (b[..i]),
e belongs to S and stays in every subset, which may then consist of e alone.

Every counterexample is one; "consistent" means that there is none among the sequences of up to three values of a small
domain, with negative numbers. Sequences of two decide already, and larger domains and four values change nothing.

**Nulls change the answer.** An aggregate over nothing but nulls is null, so that a predicate that holds for (null, 3)
does not hold for its subset (null): over a column that may be null, no comparison with max, min, sum, avg, first, last
or b[i-1] is true-value consistent, while false-value consistent ones stay so (what is null does not hold).
`classify(shape, nulls=True)` says so. Without nulls the classes are the paper's. A planner that calls `b[i].x >
max(b[..i-1].x)` true-value consistent must therefore know that no selected x is null, or check those events again.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from episode.lang.events.syntax import Reach

Value = int | None
DOMAIN: tuple[int, ...] = (-1, 0, 1, 2)
LONGEST = 3

OPERATORS: dict[str, Callable[[object, object], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
AGGREGATES = ("max", "min", "sum", "avg", "count", "count_values", "first", "last", "previous")


@dataclass(frozen=True)
class Consistency:
    """Which values of a predicate hold for all subsets; both, one of them or neither."""

    true_value: bool
    false_value: bool

    @property
    def name(self) -> str:
        if self.true_value and self.false_value:
            return "true- and false-value consistent"
        if self.true_value:
            return "true-value consistent"
        return "false-value consistent" if self.false_value else "inconsistent"


class Other(str, Enum):
    """What the aggregate is compared with: the event e that is being taken, or something that no choice changes."""

    CURRENT = "b[i].x"
    ANCHOR = "c.x"


@dataclass(frozen=True)
class Shape:
    """`other operator aggregate`, or `aggregate operator other` where aggregate_left.

    aggregate: one of AGGREGATES; count counts events, count_values those whose value is not null; previous is b[i-1].
    reach: BEFORE and ALL are the same here, since S is whatever was selected; CURRENT: e is the last of S.
    constant: the value of the anchor, where it is known.
    """

    operator: str
    aggregate: str
    other: Other
    reach: Reach
    aggregate_left: bool = False
    constant: int | None = None

    @property
    def text(self) -> str:
        """The predicate for a pattern with B+ b[] and then C c."""
        other = self.other.value if self.constant is None else str(self.constant)
        brackets = {Reach.ALL: "[]", Reach.BEFORE: "[..i-1]", Reach.CURRENT: "[..i]"}[self.reach]
        aggregate = {
            "previous": "b[i-1].x",
            "count": f"count(b{brackets})",
            "count_values": f"count(b{brackets}.x)",
        }.get(self.aggregate, f"{self.aggregate}(b{brackets}.x)")
        left, right = (aggregate, other) if self.aggregate_left else (other, aggregate)
        return f"{left} {self.operator} {right}"

    def holds(self, e: Value, selected: tuple[Value, ...]) -> bool:
        """In three-valued logic: what is null does not hold. e: the value of the current event, or of the anchor."""
        whole = (*selected, e) if self.reach is Reach.CURRENT and self.other is Other.CURRENT else selected
        other, value = e, aggregated(self.aggregate, whole)
        if other is None or value is None:
            return False
        return OPERATORS[self.operator](*((value, other) if self.aggregate_left else (other, value)))


def aggregated(aggregate: str, values: tuple[Value, ...]) -> int | Fraction | None:
    known = [value for value in values if value is not None]
    match aggregate:
        case "count":
            return len(values)
        case "count_values":
            return len(known)
        case "first":
            return values[0] if values else None
        case "last" | "previous":
            return values[-1] if values else None
    if not known:
        return None
    match aggregate:
        case "max":
            return max(known)
        case "min":
            return min(known)
        case "sum":
            return sum(known)
        case "avg":
            return Fraction(sum(known), len(known))
    raise ValueError(aggregate)


def shapes() -> Iterator[Shape]:
    """Every operator, aggregate, side and reach. (b[i-1] reaches to the events before only.)"""
    for sign, aggregate, other, left in itertools.product(OPERATORS, AGGREGATES, Other, (False, True)):
        for reach in Reach:
            if other is Other.CURRENT and reach is Reach.ALL:
                continue
            if aggregate != "previous" or (reach is Reach.BEFORE and other is Other.CURRENT):
                yield Shape(sign, aggregate, other, reach, left)


def classify(
    shape: Shape, *, domain: tuple[int, ...] = DOMAIN, longest: int = LONGEST, nulls: bool = False
) -> Consistency:
    """The class of a shape. domain: the values that events may have; nulls: they may also be null."""
    values: tuple[Value, ...] = (*domain, None) if nulls else domain
    if shape.other is Other.ANCHOR and shape.reach is Reach.CURRENT:
        # max(b[..i].x) < 5: the current event is in S, and what S is compared with is not.
        others = [shape.constant] if shape.constant is not None else list(values)
        classes = [
            classify_predicate(_including_current(shape, other), values, longest, with_current=True) for other in others
        ]
        return Consistency(all(one.true_value for one in classes), all(one.false_value for one in classes))
    current = values if shape.constant is None else (shape.constant,)
    return classify_predicate(shape.holds, values, longest, current=current, with_current=shape.reach is Reach.CURRENT)


def _including_current(shape: Shape, other: Value) -> Callable[[Value, tuple[Value, ...]], bool]:
    return lambda e, selected: shape.holds(other, (*selected, e))


def classify_predicate(
    predicate: Callable[[Value, tuple[Value, ...]], bool],
    values: tuple[Value, ...] = DOMAIN,
    longest: int = LONGEST,
    *,
    current: tuple[Value, ...] | None = None,
    with_current: bool = False,
) -> Consistency:
    """The class of any predicate P(e, S), where S are the events selected before e.

    current: the values that e may have, if they are others. with_current: e belongs to what the predicate aggregates,
    so that P(e, ()) counts too.
    """
    true_value = false_value = True
    fewest = 0 if with_current else 1
    for e in values if current is None else current:
        for size in range(fewest, longest + 1):
            for selected in itertools.product(values, repeat=size):
                expected = predicate(e, selected)
                for subset in subsets(selected, fewest):
                    if predicate(e, subset) != expected:
                        if expected:
                            true_value = False
                        else:
                            false_value = False
                if not true_value and not false_value:
                    return Consistency(False, False)
    return Consistency(true_value, false_value)


def subsets(selected: tuple[Value, ...], fewest: int = 1) -> Iterator[tuple[Value, ...]]:
    """Every subset, in order, with at least so many values."""
    for size in range(fewest, len(selected) + 1):
        yield from itertools.combinations(selected, size)
