"""Rows of a table as JSON objects, one text for each, as Spark's to_json writes them: nulls are left out.

Values are joined by Arrow's functions, column by column. Numbers may be written differently than Java does, with the
same value.
"""

from __future__ import annotations

import base64
import json
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeUnsupportedError
from episode.matchers.columns import one_chunk
from episode.matchers.json_columns import java_double

_SPECIAL = r'[\x00-\x1f"\\]'
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES.update({chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _ESCAPES})


def objects(table: pa.Table) -> pa.Array:
    """A JSON object for each row (large_string)."""
    parts = []
    for field in table.schema:
        name = json.dumps(field.name, ensure_ascii=False)
        value = written(one_chunk(table.column(field.name)))
        parts.append(_joined(f",{name}:", value).fill_null(""))
    if not parts:
        return pa.array(["{}"] * table.num_rows, pa.large_string())
    return _joined("{", pc.utf8_slice_codeunits(_joined(*parts), 1), "}")


def keys(table: pa.Table, names: tuple[str, ...]) -> pa.Array:
    """The key of each row: one column as a text, several as a JSON array of texts (large_string)."""
    columns = [_key(one_chunk(table.column(name))) for name in names]
    if len(columns) == 1:
        return columns[0]
    quoted = [_quoted(column).fill_null("null") for column in columns]
    return _joined("[", pc.binary_join_element_wise(*quoted, pa.scalar(",", pa.large_string())), "]")


def _key(column: pa.Array) -> pa.Array:
    """Equal keys have one text, whoever writes them: so numbers are written as Java does."""
    if not pa.types.is_floating(column.type):
        return texts(column)
    values = [None if value is None else java_double(repr(value)).strip('"') for value in column.to_pylist()]
    return pa.array(values, pa.large_string())


def written(column: pa.Array) -> pa.Array:
    """Values as they stand in JSON; null where they are."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_temporal(type_):
        return _quoted(texts(column))
    if pa.types.is_binary(type_):
        encoded = [None if value is None else base64.b64encode(value).decode() for value in column.to_pylist()]
        return _quoted(pa.array(encoded, pa.large_string()))
    if pa.types.is_floating(type_):
        return pc.if_else(pc.is_finite(column), texts(column), _quoted(texts(column)))
    if pa.types.is_list(type_):
        return _listed(column)
    if pa.types.is_struct(type_):
        inner = pa.Table.from_arrays(column.flatten(), names=[field.name for field in type_])
        return pc.if_else(column.is_valid(), objects(inner), pa.scalar(None, pa.large_string()))
    if pa.types.is_map(type_):
        raise EpisodeUnsupportedError("A column of type MAP cannot be written as JSON by a live task.")
    return texts(column)


def texts(column: pa.Array) -> pa.Array:
    """Values as Spark's cast to STRING has them, times in the ISO form with all microseconds (large_string)."""
    type_ = column.type
    if pa.types.is_timestamp(type_):
        day = pc.strftime(column, "%Y-%m-%dT%H:%M:%S")
        return _joined(day.cast(pa.large_string()), "Z" if type_.tz else "")
    if pa.types.is_decimal(type_):
        return pa.array(
            [None if value is None else format(value, "f") for value in column.to_pylist()], pa.large_string()
        )
    found = column.cast(pa.string()).cast(pa.large_string())
    if pa.types.is_floating(type_):
        found = pc.if_else(pc.match_substring_regex(found, r"^-?\d+$"), _joined(found, ".0"), found)
        special = pc.invert(pc.is_finite(column)).fill_null(False)
        if pc.any(special).as_py():
            named = pc.if_else(pc.is_nan(column), "NaN", pc.if_else(pc.greater(column, 0), "Infinity", "-Infinity"))
            found = pc.if_else(special, named.cast(pa.large_string()), found)
    return found


def _quoted(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _SPECIAL)).as_py():
        column = reduce(lambda text, sign: pc.replace_substring(text, sign, _ESCAPES[sign]), _ESCAPES, column)
    return _joined('"', column, '"')


def _listed(column: pa.Array) -> pa.Array:
    values = written(column.flatten()).fill_null("null")
    lists = pa.ListArray.from_arrays(_offsets(column), values)
    inside = pc.binary_join(lists, pa.scalar(",", pa.large_string()))
    return pc.if_else(column.is_valid(), _joined("[", inside, "]"), pa.scalar(None, pa.large_string()))


def _offsets(column: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(column).fill_null(0).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _joined(*parts: object) -> pa.Array:
    plain = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*plain, pa.scalar("", pa.large_string()))
