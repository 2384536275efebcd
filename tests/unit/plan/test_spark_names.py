"""Names of columns without an alias."""

from __future__ import annotations

import pytest

from episode.plan.schema import column_name

NAMES = [
    ("`ts` + 1", "(ts + 1)"),
    ("`ts` DIV 10", "(ts div 10)"),
    ("`a` + `b` * 2", "(a + (b * 2))"),
    ("(`a` + `b`) * 2", "((a + b) * 2)"),
    ("-`a`", "(- a)"),
    ("`a` <> 1", "(NOT (a = 1))"),
    ("`a` > 1 AND NOT `ok`", "((a > 1) AND (NOT ok))"),
    ("`a` IS NULL", "(a IS NULL)"),
    ("`a` IS NOT NULL", "(a IS NOT NULL)"),
    ("abs(`a`)", "abs(a)"),
    ("upper(`s`)", "upper(s)"),
    ("coalesce(`a`, 0)", "coalesce(a, 0)"),
    ("greatest(`a`, `b`)", "greatest(a, b)"),
    ("`s` || 'x'", "concat(s, x)"),
    ("`p`.`q`", "q"),
    ("CAST(`a` AS BIGINT)", "a"),
    ("CAST(`a` + 1 AS BIGINT)", "CAST((a + 1) AS BIGINT)"),
]


@pytest.mark.parametrize(("sql", "name"), NAMES)
def test_names(sql: str, name: str) -> None:
    assert column_name(sql) == name
