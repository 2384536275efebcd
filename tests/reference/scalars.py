"""Scalar expressions and aggregates as Spark computes them, for the oracles: plain Python, null is None.

An expression is a sqlglot tree whose columns are placeholders; the caller says what each of them is.
What is not here raises NotImplementedError rather than give a guess: a random test leaves such a case out, any other
test fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

from sqlglot import exp

from tests.reference import arrays

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
MOST_DIGITS = 38  # of a decimal in Spark

OnFailure = Callable[[str], None]  # what a division by zero or an overflow does: give null, or raise


def fail(why: str) -> None:
    """Where Spark computes the scalar expression, it raises (ANSI)."""
    raise ArithmeticError(why)


def give_null(why: str) -> None:
    """In conditions a failure gives null."""


# ---- aggregates -----------------------------------------------------------------------------------


def aggregate_value(function: str, inputs: list[tuple], on_failure: OnFailure) -> Any:
    """A Spark aggregate over the argument tuples, in row order. Over no values: count 0, list empty, others null."""
    if function == "count":
        # count(x, y) counts the rows where no argument is null.
        return sum(all(value is not None for value in row) for row in inputs)
    if function in ("max_by", "min_by"):
        return _extreme_by(inputs, largest=function == "max_by")
    if function in ("first", "first_value", "any_value"):
        return inputs[0][0] if inputs else None  # nulls are respected
    if function in ("last", "last_value"):
        return inputs[-1][0] if inputs else None
    values = [value for (value,) in inputs if value is not None]  # all others ignore nulls
    if function in ("array_agg", "collect_list"):
        return values
    if function == "collect_set":
        return arrays.call("array_distinct", [values], compare)
    if function == "count_if":
        return sum(values)
    if not values:
        return None
    match function:
        case "sum":
            if isinstance(values[0], Decimal):
                return _sum_of_decimals(values)
            return _bounded(sum(values[1:], start=values[0]), on_failure)
        case "avg" | "mean":
            # avg of integers is a double.
            if isinstance(values[0], Decimal):
                return _average_of_decimals(values)
            return sum(map(float, values)) / len(values)
        case "min":
            return min(values, key=rank)
        case "max":
            return max(values, key=rank)
        case "stddev" | "stddev_samp" | "std":
            # The sample's deviation of one value is null.
            return math.sqrt(_squares(values) / (len(values) - 1)) if len(values) > 1 else None
        case "variance" | "var_samp":
            return _squares(values) / (len(values) - 1) if len(values) > 1 else None
        case "stddev_pop":
            return math.sqrt(_squares(values) / len(values))
        case "var_pop":
            return _squares(values) / len(values)
        case "bool_and" | "every":
            return all(values)
        case "bool_or" | "some" | "any":
            return any(values)
    raise NotImplementedError(f"aggregate {function}")


def _sum_of_decimals(values: list[Decimal]) -> Decimal | None:
    """Null from the value on with which it has too many digits."""
    total = values[0]
    for value in values[1:]:
        total = EXACT.add(total, value)
        if _digits(total) > MOST_DIGITS:
            return None
    return total


def _average_of_decimals(values: list[Decimal]) -> Decimal | None:
    """Four more digits after the point than the values have."""
    total = _sum_of_decimals(values)
    if total is None:
        return None
    scale = min(MOST_DIGITS, 4 - int(total.as_tuple().exponent))
    quotient = EXACT.divide(total, Decimal(len(values))).quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return quotient if _digits(quotient) <= MOST_DIGITS else None


def _digits(value: Decimal) -> int:
    return len(str(int("".join(map(str, value.as_tuple().digits)))))


def _extreme_by(inputs: list[tuple], *, largest: bool) -> Any:
    """max_by(x, y): the x of the largest y. Rows whose y is null do not count; of equal y Spark takes the later."""
    best: tuple | None = None
    for value, order in inputs:
        if order is None:
            continue
        if best is not None:
            beaten = rank(best[1]) > rank(order) if largest else rank(best[1]) < rank(order)
            if beaten:
                continue
        best = (value, order)
    return None if best is None else best[0]


def _squares(values: list) -> float:
    """Sum of squared distances from the mean, in doubles."""
    doubles = [float(value) for value in values]
    mean = sum(doubles) / len(doubles)
    return sum((value - mean) * (value - mean) for value in doubles)


# ---- scalar expressions, as Spark computes them ---------------------------------------------------


def scalar_value(
    tree: exp.Expression, atom: Callable[[str], Any], on_failure: OnFailure, variables: dict[str, Any] | None = None
) -> Any:
    """The value of a sqlglot tree whose columns are placeholders of atoms. Null is None.

    `variables` are those of the lambdas around it.
    """
    known = variables or {}

    def value(node: exp.Expression) -> Any:
        return scalar_value(node, atom, on_failure, known)

    def function(node: exp.Lambda) -> Callable[..., Any]:
        names = [name.name.lower() for name in node.expressions]
        return lambda *values: scalar_value(node.this, atom, on_failure, {**known, **dict(zip(names, values))})

    match tree:
        case exp.Column():
            return atom(tree.name)
        case exp.Paren():
            return value(tree.this)
        case exp.Identifier():
            return known[tree.name.lower()]
        case exp.Lambda():
            return function(tree)
        case exp.Anonymous():
            return arrays.call(tree.name.lower(), [value(each) for each in tree.expressions], compare)
        case exp.Transform():
            return arrays.call("transform", [value(tree.this), value(tree.expression)], compare)
        case exp.Bracket():
            return arrays.call("[]", [value(tree.this), value(tree.expressions[0])], compare)
        case exp.Literal():
            return _literal(tree)
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return None
        case exp.Not():
            operand = value(tree.this)
            return None if operand is None else not operand
        case exp.And():
            # False beats null; null beats true.
            left = value(tree.left)
            return False if left is False else _and(left, value(tree.right))
        case exp.Or():
            # True beats null; null beats false.
            left = value(tree.left)
            return True if left is True else _or(left, value(tree.right))
        case exp.Is():
            operand, wanted = value(tree.this), value(tree.expression)
            return operand is wanted  # IS NULL, IS TRUE, IS FALSE: never null themselves
        case exp.NullSafeEQ():
            left, right = value(tree.left), value(tree.right)
            return left is right if left is None or right is None else compare(left, right) == 0
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared(type(tree), value(tree.left), value(tree.right))
        case exp.Between():
            operand = value(tree.this)
            low = _compared(exp.GTE, operand, value(tree.args["low"]))
            return _and(low, _compared(exp.LTE, operand, value(tree.args["high"])))
        case exp.In() if tree.expressions:
            operand = value(tree.this)
            result: bool | None = False
            for candidate in tree.expressions:
                result = _or(result, _compared(exp.EQ, operand, value(candidate)))
            return result
        case exp.Case():
            # CASE x WHEN y compares by =; the first condition that is true decides.
            for branch in tree.args["ifs"]:
                when = value(branch.this)
                if tree.this is not None:
                    when = _compared(exp.EQ, value(tree.this), when)
                if when is True:
                    return value(branch.args["true"])
            return value(tree.args["default"]) if tree.args.get("default") else None
        case exp.If():
            chosen = tree.args["true"] if value(tree.this) is True else tree.args.get("false")
            return None if chosen is None else value(chosen)
        case exp.Coalesce():
            for candidate in [tree.this, *tree.expressions]:
                operand = value(candidate)
                if operand is not None:
                    return operand
            return None
        case exp.Least() | exp.Greatest():
            # Nulls are skipped; NaN is the greatest.
            operands = [value(candidate) for candidate in [tree.this, *tree.expressions]]
            return _extreme([operand for operand in operands if operand is not None], isinstance(tree, exp.Greatest))
        case exp.Neg():
            operand = value(tree.this)
            with localcontext(EXACT):
                return None if operand is None else _bounded(-operand, on_failure)
        case exp.Abs():
            operand = value(tree.this)
            with localcontext(EXACT):
                return None if operand is None else _bounded(abs(operand), on_failure)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            left, right = value(tree.left), value(tree.right)
            with localcontext(EXACT):
                return None if left is None or right is None else _arithmetic(type(tree), left, right, on_failure)
        case exp.DPipe():
            left, right = value(tree.left), value(tree.right)
            if isinstance(left, list):
                return arrays.call("||", [left, right], compare)
            if not isinstance(left, str | None) or not isinstance(right, str | None):
                raise NotImplementedError("|| of something else than strings")
            return None if left is None or right is None else left + right
        case exp.Cast():  # TRY_CAST too, which is how sqlglot reads Spark's CAST
            return _cast(value(tree.this), tree.to, on_failure)
    raise NotImplementedError(f"scalar expression {tree.sql('spark')}")


def _literal(tree: exp.Literal) -> Any:
    text = tree.this
    if tree.is_string:
        return text
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _compared(operator: type, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    order = compare(left, right)
    results = {
        exp.EQ: order == 0,
        exp.NEQ: order != 0,
        exp.LT: order < 0,
        exp.LTE: order <= 0,
        exp.GT: order > 0,
        exp.GTE: order >= 0,
    }
    return results[operator]


def _arithmetic(operator: type, left: Any, right: Any, on_failure: OnFailure) -> Any:
    if isinstance(left, date | timedelta) or isinstance(right, date | timedelta):
        # Times: only their sums and differences.
        if operator is exp.Add:
            return left + right
        if operator is exp.Sub:
            return left - right
        raise NotImplementedError(f"{operator.__name__} of times")
    left, right = _aligned(left, right)
    if not isinstance(left, int | float | Decimal) or isinstance(left, bool):
        raise NotImplementedError(f"{operator.__name__} of {type(left).__name__}")
    if operator is exp.Add:
        return _bounded(left + right, on_failure)
    if operator is exp.Sub:
        return _bounded(left - right, on_failure)
    if operator is exp.Mul:
        return _bounded(left * right, on_failure)
    # Division by zero fails for doubles too.
    if right == 0:
        return on_failure("division by zero")
    if operator is exp.Mod:
        return _remainder(left, right)
    # `/` of integers gives a double.
    if isinstance(left, Decimal):
        raise NotImplementedError("division of decimals")
    return float(left) / float(right)


def _remainder(left: Any, right: Any) -> Any:
    """`%` takes the sign of the dividend."""
    if isinstance(left, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    size = abs(left) % abs(right)
    return -size if left < 0 else size


def _bounded(value: Any, on_failure: OnFailure) -> Any:
    """Integers must fit int64."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return on_failure("int64 overflow")
    return value


def _cast(value: Any, to: exp.DataType, on_failure: OnFailure) -> Any:
    if value is None:
        return None
    if isinstance(value, int | float | Decimal):
        if to.is_type("double"):
            return float(value)
        if to.is_type("bigint"):
            return _bounded(int(value), on_failure) if math.isfinite(value) else on_failure("not an integer")
    raise NotImplementedError(f"CAST of {type(value).__name__} to {to.sql('spark')}")


# ---- Spark's order of values ----------------------------------------------------------------------


def grouping(value: Any) -> Any:
    """Equal for values of one group: nulls together, NaNs together, -0.0 with 0.0 (equal in Python already)."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def rank(value: Any) -> tuple:
    """Sort key of a non-null value: NaN is greater than everything, -0.0 equals 0.0."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def compare(left: Any, right: Any) -> int:
    """-1, 0 or 1. NaN equals NaN and is greater than everything else."""
    if isinstance(left, list):
        return arrays.compare(left, right, compare)
    left, right = (rank(value) for value in _aligned(left, right))
    return (left > right) - (left < right)


def _aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Both in their common type: a double makes the other number a double, a timestamp the date a timestamp."""
    if type(left) is type(right):
        return left, right
    numbers = all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in (left, right))
    if numbers and (isinstance(left, float) or isinstance(right, float)):
        return float(left), float(right)
    if numbers:
        return Decimal(left), Decimal(right)
    if isinstance(left, date) and isinstance(right, date):
        return _midnight(left), _midnight(right)
    raise NotImplementedError(f"{type(left).__name__} beside {type(right).__name__}")


def _midnight(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def _extreme(values: list, greatest: bool) -> Any:
    best = None
    for value in values:
        if best is None or compare(value, best) == (1 if greatest else -1):
            best = value
    return best
