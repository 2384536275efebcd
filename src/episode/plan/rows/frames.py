"""What a condition with PREV and NEXT says of a row alone, wherever the frame around it lies.

In a window, PREV and NEXT of the row under trial end with its frame, so that a condition with them is tested while
matching. But it can hold only if it holds with the rows that they name, or with some of them missing: that can be
tested once for each row, and most rows fail there.
"""

from __future__ import annotations

from episode.plan.expressions import (
    COMPARISONS,
    Apply,
    Constant,
    Current,
    Exists,
    Expression,
    Load,
    Navigated,
    walk,
)
from episode.plan.wide import is_wide, is_words

MOST_VARIANTS = 4
STRICT = frozenset((*COMPARISONS, "add", "subtract", "multiply", "divide", "negate", "abs", "copy", "to_float"))
"""Operations that are null where an operand is."""


def possible(part: Expression) -> Expression | None:
    """What must hold of a row, by itself and the rows around it, for the part to hold; None: nothing is known."""
    shifts: set[int] = set()
    for node in walk(part):
        if isinstance(node, (Load, Exists)):
            if isinstance(node.at, Navigated) and (node.at.labels, node.at.first, node.at.offset) == (None, False, 0):
                shifts.add(node.at.shift)
            elif node.at != Current(0):
                return None
        elif not isinstance(node, (Apply, Constant)):
            return None
        if is_wide(node) or is_words(node):
            return None
    before, after = sorted(one for one in shifts if one < 0), sorted((one for one in shifts if one > 0), reverse=True)
    if (len(before) + 1) * (len(after) + 1) > MOST_VARIANTS:
        return None
    variants: dict[Expression, None] = {}
    for few in range(len(before) + 1):
        for many in range(len(after) + 1):
            variants[_with_missing(part, frozenset((*before[:few], *after[:many])))] = None
    found = tuple(one for one in variants if not (isinstance(one, Constant) and not one.value))
    if not found:
        return Constant(0, "boolean")
    return found[0] if len(found) == 1 else Apply("or", found, "boolean")


def _with_missing(node: Expression, missing: frozenset[int]) -> Expression:
    """The expression with rows at fixed distances, of which those in `missing` are not there."""
    if isinstance(node, Apply):
        operands = tuple(_with_missing(operand, missing) for operand in node.operands)
        if node.operation in STRICT and any(isinstance(one, Constant) and one.value is None for one in operands):
            return Constant(None, node.type)
        return Apply(node.operation, operands, node.type)
    if not isinstance(node, (Load, Exists)) or not isinstance(node.at, Navigated):
        return node
    shift = node.at.shift
    if isinstance(node, Exists):
        return Constant(0, "boolean") if shift in missing else Exists(Current(shift))
    if shift not in missing:
        return Load(node.column, Current(shift), node.type, node.missing)
    return Constant(None, node.type) if node.missing is None else Load(node.missing, Current(0), node.type)
