"""Classes of conditions on closures as planned, against the judge that tries all short sequences (tests/reference)."""

from __future__ import annotations

import pytest

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import Reach
from tests.golden.cases import plan_events
from tests.reference.consistency import AGGREGATES, Shape, classify, shapes


def planned(shape: Shape) -> tuple[bool, bool]:
    """A value that is not of the closure comes from before it, so that b[..i] is not all of b."""
    condition = shape.text.replace("c.x", "a.x").replace(".x", ".price")
    text = f"TYPE BY symbol PATTERN SEQ(A a, B+ b[], C c) WHERE {condition} WITHIN 1 hour"
    [predicate] = plan_events(parse_event_query(text)).predicates
    return predicate.consistency.true, predicate.consistency.false


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_classes_of_shapes(aggregate: str) -> None:
    """Never more than is true; and exactly what is true, but for last(b[..i].x), which is b[i].x in other words."""
    for shape in shapes():
        if shape.aggregate == aggregate:
            true, false = planned(shape)
            judged = classify(shape)
            assert true <= judged.true_value, shape.text
            assert false <= judged.false_value, shape.text
            if shape.reach is not Reach.CURRENT or aggregate != "last":
                assert (true, false) == (judged.true_value, judged.false_value), shape.text
