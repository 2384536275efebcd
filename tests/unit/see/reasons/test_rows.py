"""What `why_not` says of row patterns, in process: one case for each thing that can keep a match from being."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from episode.lang.rows.parser import parse_clause
from episode.plan.options import RunOptions
from episode.plan.rows.conditions import plan_conjuncts
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages.rows import RowPatterns
from episode.see.reasons.finding import Expectation, Finding
from episode.see.reasons.rows import reasons_over

TYPES = {"k": "string", "ts": "timestamp_ntz", "price": "double", "note": "string", "paid": "decimal(30,2)"}
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "ts": pa.timestamp("us"),
        "price": pa.float64(),
        "note": pa.string(),
        "paid": pa.decimal128(30, 2),
    }
)
BEGIN = datetime(2026, 1, 5, 10, 4)
V = "PARTITION BY k ORDER BY ts MEASURES STRT.ts AS a PATTERN (STRT DOWN+ UP+){} DEFINE {}"
SHAPE = "DOWN AS price < PREV(price), UP AS price > PREV(price)"


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def ask(
    text: str, prices: list[float | None], first: int | None = None, last: int | None = None, **more: Any
) -> list[Finding]:
    """The findings for rows that come every second. more: other columns, and limits."""
    clause = parse_clause(text)
    columns = {name: more.pop(name, [None] * len(prices)) for name in ("note", "paid")}
    plan = RowPatterns().bind(clause, Input(InputSchema(TYPES)), Given(), RunOptions())
    assert isinstance(plan, RowPatternPlan)
    table = pa.table(
        {"k": ["x"] * len(prices), "ts": [at(n) for n in range(len(prices))], "price": prices, **columns}, schema=SCHEMA
    )
    asked = Expectation({"k": "x"}, None if first is None else at(first), None if last is None else at(last))
    conjuncts = plan_conjuncts(clause, InputSchema(TYPES), plan)
    return list(reasons_over(clause, plan, conjuncts, table, asked, **more))


def test_the_condition_that_failed_with_its_values() -> None:
    text = V.format("", "DOWN AS price < PREV(price), UP AS price > PREV(price) AND price > STRT.price")
    (down, up) = ask(text, [41.5, 41.4, 41.3, 41.3], 0, 0)
    assert down.message == (
        "DOWN failed at 2026-01-05 10:04:03: price 41.3 < PREV(price) 41.3 is false. "
        "The attempt had begun at 2026-01-05 10:04:00 and taken STRT DOWN×2."
    )
    assert down.kind == "condition"
    assert down.values == {"price": 41.3, "PREV(price)": 41.3}
    assert down.at == at(3)
    assert "price 41.3 > PREV(price) 41.3 is false and price 41.3 > STRT.price 41.5 is false" in up.message
    assert up.span is not None
    assert text[up.span.start : up.span.end] == "price > PREV(price)"
    assert [one["value"] for one in up.data["conjuncts"]] == [False, False]  # type: ignore[attr-defined]


def test_only_the_conjuncts_that_failed_are_named() -> None:
    text = V.format(
        "", "DOWN AS price < PREV(price) AND (price > 0 AND note = 'ok') AND price BETWEEN 1 AND 50, UP AS TRUE"
    )
    (down,) = ask(text, [41.5, 41.4], 0, 0, note=["ok", "bad"])
    assert "note 'bad' = 'ok' is false." in down.message
    assert text[down.span.start : down.span.end] == "note = 'ok'"  # type: ignore[union-attr]


def test_null_is_said() -> None:
    (down,) = ask(V.format("", SHAPE), [41.5, None], 0, 0)
    assert "price null < PREV(price) 41.5 is null." in down.message


def test_alternatives_of_a_condition_are_one() -> None:
    (down,) = ask(V.format("", "DOWN AS price < 3 OR price > 90, UP AS TRUE"), [41.5, 41.6], 0, 0)
    assert "price 41.6 < 3 OR price 41.6 > 90 is false." in down.message


def test_aggregates_labels_and_decimals() -> None:
    text = V.format(
        "", "DOWN AS sum(paid) < 5 AND CLASSIFIER(STRT) = 'STRT' AND max(note) < 'c' AND count(*) < 9, UP AS TRUE"
    )
    (down,) = ask(text, [1, 2], 0, 0, paid=[Decimal(3), Decimal("2.50")], note=["b", "d"])
    assert down.values == {"sum(paid)": Decimal("5.50"), "max(note)": "d"}
    assert "sum(paid) 5.50 < 5 is false and max(note) 'd' < 'c' is false." in down.message


def test_a_match_that_is_there() -> None:
    (found, other) = ask(V.format("", SHAPE), [3, 2, 3, 4, 1], 0, 0)
    assert found.kind == "found"
    assert found.message == "There is a match from 2026-01-05 10:04:00 to 2026-01-05 10:04:03 (STRT DOWN UP×2)."
    assert found.data["labels"] == ["STRT", "DOWN", "UP", "UP"]
    assert other.kind == "found another way"
    assert "to 2026-01-05 10:04:02 (STRT DOWN UP) too" in other.message


def test_skipped_over() -> None:
    findings = ask(V.format("", SHAPE), [4, 3, 2, 3, 4], 1, 1)
    assert [one.kind for one in findings] == ["skipped"]
    assert findings[0].message == (
        "Found from 2026-01-05 10:04:01 to 2026-01-05 10:04:04 (STRT DOWN UP×2), but skipped over by the match from "
        "2026-01-05 10:04:00 to 2026-01-05 10:04:04 (STRT DOWN×2 UP×2): AFTER MATCH SKIP PAST LAST ROW."
    )


def test_outside_the_window() -> None:
    text = V.format(" WITHIN 2 seconds", SHAPE)
    (finding,) = ask(text, [5, 4, 3, 2, 1, 2], 0, 0)
    assert finding.kind == "window"
    assert finding.message == (
        "Found from 2026-01-05 10:04:00 to 2026-01-05 10:04:05 (STRT DOWN×4 UP), but outside WITHIN 2 seconds by 3 s."
    )
    assert text[finding.span.start : finding.span.end] == "2 seconds"  # type: ignore[union-attr]
    (ended, refused) = ask(text, [5, 4, 3, 2, 1, 0], 0, 0)
    assert ended.message.startswith(
        "WITHIN 2 seconds had ended at 2026-01-05 10:04:03, with no row left for DOWN or UP."
    )
    assert refused.message == "UP failed at 2026-01-05 10:04:02: price 3.0 > PREV(price) 4.0 is false. UP failed once."


def test_the_end_of_the_rows() -> None:
    (ended,) = ask(V.format("", SHAPE), [3, 2], 1, 1)
    assert ended.message == (
        "The rows of the key end at 2026-01-05 10:04:01, with no row left for DOWN. "
        "The attempt had begun at 2026-01-05 10:04:01 and taken STRT."
    )
    (ended,) = ask(V.format("", SHAPE), [3, 2], 1, 1, live=True)
    assert ended.message.startswith("The rows of the key so far end at")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("^ A B", "^ failed at 2026-01-05 10:04:01: this is not the first row of the key, which is at"),
        ("A B $", "$ failed at 2026-01-05 10:04:03: this is not the end of the key, whose last row is at"),
    ],
)
def test_anchors(pattern: str, said: str) -> None:
    text = f"ORDER BY ts MEASURES A.ts AS a PATTERN ({pattern})"
    (finding,) = ask(text, [1, 2, 3, 4, 5], 1, 1)
    assert finding.message.startswith(said)
    assert text[finding.span.start : finding.span.end] == said[0]  # type: ignore[union-attr]


def test_permutations_exclusions_and_reluctant_quantifiers() -> None:
    text = (
        "ORDER BY ts MEASURES A.ts AS a PATTERN (PERMUTE(A, {- B -}) C*? (D | E)) SUBSET U = (A, B) "
        "DEFINE A AS price > 1, B AS price < 1, D AS price > 2 * max(U.price), E AS price = 0 AND note IS NOT NULL"
    )
    findings = ask(text, [2, 0.5, 3, 3, 0], 0, 0)
    assert [one.kind for one in findings] == ["end of rows", "condition", "condition"]
    assert "taken A B C×3" in findings[0].message
    assert "max(U.price) 2.0" in findings[1].message
    assert "note null IS NOT NULL is false. E failed 3 times" in findings[2].message


def test_of_incremental_matches_the_one_that_began_earlier_is_reported() -> None:
    skip = "AFTER MATCH SKIP TO NEXT ROW INCREMENTAL MATCH"
    text = f"ORDER BY ts MEASURES A.ts AS a {skip} PATTERN (A+) DEFINE A AS price > 0"
    (finding,) = ask(text, [1, 1, 1], 1, 1)
    assert finding.kind == "found another way"
    assert "the same last row has a match that begins earlier, from 2026-01-05 10:04:00" in finding.message


def test_attempts_that_end_alike_are_one_finding_and_the_farthest_is_shown() -> None:
    findings = ask(V.format("", "DOWN AS price < PREV(price), UP AS price > 99"), [5, 4, 3, 3, 2, 1, 0, 0])
    down = findings[0]
    assert down.count == 7
    assert down.data["start"] == at(3)
    assert down.message.endswith("taken STRT DOWN×3. 7 of 8 attempts ended this way.")
    assert findings[-1].kind == "end of rows"


def test_no_rows() -> None:
    (nothing,) = ask(V.format("", SHAPE), [], 1, 1)
    assert nothing.message == "There are no rows with k = 'x' up to the asked place."
    (nothing,) = ask(V.format("", SHAPE), [1, 2], 30, 40)
    assert nothing.kind == "no rows"
    assert nothing.message == "No row of the key lies there; the nearest ones are at 2026-01-05 10:04:01."


def test_a_time_between_rows_is_about_the_nearest_one() -> None:
    clause_text = V.format("", SHAPE)
    (near, found) = ask(clause_text, [3, 2, 1], 7, 7)
    assert near.message.endswith("What follows is about 2026-01-05 10:04:02.")
    assert found.kind == "end of rows"


def test_limits_are_said() -> None:
    findings = ask(V.format("", SHAPE), [3, 2, 1, 3] * 5, most_starts=3)
    assert findings[-1].kind == "limit"
    assert findings[-1].message == "17 of the 20 rows were not tried: at most 3 are. Ask for a shorter time."
    falling = [float(-n) for n in range(200)]
    findings = ask(V.format("", SHAPE), falling, 0, 0, most_steps=50)
    assert "1 attempts were given up after 50 steps in all, and may come farther." in findings[-1].message


def test_a_loop_that_takes_everything_hides_nothing() -> None:
    """The steps end before the loop does; what comes after it is tried, too."""
    findings = ask(V.format("", "UP AS price > 99"), [1.0] * 500, 0, 0, most_steps=50)
    assert [one.kind for one in findings] == ["condition", "limit"]
    assert "UP failed at 2026-01-05 10:04:" in findings[0].message
    assert "price 1.0 > 99 is false." in findings[0].message


def test_without_an_order_rows_have_numbers() -> None:
    (finding,) = ask("MEASURES A.price AS a PATTERN (A B C) DEFINE C AS price > 9", [1, 2, 3], None, None)[:1]
    assert "C failed at row 3: price 3.0 > 9 is false. The attempt had begun at row 1 and taken A B." in finding.message
