"""Texts that repeat one construct again and again: refused or read in work that grows with their length, no faster.

Work is the number of lines of Python that run, which is the same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from episode.errors import EpisodeError
from episode.lang.spark_expression import MAXIMUM_DEPTH
from episode.lang.statement import parse_statement

ROWS = "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN (A B) {})"
ONE = " MATCH_RECOGNIZE (ORDER BY t PATTERN (A))"
OVER = "(ORDER BY t ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING PATTERN (A B) DEFINE B AS x > 0)"
PLACES = {
    "event condition": "PATTERN A; B WHERE {} WITHIN 5",
    "event result": "PATTERN A; B WITHIN 5 RETURN {} AS r",
    "row condition": ROWS.format("DEFINE B AS {}"),
    "row measure": "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t MEASURES {} AS m PATTERN (A B))",
    "situation": "DEFINE A AS {}, B AS x > 1 PATTERN A overlaps B",
    "select list": f"SELECT {{}} FROM t{ONE}",
}
EXPRESSIONS: dict[str, Callable[[int], str]] = {
    "NOT": lambda n: "NOT " * n + "A.x > 0",
    "minus": lambda n: "- " * n + "A.x > 0",
    "plus": lambda n: "+ " * n + "A.x > 0",
    "tilde": lambda n: "~ " * n + "A.x > 0",
    "bang": lambda n: "! " * n + "true",
    "INTERVAL": lambda n: "INTERVAL " * n + "1 day > A.x",
    "brackets": lambda n: "(" * n + "A.x > 0" + ")" * n,
    "opening brackets": lambda n: "(" * n,
    "square brackets": lambda n: "A.x" + "[0" * n + "]" * n + " > 0",
    "braces": lambda n: "{" * n + "1" + "}" * n,
    "CASE": lambda n: "CASE WHEN A.x > 0 THEN " * n + "1" + " END" * n + " > 0",
    "calls": lambda n: "abs(" * n + "A.x" + ")" * n + " > 0",
    "casts": lambda n: "CAST(" * n + "A.x" + " AS INT)" * n + " > 0",
    "lambdas": lambda n: "exists(A.x, y -> " * n + "y > 0" + ")" * n,
    "subqueries": lambda n: "(SELECT " * n + "1" + ")" * n + " = 1",
    "EXISTS": lambda n: "EXISTS (SELECT 1 WHERE " * n + "true" + ")" * n,
    "PREV": lambda n: "PREV(" * n + "A.x" + ")" * n + " > 0",
    "AND": lambda n: " AND ".join(["A.x > 0"] * n),
    "OR": lambda n: " OR ".join(["A.x > 0"] * n),
    "sum": lambda n: " + ".join(["A.x"] * n) + " > 0",
    "differences": lambda n: "A.x" + " - -A.x" * n + " > 0",
    "equalities": lambda n: " = ".join(["A.x"] * n),
    "BETWEEN": lambda n: "A.x BETWEEN " * n + "1",
    "IS NULL": lambda n: "A.x" + " IS NULL" * n,
    "LIKE": lambda n: "A.x" + " LIKE 'a'" * n,
    "NOT IN": lambda n: "A.x" + " NOT IN (1)" * n,
    "double colons": lambda n: "A.x" + "::int" * n + " > 0",
    "fields": lambda n: "A.x" + ".x" * n + " > 0",
    "commas": lambda n: "," * n,
    "strings": lambda n: "'a'" * n,
}
STATEMENTS: dict[str, Callable[[int], str]] = {
    "groups of rows": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({'(' * n}A{')' * n}))",
    "exclusions": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({'{-' * n}A{'-}' * n}))",
    "permutations": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({'PERMUTE(' * n}A{')' * n}))",
    "quantifiers": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN (A{'+' * n}))",
    "alternatives": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({'|'.join('A' * n)}))",
    "labels": lambda n: f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY t PATTERN ({' '.join('A' * n)}))",
    "definitions": lambda n: ROWS.format("DEFINE " + ", ".join(f"L{one} AS x > 0" for one in range(n))),
    "groups of events": lambda n: f"PATTERN {'(' * n}A{')' * n} WITHIN 5",
    "sequences": lambda n: f"PATTERN {'SEQ(' * n}A{')' * n} WITHIN 5",
    "negations": lambda n: f"PATTERN {'!' * n}A WITHIN 5",
    "negated groups": lambda n: f"PATTERN {'~(' * n}A{')' * n} WITHIN 5",
    "closures": lambda n: f"PATTERN A{'+' * n} WITHIN 5",
    "counts": lambda n: f"PATTERN A{'^2' * n} WITHIN 5",
    "events": lambda n: f"PATTERN {'; '.join('A' * n)} WITHIN 5",
    "clauses after each other": lambda n: "SELECT * FROM t" + ONE * n,
    "clauses in each other": lambda n: "SELECT * FROM " + "(SELECT * FROM " * n + "t" + f"{ONE})" * n,
    "clauses side by side": lambda n: "SELECT * FROM " + ", ".join([f"t{ONE}"] * n),
    "subqueries around": lambda n: "SELECT * FROM " + "(SELECT * FROM " * n + f"t{ONE}" + ")" * n,
    "EVENTS in EVENTS": lambda n: "SELECT * FROM " + "EVENTS (FROM " * n + "t" + " PATTERN A; B WITHIN 5)" * n,
    "common tables": lambda n: (
        "WITH " + ", ".join(f"q{one} AS (SELECT 1)" for one in range(n)) + f" SELECT * FROM t{ONE}"
    ),
    "WITH in WITH": lambda n: "WITH q AS (" * n + "SELECT 1" + ") SELECT 1" * n,
    "windows": lambda n: "SELECT 1 FROM t WINDOW " + ", ".join(f"w{one} AS {OVER}" for one in range(n)),
    "calls over a window": lambda n: f"SELECT {'sum(x) OVER w, ' * n} 1 FROM t WINDOW w AS {OVER}",
    "comments in comments": lambda n: "/*" * n + "*/" * n + f"SELECT * FROM t{ONE}",
    "comments": lambda n: "/**/" * n + f"SELECT * FROM t{ONE}",
    "comments that do not end": lambda n: "/*" * n,
    "comments of a line": lambda n: "--\n" * n + f"SELECT * FROM t{ONE}",
    "quotes": lambda n: "SELECT '" + "''" * n,
    "backslashes": lambda n: "SELECT '" + "\\" * n,
    "words of a strategy": lambda n: f"PATTERN A; B WHERE {'skip-till-' * n} WITHIN 5",
}
REFUSED = ("NOT", "minus", "plus", "tilde", "bang", "brackets", "CASE", "calls", "casts", "lambdas", "square brackets")


def work(text: str) -> int:
    """The number of lines of the parsers that run to read a text; a loop in one line counts at every turn."""
    count = 0

    def ran(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return ran if "lang" in frame.f_code.co_filename else None

    sys.settrace(ran)
    try:
        parse_statement(text)
    except EpisodeError as error:
        place = error.position
    else:
        place = 0
    finally:
        sys.settrace(None)
    assert place is not None
    return count


def assert_linear(make: Callable[[int], str]) -> None:
    """Four times the text takes not much more than four times the work. (Sixteen times, if work is quadratic.)"""
    short, long = make(60), make(240)
    assert work(long) < 6 * work(short) + 5_000


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions_take_linear_work(name: str, place: str) -> None:
    assert_linear(lambda n: PLACES[place].replace("{}", EXPRESSIONS[name](n)))


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_take_linear_work(name: str) -> None:
    assert_linear(STATEMENTS[name])


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("place", ["event condition", "row condition"])
def test_deep_texts_of_100_kb_are_refused_at_a_place(name: str, place: str) -> None:
    expression = EXPRESSIONS[name]
    text = PLACES[place].replace("{}", expression(100_000 // len(expression(1))))
    with pytest.raises(EpisodeError, match="nested too deeply") as raised:
        parse_statement(text)
    assert raised.value.position is not None
    assert raised.value.position < 40 * MAXIMUM_DEPTH
