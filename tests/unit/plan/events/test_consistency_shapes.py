"""Classes of conditions on closures as planned, against the judge that tries all short sequences (tests/reference)."""

from __future__ import annotations

import pytest

from episode.lang.events.parser import parse_event_query
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
    """Exactly what is true."""
    for shape in shapes():
        if shape.aggregate == aggregate:
            judged = classify(shape)
            assert planned(shape) == (judged.true_value, judged.false_value), shape.text
