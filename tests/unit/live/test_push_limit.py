"""Go4Risk over counts: the thesis's definitions, its Table 4.2 and its worked example."""

from __future__ import annotations

import pytest

from episode.live.push_limit import PatternCounts, StateCount, length_of, push_bound


def states(*counts: tuple[str, int, int]) -> tuple[StateCount, ...]:
    """(name, in, out); a name that ends in * is a star."""
    return tuple(StateCount(name.endswith("*"), entered, left) for name, entered, left in counts)


TABLE = states(("A*", 7, 4), ("B", 4, 3), ("B*", 3, 3), ("C", 3, 3))
"""Table 4.2 after step 10: the pattern (A*, B, B*, C), sliding to the next row."""
AFTER_STEP_4 = states(("A*", 3, 1), ("B", 1, 1), ("B*", 1, 1), ("C", 1, 1))
"""Table 4.2 after step 4, where the pattern is found first."""


def test_selectivity_is_out_by_in() -> None:
    assert StateCount(False, 4, 3).selectivity == 3 / 4
    assert StateCount(False).selectivity == 0


def test_the_first_example() -> None:
    """Pattern (A, B) over A1 A2 B1 B2 with a tumbling window: three windows, one match."""
    counts = PatternCounts(states(("A", 3, 2), ("B", 2, 1)), windows=3, matches=1)
    assert counts.remaining == pytest.approx(counts.match_overall) == pytest.approx(1 / 3)
    assert PatternCounts(counts.states, 3, 1, current=1).remaining == 1 / 2


def test_the_worked_example() -> None:
    """Sel_remain 3/4, K 0.25, R_bound 3."""
    counts = PatternCounts(TABLE, windows=4, matches=3)
    assert counts.remaining == 3 / 4
    assert counts.expectation == 0.25
    assert counts.is_likely
    assert counts.to_match == 3
    assert push_bound(counts, past_last_row=False) == 3


def test_the_example_with_a_tumbling_window() -> None:
    counts = PatternCounts(AFTER_STEP_4, windows=1, matches=1)
    assert counts.remaining == 1
    assert counts.expectation == 0.25
    assert push_bound(counts, past_last_row=True) == (2 + 1 + 0 + 1) + 1


def test_a_star_holds_its_average_rounded_up() -> None:
    """The event with which a star is left is the next state's."""
    assert [StateCount(True, *counts).inside for counts in ((7, 4), (3, 3), (3, 1), (5, 0), (0, 0))] == [1, 0, 2, 5, 0]


def test_only_the_first_star_counts() -> None:
    assert length_of(states(("A", 9, 9), ("B*", 30, 10), ("C*", 99, 1), ("D", 1, 1))) == 1 + 2 + 0 + 1
    assert length_of(states(("C*", 99, 1), ("D", 1, 1))) == 98 + 1
    assert length_of(states(("A", 0, 0))) == 1
    assert length_of(()) == 0


@pytest.mark.parametrize(
    ("likely", "often", "next_row", "past_last_row"),
    [
        (True, True, 2 + 10 * 3, 2 + 1 + 10 * 3),
        (True, False, 2, 2 + 1),
        (False, True, 2, 2 + 1),
        (False, False, 2, 2 + 1),
    ],
)
def test_table_4_3(likely: bool, often: bool, next_row: int, past_last_row: int) -> None:
    """l_seq is 2 and l_pattern 3 here, U is 10."""
    last = ("C", 10, 8 if likely else 1)
    counts = PatternCounts(states(("A", 10, 10), ("B", 10, 10), last), 10, 5 if often else 4, current=1)
    assert (counts.to_match, counts.whole_match, counts.is_likely) == (2, 3, likely)
    assert push_bound(counts, past_last_row=False, future=10) == next_row
    assert push_bound(counts, past_last_row=True, future=10) == past_last_row
    assert push_bound(counts, past_last_row=False) == 2
    assert push_bound(counts, past_last_row=True) == 3


def test_without_statistics_the_states_are_the_bound() -> None:
    """Listing 4.2, until the first match."""
    counts = PatternCounts(states(("A", 50, 40), ("B", 40, 0), ("B*", 0, 0), ("C", 0, 0)), windows=50, matches=0)
    assert push_bound(counts, past_last_row=True, future=10) == 4
    assert push_bound(PatternCounts(()), past_last_row=True) == 1


def test_the_bound_is_never_less_than_one() -> None:
    counts = PatternCounts(states(("A*", 5, 5)), windows=5, matches=5)
    assert counts.to_match == 0
    assert push_bound(counts, past_last_row=False) == 1
