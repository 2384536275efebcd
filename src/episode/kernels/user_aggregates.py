"""Aggregates of users: Python functions compiled once in a process, which kernels call by address.

The kernels are compiled ahead of time and know nothing of these functions. In place of an operation code an aggregate
of a user has the address of a small table: the addresses of its step and of its finish. Both work on three words of
memory, the numbers `whole`, `real` and `more` of an aggregate's state (`kernels.aggregates`): a state has one to three
numbers, each of them in a word of its own, as an integer or as a double.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, cloudpickle, njit, types
from numba.core import cgutils
from numba.core.errors import NumbaError
from numba.extending import intrinsic

USER = 1 << 12
"""Operation codes of aggregates from here on are addresses of tables."""
WORDS = 3
STEP, FINISH = 0, 1
WHOLE, REAL = "whole", "real"
NUMBERS = {"double": types.float64, "bigint": types.int64}
POINTER = types.CPointer(types.int64)
STEP_SIGNATURE = types.void(POINTER, types.int64, types.int64, types.float64)
FINISH_SIGNATURE = types.void(POINTER)


class NotCompiled(Exception):
    """The functions of a user are not what an aggregate needs; the message says why."""


# ---- calls from kernels --------------------------------------------------------------------------------


def _function_at(builder: Any, table: Any, number: int, kind: ir.FunctionType) -> Any:
    """The function whose address is in a place of a table."""
    word = ir.IntType(64)
    entry = builder.gep(builder.inttoptr(table, word.as_pointer()), [word(number)])
    return builder.inttoptr(builder.load(entry), kind.as_pointer())


def _in_memory(builder: Any, whole: Any, real: Any, more: Any) -> tuple[Any, list[Any]]:
    """Three words with the numbers of a state: (their address, the address of each)."""
    word = ir.IntType(64)
    memory = cgutils.alloca_once(builder, ir.ArrayType(word, WORDS))
    places = [builder.gep(memory, [word(0), word(number)]) for number in range(WORDS)]
    builder.store(whole, places[0])
    builder.store(builder.bitcast(real, word), places[1])
    builder.store(builder.bitcast(more, word), places[2])
    return places[0], places


@intrinsic
def user_step(_context, table, count, whole, real, more, whole_value, real_value):
    """(whole, real, more) of the state with one more value; count: how many there were before."""
    numbers = types.Tuple((types.int64, types.float64, types.float64))
    integer, number = types.int64, types.float64
    signature = numbers(integer, integer, integer, number, number, integer, number)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, count, whole, real, more, whole_value, real_value = arguments
        word, double = ir.IntType(64), ir.DoubleType()
        memory, places = _in_memory(builder, whole, real, more)
        kind = ir.FunctionType(ir.VoidType(), [word.as_pointer(), word, word, double])
        builder.call(_function_at(builder, table, STEP, kind), [memory, count, whole_value, real_value])
        values = [builder.load(place) for place in places]
        parts = (values[0], builder.bitcast(values[1], double), builder.bitcast(values[2], double))
        return context.make_tuple(builder, signature.return_type, parts)

    return signature, generate


@intrinsic
def user_finish(_context, table, whole, real, more):
    """(int value, float value, is it null?) that a state comes to."""
    values = types.Tuple((types.int64, types.float64, types.boolean))
    signature = values(types.int64, types.int64, types.float64, types.float64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, whole, real, more = arguments
        word, double = ir.IntType(64), ir.DoubleType()
        memory, places = _in_memory(builder, whole, real, more)
        kind = ir.FunctionType(ir.VoidType(), [word.as_pointer()])
        builder.call(_function_at(builder, table, FINISH, kind), [memory])
        values = [builder.load(place) for place in places]
        is_null = builder.icmp_signed("!=", values[2], word(0))
        parts = (values[0], builder.bitcast(values[1], double), is_null)
        return context.make_tuple(builder, signature.return_type, parts)

    return signature, generate


# ---- functions of users ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What the functions of an aggregate work on. state: WHOLE or REAL for each of its numbers. plain: the state is
    one number, not a tuple. gives: the SQL type of the result."""

    state: tuple[str, ...]
    plain: bool
    gives: str


def packed(initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None) -> bytes:
    """The functions by value, with what they refer to in their own modules."""
    functions = [getattr(one, "py_func", one) for one in (step, finish) if one is not None]
    modules = {sys.modules[one.__module__] for one in functions if one.__module__ in sys.modules}
    mine = [one for one in modules if one.__name__ not in ("__main__", *sys.builtin_module_names)]
    by_value = [one for one in mine if one.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps((initial, *functions)))
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)


def shape_of(initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, takes: str) -> Shape:
    """Compile the functions for the types that they get, to see whether they are an aggregate."""
    plain = not isinstance(initial, tuple)
    numbers = (initial,) if plain else initial
    if not 1 <= len(numbers) <= WORDS or not all(_is_number(number) for number in numbers):
        raise NotCompiled(f"initial= is one number, or a tuple of up to {WORDS} numbers")
    _check_function("step", step, 2, "the state and a value")
    if finish is not None:
        _check_function("finish", finish, 1, "the state")
    elif not plain:
        raise NotCompiled("a state of several numbers needs finish=, which makes the result of them")
    state = tuple(WHOLE if isinstance(number, (bool, int, np.integer)) else REAL for number in numbers)
    while True:
        given = _returned("step", step, (_state_type(state, plain), NUMBERS[takes]))
        next_state = tuple(_kind("step", one) for one in _parts(given, plain, len(state)))
        wider = tuple(REAL if REAL in pair else WHOLE for pair in zip(state, next_state, strict=True))
        if wider == state:
            break
        state = wider
    if finish is None:
        return Shape(state, plain, "bigint" if state[0] == WHOLE else "double")
    result = _returned("finish", finish, (_state_type(state, plain),))
    if isinstance(result, types.Optional):
        result = result.type
    if isinstance(result, types.Boolean):
        return Shape(state, plain, "boolean")
    return Shape(state, plain, "bigint" if _kind("finish", result) == WHOLE else "double")


def _is_number(value: object) -> bool:
    if isinstance(value, (int, np.integer)):
        return -(2**63) <= int(value) < 2**63
    return isinstance(value, (float, np.floating))


def _check_function(what: str, function: Callable[..., Any], count: int, given: str) -> None:
    function = getattr(function, "py_func", function)
    if not inspect.isfunction(function):
        raise NotCompiled(f"{what}= is not a Python function")
    if len(inspect.signature(function).parameters) != count:
        raise NotCompiled(f"{what}= takes {given}: {count} parameter{'s' if count > 1 else ''}")
    if any(one.opname == "RAISE_VARARGS" for one in dis.get_instructions(function)):
        raise NotCompiled(f"{what}= may raise (raise or assert), and inside the kernels nobody would see it")


def _returned(what: str, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        compiled = _compiled(function)
        compiled.compile(arguments)
        return types.unliteral(compiled.overloads[arguments].signature.return_type)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if not line.startswith(("Failed", "During", "-"))), lines[0])
        raise NotCompiled(f"{what}= cannot be compiled: {reason}") from error


def _compiled(function: Callable[..., Any]) -> Any:
    return njit(error_model="numpy", nogil=True)(getattr(function, "py_func", function))


def _state_type(state: tuple[str, ...], plain: bool) -> Any:
    numbers = tuple(types.int64 if kind == WHOLE else types.float64 for kind in state)
    return numbers[0] if plain else types.Tuple(numbers)


def _parts(returned: Any, plain: bool, count: int) -> tuple[Any, ...]:
    if plain:
        return (returned,)
    if not isinstance(returned, types.BaseTuple) or len(returned) != count:
        raise NotCompiled(f"step= returns the next state, a tuple of {count} as initial= is, not {returned}")
    return tuple(returned)


def _kind(what: str, returned: Any) -> str:
    if isinstance(returned, (types.Integer, types.Boolean)):
        return WHOLE
    if isinstance(returned, types.Float):
        return REAL
    wanted = "numbers" if what == "step" else "a number or a truth value"
    raise NotCompiled(f"{what}= returns {wanted}, not {returned}")


# ---- compiled for kernels ----------------------------------------------------------------------------------


@njit(nogil=True)
def _read_whole(words, reals, number):
    return words[number]


@njit(nogil=True)
def _read_real(words, reals, number):
    return reals[number]


@njit(nogil=True)
def _write_whole(words, reals, number, value):
    words[number] = value


@njit(nogil=True)
def _write_real(words, reals, number, value):
    reals[number] = value


@njit(nogil=True)
def _whole_value(whole, real):
    return whole


@njit(nogil=True)
def _real_value(whole, real):
    return real


READ = {WHOLE: _read_whole, REAL: _read_real}
WRITE = {WHOLE: _write_whole, REAL: _write_real}


@dataclass(frozen=True)
class _Table:
    """The addresses, and the compiled functions that must live as long as they are called."""

    addresses: np.ndarray
    functions: tuple[Any, ...]


_TABLES: dict[tuple[bytes, str], _Table] = {}


def code_of(functions: bytes, takes: str) -> int:
    """What stands in place of an operation code for an aggregate of a user; compiled once in a process."""
    if (functions, takes) not in _TABLES:
        initial, step, *rest = cloudpickle.loads(functions)
        finish = rest[0] if rest else None
        shape = shape_of(initial, step, finish, takes)
        compiled = (_step_of(initial, step, shape, takes), _finish_of(finish, shape))
        addresses = np.array([one.address for one in compiled], np.int64)
        _TABLES[functions, takes] = _Table(addresses, compiled)
    return int(_TABLES[functions, takes].addresses.ctypes.data)


def _step_of(initial: Any, step: Callable[..., Any], shape: Shape, takes: str) -> Any:
    following = _compiled(step)
    value = _real_value if takes == "double" else _whole_value
    kinds = (*shape.state, *[WHOLE] * (WORDS - len(shape.state)))
    (read0, read1, read2), (write0, write1, write2) = [READ[kind] for kind in kinds], [WRITE[kind] for kind in kinds]
    numbers = (initial,) if shape.plain else initial
    first = tuple(
        int(number) if kind == WHOLE else float(number) for number, kind in zip(numbers, shape.state, strict=True)
    )
    if shape.plain:
        begin = first[0]

        def fold(pointer, count, whole, real):
            words = carray(pointer, WORDS)
            reals = words.view(np.float64)
            state = begin if count == 0 else read0(words, reals, 0)
            write0(words, reals, 0, following(state, value(whole, real)))

    elif len(first) == 1:

        def fold(pointer, count, whole, real):
            words = carray(pointer, WORDS)
            reals = words.view(np.float64)
            state = first if count == 0 else (read0(words, reals, 0),)
            state = following(state, value(whole, real))
            write0(words, reals, 0, state[0])

    elif len(first) == 2:

        def fold(pointer, count, whole, real):
            words = carray(pointer, WORDS)
            reals = words.view(np.float64)
            state = first if count == 0 else (read0(words, reals, 0), read1(words, reals, 1))
            following_state = following(state, value(whole, real))
            write0(words, reals, 0, following_state[0])
            write1(words, reals, 1, following_state[1])

    else:

        def fold(pointer, count, whole, real):
            words = carray(pointer, WORDS)
            reals = words.view(np.float64)
            state = first if count == 0 else (read0(words, reals, 0), read1(words, reals, 1), read2(words, reals, 2))
            following_state = following(state, value(whole, real))
            write0(words, reals, 0, following_state[0])
            write1(words, reals, 1, following_state[1])
            write2(words, reals, 2, following_state[2])

    return cfunc(STEP_SIGNATURE, nopython=True, error_model="numpy")(fold)


@njit(nogil=True)
def _first(state):
    return state


def _finish_of(finish: Callable[..., Any] | None, shape: Shape) -> Any:
    result_of = _first if finish is None else _compiled(finish)
    kinds = (*shape.state, *[WHOLE] * (WORDS - len(shape.state)))
    read0, read1, read2 = (READ[kind] for kind in kinds)
    count, plain = len(shape.state), shape.plain

    if plain:

        @njit(nogil=True)
        def state_in(words, reals):
            return read0(words, reals, 0)

    elif count == 1:

        @njit(nogil=True)
        def state_in(words, reals):
            return (read0(words, reals, 0),)

    elif count == 2:

        @njit(nogil=True)
        def state_in(words, reals):
            return (read0(words, reals, 0), read1(words, reals, 1))

    else:

        @njit(nogil=True)
        def state_in(words, reals):
            return (read0(words, reals, 0), read1(words, reals, 1), read2(words, reals, 2))

    write, at = (WRITE[REAL], 1) if shape.gives == "double" else (WRITE[WHOLE], 0)

    def conclude(pointer):
        words = carray(pointer, WORDS)
        reals = words.view(np.float64)
        result = result_of(state_in(words, reals))
        words[2] = 1
        if result is not None:
            words[2] = 0
            write(words, reals, at, result)

    return cfunc(FINISH_SIGNATURE, nopython=True, error_model="numpy")(conclude)
