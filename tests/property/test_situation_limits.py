"""Limits of durations that contradict the window or each other: what is refused never matches, and only that is."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.situations.parser import parse_situation_query
from tests.reference.generate_situations import has_room, is_satisfiable, render
from tests.reference.situations import MIRROR, RELATIONS, Constraint, Definition, Event, Pattern, Value, matches

SYMBOLS = ["A", "B", "C"]


def random_pattern(rng: random.Random) -> Pattern:
    """Two or three situations with narrow limits, few alternatives, and maybe a window; not contradictory without."""
    symbols = SYMBOLS[: rng.choice([2, 2, 3])]
    definitions = []
    for symbol in symbols:
        least, most = rng.choice([None, 1, 2, 3, 4]), rng.choice([None, 1, 2, 3, 4])
        if least is not None and most is not None:
            least, most = sorted((least, most))
        definitions.append(Definition(symbol, symbol.lower(), least, most))
    pairs = [(symbols[at - 1], symbols[at]) for at in range(1, len(symbols))]
    pairs += [rng.choice(pairs)[::-1]] * rng.choice([0, 0, 1])
    constraints = tuple(
        Constraint(left, right, frozenset(rng.sample(RELATIONS, rng.choice([1, 1, 2, 3])))) for left, right in pairs
    )
    within = rng.choice([None, None, 1, 2, 3, 5])
    pattern = Pattern(tuple(definitions), constraints, within, (Value("A", "count"),))
    return pattern if is_satisfiable(pattern) else random_pattern(rng)


def is_refused(pattern: Pattern) -> bool:
    try:
        parse_situation_query(render(pattern))
    except EpisodeSyntaxError as error:
        return error.message.startswith("No match fits WITHIN") or " cannot hold: " in error.message
    return False


def random_events(rng: random.Random) -> list[Event]:
    """Situations that often begin or end together, of one to five units."""
    events, values = [], dict.fromkeys("abc", False)
    for time in range(9):
        values = {name: (not holds if rng.random() < 0.4 else holds) for name, holds in values.items()}
        events.append(Event(time, values))
    return events


def test_refused_where_no_durations_fit() -> None:
    """The limits of a pair against all durations around them, and each least duration against the window."""
    rng = random.Random(20)
    answers = set()
    for _ in range(1000):
        pattern = random_pattern(rng)
        least = max(definition.at_least or 0 for definition in pattern.definitions)
        too_long = pattern.within is not None and least > pattern.within
        assert is_refused(pattern) == (too_long or not has_room(pattern)), render(pattern)
        answers.add((too_long, has_room(pattern)))
    assert len(answers) == 4


@pytest.mark.parametrize("detect", ["earliest", "complete"])
def test_refused_patterns_never_match(detect: str) -> None:
    """By the oracle. Without their limits and their window, most of them do."""
    rng = random.Random(21)
    refused, without = 0, 0
    while refused < 30:
        pattern = replace(random_pattern(rng), detect=detect)
        if not is_refused(pattern):
            continue
        refused += 1
        plain = replace(
            pattern, definitions=tuple(Definition(d.symbol, d.column) for d in pattern.definitions), within=None
        )
        inputs = [random_events(rng) for _ in range(8)]
        assert [match for events in inputs for match in matches(pattern, events)] == [], render(pattern)
        without += any(matches(plain, events) for events in inputs)
    assert without > refused // 2


@pytest.mark.parametrize("detect", ["earliest", "complete"])
@pytest.mark.parametrize(
    ("relation", "a", "b"),
    [("equals", (3, 3), (3, 3)), ("starts", (2, None), (None, 3)), ("during", (1, None), (None, 3))],
)
def test_limits_that_just_fit(relation: str, a: tuple, b: tuple, detect: str) -> None:
    """They are accepted, in either direction, and match."""
    spans = {"equals": ((1, 4), (1, 4)), "starts": ((1, 3), (1, 4)), "during": ((2, 3), (1, 4))}[relation]
    events = [
        Event(time, {name: start <= time < end for name, (start, end) in zip("ab", spans, strict=True)})
        for time in range(6)
    ]
    definitions = (Definition("A", "a", *a), Definition("B", "b", *b))
    for constraint in (
        Constraint("A", "B", frozenset([relation])),
        Constraint("B", "A", frozenset([MIRROR[relation]])),
    ):
        pattern = Pattern(definitions, (constraint,), 3, (Value("A", "count"),), detect)
        assert not is_refused(pattern)
        assert len(matches(pattern, events)) == 1


def test_a_window_of_the_least_duration() -> None:
    """A match is reported while A still lasts, at the moment at which it has lasted long enough."""
    events = [Event(time, {"a": time >= 1, "b": 2 <= time < 4}) for time in range(8)]
    definitions = (Definition("A", "a", at_least=4), Definition("B", "b"))
    pattern = Pattern(definitions, (Constraint("A", "B", frozenset(["contains"])),), 4, (Value("A", "count"),))
    assert not is_refused(pattern)
    assert [match.detected_at for match in matches(pattern, events)] == [5]
    assert is_refused(replace(pattern, within=3))
    assert matches(replace(pattern, within=3), events) == []
