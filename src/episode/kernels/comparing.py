"""Comparisons: their codes, and the order of two values as Spark has it.

An order is -1, 0 or 1: less, equal, greater. A comparison accepts some orders. All functions take and give scalars and
are inlined where they are called.
"""

from __future__ import annotations

from numba import njit

EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(6)

_ORDERS = (0b010, 0b101, 0b001, 0b011, 0b100, 0b110)
"""By comparison: the orders that it accepts; bit 0 less, bit 1 equal, bit 2 greater."""

_ACCEPTED = sum(orders << (3 * code) for code, orders in enumerate(_ORDERS))


@njit(cache=True, nogil=True, inline="always")
def compare_floats(a: float, b: float) -> int:
    """NaN equals NaN and is greater than everything else."""
    if a < b:
        return -1
    if a > b:
        return 1
    if a == b:
        return 0
    a_nan, b_nan = a != a, b != b
    if a_nan and b_nan:
        return 0
    return 1 if a_nan else -1


@njit(cache=True, nogil=True, inline="always")
def compare_ints(a: int, b: int) -> int:
    return int(a > b) - int(a < b)


@njit(cache=True, nogil=True, inline="always")
def accepts(comparison: int, order: int) -> bool:
    """Does a comparison hold for values of this order?"""
    return (_ACCEPTED >> (3 * comparison + order + 1)) & 1 != 0


@njit(cache=True, nogil=True, inline="always")
def orders_of(comparison: int) -> int:
    """The orders that a comparison accepts: bit 0 less, bit 1 equal, bit 2 greater."""
    return (_ACCEPTED >> (3 * comparison)) & 0b111


@njit(cache=True, nogil=True, inline="always")
def turned(comparison: int) -> int:
    """The comparison with its sides exchanged: b > a for a < b."""
    return comparison if comparison < LESS else LESS + comparison % 4
