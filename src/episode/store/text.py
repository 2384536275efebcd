"""Values that are written as text, in files of CSV and JSON, as values of a stream's columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.store.conforming import first_wrong, misfit
from episode.store.declaration import Declaration

_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
_INFINITE = r"(?i)^[+-]?inf"
_DAY_ONLY = r"^\d{4}-\d\d-\d\d$"


def parsed(column: pa.ChunkedArray, field: pa.Field, declaration: Declaration, first_row: int) -> pa.ChunkedArray:
    """A column of texts in the type of the stream's; an error names the row."""
    if pa.types.is_nested(field.type):
        raise EpisodeDataError(f"The column {field.name} of {declaration.name} cannot be read from text: use Parquet.")
    if pa.types.is_string(field.type):
        return column
    texts = pc.utf8_trim_whitespace(column)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    if pa.types.is_timestamp(field.type) and field.type.tz is not None:
        texts = _zoned(texts)
    try:
        return _converted(texts, field.type)
    except pa.ArrowInvalid:
        row = first_wrong(texts, lambda part: _converted(part, field.type))
        raise misfit(first_row + row, field.name, column[row].as_py(), declaration) from None


def _converted(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Numbers are the nearest ones of their type; one that is too large is not infinity."""
    found = texts.cast(kind)
    if pa.types.is_floating(kind):
        too_large = pc.and_(pc.is_inf(found), pc.invert(pc.match_substring_regex(texts, _INFINITE)))
        if pc.any(too_large).as_py():
            raise pa.ArrowInvalid("too large")
    return found


def overflows(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether a number in a column, or inside its values, is infinite."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_inf(column)).as_py())
    if not pa.types.is_nested(kind):
        return False
    if isinstance(column, pa.ChunkedArray):
        return any(map(overflows, column.chunks))
    parts = [column.keys, column.items] if pa.types.is_map(kind) else column.flatten()
    return any(map(overflows, parts if isinstance(parts, list) else [parts]))


def _zoned(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of texts that name no zone are in UTC; a day is its midnight."""
    texts = pc.if_else(pc.match_substring_regex(texts, _DAY_ONLY), _joined(texts, "T00:00:00"), texts)
    zoned = pc.match_substring_regex(texts, r"\d\d:\d\d.*" + _ZONE)
    return pc.if_else(zoned, texts, _joined(texts, "Z"))


def _joined(texts: pa.ChunkedArray, end: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(texts, end, "")
