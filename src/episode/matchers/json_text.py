"""Rows of a table as JSON texts, column by column: no Python object for a value, but for those of rare types.

Times are written in full (ISO 8601), numbers that are not finite as texts, bytes in base 64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import one_chunk

_CONTROL = r"[\x00-\x1f]"


def json_objects(names: Sequence[str], columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> pa.Array:
    """An object for each row."""
    members = []
    for name, column in zip(names, columns, strict=True):
        texts = pc.fill_null(json_texts(one_chunk(column)), "null")
        members.append(pc.binary_join_element_wise(f"{json.dumps(name, ensure_ascii=False)}:", texts, ""))
    if not members:
        return pa.array(["{}"] * rows, pa.string())
    return pc.binary_join_element_wise("{", pc.binary_join_element_wise(*members, ","), "}", "")


def json_texts(array: pa.Array) -> pa.Array:
    """The values of an array, each as JSON; null where there is none."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return json_texts(array.dictionary).take(array.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _numbers(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _strings(array.cast(pa.string()))
    if pa.types.is_date(kind):
        return _quoted(array.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        return _times(array)
    if pa.types.is_duration(kind):
        return array.cast(pa.int64()).cast(pa.string())
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        objects = json_objects(names, array.flatten(), len(array))
        return pc.if_else(array.is_valid(), objects, pa.scalar(None, pa.string()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(array)
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([_base64(value) for value in array.to_pylist()], pa.string())
    return _quoted(array.cast(pa.string()))


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _numbers(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    finite = pc.is_finite(array)
    if pc.all(finite, min_count=0).as_py() is not False:
        return texts
    names = pc.if_else(pc.is_nan(array), '"NaN"', pc.if_else(pc.greater(array, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(finite, texts, names)


def _strings(array: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(array, "\\", "\\\\"), '"', '\\"')
    texts = _quoted(escaped)
    control = pc.fill_null(pc.match_substring_regex(array, _CONTROL), False)
    if not pc.any(control).as_py():
        return texts
    places = np.flatnonzero(control.to_numpy(zero_copy_only=False))
    fixed = pa.array([json.dumps(array[at].as_py(), ensure_ascii=False) for at in places], pa.string())
    return pc.replace_with_mask(texts, control, fixed)


def _times(array: pa.Array) -> pa.Array:
    kind = array.type
    wall = array.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)) if kind.tz else array
    texts = pc.strftime(wall, format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise('"', texts, 'Z"' if kind.tz else '"', "")


def _lists(array: pa.Array) -> pa.Array:
    return _bracketed(array, pc.fill_null(json_texts(array.values), "null"), "[", "]")


def _maps(array: pa.Array) -> pa.Array:
    keys, values = json_texts(array.keys), pc.fill_null(json_texts(array.items), "null")
    if not pa.types.is_string(array.type.key_type):
        keys = pc.if_else(pc.starts_with(keys, '"'), keys, _quoted(keys))
    return _bracketed(array, pc.binary_join_element_wise(keys, values, ":"), "{", "}")


def _bracketed(array: pa.Array, members: pa.Array, opening: str, closing: str) -> pa.Array:
    """The members of each list, joined. members: of the array's values, whatever part of them it is."""
    offsets = array.offsets.cast(pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, members.cast(pa.string()))
    joined = pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")
    return pc.if_else(array.is_valid(), joined, pa.scalar(None, pa.string()))


def _base64(value: bytes | None) -> str | None:
    return None if value is None else f'"{base64.b64encode(value).decode()}"'
