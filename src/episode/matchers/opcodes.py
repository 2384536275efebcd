"""Operation codes of the expression machine and of the pattern program.

A machine instruction is a row of seven int64: (operation, target register, a, b, c, d, e).
"""

from __future__ import annotations

WIDTH = 7

(
    LOAD_I, LOAD_F, LOAD_NAV_I, LOAD_NAV_F, CONST_I, CONST_F, NULL,
    ADD_I, SUB_I, MUL_I, INT_DIVIDE_I, FLOOR_DIVIDE_I, MOD_I, NEGATE_I, ABS_I,
    ADD_F, SUB_F, MUL_F, DIVIDE_F, MOD_F, NEGATE_F, ABS_F, TO_FLOAT, ROUND_SINGLE,
    EQ_I, NE_I, LT_I, LE_I, GT_I, GE_I, SAME_I,
    EQ_F, NE_F, LT_F, LE_F, GT_F, GE_F, SAME_F,
    AND, OR, NOT, IS_NULL_I, IS_NULL_F, IF_I, IF_F, COALESCE_I, COALESCE_F,
    LEAST_I, LEAST_F, GREATEST_I, GREATEST_F, SQRT, EXP, LN, POWER, IS_NAN,
    LABEL_AT, EXISTS, EXISTS_NAV, MATCH_NUMBER, RUNNING_I, RUNNING_F, COPY_I, COPY_F,
    WIDEN, SCALE_WIDE, NEGATE_WIDE, ADD_WIDE, MULTIPLY_WIDE, DIVIDE_WIDE, ORDER_WIDE, WIDE_TO_FLOAT,
) = range(72)  # fmt: skip

"""WIDEN and those after it: decimals of two words, in a register and the one after it; see `kernels.decimals`."""

(
    EVALUATE, RESET, EACH_ROW, EACH, BACK, CLEAR, COLLECT, PUSH, ARRANGE, SIZE, ELEMENT, CONTAINS, ORDER,
) = range(13)  # fmt: skip
"""Steps of an array program: see `kernels.arrays`."""

DISTINCT, REVERSED, ASCENDING, ASCENDING_NULLS_FIRST, DESCENDING = range(5)

MATCH, SPLIT, JUMP, START, END, ENTER, CHECK, ACCEPT = range(8)

(
    COUNT, SUM, AVG, MIN, MAX, VAR_SAMP, VAR_POP, STDDEV_SAMP, STDDEV_POP, COUNT_IF, MIN_BY, MAX_BY, AVG_WHOLE,
    SUM_WIDE, MIN_WIDE, MAX_WIDE, AVG_WIDE,
) = range(17)  # fmt: skip
"""SUM_WIDE and those after it: of decimals of two words. AVG_WIDE + n: an average with n (at most 4) more digits."""
LAST_WIDE = AVG_WIDE + 4
