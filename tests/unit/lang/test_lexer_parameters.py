"""Where named parameters stand in a text."""

from __future__ import annotations

import pytest
from sqlglot import exp

from episode.lang.lexer import parameters_in, tokenize
from episode.lang.rows.parser import parse_clause


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("v > :x AND :y<v", ["x", "y"]),
        ("f(:x,:x)", ["x", "x"]),
        ("a[:i]", ["i"]),
        ("v::int > 5", []),
        ("v:path.to = 1 AND (v):path = 2 AND v[0]:path = 3", []),
        ("':x' || \":y\" || `:z`", []),
        ("v > : x", []),
        ("v > x -- :y", []),
        ("v :x", ["x"]),
    ],
)
def test_parameters_are_found_by_their_colon(text: str, names: list[str]) -> None:
    found = parameters_in(tokenize(text))
    assert [name for name, _ in found] == names
    assert [text[span.start : span.end] for _, span in found] == [f":{name}" for name in names]


def test_a_window_may_be_a_parameter() -> None:
    within = parse_clause("ORDER BY ts PATTERN (A B) WITHIN :w DEFINE A AS v > :x").within
    assert within is not None
    assert within.parameter == "w"


@pytest.mark.parametrize("name", ["x", "like", "from", "select", "not", "between", "start", "end", "min"])
def test_any_word_may_be_the_name_of_a_parameter(name: str) -> None:
    condition = parse_clause(f"PATTERN (A) DEFINE A AS f(v, :{name}) > :{name} AND v < 5").definitions[0].condition
    assert [node.name for node in condition.tree.find_all(exp.Placeholder)] == [name, name]
