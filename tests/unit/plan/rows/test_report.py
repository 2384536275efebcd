"""What matchers of a row pattern did, added up and in words."""

from __future__ import annotations

from dataclasses import replace

from episode.lang.rows.parser import parse_clause
from episode.plan.rows.explain import row_section
from episode.plan.rows.plan import RowReport, plan_row_pattern, sum_of
from episode.plan.schema import InputSchema
from episode.plan.sections import lines_of

PLAN = plan_row_pattern(
    parse_clause("ORDER BY ts MEASURES count(*) AS n PATTERN (A B+ A?) DEFINE B AS B.v > 5"),
    InputSchema({"ts": "bigint", "v": "int"}),
)  # match A, match B, split, split, match A, accept
SECONDS = {"read": 0.25, "order": 0.5, "prepare": 0.25, "match": 0.75, "assemble": 0.25}
ONE = RowReport(
    parts=1, rows=1000, matches=10, attempts=20, steps=70, taken=(10, 30, 0, 0, 4, 0), counted=1000,
    offered=(1000, 250), tried=(20, 60, 0, 0, 9, 0), refused=(0, 30, 0, 0, 5, 0), seconds=SECONDS,
)  # fmt: skip


def explain_run(reports: list[str]) -> list[str]:
    return lines_of(replace(row_section(PLAN, reports=reports), blocks=()))[1:]


def test_reports_are_added_up() -> None:
    assert sum_of([]) is None
    both = sum_of([ONE.to_json(), replace(ONE, rows=500, taken=(1, 2, 0, 0, 3, 0)).to_json()])
    assert both is not None
    assert (both.parts, both.rows, both.matches, both.attempts) == (2, 1500, 20, 40)
    assert both.taken == (11, 32, 0, 0, 7, 0)
    assert both.rows_by_label(PLAN) == {"A": 18, "B": 32}
    assert both.seconds == {stage: 2 * seconds for stage, seconds in SECONDS.items()}


def test_words() -> None:
    assert explain_run([ONE.to_json()]) == [
        "  run: 1 part of the input, 1,000 rows, 10 matches",
        "    attempts: at 20 start rows, 70 steps (3.5 for each)",
        "    rows by label (in matches; and of all rows those that satisfy the row-local conditions):",
        "      A: 14; any row",
        "      B: 30; 250 (25.0%)",
        "    rows that attempts came to (in a search without short cuts), by instruction, and those that it took:",
        "        0  match  A: 20 tried, 20 taken",
        "        1  match  B: 60 tried, 30 taken",
        "        4  match  A: 9 tried, 4 taken",
        "    time in tasks: 2.000 s: scan or unpack 12%, order 25%, prepare 12%, match 38%, assemble 12%",
    ]
    assert explain_run([]) == ["  run: there were no events"]


def test_what_was_not_counted() -> None:
    lines = explain_run([replace(ONE, counted=0).to_json()])
    assert "      B: 30; not counted" in lines
    assert not any("tried" in line for line in lines)
