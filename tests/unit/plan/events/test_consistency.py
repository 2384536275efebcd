"""Classes of conditions on closures: as planned, against all subsets of small sequences of events."""

from __future__ import annotations

import operator
from itertools import combinations, product
from typing import Any

import pytest

from episode.lang.events.parser import parse_event_query
from episode.plan.events.consistency import ClosurePredicate, adjacent_form, predicate_text
from episode.plan.expressions import Apply, Constant, Current, Expression, Load, Navigated, Running, render
from tests.golden.cases import plan_events

TRUE, FALSE, BOTH, NEITHER = (True, False), (False, True), (True, True), (False, False)
COMPARE = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le, "eq": operator.eq,
           "ne": operator.ne}  # fmt: skip
ARITHMETIC = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv}
Event = dict[str, Any]

SHAPES = {
    # no other event of the closure
    "b[i].price > 5": BOTH,
    "b[i].price > a.price": BOTH,
    "b[i].price * 2 > a.price + c.price": BOTH,
    # operator × aggregate × direction × reach
    "b[i].price > max(b[..i-1].price)": TRUE,
    "b[i].price >= max(b[..i-1].price)": TRUE,
    "max(b[..i-1].price) <= b[i].price": TRUE,
    "b[i].price < max(b[..i-1].price)": FALSE,
    "b[i].price <= max(b[..i-1].price)": FALSE,
    "b[i].price = max(b[..i-1].price)": NEITHER,
    "b[i].price <> max(b[..i-1].price)": NEITHER,
    "b[i].price < min(b[..i-1].price)": TRUE,
    "b[i].price <= min(b[..i-1].price)": TRUE,
    "b[i].price > min(b[..i-1].price)": FALSE,
    "min(b[..i-1].price) <= b[i].price": FALSE,
    "b[i].price >= max(b[..i].price)": TRUE,
    "a.price > max(b[..i].price)": TRUE,
    "a.price < max(b[..i].price)": FALSE,
    "b[i].price > avg(b[..i-1].price)": NEITHER,
    "b[i].price > sum(b[..i-1].price)": NEITHER,
    "b[i].price > first(b[..i-1].price)": NEITHER,
    "b[i].price > last(b[..i-1].price)": NEITHER,
    "a.price > last(b[..i].price)": BOTH,
    "b[i].price > b[i-1].price": NEITHER,
    "b[i].price >= b[i-1].price": NEITHER,
    "b[i].price = b[i-1].price": NEITHER,
    "b[i].price > b[1].price": NEITHER,
    "b[i].price > b[last].price": NEITHER,
    "c.price < max(b[].price)": FALSE,
    "c.price > max(b[].price)": TRUE,
    "c.price > min(b[].price)": FALSE,
    "c.price < min(b[].price)": TRUE,
    "c.price > b[1].price": NEITHER,
    "c.price > b[last].price": NEITHER,
    "c.price > avg(b[].price)": NEITHER,
    "sum(b[].price) < c.price": NEITHER,
    "b[i].price <= max(b[].price) * 0.5": FALSE,
    "b[i].price >= max(b[].price) * 0.5": TRUE,
    # counts
    "count(b[]) <= 2": TRUE,
    "count(b[]) < 3": TRUE,
    "3 > count(b[])": TRUE,
    "count(b[]) >= 2": FALSE,
    "count(b[]) > 1": FALSE,
    "count(b[]) = 2": NEITHER,
    "count(b[]) <> 2": NEITHER,
    "count(b[]) = 1": TRUE,
    "count(b[]) <> 1": FALSE,
    "count(b[]) >= 1": BOTH,
    "count(b[]) > 0": BOTH,
    "count(b[]) < 1": BOTH,
    "count(b[]) * 2 + 1 <= 5": TRUE,
    "count(b[..i-1]) < b[i].volume": TRUE,
    "count(b[].price) >= 2": FALSE,
    # arithmetic that keeps the order, or turns it round
    "max(b[].price) * 2 + 1 < c.price": TRUE,
    "max(b[].price) * 2 + 1 > c.price": FALSE,
    "max(b[].price) / 2 > c.price": FALSE,
    "max(b[].price) * -2 < c.price": FALSE,
    "-max(b[].price) > c.price": TRUE,
    "c.price - max(b[].price) > 1": TRUE,
    "c.price - min(b[].price) > 1": FALSE,
    "max(b[].price) - min(b[].price) < 2": TRUE,
    "max(b[].price) - min(b[].price) >= 2": FALSE,
    "max(b[].price) + min(b[].price) >= 1": NEITHER,
    "max(b[].price) * c.price >= 2": NEITHER,
    # logic
    "NOT (c.price < max(b[].price))": TRUE,
    "NOT (c.price >= max(b[].price))": FALSE,
    "NOT (count(b[]) = 1)": FALSE,
    "c.price > max(b[].price) OR count(b[]) <= 2": TRUE,
    "NOT (c.price > max(b[].price) OR count(b[]) <= 2)": FALSE,
    "c.price > max(b[].price) OR a.price > 0": TRUE,
    "c.price > max(b[].price) OR c.price < max(b[].price)": NEITHER,
    "c.price BETWEEN min(b[].price) AND max(b[].price)": FALSE,
}  # fmt: skip

WITH_SIGN = {
    "sum(b[].price) < c.price": TRUE,
    "sum(b[].price) <= 2": TRUE,
    "sum(b[].price) > c.price": FALSE,
    "c.price > sum(b[].price)": TRUE,
    "b[i].price > sum(b[..i-1].price)": TRUE,
    "avg(b[].price) > c.price": NEITHER,
}


def predicate_of(condition: str, more: str = "") -> ClosurePredicate:
    text = f"TYPE BY symbol PATTERN SEQ(A a, B+ b[], C c) WHERE {condition}{more} WITHIN 1 hour"
    return plan_events(parse_event_query(text)).predicates[0]


# ---- a judge: every subset of every small sequence ------------------------------------------------------------


def value_of(expression: Expression, events: list[Event], current: Event | None, single: dict[str, Event]) -> Any:
    """An expression with the events of b that are selected, the current one last if it is one of them; None: null."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Load):
        if isinstance(expression.at, Current):
            assert current is not None
            return current[expression.column]
        assert isinstance(expression.at, Navigated)
        assert expression.at.labels is not None
        (name,) = expression.at.labels
        rows = events if name == "b" else [single[name]]
        at = expression.at.offset if expression.at.first else len(rows) - 1 - expression.at.offset
        return rows[at][expression.column] if 0 <= at < len(rows) else None
    if isinstance(expression, Running):
        return _aggregate(expression, events[:-1] if expression.reach == "before" else events)
    assert isinstance(expression, Apply)
    values = [value_of(operand, events, current, single) for operand in expression.operands]
    if expression.operation == "and":
        return False if False in values else None if None in values else True
    if expression.operation == "or":
        return True if True in values else None if None in values else False
    if expression.operation == "is_null":
        return values[0] is None
    if None in values:
        return None
    if expression.operation == "not":
        return not values[0]
    if expression.operation in ("to_float", "copy"):
        return values[0]
    if expression.operation == "negate":
        return -values[0]
    function = COMPARE.get(expression.operation) or ARITHMETIC[expression.operation]
    return function(values[0], values[1])


def _aggregate(running: Running, events: list[Event]) -> Any:
    if running.argument is None:
        return len(events)
    found = [value_of(running.argument, [], event, {}) for event in events]
    found = [value for value in found if value is not None]
    if running.function == "count":
        return len(found)
    if not found:
        return None
    return {"max": max, "min": min, "sum": sum, "avg": lambda x: sum(x) / len(x)}[running.function](found)


def judged(predicate: ClosurePredicate, numbers: tuple[Any, ...], length: int = 3) -> tuple[bool, bool]:
    """(true-value consistent, false-value consistent), over all sequences of events with these values."""
    expression = predicate.expression
    assert expression is not None
    true = false = True
    singles = [value for value in numbers if value is not None]
    for size in range(1, length + 1):
        for values in product(numbers, repeat=size):
            events = [{"price": value, "volume": value} for value in values]
            for outside in product(singles, repeat=2):
                single = {name: {"price": x, "volume": x} for name, x in zip("ac", outside, strict=True)}
                for current, all_, subsets in _choices(predicate, events, singles):
                    whole = value_of(expression, all_, current, single) is True
                    for subset in subsets:
                        part = value_of(expression, subset, current, single) is True
                        true &= part or not whole
                        false &= whole or not part
    return true, false


def _choices(predicate: ClosurePredicate, events: list[Event], numbers: list[Any]) -> Any:
    """(the current event, S as the expression sees it, its subsets)"""
    subsets = [list(one) for size in range(1, len(events) + 1) for one in combinations(events, size)]
    if predicate.iterated is None:
        yield None, events, subsets
    elif predicate.whole:
        for current in events:
            yield current, events, [one for one in subsets if any(event is current for event in one)]
    else:
        for number in numbers:
            current = {"price": number, "volume": number}
            yield current, [*events, current], [[*one, current] for one in subsets]


@pytest.mark.parametrize(("condition", "expected"), SHAPES.items(), ids=list(SHAPES))
def test_the_class_is_exact(condition: str, expected: tuple[bool, bool]) -> None:
    predicate = predicate_of(condition)
    found = predicate.consistency
    assert (found.true, found.false) == expected
    if predicate.expression is not None and "volume" not in condition:
        assert judged(predicate, (-2.0, 1.0, 3.0)) == expected


@pytest.mark.parametrize("condition", list(SHAPES))
def test_with_nulls_the_class_is_right_as_far_as_it_goes(condition: str) -> None:
    predicate = predicate_of(condition)
    found = predicate.consistency
    if predicate.expression is None or found.finite:
        return
    true, false = judged(predicate, (-1.0, 1.0, None))
    assert true or not found.true or bool(found.known)
    assert false or not found.false


@pytest.mark.parametrize(("condition", "expected"), WITH_SIGN.items(), ids=list(WITH_SIGN))
def test_sums_of_what_is_never_negative_grow(condition: str, expected: tuple[bool, bool]) -> None:
    predicate = predicate_of(condition, " AND b[i].price >= 0")
    assert (predicate.consistency.true, predicate.consistency.false) == expected
    assert not predicate.consistency.known
    assert judged(predicate, (0.0, 1.0, 2.0, 5.0)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("sum(b[].volume) <= 10", TRUE),
        ("sum(b[].volume) >= 10", NEITHER),  # an overflow is null, and a subset may be without it
        ("max(b[].volume) + 1 <= 10", NEITHER),
        ("sum(b[].amount) >= 10", FALSE),
        ("sum(abs(b[].price)) >= 10", FALSE),
    ],
)
def test_overflows_are_null(condition: str, expected: tuple[bool, bool]) -> None:
    predicate = predicate_of(condition, " AND b[i].volume >= 0 AND b[i].amount > 0")
    assert (predicate.consistency.true, predicate.consistency.false) == expected


def test_nothing_is_known_to_be_there() -> None:
    one = predicate_of("b[i].price > max(b[..i-1].price)").consistency
    assert [render(value) for value in one.known] == ["price"]
    assert one.exempt == 1
    assert not predicate_of("b[i].price > max(b[..i-1].price)", " AND b[i].price <> 3").consistency.known
    assert not predicate_of("b[i].price > max(b[..i-1].price)", " AND b[i].price IS NOT NULL").consistency.known
    assert predicate_of("max(b[].price) IS NULL").consistency.name == "true-value consistent"
    assert predicate_text(predicate_of("max(b[].price) IS NOT NULL"), True).startswith(
        "max(b[].price) IS NOT NULL: true- and false-value consistent unless price is null;"
    )
    two = predicate_of("c.price - max(b[].price) > 1").consistency
    assert [render(value) for value in two.finite] == ["price"]


def test_two_closures() -> None:
    text = "TYPE BY symbol PATTERN SEQ(A a, B+ b[], C+ c[]) WHERE max(b[].price) < min(c[].price) WITHIN 1 hour"
    (one,) = plan_events(parse_event_query(text)).predicates
    assert (one.consistency.true, one.consistency.false) == TRUE
    assert one.whole == {"b", "c"}


def test_what_only_spark_evaluates() -> None:
    assert predicate_of("reverse(b[i].symbol) LIKE reverse(a.symbol)").consistency.name.startswith("true- and")
    assert predicate_of("array_contains(collect_list(b[].price), a.price)").consistency.name == "inconsistent"


def test_other_closures_have_no_classes() -> None:
    text = "TYPE BY symbol PATTERN A; B+; C WHERE sum(B.price) > 3 WITHIN 1 hour"
    assert plan_events(parse_event_query(text)).predicates == ()


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("b[i].price > 5", "true- and false-value consistent; decides each event at once: SAFE or discarded"),
        ("count(b[]) >= 1", "true- and false-value consistent; decided once for every choice"),
        ("count(b[]) <= 5", "true-value consistent; SAFE where it holds for all candidates, else tested"),
        ("c.price < max(b[].price)", "false-value consistent; discards at once where it fails for all candidates"),
        ("b[i].price < max(b[..i-1].price)", "fails with all candidates can only be the first of a choice"),
        (
            "avg(b[].price) > 3",
            "inconsistent; postponed: decided by the bounds of the candidates, else tested for each choice",
        ),
        ("b[i].price > max(b[..i-1].price)", "true-value consistent unless price is null; SAFE"),
        ("c.price - max(b[].price) > 1", "consistent unless price is null or not finite; SAFE"),
    ],
)
def test_what_follows(condition: str, words: str) -> None:
    predicate = predicate_of(condition)
    assert words in predicate_text(predicate, True)
    assert predicate_text(predicate, None).endswith(predicate_text(predicate, True).partition("; ")[0])
    unbounded = predicate.consequence(False)
    decided = predicate.consistency.true and predicate.consistency.false
    assert unbounded == (predicate.consequence(True) if decided else "postponed: tested for each choice")


# ---- adjacent forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "adjacent"),
    [
        ("b[i].price > max(b[..i-1].price)", "b[i].price > b[i-1].price"),
        ("b[i].price >= max(b[..i-1].price)", "b[i].price >= b[i-1].price"),
        ("max(b[..i-1].price) < b[i].price", "b[i].price > b[i-1].price"),
        ("b[i].price < min(b[..i-1].price)", "b[i].price < b[i-1].price"),
        ("min(b[..i-1].price) >= b[i].price", "b[i].price <= b[i-1].price"),
        ("b[i].price * 2 > max(b[..i-1].price * 2)", "b[i].price * 2 > b[i-1].price * 2"),
    ],
)
def test_a_record_is_greater_than_the_one_before(condition: str, adjacent: str) -> None:
    predicate, other = predicate_of(condition), predicate_of(adjacent)
    assert predicate.expression is not None
    assert adjacent_form(predicate.expression) == other.expression
    for size in range(1, 5):
        for values in product((None, 0.0, 1.0, 2.0), repeat=size):
            events = [{"price": value} for value in values]
            both = [
                all(
                    value_of(one.expression, events[: at + 1], events[at], {}) is True  # type: ignore[arg-type]
                    for at in range(1, size)
                )
                for one in (predicate, other)
            ]
            assert both[0] == both[1]


@pytest.mark.parametrize(
    "condition",
    [
        "b[i].price < max(b[..i-1].price)",
        "b[i].price >= max(b[..i].price)",
        "b[i].price > min(b[..i-1].price)",
        "b[i].price > max(b[..i-1].volume)",
        "b[i].price > avg(b[..i-1].price)",
        "c.price > max(b[].price)",
        "b[i].price > 5",
    ],
)
def test_others_have_no_adjacent_form(condition: str) -> None:
    predicate = predicate_of(condition)
    assert predicate.expression is not None
    assert adjacent_form(predicate.expression) is None
