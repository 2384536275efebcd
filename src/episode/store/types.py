"""Spark's types, as declarations write them, and the Arrow types that hold their values in stores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Union

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.matchers.spark_types import held_as, spark_name

Columns = Union[str, Mapping[str, str], Iterable[tuple[str, str]], pa.Schema]
"""Columns of a stream: as in a statement (`symbol STRING, price DOUBLE`), names with types, or an Arrow schema."""

_ATOMS = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
_ALIASES = {
    "bool": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float",
    "timestamp_ltz": "timestamp", "dec": "decimal(10,0)", "decimal": "decimal(10,0)", "numeric": "decimal(10,0)",
}  # fmt: skip
_KNOWN = (
    "Types are those of Spark SQL: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, "
    "VARCHAR(n), BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, ARRAY<…>, MAP<…>, STRUCT<…>."
)


def spark_type(text: str) -> str:
    """Return the simple name of a type that is written in SQL: `LONG` is `bigint`."""
    return spark_name(arrow_type(text))


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type that holds the values of a Spark type."""
    name = re.sub(r"\s+", " ", text.strip()).lower()
    name = _ALIASES.get(name, name)
    if name in _ATOMS:
        return _ATOMS[name]
    decimal = re.fullmatch(r"(?:decimal|dec|numeric) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", name)
    if decimal:
        return _decimal(text, int(decimal.group(1)), int(decimal.group(2) or 0))
    nested = re.fullmatch(r"\s*(array|map|struct)\s*<(.*)>\s*", text, re.IGNORECASE | re.DOTALL)
    if nested:
        return _nested_type(text, nested.group(1).lower(), nested.group(2))
    raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint=_KNOWN)


def _decimal(text: str, precision: int, scale: int) -> pa.DataType:
    if not 1 <= precision <= 38 or scale > precision:
        raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint="A decimal has at most 38 digits.")
    return pa.decimal128(precision, scale)


def _nested_type(text: str, kind: str, inside: str) -> pa.DataType:
    parts = list(split(inside))
    if kind == "array" and len(parts) == 1:
        return pa.list_(arrow_type(parts[0]))
    if kind == "map" and len(parts) == 2:
        return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
    if kind == "struct" and parts:
        fields = [_field(part) for part in parts]
        return pa.struct([pa.field(name, arrow_type(type_)) for name, type_ in fields])
    raise EpisodeAnalysisError(f"{text.strip()} is not a type.", hint=_KNOWN)


def _field(text: str) -> tuple[str, str]:
    """Split `name: type` or `name type`; a name with other characters is quoted with backticks."""
    found = re.fullmatch(r"\s*(`(?:[^`]|``)+`|[^\W\d]\w*)\s*:?\s*(.+?)\s*", text, re.DOTALL)
    if found is None or (not found.group(1).startswith("`") and not re.match(r"\s*\w+[\s:`]", text)):
        raise EpisodeAnalysisError(
            f"{text.strip()!r} is not a column: a name and its type are needed.", hint="Write for example price DOUBLE."
        )
    name = found.group(1)
    return (name[1:-1].replace("``", "`") if name.startswith("`") else name), found.group(2)


def split(text: str) -> Iterator[str]:
    """Split a list at the commas outside brackets and back quotes."""
    depth, quoted, start = 0, False, 0
    for i, sign in enumerate(text):
        if sign == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    if text[start:].strip() or start:
        yield text[start:]


def _column_type(text: str) -> str:
    """Return the simple name of a column's type, or `varchar(n)`. The width in INT(11) only affects how MySQL shows
    it."""
    name = re.sub(r"\s+", "", text).lower()
    limited = re.fullmatch(r"(?:var)?char(?:acter)?\((\d+)\)", name)
    if limited and int(limited.group(1)) > 0:
        return f"varchar({int(limited.group(1))})"
    shown = re.fullmatch(r"(tinyint|smallint|int|integer|bigint)\(\d+\)", name)
    return spark_type(shown.group(1) if shown else text)


def without_lengths(columns: Sequence[tuple[str, str]]) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """Columns with VARCHAR(n) as STRING, and the lengths by name."""
    lengths = {name: int(type_[8:-1]) for name, type_ in columns if type_.startswith("varchar(")}
    return tuple((name, "string" if name in lengths else type_) for name, type_ in columns), lengths


def columns_of(columns: Columns) -> tuple[tuple[str, str], ...]:
    """Return columns as names with simple Spark types, or `varchar(n)`; only the types are checked."""
    if isinstance(columns, str):
        pairs: Iterable[tuple[str, str]] = [_field(part) for part in split(columns)]
    elif isinstance(columns, pa.Schema):
        return tuple((field.name, _declared_type(field)) for field in columns)
    elif isinstance(columns, Mapping):
        pairs = columns.items()
    else:
        pairs = columns
    found = []
    for pair in pairs:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise EpisodeAnalysisError(
                f"{pair!r} is not a column: a name and its type are needed.",
                hint="Write for example ('price', 'DOUBLE').",
            )
        found.append((pair[0], _column_type(pair[1])))
    return tuple(found)


def _declared_type(field: pa.Field) -> str:
    try:
        return spark_type(spark_name(held_as(field.type)))
    except (EpisodeUnsupportedError, EpisodeAnalysisError):
        raise EpisodeAnalysisError(f"The column {field.name} of type {field.type} has no type of Spark.") from None
