"""Numbers shared by plans, emitters and callers of compiled code."""

from __future__ import annotations

# Steps of a row pattern's program, and aggregate functions.


MATCH, SPLIT, JUMP, START, END, ENTER, CHECK, ACCEPT = range(8)

(
    COUNT, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, COUNT_IF, MIN_BY, MAX_BY, AVG_WHOLE,
    SUM_WIDE, MIN_WIDE, MAX_WIDE, AVG_WIDE,
) = range(17)  # fmt: skip
"""SUM_WIDE and those after it: of decimals of two words. AVG_WIDE + n: an average with n (at most 4) more digits."""
LAST_WIDE = AVG_WIDE + 4


# Matches in the output of every matcher that returns rows or paths: codes of `kind` and `number`.


MATCHED, EMPTY, UNMATCHED = range(3)
"""Kinds: a match with rows; a match without; a row without a match, if such rows are requested."""

TIMED_OUT = 0
"""The number of a match that was cut off by its window; real ones count from 1."""


# Comparisons of two values. A comparison accepts some of the orders less, equal and greater.


EQUAL, UNEQUAL, LESS, AT_MOST, GREATER, AT_LEAST = range(6)
BY_OPERATION = {"eq": EQUAL, "ne": UNEQUAL, "lt": LESS, "le": AT_MOST, "gt": GREATER, "ge": AT_LEAST}
"""Comparisons by the name of the operation in an expression."""

_ORDERS = (0b010, 0b101, 0b001, 0b011, 0b100, 0b110)
"""The orders that each comparison accepts: bit 0 less, bit 1 equal, bit 2 greater."""


def orders_of(comparison: int) -> int:
    """Return the orders that a comparison accepts: bit 0 less, bit 1 equal, bit 2 greater."""
    return _ORDERS[comparison]


def swap_sides(comparison: int) -> int:
    """Return the comparison with its sides exchanged: b > a for a < b."""
    return comparison if comparison < LESS else LESS + comparison % 4
