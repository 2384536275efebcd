"""Spark's functions over arrays, for the oracle: Python lists, None for null, slow and obvious.

A place outside an array gives null: in conditions, faults do. Lambdas come as Python functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Order = Callable[[Any, Any], int]


def call(name: str, arguments: list, order: Order) -> Any:
    """A function by name. `order` compares two values that are not null: -1, 0 or 1."""

    def same(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return left is right
        return order(left, right) == 0

    def distinct(values: list) -> list:
        kept: list = []
        for value in values:
            if not any(same(value, other) for other in kept):
                kept.append(value)
        return kept

    def ascending(values: list) -> list:
        ranked: list = []
        for value in values:
            at = sum(1 for other in ranked if order(other, value) <= 0)
            ranked.insert(at, value)
        return ranked

    xs = arguments[0] if arguments else []
    present = [x for x in xs if x is not None] if isinstance(xs, list) else []
    nulls = [x for x in xs if x is None] if isinstance(xs, list) else []
    match name, arguments:
        case "array", values:
            return list(values)
        case "size" | "cardinality" | "array_size", [xs]:
            return len(xs)
        case "array_min", [xs]:
            return ascending(present)[0] if present else None
        case "array_max", [xs]:
            return ascending(present)[-1] if present else None
        case "array_contains", [xs, value]:
            if value is None:
                return None
            return True if any(same(x, value) for x in present) else None if nulls else False
        case "array_position", [xs, value]:
            return None if value is None else next((i + 1 for i, x in enumerate(xs) if same(x, value)), 0)
        case "element_at" | "try_element_at", [xs, i]:
            if i is None or i == 0 or abs(i) > len(xs):
                return None
            return xs[i - 1] if i > 0 else xs[i]
        case "get" | "[]", [xs, i]:
            return xs[i] if i is not None and 0 <= i < len(xs) else None
        case "exists", [xs, f]:
            return any_of([f(x) for x in xs])
        case "forall", [xs, f]:
            opposite = any_of([None if f(x) is None else not f(x) for x in xs])
            return None if opposite is None else not opposite
        case "aggregate" | "reduce", [xs, start, merge, *finish]:
            for x in xs:
                start = merge(start, x)
            return finish[0](start) if finish else start
        case "filter", [xs, f]:
            return [x for i, x in enumerate(xs) if f(x, i) is True]
        case "transform", [xs, f]:
            return [f(x, i) for i, x in enumerate(xs)]
        case "array_distinct", [xs]:
            return distinct(xs)
        case "array_sort", [xs]:
            return ascending(present) + nulls
        case "sort_array", [xs, *up]:
            return nulls + ascending(present) if not up or up[0] else ascending(present)[::-1] + nulls
        case "reverse", [xs]:
            return xs[::-1]
        case "slice", [xs, start, length]:
            begin = start - 1 if start > 0 else len(xs) + start
            return xs[begin : begin + length] if begin >= 0 else []
        case "array_compact", [xs]:
            return present
        case "array_remove", [xs, value]:
            return [x for x in xs if x is None or not same(x, value)]
        case "array_append", [xs, value]:
            return [*xs, value]
        case "array_prepend", [xs, value]:
            return [value, *xs]
        case "concat" | "||", lists:
            return [x for each in lists for x in each]
        case "array_union", [xs, ys]:
            return distinct(xs + ys)
        case "array_intersect", [xs, ys]:
            return [x for x in distinct(xs) if any(same(x, y) for y in ys)]
        case "array_except", [xs, ys]:
            return [x for x in distinct(xs) if not any(same(x, y) for y in ys)]
        case "arrays_overlap", [xs, ys]:
            if any(x is not None and y is not None and same(x, y) for x in xs for y in ys):
                return True
            return None if xs and ys and None in [*xs, *ys] else False
    raise NotImplementedError(f"array function {name} of {len(arguments)} arguments")


def any_of(values: list) -> bool | None:
    """OR with three values."""
    return True if True in values else None if None in values else False


def compare(left: list, right: list, order: Order) -> int:
    """The first difference decides; null is less than a value, and a shorter array than a longer one."""
    for x, y in zip(left, right):
        difference = (x is not None) - (y is not None) if x is None or y is None else order(x, y)
        if difference:
            return difference
    return (len(left) > len(right)) - (len(left) < len(right))
