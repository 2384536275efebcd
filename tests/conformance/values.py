"""Typed cells of conformance cases: text to value, Spark type to Arrow type, and a form in which results compare."""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

ATOMIC = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "interval day to second": pa.duration("us"),
}
YEAR_MONTH = "interval year to month"  # Arrow has no column of it that Spark reads: such cells stay text
INTEGERS = ("tinyint", "smallint", "int", "bigint")


def split_outside(text: str, separator: str) -> list[str]:
    """Parts between separators that stand outside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        if character in "(<":
            depth += 1
        elif character in ")>":
            depth -= 1
        elif character == separator and depth == 0:
            parts.append(current)
            current = ""
            continue
        current += character
    return [*parts, current]


def columns_of(text: str) -> dict[str, str]:
    """`a int, b array<int>` as name → type."""
    pairs = [re.fullmatch(r"\s*(`[^`]+`|\S+)\s+(.+?)\s*", part).groups() for part in split_outside(text, ",")]
    return {name.strip("`"): type_ for name, type_ in pairs}


def fields_of(struct: str) -> dict[str, str]:
    """Fields of `struct<a:int,b:string>`."""
    return dict(part.strip().split(":", 1) for part in split_outside(struct[len("struct<") : -1], ","))


def element_of(array: str) -> str:
    return array[len("array<") : -1]


def entry_of(map_: str) -> tuple[str, str]:
    key, value = split_outside(map_[len("map<") : -1], ",")
    return key.strip(), value.strip()


def arrow_type(type_: str) -> pa.DataType:
    if type_ in ATOMIC:
        return ATOMIC[type_]
    if type_ == YEAR_MONTH:
        return pa.string()
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", type_)
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if type_.startswith("array<"):
        return pa.list_(arrow_type(element_of(type_)))
    if type_.startswith("map<"):
        return pa.map_(*map(arrow_type, entry_of(type_)))
    if type_.startswith("struct<"):
        return pa.struct([(name, arrow_type(field)) for name, field in fields_of(type_).items()])
    raise ValueError(f"unknown type {type_}")


# ---- text to value --------------------------------------------------------------------------------

CELL = re.compile(
    r"""\s*(?:'(?:[^']|'')*'              # a string in quotes
        |[\[{](?:"(?:[^"\\]|\\.)*"|[^|"])*  # JSON
        |[^|]*)\s*(?:\||\Z)              # anything else""",
    re.VERBOSE,
)


def split_cells(line: str) -> list[str]:
    """The cells of a row: what stands between `|` outside of quotes."""
    return [cell.removesuffix("|").strip() for cell in CELL.findall(line.strip() + "|")[:-1]]


def parse_cell(text: str, type_: str) -> Any:
    """The value of one cell."""
    text = text.strip()
    if text == "null":
        return None
    if type_.startswith(("array<", "map<", "struct<")):
        return _from_json(json.loads(text), type_)
    if type_ == "string" and len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return _atom(text, type_)


def _atom(text: str, type_: str) -> Any:
    if type_ in INTEGERS:
        return int(text)
    if type_ in ("float", "double"):
        return float(text)
    if type_.startswith("decimal"):
        return Decimal(text)
    if type_ in ("string", YEAR_MONTH):
        return text
    if type_ == "binary":
        return bytes.fromhex(text.strip("'"))
    if type_ == "boolean":
        return {"true": True, "false": False}[text]
    if type_ == "date":
        return date.fromisoformat(text)
    if type_ == "timestamp":
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
    if type_ == "timestamp_ntz":
        return datetime.fromisoformat(text)
    if type_ == "interval day to second":
        return _day_time(text)
    raise ValueError(f"unknown type {type_}")


def _day_time(text: str) -> timedelta:
    sign, days, hours, minutes, seconds = re.fullmatch(r"(-?)(\d+) (\d+):(\d+):([\d.]+)", text).groups()
    seconds, _, fraction = seconds.partition(".")
    size = timedelta(
        days=int(days),
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int(f"{fraction:0<6}"),
    )
    return -size if sign else size


def _from_json(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_.startswith("array<"):
        return [_from_json(item, element_of(type_)) for item in value]
    if type_.startswith("map<"):
        key_type, value_type = entry_of(type_)
        return [(_from_json(key, key_type), _from_json(item, value_type)) for key, item in value.items()]
    if type_.startswith("struct<"):
        return {name: _from_json(value[name], field) for name, field in fields_of(type_).items()}
    if isinstance(value, bool):
        return value
    return _atom(str(value), type_)


# ---- values that compare --------------------------------------------------------------------------


def canonical(value: Any, type_: str) -> Any:
    """Equal for results that are the same: NaN equals NaN, -0.0 is not 0.0, doubles agree in 12 digits."""
    if value is None:
        return None
    if type_.startswith("array<"):
        return tuple(canonical(item, element_of(type_)) for item in value)
    if type_.startswith("map<"):
        key_type, value_type = entry_of(type_)
        entries = value.items() if isinstance(value, dict) else value
        pairs = [(canonical(key, key_type), canonical(item, value_type)) for key, item in entries]
        return ("map", *sorted(pairs, key=repr))
    if type_.startswith("struct<"):
        fields = fields_of(type_)
        return ("struct", *(canonical(value[name], field) for name, field in fields.items()))
    if type_ in ("float", "double"):
        return _float(value, 6 if type_ == "float" else 12)
    if type_.startswith("decimal"):
        scale = int(type_[:-1].split(",")[1])
        return f"{Decimal(value):.{scale}f}"
    if type_ == "timestamp":
        return value.astimezone(timezone.utc).replace(tzinfo=None)
    if type_ in ("string", "binary", "date", "timestamp_ntz", "interval day to second", YEAR_MONTH):
        return bytes(value) if type_ == "binary" else value
    if type_ == "boolean":
        if not isinstance(value, bool):
            raise TypeError(f"{value!r} is not a boolean")
        return value
    if isinstance(value, (bool, float)):
        raise TypeError(f"{value!r} is not a {type_}")
    return int(value)


def _float(value: float, digits: int) -> str:
    """As text with so many digits; the sign of zero is kept."""
    return "NaN" if math.isnan(value) else f"{float(value):.{digits}g}"
