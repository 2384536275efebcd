"""Random functions of numbers: as Python functions that can be traced, and as what they are promised to give.

A function is a tree of operations over inputs and constants. `Tree.call` computes it with Python's operators, on
proxies and on plain numbers alike. `Oracle` computes it by the rules of `reference-event-patterns.md`: as Python does,
in 64 bits, with a result where Python raises.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import episode

BOOLEAN, WHOLE, REAL = "boolean", "whole", "real"
EXACT = 2**53
"""Whole numbers up to here are doubles as well."""


@dataclass(frozen=True)
class Tree:
    """op: "input" (number: which), "constant" (number: its value), or a name of OPERATIONS."""

    op: str
    kind: str
    parts: tuple[Tree, ...] = ()
    number: Any = None

    def call(self, inputs: Sequence[Any]) -> Any:
        if self.op == "input":
            return inputs[self.number]
        if self.op == "constant":
            return self.number
        return OPERATIONS[self.op](*(part.call(inputs) for part in self.parts))

    @property
    def has_input(self) -> bool:
        return self.op == "input" or any(part.has_input for part in self.parts)

    def __str__(self) -> str:
        if self.op in ("input", "constant"):
            return f"{self.op[0]}{self.number!r}"
        return f"{self.op}({', '.join(map(str, self.parts))})"


def of_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of plain numbers, a plain number: numbers of NumPy's types have other rules (True + True is True)."""

    def call(*numbers: Any) -> Any:
        result = function(*numbers)
        return result.item() if isinstance(result, np.generic) else result

    return call


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift, "neg": operator.neg, "abs": abs,
    "invert": operator.invert, "not": of_numpy(np.logical_not), "lt": operator.lt, "le": operator.le, "gt": operator.gt,
    "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "where": episode.where, "least": episode.least,
    "greatest": episode.greatest, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round,
    **{name: of_numpy(getattr(np, name)) for name in ("minimum", "maximum", "sqrt", "exp", "log", "isnan")},
}  # fmt: skip
ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
CHOICES = ("where", "least", "greatest", "minimum", "maximum")
ROUNDING = ("floor", "ceil", "trunc", "round")


# ---- drawing -------------------------------------------------------------------------------------------------


class Draw:
    def __init__(self, seed: int, kinds: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.kinds = kinds

    def tree(self, depth: int, kind: str) -> Tree:
        if depth == 0 or self.random.random() < 0.1:
            return self._leaf(kind)
        makers = {BOOLEAN: self._condition, WHOLE: self._whole, REAL: self._real}
        made = makers[kind](depth - 1)
        return made if made.has_input else self._input(kind)  # constants are computed by Python, not traced

    def _any(self, depth: int, *kinds: str) -> Tree:
        return self.tree(depth, self.random.choice(kinds or (WHOLE, REAL, BOOLEAN)))

    def _leaf(self, kind: str) -> Tree:
        if self.random.random() < 0.7:
            return self._input(kind)
        return Tree("constant", kind, number=self._constant(kind))

    def _input(self, kind: str) -> Tree:
        if kind == BOOLEAN:
            return Tree(self.random.choice(COMPARISONS), BOOLEAN, (self._input(REAL), self._leaf(WHOLE)))
        inputs = [at for at, one in enumerate(self.kinds) if one == kind]
        if not inputs and kind == WHOLE:
            return Tree("trunc", WHOLE, (self._input(REAL),))
        if not inputs:
            return Tree("mul", REAL, (self._input(WHOLE), Tree("constant", REAL, number=0.5)))
        return Tree("input", kind, number=self.random.choice(inputs))

    def _constant(self, kind: str) -> Any:
        if kind == BOOLEAN:
            return self.random.random() < 0.5
        if kind == WHOLE:
            return self.random.choice([0, 1, -1, 2, 3, 7, -5, 10, 64, 2**53 + 1, -(2**63), 2**63 - 1])
        return self.random.choice([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 2.5, -3.75, 10.0, 1e18, 1e300, math.inf, math.nan])

    def _condition(self, depth: int) -> Tree:
        op = self.random.choice([*COMPARISONS * 2, "and", "or", "xor", "not", "isnan", "where"])
        if op in COMPARISONS:
            return Tree(op, BOOLEAN, (self._any(depth), self._any(depth)))
        if op == "isnan":
            return Tree(op, BOOLEAN, (self.tree(depth, REAL),))
        return self._same(op, depth, BOOLEAN)

    def _same(self, op: str, depth: int, kind: str) -> Tree:
        """An operation whose operands have one kind, which is that of the result."""
        count = 1 if op in ("not", "neg", "abs", "invert", "sqrt", "exp", "log") else 2
        parts = tuple(self.tree(depth, kind) for _ in range(count))
        return Tree(op, kind, (self.tree(depth, BOOLEAN), *parts) if op == "where" else parts)

    def _whole(self, depth: int) -> Tree:
        ops = [*ARITHMETIC, *CHOICES, *ROUNDING, "and", "or", "xor", "neg", "abs", "invert", "lshift", "rshift", "pow"]
        op = self.random.choice([*ops, "of truth"])
        if op == "of truth":
            return Tree("add", WHOLE, (self.tree(depth, BOOLEAN), self.tree(depth, BOOLEAN)))
        if op in ROUNDING:
            return Tree(op, WHOLE, (self._any(depth, REAL, WHOLE),))
        if op in ("lshift", "rshift"):
            by = Tree("constant", WHOLE, number=self.random.choice([0, 1, 3, 40, 63]))
            return Tree(op, WHOLE, (self.tree(depth, WHOLE), by))
        if op == "pow":
            by = Tree("constant", WHOLE, number=self.random.randrange(6))
            return Tree(op, WHOLE, (self.tree(depth, WHOLE), by))
        return self._same(op, depth, WHOLE)

    def _real(self, depth: int) -> Tree:
        op = self.random.choice(
            [*ARITHMETIC * 2, *CHOICES, "truediv", "truediv", "pow", "neg", "abs", "sqrt", "exp", "log"]
        )
        if op == "truediv":
            return Tree(op, REAL, (self._any(depth), self._any(depth)))
        if op == "pow":
            if self.random.random() < 0.3:
                by = Tree("constant", WHOLE, number=self.random.choice([-1, -2, -3]))
                return Tree(op, REAL, (self.tree(depth, WHOLE), by))
            return Tree(op, REAL, (self.tree(depth, REAL), self._any(depth, REAL, WHOLE)))
        if op in (*ARITHMETIC, *CHOICES) and self.random.random() < 0.4:
            pair = [self.tree(depth, REAL), self._any(depth, WHOLE, BOOLEAN)]
            self.random.shuffle(pair)
            return Tree(op, REAL, (self.tree(depth, BOOLEAN), *pair) if op == "where" else tuple(pair))
        return self._same(op, depth, REAL)


def draw_value(kind: str, chance: random.Random) -> Any:
    if kind == WHOLE:
        edges = [0, 1, -1, 2, 3, -7, 100, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**31]
        return chance.choice([chance.choice(edges), chance.randrange(-20, 20), chance.randrange(-(2**62), 2**62)])
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-300, 1e300, math.inf, -math.inf, math.nan, 2.0**53, 2.0**63]
    return chance.choice(
        [chance.choice(edges), chance.gauss(0, 10), float(chance.randrange(-9, 9)), chance.gauss(0, 1e18)]
    )


# ---- the oracle ----------------------------------------------------------------------------------------------


class Oracle:
    """like_python: whether nothing happened for which Python has another result, or none."""

    def __init__(self) -> None:
        self.like_python = True

    def value(self, tree: Tree, inputs: Sequence[Any]) -> Any:
        if tree.op in ("input", "constant"):
            return tree.call(inputs)
        parts = [self.value(part, inputs) for part in tree.parts]
        with np.errstate(all="ignore"):
            result = getattr(self, f"_{tree.op}", self._usual(tree.op))(*parts)
        return self.as_kind(result, tree.kind)

    def _usual(self, op: str) -> Callable[..., Any]:
        return OPERATIONS[op]

    def as_kind(self, value: Any, kind: str) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if kind == BOOLEAN:
            return bool(value)
        if kind == REAL:
            self._note(isinstance(value, float))  # Python would continue with a whole number
            return float(value)
        wrapped = (int(value) + 2**63) % 2**64 - 2**63
        self._note(wrapped == value)
        return wrapped

    def _note(self, like_python: bool) -> None:
        self.like_python = self.like_python and bool(like_python)

    def _truediv(self, left: Any, right: Any) -> float:
        self._note(all(isinstance(one, float) or abs(one) <= EXACT for one in (left, right)))
        left, right = float(left), float(right)
        if right != 0:
            return left / right
        self._note(False)
        return math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left) * math.copysign(1.0, right)

    def _floordiv(self, left: Any, right: Any) -> Any:
        if right != 0:
            return left // right
        self._note(False)
        return self._truediv(left, right) if isinstance(left, float) or isinstance(right, float) else 0

    def _mod(self, left: Any, right: Any) -> Any:
        if right != 0:
            return left % right
        self._note(False)
        return math.nan if isinstance(left, float) or isinstance(right, float) else 0

    def _pow(self, left: Any, right: Any) -> Any:
        if isinstance(left, int) and isinstance(right, int) and right >= 0:
            return left**right
        left, right = float(left), float(right)
        is_finite = math.isfinite(left) and math.isfinite(right)
        if is_finite and left < 0 and right != math.floor(right):  # a complex number
            self._note(False)
            return math.nan
        try:
            return left**right
        except (ZeroDivisionError, OverflowError):
            self._note(False)
            return math.copysign(math.inf, left) if right % 2 == 1 else math.inf

    def _where(self, condition: bool, yes: Any, no: Any) -> Any:
        return yes if condition else no

    def _least(self, left: Any, right: Any) -> Any:
        return min(left, right)

    def _greatest(self, left: Any, right: Any) -> Any:
        return max(left, right)

    def _minimum(self, left: Any, right: Any) -> Any:
        return math.nan if left != left or right != right else min(left, right)

    def _maximum(self, left: Any, right: Any) -> Any:
        return math.nan if left != left or right != right else max(left, right)

    def _not(self, value: bool) -> bool:
        return not value

    def _exp(self, value: Any) -> float:
        self._note(False)  # NumPy's differs in the last bit
        try:
            return math.exp(value)
        except OverflowError:
            return math.inf

    def _log(self, value: Any) -> float:
        self._note(False)
        if value > 0 or math.isnan(value):
            return math.log(value)
        return -math.inf if value == 0 else math.nan

    def _rounded(self, value: Any, function: Callable[[Any], int]) -> int:
        if isinstance(value, int):
            return int(value)
        if math.isfinite(value):
            whole = function(value)
            self._note(-(2**63) <= whole < 2**63)
            return min(max(whole, -(2**63)), 2**63 - 1)
        self._note(False)
        return 0 if math.isnan(value) else 2**63 - 1 if value > 0 else -(2**63)

    def _floor(self, value: Any) -> int:
        return self._rounded(value, math.floor)

    def _ceil(self, value: Any) -> int:
        return self._rounded(value, math.ceil)

    def _trunc(self, value: Any) -> int:
        return self._rounded(value, math.trunc)

    def _round(self, value: Any) -> int:
        return self._rounded(value, round)
