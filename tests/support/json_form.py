"""The form of results of rules, by type: a value of each with its JSON, and a naive encoder, from docs/rules.md."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC = timezone.utc
INSTANT = pa.timestamp("us", "UTC")
PLACE = pa.struct([("city", pa.string()), ("at", INSTANT), ("share", pa.float32())])
PRICES = pa.map_(pa.string(), pa.float64())
VALUES: dict[str, tuple[pa.DataType, str, Any, str]] = {
    "whole": (pa.int64(), "BIGINT", 2**62, "4611686018427387904"),
    "small": (pa.int8(), "TINYINT", -3, "-3"),
    "truth": (pa.bool_(), "BOOLEAN", True, "true"),
    "three": (pa.float64(), "DOUBLE", 3.0, "3.0"),
    "tenth": (pa.float64(), "DOUBLE", 0.1, "0.1"),
    "large": (pa.float64(), "DOUBLE", 1.5e300, "1.5E300"),
    "tiny": (pa.float64(), "DOUBLE", -2.5e-7, "-2.5E-7"),
    "million": (pa.float64(), "DOUBLE", 12345678.0, "1.2345678E7"),
    "nan": (pa.float64(), "DOUBLE", math.nan, '"NaN"'),
    "infinite": (pa.float64(), "DOUBLE", -math.inf, '"-Infinity"'),
    "single": (pa.float32(), "FLOAT", 0.1, "0.1"),
    "price": (pa.decimal128(10, 2), "DECIMAL(10,2)", Decimal("-3.15"), "-3.15"),
    "dust": (pa.decimal128(20, 10), "DECIMAL(20,10)", Decimal("0.0000000123"), "0.0000000123"),
    "text": (pa.string(), "STRING", 'a"\\\n\x01é/😀', '"a\\"\\\\\\n\\u0001é/😀"'),
    "day": (pa.date32(), "DATE", date(2026, 1, 2), '"2026-01-02"'),
    "moment": (INSTANT, "TIMESTAMP", datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '"2026-01-02T03:04:05.000006Z"'),
    "even": (INSTANT, "TIMESTAMP", datetime(2026, 7, 2, tzinfo=UTC), '"2026-07-02T00:00:00.000000Z"'),
    "clock": (pa.timestamp("us"), "TIMESTAMP_NTZ", datetime(2026, 3, 29, 2, 30), '"2026-03-29T02:30:00.000000"'),
    "bytes": (pa.binary(), "BINARY", b"ab\xff\x00", '"YWL/AA=="'),
    "list": (pa.list_(pa.float64()), "ARRAY<DOUBLE>", [1.0, None, 2.5], "[1.0,null,2.5]"),
    "times": (pa.list_(pa.date32()), "ARRAY<DATE>", [date(2026, 1, 2), None], '["2026-01-02",null]'),
    "place": (
        PLACE, "STRUCT<city: STRING, at: TIMESTAMP, share: FLOAT>",
        {"city": None, "at": datetime(2026, 1, 2, tzinfo=UTC), "share": 0.5},
        '{"city":null,"at":"2026-01-02T00:00:00.000000Z","share":0.5}',
    ),
    "prices": (PRICES, "MAP<STRING, DOUBLE>", [("b", 2.0), ("a", None)], '{"b":2.0,"a":null}'),
    "counts": (pa.map_(pa.int32(), pa.date32()), "MAP<INT, DATE>", [(7, date(2026, 1, 2))], '{"7":"2026-01-02"}'),
}  # fmt: skip
"""By column: its type, that in SQL, a value, and its JSON."""

INTERVALS: dict[str, tuple[pa.DataType, str, Any, str]] = {
    "lasts": (
        pa.duration("us"), "INTERVAL DAY TO SECOND", timedelta(days=1, hours=2, seconds=4, milliseconds=500),
        '"INTERVAL \'1 02:00:04.5\' DAY TO SECOND"',
    ),
    "back": (
        pa.duration("us"), "INTERVAL DAY TO SECOND", -timedelta(minutes=3), '"INTERVAL \'-0 00:03:00\' DAY TO SECOND"',
    ),
}  # fmt: skip
"""Columns that streams do not carry."""


class Number(str):
    """A number as it is written."""


def lexical(text: str) -> Any:
    """A JSON text as values, in which numbers are as they are written, and objects have no order."""
    return json.loads(text, parse_float=Number, parse_int=Number)


def naive_json(value: Any, kind: pa.DataType) -> str:
    """A value as JSON."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        return _object((field.name, naive_json(value[field.name], field.type)) for field in kind)
    if pa.types.is_list(kind):
        return "[" + ",".join(naive_json(one, kind.value_type) for one in value) + "]"
    if pa.types.is_map(kind):
        return _object(
            (naive_json(key, kind.key_type).strip('"'), naive_json(one, kind.item_type)) for key, one in value
        )
    if pa.types.is_floating(kind):
        return _double(value, kind)
    if pa.types.is_decimal(kind):
        return f"{value:f}"
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return str(value).lower()
    if pa.types.is_timestamp(kind):
        wall = value.astimezone(UTC) if kind.tz else value
        return f'"{wall.replace(tzinfo=None).isoformat(timespec="microseconds")}{"Z" if kind.tz else ""}"'
    if pa.types.is_binary(kind):
        return f'"{base64.b64encode(value).decode()}"'
    if pa.types.is_duration(kind):
        return f'"{_interval(value)}"'
    return _string(str(value))


def _object(members: Any) -> str:
    return "{" + ",".join(f"{_string(name)}:{text}" for name, text in members) + "}"


def _string(text: str) -> str:
    """Signs below the space have short names or numbers in capitals."""
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    return '"' + "".join(short.get(sign, f"\\u{ord(sign):04X}" if sign < " " else sign) for sign in text) + '"'


def _double(value: float, kind: pa.DataType) -> str:
    if not math.isfinite(value):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    shortest = repr(value)
    if kind == pa.float32():
        tried = (f"{value:.{digits}g}" for digits in range(1, 12))
        shortest = next(text for text in tried if pa.scalar(float(text), kind).as_py() == value)
    number = Decimal(shortest)
    if value == 0:
        return repr(value)
    if 1e-3 <= abs(value) < 1e7:
        return f"{number:f}" if "." in f"{number:f}" else f"{number:f}.0"
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"


def _interval(value: timedelta) -> str:
    micros = abs(value) // timedelta(microseconds=1)
    seconds, fraction = divmod(micros, 10**6)
    days, rest = divmod(seconds, 86_400)
    part = f".{fraction:06}".rstrip("0").rstrip(".")
    sign = "-" if value < timedelta() else ""
    return f"INTERVAL '{sign}{days} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{part}' DAY TO SECOND"
