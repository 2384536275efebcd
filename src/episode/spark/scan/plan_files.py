"""The Parquet files that the plan of a classic session reads, as Spark itself lists and prunes them.

The physical plan has the shape: projections and filters over one scan of files. Spark's own index lists the files that
are left after its filters on partition columns, with the values of these columns; nothing is read from directory names.
A plan of any other shape is refused, with the reason.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from episode.errors import EpisodeUnsupportedError
from episode.spark import types as carry
from episode.spark.classic import (
    DELTA_FORMAT,
    Refused,
    class_of,
    items,
    parquet_relation,
    read_plan,
)
from episode.spark.scan.conditions import (
    AndFilter,
    Condition,
    array_of,
    columns_in,
    condition_of,
    conjuncts,
    python_value,
)
from episode.spark.scan.lakehouse import delta_reason
from episode.spark.scan.parquet import DataFile, TableFiles
from episode.spark.scan.storage import LOCAL, Storage, Workplace, storage_of

_INDEXES = ("InMemoryFileIndex", "CatalogFileIndex", "MetadataLogFileIndex")
_SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96TimestampConversion": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
}
_OPTIONS = {
    "datetimeRebaseMode": "LEGACY",
    "int96RebaseMode": "LEGACY",
    "ignoreCorruptFiles": "true",
    "ignoreMissingFiles": "true",
}
_FEW_FILES = 10
_EXECUTORS = "spark.executorEnv."
_COLUMN_RULES = ("EXISTS_DEFAULT", "parquet.field.id")


def files_of_plan(spark: SparkSession, frame: DataFrame) -> TableFiles | str:
    """The files after a frame that reads Parquet, keeps some rows and columns of it and does no more; or why not."""
    return read_plan(frame, partial(_table_files, spark))


def _table_files(spark: SparkSession, execution: Any) -> TableFiles:
    parquet_relation(execution, selecting=True)  # refuses other plans before a physical plan is made
    plan, above = execution.sparkPlan(), []
    while class_of(plan) in ("ProjectExec", "FilterExec"):
        above.append(plan)
        plan = plan.child()
    if class_of(plan) != "FileSourceScanExec":
        raise Refused(f"the input is not just files: its plan has {plan.nodeName()}")
    relation = plan.relation()
    _check_relation(spark, relation)
    output = items(plan.output())
    fields = StructType.fromJson(json.loads(relation.schema().json()))
    names = {attribute.exprId().id(): attribute.name() for attribute in output}
    of_files = plan.requiredSchema().size() + relation.partitionSchema().size()
    if len(output) != of_files or not set(names.values()) <= set(fields.names):
        raise Refused("the input reads _metadata of its files")
    columns = [attribute.exprId().id() for attribute in output]
    conditions: list[Condition] = []
    for node in reversed(above):
        if class_of(node) == "FilterExec":
            conditions += [condition_of(part, names) for part in conjuncts(node.condition())]
            continue
        named = []  # (number of an expression that only names a column, the relation's name of that column)
        for expression in items(node.projectList()):
            column = expression.child() if class_of(expression) == "Alias" else expression
            if class_of(column) != "AttributeReference":
                raise Refused("the input computes columns")
            named.append((expression.exprId().id(), names[column.exprId().id()]))
        names, columns = dict(named), [number for number, _ in named]
    condition = None if not conditions else conditions[0] if len(conditions) == 1 else AndFilter(tuple(conditions))
    wanted = tuple(names[number] for number in columns)
    schema = _schema(fields, (*wanted, *(columns_in(condition) if condition is not None else ())))
    directories = items(relation.location().listFiles(plan.partitionFilters(), plan.dataFilters()))
    uris = _uris(spark, relation.location(), [directory.files() for directory in directories])
    storage = _storage(spark, relation, [uri for of_one in uris for uri in of_one])
    files = [DataFile(storage.path(uri), number) for number, of_one in enumerate(uris) for uri in of_one]
    files.sort(key=lambda file: file.path)
    partitions = _partitions(relation, directories, schema)
    case_sensitive = _setting(spark, "spark.sql.caseSensitive") == "true"
    return TableFiles(storage, tuple(files), partitions, wanted, schema, condition, case_sensitive)


def _check_relation(spark: SparkSession, relation: Any) -> None:
    for setting, value in _SETTINGS.items():
        if _setting(spark, setting).upper() == value.upper():
            raise Refused(f"{setting} is {value}")
    options = relation.options()
    given = {key.lower(): key for key in options.keys().mkString("\n").split("\n") if key}
    for name, value in _OPTIONS.items():
        key = given.get(name.lower())
        if key is not None and str(options.apply(key)).upper() == value.upper():
            raise Refused(f"the option {name} is {value}")
    if relation.bucketSpec().isDefined():
        raise Refused("the input is bucketed")
    if class_of(relation.fileFormat()) == DELTA_FORMAT:
        reason = delta_reason(spark, relation)
        if reason is not None:
            raise Refused(reason)
    elif class_of(relation.location()) not in _INDEXES:
        raise Refused(f"the input's files are listed by {class_of(relation.location())}")


def _setting(spark: SparkSession, key: str) -> str:
    try:
        return str(spark.conf.get(key))
    except PySparkException:
        return ""


# ---- files and partitions ----------------------------------------------------------------------------------


def _uris(spark: SparkSession, location: Any, listed: list[Any]) -> list[list[str]]:
    """The files of each directory as encoded URIs. One call per file is slow for many files; then all files of the
    index are requested at once, and found by their directories."""
    sizes = [files.size() for files in listed]
    held: dict[str, list[str]] = {}
    if sum(sizes) > _FEW_FILES and class_of(location) == "InMemoryFileIndex":
        wrapped = spark._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(location.inputFiles())
        for uri in wrapped.mkString("\n").split("\n"):
            folder, _, name = uri.rpartition("/")
            if not name.startswith(("_", ".")):
                held.setdefault(folder, []).append(uri)
    found = []
    for files, size in zip(listed, sizes, strict=True):
        folder = _uri(files.apply(0)).rpartition("/")[0] if size and held else ""
        known = held.get(folder, [])
        found.append(known if len(known) == size else [_uri(file) for file in items(files)])
    return found


def _uri(file: Any) -> str:
    return str(file.getPath().toUri().toString())


def _schema(fields: StructType, names: tuple[str, ...]) -> pa.Schema:
    """The columns that are read, in the types in which matchers see them."""
    read = [fields[name] for name in dict.fromkeys(names)]
    for field in read:
        rule = next((rule for rule in _COLUMN_RULES if rule in (field.metadata or {})), None)
        if rule is not None:
            raise Refused(f"column {field.name} has {rule}")
    try:
        return carry.arrow_schema(StructType(read))
    except EpisodeUnsupportedError as error:
        raise Refused(str(error)) from None


def _partitions(relation: Any, directories: list[Any], schema: pa.Schema) -> pa.Table:
    """The values of the partition columns that are read, a row for each directory."""
    used = [(at, part) for at, part in enumerate(items(relation.partitionSchema())) if part.name() in schema.names]
    rows = [directory.values() for directory in directories] if used else []
    arrays = {}
    for at, part in used:
        kind = part.dataType()
        values = [None if row.isNullAt(at) else python_value(row.get(at, kind)) for row in rows]
        arrays[part.name()] = array_of(values, schema.field(part.name()).type)
    return pa.table(arrays)


def _storage(spark: SparkSession, relation: Any, uris: list[str]) -> Storage:
    """The file system of all files."""
    roots = {(urlsplit(uri).scheme, urlsplit(uri).netloc) for uri in uris}
    if not roots or roots == {("file", "")}:
        return LOCAL
    if len(roots) > 1:
        raise Refused("the input's files are on several file systems")
    options = relation.options()
    configuration = spark._jsparkSession.sessionState().newHadoopConfWithOptions(options)
    try:
        found = storage_of(uris[0], configuration.get, _workplace(spark))
    except OSError as error:
        raise Refused(f"the file system cannot be opened ({error})") from None
    if isinstance(found, str):
        raise Refused(found)
    return found


def _workplace(spark: SparkSession) -> Workplace:
    context, here = spark.sparkContext, dict(os.environ)
    settings = context.getConf().getAll()
    given = {key.removeprefix(_EXECUTORS): value for key, value in settings if key.startswith(_EXECUTORS)}
    return Workplace(context.sparkUser(), here, here | given if context.master.startswith("local") else given)
