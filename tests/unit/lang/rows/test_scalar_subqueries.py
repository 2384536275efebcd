"""Subqueries in MEASURES and DEFINE: what is one, what is not, and the parameters in their places."""

from __future__ import annotations

import random

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import tokenize
from episode.lang.rows.parser import parse_clause
from episode.lang.rows.scalar import EXISTS, LIST, VALUE, subqueries_of, with_subqueries
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.spark_expression import read_expression, write_expression

CLAUSE = "ORDER BY id MEASURES {} AS m PATTERN (A B) DEFINE B AS {}"
QUERIES = [
    "SELECT 1", "SELECT max(j) FROM q", "WITH r AS (SELECT 1 AS k) SELECT k FROM r", "VALUES (1), (2)",
    "FROM q SELECT j", "TABLE q", "SELECT x FROM q WHERE y IN (SELECT z FROM r) ORDER BY x LIMIT 1",
    "SELECT ')' AS x, \"(\" AS y",
    "SELECT A.v FROM A",
]  # fmt: skip
FORMS = [
    ("({})", VALUE), ("v + ({})", VALUE), ("coalesce(({}), 0)", VALUE), ("v IN ({})", LIST),
    ("(v, id) NOT IN ({})", LIST), ("EXISTS ({})", EXISTS), ("NOT EXISTS({})", EXISTS),
    ("CASE WHEN ({}) > 1 THEN ({}) ELSE ({}) END", VALUE),
    ("sum(A.v * ({}))", VALUE), ("LAST(v + ({}), 1)", VALUE), ("PREV(LAST(v + ({})))", VALUE),
    ("exists(array_agg(v), x -> x > ({}))", VALUE), ("v BETWEEN ({}) AND ({})", VALUE), ("array(({}), 2)[0]", VALUE),
]  # fmt: skip


def found_in(clause: MatchRecognize, text: str) -> list[tuple[str, str]]:
    return [(one.form, text[one.span.start : one.span.end]) for one in subqueries_of(clause)]


def test_every_form_in_both_clauses() -> None:
    random_ = random.Random(3)
    for form, kind in FORMS * 3:
        chosen = [random_.choice(QUERIES) for _ in range(form.count("{}"))]
        expression = form.format(*chosen)
        other, other_kind = random_.choice(FORMS)
        others = [random_.choice(QUERIES) for _ in range(other.count("{}"))]
        text = CLAUSE.format(expression, f"{other.format(*others)} IS NULL")
        expected = [(kind, query) for query in chosen] + [(other_kind, query) for query in others]
        clause = parse_clause(text)
        assert found_in(clause, text) == expected
        assert len({one.name for one in subqueries_of(clause)}) == len(expected)


def test_for_people_to_read() -> None:
    text = CLAUSE.format("coalesce((SELECT 1), v)", "v IN (SELECT 2) AND EXISTS (SELECT 3)")
    clause = parse_clause(text)
    assert with_subqueries(clause.measures[0].expression.text, text).split() == [
        "coalesce(",
        "(SELECT",
        "1)",
        ",",
        "__episode_0)",
    ]
    shown = with_subqueries(clause.definitions[0].condition.text, text)
    assert shown.split() == ["__episode_0", "IN", "(SELECT", "2)", "AND", "EXISTS", "(SELECT", "3)"]


@pytest.mark.parametrize(
    "expression",
    ["(`select` + 1)", "(`from`)", "(v)", "(`values` + 1)", "(with_tax)", "exists(array_agg(v), x -> x > 1)",
     "v IN (1, 2)", "(`table`.x)"],
)  # fmt: skip
def test_what_is_not_a_subquery(expression: str) -> None:
    text = CLAUSE.format(expression, "true")
    assert subqueries_of(parse_clause(text)) == ()


@pytest.mark.parametrize("expression", ["v = ANY (SELECT 1)", "upper(SELECT 1)", "max(SELECT 1)", "v + SELECT 1"])
def test_a_subquery_in_another_place(expression: str) -> None:
    with pytest.raises(EpisodeSyntaxError):
        parse_clause(CLAUSE.format(expression, "true"))


@pytest.mark.parametrize(
    "text",
    ["array(x, y)[0]", "array(x, y)[z + 1] = 3", "list[0]", "array[1]", "list(x)[0]", "xs[0][1]",
     "array(array(x), y)[0][1]", "map(x, y)[0]", "f(array(x)[0], list[1])"],
)  # fmt: skip
def test_an_element_of_an_array_is_not_another_array(text: str) -> None:
    """sqlglot would read ARRAY[…] of other dialects in them, and forget what stands before the bracket."""
    assert write_expression(read_expression(text, tokenize(text)[:-1])) == text
