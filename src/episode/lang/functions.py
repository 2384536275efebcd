"""Names that episode evaluates itself inside scalar expressions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from episode.lang.lexer import words_of

NAVIGATIONS = ("FIRST", "LAST", "PREV", "NEXT")
"""Logical (FIRST, LAST) and physical (PREV, NEXT) navigation."""

ROW_FUNCTIONS = ("CLASSIFIER", "MATCH_NUMBER")

AGGREGATES = words_of("""
    COUNT SUM AVG MEAN MIN MAX STDDEV STD STDDEV_SAMP STDDEV_POP VARIANCE VAR_SAMP VAR_POP ARRAY_AGG COLLECT_LIST
    COLLECT_SET MAX_BY MIN_BY COUNT_IF BOOL_AND EVERY BOOL_OR SOME ANY FIRST_VALUE LAST_VALUE ANY_VALUE
""")
"""Aggregates over the rows of a label."""


def aggregate_arguments(word: str) -> int | None:
    """Return the number of arguments of an aggregate, of SQL or of a user; None for other words."""
    if word in ("MAX_BY", "MIN_BY"):
        return 2
    return None if word not in AGGREGATES and user_aggregate(word) is None else 1


SYNONYMS = {
    "MEAN": "avg",
    "VARIANCE": "var_samp",
    "ARRAY_AGG": "collect_list",
    "EVERY": "bool_and",
    "ANY_VALUE": "first_value",
    **dict.fromkeys(("STD", "STDDEV"), "stddev_samp"),
    **dict.fromkeys(("SOME", "ANY"), "bool_or"),
}
"""Other names of the same aggregate."""

OTHER_SPARK_AGGREGATES = words_of("""
    APPROX_COUNT_DISTINCT APPROX_PERCENTILE BIT_AND BIT_OR BIT_XOR BITMAP_CONSTRUCT_AGG BITMAP_OR_AGG CORR
    COUNT_MIN_SKETCH COVAR_POP COVAR_SAMP GROUPING GROUPING_ID HISTOGRAM_NUMERIC HLL_SKETCH_AGG HLL_UNION_AGG KURTOSIS
    LISTAGG MEDIAN MODE PERCENTILE PERCENTILE_APPROX PERCENTILE_CONT PERCENTILE_DISC REGR_AVGX REGR_AVGY REGR_COUNT
    REGR_INTERCEPT REGR_R2 REGR_SLOPE REGR_SXX REGR_SXY REGR_SYY SKEWNESS STRING_AGG TRY_AVG TRY_SUM
""")
"""Aggregates of Spark that episode does not evaluate over the rows of a match."""

GENERATORS = words_of(
    "EXPLODE EXPLODE_OUTER POSEXPLODE POSEXPLODE_OUTER INLINE INLINE_OUTER STACK JSON_TUPLE VARIANT_EXPLODE"
)
"""Functions of Spark that make several rows of one."""

RANDOM = words_of("RAND RANDOM RANDN RANDSTR UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID")
"""Functions of Spark whose value is another one each time."""


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate over the rows of a label or the events of a variable, in functions of its user.

    functions: how it begins, the step and the finish, traced (see `matchers.user_aggregates`). takes: the type of the
    values that the step is given, double or bigint. gives: the type of the result.
    """

    name: str
    functions: Hashable
    takes: str
    gives: str


REGISTERED: dict[str, UserAggregate] = {}
"""By name in upper case."""


def user_aggregate(name: str) -> UserAggregate | None:
    return REGISTERED.get(name.upper())
