"""The builder: functions are written by calling it, in the order in which they run.

    program = Program("count")
    f = program.function("run")
    price, rows = f.array("price", F64), f.scalar("rows")
    dear = f.variable("dear", 0)
    with f.loop(0, rows) as row:
        with f.when(price[row] > 10.0):
            dear.set(dear + 1)
    f.give(dear)

Python's own `if` and `for` decide while code is being built; `when`, `loop` and `during` decide at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from math import inf
from typing import Any

from episode.native import ir
from episode.native.ir import BOOL, F64, I64, Array, Block, Operand, Type, Value, Variable


class Program:
    """Functions that are compiled together. The first one is called from outside.

    most_inlined: the size of functions that may become a part of their callers. LLVM would do so with every function
    that is called once, and takes two to three times as long for a large program with many arrays.
    """

    def __init__(self, name: str, most_inlined: float = inf) -> None:
        self.name, self.most_inlined = name, most_inlined
        self.functions: list[Function] = []

    def function(self, name: str, result: Type = I64) -> Function:
        if any(one.name == name for one in self.functions):
            raise ValueError(f"There is a function {name} already.")
        return Function(self, name, result)

    @property
    def entry(self) -> Function:
        return self.functions[0]

    @property
    def size(self) -> int:
        """Instructions and ends of blocks."""
        return sum(function.size for function in self.functions)


class Function:
    """One function under construction: arrays and scalars are its parameters, in the order of their declaration."""

    def __init__(self, program: Program, name: str, result: Type) -> None:
        self.program, self.name, self.result = program, name, result
        program.functions.append(self)
        self.arrays: list[Array] = []
        self.scalars: list[Value] = []
        self.names: list[str] = []
        self.variables: list[Variable] = []
        self.blocks: list[Block] = []
        self.values = 0
        self.current = self.block("entry")

    @property
    def size(self) -> int:
        """Instructions and ends of blocks."""
        return sum(len(block.body) + 1 for block in self.blocks)

    # ---- parameters and variables ----------------------------------------------------------------------

    def array(self, name: str, type_: Type, writable: bool = False) -> Array:
        if type_ not in ir.ELEMENTS:
            raise TypeError(f"An array cannot be of type {type_}.")
        self.arrays.append(Array(self, type_, name, writable))
        return self.arrays[-1]

    def scalar(self, name: str, type_: Type = I64) -> Value:
        if type_.bits > 64 and self is self.program.entry:
            raise TypeError("A scalar of the entry has 64 bits at most.")
        self.scalars.append(Value(self, type_, "scalar", (len(self.scalars),)))
        self.names.append(name)
        return self.scalars[-1]

    def variable(self, name: str, start: Operand, type_: Type | None = None) -> Variable:
        """A variable that begins with a value. It is set wherever it is declared: in a loop, every time."""
        first = self.value(start, type_)
        made = Variable(self, first.type, name)
        self.variables.append(made)
        self.write(made, first)
        return made

    # ---- values ------------------------------------------------------------------------------------------

    def emit(self, type_: Type, op: str, args: tuple) -> Value:
        """Add an instruction where the function is being built."""
        if self.current.end is not None:
            raise ValueError(f"Nothing can follow the end of the block {self.current.name}.")
        made = Value(self, type_, op, args)
        made.number = self.values
        self.values += 1
        self.current.body.append(made)
        return made

    def constant(self, number: bool | int | float, type_: Type) -> Value:
        if type_.is_float:
            return Value(self, type_, "constant", (float(number),))
        least, most = type_.bounds
        if not isinstance(number, int) or not least <= number <= most:
            raise TypeError(f"{number} is not a value of type {type_}.")
        return Value(self, type_, "constant", (number,))

    def value(self, operand: Operand, type_: Type | None = None) -> Value:
        """The operand as a value; a number of Python's takes the type, if one is given."""
        if isinstance(operand, Variable):
            operand = self.read(operand)
        if isinstance(operand, Value):
            if type_ is not None and operand.type is not type_:
                raise TypeError(f"A value of type {type_} is needed, not {operand.type}.")
            return operand
        return self.constant(operand, type_ or ir.type_of_number(operand))

    def _pair(self, left: Operand, right: Operand) -> tuple[Value, Value]:
        """Both operands with the type of the one that has one."""
        if isinstance(left, Value):
            first = self.value(left)
            return first, self.value(right, first.type)
        second = self.value(right)
        return self.value(left, second.type), second

    def binary(self, op: str, left: Operand, right: Operand) -> Value:
        first, second = self._pair(left, right)
        self._check_operation(op, first.type)
        is_condition = op in ir.COMPARISONS or op in ir.OVERFLOWS
        return self.emit(BOOL if is_condition else first.type, op, (first, second))

    def unary(self, op: str, operand: Operand) -> Value:
        value = self.value(operand)
        self._check_operation(op, value.type)
        return self.emit(value.type, op, (value,))

    def _check_operation(self, op: str, type_: Type) -> None:
        if op not in ir.OPERATIONS[type_.kind]:
            raise TypeError(f"{op} of {type_}.")
        if op in ("pow", "exp", "log") and type_ is not F64:
            raise TypeError(f"{op} is of doubles only.")
        if type_.bits == 128 and op in ("div", "rem"):
            raise TypeError("Numbers of 128 bits are not divided.")

    def select(self, condition: Operand, yes: Operand, no: Operand) -> Value:
        """One of two values; both are computed."""
        first, second = self._pair(yes, no)
        return self.emit(first.type, "select", (self.value(condition, BOOL), first, second))

    def least(self, left: Operand, right: Operand) -> Value:
        first, second = self._pair(left, right)
        return self.select(second < first, second, first)

    def greatest(self, left: Operand, right: Operand) -> Value:
        first, second = self._pair(left, right)
        return self.select(second > first, second, first)

    def cast(self, operand: Operand, type_: Type) -> Value:
        value = self.value(operand)
        if value.type is type_:
            return value
        if 128 in (value.type.bits, type_.bits) and (value.type.is_float or type_.is_float):
            raise TypeError("Numbers of 128 bits and floats are not converted into each other.")
        if type_ is BOOL:
            return value.differs(0.0 if value.type.is_float else 0)
        return self.emit(type_, "cast", (value,))

    def bitcast(self, operand: Operand, type_: Type) -> Value:
        value = self.value(operand)
        if value.type.bits != type_.bits:
            raise TypeError(f"{value.type} and {type_} have different sizes.")
        return value if value.type is type_ else self.emit(type_, "bitcast", (value,))

    # ---- memory ------------------------------------------------------------------------------------------

    def read(self, variable: Variable) -> Value:
        return self.emit(variable.type, "read", (variable,))

    def write(self, variable: Variable, value: Operand) -> None:
        self.emit(variable.type, "write", (variable, self.value(value, variable.type)))

    def load(self, array: Array, index: Operand) -> Value:
        return self.emit(array.type, "load", (array, self.value(index, I64)))

    def store(self, array: Array, index: Operand, value: Operand) -> None:
        if not array.writable:
            raise TypeError(f"The array {array.name} is not declared writable.")
        self.emit(array.type, "store", (array, self.value(index, I64), self.value(value, array.type)))

    def call(self, function: Function, arrays: Sequence[Array] = (), *scalars: Operand) -> Value:
        """Call a function of the same program."""
        if [one.type for one in arrays] != [one.type for one in function.arrays]:
            raise TypeError(f"{function.name} has other arrays.")
        if any(its.writable and not own.writable for own, its in zip(arrays, function.arrays)):
            raise TypeError(f"{function.name} writes to an array that is not declared writable here.")
        if len(scalars) != len(function.scalars):
            raise TypeError(f"{function.name} has {len(function.scalars)} scalars.")
        given = tuple(self.value(one, its.type) for one, its in zip(scalars, function.scalars))
        return self.emit(function.result, "call", (function, tuple(arrays), given))

    # ---- blocks ------------------------------------------------------------------------------------------

    def block(self, name: str) -> Block:
        """A block that is not part of the flow yet: jump to it, and continue at it."""
        made = Block(f"{name}.{len(self.blocks)}")
        self.blocks.append(made)
        return made

    def at(self, block: Block) -> None:
        """Continue building in a block."""
        self.current = block

    @property
    def has_ended(self) -> bool:
        return self.current.end is not None

    def join(self, block: Block) -> None:
        """Continue in a block, also from here if this one has not ended."""
        if not self.has_ended:
            self.jump(block)
        self.at(block)

    def _finish(self, end: ir.End) -> None:
        if self.has_ended:
            raise ValueError(f"The block {self.current.name} has ended already.")
        self.current.end = end

    def jump(self, block: Block) -> None:
        self._finish(ir.Jump(block))

    def branch(self, condition: Operand, yes: Block, no: Block) -> None:
        self._finish(ir.Branch(self.value(condition, BOOL), yes, no))

    def switch(self, on: Operand, cases: Mapping[int, Block], default: Block | None = None) -> None:
        self._finish(ir.Switch(self.value(on, I64), dict(cases), default))

    def give(self, value: Operand) -> None:
        """Return from the function."""
        self._finish(ir.Return(self.value(value, self.result)))

    # ---- structured flow -----------------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: Operand) -> Iterator[None]:
        """Run the code that is built inside only if the condition holds."""
        yes, after = self.block("when"), self.block("after")
        self.branch(condition, yes, after)
        self.at(yes)
        yield
        self.join(after)

    def jump_if(self, condition: Operand, block: Block) -> None:
        """Jump to a block if the condition holds, and continue if not."""
        after = self.block("after")
        self.branch(condition, block, after)
        self.at(after)

    def jump_unless(self, condition: Operand, block: Block) -> None:
        """Jump to a block if the condition does not hold, and continue if it does."""
        after = self.block("after")
        self.branch(condition, after, block)
        self.at(after)

    def give_if(self, condition: Operand, value: Operand) -> None:
        """Return a value if the condition holds."""
        with self.when(condition):
            self.give(value)

    @contextmanager
    def either(self, condition: Operand) -> Iterator[Callable[[], None]]:
        """Run one of two parts: the code built before the call of the yielded function if the condition holds, else the
        code after it."""
        yes, no, after = self.block("yes"), self.block("no"), self.block("after")
        self.branch(condition, yes, no)
        self.at(yes)
        parts = [no]

        def otherwise() -> None:
            if not self.has_ended:
                self.jump(after)
            self.at(parts.pop())

        yield otherwise
        if parts:
            otherwise()
        self.join(after)

    @contextmanager
    def loop(self, first: Operand, end: Operand, step: int = 1) -> Iterator[Value]:
        """Numbers from `first` to before `end`, which is computed once."""
        start, stop = self._pair(first, end)
        counter = self.variable("counter", start)
        head, body, after = self.block("loop"), self.block("body"), self.block("after")
        self.jump(head)
        self.at(head)
        now = counter.value
        self.branch(now < stop, body, after)
        self.at(body)
        yield now
        if not self.has_ended:
            counter.set(now + step)
            self.jump(head)
        self.at(after)

    @contextmanager
    def during(self, condition: Callable[[], Operand]) -> Iterator[Block]:
        """Repeat the code built inside while the condition, which is built anew for every round, holds. Yields the
        block after the loop."""
        head, body, after = self.block("during"), self.block("body"), self.block("after")
        self.jump(head)
        self.at(head)
        self.branch(condition(), body, after)
        self.at(body)
        yield after
        self.join(head)
        self.at(after)


# Functions whose arrays are declared when they are first used, so that each takes the arrays it needs and no others.
#
#     @subroutine()
#     def count_dear(s: Scope, of: str, limit: Value) -> None: ...  # up to s.f.give(…)
#
#     types = {"price": (F64, False), "dear": (I64, True)}
#     s = entry_scope("dear", types)
#     s.dear[0] = count_dear(s, "price", 10.0)


ArrayTypes = Mapping[str, tuple[Type, bool]]
"""The elements of arrays by name, and whether they are written to."""


class Scope:
    """The arrays of one function, by name, as attributes."""

    def __init__(self, f: Function, types: ArrayTypes) -> None:
        self.f, self.types = f, types
        self._arrays: dict[str, Array] = {}

    def __getattr__(self, name: str) -> Array:
        return self.array(name)

    def array(self, name: str) -> Array:
        if name not in self._arrays:
            if name not in self.types:
                raise AttributeError(f"There is no array {name}.")
            type_, writable = self.types[name]
            self._arrays[name] = self.f.array(name, type_, writable)
        return self._arrays[name]

    def declare(self, *names: str) -> None:
        """Declare arrays in this order, used or not."""
        for name in names:
            self.array(name)

    def call(self, name: str, build: Callable[..., Any], *scalars: Operand, result: Type = I64) -> Value:
        """Call a function of the program; `build(scope, *its scalars)` builds it, once, up to `f.give(…)`."""
        values = [self.f.value(one) for one in scalars]
        found = next((one for one in self.program.functions if one.name == name), None)
        if found is None:
            found = self.program.function(name, result)
            its = [found.scalar(f"s{at}", value.type) for at, value in enumerate(values)]
            build(Scope(found, self.types), *its)
        return self.f.call(found, [self.array(one.name) for one in found.arrays], *values)

    @property
    def program(self) -> Program:
        return self.f.program

    @property
    def names(self) -> list[str]:
        """The arrays that the function takes, in order."""
        return list(self._arrays)


def entry_scope(name: str, types: ArrayTypes, *declared: str) -> Scope:
    """The scope of the function `run` of a new program, which takes the declared arrays first."""
    s = Scope(Program(name).function("run"), types)
    s.declare(*declared)
    return s


def subroutine(result: Type = I64) -> Callable[[Callable[..., Operand | None]], Callable[..., Value]]:
    """Turn a builder `build(*shape, s, *scalars, **more)` into calls of its function, which a program has once.

    shape, more: what is compiled in, as are texts among the scalars. Numbers, texts and names of things in it are
    part of the function's name; the rest must be the same in all of a program. The function
    returns what `build` returns, 0 without that, unless `build` ends it.
    """

    def turn(build: Callable[..., Operand | None]) -> Callable[..., Value]:
        @wraps(build)
        def call(*given: Any, **more: Any) -> Value:
            at = next(at for at, one in enumerate(given) if isinstance(one, Scope))
            shape, s, after = given[:at], given[at], given[at + 1 :]

            def emit(own: Scope, *values: Value) -> None:
                scalars = iter(values)
                returned = build(
                    *shape, own, *(one if isinstance(one, str) else next(scalars) for one in after), **more
                )
                if not own.f.has_ended:
                    own.f.give(0 if returned is None else returned)

            words = [getattr(one, "name", one) for one in shape]
            words += [one for one in after if isinstance(one, str)]
            words += [f"{name}{value}" for name, value in more.items() if isinstance(value, (int, str))]
            name = "_".join([build.__name__.strip("_"), *(str(one) for one in words if isinstance(one, (int, str)))])
            return s.call(name, emit, *(one for one in after if not isinstance(one, str)), result=result)

        return call

    return turn
