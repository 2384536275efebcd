"""Row-local expressions as machine code: conditions of every row as bits, and computed columns.

The code contains only what the expressions need: no null logic for columns without nulls, no test of the partition if
no other row is read. Constants are data, so that queries that differ only in them share code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from episode.matchers.code.expressions import CodeConstants, Emitter, LaneArrays, LanePlaces
from episode.matchers.encoding import Lanes
from episode.native.builder import Function, Program
from episode.native.ir import F64, I64, U8, U64, Array, Value
from episode.native.running import compiled_with
from episode.plan.expressions import Current, Exists, Expression, Load, walk
from episode.plan.types import is_wide, lane_of


def set_bits(lanes: Lanes, key: np.ndarray, conditions: Sequence[tuple[Expression, int]], bits: np.ndarray) -> None:
    """Clear bits of rows for which row-local conditions do not hold. conditions: each with the mask that it clears."""
    if conditions:
        _run(lanes, key, tuple(conditions), None, bits)


def compute(lanes: Lanes, key: np.ndarray, expression: Expression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (values, high words, validity uint8) of a row-local expression; high words are empty unless it is wide."""
    rows = len(key)
    values = np.empty(rows, np.float64 if lane_of(expression.type) == "float" else np.int64)
    high = np.empty(rows if is_wide(expression) else 0, np.int64)
    valid = np.empty(rows, np.uint8)
    _run(lanes, key, (), expression, values, high, valid)
    return values, high, valid


def compute_lane(lanes: Lanes, key: np.ndarray, expression: Expression) -> tuple[bool, int, int]:
    """Compute an expression into free rows of the lanes: (is float, row in its lane, row of validity).

    The high word of what has two goes into the row after the first.
    """
    is_float = lane_of(expression.type) == "float"
    row = lanes.next_float() if is_float else lanes.next_int()
    check = lanes.next_valid()
    values = (lanes.floats if is_float else lanes.ints)[row]
    high = lanes.ints[lanes.next_int()] if is_wide(expression) else np.empty(0, np.int64)
    _run(lanes, key, (), expression, values, high, lanes.valid[check])
    return is_float, row, check


def _run(
    lanes: Lanes, key: np.ndarray, conditions: tuple[tuple[Expression, int], ...], computed: Expression | None,
    *outputs: np.ndarray,
) -> None:  # fmt: skip
    program, constants = compiled_with(program_of, LanePlaces.of(lanes), conditions, computed)
    flat = (lanes.ints.reshape(-1), lanes.floats.reshape(-1), lanes.valid.reshape(-1))
    program([key, *flat, *constants.arrays(lanes).values(), *outputs], len(key))


def program_of(
    places: LanePlaces, conditions: Sequence[tuple[Expression, int]], computed: Expression | None
) -> tuple[Program, CodeConstants]:
    """Return the program of conditions, or of a computed expression, with the constants that it reads."""
    program = Program("rows")
    f = program.function("run")
    arrays = LaneArrays(
        f.array("key", I64), f.array("ints", I64), f.array("floats", F64), f.array("valid", U8),
        f.array("const_i", I64), f.array("const_f", F64),
    )  # fmt: skip
    if computed is None:
        outputs = [f.array("bits", U64, writable=True)]
    else:
        types = {"values": F64 if lane_of(computed.type) == "float" else I64, "high": I64, "ok": U8}
        outputs = [f.array(name, type_, writable=True) for name, type_ in types.items()]
    rows = f.scalar("rows")
    emitter = Emitter(f, places, arrays, rows)

    def one_row(row: Value, guarded: bool) -> None:
        emitter.begin_row(row, guarded)
        if computed is None:
            _write_bits(emitter, conditions, outputs[0], row)
        else:
            _write_value(emitter, computed, outputs, row)

    expressions = [one for one, _ in conditions] if computed is None else [computed]
    nodes = (node for expression in expressions for node in walk(expression))
    offsets = [0, *(cast(Current, node.at).offset for node in nodes if isinstance(node, (Load, Exists)))]
    _each_row(f, rows, -min(offsets), max(offsets), one_row)
    f.give(0)
    return program, emitter.constants


def _each_row(f: Function, rows: Value, before: int, after: int, one_row: Any) -> None:
    """Loop over every row; `before` and `after`: how many rows at the edges look beyond the first or the last one."""
    first = f.least(before, rows) if before else f.value(0)
    last = f.greatest(rows - after, first) if after else rows
    with f.loop(first, last) as row:
        one_row(row, False)
    if before or after:
        edge = f.variable("edge", 0)
        with f.during(lambda: edge < rows):
            one_row(edge.value, True)
            edge.set(edge + 1)
            with f.when(edge.equals(first)):
                edge.set(last)


def _write_bits(emitter: Emitter, conditions: Sequence[tuple[Expression, int]], bits: Array, row: Value) -> None:
    f = emitter.f
    kept = bits[row]
    for condition, mask in conditions:
        kept = kept & f.select(emitter.holds(condition), f.constant(2**64 - 1, U64), f.constant(2**64 - 1 - mask, U64))
    bits[row] = kept


def _write_value(emitter: Emitter, expression: Expression, outputs: Sequence[Array], row: Value) -> None:
    f = emitter.f
    values, high, ok = outputs
    value, null = emitter.emit(expression)
    if is_wide(expression):
        values[row] = value.to(I64)
        high[row] = (value >> f.constant(64, value.type)).to(I64)
    else:
        values[row] = value
    ok[row] = f.constant(1, U8) if null is None else (~null).to(U8)
