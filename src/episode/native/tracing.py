"""Python functions of numbers as data: a function is called once with proxies, which record what is done with them.

    recording = Recording()
    total, value = recording.input(REAL), recording.input(REAL)
    returned = recording.call(step, total, value)
    trace = recording.trace((returned,), (REAL,))

A trace is plain data that any builder can emit (`traced_code`), in another process as well. The code does what the
function does on Python's numbers, except where Python raises and where a whole number needs more than 64 bits.

Python's own `if`, `while`, `and`, `min` and the like need the value of a number, which a proxy does not have: such a
function is `NotTraced`, with the place (`traced.find_place`). `traced` has the proxies, and what can be done with them.

See decision 191.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from episode.native.traced import BOOLEAN, REAL, WHOLE, SourcePlace, Traced, describe, explain, find_place

MOST_STEPS = 1_000
"""Operations in one function. A loop over plain numbers is unrolled."""
LEAST, MOST = -(2**63), 2**63 - 1
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_OF_REALS = ("sqrt", "exp", "log")
_SIGNS = {"and": "&", "or": "|", "xor": "^"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


class NotTraced(BaseException):
    """A function cannot be traced. Not an Exception, so that no `except` of the function itself catches it."""

    def __init__(self, message: str, hint: str = "", place: SourcePlace | None = None) -> None:
        super().__init__(message)
        self.message, self.hint, self.place = message, hint, place


@dataclass(frozen=True)
class TraceStep:
    """One operation. operands: the numbers of earlier steps. constant: of a constant, its exact text."""

    op: str
    kind: str
    operands: tuple[int, ...] = ()
    constant: str = ""


@dataclass(frozen=True)
class Trace:
    """The operations of a function. The first steps are its inputs. results: the steps that it returns."""

    steps: tuple[TraceStep, ...]
    results: tuple[int, ...]


class Recording:
    """The steps of a function that is being called. name: what errors call the function."""

    def __init__(self, name: str = "The function") -> None:
        self.name = name
        self.steps: list[TraceStep] = []
        self._known: dict[TraceStep, int] = {}
        self._failure: NotTraced | None = None
        self._function: Callable[..., Any] | None = None

    def input(self, kind: str) -> Traced:
        """A number that the function is called with."""
        self.steps.append(TraceStep("input", kind))
        return Traced(self, len(self.steps) - 1, kind)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what the function returns."""
        self._function = function
        try:
            returned = function(*arguments)
        except Exception as error:
            text = f"raises {type(error).__name__}: {error}"
            hint = "It is called once, with proxies in place of numbers, and must return then."
            raise NotTraced(f"{self.name} {text}", hint, find_place(function, error)) from error
        if self._failure is not None:
            raise self._failure
        return returned

    def kind_of(self, number: object) -> str | None:
        """The kind of a number that the function returned; None if it is not a number."""
        if type(number) is Traced:
            return self.own(number)._kind
        if isinstance(number, (bool, np.bool_)):
            return BOOLEAN
        if isinstance(number, (int, np.integer)):
            return WHOLE
        return REAL if isinstance(number, (float, np.floating)) else None

    def null_of(self, number: object) -> Traced | bool:
        """Whether a number that the function returned is null."""
        return number._null if type(number) is Traced and number._null is not None else number is None

    def trace(self, numbers: Sequence[Any], kinds: Sequence[str]) -> Trace:
        """The trace that returns numbers, converted to kinds."""
        results = tuple(self.convert(number, kind)._at for number, kind in zip(numbers, kinds, strict=True))
        return Trace(tuple(self.steps), results)

    # ---- steps -----------------------------------------------------------------------------------------

    def add(self, op: str, kind: str, *operands: Traced, constant: str = "") -> Traced:
        """A step; one that was made before is not made again."""
        step = TraceStep(op, kind, tuple(one._at for one in operands), constant)
        if step not in self._known:
            if len(self.steps) >= MOST_STEPS:
                self.fail(f"does more than {MOST_STEPS:,} operations", "Loops over plain numbers are unrolled.")
            self.steps.append(step)
            self._known[step] = len(self.steps) - 1
        return Traced(self, self._known[step], kind)

    def constant(self, number: bool | int | float, kind: str) -> Traced:
        if kind == REAL:
            return self.add("constant", REAL, constant=float(number).hex())
        if not LEAST <= number <= MOST:
            self.fail(f"uses {number}, which does not fit into 64 bits", "Write it as a float, for example 1e20.")
        return self.add("constant", kind, constant=str(int(number)))

    def own(self, number: Traced) -> Traced:
        """A number of this call."""
        if number._recording is not self:
            self.fail("uses a value of another call", "Keep values in the state that the function returns.")
        return number

    def convert(self, number: Any, kind: str) -> Traced:
        """A number as a kind that can hold it; real numbers remain real."""
        if type(number) is not Traced:
            return self.constant(number, kind)
        if self.own(number)._kind == kind:
            return number
        return self.add("to_real" if kind == REAL else "to_whole", kind, number)

    def unify(self, *numbers: Any) -> tuple[str, list[Any]]:
        """The kind that can hold all numbers, and the numbers: proxies, or plain numbers of Python."""
        kinds = []
        given = [number.item() if isinstance(number, np.generic) else number for number in numbers]
        for number in given:
            kind = self.kind_of(number)
            if kind is None:
                self.fail(f"computes with {describe(number)}", "Traced functions compute with numbers alone.")
            if type(number) is Traced and number._null is not None:
                self.fail("computes with what may be None", "Choose None last, in what finish returns.")
            kinds.append(kind)
        kind = REAL if REAL in kinds else WHOLE if WHOLE in kinds else BOOLEAN
        return kind, given

    def binary(self, op: str, left: Any, right: Any) -> Traced:
        kind, numbers = self.unify(left, right)
        if op in ("and", "or", "xor"):
            if kind == REAL:
                self.fail(f"combines real numbers by {_SIGNS[op]}", f"Compare first: (a > 0) {_SIGNS[op]} (b > 0).")
            return self.add(op, kind, *(self.convert(one, kind) for one in numbers))
        if op in COMPARISONS:
            return self._compare(op, *numbers)
        if op == "pow":
            return self._power(*numbers)
        if op in ("shl", "shr"):
            return self._shift(op, kind, *numbers)
        kind = REAL if kind == REAL or op == "div" else WHOLE
        return self.add(op, kind, *(self.convert(one, kind) for one in numbers))

    def _compare(self, op: str, left: Any, right: Any) -> Traced:
        """Numbers of different kinds are compared exactly, as Python does: the whole one first."""
        kinds = [REAL if self.kind_of(one) == REAL else WHOLE for one in (left, right)]
        for at, one in enumerate((left, right)):
            if kinds[1 - at] == REAL and type(one) in (bool, int) and _is_real(one):
                kinds[at] = REAL
        if kinds == [REAL, WHOLE]:
            op, left, right, kinds = _MIRRORED[op], right, left, [WHOLE, REAL]
        return self.add(op, BOOLEAN, self.convert(left, kinds[0]), self.convert(right, kinds[1]))

    def _power(self, base: Any, exponent: Any) -> Traced:
        if REAL not in (self.kind_of(base), self.kind_of(exponent)):
            if type(exponent) is Traced:
                message = "raises a whole number to a power that is not known yet: the result may be whole or not"
                self.fail(message, "Make one of them real: (a * 1.0) ** b.")
            if exponent >= 0:
                return self._whole_power(self.convert(base, WHOLE), int(exponent))
        return self.add("pow", REAL, self.convert(base, REAL), self.convert(exponent, REAL))

    def _whole_power(self, base: Traced, exponent: int) -> Traced:
        """By squaring."""
        result = self.constant(1, WHOLE)
        while exponent:
            if exponent & 1:
                result = self.add("mul", WHOLE, result, base)
            exponent >>= 1
            if exponent:
                base = self.add("mul", WHOLE, base, base)
        return result

    def _shift(self, op: str, kind: str, number: Any, by: Any) -> Traced:
        if kind == REAL or type(by) is Traced or not 0 <= by < 64:
            message = "shifts by something other than a plain number from 0 to 63"
            self.fail(message, "Multiply by a power of 2, or divide by one with //.")
        return self.add(op, WHOLE, self.convert(number, WHOLE), self.constant(by, WHOLE))

    def unary(self, op: str, number: Traced) -> Traced:
        kind, (value,) = self.unify(number)
        if op == "not" and kind == REAL:
            self.fail("applies ~ to a real number", "Compare first: ~(a > 0).")
        kind = REAL if op in _OF_REALS else WHOLE if op != "not" and kind == BOOLEAN else kind
        return self.add(op, kind, self.convert(value, kind))

    def round_to_whole(self, op: str, number: Traced) -> Traced:
        """A real number rounded, as a whole one."""
        kind, (value,) = self.unify(number)
        if kind != REAL:
            return self.convert(value, WHOLE)
        return self.add("cut", WHOLE, value if op == "cut" else self.add(op, REAL, value))

    def choose(self, condition: Traced, yes: Any, no: Any) -> Any:
        """`where` of a condition that is not known yet."""
        if self.own(condition)._kind != BOOLEAN or condition._null is not None:
            self.fail("calls where with a number as the condition", "Compare it: episode.where(a != 0, …).")
        if yes is None and no is None:
            return None
        kind, numbers = self.unify(*(_present(one) for one in (yes, no) if one is not None))
        values = [self.convert(one, kind) for one in numbers]
        value = values[0] if len(values) == 1 else self.add("select", kind, condition, *values)
        nulls = [self.null_of(one) for one in (yes, no)]
        if all(null is False for null in nulls):
            return value
        null = self.add("select", BOOLEAN, condition, *(self.convert(one, BOOLEAN) for one in nulls))
        return Traced(self, value._at, kind, null)

    # ---- what cannot be traced ---------------------------------------------------------------------------

    def fail(self, message: str, hint: str) -> NoReturn:
        """Raise `NotTraced` with the place that the function has reached."""
        place = None if self._function is None else find_place(self._function)
        raise self._remember(NotTraced(f"{self.name} {message}", hint, place))

    def fail_at(self, need: str) -> NoReturn:
        """Python needs something of a proxy that only a number has: need is the name of the method it calls."""
        assert self._function is not None
        place = find_place(self._function)
        message, hint = explain(need, place)
        raise self._remember(NotTraced(f"{self.name} {message}", hint, place))

    def _remember(self, failure: NotTraced) -> NotTraced:
        self._failure = self._failure or failure
        return failure


def _is_real(number: int) -> bool:
    """Is a whole number a double as well?"""
    try:
        return float(number) == number
    except OverflowError:
        return False


def _present(number: Any) -> Any:
    """A number that may be None, as a number."""
    return Traced(number._recording, number._at, number._kind) if type(number) is Traced else number
