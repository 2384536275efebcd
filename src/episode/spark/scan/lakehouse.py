"""Delta and Iceberg tables: opened as what they are, and read directly if their files alone are their rows.

See decision 10.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.spark import types as carry
from episode.spark.classic import Refused, class_of, items, read_plan
from episode.spark.scan.parquet import DataFile, TableFiles
from episode.spark.scan.storage import LOCAL

# Directories that are tables of a lakehouse are opened as tables, never as loose Parquet files: some files were
# replaced, of some a part of the rows is deleted. Only the format's own log lists the rows.

DELTA, ICEBERG = "delta", "iceberg"
_NAMES = {DELTA: "Delta", ICEBERG: "Iceberg"}
_LOGS = {DELTA: "_delta_log/*.json", ICEBERG: "metadata/*.metadata.json"}
_METADATA_FILE = ".metadata.json"
_PACKAGES = {DELTA: "io.delta:delta-spark_{}_2.13", ICEBERG: "org.apache.iceberg:iceberg-spark-runtime-{}_2.13"}
_RELEASES = {DELTA: {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"}, ICEBERG: {"4.0": "1.11.0", "4.1": "1.12.0"}}
"""By the version of Spark, the newest release that was made for it."""
_SETTINGS = {
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    ICEBERG: {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"},
}


def open_table(spark: SparkSession, path: str, *, follow: bool = False) -> DataFrame | None:
    """The table at a path, as of now or as a stream; None if it is not a lakehouse table."""
    kind = format_of(spark, path)
    if kind is None:
        _refuse_parts(path)
        return None
    reader = spark.readStream if follow else spark.read
    try:
        frame = reader.format(kind).load(path)
        frame.schema  # noqa: B018 - a Connect session asks the server now
    except (PySparkException, Py4JError) as error:
        raise _cannot_open(spark, path, kind, error) from None
    return frame


def format_of(spark: SparkSession, path: str) -> str | None:
    """The format of the table at a path: delta, iceberg; None if unknown."""
    if path.endswith(_METADATA_FILE):
        return ICEBERG
    place = Path(path.removeprefix("file://"))
    if "://" not in path.removeprefix("file://") and place.exists():
        return _local_format(place)
    return next((kind for kind, log in _LOGS.items() if _is_there(spark, f"{path.rstrip('/')}/{log}")), None)


def _local_format(place: Path) -> str | None:
    return next((kind for kind, log in _LOGS.items() if next(place.glob(log), None) is not None), None)


def _is_there(spark: SparkSession, pattern: str) -> bool:
    """Whether Spark finds files of this pattern, wherever they are. Their contents are not read."""
    try:
        spark.read.format("text").load(pattern).schema  # noqa: B018 - Spark looks for them when it is asked
    except (PySparkException, Py4JError):
        return False
    return True


def _refuse_parts(path: str) -> None:
    """A directory inside a table holds files of many snapshots."""
    place = Path(path.removeprefix("file://"))
    if not place.is_dir():
        return
    for above in place.resolve().parents:
        kind = _local_format(above)
        if kind is not None:
            raise EpisodeAnalysisError(
                f"{path} lies in the {_NAMES[kind]} table {above}: its files alone do not determine its rows.",
                hint=f"Give the table, {above}, and choose its rows in the query.",
            )


def _cannot_open(spark: SparkSession, path: str, kind: str, error: Exception) -> EpisodeAnalysisError:
    name, said = _NAMES[kind], str(error)
    if "DATA_SOURCE_NOT_FOUND" in said or "DELTA_CONFIGURE_SPARK_SESSION" in said:
        message = f"{path} is a table of {name}, and this Spark session was started without {name}."
        return EpisodeAnalysisError(message, hint=_how(spark, kind))
    first = next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)
    by_name = " If a catalog has the table, use its name there: FROM catalog.schema.table." if kind == ICEBERG else ""
    return EpisodeAnalysisError(f"The {name} table {path} cannot be opened: {first}", hint=by_name.strip())


def _how(spark: SparkSession, kind: str) -> str:
    """Packages and settings that a session needs to read the format."""
    version = ".".join(spark.version.split(".")[:2])
    release = _RELEASES[kind].get(version)
    if release is None:
        known = f"there were packages for Spark {' and '.join(_RELEASES[kind])}"
        return f"Add its package for Spark {version}; when this version of episode was made, {known}."
    settings = {"spark.jars.packages": f"{_PACKAGES[kind].format(version)}:{release}", **_SETTINGS[kind]}
    lines = "\n".join(f"  {key}={value}" for key, value in settings.items())
    return f"Start the session with these settings:\n{lines}"


# Snapshots of Delta and Iceberg tables: whether their files alone are their rows, and which files these are.
#
# Spark's own plan is asked, so that the snapshot is the one that Spark would read. Deleted rows, columns under other
# names and whatever is not understood are a reason not to: then Spark reads the rows.
#
# Delta's snapshot is a relation of Parquet files in the plan, and `plan_files.py` lists its files with the values of
# its partition columns as those of any other. Iceberg's is a different scan, whose tasks have the files.

_PLAIN_FEATURES = frozenset({"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features of Delta that do not change the contents of files; the first two only if they are unused."""
_TASKS = ("BaseFileScanTask", "SplitScanTask")
_FIELD_ID = b"PARQUET:field_id"
_MAGIC = 4

# ---- Delta -------------------------------------------------------------------------------------------


def delta_reason(spark: SparkSession, relation: Any) -> str | None:
    """The reason why the files of a Delta table are not its rows, or None."""
    index = relation.location()
    if class_of(index) != "PreparedDeltaFileIndex":
        return f"the Delta table is read as {class_of(index)}"
    written = spark._jvm.org.apache.spark.sql.delta.util.JsonUtils.mapper().writeValueAsString
    protocol, metadata = json.loads(written(index.protocol())), json.loads(written(index.metadata()))
    return reason_of_log(protocol, metadata, json.loads(written(index.preparedScan().files())))


def reason_of_log(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], files: Sequence[Mapping[str, Any]]
) -> str | None:
    """The same by protocol, metadata and files as Delta's log has them."""
    unknown = sorted(set(protocol.get("readerFeatures") or ()) - _PLAIN_FEATURES)
    if unknown or protocol["minReaderVersion"] > 3:
        return f"the Delta table has the feature {unknown[0]}" if unknown else "the Delta table is of a newer protocol"
    if metadata.get("configuration", {}).get("delta.columnMapping.mode", "none") != "none":
        return "the columns of the Delta table have other names in its files (column mapping)"
    if any(file.get("deletionVector") is not None for file in files):
        return "rows of the Delta table's files are deleted (deletion vectors)"
    return None


# ---- Iceberg -----------------------------------------------------------------------------------------


def snapshot_files(spark: SparkSession, frame: DataFrame) -> TableFiles | str | None:
    """The files of the Iceberg snapshot that a frame reads some columns of and does no more to; or why not.

    None: the frame does not read such a table.
    """

    def read(execution: Any) -> TableFiles | None:
        scan = _iceberg_scan(execution.optimizedPlan())
        return None if scan is None else _iceberg_files(spark, frame, scan)

    return read_plan(frame, read) if hasattr(frame, "_jdf") else None


def _iceberg_scan(plan: Any) -> Any:
    """The scan of Iceberg under projections, or None."""
    computes = False
    while plan.nodeName() == "Project":
        computes |= any(class_of(column) != "AttributeReference" for column in items(plan.projectList()))
        plan = plan.child()
    if class_of(plan) != "DataSourceV2ScanRelation":
        return None
    scan = plan.scan()
    if not scan.getClass().getName().startswith("org.apache.iceberg.spark."):
        return None
    if computes:
        raise Refused("the input computes columns")
    if class_of(scan) != "SparkBatchQueryScan":
        raise Refused(f"the Iceberg table is read as {class_of(scan)}")
    return scan


def _iceberg_files(spark: SparkSession, frame: DataFrame, scan: Any) -> TableFiles:
    """By the tasks that Iceberg plans: parts of files, each with the files of its deleted rows."""
    parts: dict[str, list[tuple[int, int]]] = {}
    sizes: dict[str, int] = {}
    ids: dict[str, int] = {}
    for partition in scan.toBatch().planInputPartitions():
        if not ids:
            ids = {field.name(): field.fieldId() for field in partition.projection().columns()}
        for task in partition.taskGroup().tasks().toArray():
            if class_of(task) not in _TASKS:
                raise Refused("the Iceberg table is not read from its files")
            if not task.deletes().isEmpty():
                raise Refused("rows of the Iceberg table's files are deleted (position or equality deletes)")
            file = task.file()
            if file.format().name() != "PARQUET":
                raise Refused(f"the Iceberg table has files of {file.format().name()}, not Parquet")
            location = file.location()
            sizes[location] = file.fileSizeInBytes()
            parts.setdefault(location, []).append((task.start(), task.start() + task.length()))
    if not all(whole(parts[location], size) for location, size in sizes.items()):
        raise Refused("the Iceberg table's files are read in part")
    local = str(spark._jsc.hadoopConfiguration().get("fs.defaultFS")).startswith("file:")
    paths = sorted(local_path(location, local) for location in sizes)
    _check_columns(paths, {name: ids[name] for name in frame.columns} if ids else {})
    try:
        fields = carry.arrow_schema(frame.schema)
    except EpisodeUnsupportedError as error:
        raise Refused(str(error)) from None
    files = tuple(DataFile(path) for path in paths)
    return TableFiles(LOCAL, files, pa.table({}), tuple(frame.columns), fields, case_sensitive=True)


def whole(parts: Sequence[tuple[int, int]], size: int) -> bool:
    """Are these parts of a Parquet file, from and to, all of it? Its first row group comes after a word of 4 bytes."""
    ordered = sorted(parts)
    ends = [ordered[0][0], *(end for _, end in ordered)]
    return ends[0] <= _MAGIC and ends[:-1] == [begin for begin, _ in ordered] and ends[-1] == size


def local_path(location: str, local: bool) -> str:
    """A location as Iceberg writes it, which is not encoded, as a path. local: are those without a scheme?"""
    for scheme in ("file://", "file:"):
        if location.startswith(f"{scheme}/"):
            return location.removeprefix(scheme)
    if local and location.startswith("/"):
        return location
    raise Refused(f"the Iceberg table's files are not local ({location.partition('/')[0]})")


def _check_columns(paths: Sequence[str], ids: Mapping[str, int]) -> None:
    """Iceberg knows columns by their numbers, files are read here by names: it must be the same in every file."""
    try:
        with ThreadPoolExecutor(8) as pool:
            schemas = list(pool.map(pq.read_schema, paths))
    except (OSError, pa.ArrowException) as error:
        raise Refused(f"a footer cannot be read ({error})") from None
    for path, schema in zip(paths, schemas, strict=True):
        for name, wanted in ids.items():
            fields = [schema.field(at) for at in schema.get_all_field_indices(name)]
            if [(field.metadata or {}).get(_FIELD_ID) for field in fields] != [str(wanted).encode()]:
                raise Refused(f"the column {name} of the Iceberg table is another one, or none, in {path}")
