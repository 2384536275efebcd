"""Events from files: JSON lines, CSV with a header, Parquet, or a pipe of the first two; batch by batch."""

from __future__ import annotations

import io
import json
import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.json as pc_json
import pyarrow.parquet as pq

from episode.errors import EpisodeDataError
from episode.store.conforming import overflows, parse_column, table_of_dictionaries
from episode.store.declaration import Declaration, find_column
from episode.store.files import data_files

BATCH_ROWS = 100_000
PATIENCE = 0.2
"""Seconds without input after which the lines read from a pipe become a batch."""
_CHUNK = 1 << 20


def events_of(
    path: str,
    kind: str,
    declaration: Declaration,
    rows: int = BATCH_ROWS,
    *,
    patient: bool = False,
    seen: Callable[[int], Any] = id,
) -> Iterator[pa.Table]:
    """Yield the events of a file or, for `-`, of standard input, at most `rows` at a time.

    kind: json, csv or parquet. patient: wait for full batches even if a pipe pauses, so that the same input gives the
    same batches. seen: called with the bytes read so far, if known.
    """
    if kind == "parquet":
        yield from _parquet(path, rows, seen)
        return
    lines = _lines(path, rows, patient, seen)
    yield from _json(lines, declaration) if kind == "json" else _csv(lines, declaration)


def _parquet(path: str, rows: int, seen: Callable[[int], Any]) -> Iterator[pa.Table]:
    if path == "-":
        raise EpisodeDataError("Parquet cannot be read from a pipe.", hint="Give the path of a file.")
    done = 0
    for file in data_files(Path(path)):
        try:
            with pq.ParquetFile(file) as opened:
                for batch in opened.iter_batches(batch_size=rows):
                    yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            raise EpisodeDataError(f"{file} cannot be read as Parquet: {error}.") from None
        done += file.stat().st_size
        seen(done)


def _lines(path: str, rows: int, patient: bool, seen: Callable[[int], Any]) -> Iterator[bytes]:
    """Yield whole lines, `rows` at a time; fewer at the end, and (unless patient) when a pipe pauses."""
    held = b""
    pieces: list[bytes] = []
    count = 0
    for piece in _read_pipe() if path == "-" else _read_file(path, seen):
        pieces.append(piece)
        count += piece.count(b"\n")
        paused = not piece and not patient
        if count and (count >= rows or paused):
            held = b"".join(pieces)
            while count >= rows or (paused and count):
                taken = min(rows, count)
                ends = np.flatnonzero(np.frombuffer(held, np.uint8) == ord("\n"))
                end = int(ends[taken - 1]) + 1
                yield held[:end]
                held, count = held[end:], count - taken
            pieces = [held]
    held = b"".join(pieces)
    if held.strip():
        yield held


def _read_file(path: str, seen: Callable[[int], Any]) -> Iterator[bytes]:
    kind = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}.get(Path(path).suffix.lower())
    with open(path, "rb") as raw, pa.input_stream(_CountingFile(raw, seen), compression=kind) as file:
        while piece := file.read(_CHUNK):
            yield piece


class _CountingFile(io.RawIOBase):
    """A file that reports how much of it was read."""

    def __init__(self, file: BinaryIO, seen: Callable[[int], Any]) -> None:
        self._file, self._seen = file, seen

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self._file.read(size)
        self._seen(self._file.tell())
        return found


def _read_pipe() -> Iterator[bytes]:
    """Yield pieces of standard input; an empty piece if nothing arrives for PATIENCE seconds."""
    source = sys.stdin.fileno()
    while True:
        ready, _, _ = select.select([source], [], [], PATIENCE)
        if not ready:
            yield b""
            continue
        piece = os.read(source, _CHUNK)
        if not piece:
            return
        yield piece


def _json(groups: Iterator[bytes], declaration: Declaration) -> Iterator[pa.Table]:
    """Read JSON lines. Times are read as text, because they are written in more ways than Arrow's reader knows."""
    as_text = [field.name for field in declaration.schema if pa.types.is_temporal(field.type)]
    fields = [pa.field(one.name, pa.string()) if one.name in as_text else one for one in declaration.schema]
    parse = pc_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="error")
    row = 1
    for lines in groups:
        options = pc_json.ReadOptions(block_size=max(_CHUNK, len(lines) + 1))
        try:
            table = pc_json.read_json(io.BytesIO(lines), read_options=options, parse_options=parse)
            table.validate(full=True)  # the reader does not check that texts are UTF-8
            if any(map(overflows, table.columns)):
                raise pa.ArrowInvalid("a number is too large")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            table = _json_line_by_line(lines, declaration, row)
        else:
            table = _with_text_parsed(table, as_text, declaration, row)
        row += table.num_rows
        yield table


def _json_line_by_line(lines: bytes, declaration: Declaration, row: int) -> pa.Table:
    """Read lines that Arrow's reader of JSON refuses: names in other case, maps, and errors, whose row is found."""
    found: list[Any] = []
    for line in lines.splitlines():
        if not line.strip():
            continue
        try:
            value = json.loads(line, parse_float=_finite, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise EpisodeDataError(f"Row {row + len(found)} is not JSON: {error}.") from None
        found.append(value)
    plain = table_of_dictionaries(found, declaration, row, as_written=True)
    as_text = [field.name for field in plain.schema if field.type != declaration.schema.field(field.name).type]
    return _with_text_parsed(plain, as_text, declaration, row)


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has one name twice")
    return found


def _csv(groups: Iterator[bytes], declaration: Declaration) -> Iterator[pa.Table]:
    header: list[str] | None = None
    row = 1
    for lines in groups:
        read = pc_csv.ReadOptions(column_names=header, block_size=max(_CHUNK, len(lines) + 1), use_threads=False)
        names = header or _header(lines)
        convert = pc_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, quoted_strings_can_be_null=False
        )
        try:
            table = pc_csv.read_csv(io.BytesIO(lines), read_options=read, convert_options=convert)
        except pa.ArrowInvalid as error:
            raise EpisodeDataError(f"Rows from {row} on are not CSV: {error}.") from None
        header = names
        known = [name for name in names if find_column(declaration.columns, name) is not None]
        table = _with_text_parsed(table, known, declaration, row)
        row += table.num_rows
        yield table


def _header(lines: bytes) -> list[str]:
    names = pc_csv.read_csv(io.BytesIO(lines.splitlines()[0] + b"\n")).column_names
    return [name.strip().lstrip("\ufeff") for name in names]


def _with_text_parsed(table: pa.Table, names: list[str], declaration: Declaration, row: int) -> pa.Table:
    for name in names:
        column = find_column(declaration.columns, name)
        at = table.schema.get_field_index(name)
        if column is not None and at >= 0:  # duplicate names are refused later, with the other names
            field = declaration.schema.field(column[0])
            table = table.set_column(at, field, parse_column(table.column(at), field, declaration, row))
    return table
