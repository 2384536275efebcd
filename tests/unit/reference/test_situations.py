"""The oracle for situation patterns against results worked out by hand, the paper's examples among them.

Conditions are written as timelines: `.###?` is false at time 0, true at 1 to 3 and null at 4. So its situation is
[1, 4). Where time does not go in steps of one, the times are given.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.reference import generate_situations
from tests.reference.generate_situations import Case, is_satisfiable, render
from tests.reference.situations import (
    MIRROR,
    PREFIX_GROUPS,
    RELATIONS,
    Constraint,
    Definition,
    Event,
    Match,
    Pattern,
    Value,
    complete_choices,
    detection_time,
    instants,
    matches,
    relation_of,
    situations,
)


def timeline(times: list[int] | None = None, key: object = None, **columns: Any) -> list[Event]:
    """Columns that are strings are conditions, others are lists of values."""
    read = {".": False, "#": True, "?": None}
    values = {
        name: [read[sign] for sign in column] if isinstance(column, str) else column for name, column in columns.items()
    }
    count = len(next(iter(values.values())))
    assert all(len(column) == count for column in values.values())
    return [
        Event(time, {name: column[index] for name, column in values.items()}, key)
        for index, time in enumerate(times or range(count))
    ]


def define(symbols: str, **limits: tuple[int | None, int | None]) -> tuple[Definition, ...]:
    """A, B, … of the columns a, b, …; limits: symbol -> at least, at most."""
    return tuple(Definition(symbol, symbol.lower(), *limits.get(symbol, (None, None))) for symbol in symbols)


def related(text: str) -> tuple[Constraint, ...]:
    """`A before B; A meets B AND B overlaps C`, with the symbols in the same order in all alternatives."""
    constraints = []
    for alternatives in text.split(" AND "):
        words = [alternative.split() for alternative in alternatives.split("; ")]
        ((left, right),) = {(word[0], word[2]) for word in words}
        constraints.append(Constraint(left, right, frozenset(word[1] for word in words)))
    return tuple(constraints)


def pattern(text: str, within: int | None = None, values: tuple[Value, ...] = (), **limits: Any) -> Pattern:
    """Of all symbols that the constraints speak of."""
    constraints = related(text)
    symbols = sorted({symbol for constraint in constraints for symbol in (constraint.left, constraint.right)})
    return Pattern(define("".join(symbols), **limits), constraints, within, values)


def found(of: Pattern, events: list[Event]) -> list[tuple[tuple[int, ...], int]]:
    """The starts in order of the definitions, and the time of detection."""
    return sorted(
        (tuple(match.starts[definition.symbol] for definition in of.definitions), match.detected_at)
        for match in matches(of, events)
    )


def complete(of: Pattern) -> Pattern:
    return replace(of, detect="complete")


# ---- situations -----------------------------------------------------------------------------------


def intervals(events: list[Event], at_least: int | None = None, at_most: int | None = None) -> list[tuple]:
    return [(s.start, s.end) for s in situations(Definition("A", "a", at_least, at_most), events)]


def test_situations_are_the_maximal_runs() -> None:
    assert intervals(timeline(a=".###..#.")) == [(1, 4), (6, 7)]


def test_a_situation_lasts_until_an_event_says_otherwise() -> None:
    assert intervals(timeline(a=".#.##")) == [(1, 2), (3, None)]


def test_an_end_is_the_time_of_the_next_event() -> None:
    assert intervals(timeline([0, 1, 7, 9], a=".##.")) == [(1, 9)]


def test_null_does_not_hold() -> None:
    assert intervals(timeline(a="?##?##??")) == [(1, 3), (4, 6)]


def test_limits_of_durations_are_inclusive() -> None:
    events = timeline(a="#.##.###.####.")
    assert intervals(events, at_least=3) == [(5, 8), (9, 13)]
    assert intervals(events, at_most=2) == [(0, 1), (2, 4)]
    assert intervals(events, at_least=2, at_most=3) == [(2, 4), (5, 8)]


def test_an_empty_interval_is_no_situation() -> None:
    assert intervals(timeline([0, 1, 1, 2], a=".#..")) == []
    assert intervals(timeline([0, 1, 1, 1, 2], a=".#.#.")) == [(1, 2)]


def test_a_run_ends_and_another_begins_in_one_instant() -> None:
    assert intervals(timeline([0, 1, 3, 3, 5], a=".#.#.")) == [(1, 3), (3, 5)]


# ---- relations ------------------------------------------------------------------------------------

# relation, timelines of a and b, detected at, complete at
TABLE = [
    ("before", ".##.....", "....##..", 4, 6),
    ("meets", ".##.....", "...##...", 3, 5),
    ("overlaps", ".###....", "..####..", 4, 6),
    ("starts", ".##.....", ".####...", 3, 5),
    ("during", "..##....", ".#####..", 4, 6),
    ("finishes", ".####...", "..###...", 5, 5),
    ("equals", ".###....", ".###....", 4, 4),
]
TABLE += [(MIRROR[relation], b, a, earliest, last) for relation, a, b, earliest, last in TABLE[:-1]]


@pytest.mark.parametrize(("relation", "a", "b", "earliest", "last"), TABLE)
def test_relations(relation: str, a: str, b: str, earliest: int, last: int) -> None:
    events = timeline(a=a, b=b)
    starts = (a.index("#"), b.index("#"))
    for other in RELATIONS:
        one = pattern(f"A {other} B")
        assert found(one, events) == ([(starts, earliest)] if other == relation else [])
        assert found(complete(one), events) == ([(starts, last)] if other == relation else [])


@pytest.mark.parametrize(("relation", "a", "b", "earliest", "last"), TABLE)
def test_mirrors(relation: str, a: str, b: str, earliest: int, last: int) -> None:
    assert found(pattern(f"B {MIRROR[relation]} A"), timeline(a=a, b=b)) == [((a.index("#"), b.index("#")), earliest)]


@pytest.mark.parametrize(("relation", "a", "b", "earliest", "last"), TABLE)
def test_the_table_of_the_paper(relation: str, a: str, b: str, earliest: int, last: int) -> None:
    events = timeline(a=a, b=b)
    one = pattern(f"A {relation} B")
    (chosen,) = complete_choices(one, events)
    assert detection_time(one, chosen, instants(events)) == earliest


def test_there_are_thirteen_relations_in_five_groups() -> None:
    assert len(RELATIONS) == 13
    assert sorted(relation for group in PREFIX_GROUPS for relation in group) == sorted(RELATIONS)


def test_every_choice_of_situations_is_a_match() -> None:
    events = timeline(a="#.#....", b="...#.#.")
    assert found(pattern("A before B"), events) == [((0, 3), 3), ((0, 5), 5), ((2, 5), 5)]


def test_constraints_on_the_same_pair_intersect() -> None:
    events = timeline(a=".##.......", b="...##.###.")
    assert found(pattern("A before B; A meets B AND A before B; A overlaps B"), events) == [((1, 6), 6)]


# ---- the paper's examples -------------------------------------------------------------------------

LISTING_1 = pattern(
    "A meets B; A overlaps B; A starts B; A during B"
    " AND B contains C; B finishes C; B overlaps C; B meets C"  # C during B, from B
    " AND A before C",
    A=(5, None),
    B=(4, 30),
    C=(3, None),
)


@pytest.mark.parametrize(
    ("a", "b", "c", "detected"),
    [
        # A overlaps B, and C during B: B has a greatest duration, which is kept at its end.
        (".######..............", "...###########.......", "..........###........", [((1, 3, 10), 14)]),
        # … B finishes C
        (".######..............", "...###########.......", "..........####.......", [((1, 3, 10), 14)]),
        # … B overlaps C, where C lasts
        (".######..............", "...###########.......", "..........###########", [((1, 3, 10), 14)]),
        # … B meets C, which is long enough three later
        (".######..............", "...###########.......", "..............#######", [((1, 3, 14), 17)]),
        (".######..............", "...###########.......", "..............##.....", []),
        # … B overlaps C, which is long enough only after B
        (".######..............", "...###########.......", "............#########", [((1, 3, 12), 15)]),
        # A meets, starts and is during B
        (".#####...............", "......########.......", "..........###........", [((1, 6, 10), 14)]),
        ("...#####.............", "...###########.......", "..........###........", [((3, 3, 10), 14)]),
        ("....#####............", "...###########.......", "..........###........", [((4, 3, 10), 14)]),
        # A not long enough; B lasts; A not before C
        ("....####.............", "...###########.......", "..........###........", []),
        ("....#####............", "...##################", "..........###........", []),
        ("....######...........", "...###########.......", "..........###........", []),
    ],
)
def test_listing_1(a: str, b: str, c: str, detected: list) -> None:
    assert found(LISTING_1, timeline(a=a, b=b, c=c)) == detected


FIGURE_4 = pattern("A before B AND A before C AND A before D AND C contains D; C finishes D; C meets D")


@pytest.mark.parametrize(
    ("b", "c", "d", "detected"),
    [
        (".......###", "...##.....", ".....#####", ((1, 7, 3, 5), 7)),  # B.ts
        ("...#######", "....##....", "......####", ((1, 3, 4, 6), 6)),  # D.ts, while B and D last
        ("...#######", "....#####.", ".....##...", ((1, 3, 4, 5), 7)),  # D.te, while B and C last
        ("...#######", "....####..", "......##..", ((1, 3, 4, 6), 8)),  # D.te = C.te
    ],
)
def test_figure_4(b: str, c: str, d: str, detected: tuple) -> None:
    assert found(FIGURE_4, timeline(a=".#........", b=b, c=c, d=d)) == [detected]


def test_prefix_group_of_different_starts() -> None:
    whole = pattern("A overlaps B; A finishes B; A contains B")
    for a, b in (
        (".###....", "...###.."),
        (".#####..", "...###.."),
        (".#####..", "...#...."),
        (".#######", "...#####"),
    ):
        assert found(whole, timeline(a=a, b=b)) == [((1, 3), 3)]
        mirrored = pattern("A overlapped-by B; A finished-by B; A during B")
        assert found(mirrored, timeline(a=b, b=a)) == [((3, 1), 3)]


def test_prefix_group_of_equal_starts() -> None:
    whole = pattern("A starts B; A equals B; A started-by B")
    for a, b in ((".##..", ".###."), (".###.", ".##.."), (".##..", ".##.."), (".####", ".####")):
        assert found(whole, timeline(a=a, b=b)) == [((1, 1), 1)]


def test_parts_of_a_prefix_group_are_told_apart_at_an_end() -> None:
    assert found(pattern("A overlaps B; A finishes B"), timeline(a=".####...", b="...####.")) == [((1, 3), 5)]
    assert found(pattern("A overlaps B; A finishes B"), timeline(a=".#####..", b="...###..")) == [((1, 3), 6)]
    assert found(pattern("A finishes B; A contains B"), timeline(a=".######.", b="...#....")) == [((1, 3), 4)]
    assert found(pattern("A overlaps B; A contains B"), timeline(a=".#######", b="...####.")) == [((1, 3), 7)]
    assert found(pattern("A starts B; A started-by B"), timeline(a=".##.....", b=".###....")) == [((1, 1), 3)]
    assert found(pattern("A starts B; A started-by B"), timeline(a=".#######", b=".#######")) == []


def test_two_constraints_on_a_pair_are_a_prefix_group_if_both_have_it() -> None:
    events = timeline(a=".####...", b="...####.")
    group = "A overlaps B; A finishes B; A contains B"
    assert found(pattern(f"{group} AND {group}; A before B"), events) == [((1, 3), 3)]
    assert found(pattern(f"{group} AND A overlaps B; A contains B"), events) == [((1, 3), 5)]


def test_every_relation_needs_only_the_starts() -> None:
    anything = "; ".join(f"A {relation} B" for relation in RELATIONS)
    assert found(pattern(anything), timeline(a=".####.##", b="...###..")) == [((1, 3), 3), ((6, 3), 6)]


# ---- durations ------------------------------------------------------------------------------------


def test_a_deferred_start_is_a_time_of_detection() -> None:
    """The paper's A during B, where B is long enough only after A."""
    during = pattern("A during B", B=(6, None))
    assert found(during, timeline(a="..##......", b=".########.")) == [((2, 1), 7)]
    assert found(during, timeline(a="..######..", b=".########.")) == [((2, 1), 8)]
    # at the end itself, and never
    assert found(during, timeline(a="..##......", b=".######...")) == [((2, 1), 7)]
    assert found(during, timeline(a="..##......", b=".#####....")) == []


def test_a_deferred_start_waits_for_an_event() -> None:
    during = pattern("A during B", B=(6, None))
    assert found(during, timeline([0, 1, 2, 4, 6, 9, 10], a="..#....", b=".######")) == [((2, 1), 9)]
    # One time before is not enough: B may end between 6 and 7.
    assert found(during, timeline([0, 1, 2, 4, 6], a="..#..", b=".####")) == []


def test_deferred_starts_with_prefix_groups() -> None:
    whole = pattern("A overlaps B; A finishes B; A contains B", A=(4, None), B=(3, None))
    assert found(whole, timeline(a=".#######", b="..######")) == [((1, 2), 5)]
    assert found(whole, timeline(a=".#######", b="....####")) == [((1, 4), 7)]
    assert found(whole, timeline(a=".####...", b="....####")) == [((1, 4), 7)]


def test_at_most_defers_to_the_end() -> None:
    before = pattern("A before B", B=(None, 3))
    assert found(before, timeline(a=".#.......", b="...##....")) == [((1, 3), 5)]
    assert found(before, timeline(a=".#.......", b="...###...")) == [((1, 3), 6)]
    assert found(before, timeline(a=".#.......", b="...####..")) == []
    assert found(before, timeline(a=".#.......", b=".......##")) == []
    between = pattern("A before B", B=(2, 3))
    assert found(between, timeline(a=".#.......", b="...#.##..")) == [((1, 5), 7)]


def test_at_most_defers_a_prefix_group() -> None:
    whole = pattern("A overlaps B; A finishes B; A contains B", A=(None, 9))
    assert found(whole, timeline(a=".#####..", b="..######")) == [((1, 2), 6)]


# ---- windows --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("within", "early", "whole"), [(2, 0, 0), (3, 1, 0), (4, 1, 0), (5, 1, 1), (None, 1, 1)])
def test_windows(within: int | None, early: int, whole: int) -> None:
    """From the least start to the time of detection, both included: 4 - 1 and 6 - 1."""
    before = pattern("A before B", within)
    events = timeline(a=".##....", b="....##.")
    assert found(before, events) == [((1, 4), 4)] * early
    assert found(complete(before), events) == [((1, 4), 6)] * whole


def test_the_window_begins_with_the_least_start() -> None:
    events = timeline(a="...##.", b=".####.")
    assert found(pattern("A finished-by B", within=4), events) == [((3, 1), 5)]
    assert found(pattern("A finished-by B", within=3), events) == []


def test_a_match_that_is_certain_too_late_is_none() -> None:
    during = pattern("A during B", within=6, B=(6, None))
    assert found(during, timeline([0, 1, 2, 4, 7], a="..#..", b=".####")) == [((2, 1), 7)]
    assert found(during, timeline([0, 1, 2, 4, 8], a="..#..", b=".####")) == []


def test_parts_without_constraints_between_them() -> None:
    apart = pattern("A before B AND C before D", within=5)
    events = timeline(a="#.......", b="..#.....", c=".#......", d=".....#..")
    assert found(apart, events) == [((0, 2, 1, 5), 5)]
    assert found(replace(apart, within=4), events) == []


# ---- what is certain ------------------------------------------------------------------------------


def test_the_end_of_input_says_nothing() -> None:
    events = timeline(a=".####", b=".####")
    assert found(pattern("A equals B"), events) == []
    assert found(complete(pattern("A equals B")), events) == []
    assert found(complete(pattern("A before B")), timeline(a=".#...", b="...##")) == []


def test_symbols_are_independent_even_with_the_same_condition() -> None:
    same = Pattern((Definition("A", "a"), Definition("B", "a")), related("A equals B"))
    assert found(same, timeline(a=".##.")) == [((1, 1), 3)]
    whole = replace(same, constraints=related("A equals B; A starts B; A started-by B"))
    assert found(whole, timeline(a=".##.")) == [((1, 1), 1)]


def test_lasting_situations_without_a_constraint_between_them() -> None:
    """Both relations are certain at once though C and B both last: how they end does not matter."""
    events = timeline(a=".##.....", b="....####", c="....####")
    assert found(pattern("A before B AND A before C"), events) == [((1, 4, 4), 4)]
    assert found(pattern("A before B AND A before C AND B equals C"), events) == []


def test_events_of_one_time_are_one_instant() -> None:
    starting = pattern("A starts B; A equals B; A started-by B")
    assert found(starting, timeline([0, 1, 1, 2], a=".###", b="..##")) == [((1, 1), 1)]
    # B begins and ends at 1, so that it is none.
    assert found(starting, timeline([0, 1, 1, 2], a=".###", b=".#.#")) == []
    # A ends and B begins at 3, in either order.
    meets = pattern("A meets B")
    assert found(meets, timeline([0, 1, 3, 3, 4], a=".#..#", b="...##")) == [((1, 3), 3)]
    assert found(meets, timeline([0, 1, 3, 3, 4], a=".##.#", b="..###")) == [((1, 3), 3)]


def test_two_situations_of_a_condition_meet_in_one_instant() -> None:
    same = Pattern((Definition("A", "a"), Definition("B", "a")), related("A meets B"))
    assert found(same, timeline([0, 1, 3, 3, 5], a=".#.#.")) == [((1, 3), 3)]


def test_null_ends_a_situation() -> None:
    assert found(pattern("A meets B"), timeline(a=".##?..", b="???##.")) == [((1, 3), 3)]


def test_keys_are_apart() -> None:
    one = timeline(key=1, a=".#....", b="...##.")
    two = timeline(key=2, a="....#.", b=".#....")
    of_keys = sorted(one + two, key=lambda event: event.time)
    assert matches(pattern("A before B"), of_keys) == [Match(1, {"A": 1, "B": 3}, 3, ())]


# ---- values ---------------------------------------------------------------------------------------

FUNCTIONS = ("first", "last", "sum", "avg", "min", "max", "count", "stddev")


def values(symbol: str, column: str = "x") -> tuple[Value, ...]:
    aggregates = tuple(Value(symbol, function, column) for function in FUNCTIONS)
    return aggregates + tuple(Value(symbol, function) for function in ("count", "start", "end", "duration"))


def only(of: Pattern, events: list[Event]) -> tuple:
    (match,) = matches(of, events)
    return match.values


def test_values_are_as_of_the_detection() -> None:
    x = [9.0, 1.0, 3.0, 2.0, 4.0, 6.0, 50.0]
    events = timeline(a=".##....", b="...###.", x=x)
    before = pattern("A meets B", values=values("A") + values("B"))
    of_a = (1.0, 3.0, 4.0, 2.0, 1.0, 3.0, 2, pytest.approx(2**0.5), 2, 1, 3, 2)
    assert only(before, events) == of_a + (2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1, None, 1, 3, None, None)
    assert only(complete(before), events) == of_a + (2.0, 6.0, 12.0, 4.0, 2.0, 6.0, 3, 2.0, 3, 3, 6, 3)


def test_values_of_all_events_of_the_instant() -> None:
    events = timeline([0, 1, 3, 3, 3, 4], a=".#....", b="..####", n=[0, 1, 2, 3, 4, 5])
    summed = pattern("A meets B", values=(Value("B", "sum", "n"), Value("B", "count"), Value("B", "last", "n")))
    assert only(summed, events) == (9, 3, 4)


def test_values_of_a_run_with_an_event_at_its_end() -> None:
    """At 3, a still holds at first and then not: the situation ends at 3, and that event is of its run."""
    events = timeline([0, 1, 3, 3, 4], a=".##..", b="...##", n=[0, 1, 2, 3, 4])
    summed = pattern("A meets B", values=(Value("A", "sum", "n"), Value("A", "end"), Value("A", "duration")))
    assert only(summed, events) == (3, 3, 2)


def test_nulls_are_skipped_but_by_first_and_last() -> None:
    events = timeline(a=".###..", b="....#.", x=[1.0, None, 5.0, None, 1.0, 1.0])
    assert only(pattern("A meets B", values=values("A")), events)[:9] == (None, None, 5.0, 5.0, 5.0, 5.0, 1, None, 3)


def test_aggregates_of_nulls_only() -> None:
    events = timeline(a=".##..", b="...#.", x=[None] * 5)
    assert only(pattern("A meets B", values=values("A")), events)[:9] == (None,) * 6 + (0, None, 2)


# ---- random patterns ------------------------------------------------------------------------------


def test_satisfiable_patterns() -> None:
    assert is_satisfiable(pattern("A before B AND B before C AND C after A"))
    assert not is_satisfiable(pattern("A before B AND B before A"))
    assert not is_satisfiable(pattern("A before B AND B before C AND C before A; C equals A"))
    assert not is_satisfiable(pattern("A during B AND B during C AND C overlaps D AND D equals A"))


def test_text() -> None:
    whole = pattern(
        "A before B; A meets B AND B overlaps C",
        within=20,
        values=(Value("B", "first", "x"), Value("A", "count"), Value("A", "start")),
        A=(3, None),
        B=(2, 9),
        C=(None, 4),
    )
    assert render(whole, mirrored=1) == (
        "FROM t PARTITION BY k DEFINE A AS a AT LEAST 3, B AS b BETWEEN 2 units AND 9 units, C AS c AT MOST 4"
        " PATTERN B after A; A meets B AND B overlaps C WITHIN 20"
        " RETURN first(B.x) AS v0, count(A.*) AS v1, A.start AS v2"
    )


RANDOM = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@RANDOM
@given(generate_situations.cases())
def test_random_patterns(case: Case) -> None:
    """They are satisfiable and use their symbols; exactly one relation holds for any two situations."""
    symbols = {definition.symbol for definition in case.pattern.definitions}
    assert symbols == {s for constraint in case.pattern.constraints for s in (constraint.left, constraint.right)}
    assert is_satisfiable(case.pattern)
    first, second = (situations(d, by_key(case.events)[case.events[0].key]) for d in case.pattern.definitions[:2])
    for a, b in itertools.product(first, second):
        if a.end is not None and b.end is not None:
            assert relation_of(a, b) == MIRROR[relation_of(b, a)]


def by_key(events: list[Event]) -> dict[Any, list[Event]]:
    keys: dict[Any, list[Event]] = {}
    for event in events:
        keys.setdefault(event.key, []).append(event)
    return keys


def identity(key: object, starts: dict[str, Any]) -> tuple:
    return key, tuple(sorted(starts.items()))


@RANDOM
@given(generate_situations.cases(detect="earliest"))
def test_continuations_agree_with_the_table_of_the_paper(case: Case) -> None:
    """For matches whose situations all end: the same matches, detected at the same times."""
    without_window = replace(case.pattern, within=None)
    by_table = {}
    for key, own in by_key(case.events).items():
        for chosen in complete_choices(without_window, own):
            starts = {symbol: situation.start for symbol, situation in chosen.items()}
            by_table[identity(key, starts)] = detection_time(without_window, chosen, instants(own))
    by_continuations = {
        identity(match.key, match.starts): match.detected_at
        for match in matches(without_window, case.events)
        if all_end(match, case)
    }
    assert by_continuations == by_table


def all_end(match: Match, case: Case) -> bool:
    own = by_key(case.events)[match.key]
    return all(
        situation.end is not None
        for definition in case.pattern.definitions
        for situation in situations(definition, own)
        if situation.start == match.starts[definition.symbol]
    )


@RANDOM
@given(generate_situations.cases(detect="complete"))
def test_complete_matches_are_detected_early(case: Case) -> None:
    """Each of them, not later. No window cuts it off: what is in a window when complete is in it before."""
    early = {identity(m.key, m.starts): m for m in matches(replace(case.pattern, detect="earliest"), case.events)}
    for match in case.matches():
        assert early[identity(match.key, match.starts)].detected_at <= match.detected_at


@RANDOM
@given(generate_situations.cases(detect="earliest"))
def test_values_of_times_say_what_lasts(case: Case) -> None:
    """Starts are those of the match and not later than its detection; ends are then known or not."""
    symbols = [definition.symbol for definition in case.pattern.definitions]
    times = tuple(Value(symbol, function) for symbol in symbols for function in ("start", "end", "duration"))
    for match in matches(replace(case.pattern, values=times), case.events):
        for symbol, start, end, duration in zip(symbols, match.values[::3], match.values[1::3], match.values[2::3]):
            assert start == match.starts[symbol] <= match.detected_at
            assert (end is None and duration is None) or (end <= match.detected_at and duration == end - start > 0)
