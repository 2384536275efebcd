"""A Spark in another process, which started this one: its gateway, its context and its sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession

from episode.spark.versions import check_same_spark


def connect() -> Any:
    """The gateway to the JVM whose port and secret are in the environment."""
    return launch_gateway()


def attach(gateway: Any, context: Any, session: Any) -> None:
    """Make the JVM's Spark the one of this process. context: its JavaSparkContext. session: its default session."""
    check_same_spark(context.version())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=context.getConf())
    spark = SparkContext(gateway=gateway, jsc=context, conf=conf)
    SparkSession(spark, session)  # the first one becomes the default of both processes: so it is the one that was


def session_of(java_session: Any) -> SparkSession:
    """A session of the JVM."""
    context = SparkContext._active_spark_context
    assert context is not None
    return SparkSession(context, java_session)


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """Have a session be the active one of this thread in the JVM: Spark parses expressions by its settings."""
    sessions = spark._jvm.org.apache.spark.sql.SparkSession
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        sessions.clearActiveSession()


def plan_of(frame: DataFrame) -> Any:
    """The plan of a DataFrame, with all names resolved, as an object of the JVM."""
    return frame._jdf.queryExecution().analyzed()


def analysed_alone(spark: SparkSession, parsed: Any) -> Any:
    """The plan that Spark alone makes of a parsed statement; commands in it are not run. Its errors are raised."""
    mode = spark._jvm.org.apache.spark.sql.execution.CommandExecutionMode.SKIP()
    return spark._jsparkSession.sessionState().executePlan(parsed, mode).analyzed()


def values_of(spark: SparkSession, expressions: Iterable[Any]) -> list[object]:
    """The values of constant expressions of the JVM. Spark evaluates them without a job."""
    utils = spark._jvm.org.apache.spark.sql.classic.ExpressionUtils
    columns = [Column(utils.column(one)) for one in expressions]
    return list(spark.sql("SELECT 1").select(*columns).collect()[0]) if columns else []


def items(iterable: Any) -> Iterator[Any]:
    """The items of a collection of Scala's."""
    each = iterable.iterator()
    while each.hasNext():
        yield each.next()
