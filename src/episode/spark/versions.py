"""Differences between the versions of Spark that episode runs on, 4.0 to 4.3; no other module asks for a version.

Features are tested, not numbers. If an older version has another way to the same result, it is used here; otherwise
planning raises an error.

See decision 9.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql import Column, DataFrame
from pyspark.sql import datasource as _datasource
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

from episode.errors import EpisodeUnsupportedError

if TYPE_CHECKING:
    import pyarrow as pa

# ---- types -------------------------------------------------------------------------------------------

_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
"""Before 4.2, timestamps are in UTC unless one asks for another zone."""


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type, with timestamps in UTC; a struct with two fields of one name is an error."""
    return to_arrow_type(kind, error_on_duplicated_field_names_in_struct=True, **_UTC)


def arrow_columns(schema: StructType) -> pa.Schema:
    """The Arrow schema of columns that go to Spark, with timestamps in UTC."""
    return to_arrow_schema(schema, **_UTC)


# ---- shuffles ----------------------------------------------------------------------------------------


def by_number(frame: DataFrame, partitions: int, column: str) -> DataFrame:
    """Rows shuffled by a column of whole numbers: n goes to the partition n modulo the number of partitions.

    `repartitionById` came with 4.1. Before, a row is given the number that Spark's hash sends to its partition.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(partitions, column)
    return frame.repartition(partitions, hashed_to(partitions, F.col(column)))


def hashed_to(partitions: int, number: Column) -> Column:
    """A value that Spark's hash partitioning sends to the partition of a number."""
    keys = F.array(*map(F.lit, keys_of_partitions(partitions)))
    return F.element_at(keys, (F.pmod(number, F.lit(partitions)) + F.lit(1)).cast("int"))


@cache
def keys_of_partitions(partitions: int) -> tuple[int, ...]:
    """For each partition a whole number that Spark's hash partitioning sends there."""
    found: dict[int, int] = {}
    key = 0
    while len(found) < partitions:
        found.setdefault(_murmur3(key) % partitions, key)
        key += 1
    return tuple(found[at] for at in range(partitions))


def _murmur3(value: int) -> int:
    """MurmurHash3 of one 32-bit integer with Spark's seed, as a signed number."""
    mask = 0xFFFFFFFF

    def rotate(word: int, by: int) -> int:
        return (word << by | word >> 32 - by) & mask

    word = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    hashed = (rotate(42 ^ word, 13) * 5 + 0xE6546B64 & mask) ^ 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashed = (hashed ^ hashed >> shift) * factor & mask
    return hashed - (1 << 32) if hashed >> 31 else hashed


# ---- data sources ------------------------------------------------------------------------------------

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable as ReadAllAvailable
    from pyspark.sql.streaming.datasource import ReadLimit as ReadLimit
    from pyspark.sql.streaming.datasource import ReadMaxRows as ReadMaxRows
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow

    HAS_READ_LIMITS = True
except ImportError:  # before 4.2 Spark asks a stream for all that there is
    HAS_READ_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """A limit of the rows that a stream reads at once."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """All that there is."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """A limit of a number of rows."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A stream whose end can be fixed at the start of a query."""


if hasattr(_datasource, "DataSourceStreamArrowWriter"):
    DataSourceStreamArrowWriter = _datasource.DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef]
        """A stream's writer that takes Arrow batches: 4.0 gives them to whatever is an Arrow writer."""


def check_read_limit(option: str) -> None:
    """Refuse the option that limits what a micro-batch reads, where Spark does not ask for a limit."""
    if not HAS_READ_LIMITS:
        raise EpisodeUnsupportedError(
            f"{option} needs Spark 4.2 or newer; this is {pyspark.__version__}, which reads all that there is.",
            hint="Leave the option out.",
        )


# ---- streams -----------------------------------------------------------------------------------------


def check_streams() -> None:
    """Refuse patterns over streams where Spark cannot load what keeps their state: each version asks for a protobuf
    that is not older than the one it was made with."""
    try:
        from pyspark.sql.streaming.proto import StateMessage_pb2  # noqa: F401  (checks its version when it is loaded)
    except Exception as error:  # noqa: BLE001  # of the class VersionError, which not all versions of protobuf have
        raise EpisodeUnsupportedError(
            f"Spark {pyspark.__version__} keeps the state of streams with protobuf, which cannot be loaded: {error}",
            hint="Install a newer protobuf where Python runs: pip install --upgrade 'protobuf>=6.33.5'.",
        ) from None


# ---- a Spark of another process ----------------------------------------------------------------------


def check_same_spark(version: str) -> None:
    """Refuse a Spark in another process that is not the one of this process's pyspark."""
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise EpisodeUnsupportedError(
            f"This is Spark {version}, and {sys.executable} has pyspark {pyspark.__version__}.",
            hint="Install the pyspark of the same version next to episode.",
        )
