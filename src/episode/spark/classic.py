"""What only a classic (not a Connect) session can tell: the optimized plan and the cluster's parallelism.

The one place that looks beneath PySpark's public interface. Everything here is a hint: where it fails, for whatever
reason, the answer is "not known" and the caller goes the general way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

NOT_KNOWN = (Py4JError, PySparkException, AttributeError, TypeError)


@dataclass(frozen=True)
class PlainFiles:
    """Local Parquet files whose columns are the frame's columns, and no more is done to them."""

    paths: tuple[str, ...]


def plain_parquet_files(frame: DataFrame) -> PlainFiles | str:
    """The files after a frame that only reads Parquet, or why it is not such a frame."""
    if not hasattr(frame, "_jdf"):
        return "a Spark Connect session does not show its plan"
    try:
        return _plain_files(frame._jdf.queryExecution().optimizedPlan())
    except NOT_KNOWN:
        return "the input's plan cannot be read"


def parquet_roots(frame: DataFrame) -> tuple[str, ...] | str:
    """The files and directories after a frame that only reads local Parquet, partitioned or not; or why it is not such
    a frame."""
    if not hasattr(frame, "_jdf"):
        return "a Spark Connect session does not show its plan"
    try:
        relation = _parquet(frame._jdf.queryExecution().optimizedPlan())
        if isinstance(relation, str):
            return relation
        roots = relation.location().rootPaths()
        return _local_paths([roots.apply(at).toString() for at in range(roots.size())])
    except NOT_KNOWN:
        return "the input's plan cannot be read"


def _plain_files(plan: Any) -> PlainFiles | str:
    relation = _parquet(plan)
    if isinstance(relation, str):
        return relation
    if relation.partitionSchema().size() > 0:
        return "the input's directory is partitioned by columns"
    if relation.bucketSpec().isDefined():
        return "the input is bucketed"
    paths = _local_paths(list(relation.location().inputFiles()))
    return paths if isinstance(paths, str) else PlainFiles(tuple(sorted(paths)))


def _local_paths(uris: list[str]) -> tuple[str, ...] | str:
    parsed = [urlparse(uri) for uri in uris]
    remote = next((uri.scheme for uri in parsed if uri.scheme != "file"), None)
    return (
        f"the input's files are not local ({remote}:)"
        if remote is not None
        else tuple(unquote(uri.path) for uri in parsed)
    )


def _parquet(plan: Any) -> Any:
    """The relation of Parquet files that a plan reads and does no more to; or why it is not such a plan."""
    while plan.nodeName() == "Project":
        expressions = plan.projectList()
        if any(_class(expressions.apply(i)) != "AttributeReference" for i in range(expressions.size())):
            return "the input computes columns"
        plan = plan.child()
    if _class(plan) != "LogicalRelation" or _class(plan.relation()) != "HadoopFsRelation":
        return f"the input is not just files: its plan has {plan.nodeName()}"
    relation = plan.relation()
    if _class(relation.fileFormat()) != "ParquetFileFormat":
        return f"the input's files are {relation.fileFormat().toString()}, not Parquet"
    return relation


@dataclass(frozen=True)
class SourceTable:
    """A table of a data source: the names that the frame's columns have there, and the options of the reader."""

    columns: tuple[str, ...]
    options: dict[str, str]


def table_of_source(frame: DataFrame, name: str) -> SourceTable | str:
    """The table or stream of a data source after a frame that only reads it, or why it is not such a frame."""
    if not hasattr(frame, "_jdf"):
        return "a Spark Connect session does not show its plan"
    try:
        return _source_table(frame._jdf.queryExecution().analyzed(), name)
    except NOT_KNOWN:
        return "the input's plan cannot be read"


_AROUND = ("SubqueryAlias", "View", "Project")
_RELATIONS = {"StreamingRelationV2": "extraOptions", "DataSourceV2Relation": "options"}


def _source_table(plan: Any, name: str) -> SourceTable | str:
    output = plan.output()
    wanted = [output.apply(i).exprId().id() for i in range(output.size())]
    while _class(plan) in _AROUND:
        if _class(plan) == "Project":
            expressions = plan.projectList()
            if any(_class(expressions.apply(i)) != "AttributeReference" for i in range(expressions.size())):
                return "the input computes columns"
        plan = plan.child()
    kind = _class(plan)
    if kind not in _RELATIONS:
        return f"the input is not just a stream store: its plan has {plan.nodeName()}"
    if plan.table().name() != name and (kind != "StreamingRelationV2" or plan.sourceName() != name):
        return "the input is not a stream store"
    output = plan.output()
    names = {output.apply(i).exprId().id(): output.apply(i).name() for i in range(output.size())}
    found = getattr(plan, _RELATIONS[kind])()
    options = {str(entry.getKey()): str(entry.getValue()) for entry in found.asCaseSensitiveMap().entrySet()}
    return SourceTable(tuple(names[one] for one in wanted), options)


def _class(java_object: Any) -> str:
    return java_object.getClass().getSimpleName()


def parallelism(spark: SparkSession) -> int | None:
    """How many tasks the session runs at once, if it says."""
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except NOT_KNOWN:
        return None


def is_local(spark: SparkSession) -> bool:
    """Whether the workers are processes of this machine, as far as the session says."""
    try:
        return str(spark.sparkContext.master).startswith("local")
    except NOT_KNOWN:
        return False


def estimated_bytes(frame: DataFrame) -> int | None:
    """How large Spark takes the rows of a frame to be, if it says; without statistics, too large rather than too
    small."""
    try:
        return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except NOT_KNOWN:
        return None
