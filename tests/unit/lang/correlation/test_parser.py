"""RECENCY: where it stands, which patterns it correlates, which conditions are beside it."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeError
from episode.lang.correlation.syntax import Recency
from episode.lang.statement import parse_statement

ROWS = "MATCH_RECOGNIZE (ORDER BY t MEASURES 1 AS x PATTERN (A))"
TWO = f"FROM a {ROWS} AS l, b {ROWS} AS a"


def read(text: str) -> Recency:
    (recency,) = parse_statement(text).recencies
    return recency


def conditions(text: str) -> list[str]:
    return [text[span.start : span.end] for span in read(text).conditions]


@pytest.mark.parametrize(
    ("where", "beside"),
    [
        ("RECENCY = 7 seconds", []),
        ("l.x = a.x AND RECENCY = 7 seconds", ["l.x = a.x"]),
        ("l.x = a.x RECENCY = 7 seconds", ["l.x = a.x"]),
        ("RECENCY = 7 seconds AND l.x = a.x", ["l.x = a.x"]),
        ("RECENCY = 7 seconds AND (l.x < a.x OR l.x > 3)", ["(l.x < a.x OR l.x > 3)"]),
        ("l.x = 1 AND RECENCY = 7 seconds AND a.x BETWEEN 1 AND 2", ["l.x = 1", "a.x BETWEEN 1 AND 2"]),
        ("(l.x = 1 OR a.x = 2) AND RECENCY = 7 seconds", ["(l.x = 1 OR a.x = 2)"]),
        ("l.x IS DISTINCT FROM a.x AND recency = 7 seconds", ["l.x IS DISTINCT FROM a.x"]),
        ("CASE WHEN l.x = 1 OR true THEN true END AND RECENCY 7 s", ["CASE WHEN l.x = 1 OR true THEN true END"]),
    ],
)
def test_conditions_beside_recency(where: str, beside: list[str]) -> None:
    text = f"SELECT 1 {TWO} WHERE {where} GROUP BY 1"
    assert conditions(text) == beside
    assert read(text).duration.amount == 7_000_000
    assert text[read(text).span.end :] == " GROUP BY 1"


@pytest.mark.parametrize(
    ("text", "beside", "rest"),
    [
        (
            f"SELECT * FROM a {ROWS} l JOIN b {ROWS} a (u) ON l.x = a.u RECENCY 7 ORDERED WHERE l.x > 1 LIMIT 1",
            ["l.x = a.u", "l.x > 1"],
            " LIMIT 1",
        ),
        (f"SELECT * FROM a {ROWS} CROSS JOIN b {ROWS} RECENCY 7 ORDERED", [], ""),
        (f"SELECT * FROM a {ROWS} l INNER JOIN b {ROWS} a ON RECENCY = 7 ORDERED AND true", ["true"], ""),
    ],
)
def test_joins(text: str, beside: list[str], rest: str) -> None:
    recency = read(text)
    assert (conditions(text), text[recency.span.end :]) == (beside, rest)
    assert recency.ordered
    assert recency.duration.amount == 7
    assert recency.duration.unit is None


def test_names_and_new_names_of_columns() -> None:
    text = (
        f"SELECT l.x FROM a {ROWS} l, EVENTS (FROM b PATTERN A; B WITHIN 5) AS a (u, `v w`) WHERE l.x = a.u RECENCY 5"
    )
    first, second = read(text).tables
    assert (first.alias, first.columns, text[first.naming.start : first.naming.end]) == ("l", (), "l")
    assert (second.alias, second.columns) == ("a", ("u", "v w"))
    assert text[second.naming.start : second.naming.end] == "AS a (u, `v w`)"
    assert text[second.span.start : second.span.end].startswith("EVENTS (")


def test_equalities() -> None:
    text = f"SELECT 1 {TWO} WHERE l.x = a.x AND (y == z) AND l.x = 1 AND l.x = a.x + 1 AND RECENCY = 5 AND p = q"
    assert [(one.left, one.right) for one in read(text).equalities] == [
        (("l", "x"), ("a", "x")),
        (("y",), ("z",)),
        (("p",), ("q",)),
    ]


@pytest.mark.parametrize(
    ("items", "stars"),
    [
        ("*", [("*", False)]),
        ("count(*)", []),
        ("1, *, l.*", [("*", False)]),
        ("* EXCEPT (x)", [("*", True)]),
        ("l.x * 2", []),
        ("DISTINCT *", [("*", False)]),
    ],
)
def test_stars(items: str, stars: list[tuple[str, bool]]) -> None:
    text = f"SELECT {items} {TWO} WHERE RECENCY = 5"
    found = read(text).stars
    assert [(text[one.span.start : one.span.end], one.excepted is not None) for one in found] == stars
    assert all(text[: one.excepted].endswith("(") for one in found if one.excepted is not None)


def test_each_query_of_a_statement_has_its_own() -> None:
    inner = f"SELECT 1 {TWO} WHERE RECENCY = 5"
    found = parse_statement(f"WITH c AS ({inner}) SELECT * FROM c UNION ALL {inner} UNION ALL SELECT 2").recencies
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE recency = 7",
        "SELECT recency = 7 FROM t",
        f"SELECT * FROM t {ROWS.replace('x', 'recency')} WHERE recency = 7",
        f"SELECT * {TWO} WHERE `recency` = 7",
        f"SELECT * {TWO} WHERE l.recency = 7",
        "SELECT * FROM t WHERE (recency = 7)",
    ],
)
def test_a_column_of_this_name(text: str) -> None:
    assert parse_statement(text).recencies == ()


def test_a_pattern_over_pairs() -> None:
    inner = f"SELECT * {TWO} WHERE RECENCY = 5"
    statement = parse_statement(
        f"SELECT * FROM ({inner}) MATCH_RECOGNIZE (ORDER BY t PATTERN (A) DEFINE A AS recency = 7)"
    )
    assert len(statement.recencies) == 1
    assert len(statement.patterns) == 3


def test_a_pattern_that_is_correlated_is_found_at_its_place() -> None:
    statement = parse_statement(f"SELECT * {TWO} WHERE RECENCY = 5")
    first, second = statement.recencies[0].tables
    assert [statement.pattern_at(one.span) for one in (first, second)] == list(statement.patterns)


@pytest.mark.parametrize(
    "where", ["RECENCY = 7 OR true", "NOT RECENCY = 7", "1 + RECENCY = 7", "RECENCY < 7", "RECENCY = 7 x"]
)
def test_what_recency_cannot_be(where: str) -> None:
    with pytest.raises(EpisodeError):
        parse_statement(f"SELECT * {TWO} WHERE {where}")
