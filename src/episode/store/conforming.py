"""What is appended to a stream must fit its declaration: columns, types, lengths, and a time in every row.

A value is stored as it is, in a type that holds it; one that would have to be cut or rounded is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.matchers.spark_types import held_as
from episode.store.declaration import Declaration, find_column

SHOWN = 80
"""Characters of a value that a message shows."""
_EXACT = (pa.types.is_integer, pa.types.is_decimal)
_REFUSED = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def conform(table: pa.Table, declaration: Declaration, first_row: int = 1) -> pa.Table:
    """The rows in the columns and types of the stream; an error names the column, and the row (from first_row on)."""
    if not table.schema.equals(declaration.schema):
        _check_names(table.column_names, declaration)
        by_lower = {name.lower(): name for name in table.column_names}
        columns = []
        for (name, _), wanted in zip(declaration.columns, declaration.schema, strict=True):
            given = name if name in table.column_names else by_lower[name.lower()]
            columns.append(_fitted(table.column(given), wanted, declaration, first_row))
        table = pa.Table.from_arrays(columns, schema=declaration.schema)
    _check_times(table, declaration, first_row)
    _check_lengths(table, declaration, first_row)
    return table


def misfit(row: int, column: str, value: object, declaration: Declaration) -> EpisodeDataError:
    """The error of a value that a column cannot hold as it is."""
    text = repr(value)
    return EpisodeDataError(
        f"Row {row}: {column} = {text if len(text) <= SHOWN else text[:SHOWN] + '…'} does not fit the type "
        f"{declaration.written_type(column).upper()} of {declaration.name}. Nothing of what was appended is stored.",
        hint="Values are stored as they are, never cut or rounded: convert this one first, or leave the row out.",
    )


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
        columns = ", ".join(f"{name} {declaration.written_type(name).upper()}" for name, _ in declaration.columns)
        raise EpisodeDataError(
            f"What is appended to {declaration.name} {wrong}. Nothing of it is stored.", hint=f"Columns: {columns}."
        )


def _fitted(column: pa.ChunkedArray, wanted: pa.Field, declaration: Declaration, first_row: int) -> pa.ChunkedArray:
    if column.type == wanted.type:
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _fits(column.type, wanted.type):
        type_ = declaration.written_type(wanted.name).upper()
        raise EpisodeDataError(
            f"The column {wanted.name} of {declaration.name} is of type {type_}, but {column.type} was given. "
            "Nothing of what was appended is stored.",
            hint="Convert the column first.",
        )
    try:
        return _converted(column, wanted.type)
    except _REFUSED:
        row = first_wrong(column, lambda part: _converted(part, wanted.type))
        raise misfit(first_row + row, wanted.name, _python(column[row]), declaration) from None


def _converted(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The same values in another type; ArrowInvalid if one of them is not a value of it."""
    if pa.types.is_decimal(wanted) and pa.types.is_integer(column.type):
        column = column.cast(pa.decimal256(76, wanted.scale))  # by their values, and not by the type's digits
    else:
        column = column.cast(held_as(column.type))
    found = column.cast(wanted)
    if _narrows(column.type, wanted):
        same = pc.or_(pc.equal(found.cast(column.type), column), pc.is_nan(column))
        if pc.all(same).as_py() is False:
            raise pa.ArrowInvalid("rounded")
    return found


def _python(value: pa.Scalar) -> object:
    """A value for a message; a time that Python cannot hold as its number."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return getattr(value, "value", None)


def _narrows(given: pa.DataType, wanted: pa.DataType) -> bool:
    return pa.types.is_float64(given) and pa.types.is_float32(wanted)


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
        return pa.types.is_list(given) and _fits_inside(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return pa.types.is_map(given) and all(
            map(_fits_inside, (given.key_type, given.item_type), (wanted.key_type, wanted.item_type))
        )
    if pa.types.is_struct(wanted):
        names = [field.name for field in wanted]
        same = pa.types.is_struct(given) and [field.name for field in given] == names
        return same and all(_fits_inside(one.type, other.type) for one, other in zip(given, wanted))
    return False


def _fits_inside(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Inside of other values doubles are not tried as floats: whether they are rounded is not looked at there."""
    return _fits(given, wanted) and not _narrows(given, wanted)


def first_wrong(column: pa.ChunkedArray, convert: Callable[[pa.ChunkedArray], Any]) -> int:
    """The first row that cannot be converted, by halving."""
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(column.take(pa.array(range(low, middle))))  # of a slice, lists are cast with those outside it
            low = middle
        except _REFUSED:
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


def _check_lengths(table: pa.Table, declaration: Declaration, first_row: int) -> None:
    for name, length in declaration.lengths.items():
        lengths = pc.utf8_length(table.column(name))
        if (pc.max(lengths).as_py() or 0) > length:
            row = pc.index(pc.greater(lengths, length), True).as_py()
            raise misfit(first_row + row, name, table.column(name)[row].as_py(), declaration)
