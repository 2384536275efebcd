"""Data of the experiments as Parquet in several files: made when they are first asked for, kept for the next run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).parent / "data"


def made_once(directory: Path, tables: Iterable[pa.Table], row_group: int) -> Path:
    """The directory with a file for each of the tables; written when it is not there yet."""
    if not directory.exists():
        unfinished = directory.with_name(f"{directory.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for number, table in enumerate(tables):
            pq.write_table(table, unfinished / f"part-{number:03}.parquet", row_group_size=row_group)
        unfinished.rename(directory)
    return directory
