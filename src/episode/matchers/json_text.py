"""Rows of a table as JSON texts, column by column, without a Python object for each value: the one form of JSON that
episode writes, in results of rules and to Kafka.

Numbers are written as Java does (3.0, 1.0E7), those that are not finite as texts; times in full in ISO 8601, instants
in UTC; bytes in base 64; intervals as Spark's texts; maps as objects. docs/rules.md has the form by type.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.matchers.columns import one_chunk

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES.update({chr(code): f"\\u{code:04X}" for code in range(32) if chr(code) not in _ESCAPES})
_SPECIAL = r'[\x00-\x1f"\\]'
_NUMBER = r"^(?P<sign>-?)(?P<whole>\d+)\.?(?P<part>\d*)(?:e(?P<power>[+-]?\d+))?$"
_BASE64 = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_NOTHING = pa.scalar(None, pa.string())


@dataclass(frozen=True)
class JsonForm:
    """Options of JSON texts. nulls: whether null fields of objects are written. exponents: whether all DOUBLEs have
    one; Spark's parse_json takes numbers without an exponent as DECIMAL."""

    nulls: bool = True
    exponents: bool = False


FORM = JsonForm()
"""The form of results of rules."""


def json_objects(
    names: Sequence[str], columns: Sequence[pa.Array | pa.ChunkedArray], rows: int, form: JsonForm = FORM
) -> pa.Array:
    """Return an object for each row."""
    members = []
    for name, column in zip(names, columns, strict=True):
        texts = json_texts(one_chunk(column), form)
        texts = pc.fill_null(texts, "null") if form.nulls else texts
        members.append(pc.fill_null(_concat(f",{json.dumps(name, ensure_ascii=False)}:", texts), ""))
    if not members:
        return pa.array(["{}"] * rows, pa.string())
    return _concat("{", pc.utf8_slice_codeunits(_concat(*members), 1), "}")


def key_texts(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return the keys of rows: one column as a text, several as a JSON array of texts."""
    texts = [_plain_texts(one_chunk(column)) for column in columns]
    if len(texts) == 1:
        return texts[0]
    quoted = [pc.fill_null(_quote(text), "null") for text in texts]
    return _concat("[", pc.binary_join_element_wise(*quoted, ","), "]")


def json_texts(array: pa.Array, form: JsonForm = FORM) -> pa.Array:
    """Return each value of an array as JSON; null stays null."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return json_texts(array.dictionary, form).take(array.indices)
    if pa.types.is_struct(kind):
        objects = json_objects([field.name for field in kind], array.flatten(), len(array), form)
        return pc.if_else(array.is_valid(), objects, _NOTHING)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _bracket(array, pc.fill_null(json_texts(array.values, form), "null"), "[", "]")
    if pa.types.is_map(kind):
        values = pc.fill_null(json_texts(array.items, form), "null")
        members = pc.binary_join_element_wise(_quote(_plain_texts(array.keys)), values, ":")
        return _bracket(array, members, "{", "}")
    if pa.types.is_floating(kind):
        finite = pc.is_finite(array)
        return pc.if_else(finite, _doubles(array, form.exponents), _concat('"', _doubles(array), '"'))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _plain_texts(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quote(_plain_texts(array))
    return _concat('"', _plain_texts(array), '"')


def _plain_texts(array: pa.Array) -> pa.Array:
    """Return values as texts without quotation marks; those of nested types as JSON."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _plain_texts(array.dictionary).take(array.indices)
    if pa.types.is_nested(kind):
        return json_texts(array)
    if pa.types.is_floating(kind):
        return _doubles(array)
    if pa.types.is_decimal(kind):
        return _decimals(array)
    if pa.types.is_timestamp(kind):
        wall = array.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.timestamp(kind.unit)) if kind.tz else array
        return _concat(pc.strftime(wall, format="%Y-%m-%dT%H:%M:%S"), "Z" if kind.tz else "")
    if pa.types.is_duration(kind):
        return _intervals(array.cast(pa.duration("us")).cast(pa.int64()))
    if pa.types.is_time(kind):
        return pc.replace_substring_regex(array.cast(pa.time64("us")).cast(pa.string()), r"\.?0+$", "")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _base64(array.cast(pa.large_binary()))
    return array.cast(pa.string())


def _quote(texts: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        texts = reduce(lambda text, sign: pc.replace_substring(text, sign, _ESCAPES[sign]), _ESCAPES, texts)
    return _concat('"', texts, '"')


# ---- numbers ---------------------------------------------------------------------------------------------------


def _doubles(array: pa.Array, exponents: bool = False) -> pa.Array:
    """Format numbers as Java does: with an exponent below a thousandth and from ten million on."""
    texts = array.cast(pa.string())
    size = pc.abs(array)
    finite = pc.is_finite(array)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    whole = pc.if_else(pc.match_substring(texts, "."), texts, _concat(texts, ".0"))
    found = _concat(whole, "E0") if exponents else whole
    far = pc.fill_null(pc.and_not(finite, plain), False)
    if pc.any(far).as_py():
        found = pc.replace_with_mask(found, far, _scientific(texts.filter(far)))
    if not pc.all(finite, min_count=0).as_py():
        named = pc.if_else(pc.is_nan(array), "NaN", pc.if_else(pc.greater(array, 0), "Infinity", "-Infinity"))
        found = pc.if_else(finite, found, named)
    return found


def _scientific(texts: pa.Array) -> pa.Array:
    """Format numbers as 1.5E-7: one digit other than zero, a point, further digits, and a power of ten."""
    sign, whole, part, power = pc.extract_regex(texts, _NUMBER).flatten()
    digits = _concat(whole, part)
    significant = pc.utf8_ltrim(digits, "0")
    zeros = pc.subtract(pc.utf8_length(digits), pc.utf8_length(significant))
    power = pc.utf8_ltrim(pc.if_else(pc.equal(power, ""), "0", power), "+").cast(pa.int32())
    power = pc.subtract(pc.add(power, pc.utf8_length(whole)), pc.add(zeros, 1))
    significant = pc.utf8_rtrim(significant, "0")
    rest = pc.utf8_slice_codeunits(significant, 1)
    rest = pc.if_else(pc.equal(rest, ""), "0", rest)
    return _concat(sign, pc.utf8_slice_codeunits(significant, 0, 1), ".", rest, "E", power.cast(pa.string()))


def _decimals(array: pa.Array) -> pa.Array:
    """Format decimals with all digits of their scale, without an exponent."""
    scale = array.type.scale
    array = array.cast(pa.decimal128(array.type.precision, scale))
    unscaled = pa.decimal128(array.type.precision, 0)
    digits = pa.Array.from_buffers(unscaled, len(array), array.buffers(), offset=array.offset).cast(pa.string())
    if scale == 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), scale + 1, "0")
    return _concat(sign, pc.utf8_slice_codeunits(digits, 0, -scale), ".", pc.utf8_slice_codeunits(digits, -scale))


# ---- intervals and bytes ---------------------------------------------------------------------------------------


def _intervals(micros: pa.Array) -> pa.Array:
    """Format intervals as INTERVAL '1 02:03:04.5' DAY TO SECOND."""
    size = pc.abs(micros)
    seconds, left = _split(size, 1_000_000)
    minutes, seconds = _split(seconds, 60)
    hours, minutes = _split(minutes, 60)
    days, hours = _split(hours, 24)
    clock = [pc.utf8_lpad(part.cast(pa.string()), 2, "0") for part in (hours, minutes, seconds)]
    fraction = pc.utf8_rtrim(pc.utf8_lpad(left.cast(pa.string()), 6, "0"), "0")
    point = pc.if_else(pc.equal(fraction, ""), "", ".")
    sign = pc.if_else(pc.less(micros, 0), "-", "")
    day_time = pc.binary_join_element_wise(*clock, ":")
    return _concat("INTERVAL '", sign, days.cast(pa.string()), " ", day_time, point, fraction, "' DAY TO SECOND")


def _split(counts: pa.Array, unit: int) -> tuple[pa.Array, pa.Array]:
    whole = pc.divide(counts, unit)
    return whole, pc.subtract(counts, pc.multiply(whole, unit))


def _base64(array: pa.Array) -> pa.Array:
    """Encode bytes in base 64: every value is padded to a multiple of three bytes, and all are encoded at once."""
    values = pa.concat_arrays([pc.fill_null(array, b"")])  # without offset
    starts = np.frombuffer(values.buffers()[1], np.int64)[: len(values) + 1]
    given = np.frombuffer(values.buffers()[2] or b"", np.uint8)[starts[0] : starts[-1]]
    lengths = np.diff(starts)
    ends = np.cumsum(-(-lengths // 3))
    filled = np.zeros((int(ends[-1]) if len(ends) else 0) * 3, np.uint8)
    shifts = 3 * np.concatenate(([0], ends[:-1])) - (starts[:-1] - starts[0])
    filled[np.arange(len(given)) + np.repeat(shifts, lengths)] = given
    first, second, third = filled.reshape(-1, 3).T.astype(np.uint32)
    bits = first << 16 | second << 8 | third
    signs = _BASE64[np.stack([bits >> 18, bits >> 12 & 63, bits >> 6 & 63, bits & 63], axis=1)]
    signs[ends[lengths % 3 > 0] - 1, 3] = ord("=")
    signs[ends[lengths % 3 == 1] - 1, 2] = ord("=")
    offsets = (4 * np.concatenate(([0], ends))).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(signs))]
    texts = pa.Array.from_buffers(pa.large_string(), len(values), buffers).cast(pa.string())
    return pc.if_else(array.is_valid(), texts, _NOTHING)


# ---- joining ---------------------------------------------------------------------------------------------------


def _bracket(array: pa.Array, members: pa.Array, opening: str, closing: str) -> pa.Array:
    """Join the members of each list. members: of the array's values, whatever part of them it is."""
    lists = pa.LargeListArray.from_arrays(array.offsets.cast(pa.int64()), members.cast(pa.string()))
    return pc.if_else(array.is_valid(), _concat(opening, pc.binary_join(lists, ","), closing), _NOTHING)


def _concat(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
