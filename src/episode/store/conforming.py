"""What is appended to a stream must fit its declaration: columns, types, and a time in every row."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.matchers.spark_types import held_as
from episode.store.declaration import Declaration, find_column

_EXACT = (pa.types.is_integer, pa.types.is_decimal)


def conform(table: pa.Table, declaration: Declaration, first_row: int = 1) -> pa.Table:
    """The rows in the columns and types of the stream; an error names the column, and the row (from first_row on)."""
    if table.schema.equals(declaration.schema):
        _check_times(table, declaration, first_row)
        return table
    _check_names(table.column_names, declaration)
    by_lower = {name.lower(): name for name in table.column_names}
    columns = []
    for (name, type_), wanted in zip(declaration.columns, declaration.schema, strict=True):
        given = name if name in table.column_names else by_lower[name.lower()]
        columns.append(_fitted(table.column(given), wanted, type_, declaration, first_row))
    conformed = pa.Table.from_arrays(columns, schema=declaration.schema)
    _check_times(conformed, declaration, first_row)
    return conformed


def _check_names(names: Sequence[str], declaration: Declaration) -> None:
    lower = [name.lower() for name in names]
    missing = [name for name, _ in declaration.columns if name.lower() not in lower]
    beyond = [name for name in names if find_column(declaration.columns, name) is None]
    twice = [name for name in names if lower.count(name.lower()) > 1]
    wrong = (
        f"has no column {missing[0]}"
        if missing
        else f"has a column {beyond[0]}, which the stream does not have"
        if beyond
        else f"has two columns {twice[0]}"
        if twice
        else None
    )
    if wrong is not None:
        columns = ", ".join(f"{name} {type_.upper()}" for name, type_ in declaration.columns)
        raise EpisodeDataError(
            f"What is appended to {declaration.name} {wrong}. Nothing of it is stored.", hint=f"Columns: {columns}."
        )


def _fitted(
    column: pa.ChunkedArray, wanted: pa.Field, type_: str, declaration: Declaration, first_row: int
) -> pa.ChunkedArray:
    if column.type == wanted.type:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _fits(column.type, wanted.type):
        raise EpisodeDataError(
            f"The column {wanted.name} of {declaration.name} is of type {type_.upper()}, but {column.type} was given. "
            "Nothing of what was appended is stored.",
            hint="Convert the column first.",
        )
    held = held_as(column.type)
    if held != column.type:  # nanoseconds are cut off, as Spark does
        column = column.cast(held, safe=False)
    if pa.types.is_decimal(wanted.type) and pa.types.is_integer(column.type):
        column = column.cast(pa.decimal256(76, wanted.type.scale))  # by their values, and not by the type's digits
    try:
        return column.cast(wanted.type)
    except pa.ArrowInvalid:
        row = first_wrong(column, wanted.type)
        raise EpisodeDataError(
            f"Row {first_row + row}: {wanted.name} = {column[row].as_py()} does not fit the type {type_.upper()} of "
            f"{declaration.name}. Nothing of what was appended is stored."
        ) from None


def _fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of a type may be tried: no text as a number, no fraction as an integer, no instant as a time."""
    given = held_as(given)
    if pa.types.is_null(given) or given == wanted:
        return True
    if pa.types.is_integer(wanted):
        return pa.types.is_integer(given) or (pa.types.is_decimal(given) and given.scale == 0)
    if pa.types.is_decimal(wanted):
        return any(test(given) for test in _EXACT)
    if pa.types.is_floating(wanted):
        return pa.types.is_integer(given) or pa.types.is_floating(given)
    if pa.types.is_timestamp(wanted):  # a time without a zone is taken as UTC
        return pa.types.is_timestamp(given) and (wanted.tz is not None or given.tz is None)
    if pa.types.is_list(wanted):
        return pa.types.is_list(given) and _fits(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return pa.types.is_map(given) and all(
            map(_fits, (given.key_type, given.item_type), (wanted.key_type, wanted.item_type))
        )
    if pa.types.is_struct(wanted):
        names = [field.name for field in wanted]
        same = pa.types.is_struct(given) and [field.name for field in given] == names
        return same and all(_fits(one.type, other.type) for one, other in zip(given, wanted))
    return False


def first_wrong(column: pa.ChunkedArray, wanted: pa.DataType) -> int:
    """The first row whose value cannot be cast, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            column.slice(low, middle - low).cast(wanted)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _check_times(table: pa.Table, declaration: Declaration, first_row: int) -> None:
    times = table.column(declaration.time)
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise EpisodeDataError(
            f"Row {first_row + row} has no event time: {declaration.time} is null. Nothing of what was appended to "
            f"{declaration.name} is stored.",
            hint=f"Leave such rows out; {times.null_count:,} of {len(times):,} have none.",
        )
