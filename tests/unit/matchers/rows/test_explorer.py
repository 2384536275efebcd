"""The step-by-step search of explanations: its ways, its failures, and its bounds."""

from __future__ import annotations

import pytest

from episode.matchers.rows.explorer import CONDITION, END_OF_ROWS, Explorer, instructions_of
from episode.matchers.rows.stepwise import StepwiseAttempt
from episode.matchers.running import LocalRun
from tests.support.rows import spec_of, table_in


def explorer(pattern: str, define: str, values: list[int]) -> Explorer:
    spec = spec_of(f"ORDER BY ts MEASURES A.v AS a PATTERN ({pattern}) DEFINE {define}")
    rows = [{"k": 1, "ts": n, "v": v, "f": 0.5, "s": "a"} for n, v in enumerate(values)]
    return Explorer.of(StepwiseAttempt(spec.plan, LocalRun(spec).events(table_in(spec, rows))))


def ways(found: Explorer, start: int = 0, **how: int | bool) -> list[str]:
    """The labels of all ways through the pattern."""
    instructions = found.trial.plan.program.instructions
    explored = found.explore(start, 0, 10_000, **how)  # type: ignore[arg-type]
    return ["".join(instructions[at].label for at in instructions_of(path)) for _, path in explored.accepted]


@pytest.mark.parametrize(
    "define",
    [
        "C AS B.v IS NULL",
        "C AS count(B.*) = 0",
        "C AS COALESCE(CLASSIFIER(B), 'no') = 'no'",
        "C AS COALESCE(B.v, 1) = 1 AND C.v > A.v",
        "C AS sum(v) = 5",
    ],
)
def test_what_was_given_back_is_forgotten(define: str) -> None:
    """B takes the second row, C refuses the third, and then B has never been there."""
    assert ways(explorer("A B? C", define, [1, 4, 9])) == ["AC"]


def test_ways_come_in_the_order_of_preference() -> None:
    assert ways(explorer("A (B | C)+", "A AS TRUE", [1, 2, 3]), ways=9, alike=True) == [
        "ABB", "ABC", "AB", "ACB", "ACC", "AC",
    ]  # fmt: skip
    assert ways(explorer("A B*? C", "A AS TRUE", [1, 2, 3]), ways=9) == ["AC", "ABC"]
    assert ways(explorer("A B* C", "A AS TRUE", [1, 2, 3]), shortest=True) == ["AC"]


def test_failures_at_the_farthest_row_are_kept() -> None:
    found = explorer("A B* C", "B AS v > 1, C AS v > 5", [1, 2, 3, 0]).explore(0, 0, 10_000)
    assert found.farthest == 3
    assert [(kind, len(instructions_of(one.path))) for (kind, _), one in found.failures.items()] == [(CONDITION, 3)] * 2
    failure, times = found.refused[2]
    assert (failure.row, times) == (3, 3)
    found = explorer("A B* C", "C AS v > 5", [1, 2, 3, 0]).explore(0, 0, 10_000)
    assert {kind for kind, _ in found.failures} == {END_OF_ROWS}


def test_a_search_may_be_given_up() -> None:
    found = explorer("(A | A A)* B", "A AS v > sum(v) - 1000, B AS v < 0", [1] * 40).explore(0, 0, 100)
    assert not found.complete
    assert found.steps == 100
