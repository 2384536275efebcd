"""Facts that only a classic (not a Connect) session has: plans, and the cluster's parallelism.

Here and in `scan/plan_files.py` and `scan/conditions.py` episode looks beneath PySpark's public interface. Everything
found there is a hint: if it fails, for whatever reason, the answer is "not known" and the caller goes the general way.
Only `confinement.py` depends on it: if it fails, the query is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

NOT_KNOWN = (Py4JError, PySparkException, AttributeError, TypeError)
"""Exceptions that reading a plan may raise."""
NO_PLAN = "a Spark Connect session does not show its plan"
UNREADABLE = "the input's plan cannot be read"
DELTA_FORMAT = "DeltaParquetFileFormat"


Facts = TypeVar("Facts")


class Refused(Exception):
    """The rows of a plan are not read directly, and why."""


def read_plan(frame: DataFrame, read: Callable[[Any], Facts]) -> Facts | str:
    """The facts that are read from the query execution of a frame; or why they are not known."""
    if not hasattr(frame, "_jdf"):
        return NO_PLAN
    try:
        return read(frame._jdf.queryExecution())
    except Refused as reason:
        return str(reason)
    except (*NOT_KNOWN, LookupError, ArithmeticError, ValueError):
        return UNREADABLE


def parquet_roots(frame: DataFrame) -> tuple[str, ...] | str:
    """The files and directories after a frame that only reads local Parquet, partitioned or not; or why it is not such
    a frame."""
    return read_plan(frame, _roots)


def _roots(execution: Any) -> tuple[str, ...]:
    roots = [urlparse(root.toString()) for root in items(parquet_relation(execution).location().rootPaths())]
    remote = next((uri.scheme for uri in roots if uri.scheme != "file"), None)
    if remote is not None:
        raise Refused(f"the input's files are not local ({remote}:)")
    return tuple(unquote(uri.path) for uri in roots)


def parquet_relation(execution: Any, selecting: bool = False) -> Any:
    """The relation of Parquet files that a plan reads and does no more to; other plans are refused.

    selecting: the plan may also rename columns and filter rows, and the relation may be a snapshot of Delta.
    """
    plan = execution.optimizedPlan()
    while plan.nodeName() == "Project" or (selecting and plan.nodeName() == "Filter"):
        if plan.nodeName() == "Project" and not all(_is_column(one, selecting) for one in items(plan.projectList())):
            raise Refused("the input computes columns")
        plan = plan.child()
    if class_of(plan) != "LogicalRelation" or class_of(plan.relation()) != "HadoopFsRelation":
        raise Refused(f"the input is not just files: its plan has {plan.nodeName()}")
    relation = plan.relation()
    if class_of(relation.fileFormat()) not in ("ParquetFileFormat", *([DELTA_FORMAT] if selecting else [])):
        raise Refused(f"the input's files are {relation.fileFormat().toString()}, not Parquet")
    return relation


def _is_column(expression: Any, renamed: bool) -> bool:
    if renamed and class_of(expression) == "Alias":
        expression = expression.child()
    return class_of(expression) == "AttributeReference"


SourceTable = tuple[list[str], dict[str, str]]
"""A table of a data source: the names that a frame's columns have there, and the options of the reader."""


def table_of_source(frame: DataFrame, name: str) -> SourceTable | str:
    """The table or stream of a data source after a frame that only reads it, or why it is not such a frame."""
    return read_plan(frame, lambda execution: _source_table(execution.analyzed(), name))


_AROUND = ("SubqueryAlias", "View", "Project")
_RELATIONS = {"StreamingRelationV2": "extraOptions", "DataSourceV2Relation": "options"}


def _source_table(plan: Any, name: str) -> SourceTable:
    wanted = [column.exprId().id() for column in items(plan.output())]
    while class_of(plan) in _AROUND:
        if class_of(plan) == "Project" and not all(_is_column(one, False) for one in items(plan.projectList())):
            raise Refused("the input computes columns")
        plan = plan.child()
    kind = class_of(plan)
    if kind not in _RELATIONS:
        raise Refused(f"the input is not just a stream store: its plan has {plan.nodeName()}")
    if plan.table().name() != name and (kind != "StreamingRelationV2" or plan.sourceName() != name):
        raise Refused("the input is not a stream store")
    names = {column.exprId().id(): column.name() for column in items(plan.output())}
    found = getattr(plan, _RELATIONS[kind])()
    options = {str(entry.getKey()): str(entry.getValue()) for entry in found.asCaseSensitiveMap().entrySet()}
    return [names[one] for one in wanted], options


def class_of(java_object: Any) -> str:
    """The name of a Java object's class, without its package."""
    return str(java_object.getClass().getSimpleName())


def items(sequence: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [sequence.apply(at) for at in range(sequence.size())]


def parallelism(spark: SparkSession) -> int | None:
    """Number of tasks that the session runs at once, if known."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except NOT_KNOWN:
        return None


def is_local(spark: SparkSession) -> bool:
    """Whether the workers are known to be processes of this machine."""
    try:
        return str(spark.sparkContext.master).startswith("local")
    except NOT_KNOWN:
        return False


def estimated_bytes(frame: DataFrame) -> int | None:
    """Spark's estimate of the size of a frame's rows, if it has one; without statistics an overestimate."""
    try:
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except NOT_KNOWN:
        return None
