"""The end of a window's frame: constant expressions of whole numbers, evaluated when the query is planned."""

from __future__ import annotations

import random

import pytest

from episode.errors import EpisodeAnalysisError
from episode.lang.statement import parse_statement
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema

ARGUMENTS = {"n": 3, "text": "5", "nothing": None, "half": 0.5, "yes": True}


def following(bound: str) -> int | None:
    text = (
        "SELECT m OVER w FROM t WINDOW w AS (ORDER BY id MEASURES count(*) AS m "
        f"ROWS BETWEEN CURRENT ROW AND {bound} FOLLOWING PATTERN (A+))"
    )
    window = parse_statement(text).windowed[0].windows[0]
    return plan_window(window, InputSchema({"id": "int", "v": "int"}, arguments=ARGUMENTS)).frame.following


def expression(random_: random.Random, depth: int) -> tuple[str, int | None]:
    """A text, and its value; None where it is divided by 0, or is beyond INT."""
    if depth == 0 or random_.random() < 0.2:
        number = random_.randrange(6)
        return random_.choice([(str(number), number), (":n", 3), ("CAST(7 AS BIGINT)", 7)])
    sign = random_.choice(["+", "-", "*", "DIV", "%"])
    (one, left), (other, right) = expression(random_, depth - 1), expression(random_, depth - 1)
    text = f"({one} {sign} {other})"
    if left is None or right is None or (sign in ("DIV", "%") and right == 0):
        return text, None
    quotient = 0 if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    results = {
        "+": left + right, "-": left - right, "*": left * right, "DIV": quotient, "%": left - quotient * right,
    }  # fmt: skip
    return text, results[sign] if abs(results[sign]) < 2**31 else None


def test_constant_expressions() -> None:
    random_ = random.Random(11)
    seen = 0
    for _ in range(400):
        text, value = expression(random_, 3)
        if value is None or value < 0:
            with pytest.raises(EpisodeAnalysisError, match="must be a number of rows"):
                following(text)
        else:
            assert following(text) == value, text
            seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    "bound",
    ["v", "v + 1", "id", "-1", "1.5", "10 / 2", "'3'", "NULL", ":text", ":nothing", ":half", ":yes", "true", "count(*)",
     "PREV(v)", "2147483647 + 1", "(SELECT 3)", "upper('3')", "1 DIV 0", "99999999999999999999"],
)  # fmt: skip
def test_what_is_not_a_number_of_rows(bound: str) -> None:
    with pytest.raises(EpisodeAnalysisError, match="must be a number of rows, the same for all rows") as raised:
        following(bound)
    assert raised.value.position is not None
