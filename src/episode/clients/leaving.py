"""Statements that are left to a Spark which understands MATCH_RECOGNIZE itself, if the session asks for it.

episode takes every statement with its clauses, also where Spark has a clause of that name: it knows more of it, and is
faster. With `spark.episode.leaveToSpark` set to true, Spark is asked first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from episode.errors import EpisodeAnalysisError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAVE = "spark.episode.leaveToSpark"

_Result = TypeVar("_Result")


def by_spark(spark: SparkSession, attempt: Callable[[], _Result]) -> _Result | None:
    """Return what Spark makes of a statement; None if it cannot do it, or is not to be asked.

    attempt: parses and analyses the statement with Spark alone. A statement that Spark does not understand, or in which
    it finds a mistake, is episode's, whose errors tell more.
    """
    if not leaves_to_spark(spark):
        return None
    from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException

    try:
        result = attempt()
        getattr(result, "schema", None)  # a Connect session analyses when it is asked
    except (AnalysisException, ParseException, UnsupportedOperationException):
        return None
    return result


def leaves_to_spark(spark: SparkSession) -> bool:
    """Does the session leave to Spark the statements that Spark can do?"""
    value = spark.conf.get(LEAVE, "false")
    if str(value).lower() not in ("true", "false"):
        raise EpisodeAnalysisError(f"{LEAVE} is {value}.", hint="Set it to true or false.")
    return str(value).lower() == "true"
