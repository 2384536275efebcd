"""Rows to measure a query on: from the user's files, or generated for columns of given types."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.json as json
import pyarrow.parquet as pq

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.column_types import parse_type
from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.paths import files_of, is_local, kind_of_files

MOST_ROWS = 1_000_000
SEED = 7
BEGIN = 1_767_225_600_000_000
"""Microseconds: the start of the times of generated rows."""
EXAMPLE = "Write for example 'user bigint, ts timestamp, price double'."
_TYPES = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_OTHERS = ("other", "unknown", "none")


def read_sample(path: str, most: int = MOST_ROWS) -> pa.Table:
    """Read the first rows of Parquet, CSV or JSON files."""
    if not is_local(path):
        raise EpisodeUnsupportedError(
            f"--sample {path}: a sample is read from files of this machine.", hint="Copy a few of the files here."
        )
    files = list(files_of(path))
    if not files:
        raise EpisodeAnalysisError(f"--sample {path}: there are no files.")
    kind = kind_of_files(path)
    tables: list[pa.Table] = []
    rows = 0
    for file in files:
        try:
            read = _first_rows(file, kind, most - rows)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise EpisodeAnalysisError(f"--sample {file} cannot be read as {kind}: {error}") from None
        tables.append(read)
        rows += read.num_rows
        if rows >= most:
            break
    try:
        return pa.concat_tables(tables).combine_chunks()
    except pa.ArrowInvalid as error:
        raise EpisodeAnalysisError(f"--sample {path}: its files have different columns ({error}).") from None


def _first_rows(file: Path, kind: str, most: int) -> pa.Table:
    if kind == "csv":
        return csv.read_csv(file).slice(0, most)
    if kind == "json":
        return json.read_json(file).slice(0, most)
    with pq.ParquetFile(file) as opened:
        batches, rows = list[pa.RecordBatch](), 0
        for batch in opened.iter_batches():
            batches.append(batch)
            rows += batch.num_rows
            if rows >= most:
                break
        return pa.Table.from_batches(batches, opened.schema_arrow).slice(0, most)


def read_columns(text: str) -> pa.Schema:
    """Parse the columns that --columns lists: names with Spark's types."""
    cursor = Cursor(text, tokenize(text))
    fields: list[pa.Field] = []
    while True:
        if not cursor.token.is_name:
            cursor.fail("Expected the name of a column.", None, EXAMPLE)
        place = cursor.token
        name = cursor.advance().identifier
        kind = parse_type(cursor)
        if kind not in _TYPES:
            cursor.fail(f"Values of type {kind} are not made up.", place, "Give data with --sample.")
        fields.append(pa.field(name, _TYPES[kind]))
        if cursor.at_end:
            return pa.schema(fields)
        if not cursor.token.is_symbol(","):
            cursor.fail("Expected ',' after a column.", None, EXAMPLE)
        cursor.advance()


def generate_rows(
    schema: pa.Schema, query: str, keys: tuple[str, ...], rate: float, distinct: float, rows: int
) -> pa.Table:
    """Generate rows at a rate: keys at random, times one after the other, numbers as random walks, texts of the query.

    keys: columns that partition the rows, with `distinct` values together.
    """
    draw = np.random.default_rng(SEED)
    texts = [*dict.fromkeys(re.findall(r"'([^']*)'", query)), *_OTHERS]
    lower = {name.lower() for name in keys}
    codes = draw.integers(0, max(1, int(min(distinct, rows / 10))), rows)
    columns = [_values(field, field.name.lower() in lower, codes, texts, rate, rows, draw) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _values(
    field: pa.Field,
    is_key: bool,
    codes: np.ndarray,
    texts: list[str],
    rate: float,
    rows: int,
    draw: np.random.Generator,
) -> pa.Array:
    kind = field.type
    if pa.types.is_timestamp(kind):
        return pa.array(BEGIN + (np.arange(rows) * (1e6 / rate)).astype(np.int64)).cast(kind)
    if pa.types.is_date(kind):
        return pa.array((BEGIN // 86_400_000_000 + np.arange(rows) * (1 / rate / 86_400)).astype(np.int32)).cast(kind)
    if pa.types.is_string(kind):
        if is_key:
            return pa.array(np.char.add("key-", codes.astype(str)))
        return pa.array(np.array(texts)[draw.integers(0, len(texts), rows)])
    if pa.types.is_boolean(kind):
        return pa.array(draw.random(rows) < 0.5)
    if is_key:
        return pa.array(codes % (2 ** (kind.bit_width - 1)) if pa.types.is_integer(kind) else codes).cast(kind)
    walk = _walk(codes, draw)
    if pa.types.is_integer(kind):
        return pa.array(np.round(walk).astype(np.int64) % 2 ** min(31, kind.bit_width - 1)).cast(kind)
    return pa.array(np.round(walk, 2)).cast(kind)


def _walk(codes: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """A random walk around 100 for each key, in the order of the rows."""
    order = np.argsort(codes, kind="stable")
    steps = draw.normal(0, 1, len(codes))
    total = np.cumsum(steps[order])
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    before = total[first] - steps[order][first]
    walked = np.empty(len(codes))
    walked[order] = 100 + total - np.repeat(before, np.diff(first, append=len(codes)))
    return walked
