"""A segment: one committed batch of a log in one file.

    magic, length of schema, schema | block | block | … | footer | checksum and length of footer, magic

A block is an Arrow IPC message: rows of one lane, in order of arrival. The footer, in JSON, holds the places of blocks,
their lanes, rows, checksums, least and greatest times, the columns that these are based on (`Layout`), and the totals
of the whole log up to here (`Tally`), so that only the last segment need be read to know them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.matchers.spark_types import spark_name

MAGIC = b"EPISLOG1"
_LENGTH = struct.Struct("<I")
_END = struct.Struct("<II8s")
_TAIL = 64 * 1024
"""Bytes from the end that are read at once: most footers are in them."""


class LaneBlock(NamedTuple):
    """Rows of one lane: their place in the file, checksum, least and greatest time."""

    lane: int
    offset: int
    length: int
    rows: int
    crc: int
    least: int
    greatest: int


class LastBatch(NamedTuple):
    """The last batch of a producer: its number, its commit, and what the producer noted with it."""

    batch: int
    commit: int
    note: str = ""


@dataclass(frozen=True)
class Tally:
    """Totals of a log up to a commit: rows, the greatest event time, and the last batches of producers.

    origins: by producer, the most recent last; only those that were active last (`producers` has the others).
    """

    rows: int = 0
    greatest: int | None = None
    origins: Mapping[str, LastBatch] = field(default_factory=dict)


class Layout(NamedTuple):
    """The columns of time and key, and the number of lanes."""

    time: str
    key: tuple[str, ...]
    lanes: int


class Head(NamedTuple):
    """The schema at the beginning of a segment: its length and checksum."""

    length: int
    crc: int


@dataclass(frozen=True)
class Footer:
    """The footer of a segment. layout: None in segments of earlier versions."""

    commit: int
    blocks: tuple[LaneBlock, ...]
    tally: Tally
    head: Head
    layout: Layout | None = None

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def greatest(self) -> int | None:
        return max((block.greatest for block in self.blocks), default=None)


class CorruptSegment(EpisodeDataError):
    """Raised for a segment whose bytes are not those that were written."""

    kind = "corrupt"
    path: Path
    """The path of the segment."""


def corrupt(path: Path, what: str) -> CorruptSegment:
    error = CorruptSegment(
        f"The segment {path} is corrupt: {what}.",
        hint="Restore the file, or read with skip_corrupt=True, which leaves out the lanes that are damaged.",
    )
    error.path = path
    return error


def write_head(file: BinaryIO, schema: pa.Schema) -> Head:
    message = schema.serialize().to_pybytes()
    file.write(MAGIC + _LENGTH.pack(len(message)) + message)
    return Head(len(message), zlib.crc32(message))


def write_block(file: BinaryIO, batch: pa.RecordBatch, lane: int, least: int, greatest: int) -> LaneBlock:
    """Append the rows of a lane to the file."""
    message = batch.serialize()
    offset = file.tell()
    file.write(message)
    return LaneBlock(lane, offset, message.size, batch.num_rows, zlib.crc32(message), least, greatest)


def write_footer(file: BinaryIO, footer: Footer) -> None:
    tally = footer.tally
    origins = {name: last if last.note else last[:2] for name, last in tally.origins.items()}
    text = json.dumps(
        {
            "commit": footer.commit,
            "head": footer.head,
            "blocks": footer.blocks,
            "tally": {"rows": tally.rows, "greatest": tally.greatest, "origins": origins},
            "layout": footer.layout,
        }
    ).encode()
    file.write(text + _END.pack(zlib.crc32(text), len(text), MAGIC))


def read_footer(path: Path) -> Footer:
    """Read the footer of a segment; FileNotFoundError if the segment has been removed."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        start = max(0, size - _TAIL)
        file.seek(start)
        tail = file.read()
        if len(tail) < _END.size:
            raise corrupt(path, "it is too short")
        crc, length, magic = _END.unpack(tail[-_END.size :])
        if magic != MAGIC or length + _END.size > size:
            raise corrupt(path, "its end is missing")
        if length + _END.size > len(tail):
            file.seek(size - _END.size - length)
            tail = file.read()
    text = tail[-_END.size - length : -_END.size]
    if zlib.crc32(text) != crc:
        raise corrupt(path, "the checksum of its footer is wrong")
    found = json.loads(text)
    tally = found["tally"]
    origins = {name: LastBatch(*last) for name, last in tally["origins"].items()}
    blocks = tuple(LaneBlock(*values) for values in found["blocks"])
    stored = found.get("layout")
    layout = None if stored is None else Layout(stored[0], tuple(stored[1]), stored[2])
    whole = Tally(tally["rows"], tally["greatest"], origins)
    return Footer(found["commit"], blocks, whole, Head(*found["head"]), layout)


def read_blocks(
    path: Path,
    footer: Footer,
    declared: pa.Schema,
    lanes: Collection[int] | None = None,
    columns: Sequence[str] | None = None,
    blocks: Sequence[LaneBlock] | None = None,
    skip: Callable[[CorruptSegment], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some lanes (None: of all), or of some blocks, checked; their memory is mapped from the file.

    skip: called with the error of each damaged lane, which is then left out; without it, the error is raised.
    """
    wanted = [block for block in blocks or footer.blocks if lanes is None or block.lane in lanes]
    if not wanted:
        return
    with pa.memory_map(str(path)) as file:
        whole = file.read_buffer()
    if skip is not None:
        damaged = {block.lane for block in wanted if not _is_whole(whole, block)}
        for lane in sorted(damaged):
            skip(_lane_error(path, lane))
        wanted = [block for block in wanted if block.lane not in damaged]
    schema = _stored_schema(path, whole, footer.head) if wanted else declared
    if not schema.equals(declared):
        raise EpisodeDataError(
            f"The segment {path} has other columns than the stream declares: {difference(schema, declared)}.",
            hint="Declare the stream with the columns that are stored.",
        )
    for block in wanted:
        if skip is None and not _is_whole(whole, block):
            raise _lane_error(path, block.lane)
        batch = pa.ipc.read_record_batch(whole.slice(block.offset, block.length), schema)
        yield batch if columns is None else batch.select(list(columns))


def _is_whole(whole: pa.Buffer, block: LaneBlock) -> bool:
    message = whole.slice(block.offset, block.length)
    return message.size == block.length and zlib.crc32(message) == block.crc


def _lane_error(path: Path, lane: int) -> CorruptSegment:
    return corrupt(path, f"the checksum of lane {lane} is wrong")


def read_schema(path: Path, head: Head) -> pa.Schema:
    with pa.memory_map(str(path)) as file:
        return _stored_schema(path, file.read_buffer(), head)


def difference(stored: pa.Schema, declared: pa.Schema) -> str | None:
    """Describe the first difference between columns; None if they are equal."""
    if stored.equals(declared):
        return None
    for column in stored:
        if column.name not in declared.names:
            return f"{column.name} {spark_name(column.type).upper()} is stored, and is not declared"
    for column in declared:
        if column.name not in stored.names:
            return f"{column.name} {spark_name(column.type).upper()} is declared, and is not stored"
        found = stored.field(column.name).type
        if found != column.type:
            kinds = (spark_name(kind).upper() for kind in (found, column.type))
            return f"{column.name} is stored as {' and declared as '.join(kinds)}"
    return f"the columns are stored in the order {', '.join(stored.names)}"


def _stored_schema(path: Path, whole: pa.Buffer, head: Head) -> pa.Schema:
    message = whole.slice(len(MAGIC) + _LENGTH.size, head.length)
    if message.size != head.length or zlib.crc32(message) != head.crc:
        raise corrupt(path, "the checksum of its schema is wrong")
    return pa.ipc.read_schema(message)
