"""Every operation over edges and random numbers: compiled, checked and interpreted alike, and as Python computes it."""

from __future__ import annotations

import numpy as np
import pytest

from episode.native.builder import Function, Program
from episode.native.ir import (
    ARITHMETIC,
    BITWISE,
    BOOL,
    COMPARISONS,
    ELEMENTS,
    F32,
    F64,
    I32,
    I64,
    I128,
    OVERFLOWS,
    SHIFTS,
    U8,
    U32,
    U64,
    Type,
    Value,
)
from tests.unit.native.runs import run_all_ways

WHOLE = (U8, I32, U32, I64, U64)
FLOATS = (F32, F64)


def numbers(type_: Type, seed: int = 7) -> np.ndarray:
    """Pairs of interesting numbers of a type, flattened: [a0, b0, a1, b1, …]."""
    rng = np.random.default_rng(seed)
    if type_.is_float:
        edges = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e30, -1e-30, np.inf, -np.inf, np.nan, 2.0**53, -(2.0**31), 709.0]
        drawn = [*rng.normal(0, 100, 20), *rng.normal(0, 1e12, 10)]
    else:
        least, most = type_.bounds
        edges = [least, least + 1, most, most - 1, 0, 1, 2, 3, 7, most // 2, most // 3]
        edges += [-1, -2, -7] if type_.is_signed else []
        drawn = [int(one) for one in rng.integers(least, most, 20, type_.dtype, endpoint=True)]
    values = [*edges, *drawn]
    return np.array([[a, b] for a in values for b in values], type_.dtype).ravel()


def over_pairs(type_: Type, result: Type, build, given: np.ndarray) -> np.ndarray:
    """out[i] = build(a[i], b[i])"""
    program = Program("pairs")
    f = program.function("run")
    pairs, out = f.array("pairs", type_), f.array("out", U8 if result is BOOL else result, writable=True)
    with f.loop(0, out.length) as row:
        value = build(f, pairs[row * 2], pairs[row * 2 + 1])
        out[row] = value.to(U8) if result is BOOL else value
    f.give(0)
    made = np.zeros(len(given) // 2, out.type.dtype)
    return run_all_ways(program, [given, made])[1][1]


def exactly(op: str, a: int, b: int, type_: Type) -> int:
    """What the operation gives by Python's unlimited numbers."""
    if op in ("div", "rem"):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "div" else a - quotient * b
    exact = {
        "add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b,
        "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b,
        "shl": a << b if 0 <= b < 128 else 0, "shr": a >> b if 0 <= b < 128 else 0,
    }  # fmt: skip
    if op.endswith("_overflows"):
        least, most = type_.bounds
        return not least <= exact[op.removesuffix("_overflows")] <= most
    return exact[op]


@pytest.mark.parametrize("type_", WHOLE, ids=str)
@pytest.mark.parametrize("op", [*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARISONS, *OVERFLOWS])
def test_whole_numbers(op: str, type_: Type) -> None:
    given = numbers(type_)
    if op in SHIFTS:
        given = np.array([x for a, b in given.reshape(-1, 2).tolist() for x in (a, b % type_.bits)], type_.dtype)
    if op in ("div", "rem"):
        least = type_.bounds[0]
        pairs = [(a, b) for a, b in given.reshape(-1, 2).tolist() if b != 0 and not (a == least and b == -1)]
        given = np.array(pairs, type_.dtype).ravel()
    result = BOOL if op in COMPARISONS or op in OVERFLOWS else type_
    made = over_pairs(type_, result, lambda f, a, b: f.binary(op, a, b), given)
    modulus = 1 << (8 if result is BOOL else type_.bits)
    expected = [exactly(op, a, b, type_) % modulus for a, b in given.reshape(-1, 2).tolist()]
    assert [int(one) % modulus for one in made.tolist()] == expected


@pytest.mark.parametrize(
    ("op", "type_"), [*((op, type_) for op in (*ARITHMETIC, *COMPARISONS) for type_ in FLOATS), ("pow", F64)], ids=str
)
def test_floats(op: str, type_: Type) -> None:
    result = BOOL if op in COMPARISONS else type_
    given = numbers(type_)
    made = over_pairs(type_, result, lambda f, a, b: f.binary(op, a, b), given)
    a, b = given[0::2], given[1::2]
    numpy = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod, "pow": np.power,
        "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
        "ne": np.not_equal,
    }  # fmt: skip
    with np.errstate(all="ignore"):
        expected = numpy[op](a, b).astype(made.dtype)
    np.testing.assert_allclose(made, expected, rtol=1e-15 if op == "pow" else 0)


ONE_OPERAND = [
    *(("neg", type_) for type_ in ELEMENTS),
    *(("not", type_) for type_ in WHOLE),
    *((op, type_) for op in ("sqrt", "abs", "floor", "ceil") for type_ in FLOATS),
    ("exp", F64),
    ("log", F64),
]


@pytest.mark.parametrize(("op", "type_"), ONE_OPERAND, ids=str)
def test_one_operand(op: str, type_: Type) -> None:
    given = numbers(type_)
    made = over_pairs(type_, type_, lambda f, a, b: f.unary(op, a), given)
    numpy = {"neg": np.negative, "not": np.invert, "abs": np.abs}.get(op) or getattr(np, op)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(made, numpy(given[0::2]), rtol=1e-15 if op in ("exp", "log") else 0)


@pytest.mark.parametrize("type_", WHOLE, ids=str)
def test_trailing_zeros(type_: Type) -> None:
    given = np.array([one for place in range(type_.bits) for one in (1 << place, 0)], np.uint64)
    given = np.concatenate([given.astype(type_.dtype), numbers(type_)])
    made = over_pairs(type_, type_, lambda f, a, b: f.unary("trailing_zeros", a), given)
    for number, zeros in zip(given[0::2].tolist(), made.tolist()):
        expected = next((place for place in range(type_.bits) if number >> place & 1), type_.bits)
        assert zeros == expected


@pytest.mark.parametrize("source", ELEMENTS, ids=str)
@pytest.mark.parametrize("target", ELEMENTS, ids=str)
def test_casts(source: Type, target: Type) -> None:
    given = numbers(source)
    if source.is_float and not target.is_float:
        least, most = target.bounds
        whole = [x for x in given.tolist() if np.isfinite(x) and least <= int(x) <= most]
        given = np.array(whole + whole, source.dtype)
    made = over_pairs(source, target, lambda f, a, b: a.to(target), given)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(made, given[0::2].astype(target.dtype))


@pytest.mark.parametrize(("source", "target"), [(F64, I64), (I64, F64), (F32, I32), (U64, F64), (I64, U64), (U32, F32)])
def test_bits(source: Type, target: Type) -> None:
    given = numbers(source)
    made = over_pairs(source, target, lambda f, a, b: a.bits_as(target), given)
    same = given[0::2].view(target.dtype)
    np.testing.assert_array_equal(made, same)


def test_select_least_greatest() -> None:
    given = numbers(I64)
    a, b = given[0::2], given[1::2]
    build = {
        "select": lambda f, x, y: f.select(x < y, x, y),
        "least": lambda f, x, y: f.least(x, y),
        "greatest": lambda f, x, y: f.greatest(x, y),
    }
    expected = {"select": np.minimum(a, b), "least": np.minimum(a, b), "greatest": np.maximum(a, b)}
    for name, one in build.items():
        np.testing.assert_array_equal(over_pairs(I64, I64, one, given), expected[name])


@pytest.mark.parametrize("op", ["add", "sub", "mul", "lt", "le", "eq", "add_overflows", "mul_overflows", "shr"])
def test_wide_numbers(op: str) -> None:
    """128 bits, made of products: the result is read in two halves."""
    given = numbers(I64)

    def half(part: int):
        def build(f: Function, a: Value, b: Value) -> Value:
            left, right = a.to(I128) * b.to(I128), b.to(I128) - a.to(I128)
            second = f.constant(33, I128) if op == "shr" else right
            value = f.binary(op, left, second)
            wide = f.select(value, f.constant(1, I128), f.constant(0, I128)) if value.type is BOOL else value
            return (wide >> f.constant(64 * part, I128)).to(I64)

        return build

    low, high = (over_pairs(I64, I64, half(part), given).tolist() for part in (0, 1))
    for (a, b), lower, upper in zip(given.reshape(-1, 2).tolist(), low, high):
        left, right = a * b, 33 if op == "shr" else b - a
        assert (upper << 64) % 2**128 + lower % 2**64 == exactly(op, left, right, I128) % 2**128


def test_conditions() -> None:
    given = numbers(I64)
    a, b = given[0::2], given[1::2]
    made = over_pairs(I64, BOOL, lambda f, x, y: (x < y) & ~(x < 0) | ((y > 5) ^ x.equals(y)), given)
    np.testing.assert_array_equal(made, ((a < b) & ~(a < 0) | ((b > 5) ^ (a == b))).astype(np.uint8))


def test_python_numbers_take_the_other_type() -> None:
    given = numbers(U8)
    np.testing.assert_array_equal(over_pairs(U8, U8, lambda f, a, b: 255 - a, given), 255 - given[0::2])
    doubles = numbers(F64)
    np.testing.assert_array_equal(over_pairs(F64, F64, lambda f, a, b: 2 * a, doubles), 2 * doubles[0::2])


def wrong(build) -> None:
    f = Program("wrong").function("run")
    build(f, f.array("x", F64)[0], f.array("n", I64)[0], f.array("u", U8)[0])


@pytest.mark.parametrize(
    "build",
    [
        lambda f, x, n, u: x + n,
        lambda f, x, n, u: n + 1.5,
        lambda f, x, n, u: u + 256,
        lambda f, x, n, u: x & x,
        lambda f, x, n, u: x << x,
        lambda f, x, n, u: (n < 1) + (n < 2),
        lambda f, x, n, u: -(n < 1),
        lambda f, x, n, u: ~x,
        lambda f, x, n, u: f.unary("sqrt", n),
        lambda f, x, n, u: f.unary("trailing_zeros", x),
        lambda f, x, n, u: f.unary("trailing_zeros", n < 1),
        lambda f, x, n, u: f.unary("log", x.to(F32)),
        lambda f, x, n, u: f.binary("pow", x.to(F32), x.to(F32)),
        lambda f, x, n, u: n.to(I128).divide(n.to(I128)),
        lambda f, x, n, u: n.to(I128).to(F64),
        lambda f, x, n, u: x.bits_as(I32),
        lambda f, x, n, u: f.select(n, n, n),
        lambda f, x, n, u: f.when(n).__enter__(),
        lambda f, x, n, u: f.array("b", BOOL),
        lambda f, x, n, u: f.scalar("w", I128),
        lambda f, x, n, u: n // 2,
        lambda f, x, n, u: bool(n < 1),
    ],
)
def test_wrong_types(build) -> None:
    with pytest.raises(TypeError):
        wrong(build)
