"""Codes of the steps of a row pattern's program, and of aggregate functions."""

from __future__ import annotations

MATCH, SPLIT, JUMP, START, END, ENTER, CHECK, ACCEPT = range(8)

(
    COUNT, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, COUNT_IF, MIN_BY, MAX_BY, AVG_WHOLE,
    SUM_WIDE, MIN_WIDE, MAX_WIDE, AVG_WIDE,
) = range(17)  # fmt: skip
"""SUM_WIDE and those after it: of decimals of two words. AVG_WIDE + n: an average with n (at most 4) more digits."""
LAST_WIDE = AVG_WIDE + 4
