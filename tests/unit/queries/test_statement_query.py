"""What Spark is asked for the tables of a statement: keyword tables and common tables around each pattern's input."""

from __future__ import annotations

from typing import Any

import pytest

from episode.plan.options import Options
from episode.queries.bound_statement import bind_statement
from episode.queries.statement import StatementQuery

MATCH = "MATCH_RECOGNIZE (PATTERN (A))"
GIVEN = "WITH `t` AS (SELECT * FROM {__table_0}) "


class Asked(Exception):
    """The text that Spark is asked first."""


class Settings:
    """Those of a session that has none."""

    def get(self, name: str, default: None) -> None:
        return default


class Session:
    conf = Settings()

    def sql(self, text: str, **frames: Any) -> None:
        raise Asked(text)


class Frame:
    """As much of a DataFrame as tells it from something else."""

    schema = None
    isStreaming = False
    mapInArrow = None


def first_asked(text: str, *given: str) -> str:
    """What Spark runs first, which is what the innermost pattern reads."""
    query = StatementQuery(bind_statement(text), Session(), Options(), {name: Frame() for name in given})
    with pytest.raises(Asked) as raised:
        query.result()
    return str(raised.value)


@pytest.mark.parametrize("table", ["db.t", "`db`.`t`", "db2.db.t"])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT * FROM %s {MATCH}",
        "SELECT * FROM EVENTS (FROM %s ORDER BY ts PATTERN A; B)",
        "FROM %s ORDER BY ts PATTERN A; B",
        "SELECT * FROM SITUATIONS (FROM %s ORDER BY ts DEFINE A AS v > 1, B AS v < 1 PATTERN A meets B)",
        "FROM %s ORDER BY ts DEFINE A AS v > 1, B AS v < 1 PATTERN A meets B",
    ],
)
def test_a_table_of_a_schema_is_no_keyword_table(query: str, table: str) -> None:
    assert first_asked(query % table, "t") == f"{GIVEN}((SELECT * FROM {table}))"


@pytest.mark.parametrize(
    "table", ["t AS u(a, b)", "t u (a)", "t TABLESAMPLE (5 ROWS)", "t PIVOT (max(v) FOR k IN (1))"]
)
def test_spark_reads_a_keyword_table_with_more_behind_its_name(table: str) -> None:
    assert first_asked(f"SELECT * FROM {table} {MATCH}", "t") == f"{GIVEN}((SELECT * FROM {table}))"


@pytest.mark.parametrize("end", [" -- all", "; -- all", " /* all */", "\n;\n-- all\n-- of them"])
def test_comments_at_the_end_are_left_out(end: str) -> None:
    assert first_asked(f"SELECT * -- every column\nFROM t{end}", "t") == f"{GIVEN}(SELECT * -- every column\nFROM t)"
    assert first_asked(f"INSERT INTO u SELECT * FROM t{end}", "t") == f"{GIVEN}INSERT INTO u SELECT * FROM t"


def test_with_lists_are_nested_as_in_the_statement() -> None:
    inner = f"WITH t AS (SELECT * FROM t WHERE v < 2), u AS (TABLE t) SELECT * FROM u {MATCH}"
    assert first_asked(f"WITH RECURSIVE t AS (SELECT 1 AS v) SELECT * FROM ({inner})") == (
        "(WITH RECURSIVE t AS (SELECT 1 AS v) "
        "(WITH t AS (SELECT * FROM t WHERE v < 2), u AS (TABLE t) (SELECT * FROM u)))"
    )


def test_with_lists_are_inside_the_keyword_tables() -> None:
    query = f"WITH t AS (SELECT * FROM t WHERE v < 2) SELECT * FROM t {MATCH}"
    nested = "(WITH t AS (SELECT * FROM t WHERE v < 2) (SELECT * FROM t))"
    assert first_asked(query, "t") == f"{GIVEN}({nested})"
    assert first_asked(f"INSERT INTO u {query}", "t") == f"{GIVEN}{nested}"


def test_tables_are_made_of_queries_with_keyword_tables() -> None:
    head = "CREATE OR REPLACE TABLE db.u (a INT COMMENT 'as') USING parquet PARTITIONED BY (k) COMMENT 'x' AS "
    assert first_asked(f"{head}SELECT * FROM t", "t") == f"{head}{GIVEN}(SELECT * FROM t)"
    assert first_asked("CREATE TABLE u SELECT * FROM t", "t") == f"CREATE TABLE u {GIVEN}(SELECT * FROM t)"
    assert first_asked("CREATE TEMP VIEW u AS SELECT * FROM t", "t") == f"{GIVEN}(SELECT * FROM t)"


@pytest.mark.parametrize("statement", ["MERGE INTO u USING t ON u.k = t.k", "DELETE FROM u WHERE k IN (TABLE t)"])
def test_statements_that_change_a_table_are_kept_as_a_whole(statement: str) -> None:
    assert first_asked(statement, "t") == f"{GIVEN}{statement}"


def test_any_name_between_backticks_is_one_of_a_table() -> None:
    definition = "WITH `a.b{0}` AS (SELECT * FROM {__table_0}) "
    assert first_asked("SELECT * FROM `a.b{0}` x", "a.b{0}").replace("{{", "{").replace("}}", "}") == (
        f"{definition}(SELECT * FROM `a.b{{0}}` x)"
    )
