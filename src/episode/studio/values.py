"""Rows of Arrow tables as JSON: few at a time, as many as a page shows."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

LARGEST_EXACT = 2**53
"""Whole numbers from here on are text: JavaScript would round them."""
LONGEST_TEXT = 2_000
"""Characters of one value that are sent."""


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Names, types in short, and whether values are numbers, which stand to the right."""
    return [{"name": one.name, "type": _type(one.type), "numeric": _is_number(one.type)} for one in schema]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _type(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_struct(kind):
        return "struct"
    return "array" if pa.types.is_list(kind) else str(kind)


def rows_of(table: pa.Table, first: int, count: int) -> list[list[Any]]:
    """Some rows of a table, each a list of values."""
    part = table.slice(first, count)
    columns = [[cell(value) for value in column.to_pylist()] for column in part.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def cell(value: Any) -> Any:
    """One value: numbers, truth values and null as they are, all else as text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < LARGEST_EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return text_of(value)[:LONGEST_TEXT]


def text_of(value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        exact = "microseconds" if value.microsecond % 1000 else "milliseconds"
        return value.replace(tzinfo=None).isoformat(sep=" ", timespec=exact if value.microsecond else "seconds")
    if isinstance(value, (date, time, timedelta, Decimal, int, float, str)):
        return str(value)
    if isinstance(value, bytes):
        return base64.b16encode(value).decode()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {text_of(part)}" for name, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value)
