"""Comparisons: their codes, and the order of two values as Spark has it.

An order is -1, 0 or 1: less, equal, greater. A comparison accepts some orders.
"""

from __future__ import annotations

EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(6)
BY_OPERATION = {"eq": EQUAL, "ne": UNEQUAL, "lt": LESS, "le": AT_MOST, "gt": GREATER, "ge": AT_LEAST}
"""By the name of the operation in an expression."""

_ORDERS = (0b010, 0b101, 0b001, 0b011, 0b100, 0b110)
"""By comparison: the orders that it accepts; bit 0 less, bit 1 equal, bit 2 greater."""


def compare_floats(a: float, b: float) -> int:
    """NaN equals NaN and is greater than everything else."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


def compare_ints(a: int, b: int) -> int:
    return int(a > b) - int(a < b)


def accepts(comparison: int, order: int) -> bool:
    """Does a comparison hold for values of this order?"""
    return _ORDERS[comparison] >> (order + 1) & 1 != 0


def orders_of(comparison: int) -> int:
    """The orders that a comparison accepts: bit 0 less, bit 1 equal, bit 2 greater."""
    return _ORDERS[comparison]


def turned(comparison: int) -> int:
    """The comparison with its sides exchanged: b > a for a < b."""
    return comparison if comparison < LESS else LESS + comparison % 4
