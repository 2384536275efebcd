"""Mutated statements in process: what `sql_local` is given, it runs or refuses with an EpisodeError.

The statements have small patterns and a lot around them, and most mutations keep to what is around.
`python -m tests.property.test_fuzz_statements 17 1000` tries 1000 mutations from seed 17 and prints what breaks.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import episode
from episode.errors import EpisodeError
from tests.property.mutations import (
    Mutator,
    duplicate,
    exchange,
    no_hang,
    pieces,
    print_what_breaks,
    splice,
    swap,
    truncate,
)
from tests.property.test_fuzz_queries import KINDS, ROWS, _shown, insert, replace
from tests.support.rows import ARROW_TYPES

MUTATIONS_PER_TEST = 400
CORPUS = (Path(__file__).parent / "fuzz" / "statements.sql").read_text(encoding="utf-8").split("\n;\n")
TABLE = pa.Table.from_pylist(ROWS, schema=pa.schema(list(ARROW_TYPES.items())))


def cut(parts: list[str], draw: random.Random) -> list[str]:
    """Without a few successive words."""
    at = draw.randrange(len(parts))
    return parts[:at] + parts[at + draw.choice([1, 1, 2, 3, 4]) :]


EXCHANGE, SPLICE = partial(exchange, corpus=CORPUS, kinds=KINDS), partial(splice, corpus=CORPUS)
MUTATORS: list[Mutator] = [cut] * 5 + [duplicate, swap, insert, replace, EXCHANGE] * 2 + [truncate, SPLICE]


def mutations(seed: int, count: int) -> Iterator[str]:
    """Broken statements; the same for a seed on every run."""
    draw = random.Random(seed)
    for _ in range(count):
        parts = [part for part in pieces(draw.choice(CORPUS)) if not part.isspace()]
        for _ in range(draw.choice([1, 1, 2, 2, 3])):
            parts = _around(parts, draw) or ["SELECT"]
        yield " ".join(parts)


def _around(parts: list[str], draw: random.Random) -> list[str]:
    """Change what is before the first bracket or after the last one; now and then, anything."""
    first = next((at for at, part in enumerate(parts) if part == "("), len(parts)) + 1
    last = max((at for at, part in enumerate(parts) if part == ")"), default=0)
    mutator, kind = draw.choice(MUTATORS), draw.random()
    if kind < 0.6:
        return [*mutator(parts[:first], draw), *parts[first:]]
    if kind < 0.75 and parts[last:]:
        return [*parts[:last], *mutator(parts[last:], draw)]
    return mutator(parts, draw)


def outcome(text: str) -> str:
    """The kind of error, or `rows`; anything but an EpisodeError comes out as it is."""
    try:
        episode.sql_local(text, t=TABLE)
    except EpisodeError as error:
        return _shown(error)
    return "rows"


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_good(text: str) -> None:
    assert outcome(text) in ("rows", "unsupported", "analysis"), "unsupported: it needs Spark; analysis: no table db.t"


@pytest.mark.filterwarnings("ignore::episode.errors.EpisodeWarning")
@pytest.mark.parametrize("seed", range(8))
def test_mutated_statements(seed: int) -> None:
    for text in mutations(seed, MUTATIONS_PER_TEST):
        with no_hang(text):
            outcome(text)


@pytest.mark.filterwarnings("ignore::episode.errors.EpisodeWarning")
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1_000, 1_025))
def test_many_mutated_statements(seed: int) -> None:
    for text in mutations(seed, MUTATIONS_PER_TEST):
        with no_hang(text):
            outcome(text)


@pytest.mark.parametrize(
    "beginning", ["SELECT .", "SELECT.", "SELECT *.", "FROM.", "WITH.", "TABLE ", "VALUES (1),", "SELECT a FROM.", ""]
)
def test_no_table_before_the_pattern(beginning: str) -> None:
    with pytest.raises(EpisodeError, match=r"MATCH_RECOGNIZE|SELECT columns"):
        episode.sql_local(f"{beginning} t MATCH_RECOGNIZE (ORDER BY ts MEASURES v AS a PATTERN (A+))", t=TABLE)


if __name__ == "__main__":
    print_what_breaks(CORPUS, mutations(int(sys.argv[1]), int(sys.argv[2])), outcome)
