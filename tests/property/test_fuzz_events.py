"""Mutated event patterns: whatever a user types gives an EventQuery or an EpisodeError, and nothing else.

`python -m tests.property.test_fuzz_events 17 1000` tries 1000 mutations from seed 17 and prints what breaks.
"""

from __future__ import annotations

import random
import re
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.errors import EpisodeError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventQuery, classes_of, event_atoms
from episode.lang.statement import parse_statement
from tests.property.mutations import (
    CHARACTERS,
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

MUTATIONS = 2_000
HERE = Path(__file__).parent / "fuzz"
CORPUS = (HERE / "events.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
WORDS = (HERE / "event_words.txt").read_text(encoding="utf-8").split()
WRAPPINGS = [
    ("(", ")"), ("[", "]"), ("!(", ")"), ("(", ")+"), ("SEQ(", ")"), ("SEQ(", ", A z)*"), ("sum(", ")"), ("abs(", ")"),
    ("NOT (", ")"), ("CASE WHEN ", " THEN 1 END"), ("EVENTS (PATTERN ", ")"), ("`", "`"), ("'", "'"), ("/*", "*/"),
]  # fmt: skip


# ---- mutations ------------------------------------------------------------------------------------


def replace(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(len(parts))
    return [*parts[:at], draw.choice([" ", ""]), draw.choice(WORDS), draw.choice([" ", ""]), *parts[at + 1 :]]


def insert(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(len(parts) + 1)
    return [*parts[:at], draw.choice([" ", ""]), draw.choice(WORDS), draw.choice([" ", ""]), *parts[at:]]


EXCHANGE = partial(exchange, corpus=CORPUS, kinds=(r"\d", r"\w", ""))
NOISE = partial(noise, characters=CHARACTERS + "⁵≥∧%")
SPLICE = partial(splice, corpus=CORPUS)
WRAP = partial(wrap, wrappings=WRAPPINGS, depths=[1, 1, 1, 1, 1, 2, 3, 30, 60, 150])
MUTATORS: list[Mutator] = [EXCHANGE] * 4 + [replace, insert] * 2
MUTATORS += [delete, duplicate, swap, NOISE, truncate, SPLICE, WRAP, disguise] * 2 + [lengthen]


def mutation(seed: int) -> str:
    """A broken query; the same for a seed on every run."""
    draw = random.Random(seed)
    parts = pieces(draw.choice(CORPUS))
    for _ in range(draw.choice([1, 1, 1, 2, 2, 3, 5])):
        parts = draw.choice(MUTATORS)(parts, draw) or ["PATTERN"]
    return "".join(parts)[:5_000]


# ---- outcomes -------------------------------------------------------------------------------------


def outcome(text: str) -> str:
    """The kind of error, or what it is; anything but an EpisodeError comes out as it is."""
    try:
        if text.lstrip()[:6].upper() == "SELECT":
            queries = [found.query for found in parse_statement(text).tables if isinstance(found.query, EventQuery)]
        else:
            queries = [parse_event_query(text)]
    except EpisodeError as error:
        return _shown(error, text)
    for query in queries:
        _check(query)
    return "query"


def _shown(error: EpisodeError, text: str) -> str:
    assert str(error)
    assert error.position is not None
    assert 0 <= error.position <= len(text)
    return error.kind


def _check(query: EventQuery) -> None:
    """What every query promises to those who plan it."""
    variables = {event.variable.lower() for event in classes_of(query.pattern)}
    scalars = [*query.conditions, *(item.expression for item in query.returns or ())]
    for scalar in scalars:
        assert [name for name, _ in scalar.atoms] == re.findall(r"__episode_\d+", scalar.text)
        assert {atom.variable.lower() for atom in event_atoms(scalar)} <= variables
    names = [item.name.lower() for item in query.returns or ()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_good(text: str) -> None:
    assert outcome(text) == "query"


EXTREMES = {
    "brackets in brackets": "PATTERN " + "(" * 400 + "A" + ")" * 400,
    "SEQ in SEQ": "PATTERN " + "SEQ(" * 400 + "A" + ")" * 400,
    "negations": "PATTERN A; " + "!" * 5_000 + "B",
    "closures": "PATTERN A" + "+" * 5_000,
    "a long sequence": "PATTERN " + "; ".join(f"A{i}" for i in range(2_000)),
    "many alternatives": "PATTERN " + " | ".join(f"A{i}" for i in range(2_000)),
    "many conditions": "PATTERN A; B WHERE " + " AND ".join(f"A.x > {i}" for i in range(300)),
    "conditions in brackets": "PATTERN A; B WHERE " + "(" * 2_000 + "A.x > 1" + ")" * 2_000,
    "a long chain": "PATTERN A; B WHERE " + " = ".join(["A.x", "B.y"] * 150),
    "a long sum": "PATTERN A; B WHERE " + " + ".join(["A.x"] * 1_000) + " > 1",
    "a deep condition": "PATTERN A; B WHERE " + "NOT (" * 300 + "A.x > 1" + ")" * 300,
    "a long name": f"PATTERN {'A' * 50_000}; B WHERE {'A' * 50_000}.x > 1",
    "a long percentage": f"PATTERN A; B WHERE A.x > {'9' * 20_000}%",
    "a large index": f"PATTERN A; B+ WHERE B[i-{'9' * 20_000}].x > 1",
    "many columns": "PATTERN A; B RETURN " + ", ".join(f"A.x{i}" for i in range(500)),
}


@pytest.mark.parametrize("name", list(EXTREMES))
def test_extremes(name: str) -> None:
    with no_hang(name):
        outcome(EXTREMES[name])


@settings(max_examples=MUTATIONS, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_mutated_event_patterns(seed: int) -> None:
    text = mutation(seed)
    with no_hang(text):
        outcome(text)


if __name__ == "__main__":
    seeds = range(int(sys.argv[1]) * 1_000_000, int(sys.argv[1]) * 1_000_000 + int(sys.argv[2]))
    print_what_breaks(CORPUS, map(mutation, seeds), outcome, width=1_000)
