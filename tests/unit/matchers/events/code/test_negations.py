"""Negated patterns of several events in the automaton: long ones, and those that no budget suffices for."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeDataError
from episode.lang.events.syntax import Strategy
from tests.reference.event_patterns import Event
from tests.support.events import run_in_pieces, run_whole, spec_of


def events(kinds: str) -> list[Event]:
    return [
        Event(t, t, t, {"type": kind, "k": 1, "x": 1, "y": t, "s": "a"}) for t, kind in enumerate(kinds, start=1)
    ]  # fmt: skip


def test_a_negated_closure_longer_than_the_match() -> None:
    spec = spec_of("PATTERN SEQ(A a, ~SEQ(B b, C+ c[]), D d) WHERE count(c[]) >= 40", strategy=Strategy.NEXT)
    assert run_whole(spec, events("AB" + "C" * 40 + "D")) == []
    assert len(run_whole(spec, events("A" + "C" * 40 + "BCD"))) == 1


@pytest.mark.parametrize("strategy", list(Strategy))
def test_conditions_with_events_of_the_match(strategy: Strategy) -> None:
    """The negated C is compared with the first event, the negated B with the last one, which is known late."""
    text = "PATTERN SEQ(A a, ~SEQ(B b, C c), D+ d[], A e) WHERE c.y > a.y AND b.y < e.y AND count(d[]) > 1"
    key = "k" if strategy is Strategy.PARTITION else None
    spec = spec_of(text, strategy=strategy, key=key)
    assert run_whole(spec, events("ABCDDA")) == []
    assert len(run_whole(spec, events("ADDA"))) == 1
    skips = strategy in (Strategy.ANY, Strategy.NEXT)
    assert len(run_whole(spec, events("ACBDDA"))) == skips
    pieces = [events("ACBDDA")[:3], events("ACBDDA")[3:]]
    assert len(run_in_pieces(spec, pieces, restore=True)) == skips


def test_a_search_that_does_not_end_soon_is_an_error() -> None:
    text = "PATTERN SEQ(A a, ~SEQ(B b, C+ c[]), D d) WHERE sum(c[].x) > 1000"
    spec = spec_of(text, strategy=Strategy.NEXT, step_budget=10_000)
    with pytest.raises(EpisodeDataError, match="steps"):
        run_whole(spec, events("AB" + "C" * 40 + "D"))
