"""Choices of a pattern that need not be remembered: whatever the rows are, the other side is never tried.

A choice begins with a label, or takes another way. It is certain if a row that the label can take cannot be taken on
the other way, because the conditions exclude each other; or, for the preferred match alone, if a match is sure to be
found once the label has taken the row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from episode.matchers import codes as oc
from episode.matchers.rows.arrays import PREFERRED
from episode.plan import expressions as ex
from episode.plan.expressions import FLIPPED, Expression

if TYPE_CHECKING:
    from episode.matchers.rows.code.shape import RowShape, RowStep

MOST_STEPS = 300
"""Larger patterns are not analyzed."""


@dataclass(frozen=True)
class Choices:
    """certain: SPLITs whose second side is tried only if the label of the first cannot take the row. is_certain: is
    nothing ever left for later?"""

    steps: tuple[RowStep, ...]
    certain: frozenset[int]
    is_certain: bool

    @staticmethod
    def of(shape: RowShape, labels: Sequence[str], conditions: Mapping[str, ex.Condition]) -> Choices:
        steps = shape.steps
        if len(steps) > MOST_STEPS or shape.counting:
            return Choices(steps, frozenset(), False)
        excluded = _Exclusion(labels, conditions)
        choices = {at for at, step in enumerate(steps) if step.op == oc.SPLIT}
        found = frozenset(at for at in choices if _is_certain(shape, steps[at], excluded))
        enters = any(step.op == oc.ENTER for step in steps)
        return Choices(steps, found, shape.final and choices == found and not enters)

    def only_label(self, at: object) -> int:
        """The MATCH with which a side begins."""
        assert isinstance(at, int)
        found = _through_jumps(self.steps, at)
        assert self.steps[found].op == oc.MATCH
        return found


def _through_jumps(steps: Sequence[RowStep], at: int) -> int:
    while steps[at].op == oc.JUMP:
        at = steps[at].first
    return at


def _is_certain(shape: RowShape, step: RowStep, excluded: _Exclusion) -> bool:
    steps = shape.steps
    first = _through_jumps(steps, step.first)
    if steps[first].op != oc.MATCH:
        return False
    choices = (oc.SPLIT, oc.JUMP, oc.ENTER)
    if shape.mode == PREFERRED and _can_accept(_reach(steps, first + 1, choices)):
        return True
    openings = _reach(steps, step.second, (*choices, oc.CHECK, oc.START, oc.END))
    labels = {one.label for one in openings if one.op == oc.MATCH}
    return not _can_accept(openings) and all(excluded.exclude(steps[first].label, label) for label in labels)


def _can_accept(steps: Sequence[RowStep]) -> bool:
    return any(step.op == oc.ACCEPT for step in steps)


def _reach(steps: Sequence[RowStep], begin: int, through: tuple[int, ...]) -> list[RowStep]:
    """Instructions that are reached before a row is taken. through: those that are passed."""
    seen: set[int] = set()
    pending = [begin]
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        step = steps[at]
        if step.op in through:
            pending.append(step.first if step.op in (oc.SPLIT, oc.JUMP) else at + 1)
            if step.op in (oc.SPLIT, oc.CHECK):
                pending.append(step.second)
    return [steps[at] for at in seen]


# ---- conditions that exclude each other --------------------------------------------------------------------------

_ORDERS = {"lt": {-1}, "le": {-1, 0}, "eq": {0}, "ne": {-1, 1}, "gt": {1}, "ge": {0, 1}}


class _Exclusion:
    """Pairs of labels that exclude each other: no row can be taken by both at the same place of a match."""

    def __init__(self, labels: Sequence[str], conditions: Mapping[str, ex.Condition]) -> None:
        self._labels = labels
        self._parts = [
            [part for whole in (*its.row_local, *its.residual) for part in ex.conjuncts(whole)] if its else []
            for its in (conditions.get(name) for name in labels)
        ]

    def exclude(self, one: int, other: int) -> bool:
        names = {self._labels[one], self._labels[other]}
        return any(
            _contradict(first, second)
            for first in self._parts[one]
            if _is_shared(first, names)
            for second in self._parts[other]
            if _is_shared(second, names)
        )


def _is_shared(expression: Expression, names: set[str]) -> bool:
    """Has it the same value whichever of these labels the row under trial has?"""
    for node in ex.walk(expression):
        if isinstance(node, (ex.Load, ex.Exists)):
            if isinstance(node.at, ex.Current):
                continue
            if not isinstance(node.at, ex.Navigated) or (node.at.labels is not None and node.at.labels & names):
                return False
        elif not isinstance(node, (ex.Apply, ex.Constant)):
            return False
    return True


def _contradict(one: Expression, other: Expression) -> bool:
    """Can both never be true?"""
    for first, second in ((one, other), (other, one)):
        if isinstance(first, ex.Apply) and first.operation == "or":
            return all(_contradict(part, second) for part in first.operands)
        if isinstance(first, ex.Apply) and first.operation == "not" and first.operands[0] == second:
            return True
    return any(_disjoint(first, second) for first in _comparisons(one) for second in _comparisons(other))


Comparison = tuple[str, Expression, Expression]


def _comparisons(expression: Expression) -> Iterator[Comparison]:
    if isinstance(expression, ex.Apply) and expression.operation in _ORDERS:
        left, right = expression.operands
        yield expression.operation, left, right
        yield FLIPPED[expression.operation], right, left


def _disjoint(one: Comparison, other: Comparison) -> bool:
    (first, left, right), (second, its_left, its_right) = one, other
    if left != its_left:
        return False
    if right == its_right:
        return not _ORDERS[first] & _ORDERS[second]
    if not (isinstance(right, ex.Constant) and isinstance(its_right, ex.Constant)) or right.type != its_right.type:
        return False
    a, b = right.value, its_right.value
    if a is None or b is None or type(a) is not type(b) or a != a or b != b:
        return False
    if isinstance(a, (str, bytes)):  # other types of strings have a collation, and each has its own order
        return right.type in ("string", "binary") and first == second == "eq" and a != b
    if first == second == "eq":
        return a != b
    below, above = ("lt", "le", "eq"), ("gt", "ge", "eq")
    return (first in below and second in above and a < b) or (first in above and second in below and a > b)  # type: ignore[operator]
