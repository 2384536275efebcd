"""Tracing: operations against plain Python at the edges, what a trace is, and everything that cannot be traced."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from episode.native.builder import Program
from episode.native.ir import BOOL, F64, I64
from episode.native.traced import BOOLEAN, REAL, WHOLE, Traced, greatest, least, where
from episode.native.traced_code import TYPES, emit_trace
from episode.native.tracing import MOST_STEPS, NotTraced, Recording, Trace
from tests.unit.native.runs import run_all_ways

HALF = np.float64(0.5)
SOME = np.int64(3)


def trace(function: Callable[..., Any], *kinds: str) -> tuple[Trace, str]:
    recording = Recording()
    returned = recording.call(function, *(recording.input(kind) for kind in kinds))
    kind = recording.kind_of(returned)
    assert kind is not None
    return recording.trace((returned,), (kind,)), kind


def run(function: Callable[..., Any], kinds: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[Any]:
    """What the traced function gives for rows of numbers."""
    made, kind = trace(function, *kinds)
    program = Program("traced")
    f = program.function("run")
    given = [f.array(f"given{at}", TYPES[one]) for at, one in enumerate(kinds)]
    out = f.array("out", F64 if kind == REAL else I64, writable=True)
    with f.loop(0, out.length) as row:
        (value,) = emit_trace(f, made, [one[row] for one in given])
        out[row] = value.to(I64) if value.type is BOOL else value
    f.give(0)
    columns = [np.array([row[at] for row in rows], one.type.dtype) for at, one in enumerate(given)]
    _, arrays = run_all_ways(program, [*columns, np.zeros(len(rows), out.type.dtype)])
    results = arrays[-1].tolist()
    return [bool(one) for one in results] if kind == BOOLEAN else results


def alike(one: Any, other: Any) -> bool:
    if one != one or other != other:
        return one != one and other != other
    return type(one) is type(other) and one == other and math.copysign(1, one) == math.copysign(1, other)


REALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 7.25, -7.25, 1e16, 1e-300, 1e300, math.inf, -math.inf, math.nan]
WHOLES = [0, 1, -1, 2, 3, -3, 7, -7, 100, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63)]

OF_TWO: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "floor": lambda a, b: a // b,
    "modulo": lambda a, b: a % b,
    "divmod": lambda a, b: divmod(a, b)[0] + divmod(a, b)[1],
    "less": lambda a, b: a < b,
    "at most": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "at least": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "different": lambda a, b: a != b,
    "least": lambda a, b: least(a, b, 2.5),
    "greatest": lambda a, b: greatest(a, b, 2.5),
    "where": lambda a, b: where((a > b) | (a == 1), a, b),
    "neither": lambda a, b: where((a > 0) ^ (b > 0), 1, 2),
    "truths": lambda a, b: (a > b) + (a < b) * 2,
    "clip": lambda a, b: where(a > b, where(a > 3, 3.0, a * 1.0), b * 1.0),
}
OF_ONE: dict[str, Callable[..., Any]] = {
    "negate": lambda a: -a,
    "plus": lambda a: +a,
    "abs": lambda a: abs(a),
    "floor": lambda a: math.floor(a),
    "ceil": lambda a: math.ceil(a),
    "trunc": lambda a: math.trunc(a),
    "round": lambda a: round(a),
    "square": lambda a: a**2,
    "cube": lambda a: pow(a, 3),
    "constants on the left": lambda a: (3 - a) * 2 + (a > 1),
    "numbers of NumPy": lambda a: HALF * a + SOME - np.True_,
    "isinstance": lambda a: a * 2 if isinstance(a, float) else a * 3,
    "no number is None": lambda a: 0 if a is None else a,
    "an unrolled loop": lambda a: sum(a * n for n in range(4)),
}
OF_REALS: dict[str, Callable[..., Any]] = {
    "divide by": lambda a: 7 // a if isinstance(a, int) else 7.5 / a,
    "power": lambda a: a**0.5,
    "inverse": lambda a: a**-1,
    "to a power": lambda a: 2.0**a,
    "is_nan": lambda a: np.isnan(a),
}
OF_WHOLES: dict[str, Callable[..., Any]] = {
    "bits": lambda a: (a & 12) | (a ^ 5),
    "turned": lambda a: ~a,
    "shifted": lambda a: (a >> 3) + (1 & (a << 2)),
    "power": lambda a: a**-2,
    "seventh": lambda a: a**7,
}


def plainly(function: Callable[..., Any], row: tuple[Any, ...]) -> Any:
    """What Python gives, or None if it has no number of 64 bits."""
    try:
        result = function(*row)
    except (ArithmeticError, ValueError):
        return None
    result = result.item() if isinstance(result, np.generic) else result
    return (
        None if isinstance(result, complex) or (isinstance(result, int) and not -(2**63) <= result < 2**63) else result
    )


def compare(function: Callable[..., Any], kinds: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Every result that Python has is the traced one, as a real number if the function may give one."""
    compared = 0
    for row, found in zip(rows, run(function, kinds, rows), strict=True):
        expected = plainly(function, row)
        if expected is not None:
            if type(found) is float and type(expected) is int:
                expected = float(expected)
            compared += 1
            assert alike(found, expected), f"{row}: {found}, not {expected}"
    assert compared > len(rows) // 3


@pytest.mark.parametrize("function", OF_TWO.values(), ids=OF_TWO)
@pytest.mark.parametrize("kinds", [(REAL, REAL), (WHOLE, WHOLE), (WHOLE, REAL), (REAL, WHOLE)], ids="-".join)
def test_two_numbers(function: Callable[..., Any], kinds: tuple[str, str]) -> None:
    numbers = {REAL: REALS, WHOLE: WHOLES}
    rows = [(a, b) for a in numbers[kinds[0]] for b in numbers[kinds[1]]]
    if function is OF_TWO["divide"] and kinds == (WHOLE, WHOLE):  # others are rounded to doubles first
        rows = [row for row in rows if max(map(abs, row)) <= 2**53]
    compare(function, kinds, rows)


@pytest.mark.parametrize("function", [*OF_ONE.values(), *OF_REALS.values()], ids=[*OF_ONE, *OF_REALS])
def test_a_real_number(function: Callable[..., Any]) -> None:
    compare(function, (REAL,), [(a,) for a in REALS])


@pytest.mark.parametrize("function", [*OF_ONE.values(), *OF_WHOLES.values()], ids=[*OF_ONE, *OF_WHOLES])
def test_a_whole_number(function: Callable[..., Any]) -> None:
    compare(function, (WHOLE,), [(a,) for a in WHOLES])


@pytest.mark.parametrize(
    ("function", "kinds", "row", "expected"),
    [
        (lambda a, b: a + b, (WHOLE, WHOLE), (2**63 - 1, 1), -(2**63)),
        (lambda a, b: a * b, (WHOLE, WHOLE), (2**62, 4), 0),
        (lambda a, b: a // b, (WHOLE, WHOLE), (-(2**63), -1), -(2**63)),
        (lambda a, b: a % b, (WHOLE, WHOLE), (-(2**63), -1), 0),
        (lambda a, b: a // b, (WHOLE, WHOLE), (5, 0), 0),
        (lambda a, b: a % b, (WHOLE, WHOLE), (5, 0), 0),
        (lambda a, b: a / b, (WHOLE, WHOLE), (-5, 0), -math.inf),
        (lambda a, b: a / b, (WHOLE, WHOLE), (0, 0), math.nan),
        (lambda a, b: a / b, (REAL, REAL), (5.0, -0.0), -math.inf),
        (lambda a, b: a // b, (REAL, REAL), (5.0, 0.0), math.inf),
        (lambda a, b: a // b, (REAL, REAL), (0.0, 0.0), math.nan),
        (lambda a, b: a % b, (REAL, REAL), (5.0, 0.0), math.nan),
        (lambda a, b: a**b, (REAL, REAL), (-8.0, 0.5), math.nan),
        (lambda a, b: a**b, (REAL, REAL), (10.0, 400.0), math.inf),
        (lambda a, b: a**b, (REAL, WHOLE), (0.0, -1), math.inf),
        (lambda a: a**-1, (WHOLE,), (0,), math.inf),
        (lambda a: abs(a), (WHOLE,), (-(2**63),), -(2**63)),
        (lambda a: a << 63, (WHOLE,), (3,), -(2**63)),
        (lambda a: math.floor(a), (REAL,), (1e300,), 2**63 - 1),
        (lambda a: math.trunc(a), (REAL,), (-math.inf,), -(2**63)),
        (lambda a: round(a), (REAL,), (math.nan,), 0),
        (lambda a: np.sqrt(a), (REAL,), (-1.0,), math.nan),
        (lambda a: np.exp(a), (REAL,), (1000.0,), math.inf),
        (lambda a: np.log(a), (REAL,), (0.0,), -math.inf),
        (lambda a: np.log(a), (WHOLE,), (-1,), math.nan),
        (lambda a: ~(a > 0), (REAL,), (1.0,), False),
    ],
)  # fmt: skip
def test_where_python_has_no_number(
    function: Callable[..., Any], kinds: tuple[str, ...], row: tuple[Any, ...], expected: Any
) -> None:
    (found,) = run(function, kinds, [row])
    assert alike(found, expected)


@pytest.mark.parametrize("name", ["sqrt", "floor", "ceil", "absolute", "isnan", "negative", "logical_not"])
def test_functions_of_numpy(name: str) -> None:
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        expected = [function(one).item() for one in REALS]
    assert all(map(alike, run(lambda a: function(a), (REAL,), [(one,) for one in REALS]), expected))


@pytest.mark.parametrize(
    "name", ["minimum", "maximum", "add", "remainder", "floor_divide", "logical_and", "logical_or"]
)
def test_functions_of_numpy_of_two_numbers(name: str) -> None:
    function = getattr(np, name)
    rows = [(a, b) for a in REALS for b in REALS if a or b]
    with np.errstate(all="ignore"):
        expected = [function(*row).item() for row in rows]
    assert all(map(alike, run(lambda a, b: function(a, b), (REAL, REAL), rows), expected))


@pytest.mark.parametrize("function", [np.exp, np.log])
def test_exponentials_are_those_of_c(function: Any) -> None:
    rows = [(0.1 * number,) for number in range(1, 500)]
    assert run(lambda a: function(a), (REAL,), rows) == [getattr(math, function.__name__)(*row) for row in rows]


def test_powers_by_constants_are_those_of_c() -> None:
    """LLVM would multiply, or take the square root: other doubles, in one of a thousand cases."""
    numbers = np.random.default_rng(5).normal(0, 100, 5_000).tolist()
    for power in (2, 0.5, 3.0, -1.0):
        rows = [(abs(number),) for number in numbers]
        assert run(lambda a, power=power: a**power, (REAL,), rows) == [a**power for (a,) in rows]
    assert run(lambda a: 2.0**a, (REAL,), [(one / 10,) for one in numbers]) == [2.0 ** (one / 10) for one in numbers]


# ---- where, least and greatest -------------------------------------------------------------------------------------


def test_plain_numbers() -> None:
    assert where(True, 1, "no") == 1
    assert where(np.bool_(False), None, 2.5) == 2.5
    assert (least(3, 1.5, 2), greatest(3, 1.5, 2), least(7)) == (1.5, 3, 7)
    assert least(1.0, math.nan) == 1.0 == min(1.0, math.nan)
    for condition in (1, -2, 0.0, None, "x"):
        with pytest.raises(TypeError, match="a truth value"):
            where(condition, 1, 2)


def test_a_choice_with_none() -> None:
    recording = Recording()
    a = recording.input(WHOLE)
    chosen = where(a > 5, where(a > 7, None, 1.5), where(a < 0, a, None))
    null = recording.null_of(chosen)
    assert isinstance(null, Traced)
    assert recording.null_of(where(a > 5, 1, 2)) is False
    assert where(a > 5, None, None) is None
    made = recording.trace((chosen, null), (REAL, BOOLEAN))
    program = Program("none")
    f = program.function("run")
    given, out = f.array("given", I64), f.array("out", F64, writable=True)
    with f.loop(0, out.length) as row:
        value, is_null = emit_trace(f, made, [given[row]])
        out[row] = f.select(is_null, math.nan, value)
    f.give(0)
    _, arrays = run_all_ways(program, [np.array([9, 6, -3, 2]), np.zeros(4)])
    assert np.array_equal(arrays[1], [np.nan, 1.5, -3.0, np.nan], equal_nan=True)


# ---- traces --------------------------------------------------------------------------------------------------------


def test_equal_functions_have_equal_traces_and_different_constants_do_not() -> None:
    one, _ = trace(lambda a: (a + 1.0) * (a + 1.0), REAL)
    other, _ = trace(lambda number: (number + 1.0) * (number + 1.0), REAL)
    assert one == other
    assert hash(one) == hash(other)
    assert [step.op for step in one.steps] == ["input", "constant", "add", "mul"]
    traces = [trace(function, REAL)[0] for function in (
        lambda a: a + 0.0, lambda a: a + -0.0, lambda a: a + math.nan, lambda a: a * (a > 1), lambda a: a * (a > True),
    )]  # fmt: skip
    assert len({*traces[:4]}) == 4
    assert traces[3] == traces[4]
    assert trace(lambda a: a + math.nan, REAL)[0] == traces[2]


def test_a_trace_is_plain_data() -> None:
    made, _ = trace(lambda a: where(a > 1e-7, np.sqrt(a), -0.0), REAL)
    assert pickle.loads(pickle.dumps(made)) == made


# ---- what cannot be traced -----------------------------------------------------------------------------------------


def branching(a: Any) -> Any:
    if a > 0:
        return a
    return -a


def looping(a: Any) -> Any:
    while a > 1:
        a = a / 2
    return a


def asserting(a: Any) -> Any:
    assert a > 0
    return a


def matching(a: Any) -> Any:
    match a:
        case 1:
            return 2
    return a


def catching(a: Any) -> Any:
    try:
        return branching(a)
    except BaseException:  # noqa: BLE001
        return 0.0


def helping(a: Any) -> Any:
    return branching(a) + 1


def unpacking(a: Any) -> Any:
    first, _ = a
    return first


REFUSED: list[tuple[Callable[..., Any], str, str, str]] = [
    (branching, "uses `if` on a number", "episode.where", "a > 0"),
    (looping, "uses `while` on", "for _ in range(3)", "a > 1"),
    (asserting, "uses `assert` on", "Leave it out", "assert a > 0"),
    (matching, "decides by a number", "episode.where", "1"),
    (catching, "uses `if` on", "episode.where", "a > 0"),
    (helping, "uses `if` on", "episode.where", "a > 0"),
    (unpacking, "loops over a number, or unpacks it", "initial=(0.0, 0)", "first, _"),
    (lambda a: 1 if a > 0 else 2, "uses `if … else` on", "episode.where", "a > 0"),
    (lambda a: a > 0 and a < 5, "uses `and` or `or`", "(a > 0) & (b > 0)", "a > 0 and a < 5"),
    (lambda a: not a, "uses `not` on", "~(a > 0)", "not a"),
    (lambda a: 0 < a < 5, "uses a chain of comparisons", "(a < b) & (b < c)", "0 < a < 5"),
    (lambda a: a in (1, 2), "uses `in` on", "(a == 1) | (a == 2)", "a in (1, 2)"),
    (lambda a: sum(n for n in range(3) if a > n), "uses `if` on", "episode.where", "a > n"),
    (lambda a: min(a, 1), "calls min with a number", "episode.least(a, b)", "min(a, 1)"),
    (lambda a: max([a, 1]), "calls max with", "episode.greatest(a, b)", "max([a, 1])"),
    (lambda a: sorted([a, 1])[0], "calls sorted with", "episode.where", "sorted([a, 1])"),
    (lambda a: any([a > 1]), "calls any with", "episode.where", "any([a > 1])"),
    (lambda a: bool(a), "calls bool with", "a != 0", "bool(a)"),
    (lambda a: math.sqrt(a), "calls math.sqrt with", "numpy.sqrt(a)", "math.sqrt(a)"),
    (lambda a: math.log(a), "calls math.log with", "numpy.log(a)", "math.log(a)"),
    (lambda a: math.hypot(a, 1), "calls math.hypot with", "numpy.sqrt", "math.hypot(a, 1)"),
    (lambda a: float(a), "calls float with", "a * 1.0", "float(a)"),
    (lambda a: int(a), "calls int with", "math.trunc(a)", "int(a)"),
    (lambda a: complex(a), "calls complex with", "real numbers", "complex(a)"),
    (lambda a: sum(range(a)), "calls range with", "range(3)", "range(a)"),
    (lambda a: [1, 2][a], "takes as a length or a place", "episode.where", "[1, 2][a]"),
    (lambda a: {1: 2}[a], "looks up, in a set or a dict", "episode.where", "{1: 2}[a]"),
    (lambda a: [n for n in a], "loops over a number", "initial=(0.0, 0)", "[n for n in a]"),  # noqa: C416
    (lambda a: len(a), "calls len with", "initial=(0.0, 0)", "len(a)"),
    (lambda a: a[0], "asks for a part of a number", "initial=(0.0, 0)", "a[0]"),
    (lambda a: a(1), "calls a with a number", "functions that can be traced", "a(1)"),
    (lambda a: a.is_integer(), "asks a number for .is_integer", "Use operators", "a.is_integer"),
    (lambda a: a + None, "computes with None", "numbers alone", "a + None"),
    (lambda a: a + "x", "computes with a str", "numbers alone", 'a + "x"'),
    (lambda a: a + np.ones(2), "computes with a ndarray", "numbers alone", "a + np.ones(2)"),
    (lambda a: where(a > 0, None, a) + 1, "with what may be None", "Choose None last", "where(a > 0, None, a) + 1"),
    (lambda a: where(a, 1, 2), "where with a number as the condition", "a != 0", "where(a, 1, 2)"),
    (lambda a: a & 1.5, "combines real numbers by &", "(a > 0) & (b > 0)", "a & 1.5"),
    (lambda a: ~(a * 1.0), "applies ~ to a real number", "~(a > 0)", "~(a * 1.0)"),
    (lambda a: a << 64, "shifts by something other", "power of 2", "a << 64"),
    (lambda a: 1 << a, "shifts by something other", "power of 2", "1 << a"),
    (lambda a: (a > 0) ** (a > 1), "to a power that is not known yet", "(a * 1.0) ** b", "(a > 0) ** (a > 1)"),
    (lambda a: pow(a, 2, 3), "pow with a modulus", "a ** b % c", "pow(a, 2, 3)"),
    (lambda a: round(a, 2), "rounds to a number of digits", "round(a * 100) / 100", "round(a, 2)"),
    (lambda a: math.trunc(a) + 2**64, "does not fit into 64 bits", "as a float", "math.trunc(a) + 2**64"),
    (lambda a: np.tan(a), "calls numpy.tan", "Of NumPy, use sqrt", "np.tan(a)"),
    (lambda a: np.where(a > 0, 1, 2), "calls numpy.where", "episode.where", "np.where(a > 0, 1, 2)"),
    (lambda a: np.clip(a, 0, 1), "calls numpy.clip", "Of NumPy, use sqrt", "np.clip(a, 0, 1)"),
    (lambda a: np.add.reduce([a, a]), "", "", "np.add.reduce([a, a])"),
    (lambda a: 1 // 0, "raises ZeroDivisionError", "It is called once", "1 // 0"),
    (lambda a: undefined(a), "raises NameError", "It is called once", "undefined"),  # noqa: F821
    (lambda a: sum(a * n + n for n in range(MOST_STEPS)), "more than 1,000 operations", "unrolled", "a * n + n"),
]  # fmt: skip
"""A function, what it is told that it does, the remedy, and the place."""


@pytest.mark.parametrize(("function", "message", "hint", "place"), REFUSED)
def test_what_cannot_be_traced(function: Callable[..., Any], message: str, hint: str, place: str) -> None:
    with pytest.raises(NotTraced) as raised:
        trace(function, REAL)
    failure = raised.value
    assert message in failure.message
    assert hint in failure.hint
    found = failure.place
    assert found is not None
    assert found.file == __file__
    assert found.source[found.position :].startswith(found.source.split("\n")[found.line - 1][found.column :])
    text = found.source[found.position : found.position + found.length]
    assert place in text or text in place  # versions of Python differ in what they call the place


def test_values_do_not_outlive_their_call() -> None:
    seen: list[Any] = []

    def remembering(a: Any) -> Any:
        seen.append(a)
        return seen[0] + a

    trace(remembering, REAL)
    with pytest.raises(NotTraced, match="a value of another call"):
        trace(remembering, REAL)


def test_functions_without_source_are_refused_without_a_place() -> None:
    function = eval("lambda a: min(a, 1)")  # noqa: S307
    with pytest.raises(NotTraced, match="decides by a number that is known only when a query runs") as raised:
        trace(function, REAL)
    assert raised.value.place is None
