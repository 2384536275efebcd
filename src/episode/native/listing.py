"""A program in words: its functions, their blocks, and one line for each instruction."""

from __future__ import annotations

from collections.abc import Iterator

from episode.native.builder import Function, Program
from episode.native.ir import Array, Branch, End, Jump, Return, Switch, Value, Variable


def listing(program: Program) -> str:
    """The IR of a program, for people."""
    return "\n".join(line for function in program.functions for line in _function(function))


def _function(f: Function) -> Iterator[str]:
    arrays = [f"{one.name}: {one.type}[]{'' if one.writable else ' (read)'}" for one in f.arrays]
    scalars = [f"{name}: {scalar.type}" for name, scalar in zip(f.names, f.scalars)]
    yield f"function {f.name}({', '.join([*arrays, *scalars])}) -> {f.result}"
    for block in f.blocks:
        yield f"  {block.name}:"
        for value in block.body:
            yield f"    {_instruction(f, value)}"
        if block.end is not None:
            yield f"    {_end(f, block.end)}"


def _operand(f: Function, operand: object) -> str:
    if isinstance(operand, (Variable, Array)):
        return operand.name
    if isinstance(operand, Function):
        return operand.name
    if isinstance(operand, Value):
        if operand.op == "constant":
            return str(operand.args[0])
        if operand.op == "scalar":
            return f.names[operand.args[0]]
        return f"%{operand.number}"
    if isinstance(operand, tuple):
        return f"({', '.join(_operand(f, one) for one in operand)})"
    return str(operand)


def _instruction(f: Function, value: Value) -> str:
    operands = [_operand(f, one) for one in value.args]
    if value.op == "write":
        return f"{operands[0]} = {operands[1]}"
    if value.op == "store":
        return f"{operands[0]}[{operands[1]}] = {operands[2]}"
    if value.op == "load":
        return f"%{value.number}: {value.type} = {operands[0]}[{operands[1]}]"
    return f"%{value.number}: {value.type} = {value.op} {', '.join(operands)}"


def _end(f: Function, end: End) -> str:
    if isinstance(end, Jump):
        return f"jump {end.to.name}"
    if isinstance(end, Branch):
        return f"if {_operand(f, end.condition)} jump {end.yes.name} else {end.no.name}"
    if isinstance(end, Return):
        return f"return {_operand(f, end.value)}"
    assert isinstance(end, Switch)
    cases = [f"{case}: {to.name}" for case, to in end.cases.items()]
    others = [] if end.default is None else [f"otherwise: {end.default.name}"]
    return f"switch {_operand(f, end.on)} {{{', '.join([*cases, *others])}}}"
