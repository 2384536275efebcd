"""Where a function cannot be traced, and why: the place in its source, and what to write instead."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

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
"""What to write instead of functions that need a number, by their names in the source."""
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
    """What a node is: `not`, `in` and chains of comparisons by themselves."""
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
    """Where a function is at the moment, or where an error left it: in itself, or in a function of its user's."""
    frames = list(_raised(error.__traceback__) if error is not None else _running(sys._getframe(1)))
    frames = [one for one in frames if one[0].f_code is function.__code__ or not _is_library(one[0])]
    if error is None:  # from the function on
        outermost = next((at for at, (frame, _) in enumerate(frames) if frame.f_code is function.__code__), None)
        frames = frames[: outermost + 1] if outermost is not None else []
        return _place(*frames[0]) if frames else None
    return _place(*frames[-1]) if frames else None


def _running(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """Frames from the inside out, with their instructions."""
    while frame is not None:
        yield frame, frame.f_lasti
        frame = frame.f_back


def _raised(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
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
    found: tuple[ast.AST, ...] = ()

    def visit(node: ast.AST, around: tuple[ast.AST, ...]) -> None:
        nonlocal found
        here = (node, *around)
        place = tuple(getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
        if place == span:
            found = here
        for child in ast.iter_child_nodes(node):
            visit(child, here)

    visit(tree, ())
    return found
