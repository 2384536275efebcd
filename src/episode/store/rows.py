"""Rows that are dictionaries, as a table of a stream's columns. A value is stored as it is, or refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.store.conforming import misfit
from episode.store.declaration import Declaration

_WRONG = (pa.ArrowException, OverflowError, TypeError, ValueError)
_CERTAIN: tuple[tuple[Any, frozenset[type]], ...] = (
    (pa.types.is_boolean, frozenset({bool})),
    (pa.types.is_integer, frozenset({int})),
    (pa.types.is_float64, frozenset({int, float})),
    (pa.types.is_decimal, frozenset({int, float, Decimal})),
    (pa.types.is_string, frozenset({str})),
    (pa.types.is_binary, frozenset({bytes})),
    (pa.types.is_date, frozenset({dt.date})),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, frozenset({dt.datetime})),
)
"""Python types whose values Arrow stores unchanged, or refuses itself; others are looked at value by value."""


def table_of_dictionaries(
    rows: Iterable[Any], declaration: Declaration, first_row: int = 1, *, as_written: bool = False
) -> pa.Table:
    """One row for each dictionary; a column that it does not have is null. Errors count rows from first_row on.

    as_written: values are those of a text: times are texts, and stay so; a FLOAT is the one nearest to its number.
    """
    names = {name.lower(): name for name, _ in declaration.columns}
    columns: dict[str, list[Any]] = {lower: [] for lower in names}
    for number, row in enumerate(rows, first_row):
        if not isinstance(row, Mapping):
            raise EpisodeDataError(
                f"Row {number} is not a dictionary but a {type(row).__name__}.",
                hint="Give dictionaries, or an Arrow, pandas or Polars table.",
            )
        found = {str(name).lower(): value for name, value in row.items()}
        beyond = next((name for name in row if str(name).lower() not in names), None)
        if beyond is not None or len(found) < len(row):
            wrong = f"a column {beyond}, which {declaration.name} does not have" if beyond else "one column twice"
            raise EpisodeDataError(
                f"Row {number} has {wrong}. Nothing is stored.", hint=f"Columns: {', '.join(names.values())}."
            )
        for lower, values in columns.items():
            values.append(found.get(lower))
    fields = [
        pa.field(one.name, pa.string()) if as_written and pa.types.is_temporal(one.type) else one
        for one in declaration.schema
    ]
    arrays = [
        _array(values, field, declaration, first_row, as_written)
        for values, field in zip(columns.values(), fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], field: pa.Field, declaration: Declaration, first_row: int, as_written: bool) -> pa.Array:
    certain = next((kinds for test, kinds in _CERTAIN if test(field.type)), frozenset())
    if set(map(type, values)) <= certain | {type(None)} or all(_kept(one, field.type, as_written) for one in values):
        try:
            return _converted(values, field.type)
        except _WRONG:
            pass
    for number, value in enumerate(values, first_row):
        try:
            kept = _kept(value, field.type, as_written) and _converted([value], field.type)
        except _WRONG:
            kept = False
        if not kept:
            raise misfit(number, field.name, value, declaration)
    raise EpisodeDataError(f"The values of {field.name} are too many or too long for one batch: append fewer rows.")


def _converted(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):  # numbers as they are written, and not as the nearest binary fraction
        values = [Decimal(repr(value)) if type(value) in (int, float) else value for value in values]
    return pa.array(values, kind)


def _kept(value: Any, kind: pa.DataType, as_written: bool) -> bool:
    """Whether a column of this type stores the value itself, and not another one made of it."""
    if value is None:
        return True
    types = pa.types
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if types.is_boolean(kind):
        return isinstance(value, (bool, np.bool_))
    if types.is_integer(kind):
        return whole or (isinstance(value, Decimal) and value.is_finite() and value == int(value))
    if types.is_floating(kind):
        return whole or (isinstance(value, (float, np.floating)) and _floats(float(value), value, kind, as_written))
    if types.is_decimal(kind):
        return whole or isinstance(value, (float, Decimal))
    if types.is_string(kind):
        return isinstance(value, str)
    if types.is_binary(kind):
        return isinstance(value, (bytes, bytearray, str) if as_written else (bytes, bytearray))
    if types.is_date(kind):
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    if types.is_timestamp(kind):
        zoned = kind.tz is not None or getattr(value, "tzinfo", None) is None
        return isinstance(value, dt.datetime) and zoned and not getattr(value, "nanosecond", 0)
    if types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        fits = isinstance(value, Mapping) and set(value) <= set(fields)
        return fits and all(_kept(one, fields[name], as_written) for name, one in value.items())
    if types.is_map(kind):
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        return isinstance(pairs, (list, tuple)) and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(map(_kept, pair, (kind.key_type, kind.item_type), (as_written, as_written)))
            for pair in pairs
        )
    return isinstance(value, (list, tuple, np.ndarray)) and all(
        _kept(one, kind.value_type, as_written) for one in value
    )


def _floats(number: float, value: Any, kind: pa.DataType, as_written: bool) -> bool:
    """Whether a number is a FLOAT or a DOUBLE; one that is written in a text may be rounded, but not to infinity."""
    if number != value:
        return value != value
    if pa.types.is_float64(kind):
        return True
    with np.errstate(over="ignore"):
        rounded = float(np.float32(number))
    return rounded == number or (as_written and bool(np.isfinite(rounded)))
