"""Tables in fewer bytes on their way through Spark, where every byte of a row is copied a dozen times.

1. Doubles that are decimal numbers (prices, readings) become whole numbers of hundredths or so, if every one of them
   can be restored with the very same bits.
2. Whole numbers become distances from the smallest, in units of 1, 1,000 or 1,000,000, in 1, 2 or 4 bytes.
3. Once rows are grouped into parts (one for each envelope): distances that only grow within a part (times) become
   steps.
4. Codes of dictionaries take 1 or 2 bytes if the dictionary is small.

The schema of a compact table remembers the original columns; the first distance is stored for each part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from episode.matchers.columns import ALL_VALID, int64_values, is_integral, raw_values, valid_mask, value_range
from episode.native.builder import Program
from episode.native.ir import I64
from episode.native.running import compiled_for

# Numbers in fewer bytes: distances from a base in units, as wide as needed; and steps, if distances only grow.
#
# Arrays are processed in blocks that fit a cache, and only until the answer is known.
#
# Shapes: values int64[n]; valid bool[n], or empty without nulls; distances and steps unsigned[n]; starts int64[m + 1],
# the starts of the parts of a batch.


_EXACT = 2.0**52
_BLOCK = 1 << 14
_FIRST_BLOCK = 64
"""The first block is small, because it mostly decides."""


def _blocks(n: int, first: int = _BLOCK) -> Iterator[slice]:
    begin, end = 0, first
    while begin < n:
        yield slice(begin, min(end, n))
        begin, end = end, end + _BLOCK


def whole_numbers(values: np.ndarray, valid: np.ndarray, scale: float) -> np.ndarray | None:
    """Return values (float64) times scale (int64), if all are whole then and dividing gives the very same bits back."""
    result = np.empty(len(values), np.int64)
    for block in _blocks(len(values), _FIRST_BLOCK):
        own = values[block]
        if len(valid):
            own = np.where(valid[block], own, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = own * scale
        if not np.abs(scaled).max() < _EXACT:
            return None
        whole = np.rint(scaled) + 0.0  # minus zero is not a whole number
        np.divide(whole, scale, out=scaled)
        if not np.array_equal(scaled.view(np.int64), own.view(np.int64)):
            return None
        result[block] = whole
    return result


def common_unit(values: np.ndarray, valid: np.ndarray, base: int) -> int:
    """Return the largest unit (1,000,000, 1,000 or 1) of which all distances from the base are multiples."""
    unit = 1_000_000
    for block in _blocks(len(values), _FIRST_BLOCK):
        distances = _distances(values[block], base)
        if len(valid):
            distances = np.where(valid[block], distances, np.uint64(0))
        while unit > 1 and not np.array_equal(distances // np.uint64(unit) * np.uint64(unit), distances):
            unit //= 1_000
        if unit == 1:
            break
    return unit


def _distances(values: np.ndarray, base: int) -> np.ndarray:
    """Return distances from the base (uint64); differences of int64 wrap around to them."""
    return values.view(np.uint64) - np.uint64(base % 2**64)


def narrow(values: np.ndarray, base: int, unit: int, kind: str) -> np.ndarray:
    """Return (values - base) / unit as unsigned numbers of a type; values under nulls that do not fit are cut off."""
    result = np.empty(len(values), kind)
    for block in _blocks(len(values)):
        distances = _distances(values[block], base)
        if unit != 1:
            distances //= np.uint64(unit)
        result[block] = distances
    return result


def largest_step(distances: np.ndarray, starts: np.ndarray) -> int:
    """Return the largest step between neighbours of a part; -1 if a part goes down, or up by more than 32 bits."""
    largest = 0
    for block in _blocks(len(distances) - 1, _FIRST_BLOCK):
        before, now = distances[block], distances[1:][block]
        inside = np.ones(len(now), np.bool_)  # whether the next row is in the same part
        first, last = np.searchsorted(starts, (block.start + 1, block.stop + 1))
        inside[starts[first:last] - 1 - block.start] = False
        if ((now < before) & inside).any():
            return -1
        largest = max(largest, int(((now - before) * inside).max()))
    return largest if largest < 1 << 32 else -1


def steps_of(distances: np.ndarray, starts: np.ndarray, kind: str) -> np.ndarray:
    """Return steps between neighbours, as unsigned numbers of a type; 0 at the start of each part."""
    steps = np.empty(len(distances), kind)
    np.subtract(distances[1:], distances[:-1], out=steps[1:], casting="unsafe")
    steps[starts[:-1][np.diff(starts) > 0]] = 0
    return steps


def widen(distances: np.ndarray, base: int, unit: int) -> np.ndarray:
    """Return base + unit * distances."""
    values = np.empty(len(distances), np.int64)
    for block in _blocks(len(values)):
        part = values[block]
        part[:] = distances[block]
        if unit != 1:
            part *= unit
        if base:
            part += base
    return values


def widen_steps(steps: np.ndarray, base: int, unit: int) -> np.ndarray:
    """Return base + unit * running sum of the steps."""
    values = steps.astype(np.int64)
    compiled_for(running_sum_program)([values], base, unit)
    return values


def running_sum_program() -> Program:
    """Compile running sums, for which NumPy takes ten times as long."""
    program = Program("running_sum")
    f = program.function("run")
    values, base, unit = f.array("values", I64, writable=True), f.scalar("base"), f.scalar("unit")
    total = f.variable("total", base)
    with f.loop(0, values.length) as at:
        total.set(total + values[at] * unit)
        values[at] = total
    f.give(0)
    return program


_REMEMBERED = b"episode.slim"
_RECIPE = b"recipe"
_MOST_DIGITS = 6
_FAR = 1000


@dataclass(frozen=True)
class Recipe:
    """The encoding of a compact column: value = (base + unit * distance) / scale, without scale (0) a whole number.

    steps: the column has the steps from distance to distance.
    """

    base: int
    unit: int
    scale: int = 0
    steps: bool = False


@dataclass(frozen=True)
class CompactTable:
    """A table whose columns with a recipe are compact; `wide` has the original fields."""

    table: pa.Table
    wide: pa.Schema
    recipes: tuple[Recipe | None, ...]

    def schema(self) -> pa.Schema:
        """Return the compact schema; it remembers the original fields with their recipes."""
        pairs = zip(self.wide, self.recipes, strict=True)
        kept = [f.with_metadata({_RECIPE: json.dumps(asdict(r))}) for f, r in pairs if r is not None]
        return self.table.schema.with_metadata({_REMEMBERED: pa.schema(kept).serialize().to_pybytes()})


def compact_table(table: pa.Table) -> CompactTable:
    """Compact the columns of a table (of one chunk each), whatever the order of its rows."""
    pairs = [_compact_column(column.chunk(0)) for column in table.columns]
    return CompactTable(_with_columns(table, [column for column, _ in pairs]), table.schema, tuple(r for _, r in pairs))


def compact_parts(compacted: CompactTable, starts: np.ndarray) -> tuple[CompactTable, list[dict[str, str]]]:
    """Replace distances by steps if those are narrower; also return the first distances of each part."""
    columns, recipes = [column.chunk(0) for column in compacted.table.columns], list(compacted.recipes)
    firsts: list[dict[str, str]] = [{} for _ in starts[1:]]
    for i, recipe in enumerate(recipes):
        if recipe is None or columns[i].null_count or columns[i].type.bit_width < 32:
            continue
        distances = raw_values(columns[i], columns[i].type.to_pandas_dtype())
        bits = _bits(largest_step(distances, starts))
        if bits < columns[i].type.bit_width:
            steps = steps_of(distances, starts, f"uint{bits}")
            columns[i], recipes[i] = pa.array(steps), replace(recipe, steps=True)
            for s, first in enumerate(firsts):
                first[compacted.table.schema.names[i]] = str(distances[starts[s]])
    return CompactTable(_with_columns(compacted.table, columns), compacted.wide, tuple(recipes)), firsts


def is_compact(schema: pa.Schema) -> bool:
    """Is this the schema of a compact table?"""
    return _REMEMBERED in (schema.metadata or {})


def restore(batch: pa.RecordBatch, first: dict[bytes, bytes]) -> pa.Table:
    """Restore a part; `first` are the first distances of its columns of steps."""
    metadata = batch.schema.metadata or {}
    table = pa.Table.from_batches([batch.replace_schema_metadata()])
    for field in pa.ipc.read_schema(pa.py_buffer(metadata[_REMEMBERED])):
        at = table.schema.get_field_index(field.name)
        recipe = Recipe(**json.loads(field.metadata[_RECIPE]))
        column = _restore_column(batch.column(at), recipe, int(first.get(field.name.encode(), 0)), field.type)
        table = table.set_column(at, field.remove_metadata(), column)
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            kind = pa.dictionary(pa.int32(), field.type.value_type)
            table = table.set_column(at, field.with_type(kind), table.column(at).cast(kind))
    return table


def _with_columns(table: pa.Table, columns: list[pa.Array]) -> pa.Table:
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _compact_column(array: pa.Array) -> tuple[pa.Array, Recipe | None]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        index = next(i for i in (pa.int8(), pa.int16(), pa.int32()) if len(array.dictionary) < 2 ** (i.bit_width - 1))
        return pa.DictionaryArray.from_arrays(array.indices.cast(index), array.dictionary, safe=False), None
    valid = valid_mask(array)
    if pa.types.is_float64(kind):
        scale, values = _decimals(raw_values(array, np.float64), valid)
    elif is_integral(kind) and kind.bit_width > 8 and not pa.types.is_uint64(kind):
        scale, values = 0, int64_values(array)
    else:
        return array, None
    if values is None:
        return array, None
    base, largest = value_range(values, valid)
    unit = common_unit(values, valid, base) if largest - base > _FAR else 1
    bits = _bits((largest - base) // unit)
    if bits >= 64 and scale == 0 and valid is ALL_VALID:
        return pa.array(values), Recipe(0, 1)  # its steps may be narrower
    if bits >= kind.bit_width:
        return array, None
    distances = narrow(values, base, unit, f"uint{bits}")
    return _like(array, pa.from_numpy_dtype(distances.dtype), distances), Recipe(base, unit, scale)


def _bits(largest: int) -> int:
    """Return the width of the unsigned integers needed; 64 if unknown."""
    return next((bits for bits in (8, 16, 32) if 0 <= largest < 2**bits), 64) if largest != -1 else 64


def _decimals(values: np.ndarray, valid: np.ndarray) -> tuple[int, np.ndarray | None]:
    """Return (scale, whole numbers) of doubles that are decimal numbers of few digits; (0, None) if they are not."""
    for digits in range(_MOST_DIGITS + 1):
        whole = whole_numbers(values, valid, 10.0**digits)
        if whole is not None:
            return 10**digits, whole
    return 0, None


def _restore_column(array: pa.Array, recipe: Recipe, first: int, kind: pa.DataType) -> pa.Array:
    compacted = raw_values(array, array.type.to_pandas_dtype())
    if recipe.steps:
        values = widen_steps(compacted, recipe.base + recipe.unit * first, recipe.unit)
    else:
        values = widen(compacted, recipe.base, recipe.unit)
    if recipe.scale:
        return _like(array, kind, values / float(recipe.scale))
    return _like(array, kind, values.astype(f"int{kind.bit_width}", copy=False))


def _like(array: pa.Array, kind: pa.DataType, values: np.ndarray) -> pa.Array:
    """Return an array of other values with the nulls of the given one."""
    mask = None if array.null_count == 0 else array.is_valid().buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [mask, pa.py_buffer(values)])
