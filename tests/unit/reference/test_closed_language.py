"""The oracle for event patterns where alternatives, negations and closures stand inside one another.

Against results worked out by hand, and against regular expressions: over exclusive classes, at different times and
without conditions, the choices of events that a pattern matches are the subsequences (under strict contiguity: the
substrings) that the regular expression matches.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    Index,
    Negation,
    Reach,
    Sequence,
    Strategy,
)
from tests.reference import generate_events
from tests.reference.event_patterns import Event, Match, matches, returned
from tests.reference.event_trees import (
    aggregate,
    at,
    both,
    closure,
    column,
    each,
    either,
    group,
    no,
    one,
    query,
    render,
    sequence,
    some,
    where,
    whole,
)

NEXT, ANY, STRICT, PARTITION = Strategy.NEXT, Strategy.ANY, Strategy.STRICT, Strategy.PARTITION
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
A, B, C, D, E = (one(name, name.lower()) for name in "ABCDE")
SOME_B = some("B", "b")


def stream(text: str, **columns: list) -> list[Event]:
    """`A1 B2` are events of classes A and B at times 1 and 2; columns in the same order."""
    return [
        Event(n, int(name[1:]), int(name[1:]), {"name": name, "type": name[0]} | {c: v[n] for c, v in columns.items()})
        for n, name in enumerate(text.split())
    ]


def of_type(place: EventClass, event: Event) -> bool:
    return bool(event.values["type"] == place.name)


def events_of(match: Match) -> list[Event]:
    return sorted(
        (e for bound in match.events.values() for e in (bound if isinstance(bound, tuple) else (bound,))),
        key=lambda event: event.position,
    )


def shown(match: Match) -> str:
    """a: one event; [a b]: the events of a closure."""
    return " ".join(
        f"[{' '.join(event.values['name'] for event in bound)}]" if isinstance(bound, tuple) else bound.values["name"]
        for bound in match.events.values()
    )


def found(pattern: EventPattern, events: list[Event], *conditions: Any, **options: Any) -> list[str]:
    asked = query(pattern, *conditions, within=options.pop("within", None), same=options.pop("same", ()))
    return sorted(shown(match) for match in matches(asked, events, member=of_type, **options))


def plus(part: EventPattern) -> Closure:
    return closure(part, "+", groups=False)


# ---- closures of sequences and alternatives ---------------------------------------------------------


def test_a_sequence_is_repeated_round_by_round() -> None:
    """Of two A and two B that alternate: each of the three pairs, and both rounds."""
    events = stream("A1 B2 A3 B4")
    assert found(plus(sequence(A, B)), events) == ["[A1 A3] [B2 B4]", "[A1] [B2]", "[A1] [B4]", "[A3] [B4]"]
    # Once A3 is taken after A1, there is no B for A1.
    assert found(plus(sequence(A, B)), stream("A1 A3 B4 B5")) == ["[A1] [B4]", "[A1] [B5]", "[A3] [B4]", "[A3] [B5]"]


def test_rounds_follow_one_another_strictly() -> None:
    assert found(plus(sequence(A, B)), stream("A1 B2 A2 B3")) == ["[A1] [B2]", "[A1] [B3]", "[A2] [B3]"]


def test_alternatives_are_repeated() -> None:
    """Every non-empty choice of the three events between, each in the list of its alternative."""
    between = found(sequence(A, plus(either(B, C)), D), stream("A1 B2 C3 B4 D5"))
    assert len(between) == 7
    assert "A1 [B2 B4] [C3] D5" in between
    assert "A1 [] [C3] D5" in between


def test_alternatives_with_a_sequence_are_repeated() -> None:
    pattern = plus(either(sequence(A, B), C))
    assert found(pattern, stream("A1 C2 B3")) == ["[A1] [B3] []", "[] [] [C2]"]
    assert "[A1] [B2] [C3]" in found(pattern, stream("A1 B2 C3"))


# ---- closures in closures ---------------------------------------------------------------------------


def test_a_closure_in_a_closure() -> None:
    """One round: A1 with a choice of B2, B4, or A3 with B4; two rounds: A1 B2, A3 B4."""
    assert found(plus(sequence(A, SOME_B)), stream("A1 B2 A3 B4")) == [
        "[A1 A3] [B2 B4]",
        "[A1] [B2 B4]",
        "[A1] [B2]",
        "[A1] [B4]",
        "[A3] [B4]",
    ]


def test_how_events_fall_into_rounds_does_not_matter() -> None:
    """(B+)+ is B+; SEQ(A*, B+)+ could put b2 and b3 into one round or two."""
    assert found(plus(sequence(SOME_B)), stream("B1 B2")) == ["[B1 B2]", "[B1]", "[B2]"]
    pattern = plus(sequence(some("A", "a", "*"), SOME_B))
    assert found(pattern, stream("A1 B2 B3")).count("[A1] [B2 B3]") == 1
    assert found(plus(sequence(SOME_B)), stream("B1 B2"), strategy=NEXT) == ["[B1]", "[B2]"]


def test_an_inside_that_may_be_empty_adds_nothing() -> None:
    """Rounds have events: (B*)+ needs one, (B*)* may be empty."""
    assert found(sequence(A, plus(some("B", "b", "*")), C), stream("A1 C2")) == []
    assert found(sequence(A, closure(some("B", "b", "*"), "*", groups=False), C), stream("A1 C2")) == ["A1 [] C2"]


def test_lists_go_on_from_round_to_round() -> None:
    """b[i-1] of the first b of a round is the last b of the round before; b[1] is the first of all."""
    pattern, events = plus(sequence(A, SOME_B)), stream("A1 B2 A3 B4 B5", x=[0, 3, 0, 1, 4])
    rising = where("{} > {}", each("b", "x"), each("b", "x", back=1))
    both_rounds = [text for text in found(pattern, events, rising) if text.startswith("[A1 A3]")]
    assert both_rounds == ["[A1 A3] [B2 B5]"]  # not 3, 1
    first = where("{} = 3", at("b", 1, "x"))
    assert all("[B2" in text for text in found(pattern, events, first))
    total = where("{} = 2", aggregate("count", "a"))
    assert [text for text in found(pattern, events, total) if "A3" not in text] == []


# ---- groups -----------------------------------------------------------------------------------------


def test_a_group_of_alternatives_has_all_events_of_them() -> None:
    pattern = sequence(A, closure(either(B, C), "+", groups=True), D)
    assert found(pattern, stream("A1 B2 C3 E4 B5 D6")) == ["A1 [B2 B5] [C3] D6"]
    assert found(pattern, stream("A1 E4 D6")) == []
    kept = found(pattern, stream("A1 B2 C3 B4 D6", x=[0, 0, 0, 2, 0]), where("{} > 1", each("b", "x")))
    assert kept == ["A1 [B4] [C3] D6"]


def test_a_group_in_a_round_ends_where_the_next_round_begins() -> None:
    """(A; B+)+ outside SEQ: all B after each A."""
    pattern = plus(sequence(A, group("B", "+", "b")))
    assert found(pattern, stream("A1 B2 B3 A4 B5")) == ["[A1 A4] [B2 B3 B5]", "[A1] [B2 B3 B5]", "[A4] [B5]"]


# ---- negations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("negated", "events", "matched"),
    [
        (sequence(B, D), "A1 B2 D3 C4", False),
        (sequence(B, D), "A1 D2 B3 C4", True),
        (sequence(B, D), "B0 A1 D3 C4", True),
        (sequence(B, D), "A1 B2 D2 C4", True),  # not one after the other
        (either(B, D), "A1 D2 C4", False),
        (either(B, D), "A1 E2 C4", True),
        (either(sequence(B, D), E), "A1 D2 B3 C4", True),
        (either(sequence(B, D), E), "A1 B2 D3 C4", False),
        (either(sequence(B, D), E), "A1 D2 E3 C4", False),
        (sequence(D, SOME_B), "A1 D2 C4", True),
        (sequence(D, SOME_B), "A1 D2 B3 C4", False),
        (sequence(D, some("B", "b", "*")), "A1 D2 C4", False),
        (sequence(D, some("B", "b", "^2")), "A1 D2 B3 C4", True),
        (sequence(D, some("B", "b", "^2")), "A1 D2 B3 B3 C4", True),
        (sequence(D, some("B", "b", "^2")), "A1 D2 B3 B4 C5", False),
        (plus(sequence(B, D)), "A1 B2 D3 C4", False),
        (both(B, D), "A1 D2 B3 C4", False),
        (some("B", "b", "*"), "A1 D2 C4", True),  # nothing is no match of it
        (sequence(B, no(E), D), "A1 B2 D4 C5", False),
        (sequence(B, no(E), D), "A1 B2 E3 D4 C5", True),
        (sequence(no(E), D), "A1 E2 D3 C4", True),
        (sequence(no(E), D), "E0 A1 D3 C4", False),
    ],
)
@pytest.mark.parametrize("strategy", [ANY, NEXT])
def test_a_negated_pattern_forbids_every_match_of_it(
    negated: EventPattern, events: str, matched: bool, strategy: Strategy
) -> None:
    """Between A and C."""
    assert bool(found(sequence(A, no(negated), C), stream(events), strategy=strategy)) is matched


def test_what_negates_has_the_attributes_of_the_match() -> None:
    """Under partition contiguity: D2 and E3 are of another k, so that A1 and C4 are side by side and not negated."""
    events = stream("A1 D2 E3 C4", k=[1, 2, 2, 1])
    pattern = sequence(A, no(sequence(D, E)), C)
    assert found(pattern, events, strategy=PARTITION, same=("k",)) == ["A1 C4"]
    assert found(pattern, events, strategy=PARTITION, key=lambda event: event.values["k"]) == ["A1 C4"]
    assert found(pattern, events, same=("k",)) == ["A1 C4"]
    assert found(pattern, events) == []


@pytest.mark.parametrize("strategy", [ANY, NEXT])
def test_a_negated_sequence_beside_a_closure(strategy: Strategy) -> None:
    """D then E after the last b and before C: only those choices of b are left that have no D and E after them."""
    pattern = sequence(A, SOME_B, no(sequence(D, E)), C)
    expected = {ANY: ["A1 [B2 B4] C6", "A1 [B4] C6"], NEXT: ["A1 [B2 B4] C6"]}
    assert found(pattern, stream("A1 B2 D3 B4 E5 C6"), strategy=strategy) == expected[strategy]
    assert found(pattern, stream("A1 B2 D3 E4 C6"), strategy=strategy) == []


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_negated_sequence_that_stands_last_or_first(strategy: Strategy) -> None:
    """The window bounds it: to ts + w, from te - w."""
    last = sequence(A, B, no(sequence(D, E)))
    assert found(last, stream("A1 B2 D3 E4"), within=10, strategy=strategy) == []
    assert found(last, stream("A1 B2 D3 E14"), within=10, strategy=strategy) == ["A1 B2"]
    first = sequence(no(sequence(D, E)), A, B)
    assert found(first, stream("D1 E2 A3 B4"), within=10, strategy=strategy) == []
    assert found(first, stream("D1 E2 A10 B12"), within=10, strategy=strategy) == ["A10 B12"]


def test_conditions_of_a_negated_closure() -> None:
    """Forbidden: D and a choice of B that rises; and with a sum over it."""
    pattern = sequence(A, no(sequence(D, some("B", "b", "^2"))), C)
    rising = where("{} > {}", each("b", "x"), each("b", "x", back=1))
    assert found(pattern, stream("A1 D2 B3 B4 C5", x=[0, 0, 2, 1, 0]), rising) == ["A1 C5"]
    assert found(pattern, stream("A1 D2 B3 B4 C5", x=[0, 0, 1, 2, 0]), rising) == []
    any_sum = sequence(A, no(sequence(D, SOME_B)), C)
    five = where("{} = 5", aggregate("sum", "b", "x"))
    assert found(any_sum, stream("A1 D2 B3 B4 C5", x=[0, 0, 2, 3, 0]), five) == []  # 2 + 3
    assert found(any_sum, stream("A1 D2 B3 B4 C5", x=[0, 0, 2, 4, 0]), five) == ["A1 C5"]
    outer = where("{} > {}", column("d", "x"), column("a", "x"))
    assert found(any_sum, stream("A1 D2 B3 C5", x=[4, 3, 2, 0]), outer) == ["A1 C5"]


def test_a_negated_group_is_the_whole_group() -> None:
    """!(D; B+) outside SEQ: the group has all B after D, so its sum is 5 and not 2."""
    pattern = sequence(A, no(sequence(D, group("B", "+", "b"))), C)
    total = where("{} = 2", aggregate("sum", "b", "x"))
    assert found(pattern, stream("A1 D2 B3 B4 C5", x=[0, 0, 2, 3, 0]), total) == ["A1 C5"]
    assert found(pattern, stream("A1 D2 B3 C5", x=[0, 0, 2, 0]), total) == []
    assert found(pattern, stream("A1 D2 C5", x=[0, 0, 0])) == ["A1 C5"]


def test_a_negation_in_a_round_lies_between_its_neighbours() -> None:
    """SEQ(A, ~D, B)+: D3 is between A1 and B4, not between B2 and A5."""
    pattern = plus(sequence(A, no(D), B))
    events = stream("A1 B2 D3 B4 A5 B6")
    assert found(pattern, events) == ["[A1 A5] [B2 B6]", "[A1] [B2]", "[A5] [B6]"]
    assert found(pattern, stream("A1 D2 B3"), strategy=NEXT) == []


def test_events_of_the_match_do_not_negate_it() -> None:
    """B2 belongs to the match; B3 alone is no B and B."""
    pattern = sequence(A, some("B", "b"), no(sequence(one("B", "p"), one("B", "q"))), C)
    assert found(pattern, stream("A1 B2 B3 C4")) == ["A1 [B2 B3] C4", "A1 [B2] C4", "A1 [B3] C4"]
    assert found(pattern, stream("A1 B2 B3 B4 C5")) == [
        "A1 [B2 B3 B4] C5",
        "A1 [B2 B3] C5",
        "A1 [B2 B4] C5",
        "A1 [B3 B4] C5",
        "A1 [B3] C5",
        "A1 [B4] C5",
    ]  # only [B2] leaves two B after it


# ---- skip-till-next-match ---------------------------------------------------------------------------


def test_next_match_in_rounds() -> None:
    """A run goes on from A to B to A; C moves it on. In the round under way only what is missing is taken."""
    pattern = sequence(plus(sequence(A, SOME_B)), C)
    assert found(pattern, stream("A1 B2 B3 A4 B5 C6"), strategy=NEXT) == ["[A1 A4] [B2 B3 B5] C6", "[A4] [B5] C6"]
    assert found(pattern, stream("A1 B2 A3 C4"), strategy=NEXT) == []  # A3 is taken, and C4 no use without a B
    assert found(pattern, stream("A1 A2 B3 C4"), strategy=NEXT) == ["[A1] [B3] C4", "[A2] [B3] C4"]


def test_next_match_of_alternatives() -> None:
    pattern = sequence(A, plus(either(B, sequence(C, D))), E)
    assert found(pattern, stream("A1 B2 C3 B4 D5 E6"), strategy=NEXT) == ["A1 [B2] [C3] [D5] E6"]


def test_contiguity_in_rounds() -> None:
    pattern = sequence(plus(sequence(A, SOME_B)), C)
    assert found(pattern, stream("A1 B2 B3 A4 B5 C6"), strategy=STRICT) == ["[A1 A4] [B2 B3 B5] C6", "[A4] [B5] C6"]
    assert found(pattern, stream("A1 B2 D3 C4"), strategy=STRICT) == []


# ---- regular expressions ----------------------------------------------------------------------------


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> EventPattern:
    """Without negation; what is repeated once or more is never empty. Variables are given afterwards."""
    if depth == 0:
        return EventClass(draw(st.sampled_from("ABC")), "")
    kind = draw(st.sampled_from(["class", "sequence", "either", "closure"]))
    parts = [draw(patterns(depth - 1)) for _ in range(draw(st.integers(1, 2)))]
    match kind:
        case "sequence":
            return Sequence(tuple(parts))
        case "either" if len(parts) > 1:
            return Disjunction(tuple(parts))
        case "closure":
            symbols = ["*"] if re.fullmatch(expression(parts[0]), "") else ["+", "*", "^2"]
            return closure(parts[0], draw(st.sampled_from(symbols)), groups=False)
    return EventClass(draw(st.sampled_from("ABC")), "")


def named(pattern: EventPattern, numbers: itertools.count) -> EventPattern:
    match pattern:
        case EventClass(name):
            return EventClass(name, f"v{next(numbers)}")
        case Closure(part, minimum, count):
            return Closure(named(part, numbers), minimum, count, groups=False)
        case Sequence(parts):
            return Sequence(tuple(named(part, numbers) for part in parts))
        case Disjunction(parts):
            return Disjunction(tuple(named(part, numbers) for part in parts))
    raise AssertionError(pattern)


def expression(pattern: EventPattern) -> str:
    match pattern:
        case EventClass(name):
            return name
        case Sequence(parts):
            return "".join(f"(?:{expression(part)})" for part in parts)
        case Disjunction(parts):
            return "|".join(f"(?:{expression(part)})" for part in parts)
        case Closure(part, _, None):
            return f"(?:{expression(part)}){'+' if pattern.minimum else '*'}"
        case Closure(part, _, count):
            return f"(?:{expression(part)}){{{count}}}"
    raise AssertionError(pattern)


def subsequences(types: str, pattern: EventPattern) -> set[tuple[int, ...]]:
    """Positions of every non-empty choice that the expression matches."""
    compiled = re.compile(expression(pattern))
    return {
        chosen
        for size in range(1, len(types) + 1)
        for chosen in itertools.combinations(range(len(types)), size)
        if compiled.fullmatch("".join(types[i] for i in chosen))
    }


@SETTINGS
@given(patterns(), st.text("ABC", max_size=6))
def test_any_match_is_as_regular_expressions_on_subsequences(drawn: EventPattern, types: str) -> None:
    pattern = named(drawn, itertools.count(1))
    events = stream(" ".join(f"{name}{time}" for time, name in enumerate(types)))
    all_found = matches(query(pattern), events, member=of_type)
    expected = subsequences(types, pattern)
    assert {tuple(event.position for event in events_of(match)) for match in all_found} == expected
    different = {repr([(n, shown(Match({n: b}, 0, 0))) for n, b in match.events.items()]) for match in all_found}
    assert len(different) == len(all_found)
    strict = matches(query(pattern), events, member=of_type, strategy=STRICT)
    side_by_side = {chosen for chosen in expected if chosen[-1] - chosen[0] == len(chosen) - 1}
    assert {tuple(event.position for event in events_of(match)) for match in strict} == side_by_side
    following = matches(query(pattern), events, member=of_type, strategy=NEXT)
    assert {tuple(event.position for event in events_of(match)) for match in following} <= expected


@SETTINGS
@given(patterns(), st.text("ABCX", max_size=7))
def test_a_negation_forbids_what_the_regular_expression_finds(drawn: EventPattern, between: str) -> None:
    """X and then X with no match of the pattern between them."""
    pattern = named(drawn, itertools.count(1))
    types = f"X{between}X"
    events = stream(" ".join(f"{name}{time}" for time, name in enumerate(types)))
    expected = {
        (i, j)
        for i, j in itertools.combinations(range(len(types)), 2)
        if types[i] == types[j] == "X" and not subsequences(types[i + 1 : j], pattern)
    }
    asked = query(sequence(one("X", "x"), Negation(pattern), one("X", "y")))
    both_found = matches(asked, events, member=of_type)
    assert {tuple(event.position for event in events_of(match)) for match in both_found} == expected


# ---- skip-till-next-match by what is left of a pattern ------------------------------------------------

Left = tuple[tuple[EventPattern, int], ...]  # patterns that are still to come, with the rounds that closures have had


def steps(left: Left) -> Iterator[tuple[EventClass, Left]]:
    """Every class that may come next, with what is left after it."""
    if not left:
        return
    (pattern, done), *rest = left
    match pattern:
        case EventClass():
            yield pattern, tuple(rest)
        case Sequence(parts):
            yield from steps((*((part, 0) for part in parts), *rest))
        case Disjunction(parts):
            for part in parts:
                yield from steps(((part, 0), *rest))
        case Closure(part, minimum, count):
            if count is None or done < count:
                for place, inside in steps(((part, 0),)):
                    yield place, (*inside, (pattern, done + 1), *rest)
            if done >= minimum:
                yield from steps(tuple(rest))


def may_end(left: Left) -> bool:
    for pattern, done in left:
        match pattern:
            case EventClass():
                return False
            case Sequence(parts):
                if not may_end(tuple((part, 0) for part in parts)):
                    return False
            case Disjunction(parts):
                if not any(may_end(((part, 0),)) for part in parts):
                    return False
            case Closure(minimum=minimum) if done < minimum:
                return False
    return True


def next_matches(pattern: EventPattern, types: str) -> set[tuple[tuple[str, int], ...]]:
    """Which events are in which places: a run takes what it can, forks where it can do so in several ways, and ends."""
    complete = set()
    for start in range(len(types)):
        runs: set[tuple[tuple[tuple[str, int], ...], Left]] = {((), ((pattern, 0),))}
        for position in range(start, len(types)):
            following = set()
            for taken, left in runs:
                ways = [(place, rest) for place, rest in steps(left) if place.name == types[position]]
                following |= {((*taken, (place.variable, position)), rest) for place, rest in ways}
                if not ways and taken:
                    following.add((taken, left))
            complete |= {taken for taken, left in following if may_end(left)}
            runs = {(taken, left) for taken, left in following if not may_end(left)}
    return complete


@SETTINGS
@given(patterns(), st.text("ABC", max_size=7))
def test_next_match_takes_what_may_come_next(drawn: EventPattern, types: str) -> None:
    events = stream(" ".join(f"{name}{time}" for time, name in enumerate(types)))
    # A union of whole patterns has runs for each of them, in this test as one pattern: an event goes before it.
    pattern = Sequence((EventClass("A", "v0"), named(drawn, itertools.count(1))))
    expected = {tuple(sorted(taken)) for taken in next_matches(pattern, types)}
    assert {_in_places(match) for match in matches(query(pattern), events, member=of_type, strategy=NEXT)} == expected


def _in_places(match: Match) -> tuple[tuple[str, int], ...]:
    bound = {name: bound if isinstance(bound, tuple) else (bound,) for name, bound in match.events.items()}
    return tuple(sorted((name, event.position) for name, events in bound.items() for event in events))


# ---- random queries ---------------------------------------------------------------------------------


@SETTINGS
@given(generate_events.cases(generate_events.CLOSED))
def test_random_queries_have_an_answer(case: generate_events.Case) -> None:
    """Different events, in the window; RETURN has its values; the text can be written."""
    for match in case.matches():
        events = events_of(match)
        assert len(set(events)) == len(events)
        assert case.query.within is None or match.te - match.ts <= case.query.within.amount
        returned(case.query, match)
    assert render(case.query).startswith("PATTERN ")


def test_what_is_returned_of_nested_closures() -> None:
    items = (where("{}", whole("b", Index.ALL)), where("{}", aggregate("sum", "b", "x", Reach.ALL)))
    asked = query(plus(sequence(A, SOME_B)), where("{} = 2", aggregate("count", "a")), returns=items)
    events = stream("A1 B2 A3 B4", x=[0, 2, 0, 5])
    [match] = matches(asked, events, member=of_type)
    assert returned(asked, match) == ([events[1].values, events[3].values], 7, 1, 4)
