"""Patterns as steps: ways that take an event, sizes with counts, negated choices."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.parser import parse_event_query
from episode.plan.events.automaton import Loop, Not, Step, Take, linear, size_of, variables_in, with_an_event
from episode.plan.events.tree import simplify

A, B, C = Take("a"), Take("b"), Take("c")


def some(*bodies: tuple[Step, ...], minimum: int = 1) -> Loop:
    return Loop(bodies, minimum, None)


def steps_of(pattern: str) -> list[tuple[Step, ...]]:
    query = parse_event_query(f"PATTERN {pattern}")
    return [steps for group in linear(query, simplify(query.pattern).pattern, False) for steps in group]


def test_alternatives_of_a_sequence_are_written_out() -> None:
    assert steps_of("SEQ(A a, B b | C c)") == [(A, B), (A, C)]


def test_alternatives_of_a_closure_are_its_bodies() -> None:
    assert steps_of("SEQ(A a, (B b | C c)+)") == [(A, some((B,), (C,)))]


def test_a_closure_inside_a_closure() -> None:
    assert steps_of("SEQ(A a, B+ b[])+") == [(some((A, some((B,)))),)]


def test_a_negated_choice_is_none_of_its_alternatives() -> None:
    (steps,) = steps_of("SEQ(A a, ~(SEQ(B b, C c) | A d), A e)")
    assert steps == (A, Not((B, C), ("b", "c")), Not((Take("d"),), ("d",)), Take("e"))


def test_what_may_be_empty_has_an_event_in_every_round() -> None:
    some_a, some_b = some((A,), minimum=0), some((B,), minimum=0)
    assert list(with_an_event((some_a, some_b))) == [(some((A,)), some_b), (some((B,)),)]
    assert list(with_an_event((some_a, B))) == [(some_a, B)]


def test_sizes_and_variables() -> None:
    (steps,) = steps_of("SEQ(A a, SEQ(B b, C^3 c[])^2)")
    assert size_of(steps) == 9
    assert variables_in(steps) == ["a", "b", "c"]


def test_counts_that_multiply_are_refused() -> None:
    with pytest.raises(EpisodeUnsupportedError, match="65,536 places"):
        steps_of("SEQ(A a, SEQ(B b, C^1000 c[])^1000)")
