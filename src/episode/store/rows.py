"""Rows that are dictionaries, as a table of a stream's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeDataError
from episode.store.declaration import Declaration

_WRONG = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)


def table_of_dictionaries(
    rows: Iterable[Any], declaration: Declaration, first_row: int = 1, *, times_as_text: bool = False
) -> pa.Table:
    """One row for each dictionary; a column that it does not have is null. Errors count rows from first_row on.

    times_as_text: values of temporal columns are texts, and stay so.
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
        if beyond is not None:
            raise EpisodeDataError(
                f"Row {number} has a column {beyond}, which {declaration.name} does not have. Nothing is stored.",
                hint=f"Columns: {', '.join(names.values())}.",
            )
        for lower, values in columns.items():
            values.append(found.get(lower))
    fields = [
        pa.field(one.name, pa.string()) if times_as_text and pa.types.is_temporal(one.type) else one
        for one in declaration.schema
    ]
    for values, field in zip(columns.values(), fields, strict=True):
        if pa.types.is_decimal(field.type):  # numbers as they are written, and not as the nearest binary fraction
            values[:] = [Decimal(repr(value)) if type(value) in (int, float) else value for value in values]
    arrays = [
        _array(values, field, declaration, first_row) for values, field in zip(columns.values(), fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: list[Any], field: pa.Field, declaration: Declaration, first_row: int) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except _WRONG:
        for number, value in enumerate(values, first_row):
            try:
                pa.array([value], field.type)
            except _WRONG:
                type_ = dict(declaration.columns)[field.name].upper()
                raise EpisodeDataError(
                    f"Row {number}: {field.name} = {value!r} does not fit the type {type_} of {declaration.name}. "
                    "Nothing of what was appended is stored."
                ) from None
        raise
