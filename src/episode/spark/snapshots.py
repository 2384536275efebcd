"""The files of a Delta or Iceberg snapshot, where these files alone are its rows.

Spark's own plan is asked, so that the snapshot is the one that Spark would read. Deleted rows, columns under other
names and whatever is not understood are a reason not to: then Spark reads the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from episode.spark.classic import PlainFiles

_NOT_KNOWN = (Py4JError, PySparkException, AttributeError, TypeError, KeyError, ValueError)
_PLAIN_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta that change nothing in what a file says: the first two where they are not in use."""
_COMPUTES = "the input computes columns"
_FIELD_ID = b"PARQUET:field_id"


def snapshot_files(frame: DataFrame) -> PlainFiles | str | None:
    """The local files that are the rows of a snapshot, if a frame reads one and does no more; or why they are not.

    None: the frame is not of such a table.
    """
    if not hasattr(frame, "_jdf"):
        return None
    try:
        found = _files(frame)
    except _NOT_KNOWN:
        return "the input's plan cannot be read"
    return PlainFiles(found) if isinstance(found, tuple) else found


def _files(frame: DataFrame) -> tuple[str, ...] | str | None:
    plan, computes = frame._jdf.queryExecution().optimizedPlan(), False
    while plan.nodeName() == "Project":
        columns = plan.projectList()
        computes |= any(_class(columns.apply(at)) != "AttributeReference" for at in range(columns.size()))
        plan = plan.child()
    if _is_delta(plan):
        return _COMPUTES if computes else _delta_files(frame.sparkSession, plan.relation())
    if _is_iceberg(plan):
        return _COMPUTES if computes else _iceberg_files(frame, plan.scan())
    return None


def _class(java_object: Any) -> str:
    return java_object.getClass().getSimpleName()


# ---- Delta -------------------------------------------------------------------------------------------


def _is_delta(plan: Any) -> bool:
    return (
        _class(plan) == "LogicalRelation"
        and _class(plan.relation()) == "HadoopFsRelation"
        and plan.relation().fileFormat().getClass().getName().startswith("org.apache.spark.sql.delta.")
    )


def _delta_files(spark: SparkSession, relation: Any) -> tuple[str, ...] | str:
    index = relation.location()
    if _class(index) != "PreparedDeltaFileIndex" or _class(relation.fileFormat()) != "DeltaParquetFileFormat":
        return f"the Delta table is read as {_class(index)}"
    written = spark._jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString
    protocol, metadata = json.loads(written(index.protocol())), json.loads(written(index.metadata()))
    reason = delta_reason(protocol, metadata)
    if reason is not None:
        return reason
    return delta_paths(index.path().toUri().toString(), json.loads(written(index.preparedScan().files())))


def delta_reason(protocol: Mapping[str, Any], metadata: Mapping[str, Any]) -> str | None:
    """Why the files of a Delta table are not its rows, by its protocol and metadata as the log has them."""
    unknown = sorted(set(protocol.get("readerFeatures") or ()) - _PLAIN_FEATURES)
    if unknown or protocol["minReaderVersion"] > 3:
        return f"the Delta table has the feature {unknown[0]}" if unknown else "the Delta table is of a newer protocol"
    if metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none":
        return "the columns of the Delta table have other names in its files (column mapping)"
    if metadata.get("partitionColumns"):
        return "the Delta table is partitioned: its files do not have all columns"
    return None


def delta_paths(table: str, files: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | str:
    """The local paths of the files that the log lists. table: its URI."""
    paths = []
    for file in files:
        if file.get("deletionVector") is not None:
            return "rows of the Delta table's files are deleted (deletion vectors)"
        name = urlparse(file["path"])
        uri = name if name.scheme else urlparse(table)
        if uri.scheme != "file":
            return f"the table's files are not local ({uri.scheme}:)"
        path = unquote(name.path)
        paths.append(path if path.startswith("/") else f"{unquote(uri.path).rstrip('/')}/{path}")
    return tuple(sorted(set(paths)))


# ---- Iceberg -----------------------------------------------------------------------------------------


def _is_iceberg(plan: Any) -> bool:
    return _class(plan) == "DataSourceV2ScanRelation" and plan.scan().getClass().getName().startswith(
        "org.apache.iceberg.spark."
    )


def _iceberg_files(frame: DataFrame, scan: Any) -> tuple[str, ...] | str:
    """By the tasks that Iceberg plans: parts of files, each with the files of its deleted rows."""
    if _class(scan) != "SparkBatchQueryScan":
        return f"the Iceberg table is read as {_class(scan)}"
    unread: dict[str, int] = {}
    ids: dict[str, int] = {}
    for partition in scan.toBatch().planInputPartitions():
        if not ids:
            ids = {field.name(): field.fieldId() for field in partition.projection().columns()}
        for task in partition.taskGroup().tasks():
            if not task.isFileScanTask() or task.isDataTask():
                return "the Iceberg table is not read from its files"
            if not task.deletes().isEmpty():
                return "rows of the Iceberg table's files are deleted (position or equality deletes)"
            file = task.file()
            if file.format().name() != "PARQUET":
                return f"the Iceberg table has files of {file.format().name()}, not Parquet"
            location = file.location()
            unread[location] = unread.get(location, file.fileSizeInBytes()) - task.length()
    if any(unread.values()):
        return "the Iceberg table's files are read in part"
    paths = [_iceberg_path(frame.sparkSession, location) for location in unread]
    remote = next((location for location, path in zip(unread, paths, strict=True) if path is None), None)
    if remote is not None:
        return f"the table's files are not local ({remote.partition(':')[0]}:)"
    found = tuple(sorted(path for path in paths if path is not None))
    return _other_columns(found, {name: ids[name] for name in frame.columns}) or found


def _iceberg_path(spark: SparkSession, location: str) -> str | None:
    """A location as Iceberg writes it, which is not encoded, as a local path; None where it is not local."""
    for scheme in ("file://", "file:"):
        if location.startswith(f"{scheme}/"):
            return location.removeprefix(scheme)
    default = str(spark._jsc.hadoopConfiguration().get("fs.defaultFS"))
    return location if location.startswith("/") and default.startswith("file:") else None


def _other_columns(paths: Sequence[str], ids: Mapping[str, int]) -> str | None:
    """Iceberg knows columns by their numbers, files are read here by names: why that would not be the same."""
    try:
        with ThreadPoolExecutor(8) as pool:
            schemas = list(pool.map(pq.read_schema, paths))
    except (OSError, pa.ArrowException) as error:
        return f"a footer cannot be read ({error})"
    for path, schema in zip(paths, schemas, strict=True):
        for name, wanted in ids.items():
            fields = [schema.field(at) for at in schema.get_all_field_indices(name)]
            found = [(field.metadata or {}).get(_FIELD_ID) for field in fields]
            if found != [str(wanted).encode()]:
                return f"the column {name} of the Iceberg table is another one, or none, in {path}"
    return None
