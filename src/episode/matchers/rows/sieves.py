"""Sieves: comparisons of a row that every match has with the start row, by which a start row is seen to fail.

`A B*? C` with `C AS C.price < A.price - 1000`: a search that has become long looks through the rows of its window for
one that could be C, which costs much less than to try them all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from episode.matchers.comparing import BY_OPERATION, orders_of, turned
from episode.matchers.encoding import is_float_lane
from episode.matchers.prepare import Needs, Prepared
from episode.matchers.rows.arrays import BIT, RowProgram, SearchPartitions, SearchRows
from episode.matchers.rows.code.hopeless import EQUAL, GREATER, LESS, hopeless_starts
from episode.matchers.rows.code.sifting import (
    ACCEPTED,
    FIRST_DECIDES,
    IN_FLOAT_LANE,
    OWN_CHECK,
    OWN_COLUMN,
    SIEVE_BIT,
    START_CHECK,
    START_COLUMN,
)
from episode.matchers.rows.program import required_labels
from episode.plan.expressions import Apply, Constant, Current, Expression, Load, Navigated, walk
from episode.plan.pattern import OrderColumn
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.rows.program import CHECK, JUMP, MATCH, SPLIT, PatternProgram
from episode.plan.types import lane_of


@dataclass(frozen=True)
class Sieve:
    """A row with this label has a value `own` that compares so (`orders`) with the start row's value `start`; both are
    row-local. first_decides: if the first row that could have the label fails, all later ones do."""

    label: str
    own: Expression
    start: Expression
    orders: int
    first_decides: bool


_FROM_FIRST = {True: (LESS, LESS | EQUAL), False: (GREATER, GREATER | EQUAL)}
"""By the direction of an order: comparisons that fail from some row on."""


def sieves_of(plan: RowPatternPlan) -> tuple[Sieve, ...]:
    """That of a pattern whose first row alone has the first label; none or one."""
    first = _label_of_start(plan.program)
    if plan.output.timed_out or first is None:
        return ()
    found = []
    for label in sorted(required_labels(plan.program) - {first}):
        for part in plan.conditions[label].residual if label in plan.conditions else ():
            sieve = _sieve(label, first, part, plan.order[0] if plan.order else None)
            if sieve is not None:
                found.append(sieve)
    return tuple(found[:1])


def _label_of_start(program: PatternProgram) -> str | None:
    """The label of the first row of every match, which no other row has; None if there is none."""
    first, *others = program.instructions
    if first.operation != MATCH or any(one.operation == MATCH and one.label == first.label for one in others):
        return None
    comes_back = any(
        (one.operation in (SPLIT, JUMP) and one.first == 0) or (one.operation in (SPLIT, CHECK) and one.second == 0)
        for one in others
    )
    return None if comes_back else first.label


def _sieve(label: str, first: str, part: Expression, order: OrderColumn | None) -> Sieve | None:
    """Of one condition of the label. order: the first column of the order of rows."""
    if not isinstance(part, Apply) or part.operation not in BY_OPERATION:
        return None
    left, right = part.operands
    if left.type != right.type or lane_of(left.type) not in ("int", "float"):
        return None
    compare = BY_OPERATION[part.operation]
    for own, other, code in ((left, right, compare), (right, left, turned(compare))):
        at_start = _moved(other, first)
        if at_start is not None and _reads_own_row(own):
            orders = orders_of(code)
            decides = order is not None and _is_column(own, order.column) and orders in _FROM_FIRST[order.ascending]
            return Sieve(label, own, at_start, orders, decides)
    return None


def _is_column(expression: Expression, column: str) -> bool:
    return isinstance(expression, Load) and expression.column == column


def _reads_own_row(expression: Expression) -> bool:
    """Does it read values of the row under trial, and nothing else?"""
    nodes = list(walk(expression))
    loads = [node for node in nodes if isinstance(node, Load)]
    return (
        bool(loads)
        and all(isinstance(node, (Load, Apply, Constant)) for node in nodes)
        and all(load.at == Current(0) and load.missing is None for load in loads)
        and all(lane_of(node.type) in ("int", "float") for node in nodes)
    )


def _moved(expression: Expression, first: str) -> Expression | None:
    """An expression that reads values of the start row, as it reads them at that row; None if it reads others."""
    if isinstance(expression, Load):
        at = expression.at
        is_start = isinstance(at, Navigated) and at.labels == frozenset((first,)) and at.offset == at.shift == 0
        return replace(expression, at=Current(0)) if is_start and expression.missing is None else None
    if isinstance(expression, Constant):
        return expression if lane_of(expression.type) in ("int", "float") else None
    if not isinstance(expression, Apply) or lane_of(expression.type) not in ("int", "float"):
        return None
    operands = [_moved(operand, first) for operand in expression.operands]
    moved = tuple(operand for operand in operands if operand is not None)
    return replace(expression, operands=moved) if len(moved) == len(operands) else None


def with_sieves(needs: Needs, sieves: tuple[Sieve, ...]) -> Needs:
    """What a plan needs, and its sieves."""
    computed = [part for sieve in sieves for part in (sieve.own, sieve.start) if not isinstance(part, Load)]
    return replace(needs, computed=tuple(dict.fromkeys((*needs.computed, *computed))))


def lower_sieves(sieves: tuple[Sieve, ...], labels: tuple[str, ...], prepared: Prepared) -> np.ndarray:
    """int64[sieves, 8]: in the columns of `code.sifting`."""
    rows = []
    for sieve in sieves:
        _, own, own_valid = prepared.column(sieve.own)
        floating, start, start_valid = prepared.column(sieve.start)
        assert floating == is_float_lane(sieve.own.type)
        columns = floating, own, own_valid, start, start_valid, sieve.orders, sieve.first_decides
        rows.append((1 << labels.index(sieve.label), *columns))
    bits = np.array([row[0] for row in rows], np.uint64).view(np.int64)
    table = np.array([(0, *row[1:]) for row in rows], np.int64).reshape(-1, FIRST_DECIDES + 1)
    table[:, 0] = bits
    return table


def without_hopeless_starts(
    sieve: np.ndarray, program: RowProgram, rows: SearchRows, partitions: SearchPartitions, within: int
) -> np.ndarray:
    """The bits of all rows at the end of input; a start row that the sieve shows to fail does not offer its label."""
    first = np.uint64(program.code[0, BIT])
    offers_first, is_candidate = rows.bits & first != 0, rows.bits & sieve[SIEVE_BIT].view(np.uint64) != 0
    is_start = offers_first.copy()
    for check, offered in ((sieve[OWN_CHECK], is_candidate), (sieve[START_CHECK], is_start)):
        if check >= 0:
            offered &= rows.valid[check] != 0
    lane = rows.floats if sieve[IN_FLOAT_LANE] else rows.ints
    values = np.concatenate([lane[sieve[OWN_COLUMN]][is_candidate], lane[sieve[START_COLUMN]][is_start]])
    own, wanted = np.zeros((2, len(rows.bits)), np.int64)
    own[is_candidate], wanted[is_start] = np.split(
        np.unique(values, return_inverse=True)[1], [np.count_nonzero(is_candidate)]
    )
    hopeless = hopeless_starts(
        partitions.lo, partitions.hi, within, rows.time, is_start, is_candidate, own, wanted, int(sieve[ACCEPTED])
    )
    return np.where(hopeless | (offers_first & ~is_start), rows.bits & ~first, rows.bits)
