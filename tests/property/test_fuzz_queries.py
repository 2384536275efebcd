"""Mutated queries: whatever a user types gives rows or an EpisodeError, and nothing else.

Good statements are broken in many ways, from a seed, then parsed, planned and, where they still mean something, run on
a small table. `python -m tests.property.test_fuzz_queries 17 1000` tries 1000 mutations from seed 17 and prints what
breaks.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from episode.errors import EpisodeError
from episode.lang.statement import TablePattern, parse_statement
from episode.matchers.rows.spec import RowPatternSpec
from episode.plan.rows.explain import row_section
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.schema import InputSchema
from episode.plan.sections import lines_of
from tests.property.mutations import (
    Mutator,
    delete,
    disguise,
    duplicate,
    exchange,
    lengthen,
    no_hang,
    noise,
    pieces,
    print_what_breaks,
    splice,
    swap,
    truncate,
    wrap,
)
from tests.support.rows import ARROW_TYPES, SPARK_TYPES, run_whole

MUTATIONS_PER_TEST = 100
STEPS = 20_000

HERE = Path(__file__).parent / "fuzz"
CORPUS = (HERE / "corpus.sql").read_text(encoding="utf-8").split("\n;\n")
WORDS = (HERE / "words.txt").read_text(encoding="utf-8").split()
KINDS = [r"\d", r"[A-Z_]+$", r"[A-Za-z_]", "'", r"[-+*/%<>=]", r"[(){}\[\]]", ""]
# Numbers and what the machine does with them stand before the blank line, all the rest after it.
OPERANDS, FORMS = (
    [part.split("\n") for part in (HERE / name).read_text(encoding="utf-8").strip().split("\n\n")]
    for name in ("operands.txt", "forms.txt")
)
CONDITIONS = [
    "{} > 0",
    "{} IS NULL",
    "{} = {}",
    "NOT {} < 1.5",
    "{} IN (1, 2)",
    "{} <> 'a'",
    "{} >= 1 AND {} <= 5",
    "{} <=> {}",
]
WRAPPINGS = [
    ("(", ")"), ("[", "]"), ("{", "}"), ("{- ", " -}"), ("NOT ", ""), ("- ", ""), ("LAST(", ")"), ("PREV(", ", 2)"),
    ("sum(", ")"), ("CASE WHEN ", " THEN 1 END"), ("PERMUTE(", ", A)"), ("upper(", ")"), ("/*", "*/"), ("'", "'"),
    ("RUNNING ", ""), ("FINAL ", ""), ("CAST(", " AS double)"), ("abs(", ")"), ("`", "`"),
]  # fmt: skip
ROWS = [
    {"k": k, "ts": ts, "v": v, "f": f, "s": s}
    for k, ts, v, f, s in [
        (1, 1, 3, 0.5, "a"), (1, 2, 2, 1.5, "b"), (None, 2, None, None, None), (1, 3, 1, float("nan"), "ab"),
        (2, 3, 5, -0.0, ""), (2, 4, 5, 2.0, "a"), (1, 5, 4, float("inf"), "b"), (2, 9, 0, 3.0, "é"),
    ]
]  # fmt: skip
GUESSES = [
    "boolean",
    "int",
    "double",
    "string",
    "timestamp",
    "date",
    "decimal(10,2)",
    "array<int>",
    "void",
    "interval month",
]


# ---- mutations ------------------------------------------------------------------------------------


def replace(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(len(parts))
    return [*parts[:at], " ", draw.choice(WORDS), " ", *parts[at + 1 :]]


def insert(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(len(parts))
    return [*parts[:at], " ", draw.choice(WORDS), " ", *parts[at:]]


def graft(parts: list[str], draw: random.Random) -> list[str]:
    """Random expressions as measure and conditions: well formed, not always well typed. Nothing else is kept."""
    numbers = draw.random() < 0.6
    measure, first, second, third = (expression(draw, draw.choice([0, 1, 1, 2, 2, 3]), numbers) for _ in range(4))
    condition = draw.choice(CONDITIONS if draw.random() < 0.9 else ["{}"]).format(first, second)
    rows = draw.choice(["ONE ROW", "ALL ROWS"])
    pattern = draw.choice(["A B+ C*", "(A | B)+ C?", "A* B", "PERMUTE(A, B) C", "A B C"])
    text = f"MATCH_RECOGNIZE (ORDER BY ts MEASURES {measure} AS m {rows} PER MATCH PATTERN ({pattern}) "
    return pieces(f"SELECT * FROM t {text} SUBSET U = (A, B) DEFINE B AS {condition}, A AS {third} > 0)")


def expression(draw: random.Random, depth: int, numbers: bool) -> str:
    kind = 0 if numbers else draw.randrange(2)
    if depth == 0:
        return draw.choice(OPERANDS[kind])
    return re.sub(r"(?<!\w)_(?!\w)", lambda _: expression(draw, depth - 1, numbers), draw.choice(FORMS[kind]))


EXCHANGE = partial(exchange, corpus=CORPUS, kinds=KINDS)
SPLICE = partial(splice, corpus=CORPUS)
WRAP = partial(wrap, wrappings=WRAPPINGS, depths=[1, 1, 1, 2, 3, 30, 60, 120, 400])
MUTATORS: list[Mutator] = [graft] * 4 + [EXCHANGE] * 3 + [replace] * 2
MUTATORS += [delete, duplicate, swap, insert, noise, truncate, SPLICE, WRAP, lengthen, disguise]


def mutations(seed: int, count: int) -> Iterator[str]:
    """Broken statements; the same for a seed on every run."""
    draw = random.Random(seed)
    for _ in range(count):
        parts = pieces(draw.choice(CORPUS))
        for _ in range(draw.choice([1, 1, 1, 2, 2, 3, 5])):
            parts = draw.choice(MUTATORS)(parts, draw) or ["SELECT"]
        yield "".join(parts)[:20_000]


# ---- outcomes -------------------------------------------------------------------------------------


def outcome(text: str) -> str:
    """The kind of error, or `rows`; anything but an EpisodeError comes out as it is."""
    result = "no pattern"
    try:
        statement = parse_statement(text)
    except EpisodeError as error:
        return _shown(error)
    for pattern in statement.patterns:
        planned_with_spark(pattern)
        result = planned_and_run(pattern)
    return result


def planned_and_run(pattern: TablePattern) -> str:
    try:
        plan = plan_row_pattern(pattern.clause, InputSchema(SPARK_TYPES), (pattern.alias or pattern.name or "",))
        lines_of(row_section(plan, pattern.clause.pattern))
        spec = RowPatternSpec(plan, pa.schema(list(ARROW_TYPES.items())), step_budget=STEPS)
        run_whole(spec, ROWS)
    except EpisodeError as error:
        return _shown(error)
    return "rows"


def planned_with_spark(pattern: TablePattern) -> None:
    """Planned only, with a Spark that answers anything."""
    schema = InputSchema(SPARK_TYPES, lambda expression: GUESSES[len(expression) % len(GUESSES)])
    try:
        lines_of(row_section(plan_row_pattern(pattern.clause, schema), pattern.clause.pattern))
    except EpisodeError as error:
        _shown(error)


def _shown(error: EpisodeError) -> str:
    assert str(error)
    return error.kind


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """Kernels that are compiled now do not count as a hang later."""
    for text in CORPUS:
        outcome(text)


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_good(text: str) -> None:
    assert outcome(text) in ("rows", "data", "unsupported"), "unsupported: Spark is not there for its functions"


EXTREMES = {
    "loops in loops": ("(" * 90 + "A" + "*)" * 90, "TRUE"),
    "brackets in brackets": ("(" * 400 + "A" + ")" * 400, "TRUE"),
    "many alternatives": (" | ".join("A" * 3_000), "TRUE"),
    "many rows": ("A{100000}", "TRUE"),
    "counts of counts": ("(" * 17 + "A" + "){1,2}" * 17, "TRUE"),
    "many orders": (f"PERMUTE({', '.join('A' * 300)})", "TRUE"),
    "many conditions": ("A B", " AND ".join(f"B.v <> A.v + {i}" for i in range(300))),
    "many alternatives in a condition": ("A B", " OR ".join(f"B.v = {i}" for i in range(1_000))),
    "a long list": ("A B", f"B.v IN ({', '.join(map(str, range(2_000)))})"),
    "a long choice": ("A B", f"CASE {' '.join(f'WHEN B.v = {i} THEN {i}' for i in range(500))} END = 1"),
    "a long sum": ("A B", f"{' + '.join(['B.v'] * 2_000)} > 1"),
    "a deep condition": ("A B", "NOT (" * 300 + "B.v > 1" + ")" * 300),
    "a far row": ("A B", "PREV(B.v, 2147483647) > FIRST(A.v, 2147483647)"),
    "a long name": ("A B", f"B.{'x' * 50_000} > 1"),
    "a long string": ("A B", f"B.s = '{'x' * 50_000}'"),
    "many fields": ("A B", f"B{'.v' * 1_000} > 1"),
}


@pytest.mark.parametrize("name", list(EXTREMES))
def test_extremes(name: str) -> None:
    pattern, condition = EXTREMES[name]
    text = f"SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.v AS m PATTERN ({pattern}) DEFINE"
    with no_hang(text):
        outcome(f"{text} {'B' if 'B' in pattern else 'A'} AS {condition})")


@pytest.mark.parametrize("seed", range(10))
def test_mutated_queries(seed: int) -> None:
    for text in mutations(seed, MUTATIONS_PER_TEST):
        with no_hang(text):
            outcome(text)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_many_mutated_queries(seed: int) -> None:
    for text in mutations(seed, MUTATIONS_PER_TEST):
        with no_hang(text):
            outcome(text)


if __name__ == "__main__":
    print_what_breaks(CORPUS, mutations(int(sys.argv[1]), int(sys.argv[2])), outcome)
