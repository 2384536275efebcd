"""Which Parquet files a DataFrame reads, and what it does to their rows: what a direct scan has to know, and all of it.

Whoever can list the files of a table (the plan of a Spark session, the snapshot of a lakehouse table) makes a
`TableFiles`; `scan.py` goes by it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from episode.spark.conditions import Condition
from episode.spark.storage import Storage


@dataclass(frozen=True)
class DataFile:
    """A file, and which row of the table's partitions has its constant columns."""

    path: str
    partition: int = 0


@dataclass(frozen=True)
class TableFiles:
    """The files that hold the rows of a frame.

    storage: the file system that they are in, and on which their paths are.
    partitions: the columns that are constant in each file, one row for each set of values; a column that is here is not
    read from the files even if they have it. Without any: one row of no columns.
    columns: for each column of the frame, its name in the files or among the partitions.
    fields: the types in which Spark delivers the columns that are read (those of `columns` and of the condition).
    condition: the rows to keep; None: all.
    case_sensitive: whether the names in the files must be in the same case.
    """

    storage: Storage
    files: tuple[DataFile, ...]
    partitions: pa.Table
    columns: tuple[str, ...]
    fields: pa.Schema
    condition: Condition | None = None
    case_sensitive: bool = False
