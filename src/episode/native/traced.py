"""Numbers that are known only when code runs, and functions that take them in place of numbers.

Operators on such a number, and some functions of Python and NumPy, are recorded (`tracing`). Everything that needs its
value, or that it is something else than a number, is refused.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from episode.native.tracing import Recording


BOOLEAN, WHOLE, REAL = "boolean", "whole", "real"
"""Kinds of numbers: truth values, int64 and float64."""
OF_NUMPY = "Of NumPy, use sqrt, exp, log, floor, ceil, absolute, isnan, minimum, maximum, and operators."


def _operator(op: str) -> Callable[[Traced, Any], Traced]:
    return lambda self, other: self._recording.binary(op, self, other)


def _mirrored_operator(op: str) -> Callable[[Traced, Any], Traced]:
    return lambda self, other: self._recording.binary(op, other, self)


def _function(op: str) -> Callable[[Traced], Traced]:
    return lambda self: self._recording.unary(op, self)


def _rounding(op: str) -> Callable[[Traced], Traced]:
    return lambda self: self._recording.round_to_whole(op, self)


def _refusal(need: str) -> Callable[..., NoReturn]:
    return lambda self, *_: self._recording.fail_at(need)


class Traced:
    """A number that is known only when the code runs. null: a proxy that is true if the number is null then."""

    __slots__ = ("_at", "_kind", "_null", "_recording")

    def __init__(self, recording: Recording, at: int, kind: str, null: Traced | None = None) -> None:
        self._recording, self._at, self._kind, self._null = recording, at, kind, null

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance(value, float) is as for a number
        return {BOOLEAN: bool, WHOLE: int, REAL: float}[self._kind]

    def __repr__(self) -> str:
        return f"<{self._kind} number>"

    __add__, __radd__ = _operator("add"), _mirrored_operator("add")
    __sub__, __rsub__ = _operator("sub"), _mirrored_operator("sub")
    __mul__, __rmul__ = _operator("mul"), _mirrored_operator("mul")
    __truediv__, __rtruediv__ = _operator("div"), _mirrored_operator("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv"), _mirrored_operator("floordiv")
    __mod__, __rmod__ = _operator("mod"), _mirrored_operator("mod")
    __and__, __rand__ = _operator("and"), _mirrored_operator("and")
    __or__, __ror__ = _operator("or"), _mirrored_operator("or")
    __xor__, __rxor__ = _operator("xor"), _mirrored_operator("xor")
    __lshift__, __rlshift__ = _operator("shl"), _mirrored_operator("shl")
    __rshift__, __rrshift__ = _operator("shr"), _mirrored_operator("shr")
    __lt__, __le__, __gt__, __ge__ = _operator("lt"), _operator("le"), _operator("gt"), _operator("ge")
    __eq__, __ne__ = _operator("eq"), _operator("ne")  # type: ignore[assignment]
    __neg__, __abs__, __invert__ = _function("neg"), _function("abs"), _function("not")
    __floor__, __ceil__, __trunc__ = _rounding("floor"), _rounding("ceil"), _rounding("cut")

    def __pos__(self) -> Traced:
        return self._recording.convert(self, WHOLE) if self._kind == BOOLEAN else self

    def __pow__(self, other: Any, modulus: object = None) -> Traced:
        if modulus is not None:
            self._recording.fail("calls pow with a modulus", "Write a ** b % c.")
        return self._recording.binary("pow", self, other)

    def __rpow__(self, other: Any, modulus: object = None) -> Traced:
        return self._recording.binary("pow", other, self)

    def __divmod__(self, other: Any) -> tuple[Traced, Traced]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Traced, Traced]:
        return other // self, other % self

    def __round__(self, digits: object = None) -> Traced:
        if digits is not None:
            self._recording.fail("rounds to a number of digits", "Write round(a * 100) / 100.")
        return self._recording.round_to_whole("round", self)

    def __array_ufunc__(self, function: Any, method: str, *given: Any, **options: Any) -> Any:
        if method != "__call__" or options or function not in _UFUNCS:
            self._recording.fail(f"calls numpy.{function.__name__}", OF_NUMPY)
        return _UFUNCS[function](self._recording, *given)

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> NoReturn:
        hint = "Use episode.where." if function is np.where else OF_NUMPY
        self._recording.fail(f"calls numpy.{function.__name__}", hint)

    # ---- what only a number that is known has, or something else than a number ---------------------------

    __bool__, __float__, __int__, __index__ = _refusal("bool"), _refusal("float"), _refusal("int"), _refusal("index")
    __complex__, __hash__, __iter__ = _refusal("complex"), _refusal("hash"), _refusal("iter")
    __len__, __getitem__, __call__ = _refusal("len"), _refusal("getitem"), _refusal("call")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._recording.fail(f"asks a number for .{name}", "Use operators, and functions that can be traced.")


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` if the condition holds, `no` if not. Both are computed; in functions of aggregates it replaces `if`.

    Either may be None in what an aggregate returns at last. The condition is a truth value, not a number.
    """
    if type(condition) is Traced:
        return condition._recording.choose(condition, yes, no)
    if not isinstance(condition, (bool, np.bool_)):
        raise TypeError(f"The condition of where is a truth value, not {describe(condition)}.")
    return yes if condition else no


def least(first: Any, *others: Any) -> Any:
    """The least of numbers, as Python's `min`, in functions of aggregates as well."""
    for one in others:
        first = where(one < first, one, first)
    return first


def greatest(first: Any, *others: Any) -> Any:
    """The greatest of numbers, as Python's `max`, in functions of aggregates as well."""
    for one in others:
        first = where(one > first, one, first)
    return first


def describe(thing: object) -> str:
    """Name a thing in a message."""
    if type(thing) is Traced:
        return "a number" if thing._null is None else "a number or None"
    return "None" if thing is None else f"a {type(thing).__name__}"


# ---- functions of NumPy, which take plain numbers as well ---------------------------------------------------


def _binary(op: str) -> Callable[[Recording, Any, Any], Traced]:
    return lambda recording, left, right: recording.binary(op, left, right)


def _unary(op: str) -> Callable[[Recording, Any], Traced]:
    return lambda recording, number: recording.unary(op, number)


def _floor_or_ceil(op: str) -> Callable[[Recording, Traced], Traced]:
    return lambda recording, number: recording.unary(op, number) if number._kind == REAL else +number


def _extreme(op: str) -> Callable[[Recording, Any, Any], Any]:
    """minimum and maximum: NaN if either is."""

    def choose(recording: Recording, left: Any, right: Any) -> Any:
        return where(recording.binary(op, left, right) | (left != left), left, right)

    return choose


def _truth(recording: Recording, number: Any) -> Traced:
    return recording.binary("ne", number, recording.constant(0, WHOLE))


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: _binary("add"), np.subtract: _binary("sub"), np.multiply: _binary("mul"), np.true_divide: _binary("div"),
    np.floor_divide: _binary("floordiv"), np.remainder: _binary("mod"), np.power: _binary("pow"),
    np.less: _binary("lt"), np.less_equal: _binary("le"), np.greater: _binary("gt"), np.greater_equal: _binary("ge"),
    np.equal: _binary("eq"), np.not_equal: _binary("ne"),
    np.bitwise_and: _binary("and"), np.bitwise_or: _binary("or"), np.bitwise_xor: _binary("xor"),
    np.left_shift: _binary("shl"), np.right_shift: _binary("shr"),
    np.negative: _unary("neg"), np.absolute: _unary("abs"), np.invert: _unary("not"),
    np.sqrt: _unary("sqrt"), np.exp: _unary("exp"), np.log: _unary("log"),
    np.floor: _floor_or_ceil("floor"), np.ceil: _floor_or_ceil("ceil"),
    np.minimum: _extreme("le"), np.maximum: _extreme("ge"),
    np.isnan: lambda recording, number: recording.binary("ne", number, number),
    np.logical_and: lambda recording, one, other: _truth(recording, one) & _truth(recording, other),
    np.logical_or: lambda recording, one, other: _truth(recording, one) | _truth(recording, other),
    np.logical_not: lambda recording, number: ~_truth(recording, number),
}  # fmt: skip


# Where a function cannot be traced, and why: the place in its source, and what to write instead.


UNKNOWN = "a number that is known only when a query runs"
USE_WHERE = "Use episode.where(condition, a, b), which computes both and takes one."

_OF_STATEMENTS: dict[type[ast.AST], tuple[str, str]] = {
    ast.If: ("`if`", USE_WHERE),
    ast.IfExp: ("`if … else`", USE_WHERE),
    ast.comprehension: ("`if`", USE_WHERE),
    ast.While: ("`while`", "Repeat by a number that is known: for _ in range(3)."),
    ast.Assert: ("`assert`", "Leave it out: aggregates cannot raise."),
    ast.BoolOp: ("`and` or `or`", "Use & and |, with parentheses: (a > 0) & (b > 0)."),
    ast.Not: ("`not`", "Use ~, with parentheses: ~(a > 0); or turn the comparison round."),
    ast.Compare: ("a chain of comparisons", "Use & and parentheses: (a < b) & (b < c)."),
    ast.In: ("`in`", "Compare with each: (a == 1) | (a == 2)."),
    ast.Match: ("`match`", USE_WHERE),
}
_OF_CALLS = {
    "min": "Use episode.least(a, b).",
    "max": "Use episode.greatest(a, b).",
    "bool": "Compare it: a != 0.",
    "float": "Write a * 1.0.",
    "int": "Use math.trunc(a).",
    "range": "Repeat by a number that is known: range(3).",
    "math.sqrt": "Use numpy.sqrt(a).",
    "math.exp": "Use numpy.exp(a).",
    "math.log": "Use numpy.log(a).",
    "math.isnan": "Use numpy.isnan(a).",
    "math.fabs": "Use abs(a).",
    "math.pow": "Write a ** b.",
}
"""Functions that need a number, by their names in the source, and what to write instead."""
_OF_NEEDS = {
    "bool": (f"decides by {UNKNOWN}", USE_WHERE),
    "float": (
        f"needs the value of {UNKNOWN}",
        "Use operators, abs, round, numpy.sqrt, numpy.exp or numpy.log.",
    ),
    "int": (f"needs the value of {UNKNOWN}", "Use math.trunc(a), math.floor(a) or round(a)."),
    "index": (f"takes as a length or a place {UNKNOWN}", USE_WHERE),
    "complex": ("needs a complex number", "Traced functions compute with real numbers."),
    "hash": (f"looks up, in a set or a dict, {UNKNOWN}", USE_WHERE),
    "iter": ("loops over a number, or unpacks it", "A state of several numbers is a tuple: initial=(0.0, 0)."),
    "len": ("asks for the length of a number", "A state of several numbers is a tuple: initial=(0.0, 0)."),
    "getitem": ("asks for a part of a number", "A state of several numbers is a tuple: initial=(0.0, 0)."),
    "call": ("calls a number", "Use operators, and functions that can be traced."),
}
"""By the special method that Python called: what a function does, and what to do instead."""


@dataclass(frozen=True)
class SourcePlace:
    """A part of a line of a source file. line: from 1 on; column: from 0 on. nodes: its syntax, from the inside out."""

    file: str
    line: int
    column: int
    length: int
    source: str
    nodes: tuple[ast.AST, ...] = ()

    @property
    def position(self) -> int:
        return sum(len(line) + 1 for line in self.source.split("\n")[: self.line - 1]) + self.column


def explain(need: str, place: SourcePlace | None) -> tuple[str, str]:
    """(what a function does that cannot be traced, what to do instead). need: the special method Python called."""
    message, hint = _OF_NEEDS[need]
    for node in place.nodes[:2] if place is not None else ():
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            known = _OF_CALLS.get(name)
            return f"calls {name} with {UNKNOWN}", known or hint
        if need == "bool":
            for kind in _kinds(node):
                if kind in _OF_STATEMENTS:
                    what, instead = _OF_STATEMENTS[kind]
                    return f"uses {what} on {UNKNOWN}", instead
    return message, hint


def _kinds(node: ast.AST) -> Iterator[type[ast.AST]]:
    """The types of syntax that a node counts as: `not`, `in` and chains of comparisons have their own."""
    if isinstance(node, ast.UnaryOp):
        yield type(node.op)
    elif isinstance(node, ast.Compare):
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            yield ast.In
        elif len(node.ops) > 1:
            yield ast.Compare
    else:
        yield type(node)


def find_place(function: Callable[..., Any], error: BaseException | None = None) -> SourcePlace | None:
    """The place that a function has reached, or where an error left it: in itself, or in another function of the
    user."""
    if error is not None:
        frames = [*_traceback_frames(error.__traceback__)][::-1]
    else:
        frames = [*_stack_frames(sys._getframe(1))]
    users = [one for one in frames if one[0].f_code is function.__code__ or not _is_library(one[0])]
    if error is None and not any(frame.f_code is function.__code__ for frame, _ in users):
        return None
    return _place(*users[0]) if users else None


def _stack_frames(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames from the inside out, with their instructions."""
    while frame is not None:
        yield frame, frame.f_lasti
        frame = frame.f_back


def _traceback_frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames from the outside in, with their instructions."""
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


def _is_library(frame: FrameType) -> bool:
    package = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return package in ("episode", "numpy", *sys.stdlib_module_names) and package != "__main__"


def _place(frame: FrameType, instruction: int) -> SourcePlace | None:
    code = frame.f_code
    source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
    begin, end = _span(code, instruction)
    lines = source.split("\n")
    if begin is None or not source or begin[0] > len(lines):
        return None
    line = lines[begin[0] - 1]
    if end is None:
        column = len(line) - len(line.lstrip())
        return SourcePlace(code.co_filename, begin[0], column, len(line.strip()), source)
    column = len(line.encode()[: begin[1]].decode(errors="ignore"))
    last = len(line.encode()[: end[1]].decode(errors="ignore")) if end[0] == begin[0] else len(line)
    return SourcePlace(code.co_filename, begin[0], column, last - column, source, _nodes(source, (*begin, *end)))


def _span(code: CodeType, instruction: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The first and the last place of an instruction: lines, and columns in bytes; Python 3.10 knows lines alone."""
    if sys.version_info >= (3, 11):
        line, last, column, end = list(code.co_positions())[instruction // 2]
        if line is not None and last is not None and column is not None and end is not None:
            return (line, column), (last, end)
    lines = [line for begin, end, line in code.co_lines() if begin <= instruction < end]
    return (None if not lines or lines[0] is None else (lines[0], 0)), None


def _nodes(source: str, span: tuple[int, int, int, int]) -> tuple[ast.AST, ...]:
    """The syntax of a part of the source, and what is around it, from the inside out."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # a cell of a notebook with magics
        return ()
    found: list[ast.AST] = []
    parents: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(tree):
        parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
        place = tuple(getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
        if place == span:  # the innermost one comes last
            found = [node]
    while found and found[-1] in parents:
        found.append(parents[found[-1]])
    return tuple(found)
