"""Rows that are appended to a stream, as tables of its columns: they must fit its declaration."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeDataError
from episode.matchers.spark_types import held_as
from episode.store.declaration import Declaration, find_column

# Texts of CSV and JSON files become values of a stream's columns.

_ZONE = r"(Z|[+-]\d\d(:?\d\d)?)$"
_INFINITE = r"(?i)^[+-]?inf"
_DAY_ONLY = r"^\d{4}-\d\d-\d\d$"


def parse_column(column: pa.ChunkedArray, field: pa.Field, declaration: Declaration, first_row: int) -> pa.ChunkedArray:
    """Parse a column of texts into the type of the stream's column; an error names the row."""
    if pa.types.is_nested(field.type):
        raise EpisodeDataError(f"The column {field.name} of {declaration.name} cannot be read from text: use Parquet.")
    if pa.types.is_string(field.type):
        return column
    texts = pc.utf8_trim_whitespace(column)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, texts.type), texts)
    if pa.types.is_timestamp(field.type) and field.type.tz is not None:
        texts = _with_zones(texts)
    try:
        return _parse_texts(texts, field.type)
    except pa.ArrowInvalid:
        row = first_wrong(texts, lambda part: _parse_texts(part, field.type))
        raise misfit(first_row + row, field.name, column[row].as_py(), declaration) from None


def _parse_texts(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Numbers are the nearest ones of their type; one that is too large is not infinity."""
    found = texts.cast(kind)
    if pa.types.is_floating(kind):
        too_large = pc.and_(pc.is_inf(found), pc.invert(pc.match_substring_regex(texts, _INFINITE)))
        if pc.any(too_large).as_py():
            raise pa.ArrowInvalid("too large")
    return found


def overflows(column: pa.ChunkedArray | pa.Array) -> bool:
    """Whether a number in a column, or inside its values, is infinite."""
    kind = column.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_inf(column)).as_py())
    if not pa.types.is_nested(kind):
        return False
    if isinstance(column, pa.ChunkedArray):
        return any(map(overflows, column.chunks))
    parts = [column.keys, column.items] if pa.types.is_map(kind) else column.flatten()
    return any(map(overflows, parts if isinstance(parts, list) else [parts]))


def _with_zones(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Complete texts of times: UTC if they name no zone, midnight if they are only a day."""
    texts = pc.if_else(pc.match_substring_regex(texts, _DAY_ONLY), _append_text(texts, "T00:00:00"), texts)
    zoned = pc.match_substring_regex(texts, r"\d\d:\d\d.*" + _ZONE)
    return pc.if_else(zoned, texts, _append_text(texts, "Z"))


def _append_text(texts: pa.ChunkedArray, end: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(texts, end, "")


# Rows that are appended must fit the declaration: columns, types, lengths, and a time in every row.
#
# A value is stored as it is, in a type that holds it; one that would have to be cut or rounded is refused.

SHOWN = 80
"""Characters of a value that a message shows."""
_EXACT = (pa.types.is_integer, pa.types.is_decimal)
_REFUSED = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


def conform(table: pa.Table, declaration: Declaration, first_row: int = 1) -> pa.Table:
    """Return the rows in the columns and types of the stream; errors name the column and the row."""
    if not table.schema.equals(declaration.schema):
        _check_names(table.column_names, declaration)
        by_lower = {name.lower(): name for name in table.column_names}
        columns = []
        for (name, _), wanted in zip(declaration.columns, declaration.schema, strict=True):
            given = name if name in table.column_names else by_lower[name.lower()]
            columns.append(_fit_column(table.column(given), wanted, declaration, first_row))
        table = pa.Table.from_arrays(columns, schema=declaration.schema)
    times = table.column(declaration.time)
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise EpisodeDataError(
            f"Row {first_row + row} has no event time: {declaration.time} is null. Nothing of what was appended to "
            f"{declaration.name} is stored.",
            hint=f"Leave such rows out; {times.null_count:,} of {len(times):,} have none.",
        )
    for name, length in declaration.lengths.items():
        lengths = pc.utf8_length(table.column(name))
        if (pc.max(lengths).as_py() or 0) > length:
            row = pc.index(pc.greater(lengths, length), True).as_py()
            raise misfit(first_row + row, name, table.column(name)[row].as_py(), declaration)
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


def _fit_column(column: pa.ChunkedArray, wanted: pa.Field, declaration: Declaration, first_row: int) -> pa.ChunkedArray:
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
        return _convert(column, wanted.type)
    except _REFUSED:
        row = first_wrong(column, lambda part: _convert(part, wanted.type))
        raise misfit(first_row + row, wanted.name, _python(column[row]), declaration) from None


def _convert(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """Convert a column to another type; raise ArrowInvalid if that would change a value."""
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
    """Return a value for a message; a time that Python cannot hold is returned as its number."""
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
    """Whether nested values may be tried: not doubles as floats, because rounding is not checked inside."""
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


# Rows that are dictionaries become a table of a stream's columns. A value is stored as it is, or refused.

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
"""Python types whose values Arrow stores unchanged or refuses itself; other values are checked one by one."""


def table_of_dictionaries(
    rows: Iterable[Any], declaration: Declaration, first_row: int = 1, *, as_written: bool = False
) -> pa.Table:
    """Return one row for each dictionary; a missing column is null. Errors count rows from first_row on.

    as_written: the values were parsed from text: times stay texts, and a FLOAT is the one nearest to its number.
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
    if set(map(type, values)) <= certain | {type(None)} or all(
        _stores_exactly(one, field.type, as_written) for one in values
    ):
        try:
            return _array_of(values, field.type)
        except _WRONG:
            pass
    for number, value in enumerate(values, first_row):
        try:
            kept = _stores_exactly(value, field.type, as_written) and _array_of([value], field.type)
        except _WRONG:
            kept = False
        if not kept:
            raise misfit(number, field.name, value, declaration)
    raise EpisodeDataError(f"The values of {field.name} are too many or too long for one batch: append fewer rows.")


def _array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):  # numbers as they are written, and not as the nearest binary fraction
        values = [Decimal(repr(value)) if type(value) in (int, float) else value for value in values]
    return pa.array(values, kind)


def _stores_exactly(value: Any, kind: pa.DataType, as_written: bool) -> bool:
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
        return fits and all(_stores_exactly(one, fields[name], as_written) for name, one in value.items())
    if types.is_map(kind):
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        return isinstance(pairs, (list, tuple)) and all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(map(_stores_exactly, pair, (kind.key_type, kind.item_type), (as_written, as_written)))
            for pair in pairs
        )
    return isinstance(value, (list, tuple, np.ndarray)) and all(
        _stores_exactly(one, kind.value_type, as_written) for one in value
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
