"""Values that are written as text, in files of CSV and JSON, as values of a stream's columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.store.conforming import first_wrong
from episode.store.declaration import Declaration

_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
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
        return texts.cast(field.type)
    except pa.ArrowInvalid:
        row = first_wrong(texts, field.type)
        type_ = dict(declaration.columns)[field.name].upper()
        raise EpisodeDataError(
            f"Row {first_row + row}: {field.name} = {column[row].as_py()!r} is not of type {type_}. "
            f"Nothing of this batch is stored in {declaration.name}."
        ) from None


def _zoned(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times of texts that name no zone are in UTC; a day is its midnight."""
    texts = pc.if_else(pc.match_substring_regex(texts, _DAY_ONLY), _joined(texts, "T00:00:00"), texts)
    zoned = pc.match_substring_regex(texts, r"\d\d:\d\d.*" + _ZONE)
    return pc.if_else(zoned, texts, _joined(texts, "Z"))


def _joined(texts: pa.ChunkedArray, end: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(texts, end, "")
