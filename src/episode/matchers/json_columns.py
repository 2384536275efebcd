"""Records of JSON as columns of a stream, with the types and the leniency of Spark's from_json.

A record that is not a JSON object has no values at all, a value that does not fit its column's type is null, and fields
that no column has are left out. A whole batch is read by compiled loops; Python handles only values in uncommon forms
(escaped strings, times without seconds, fractions of more digits than a decimal has).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeUnsupportedError
from episode.matchers import json_records
from episode.matchers.json_text import json_texts
from episode.plan.parameters import microseconds, read_time, zone_of
from episode.words import DAY

_DAY_ZERO = date(1970, 1, 1).toordinal()
_SPECIAL = {
    "NaN": "nan", "INF": "inf", "+INF": "inf", "-INF": "-inf", "Infinity": "inf", "+Infinity": "inf",
    "-Infinity": "-inf",
}  # fmt: skip
_DATE = re.compile(r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[ T].*)?)?)?")


@dataclass(frozen=True)
class JsonColumns:
    """Reads the columns of a schema from records. zone: of times that name none, as Spark's session has it."""

    schema: pa.Schema
    zone: str = "UTC"

    def __post_init__(self) -> None:
        for field in self.schema:
            if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
                raise EpisodeUnsupportedError(
                    f"The column {field.name} of type {field.type} cannot be read from JSON by a live task.",
                    hint="Use episode.sql on the stream (micro-batches), or declare the column as STRING.",
                )

    def read(self, records: Sequence[bytes | None]) -> pa.Table:
        """Return one row for each record."""
        values = pa.array(records, pa.large_binary())
        offsets = np.frombuffer(values.buffers()[1], np.int64)[: len(values) + 1]
        buffer = values.buffers()[2]
        data = np.frombuffer(buffer, np.uint8) if buffer is not None and len(buffer) else np.zeros(0, np.uint8)
        encoded = [field.name.encode() for field in self.schema]
        names = np.frombuffer(b"".join(encoded), np.uint8)
        name_offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        shape = (len(encoded), len(values))
        kinds, begins, ends = np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        json_records.find_fields(data, offsets, names, name_offsets, kinds, begins, ends)
        columns = [
            _column(_Field(data, kinds[i], begins[i], ends[i]), field.type, self.zone)
            for i, field in enumerate(self.schema)
        ]
        return pa.Table.from_arrays(columns, schema=self.schema)


@dataclass(frozen=True)
class _Field:
    """The values of one field: their places and kinds."""

    data: np.ndarray
    kinds: np.ndarray
    begins: np.ndarray
    ends: np.ndarray

    def are(self, *kinds: int) -> np.ndarray:
        return np.isin(self.kinds, kinds) if len(kinds) > 1 else self.kinds == kinds[0]

    def texts(self, chosen: np.ndarray) -> pa.Array:
        """Return the chosen values as they are written; others are null."""
        copied, offsets = json_records.copy_spans(self.data, self.begins, self.ends, chosen)
        valid = None if chosen.all() else pa.array(chosen).buffers()[1]
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(copied)]
        found = pa.Array.from_buffers(pa.large_binary(), len(chosen), buffers)
        try:
            return found.cast(pa.string())
        except pa.ArrowInvalid:  # bytes that are not UTF-8
            wrong = [None if value is None else value.decode(errors="replace") for value in found.to_pylist()]
            return pa.array(wrong, pa.string())

    def raw_text(self, row: int) -> str:
        return bytes(self.data[self.begins[row] : self.ends[row]]).decode(errors="replace")

    def text(self, row: int) -> str:
        """Return a string without its escapes."""
        written = self.raw_text(row)
        if self.kinds[row] != json_records.ESCAPED:
            return written
        # within single quotation marks, double ones need no backslash
        plain = re.sub(r"\\(.)", lambda found: "'" if found.group(1) == "'" else found.group(0), written, flags=re.S)
        try:
            return str(json.loads('"' + re.sub(r'(\\.)|"', lambda f: f.group(1) or '\\"', plain, flags=re.S) + '"'))
        except ValueError:
            raise _Unfit from None


class _Unfit(ValueError):
    """Raised for a value that its column cannot have."""


def _column(field: _Field, wanted: pa.DataType, zone: str) -> pa.Array:
    if pa.types.is_string(wanted):
        return _strings(field)
    if pa.types.is_boolean(wanted):
        return pa.array(field.are(json_records.TRUE), mask=~field.are(json_records.TRUE, json_records.FALSE))
    if pa.types.is_integer(wanted):
        return _integers(field, wanted)
    if pa.types.is_floating(wanted):
        return _floats(field, wanted)
    if pa.types.is_decimal(wanted):
        return _decimals(field, wanted)
    if pa.types.is_date(wanted):
        return _times(field, wanted, lambda row: _day(field.text(row)), zone)
    return _times(field, wanted, lambda row: _instant(field.text(row), wanted, zone), zone)


def _patch(column: pa.Array, rows: np.ndarray, value: Callable[[int], Any]) -> pa.Array:
    """Replace some values of a column, one by one; those that do not fit are null."""
    if not rows.any():
        return column
    values = []
    for row in np.flatnonzero(rows).tolist():
        try:
            values.append(value(row))
        except _Unfit:
            values.append(None)
    return pc.replace_with_mask(column, pa.array(rows), pa.array(values, column.type))


# ---- types ---------------------------------------------------------------------------------------------------


def _strings(field: _Field) -> pa.Array:
    """Return any value as text; of strings, their content."""
    found = field.texts(field.are(json_records.TEXT, json_records.TRUE, json_records.FALSE, json_records.INTEGER))
    found = _patch(found, field.are(json_records.ESCAPED), field.text)
    fractions = pa.array(field.are(json_records.FRACTION))
    if pc.any(fractions).as_py():
        found = pc.replace_with_mask(found, fractions, json_texts(_floats(field, pa.float64()).filter(fractions)))
    return _patch(found, field.are(json_records.NESTED), lambda row: _without_spaces(field.raw_text(row)))


def _integers(field: _Field, wanted: pa.DataType) -> pa.Array:
    texts = field.texts(field.are(json_records.INTEGER))
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        limits = np.iinfo(wanted.to_pandas_dtype())

        def value(row: int) -> int:
            number = int(field.raw_text(row))
            if pa.types.is_int8(wanted) and 128 <= number <= 255:
                return number - 256  # a byte without a sign is taken as well
            if not limits.min <= number <= limits.max:
                raise _Unfit
            return number

        return _patch(pa.nulls(len(texts), wanted), field.are(json_records.INTEGER), value)


def _floats(field: _Field, wanted: pa.DataType) -> pa.Array:
    numbers = field.are(json_records.INTEGER, json_records.FRACTION)
    try:
        found = field.texts(numbers).cast(wanted)
    except pa.ArrowInvalid:  # a number that is too large, or none
        found = pa.nulls(len(numbers), wanted)
        found = _patch(found, numbers, lambda row: float(_SPECIAL.get(field.raw_text(row), field.raw_text(row))))
    return _patch(found, field.are(json_records.TEXT), lambda row: _special(field.raw_text(row)))


def _special(text: str) -> float:
    if text not in _SPECIAL:
        raise _Unfit
    return float(_SPECIAL[text])


def _decimals(field: _Field, wanted: pa.DataType) -> pa.Array:
    numbers = field.are(json_records.INTEGER, json_records.FRACTION)
    try:
        found = field.texts(numbers).cast(wanted)
    except pa.ArrowInvalid:  # a fraction that is too long is rounded, a number that is too large is null
        found = _patch(pa.nulls(len(numbers), wanted), numbers, lambda row: _decimal(field.raw_text(row), wanted))
    texts = field.are(json_records.TEXT, json_records.ESCAPED)
    return _patch(found, texts, lambda row: _decimal(field.text(row).replace(",", ""), wanted))


def _decimal(text: str, wanted: pa.DataType) -> Decimal:
    with localcontext(Context(prec=76)):
        try:
            value = Decimal(text).quantize(Decimal(1).scaleb(-wanted.scale), ROUND_HALF_UP)
        except InvalidOperation:
            raise _Unfit from None
        if not value.is_finite() or len(value.as_tuple().digits) > wanted.precision:
            raise _Unfit
        return value


def _times(field: _Field, wanted: pa.DataType, value: Callable[[int], Any], zone: str) -> pa.Array:
    known, micros = np.zeros(len(field.kinds), np.uint8), np.zeros(len(field.kinds), np.int64)
    json_records.read_times(field.data, field.kinds, field.begins, field.ends, known, micros)
    local = known == json_records.LOCAL
    odd = field.are(json_records.TEXT, json_records.ESCAPED) & (known == json_records.UNREAD)
    if pa.types.is_date(wanted):
        days = np.floor_divide(micros, DAY).astype(np.int32)
        return _patch(pa.array(days, mask=known == json_records.UNREAD), odd, value).cast(wanted)
    if wanted.tz is None:
        return _patch(pa.array(micros, mask=~local), odd, value).cast(wanted)
    seconds = field.are(json_records.INTEGER)
    if seconds.any():
        counted = _integers(field, pa.int64())
        fits = counted.is_valid().to_numpy(zero_copy_only=False)
        micros[fits] = counted.fill_null(0).to_numpy()[fits] * 1_000_000  # which wraps around, as Java's does
        known[fits] = json_records.ZONED
    if local.any() and zone != "UTC":
        naive = pa.array(micros, mask=~local).cast(pa.timestamp("us"))
        zoned = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="latest").cast(pa.int64())
        micros = np.where(local, zoned.fill_null(0).to_numpy(), micros)
    return _patch(pa.array(micros, mask=known == json_records.UNREAD), odd, value).cast(wanted)


def _day(text: str) -> int:
    """Return the days since 1970 of a date in an uncommon form, or of their number itself."""
    found = _DATE.fullmatch(text.strip())
    try:
        if found is not None:
            return date(int(found["year"]), int(found["month"] or 1), int(found["day"] or 1)).toordinal() - _DAY_ZERO
        if re.fullmatch(r"[+-]?\d+", text) is None or abs(int(text)) >= 1 << 31:
            raise _Unfit
        return int(text)
    except ValueError:
        raise _Unfit from None


def _instant(text: str, wanted: pa.DataType, zone: str) -> int:
    """Return the microseconds of a time in an uncommon form."""
    found = read_time(text)
    if found is None or (found[1] and wanted.tz is None):
        raise _Unfit
    local, named = found
    if wanted.tz is None:
        return microseconds(local)
    there = zone_of(named or zone)
    if there is None:
        raise _Unfit
    return microseconds(local.replace(tzinfo=there))


def _without_spaces(written: str) -> str:
    """Remove the spaces between the parts of an object or array."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|\s+', lambda found: found.group(1) or "", written, flags=re.S)
