"""The judge of predicate classes against the examples of the paper, and what was worked out by hand."""

from __future__ import annotations

import pytest

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import Reach
from tests.reference.consistency import Consistency, Other, Shape, classify, classify_predicate, shapes, subsets

TRUE, FALSE = Consistency(True, False), Consistency(False, True)
BOTH, NEITHER = Consistency(True, True), Consistency(False, False)
CURRENT, ANCHOR = Other.CURRENT, Other.ANCHOR
BEFORE, SO_FAR, ALL = Reach.BEFORE, Reach.CURRENT, Reach.ALL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the paper's examples; its c.val < max(b[..i].val) is about all of b
        ("b[i].x > max(b[..i-1].x)", TRUE),
        ("c.x < max(b[].x)", FALSE),
        ("b[i].x > avg(b[..i-1].x)", NEITHER),
        ("b[i].x >= b[i-1].x", NEITHER),
        # the mirror images
        ("max(b[..i-1].x) < b[i].x", TRUE),
        ("max(b[].x) > c.x", FALSE),
        ("b[i].x < min(b[..i-1].x)", TRUE),
        ("b[i].x > min(b[..i-1].x)", FALSE),
        ("b[i].x >= min(b[..i-1].x)", FALSE),
        ("b[i].x <= min(b[..i-1].x)", TRUE),
        # one element of the subset is the maximum, but not of all subsets
        ("b[i].x = max(b[..i-1].x)", NEITHER),
        # values of either sign: a part may have a greater sum than the whole
        ("b[i].x > sum(b[..i-1].x)", NEITHER),
        ("sum(b[].x) > c.x", NEITHER),
        # fewer events are fewer
        ("b[i].x > count(b[..i-1])", TRUE),
        ("count(b[]) <= c.x", TRUE),
        ("count(b[]) > c.x", FALSE),
        ("count(b[]) = c.x", NEITHER),
        # the current event stays: the greatest of all is the greatest of any part with it
        ("b[i].x >= max(b[..i].x)", TRUE),
        ("b[i].x = max(b[..i].x)", TRUE),
        ("b[i].x < max(b[..i].x)", FALSE),
        ("b[i].x <> max(b[..i].x)", FALSE),
        ("b[i].x > max(b[..i].x)", BOTH),  # never
        ("b[i].x <= max(b[..i].x)", BOTH),  # always
        ("b[i].x = last(b[..i].x)", BOTH),  # always: it is the current event
        ("max(b[..i].x) <= c.x", TRUE),
        ("max(b[..i].x) > c.x", FALSE),
        ("last(b[..i].x) > c.x", BOTH),  # about the current event alone
        ("first(b[..i].x) > c.x", NEITHER),
        ("first(b[].x) > c.x", NEITHER),
        ("c.x <> last(b[].x)", NEITHER),
    ],
)
def test_shapes(text: str, expected: Consistency) -> None:
    [shape] = [shape for shape in shapes() if shape.text == text]
    assert classify(shape) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (Shape(">=", "count", ANCHOR, ALL, True, constant=1), BOTH),  # no closure is empty
        (Shape(">", "count", ANCHOR, ALL, True, constant=0), BOTH),
        (Shape("<", "count", ANCHOR, ALL, True, constant=0), BOTH),
        (Shape("=", "count", ANCHOR, ALL, True, constant=1), TRUE),
        (Shape("<>", "count", ANCHOR, ALL, True, constant=1), FALSE),
        (Shape(">=", "count", ANCHOR, ALL, True, constant=2), FALSE),
        (Shape("<=", "max", ANCHOR, ALL, True, constant=1), TRUE),
        (Shape("<=", "max", ANCHOR, SO_FAR, True, constant=1), TRUE),
        (Shape(">=", "max", ANCHOR, SO_FAR, True, constant=1), FALSE),
    ],
)
def test_constants(shape: Shape, expected: Consistency) -> None:
    assert classify(shape) == expected


def test_what_does_not_depend_on_the_selected_events_is_both() -> None:
    """b[i].val > 5"""
    assert classify_predicate(lambda e, selected: e is not None and e > 1) == BOTH


def test_values_that_are_never_negative() -> None:
    """Then sums grow with every event: a planner may say so only where it knows."""
    upper = Shape("<", "sum", ANCHOR, ALL, aggregate_left=True)
    assert (classify(upper), classify(upper, domain=(0, 1, 2, 3))) == (NEITHER, TRUE)
    lower = Shape(">", "sum", ANCHOR, ALL, aggregate_left=True)
    assert (classify(lower), classify(lower, domain=(0, 1, 2, 3))) == (NEITHER, FALSE)


def test_nulls_leave_no_aggregate_true_value_consistent() -> None:
    """5 > max(null, 3) holds, 5 > max(null) does not. Counting events knows no nulls; false stays false."""
    for shape in shapes():
        without, with_nulls = classify(shape), classify(shape, nulls=True, longest=2)
        assert without.true_value or not with_nulls.true_value
        about_current = shape.reach is SO_FAR
        if not about_current and shape.aggregate not in ("count", "count_values"):
            assert not with_nulls.true_value, shape.text
            assert with_nulls.false_value == without.false_value, shape.text


def test_one_more_element_does_not_change_a_class() -> None:
    """Sequences of up to two values decide as those of up to three do, and as larger ones of fewer values."""
    for shape in shapes():
        assert classify(shape, longest=2) == classify(shape), shape.text
        if shape.operator in ("<", "="):
            assert classify(shape, domain=(-1, 1), longest=5) == classify(shape, domain=(-1, 1)), shape.text


def test_every_shape_can_be_written() -> None:
    """All that the language has: first and last of a part of a closure are among it."""
    for shape in shapes():
        parse_event_query(f"PATTERN SEQ(A a, B+ b[], C c) WHERE {shape.text}")


def test_subsets_keep_the_order() -> None:
    assert list(subsets((3, 1, 2))) == [(3,), (1,), (2,), (3, 1), (3, 2), (1, 2), (3, 1, 2)]
