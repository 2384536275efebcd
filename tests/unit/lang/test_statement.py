"""Where MATCH_RECOGNIZE stands: its input, names and aliases, common tables, several and nested clauses."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeError, EpisodeUnsupportedError
from episode.lang.creation import View, view_of
from episode.lang.statement import MAXIMUM_NESTING, Statement, parse_statement

MATCH = "MATCH_RECOGNIZE (PATTERN (A))"


def inputs(text: str) -> list[tuple[str, str | None, str | None]]:
    """(input, alias, name) of every clause."""
    statement = parse_statement(text)
    return [(text[p.input.start : p.input.end], p.alias, p.name) for p in statement.patterns]


@pytest.mark.parametrize(
    ("table", "alias", "name"),
    [
        ("ticks", None, "ticks"),
        ("db.ticks", None, "ticks"),
        ("cat.db.`my ticks`", None, "my ticks"),
        ("ticks t", "t", "ticks"),
        ("ticks AS t", "t", "ticks"),
        ("ticks AS `T x`", "T x", "ticks"),
        ("ticks t (a, b)", "t", "ticks"),
        ("ticks AS t(a, b)", "t", "ticks"),
        ("(SELECT 1)", None, None),
        ("(SELECT 1) t", "t", None),
        ("(SELECT 1) AS t (a)", "t", None),
        ("((SELECT 1))", None, None),
        ("(VALUES (1), (2)) t", "t", None),
        ("VALUES (1, 2), (3, 4)", None, None),
        ("VALUES (1, 2), (3, 4) AS t (a, b)", "t", None),
        ("range(10)", None, None),
        ("db.my_function(1, (2))", None, None),
        ("range(10) AS r", "r", None),
        ("range(10) r (x)", "r", None),
        ("ticks TABLESAMPLE (10 PERCENT)", None, "ticks"),
        ("db.ticks TABLESAMPLE (10 PERCENT) REPEATABLE (7) AS t", "t", "ticks"),
        ("(SELECT 1) TABLESAMPLE (5 ROWS) t (a)", "t", None),
    ],
)
def test_tables(table: str, alias: str | None, name: str | None) -> None:
    assert inputs(f"SELECT * FROM {table} {MATCH} WHERE x > 1") == [(table, alias, name)]


@pytest.mark.parametrize(
    ("table", "plain"),
    [
        ("ticks", True),
        ("`my ticks`", True),
        ("ticks t", True),
        ("ticks /* all */ AS `T x`", True),
        ("db.ticks", False),
        ("db.ticks t", False),
        ("ticks t (a, b)", False),
        ("ticks AS t(a, b)", False),
        ("ticks TABLESAMPLE (10 PERCENT)", False),
        ("ticks TABLESAMPLE (10 PERCENT) t", False),
        ("ticks PIVOT (max(v) FOR k IN (1, 2))", False),
        ("(SELECT 1) t", False),
        ("VALUES (1)", False),
        ("range(10)", False),
        (f"ticks {MATCH}", False),
    ],
)
def test_plain_tables_are_a_name_and_an_alias(table: str, plain: bool) -> None:
    assert parse_statement(f"SELECT * FROM {table} {MATCH}").patterns[-1].plain is plain


@pytest.mark.parametrize("end", ["", ";", " -- end", " -- end\n", " /* end */ ; -- end"])
def test_the_body_ends_with_the_last_word(end: str) -> None:
    statement = parse_statement(f"/* from */ SELECT 1 -- one\n + 2{end}")
    assert statement.source[statement.body.start : statement.body.end] == "SELECT 1 -- one\n + 2"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        (f"FROM a {MATCH} SELECT *", ["a"]),
        (f"SELECT * FROM a {MATCH} x, b {MATCH} y", ["a", "b"]),
        (f"SELECT * FROM a {MATCH} JOIN b AS c {MATCH} ON TRUE", ["a", "b AS c"]),
        (f"SELECT * FROM x LEFT JOIN a {MATCH} USING (k)", ["a"]),
        (f"(SELECT * FROM a {MATCH}) UNION ALL (SELECT * FROM b {MATCH})", ["a", "b"]),
        (f"SELECT * FROM (SELECT * FROM a {MATCH}) {MATCH}", ["a", f"(SELECT * FROM a {MATCH})"]),
        (f"SELECT * FROM a x {MATCH} AS y {MATCH} z", ["a x", f"a x {MATCH} AS y"]),
        (f"SELECT (SELECT max(x) FROM a {MATCH}) FROM b", ["a"]),
        (f"INSERT INTO t SELECT * FROM a {MATCH}", ["a"]),
        (f"WITH c AS (SELECT * FROM a {MATCH}) SELECT * FROM c {MATCH}", ["a", "c"]),
        (f"/* MATCH_RECOGNIZE ( */ SELECT 'x MATCH_RECOGNIZE (' FROM a {MATCH} -- MATCH_RECOGNIZE (", ["a"]),
        ("SELECT match_recognize, t.match_recognize FROM t", []),
        ("SELECT * FROM t match_recognize", []),
        (f"select * from a {MATCH.lower()};", ["a"]),
        ("SELECT 1", []),
    ],
)
def test_clauses_of_a_statement(text: str, tables: list[str]) -> None:
    assert [table for table, _, _ in inputs(text)] == tables


def test_nesting_has_a_limit() -> None:
    deepest = f"SELECT * FROM t {MATCH * MAXIMUM_NESTING}"
    assert len(parse_statement(f"{deepest} UNION ALL {deepest}").patterns) == 2 * MAXIMUM_NESTING
    for text in (f"{deepest} {MATCH * 1_100}", "SELECT * FROM (" * 100 + "SELECT 1" + f") {MATCH}" * 100):
        with pytest.raises(EpisodeUnsupportedError, match="levels deep"):
            parse_statement(text)


def scopes(statement: Statement) -> dict[str, str]:
    source = statement.source
    return {source[t.span.start : t.span.end]: source[t.scope.start : t.scope.end] for t in statement.common_tables}


def test_common_tables_and_their_scopes() -> None:
    text = f"WITH a AS (SELECT 1), b (x) AS (WITH c AS (SELECT 2) SELECT * FROM c) SELECT * FROM a {MATCH}"
    assert scopes(parse_statement(text)) == {
        "a AS (SELECT 1)": f", b (x) AS (WITH c AS (SELECT 2) SELECT * FROM c) SELECT * FROM a {MATCH}",
        "b (x) AS (WITH c AS (SELECT 2) SELECT * FROM c)": f" SELECT * FROM a {MATCH}",
        "c AS (SELECT 2)": " SELECT * FROM c",
    }


def test_with_lists_around_a_table() -> None:
    inner = f"WITH a AS (TABLE a), c AS (SELECT * FROM d {MATCH}) SELECT * FROM c {MATCH}"
    statement = parse_statement(f"WITH RECURSIVE A AS (SELECT 1), b AS (SELECT 2) SELECT * FROM ({inner}), e {MATCH}")
    seen = {}
    for pattern in statement.patterns:
        lists = statement.with_lists(pattern.span.start)
        seen[pattern.name] = [[(table.name, table.recursive) for table in tables] for tables in lists]
    outer = [("A", True), ("b", True)]
    assert seen == {"d": [outer, [("a", False)]], "c": [outer, [("a", False), ("c", False)]], "e": [outer]}
    first, second, last = (pattern.span.start for pattern in statement.patterns)
    assert [statement.is_common("C", position) for position in (first, second, last)] == [False, True, False]


def test_recursive_common_tables() -> None:
    statement = parse_statement("WITH RECURSIVE r (n) MAX RECURSION LEVEL 5 AS (SELECT 1) SELECT * FROM r")
    assert [table.recursive for table in statement.common_tables] == [True]


@pytest.mark.parametrize("text", ["SELECT 1 WITH UR", "SELECT * FROM t WITH x", "SELECT f(WITH) FROM t", "WITH"])
def test_with_that_begins_no_list(text: str) -> None:
    assert parse_statement(text).common_tables == ()


@pytest.mark.parametrize(
    ("table", "name", "alias"),
    [
        ("db.t VERSION AS OF 3", "t", None), ("t VERSION AS OF '3' u", "t", "u"),
        ("t FOR VERSION AS OF 3 AS u", "t", "u"),
        ("t TIMESTAMP AS OF '2026-01-01'", "t", None), ("t FOR SYSTEM_TIME AS OF current_timestamp() u", "t", "u"),
        ("t TIMESTAMP AS OF now() - INTERVAL 1 DAY", "t", None), ("t TIMESTAMP AS OF f(x, 1) `u`", "t", "u"),
        ("t SYSTEM_VERSION AS OF 3 TABLESAMPLE (5 ROWS)", "t", None),
    ],
)  # fmt: skip
def test_tables_as_of_a_version_or_a_time(table: str, name: str, alias: str | None) -> None:
    for text in (f"SELECT * FROM {table} {MATCH} JOIN x", f"SELECT * FROM a, {table} {MATCH} m {MATCH}"):
        pattern = parse_statement(text).patterns[0]
        assert (pattern.name, pattern.alias, pattern.plain) == (name, alias, False)
        assert text[pattern.input.start : pattern.input.end] == table


def test_creations() -> None:
    text = f"CREATE TABLE t USING parquet TBLPROPERTIES ('a' = 'b') AS SELECT * FROM t {MATCH};"
    statement = parse_statement(text)
    assert statement.creation is not None
    assert statement.changes
    assert text[statement.creation.query.start : statement.creation.query.end] == f"SELECT * FROM t {MATCH}"
    for other in ("CREATE TABLE t (a INT)", "SELECT 1", "CREATE TEMP VIEW v USING csv", "CREATE FUNCTION f AS 'x'"):
        assert parse_statement(other).creation is None
    assert parse_statement("CREATE TEMP VIEW v COMMENT 'x' AS SELECT 1").creation is not None


def test_temporary_views() -> None:
    text = f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW v (a, `b c`) AS WITH x AS (TABLE t) SELECT * FROM x {MATCH}"
    statement = parse_statement(text)
    assert statement.creation is not None
    assert view_of(text, statement.tokens, statement.creation) == View("v", ("a", "b c"), True, True)


@pytest.mark.parametrize(
    "word", ["MERGE INTO u USING", "UPDATE u SET a = (SELECT 1 FROM", "DELETE FROM u WHERE a IN (TABLE"]
)
def test_statements_that_change_tables(word: str) -> None:
    end = ")" if "(" in word else " s ON s.a = u.a WHEN MATCHED THEN DELETE"
    statement = parse_statement(f"{word} t {MATCH}{end}")
    assert [pattern.name for pattern in statement.patterns] == ["t"]
    assert statement.changes


@pytest.mark.parametrize(
    "text",
    ["", ";", "SELECT 1; SELECT 2", "SELECT (1", "SELECT 1)", f"SELECT * FROM {MATCH}", f"SELECT {MATCH}", MATCH,
     f"CREATE VIEW v AS SELECT * FROM t {MATCH}", f"SELECT * FROM t WHERE x {MATCH}",
     f"SELECT * FROM t WHERE x > 1 {MATCH}", f"SELECT * FROM t GROUP BY x {MATCH}",
     "SELECT * FROM t MATCH_RECOGNIZE PATTERN (A)", "SELECT * FROM t MATCH_RECOGNIZE ()"],
)  # fmt: skip
def test_no_statements(text: str) -> None:
    with pytest.raises(EpisodeError) as raised:
        parse_statement(text)
    assert raised.value.position is not None
