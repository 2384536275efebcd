"""The MATCH_RECOGNIZE oracle against results derived by hand from the standard, and against Python's `re`.

Expected values are worked out on paper; the comments say how.
"""

from __future__ import annotations

import dataclasses
import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.lang.rows import syntax
from episode.lang.rows.parser import parse_clause
from tests.reference import generate
from tests.reference.row_patterns import Exploded, evaluate

NAN = math.nan


def table(**columns: list) -> list[dict[str, Any]]:
    """Rows from columns, with `id` counting from 0 in front."""
    length = len(next(iter(columns.values())))
    return [{"id": i, **{name: values[i] for name, values in columns.items()}} for i in range(length)]


def run(text: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return evaluate(parse_clause(text), rows, columns=list(rows[0]))


def values(text: str, rows: list[dict[str, Any]]) -> list[tuple]:
    return [tuple(row.values()) for row in run(text, rows)]


def labels(pattern: str, define: str, v: list, *, options: str = "") -> list[str]:
    """The labels of each match in order, as one string per match."""
    text = f"ORDER BY id MEASURES array_agg(CLASSIFIER()) AS labels {options} PATTERN ({pattern})"
    text += f" DEFINE {define}" if define else ""
    return ["".join(row["labels"]) for row in run(text, table(v=v))]


def bounds(options: str, v: list) -> list[tuple]:
    """(first id, last id) of each match."""
    return values(f"ORDER BY id MEASURES FIRST(id) AS a, LAST(id) AS z {options}", table(v=v))


# ---- preference -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "define", "v", "expected"),
    [
        ("() | A", "", [1, 2], ["", ""]),  # the first alternative wins although the second is longer
        ("A | ()", "", [1, 2], ["A", "A"]),
        ("A | A B", "", [1, 2], ["A", "A"]),
        ("A B | A", "", [1, 2, 3], ["AB", "A"]),
        ("(A | B) (C | B)", "C AS v = 9", [1, 2], ["AB"]),
        ("(A | A B) C", "C AS v = 9", [1, 2, 9], ["ABC"]),  # preferred first choice fails later: backtrack
        ("A* B", "", [1, 2, 3], ["AAB"]),
        ("A*? B", "", [1, 2], ["B", "B"]),
        ("A+? B", "B AS v = 9", [1, 1, 9], ["AAB"]),
        ("A*?", "", [1], [""]),
        ("A??", "", [1], [""]),
        ("A?? B", "B AS v = 9", [1, 9], ["AB"]),
        ("A?", "", [1, 1], ["A", "A"]),
        ("A{2}", "", [1, 1, 1], ["AA"]),
        ("A{2}?", "", [1, 1, 1], ["AA"]),
        ("A{2,}", "", [1, 1, 1], ["AAA"]),
        ("A{2,3}?", "", [1, 1, 1], ["AA"]),
        ("A{,2}", "", [1, 1, 1], ["AA", "A"]),
        ("A{,}", "", [1, 1, 1], ["AAA"]),
        ("A{,2}? B", "B AS v = 9", [1, 1, 1, 9], ["AAB"]),
        ("(A B?)+", "B AS v = 2", [1, 2, 2, 1], ["ABAA"]),  # row 2 cannot follow B as B, but A takes any row
        ("(A | B){2}", "A AS v = 1", [2, 1, 1], ["BA"]),  # (third row alone is too short)
        ("A+ A+", "", [1, 1, 1], ["AAA"]),
        ("(A+)+ B", "B AS FALSE", [1] * 16, []),  # must end in our lifetime
    ],
)
def test_preference(pattern: str, define: str, v: list, expected: list[str]) -> None:
    assert labels(pattern, define, v) == expected


@pytest.mark.parametrize(
    ("define", "v", "expected"),
    [
        ("", [0, 0, 0], ["ABC"]),  # the order of the list first
        ("A AS v = 3", [0, 0, 3], ["BCA"]),  # A last: of BCA and CBA the lexicographically first
        ("A AS v = 3, B AS v = 1", [0, 3, 1], ["CAB"]),
        ("C AS v = 3", [0, 3, 0], ["ACB"]),
        ("B AS v = 3", [3, 0, 0], ["BAC"]),
        ("C AS v = 3, A AS v = 1", [3, 0, 1], ["CBA"]),
    ],
)
def test_permute_prefers_its_own_order(define: str, v: list, expected: list[str]) -> None:
    assert labels("PERMUTE(A, B, C)", define, v) == expected


def test_permute_of_optional_parts() -> None:
    # A? B? takes B alone before B? A? is looked at.
    assert labels("PERMUTE(A?, B?)", "A AS v = 1, B AS v = 2", [2, 1]) == ["B", "A"]


@pytest.mark.parametrize(
    ("pattern", "define", "v", "expected"),
    [
        ("(){5,}", "", [1, 1], ["", ""]),
        ("()+", "", [1], [""]),
        ("()*", "", [1], [""]),
        ("()??", "", [1], [""]),
        ("^+", "", [1, 1], [""]),  # holds before the first row only
        ("${2,}", "", [1, 1], []),  # attempts start at real rows, so never after the last
        ("(Y?){2,}", "Y AS v = 1", [1, 0], ["Y", ""]),  # Y, then an empty iteration: enough
        ("(Y?){2,}", "Y AS v = 1", [1, 1, 1], ["YYY"]),
        ("(Y??){2,}", "Y AS v = 1", [1, 1], ["", ""]),
        ("(Y??){2,} X", "X AS v = 9", [1, 1, 9], ["YYX"]),
        ("(Y?){3}", "Y AS v = 1", [1, 1, 0], ["YY", ""]),
        ("(Y*)* X", "X AS v = 9", [1, 9], ["YX"]),
        ("(() | Y)* X", "X AS v = 9", [1, 9], ["YX"]),
        # The first iteration's A? is empty and ends the loop, X fails; then B, and A? may take row 1. (By Perl's rule
        # an empty iteration below the minimum goes on: "() B X" would come first and the match would be BX.)
        ("(A? | B){2} X", "A AS v = 1, B AS v = 0, X AS v >= 1", [0, 1, 2], ["BAX"]),
    ],
)
def test_empty_iterations_satisfy_the_minimum_and_end_the_loop(
    pattern: str, define: str, v: list, expected: list[str]
) -> None:
    assert labels(pattern, define, v) == expected


@pytest.mark.parametrize(
    ("pattern", "v", "expected"),
    [
        ("^ A", [1, 1, 1], ["A"]),
        ("A $", [1, 1, 1], ["A"]),
        ("^ A+ $", [1, 1, 1], ["AAA"]),
        ("^ A $", [1, 1], []),
        ("A ^", [1, 1], []),
        ("$ A", [1], []),
        ("A (^ | $)", [1, 1], ["A"]),
        ("A $ ()", [1], ["A"]),
    ],
)
def test_anchors_are_partition_bounds(pattern: str, v: list, expected: list[str]) -> None:
    assert labels(pattern, "", v) == expected


def test_anchors_hold_in_every_partition() -> None:
    rows = table(k=[1, 2, 1, 2])
    assert values("PARTITION BY k ORDER BY id MEASURES A.id AS a PATTERN (^ A)", rows) == [(1, 0), (2, 1)]


# ---- conditions -----------------------------------------------------------------------------------


def test_labels_are_revised_when_a_later_condition_needs_it() -> None:
    # Preferred AA X fails (B.v is null), so does A B X (5 = 6), then B A X: B.v is 5.
    assert labels("(A | B)* X", "X AS v = B.v", [5, 6, 5]) == ["BAX"]


def test_a_column_of_a_label_is_that_of_its_last_row() -> None:
    # Row 2: B.v < A.v is 5 < 6.
    assert labels("A+ B", "B AS B.v < A.v", [4, 6, 5]) == ["AAB"]


def test_prev_of_a_label_starts_from_its_last_row() -> None:
    # At row 3 the last A is row 1, and the row before it has v = 7; the row before the current one has v = 3.
    assert labels("A A B B", "B AS B.v = 3 OR PREV(A.v) = 7", [7, 8, 3, 9]) == ["AABB"]
    assert labels("A A B B", "B AS B.v = 3 OR PREV(A.v) = 3", [7, 8, 3, 9]) == []


def test_physical_offsets_leave_the_match_but_not_the_partition() -> None:
    assert labels("B", "B AS PREV(v) = 1 AND NEXT(v) = 3", [1, 2, 3]) == ["B"]
    assert labels("B", "B AS PREV(v) IS NULL", [1, 2, 3]) == ["B"]
    assert labels("B", "B AS NEXT(v, 2) IS NULL", [1, 2, 3]) == ["B", "B"]
    # Outside the partition the whole navigation is null, not its argument evaluated on nulls.
    assert labels("B", "B AS PREV(COALESCE(v, 0)) IS NULL", [1]) == ["B"]


def test_logical_offsets_count_rows_of_the_label() -> None:
    # A rows 0, 1, 2: LAST(A.v, 1) is row 1, FIRST(A.v, 2) is row 2, FIRST(A.v, 3) does not exist.
    define = "B AS LAST(A.v, 1) = 20 AND FIRST(A.v, 2) = 30 AND FIRST(A.v, 3) IS NULL AND LAST(A.v, 3) IS NULL"
    assert labels("A A A B", define, [10, 20, 30, 0]) == ["AAAB"]
    # Then the physical step: from row 1 back to row 0, from row 0 on to row 3.
    define = "B AS PREV(LAST(A.v, 1)) = 10 AND NEXT(FIRST(A.v), 3) = 0"
    assert labels("A A A B", define, [10, 20, 30, 0]) == ["AAAB"]


def test_aggregates_in_define_include_the_current_row_and_forget_rejected_tries() -> None:
    # 1+2 fits, 1+2+3 does not; then 3 alone, 3+4 does not fit; 4 alone.
    assert labels("A+", "A AS sum(A.v) <= 5", [1, 2, 3, 4]) == ["AA", "A", "A"]
    # Row 1 is tried as A (2 > 1), rejected, and taken as B: count(A.*) must still be 1 at row 2.
    assert labels("A (A | B) C", "A AS count(A.*) <= 1, C AS count(A.*) = 1 AND count(*) = 3", [0, 0, 0]) == ["ABC"]


def test_classifier_and_match_number_in_define() -> None:
    assert labels("(A | B)+", "A AS COALESCE(PREV(CLASSIFIER()), 'B') = 'B'", [0] * 4) == ["ABAB"]
    assert labels("A B", "B AS NEXT(CLASSIFIER()) IS NULL AND PREV(CLASSIFIER(), 2) IS NULL", [0, 0, 0]) == ["AB"]
    assert labels("A B?", "B AS MATCH_NUMBER() = 2", [0, 0, 0]) == ["A", "AB"]  # failed attempts use no number
    assert labels("A", "A AS MATCH_NUMBER() = 1 AND v > 0", [0, 0, 1, 1]) == ["A"]
    assert labels("(A | B)+", "A AS count_if(CLASSIFIER() = 'A') <= 2", [0] * 4) == ["AABB"]
    text = "MEASURES CLASSIFIER(U) AS u PATTERN (A B C) SUBSET U = (A, B) DEFINE C AS CLASSIFIER(U) = 'B'"
    assert values(text, table(v=[0, 0, 0])) == [("B",)]


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("NULL", False),
        ("NOT NULL", False),
        ("v > 1 OR TRUE", True),
        ("v > 1 AND FALSE", False),
        ("NOT (v > 1 AND FALSE)", True),
        ("1 / 0 IS NULL", True),
        ("1 % 0 IS NULL", True),
        ("1.5e0 / 0.0e0 IS NULL", True),
        ("9223372036854775807 + 1 IS NULL", True),
        ("-9223372036854775807 - 2 IS NULL", True),
        ("COALESCE(9223372036854775807 * 2, 7) = 7", True),
    ],
)
def test_a_null_condition_does_not_hold_and_failures_are_null(condition: str, holds: bool) -> None:
    assert labels("A", f"A AS {condition}", [None]) == (["A"] if holds else [])


# ---- rows per match -------------------------------------------------------------------------------


def test_running_and_final() -> None:
    rows = table(v=[10, 20, 30])
    text = """ORDER BY id MEASURES A.v AS a, FINAL LAST(A.v) AS fa, B.v AS b, FINAL LAST(B.v) AS fb, v AS x,
        count(*) AS n, FINAL count(*) AS fn, sum(A.v) AS s, FIRST(v, 2) AS third, LAST(v, 1) AS before,
        NEXT(CLASSIFIER()) AS following, NEXT(v) AS nv, RUNNING count(*) + FINAL count(*) AS both
        ALL ROWS PER MATCH PATTERN (A A B)"""
    names = ["id", "a", "fa", "b", "fb", "x", "n", "fn", "s", "third", "before", "following", "nv", "both", "v"]
    assert [list(row) for row in run(text, rows)] == [names] * 3
    assert values(text, rows) == [
        (0, 10, 20, None, 30, 10, 1, 3, 10, None, None, "A", 20, 4, 10),
        (1, 20, 20, None, 30, 20, 2, 3, 30, None, 10, "B", 30, 5, 20),
        (2, 20, 20, 30, 30, 30, 3, 3, 30, 30, 20, None, None, 6, 30),
    ]
    # One row per match is measured at its last row.
    text = text.replace("ALL ROWS PER MATCH", "ONE ROW PER MATCH")
    assert values(text, rows) == [(20, 20, 30, 30, 30, 3, 3, 30, 30, 20, None, None, 6)]


def test_exclusion_hides_rows_but_they_count() -> None:
    rows = table(v=[1, 2, 3, 4])
    text = """ORDER BY id MEASURES count(*) AS n, sum(v) AS s, LAST(B.v) AS b, MATCH_NUMBER() AS m
        {} PATTERN (A {{- B+ -}} C)"""
    assert values(text.format("ALL ROWS PER MATCH"), rows) == [(0, 1, 1, None, 1, 1), (3, 4, 10, 3, 1, 4)]
    assert values(text.format("ONE ROW PER MATCH"), rows) == [(4, 10, 3, 1)]
    # A match of hidden rows only prints nothing and uses its number.
    text = "ORDER BY id MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH PATTERN ({- A -} | B) DEFINE A AS v < 3"
    assert values(text, rows) == [(2, 3, 3), (3, 4, 4)]


def test_empty_matches() -> None:
    rows = table(v=[0, 1, 0])
    text = """ORDER BY id MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS c, v AS x, A.v AS a, count(*) AS n, sum(v) AS s,
        FIRST(v) AS f, NEXT(v) AS nv, FINAL LAST(v) AS l, 7 AS seven {} PATTERN (A*) DEFINE A AS v = 1"""
    empty = (None, None, None, 0, None, None, None, None, 7)
    full = ("A", 1, 1, 1, 1, 1, 0, 1, 7)
    shown = [(0, 1, *empty, 0), (1, 2, *full, 1), (2, 3, *empty, 0)]
    assert values(text.format("ALL ROWS PER MATCH"), rows) == shown
    assert values(text.format("ALL ROWS PER MATCH SHOW EMPTY MATCHES"), rows) == shown
    assert values(text.format("ALL ROWS PER MATCH WITH UNMATCHED ROWS"), rows) == shown
    assert values(text.format("ALL ROWS PER MATCH OMIT EMPTY MATCHES"), rows) == [shown[1]]
    assert values(text.format("ONE ROW PER MATCH"), rows) == [(1, *empty), (2, *full), (3, *empty)]


def test_unmatched_rows_have_null_measures() -> None:
    rows = table(v=[0, 1, 2, 0])
    text = """ORDER BY id MEASURES MATCH_NUMBER() AS m, count(*) AS n, 7 AS seven
        ALL ROWS PER MATCH WITH UNMATCHED ROWS {} PATTERN (A B) DEFINE A AS v = 1"""
    expected = [(0, None, None, None, 0), (1, 1, 1, 7, 1), (2, 1, 2, 7, 2), (3, None, None, None, 0)]
    assert values(text.format(""), rows) == expected
    # The attempt at row 2 fails, but the match covers it: not printed again.
    assert values(text.format("AFTER MATCH SKIP TO NEXT ROW"), rows) == expected


def test_an_empty_match_prints_a_row_that_was_covered_before() -> None:
    # Row 0: AB. Row 1 (after skipping to it): neither AB nor CD, so the empty match.
    text = """ORDER BY id MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS
        AFTER MATCH SKIP TO B PATTERN (A B | ()) DEFINE A AS v = 1"""
    assert values(text, table(v=[1, 2])) == [(0, 1, 1), (1, 1, 2), (1, 2, 2)]


def test_output_columns_partition_then_order_then_measures_then_the_rest() -> None:
    rows = [{"v": 1, "t": 5, "k": "x", "w": 2}]
    text = "PARTITION BY k ORDER BY k, T DESC MEASURES v + w AS m ALL ROWS PER MATCH PATTERN (A)"
    assert run(text, rows) == [{"k": "x", "t": 5, "m": 3, "v": 1, "w": 2}]
    assert list(run(text, rows)[0]) == ["k", "t", "m", "v", "w"]
    assert list(run(text.replace("ALL ROWS", "ONE ROW"), rows)[0]) == ["k", "m"]


def test_names() -> None:
    # Unquoted labels are upper case, quoted ones as written; the table's own name may qualify a partition column.
    rows = [{"K": 1, "a": {"x": 5}}]
    text = "PARTITION BY t.k MEASURES array_agg(CLASSIFIER()) AS c, b.A.x AS x, count(a) AS n PATTERN (b | `c`)"
    assert run(text, rows) == [{"K": 1, "c": ["B"], "x": 5, "n": 1}]
    assert labels("`b` B", "b AS v = 2", [1, 2]) == ["bB"]


# ---- after match ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skip", "expected"),
    [
        ("", [(0, 2), (3, 4)]),
        ("AFTER MATCH SKIP PAST LAST ROW", [(0, 2), (3, 4)]),
        ("AFTER MATCH SKIP TO NEXT ROW", [(0, 2), (1, 2), (3, 4)]),
        ("AFTER MATCH SKIP TO B", [(0, 2), (3, 4)]),  # nothing starts on a B row
        ("AFTER MATCH SKIP TO FIRST B", [(0, 2), (3, 4)]),
    ],
)
def test_after_match_skip(skip: str, expected: list[tuple]) -> None:
    assert bounds(f"{skip} PATTERN (A+ B) DEFINE A AS v = 1, B AS v = 2", [1, 1, 2, 1, 2]) == expected


def test_matching_resumes_on_the_row_skipped_to() -> None:
    # Any row may be A. From row 0: A B B B A; the last B is row 3, from where A B+ finds no B.
    text = "AFTER MATCH SKIP TO {} PATTERN (A B+ A) DEFINE B AS v = 2"
    assert bounds(text.format("B"), [1, 2, 2, 2, 1]) == [(0, 4)]
    assert bounds(text.format("LAST B"), [1, 2, 2, 2, 1]) == [(0, 4)]
    # The first B is row 1, then row 2, then row 3.
    assert bounds(text.format("FIRST B"), [1, 2, 2, 2, 1]) == [(0, 4), (1, 4), (2, 4)]


def test_skip_to_a_union_variable() -> None:
    text = "AFTER MATCH SKIP TO U PATTERN (A B | A C) SUBSET U = (B, C) DEFINE B AS v = 2"
    assert bounds(text, [1, 2, 3]) == [(0, 1), (1, 2)]


def test_skipping_to_a_label_that_is_not_in_the_match_is_an_error() -> None:
    with pytest.raises(EpisodeDataError, match="B"):
        bounds("AFTER MATCH SKIP TO FIRST B PATTERN (A B?) DEFINE B AS v = 2", [1, 1])


def test_skipping_to_the_first_row_of_a_later_match_is_an_error_too() -> None:
    # From row 0: A A B, on to its last A; from row 1: A B, whose last A is where it starts.
    with pytest.raises(EpisodeDataError, match="first row of the match"):
        bounds("AFTER MATCH SKIP TO LAST A PATTERN (A+ B) DEFINE A AS v = 1, B AS v = 2", [1, 1, 2])


def test_skipping_to_the_first_row_is_an_error() -> None:
    with pytest.raises(EpisodeDataError, match="first row of the match"):
        bounds("AFTER MATCH SKIP TO FIRST A PATTERN (A B)", [1, 1])


def test_after_an_empty_match_comes_the_next_row_whatever_the_skip() -> None:
    # B is in no empty match, and that is no error.
    text = "AFTER MATCH SKIP TO LAST B PATTERN ((A B)?) DEFINE B AS v = 2"
    assert bounds(text, [1, 1, 2]) == [(None, None), (1, 2), (None, None)]


# ---- match modes ----------------------------------------------------------------------------------

PRICES = [10, 6, 6, 5, 7, 6, 11, 8, 8, 3, 3]
FALL = "PATTERN (A B+) DEFINE B AS B.v < PREV(B.v)"
TICK = """PATTERN (A B+ C* D+) DEFINE B AS B.v < PREV(B.v), C AS C.v >= PREV(C.v) AND C.v <= A.v,
    D AS D.v > PREV(D.v) AND D.v > A.v"""


def test_the_live_side_of_the_paper() -> None:
    # DejaVu, PCQ paper, Table 1, column Live.
    text = f"""ORDER BY id MEASURES FIRST(id) AS a, LAST(id) AS z, A.v AS i, LAST(B.v) AS m
        AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH {FALL}"""
    expected = [(0, 1, 10, 6), (2, 3, 6, 5), (4, 5, 7, 6), (6, 7, 11, 8), (8, 9, 8, 3)]
    assert values(text, table(v=PRICES)) == expected


def test_the_archive_side_of_the_paper() -> None:
    # Column Archive.
    text = f"""ORDER BY id MEASURES FIRST(id) AS a, LAST(id) AS z, A.v AS i, LAST(D.v) AS m
        AFTER MATCH SKIP TO NEXT ROW MAXIMAL MATCH {TICK}"""
    assert values(text, table(v=PRICES)) == [(2, 4, 6, 7), (4, 6, 7, 11)]


@pytest.mark.parametrize(
    ("mode", "skip", "expected"),
    [
        # A+ B?? over 1 1 2: from an A row every end up to the last row is a match; the preferred one leaves B out.
        ("", "TO NEXT ROW", [(0, 1), (1, 1)]),
        ("MAXIMAL MATCH", "TO NEXT ROW", [(0, 2), (1, 2)]),
        ("MAXIMAL MATCH", "PAST LAST ROW", [(0, 2)]),
        ("ALL MATCHES", "TO NEXT ROW", [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]),
        ("ALL MATCHES", "PAST LAST ROW", [(0, 0), (0, 1), (0, 2)]),
        ("INCREMENTAL MATCH", "TO NEXT ROW", [(0, 0), (0, 1), (0, 2)]),
        ("INCREMENTAL MATCH", "PAST LAST ROW", [(0, 0), (0, 1), (0, 2)]),
    ],
)
def test_match_modes(mode: str, skip: str, expected: list[tuple]) -> None:
    text = f"AFTER MATCH SKIP {skip} {mode} PATTERN (A+ B??) DEFINE A AS v = 1, B AS v = 2"
    assert bounds(text, [1, 1, 2]) == expected


def test_incremental_numbers_matches_in_order_of_end_row() -> None:
    # From row 0 only the end at row 2; from row 1 the ends 1 and 2, of which 2 is taken.
    text = """ORDER BY id MEASURES MATCH_NUMBER() AS m, FIRST(id) AS a, LAST(id) AS z
        AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B B | B B?) DEFINE A AS v = 1, B AS v = 2"""
    assert values(text, table(v=[1, 2, 2])) == [(1, 1, 1), (2, 0, 2)]


def test_modes_take_the_most_preferred_labels_of_the_chosen_rows() -> None:
    text = "AFTER MATCH SKIP TO NEXT ROW {}"
    assert labels("(B | A) A? | A B A", "", [0, 0, 0], options=text.format("MAXIMAL MATCH")) == ["ABA", "BA", "B"]
    expected = ["B", "BA", "ABA", "B", "BA", "B"]
    assert labels("(B | A) A? | A B A", "", [0, 0, 0], options=text.format("ALL MATCHES")) == expected


def test_modes_and_empty_matches() -> None:
    text = "{} PATTERN (A*) DEFINE A AS v = 1"
    assert bounds(text.format("MAXIMAL MATCH"), [0, 1, 1]) == [(None, None), (1, 2)]
    assert bounds(text.format("ALL MATCHES"), [0, 1, 1]) == [(None, None), (1, 1), (1, 2)]
    assert bounds(text.format("INCREMENTAL MATCH"), [0, 1, 1]) == [(1, 1), (1, 2)]


def test_modes_skip_from_the_longest_match() -> None:
    # The longest match from row 0 is A A B B with its first B at row 2; from there nothing starts with A.
    text = "AFTER MATCH SKIP TO FIRST B ALL MATCHES PATTERN (A+ B+) DEFINE A AS v = 1, B AS v = 2"
    assert bounds(text, [1, 1, 2, 2]) == [(0, 2), (0, 3)]
    with pytest.raises(EpisodeDataError):
        bounds("AFTER MATCH SKIP TO FIRST A MAXIMAL MATCH PATTERN (A+ B+)", [1, 1])


def test_incremental_with_unmatched_rows() -> None:
    # Rows 0 and 3 lie in no reported match; each stands where it would end.
    text = """ORDER BY id MEASURES MATCH_NUMBER() AS m ALL ROWS PER MATCH WITH UNMATCHED ROWS
        AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH PATTERN (A B+) DEFINE A AS v = 1, B AS v = 2"""
    expected = [(0, None, 0), (1, 1, 1), (2, 1, 2), (3, None, 0), (4, 2, 1), (5, 2, 2), (4, 3, 1), (5, 3, 2), (6, 3, 2)]
    assert values(text, table(v=[0, 1, 2, 0, 1, 2, 2])) == expected


# ---- windows, partitions, order -------------------------------------------------------------------


def test_within_bounds_the_match_inclusively() -> None:
    rows = [{"ts": ts} for ts in [0, 5, 10, 11]]
    text = "ORDER BY ts MEASURES FIRST(ts) AS a, LAST(ts) AS z PATTERN (A+) WITHIN 10"
    assert values(text, rows) == [(0, 10), (11, 11)]
    # A less preferred match that fits is taken; a longer required one is none.
    assert values(text.replace("A+", "A A A"), rows) == [(0, 10)]
    assert values(text.replace("A+", "A{4}"), rows) == []
    # Descending time: the largest minus the smallest all the same.
    assert values(text.replace("ORDER BY ts", "ORDER BY ts DESC"), rows) == [(11, 5), (0, 0)]


def test_within_over_timestamps_and_dates() -> None:
    rows = [{"ts": datetime(2026, 1, 1, 0, 0, second)} for second in (0, 10, 11)]
    text = "ORDER BY ts MEASURES count(*) AS n PATTERN (A+) WITHIN {}"
    assert values(text.format("10 seconds"), rows) == [(2,), (1,)]
    rows = [{"ts": date(2026, 1, day)} for day in (1, 2, 3)]
    assert values(text.format("1 day"), rows) == [(2,), (1,)]


def test_within_rejects_a_null_time() -> None:
    with pytest.raises(EpisodeDataError, match="event time is null"):
        values("ORDER BY ts MEASURES count(*) AS n PATTERN (A) WITHIN 1", [{"ts": 1}, {"ts": None}])


def test_partitions_appear_in_order_of_arrival_and_nulls_form_one() -> None:
    rows = [{"k": k, "id": i} for i, k in enumerate([2, None, 1, None, 2])]
    text = "PARTITION BY k ORDER BY id MEASURES array_agg(id) AS ids, MATCH_NUMBER() AS m PATTERN (A+)"
    assert values(text, rows) == [(2, [0, 4], 1), (None, [1, 3], 1), (1, [2], 1)]


def test_float_keys_group_as_in_spark() -> None:
    rows = [{"k": k, "id": i} for i, k in enumerate([NAN, 0.0, -0.0, float("nan")])]
    text = "PARTITION BY k ORDER BY id MEASURES array_agg(id) AS ids PATTERN (A+)"
    assert [row["ids"] for row in run(text, rows)] == [[0, 3], [1, 2]]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("f", [1, 4, 2, 0, 3, 5]),  # null first, -0.0 and 0.0 in order of arrival, NaN last
        ("f NULLS LAST", [4, 2, 0, 3, 5, 1]),
        ("f DESC", [5, 0, 3, 2, 4, 1]),
        ("f DESC NULLS FIRST", [1, 5, 0, 3, 2, 4]),
    ],
)
def test_order_as_in_spark(order: str, expected: list[int]) -> None:
    rows = table(f=[0.0, None, -1.5, -0.0, -math.inf, NAN])
    assert values(f"ORDER BY {order} MEASURES array_agg(id) AS ids PATTERN (A+)", rows) == [(expected,)]


def test_later_order_columns_break_ties() -> None:
    rows = table(t=[1, 0, 1, 0], s=["b", "b", "a", "c"])
    assert values("ORDER BY t, s DESC MEASURES array_agg(id) AS ids PATTERN (A+)", rows) == [([3, 1, 0, 2],)]
    assert values("MEASURES array_agg(id) AS ids PATTERN (A+)", rows) == [([0, 1, 2, 3],)]


# ---- aggregates and scalars -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("count(*)", 4),
        ("count(A.*)", 3),
        ("count(U.*)", 4),
        ("count(v)", 3),
        ("count(B.v)", 0),
        ("sum(v)", 7),
        ("sum(B.v)", None),
        ("sum(A.f)", 2.0),
        ("avg(A.v)", 7 / 3),
        ("min(v)", 1),
        ("max(v)", 4),
        ("max(s)", "y"),
        ("stddev_samp(A.v)", math.sqrt(7 / 3)),  # mean 7/3: squares 16/9 + 1/9 + 25/9 = 14/3
        ("stddev(A.v)", math.sqrt(7 / 3)),
        ("stddev_pop(v)", math.sqrt(14 / 9)),
        ("variance(v)", 7 / 3),
        ("var_samp(v)", 7 / 3),
        ("var_pop(v)", 14 / 9),
        ("stddev(B.f)", None),
        ("var_pop(B.f)", 0.0),
        ("array_agg(v)", [1, 2, 4]),
        ("collect_list(B.v)", []),
        ("array_agg(CLASSIFIER(U))", ["A", "A", "A", "B"]),
        ("sum(MATCH_NUMBER())", 4),
        ("max_by(s, v)", "x"),
        ("min_by(id, s)", 2),  # x, y, x, null: of the equal ones the later
        ("max_by(v, f)", None),  # 8.0 belongs to the B row, whose v is null
        ("max_by(B.v, B.v)", None),
        ("bool_and(v > 0)", True),
        ("every(v > 1)", False),
        ("bool_or(v > 3)", True),
        ("some(v > 9)", False),
        ("bool_or(B.v > 0)", None),
        ("count_if(v >= 2)", 2),
        ("count_if(B.v >= 2)", 0),
        ("sum(A.v * A.v + 1)", 24),
        ("sum(v) + count(*) * 2", 15),
        ("COALESCE(sum(B.v), -1)", -1),
    ],
)
def test_aggregates(expression: str, expected: Any) -> None:
    rows = table(v=[1, 2, 4, None], f=[0.5, None, 1.5, 8.0], s=["x", "y", "x", None])
    text = f"ORDER BY id MEASURES {expression} AS m PATTERN (A A A B) SUBSET U = (A, B)"
    [(value,)] = values(text, rows)
    assert value == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_float_aggregates_with_nan() -> None:
    rows = table(f=[1.0, NAN, -1.0])
    [(least, most, total)] = values("MEASURES min(f) AS a, max(f) AS b, sum(f) AS c PATTERN (A+)", rows)
    assert least == -1.0
    assert math.isnan(most)
    assert math.isnan(total)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("7 / 2", 3.5),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("i - f", 0.5),
        ("1.5 + 1", Decimal("2.5")),
        ("1.5 + f", 4.0),
        ("1e1", 10.0),
        ("-i", -3),
        ("ABS(-i)", 3),
        ("i = 3.0", True),
        ("i <> 3", False),
        ("n = 1", None),
        ("n <=> NULL", True),
        ("i <=> NULL", False),
        ("i <=> 3", True),
        ("x = x", True),
        ("x > 1e300", True),
        ("f < x", True),
        ("z = 0", True),
        ("n IS NULL", True),
        ("i IS NOT NULL", True),
        ("n > 1 AND FALSE", False),
        ("n > 1 AND TRUE", None),
        ("n > 1 OR TRUE", True),
        ("NOT (n > 1)", None),
        ("i BETWEEN 1 AND 3", True),
        ("i NOT BETWEEN 1 AND 3", False),
        ("i BETWEEN n AND 2", False),  # null AND false
        ("i BETWEEN n AND 5", None),
        ("i IN (1, 3, NULL)", True),
        ("i IN (1, NULL)", None),
        ("i NOT IN (1, 2)", True),
        ("CASE WHEN n > 1 THEN 'a' WHEN i = 3 THEN 'b' ELSE 'c' END", "b"),
        ("CASE i WHEN 1 THEN 'a' END", None),
        ("CASE i WHEN 3 THEN 'a' END", "a"),
        ("COALESCE(n, i, 9)", 3),
        ("IF(n > 1, 1, 2)", 2),
        ("LEAST(i, f, n)", 2.5),
        ("GREATEST(i, f, n)", 3),
        ("LEAST(x, f)", 2.5),
        ("LEAST(n, n)", None),
        ("s || 'b'", "ab"),
        ("s || NULL", None),
        ("s < 'b'", True),
        ("CAST(i AS DOUBLE) / 2", 1.5),
        ("CAST(f AS BIGINT)", 2),
        ("t2 - t1", timedelta(seconds=5)),
        ("t1 < t2", True),
        ("d < t1", True),
        ("b", True),
        ("(b)", True),
        ("b IS TRUE", True),
        ("n IS FALSE", False),
    ],
)
def test_scalars_as_in_spark(expression: str, expected: Any) -> None:
    row = {"i": 3, "f": 2.5, "n": None, "x": NAN, "z": -0.0, "s": "a", "b": True, "d": date(2026, 1, 1)}
    row |= {"t1": datetime(2026, 1, 1, 12), "t2": datetime(2026, 1, 1, 12, 0, 5)}
    [(value,)] = values(f"MEASURES {expression} AS m PATTERN (A)", [row])
    assert value == expected
    assert type(value) is type(expected)


def test_what_the_oracle_does_not_know_it_says() -> None:
    with pytest.raises(NotImplementedError):
        values("MEASURES upper(s) AS m PATTERN (A)", [{"s": "a"}])
    with pytest.raises(ArithmeticError):  # in MEASURES Spark computes, and raises
        values("MEASURES 1 / i AS m PATTERN (A)", [{"i": 0}])


# ---- against Python's regular expressions ---------------------------------------------------------

CLASSES = {"A": "ab", "B": "bc", "C": "c"}  # the characters a label takes: they overlap


@st.composite
def regexes(draw: st.DrawFn, depth: int = 3) -> tuple[syntax.Pattern, str, bool]:
    """A pattern, the same as a regular expression, and whether it can be empty (`re` loops differently over those)."""
    kind = draw(st.sampled_from(["label", "label", "empty", "then", "or", "loop", "permute"] if depth else ["label"]))
    if kind == "empty":
        return syntax.Empty(), "(?:)", True
    if kind == "label":
        name = draw(st.sampled_from(sorted(CLASSES)))
        return syntax.Label(name), f"[{CLASSES[name]}]", False
    if kind == "loop":
        part, text, _ = draw(regexes(depth - 1).filter(lambda drawn: not drawn[2]))
        least = draw(st.integers(0, 2))
        most = draw(st.none() | st.integers(max(1, least), 3))
        greedy = draw(st.booleans())
        bounds_text = f"{{{least},{'' if most is None else most}}}{'' if greedy else '?'}"
        return syntax.Quantified(part, least, most, greedy), f"(?:{text}){bounds_text}", least == 0
    drawn = [draw(regexes(depth - 1)) for _ in range(2)]
    parts = tuple(part for part, _, _ in drawn)
    texts = [text for _, text, _ in drawn]
    empties = [nullable for _, _, nullable in drawn]
    if kind == "then":
        return syntax.Concatenation(parts), "".join(texts), all(empties)
    if kind == "or":
        return syntax.Alternation(parts), f"(?:{'|'.join(texts)})", any(empties)
    return syntax.Permutation(parts), f"(?:{texts[0]}{texts[1]}|{texts[1]}{texts[0]})", all(empties)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(regexes(), st.text("abcd", min_size=1, max_size=7))
def test_the_same_matches_as_regular_expressions(drawn: tuple[syntax.Pattern, str, bool], word: str) -> None:
    pattern, text, _ = drawn
    regex = re.compile(text)
    conditions = [f"{name} AS {name}.v IN ({', '.join(map(repr, chars))})" for name, chars in CLASSES.items()]
    text = f"""ORDER BY id MEASURES FIRST(id) AS a, count(*) AS n AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A | B | C) DEFINE {", ".join(conditions)}"""

    def found(mode: syntax.MatchMode) -> list[tuple]:
        clause = dataclasses.replace(parse_clause(text), pattern=pattern, match_mode=mode)
        rows = evaluate(clause, table(v=list(word)), columns=["id", "v"])
        return [(row["a"], row["a"] + row["n"]) for row in rows if row["n"]]

    starts = range(len(word))
    preferred = [(start, match.end()) for start in starts if (match := regex.match(word, start))]
    ends = range(1, len(word) + 1)
    spans = [(start, end) for start in starts for end in ends if start < end and regex.fullmatch(word, start, end)]
    first_starts = {end: start for start, end in reversed(spans)}
    assert found(syntax.MatchMode.PREFERRED) == [span for span in preferred if span[0] < span[1]]
    assert found(syntax.MatchMode.ALL) == spans
    assert found(syntax.MatchMode.MAXIMAL) == sorted(dict(spans).items())
    assert found(syntax.MatchMode.INCREMENTAL) == [(first_starts[end], end) for end in ends if end in first_starts]


# ---- the generator --------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@example("ORDER BY ts MEASURES count(*) AS m PATTERN (A)", [])
@given(generate.clauses(), generate.tables())
def test_generated_clauses_are_valid(text: str, rows: list[dict[str, Any]]) -> None:
    clause = parse_clause(text)
    try:
        output = evaluate(clause, rows, columns=generate.COLUMNS, budget=20_000)
    except (EpisodeDataError, Exploded):
        return
    assert all(measure.name in row for row in output for measure in clause.measures)
