"""Spark types of events, the Arrow types in which they travel, and the way back.

Most types cross to Python and back unchanged. Year-month and calendar intervals do not: they are cast to months and to
text before, and back after matching. The Spark type of every column is kept in the Arrow field's metadata, so that
columns that a matcher passes through (with their fields) keep their type: interval fields, collations.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)

from episode.errors import EpisodeUnsupportedError
from episode.matchers.protocol import InputOrder
from episode.plan.schema import quote
from episode.spark.versions import arrow_type

SPARK_TYPE = b"episode.spark_type"
_ENCODED: dict[type[DataType], DataType] = {YearMonthIntervalType: IntegerType(), CalendarIntervalType: StringType()}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema in which matchers see rows of a DataFrame; timestamps are in UTC."""
    return pa.schema([_arrow_field(field) for field in schema.fields])


def _arrow_field(field: StructField) -> pa.Field:
    for path, kind in _parts(field.name, field.dataType):
        nested = path != field.name
        if isinstance(kind, UserDefinedType) or (nested and type(kind) in _ENCODED):
            raise _cannot_carry(path, kind)
    try:
        kind = arrow_type(_travel_type(field.dataType))
    except PySparkException:
        raise _cannot_carry(field.name, field.dataType) from None
    spark_type = StructType([StructField("column", field.dataType)]).json()
    return pa.field(field.name, kind, metadata={SPARK_TYPE: spark_type})


def _travel_type(kind: DataType) -> DataType:
    return _ENCODED.get(type(kind), kind)


def _parts(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """A type and all types inside it, with their paths."""
    yield path, kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _parts(f"{path}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _parts(f"{path}.element", kind.elementType)
    elif isinstance(kind, MapType):
        yield from _parts(f"{path}.key", kind.keyType)
        yield from _parts(f"{path}.value", kind.valueType)


def _cannot_carry(path: str, kind: DataType) -> EpisodeUnsupportedError:
    return EpisodeUnsupportedError(
        f"column {path} of type {kind.simpleString()} cannot be carried through a pattern",
        hint="Leave the column out of the query's input, or cast it to another type in a subquery.",
    )


def check_order(schema: StructType, order: InputOrder) -> None:
    """Refuse keys and order columns that do not compare by their bytes: collated strings and types without order."""
    used = [(name, "partitioned") for name in order.keys] + [(key.column, "ordered") for key in order.order]
    for name, verb in used:
        for path, kind in _parts(name, schema[name].dataType):
            if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
                raise EpisodeUnsupportedError(
                    f"rows cannot be {verb} by column {path}: its collation is {kind.collation}",
                    hint=f"Use a binary collation: {path} COLLATE UTF8_BINARY, or lower({path}).",
                )
            if isinstance(kind, (VariantType, CalendarIntervalType)):
                raise EpisodeUnsupportedError(f"rows cannot be {verb} by column {path} of type {kind.simpleString()}")


def encode(frame: DataFrame) -> DataFrame:
    """The frame with columns that cannot travel cast to types that can.

    Names with dots or backticks, which PySpark would read as paths, become numbers: the receiver goes by places.
    """
    fields = frame.schema.fields
    if not any(type(field.dataType) in _ENCODED or _is_path(field.name) for field in fields):
        return frame
    names = [str(place) if _is_path(field.name) else field.name for place, field in enumerate(fields)]
    encoded = [_encode(F.col(quote(field.name)), field.dataType) for field in fields]
    return frame.select(*[column.alias(name) for column, name in zip(encoded, names, strict=True)])


def _is_path(name: str) -> bool:
    return "." in name or "`" in name


def _encode(column: Column, kind: DataType) -> Column:
    if isinstance(kind, YearMonthIntervalType):
        return column.cast("interval month").cast("int")
    return column.cast("string") if isinstance(kind, CalendarIntervalType) else column


def as_events(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """A batch in the schema that was planned, as Spark sends it: times in UTC, strings with small offsets."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def travel_schema(schema: pa.Schema) -> StructType:
    """The Spark schema in which a matcher's output arrives, before `decode`."""
    return StructType([StructField(field.name, _travel_type(spark_type(field))) for field in schema])


def spark_type(field: pa.Field) -> DataType:
    """The Spark type of an Arrow field: the one it carries, if its Arrow type is still the same, else the usual one."""
    if field.metadata is not None and SPARK_TYPE in field.metadata:
        kind = StructType.fromJson(json.loads(field.metadata[SPARK_TYPE]))[0].dataType
        if arrow_type(_travel_type(kind)) == field.type:
            return kind
    return from_arrow_type(field.type)


def decode(frame: DataFrame, schema: pa.Schema) -> DataFrame:
    """A matcher's output with the types of its fields restored."""
    kinds = {field.name: spark_type(field) for field in schema}
    if not any(type(kind) in _ENCODED for kind in kinds.values()):
        return frame
    return frame.select(*[decode_column(F.col(quote(name)), kind).alias(name) for name, kind in kinds.items()])


def decode_column(column: Column, kind: DataType) -> Column:
    """A column of values of the given type that travelled encoded, in that type again."""
    if isinstance(kind, YearMonthIntervalType):
        return column.cast("interval month").cast(kind)
    return column.cast("interval") if isinstance(kind, CalendarIntervalType) else column
