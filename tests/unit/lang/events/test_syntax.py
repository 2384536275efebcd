"""Event patterns: the trees of ZStream's and SASE's queries, of every operator, index and form of condition."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import (
    Closure,
    EventAggregate,
    EventClass,
    EventColumn,
    EventInput,
    EventQuery,
    Index,
    Negation,
    Reach,
    Sequence,
    Strategy,
    WholeEvent,
    classes_of,
    event_atoms,
)
from episode.lang.statement import parse_statement
from episode.lang.syntax import NOWHERE
from tests.golden.printing import event_lines, event_pattern_text, scalar_text


def pattern_of(text: str) -> str:
    return event_pattern_text(parse_event_query(f"PATTERN {text}").pattern)


def conditions_of(where: str, pattern: str = "SEQ(A a, B+ b[], ~N n, C c)") -> list[str]:
    return [scalar_text(condition) for condition in parse_event_query(f"PATTERN {pattern} WHERE {where}").conditions]


def returns_of(text: str) -> list[tuple[str, str]]:
    query = parse_event_query(f"PATTERN SEQ(A a, B+ b[], C c) RETURN {text}")
    assert query.returns is not None
    return [(item.name, scalar_text(item.expression)) for item in query.returns]


# ---- the papers' queries -------------------------------------------------------------------------------

PAPERS = {
    "ZStream 1": (
        """
        PATTERN T1; T2; T3
        WHERE T1.name = T3.name AND T2.name = 'Google'
        AND T1.price > (1 + 5%) * T2.price AND T3.price < (1 - 2.5%) * T2.price
        WITHIN 10 secs
        RETURN T1, T2, T3
        """,
        """
        pattern [T1; T2; T3]
        where ⟨T1.name⟩ = ⟨T3.name⟩
        where ⟨T2.name⟩ = 'Google'
        where ⟨T1.price⟩ > (1 + 0.05 ) * ⟨T2.price⟩
        where ⟨T3.price⟩ < (1 - 0.025 ) * ⟨T2.price⟩
        within 10000000 microseconds
        return T1 = ⟨event T1⟩
        return T2 = ⟨event T2⟩
        return T3 = ⟨event T3⟩
        """,
    ),
    "ZStream 2": (
        """
        PATTERN T1; !T2; T3
        WHERE T1.name = T2.name = T3.name
        AND T1.price > 50 AND T2.price < 50 AND T3.price > 50 * (1 + 20%)
        WITHIN 10 secs
        RETURN T1, T3
        """,
        """
        pattern [T1; !T2; T3]
        where ⟨T1.name⟩ = ⟨T2.name⟩
        where ⟨T1.name⟩ = ⟨T3.name⟩
        where ⟨T1.price⟩ > 50
        where ⟨T2.price⟩ < 50
        where ⟨T3.price⟩ > 50 * (1 + 0.20 )
        within 10000000 microseconds
        return T1 = ⟨event T1⟩
        return T3 = ⟨event T3⟩
        """,
    ),
    "ZStream 3": (
        """
        PATTERN T1; T2^5; T3
        WHERE T1.name = T3.name
        WHERE T2.name = 'Google'
        AND sum(T2.volume) > 1000 AND T3.price > (1+20%)*T1.price
        WITHIN 10 secs
        RETURN T1, sum(T2.volume), T3
        """,
        """
        pattern [T1; all{T2}^5; T3]
        where ⟨T1.name⟩ = ⟨T3.name⟩
        where ⟨T2.name⟩ = 'Google'
        where ⟨sum over T2: ⟨T2.volume⟩⟩ > 1000
        where ⟨T3.price⟩ > (1+ 0.20 )*⟨T1.price⟩
        within 10000000 microseconds
        return T1 = ⟨event T1⟩
        return sum(T2.volume) = ⟨sum over T2: ⟨T2.volume⟩⟩
        return T3 = ⟨event T3⟩
        """,
    ),
    "ZStream 4": (
        "PATTERN IBM; Sun; Oracle WHERE IBM.price > Sun.price WITHIN 200 units",
        """
        pattern [IBM; Sun; Oracle]
        where ⟨IBM.price⟩ > ⟨Sun.price⟩
        within 200 units
        """,
    ),
    "ZStream 5": (
        "PATTERN IBM; Sun; Oracle WITHIN 200 units",
        """
        pattern [IBM; Sun; Oracle]
        within 200 units
        """,
    ),
    "ZStream 6": (
        """
        PATTERN IBM; Sun; Oracle; Google
        WHERE Oracle.price > Sun.price AND Oracle.price > Google.price
        WITHIN 100 units
        """,
        """
        pattern [IBM; Sun; Oracle; Google]
        where ⟨Oracle.price⟩ > ⟨Sun.price⟩
        where ⟨Oracle.price⟩ > ⟨Google.price⟩
        within 100 units
        """,
    ),
    "ZStream 7": (
        "PATTERN IBM; !Sun; Oracle WITHIN 200 units",
        """
        pattern [IBM; !Sun; Oracle]
        within 200 units
        """,
    ),
    "ZStream 8": (
        "PATTERN Publication; Project; Course WHERE [ip] WITHIN 10 hours",
        """
        pattern [Publication; Project; Course]
        same ip
        within 36000000000 microseconds
        """,
    ),
    "SASE++ Q1": (
        """
        Pattern SEQ(JobStart a, Mapper+ b[ ], JobEnd c)
        Where a.job_id = b[i].job_id ∧ a.job_id = c.job_id
        Within 1 day
        Return avg(b[ ].period), max(b[ ].period)
        """,
        """
        pattern [JobStart a; any{Mapper b}+; JobEnd c]
        where ⟨a.job_id⟩ = ⟨b[i].job_id⟩
        where ⟨a.job_id⟩ = ⟨c.job_id⟩
        within 86400000000 microseconds
        return avg(b[ ].period) = ⟨avg over b: ⟨b.period⟩⟩
        return max(b[ ].period) = ⟨max over b: ⟨b.period⟩⟩
        """,
    ),
    "SASE++ Q6, option 1": (
        """
        Pattern SEQ(ReducerStart a, LoadStd+ b[ ], ReducerEnd c)
        Where [task_id] ∧ (b[i].val ≥ b[i-1].val)
        Within 10 minutes
        Return a.task_id
        """,
        """
        pattern [ReducerStart a; any{LoadStd b}+; ReducerEnd c]
        where ⟨b[i].val⟩ >= ⟨b[i-1].val⟩
        same task_id
        within 600000000 microseconds
        return task_id = ⟨a.task_id⟩
        """,
    ),
    "SASE++ Q6, option 2": (
        """
        Pattern SEQ(ReducerStart a, LoadStd+ b[ ], ReducerEnd c)
        Where skip-till-any-match ∧ [task_id] ∧ (b[i].val ≥ max(b[1..i-1].val))
        Within 10 minutes
        Return a.task_id
        """,
        """
        pattern [ReducerStart a; any{LoadStd b}+; ReducerEnd c]
        where ⟨b[i].val⟩ >= ⟨max over b before i: ⟨b.val⟩⟩
        same task_id
        skip-till-any-match
        within 600000000 microseconds
        return task_id = ⟨a.task_id⟩
        """,
    ),
}


@pytest.mark.parametrize("name", list(PAPERS))
def test_queries_of_the_papers(name: str) -> None:
    text, expected = PAPERS[name]
    assert event_lines(parse_event_query(text)) == [line.strip() for line in expected.strip().split("\n")]


# ---- patterns ------------------------------------------------------------------------------------------


def test_a_tree() -> None:
    query = parse_event_query("PATTERN SEQ(A a, ~B, C+ c[], D^3 d) WITHIN 10")
    assert query.pattern == Sequence(
        (
            EventClass("A", "a"),
            Negation(EventClass("B", "B")),
            Closure(EventClass("C", "c"), 1, None, False),
            Closure(EventClass("D", "d"), 3, 3, False),
        )
    )
    assert [event.variable for event in classes_of(query.pattern)] == ["a", "B", "c", "d"]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A", "A"),
        ("A a", "A a"),
        ("`my class` `my name`", "my class my name"),
        ("A; B; C", "[A; B; C]"),
        ("A; (B; C)", "[A; [B; C]]"),
        ("A & B & C", "[A & B & C]"),
        ("A | B | C", "<A | B | C>"),
        ("A & B | C; D | E & F", "[<[A & B] | C>; <D | [E & F]>]"),
        ("A & (B | C; D)", "[A & [<B | C>; D]]"),
        ("A; !B; C", "[A; !B; C]"),
        ("A; ~B; C", "[A; !B; C]"),
        ("A & !B", "[A & !B]"),
        ("A; !(B | C); D", "[A; !<B | C>; D]"),
        ("A; !(B; C); D", "[A; ![B; C]; D]"),
        ("!A; B", "[!A; B]"),
        ("A; B*; C", "[A; all{B}*; C]"),
        ("A; B+; C", "[A; all{B}+; C]"),
        ("A; B^5; C", "[A; all{B}^5; C]"),
        ("A; B{5}; C", "[A; all{B}^5; C]"),
        ("A; T2⁵; C", "[A; all{T2}^5; C]"),
        ("A; B ¹² b[]; C", "[A; all{B b}^12; C]"),
        ("A; B+ b; C", "[A; all{B b}+; C]"),
        ("A; B* b[]", "[A; all{B b}*]"),
        ("B+; A", "[all{B}+; A]"),
        ("A; (B | C)*; D", "[A; all{<B | C>}*; D]"),
        ("(A; B)+", "any{[A; B]}+"),
        ("SEQ(A)", "[A]"),
        ("SEQ(A a, B+ b[], ~C c, D* d, E^2)", "[A a; any{B b}+; !C c; any{D d}*; any{E}^2]"),
        ("seq(A, (B; C*), D | E)", "[A; [B; any{C}*]; <D | E>]"),
        ("SEQ(A a, B b) U SEQ(A a, C c)", "<[A a; B b] | [A a; C c]>"),
        ("SEQ(A a, B b) | SEQ(A a, C c)", "<[A a; B b] | [A a; C c]>"),
        ("SEQ(A, ~SEQ(B, C), D)", "[A; ![B; C]; D]"),
        ("SEQ(A a, B b)+", "any{[A a; B b]}+"),
        ("SEQ(A a, SEQ(B b, C c)+, D d)", "[A a; any{[B b; C c]}+; D d]"),
        ("A U; B", "[A U; B]"),
        ("U U (U)", "<U | U>"),
        ("A; (B b | C b)", "[A; <B b | C b>]"),
        ("A | A", "<A | A>"),
        ("Order; Table t; Group", "[Order; Table t; Group]"),
    ],
)
def test_operators(text: str, tree: str) -> None:
    assert pattern_of(text) == tree


def test_adjacent_closures_are_choices_under_other_strategies() -> None:
    query = parse_event_query("PATTERN A; B*; C+ WHERE skip-till-next-match")
    assert event_pattern_text(query.pattern) == "[A; all{B}*; all{C}+]"
    assert query.strategy is Strategy.NEXT


def test_places() -> None:
    text = "PATTERN SEQ(Job a, Map+ b[], End) WHERE a.x ≥ 20% AND strict-contiguity"
    query = parse_event_query(text)
    closure = query.pattern.parts[1]
    assert isinstance(closure, Closure)
    spans = [closure.span, closure.part.span, closure.part.variable_span, query.source.pattern, query.strategy_span]
    assert [text[span.start : span.end] for span in spans] == [
        "Map+ b[]", "Map", "b", "SEQ(Job a, Map+ b[], End)", "strict-contiguity",
    ]  # fmt: skip
    assert query.conditions[0].original == "a.x ≥ 20%"


# ---- conditions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "atom"),
    [
        ("a.x", EventColumn("a", Index.PLAIN, 0, ("x",))),
        ("A.X", EventColumn("a", Index.PLAIN, 0, ("X",))),
        ("`a`.`my x`", EventColumn("a", Index.PLAIN, 0, ("my x",))),
        ("a.x.y.z", EventColumn("a", Index.PLAIN, 0, ("x", "y", "z"))),
        ("b.x", EventColumn("b", Index.PLAIN, 0, ("x",))),
        ("b[i].x", EventColumn("b", Index.EACH, 0, ("x",))),
        ("B [ I ] . x . y", EventColumn("b", Index.EACH, 0, ("x", "y"))),
        ("b[i-1].x", EventColumn("b", Index.BACK, 1, ("x",))),
        ("b[i - 12].x", EventColumn("b", Index.BACK, 12, ("x",))),
        ("b[1].x", EventColumn("b", Index.AT, 1, ("x",))),
        ("b[7].end", EventColumn("b", Index.AT, 7, ("end",))),
        ("b[last].x", EventColumn("b", Index.LAST, 0, ("x",))),
        ("n.x", EventColumn("n", Index.PLAIN, 0, ("x",))),
        ("count(b)", EventAggregate("count", "b", Reach.ALL, ())),
        ("count(b[])", EventAggregate("count", "b", Reach.ALL, ())),
        ("count(b.*)", EventAggregate("count", "b", Reach.ALL, ())),
        ("count(b[..i-1])", EventAggregate("count", "b", Reach.BEFORE, ())),
        ("count(b[..i].*)", EventAggregate("count", "b", Reach.CURRENT, ())),
    ],
)
def test_references(text: str, atom: object) -> None:
    query = parse_event_query(f"PATTERN SEQ(A a, B+ b[], ~N n, C c) WHERE {text} > 1")
    assert event_atoms(query.conditions[0]) == (atom,)
    place = event_atoms(query.conditions[0])[0].span
    assert query.source.text_at(place) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("max(b[].x)", "max over b: ⟨b.x⟩"),
        ("max(b.x)", "max over b: ⟨b.x⟩"),
        ("max(b[..i-1].x)", "max over b before i: ⟨b.x⟩"),
        ("max(b[1..i-1].x)", "max over b before i: ⟨b.x⟩"),
        ("max(b[1 .. i - 1].x)", "max over b before i: ⟨b.x⟩"),
        ("max(b[..i].x)", "max over b up to i: ⟨b.x⟩"),
        ("max(b[1..i].x)", "max over b up to i: ⟨b.x⟩"),
        ("mean(b[].x * b[].y + b.z)", "avg over b: ⟨b.x⟩ * ⟨b.y⟩ + ⟨b.z⟩"),
        ("max_by(b[..i].x, b[..i].y)", "max_by over b up to i: ⟨b.x⟩, ⟨b.y⟩"),
        ("count(b.x)", "count over b: ⟨b.x⟩"),
        ("first(b.x)", "first_value over b: ⟨b.x⟩"),
        ("count_if(b.x ≥ 20%)", "count_if over b: ⟨b.x⟩ >= 0.20"),
        ("bool_or(b.kind LIKE ANY ('x'))", "bool_or over b: ⟨b.kind⟩ LIKE ANY ('x')"),
    ],
)
def test_aggregates(text: str, shown: str) -> None:
    assert conditions_of(f"{text} = 1") == [f"⟨{shown}⟩ = 1"]


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("a.x > 1 AND c.y > 2", ["⟨a.x⟩ > 1", "⟨c.y⟩ > 2"]),
        ("a.x > 1 ∧ c.y > 2 WHERE c.z > 3", ["⟨a.x⟩ > 1", "⟨c.y⟩ > 2", "⟨c.z⟩ > 3"]),
        ("(a.x > 1 AND (c.y > 2)) AND c.z > 3", ["⟨a.x⟩ > 1", "⟨c.y⟩ > 2", "⟨c.z⟩ > 3"]),
        ("a.x > 1 OR c.y > 2 ∧ c.z > 3", ["⟨a.x⟩ > 1 OR ⟨c.y⟩ > 2 AND ⟨c.z⟩ > 3"]),
        ("a.x > 1 AND (c.y > 2 OR c.z > 3)", ["⟨a.x⟩ > 1", "⟨c.y⟩ > 2 OR ⟨c.z⟩ > 3"]),
        ("a.x = 1 OR c.y = 2 WHERE c.z > 3", ["⟨a.x⟩ = 1 OR ⟨c.y⟩ = 2", "⟨c.z⟩ > 3"]),
        ("a.x BETWEEN 1 AND 2 AND c.y > 2", ["⟨a.x⟩ BETWEEN 1 AND 2", "⟨c.y⟩ > 2"]),
        ("a.x NOT BETWEEN 1 AND c.y AND NOT c.z", ["⟨a.x⟩ NOT BETWEEN 1 AND ⟨c.y⟩", "NOT ⟨c.z⟩"]),
        (
            "CASE WHEN a.x > 1 AND a.y > 2 OR c.z THEN true END AND c.y > 2",
            ["CASE WHEN ⟨a.x⟩ > 1 AND ⟨a.y⟩ > 2 OR ⟨c.z⟩ THEN true END", "⟨c.y⟩ > 2"],
        ),
        ("a.end > 1 AND c.case = a.between", ["⟨a.end⟩ > 1", "⟨c.case⟩ = ⟨a.between⟩"]),
        ("a.x IN (1, 2) AND a.s LIKE 'x AND y'", ["⟨a.x⟩ IN (1, 2)", "⟨a.s⟩ LIKE 'x AND y'"]),
        ("cast(a.x AS int) = 1 AND a.x IS NOT DISTINCT FROM c.x",
         ["cast(⟨a.x⟩ AS int) = 1", "⟨a.x⟩ IS NOT DISTINCT FROM ⟨c.x⟩"]),
        ("exists(a.xs, x -> x > c.x AND x < 3)", ["exists(⟨a.xs⟩, x -> x > ⟨c.x⟩ AND x < 3)"]),
        ("a.tags[0] = c.m['k'] AND b[i].tags[1] = 'x'", ["⟨a.tags⟩[0] = ⟨c.m⟩['k']", "⟨b[i].tags⟩ [1] = 'x'"]),
        ("(a.x, a.y) = (c.x, c.y)", ["(⟨a.x⟩, ⟨a.y⟩) = (⟨c.x⟩, ⟨c.y⟩)"]),
        ("a.x ≠ 1 AND a.x ≤ 2 AND a.x <> 3", ["⟨a.x⟩ <> 1", "⟨a.x⟩ <= 2", "⟨a.x⟩ <> 3"]),
        ("a.x <=> c.x AND a.x != 3", ["⟨a.x⟩ <=> ⟨c.x⟩", "⟨a.x⟩ != 3"]),
        ("b.x > c.x", ["⟨b.x⟩ > ⟨c.x⟩"]),
        ("b[i].x > b[i-1].x + max(b[..i-1].y)", ["⟨b[i].x⟩ > ⟨b[i-1].x⟩ + ⟨max over b before i: ⟨b.y⟩⟩"]),
        ("n.x > a.x + b[last].x + max(b[].x)", ["⟨n.x⟩ > ⟨a.x⟩ + ⟨b[last].x⟩ + ⟨max over b: ⟨b.x⟩⟩"]),
    ],
)  # fmt: skip
def test_conjuncts(where: str, conditions: list[str]) -> None:
    assert conditions_of(where) == conditions


@pytest.mark.parametrize(
    ("where", "reach"),
    [
        ("c.x < max(b[..i].x)", ": "),  # SASE++, 5.2
        ("c.x < max(b[1..i].x) + a.x", ": "),
        ("n.x < max(b[..i].x)", ": "),
        ("a.x < max(b[..i].x)", " up to i:"),
        ("b[1].x < max(b[..i].x)", " up to i:"),
        ("c.x + b[i].x < max(b[..i].x)", " up to i:"),
        ("c.x + b.x < max(b[..i].x)", " up to i:"),
        ("c.x + b[i-1].x < max(b[..i].x)", " up to i:"),
        ("c.x + min(b[..i-1].x) < max(b[..i].x)", " up to i:"),
        ("c.x < max(b[..i-1].x)", " before i:"),
    ],
)
def test_aggregates_up_to_an_event(where: str, reach: str) -> None:
    [condition] = conditions_of(where)
    assert f"max over b{reach}" in condition


def test_aggregates_up_to_an_event_in_a_chain() -> None:
    assert conditions_of("a.x = max(b[..i].x) = c.x") == ["⟨a.x⟩ = ⟨max over b: ⟨b.x⟩⟩", "⟨max over b: ⟨b.x⟩⟩ = ⟨c.x⟩"]


def test_what_stands_in_the_same_closure_is_not_behind_it() -> None:
    query = parse_event_query("PATTERN SEQ(SEQ(B b, C c)+, D d) WHERE c[1].x < max(b[..i].x) AND d.x < max(b[..i].x)")
    reaches = [atom.reach for one in query.conditions for atom in event_atoms(one) if isinstance(atom, EventAggregate)]
    assert reaches == [Reach.CURRENT, Reach.ALL]


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("a.x > 20%", "⟨a.x⟩ > 0.20"),
        ("a.x > 2.5% * c.x", "⟨a.x⟩ > 0.025 * ⟨c.x⟩"),
        ("a.x > .5%", "⟨a.x⟩ > 0.005"),
        ("a.x > 0%", "⟨a.x⟩ > 0.00"),
        ("a.x > 150% - 1", "⟨a.x⟩ > 1.50 - 1"),
        ("a.x % 3 = 1", "⟨a.x⟩ % 3 = 1"),
        ("20%3 = a.x", "20%3 = ⟨a.x⟩"),
        ("20% (a.x) = 1", "20% (⟨a.x⟩) = 1"),
        ("a.x BETWEEN 1% AND 2%", "⟨a.x⟩ BETWEEN 0.01 AND 0.02"),
        ("a.x = '20%'", "⟨a.x⟩ = '20%'"),
    ],
)
def test_percentages(where: str, condition: str) -> None:
    assert conditions_of(where) == [condition]


@pytest.mark.parametrize(
    ("where", "conditions"),
    [
        ("a.x = c.x", ["⟨a.x⟩ = ⟨c.x⟩"]),
        ("a.x = c.x = 3", ["⟨a.x⟩ = ⟨c.x⟩", "⟨c.x⟩ = 3"]),
        ("a.x == c.x + 1 == a.y", ["⟨a.x⟩ = ⟨c.x⟩ + 1", "⟨c.x⟩ + 1 = ⟨a.y⟩"]),
        ("a.x = n.x = c.x", ["⟨a.x⟩ = ⟨n.x⟩", "⟨a.x⟩ = ⟨c.x⟩"]),
        ("n.x = a.x = c.x", ["⟨n.x⟩ = ⟨a.x⟩", "⟨a.x⟩ = ⟨c.x⟩"]),
        ("a.x = b[i].x = c.x", ["⟨a.x⟩ = ⟨b[i].x⟩", "⟨a.x⟩ = ⟨c.x⟩"]),
        ("a.x = b.x = n.x", ["⟨a.x⟩ = ⟨b.x⟩", "⟨a.x⟩ = ⟨n.x⟩"]),
        ("b.x = b.y = b.z", ["⟨b.x⟩ = ⟨b.y⟩", "⟨b.y⟩ = ⟨b.z⟩"]),
        ("(a.x = c.x) = c.ok", ["(⟨a.x⟩ = ⟨c.x⟩) = ⟨c.ok⟩"]),
    ],
)
def test_chains_become_pairs(where: str, conditions: list[str]) -> None:
    assert conditions_of(where) == conditions


def test_the_one_variable_may_be_left_out() -> None:
    assert conditions_of("x > 1 AND a.x.y > tags[0] AND count(*) > sum(x)", "SEQ(A+ a[])") == [
        "⟨a.x⟩ > 1",
        "⟨a.x.y⟩ > ⟨a.tags⟩[0]",
        "⟨count over a: events⟩ > ⟨sum over a: ⟨a.x⟩⟩",
    ]


def test_variables_that_are_keywords() -> None:
    query = parse_event_query(
        "PATTERN Order; Table+ WHERE Order.x = Table.y.z RETURN Order, to_json(Table), sum(Table.x)"
    )
    assert event_lines(query)[1:] == [
        "where ⟨Order.x⟩ = ⟨Table.y.z⟩",
        "return Order = ⟨event Order⟩",
        "return to_json(Table) = to_json( ⟨event Table⟩ )",
        "return sum(Table.x) = ⟨sum over Table: ⟨Table.x⟩⟩",
    ]


@pytest.mark.parametrize(
    ("where", "same"),
    [
        ("[ip]", [("ip",)]),
        ("[ip, `a b`] AND A.x > 1 AND ([c.d])", [("ip",), ("a b",), ("c", "d")]),
    ],
)
def test_same_attributes(where: str, same: list[tuple[str, ...]]) -> None:
    query = parse_event_query(f"PATTERN A; B WHERE {where}")
    assert [attribute.path for attribute in query.same] == same


@pytest.mark.parametrize(
    ("word", "strategy"),
    [
        ("skip-till-any-match", Strategy.ANY),
        ("skip_till_next_match", Strategy.NEXT),
        ("Strict-Contiguity", Strategy.STRICT),
        ("(partition_contiguity)", Strategy.PARTITION),
        ("skip-till_any-match", Strategy.ANY),
    ],
)
def test_strategies(word: str, strategy: Strategy) -> None:
    query = parse_event_query(f"PATTERN A; B WHERE A.x > 1 AND {word} AND [ip]")
    assert (query.strategy, len(query.conditions), len(query.same)) == (strategy, 1, 1)


# ---- RETURN and input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a, b, C", [("a", "⟨event a⟩"), ("b", "⟨event b⟩"), ("c", "⟨event c⟩")]),
        ("b[], b[2] AS y, b[last] AS z", [("b", "⟨event b[]⟩"), ("y", "⟨event b[2]⟩"), ("z", "⟨event b[last]⟩")]),
        ("a.x, b.y, b[].z", [("x", "⟨a.x⟩"), ("y", "⟨b.y⟩"), ("z", "⟨b[].z⟩")]),
        ("b[2].x, b[last].y.z", [("x", "⟨b[2].x⟩"), ("z", "⟨b[last].y.z⟩")]),
        ("a.x + 1, a.x AS `my x`", [("a.x + 1", "⟨a.x⟩ + 1"), ("my x", "⟨a.x⟩")]),
        ("cast(a.x AS int) AS within", [("within", "cast(⟨a.x⟩ AS int)")]),
        ("to_json(a) AS j, size(b[].x)", [("j", "to_json(⟨event a⟩)"), ("size(b[].x)", "size( ⟨b[].x⟩ )")]),
        ("count(b) - 1", [("count(b) - 1", "⟨count over b: events⟩ - 1")]),
        ("max(b[].x) AS m", [("m", "⟨max over b: ⟨b.x⟩⟩")]),
        ("a.x - 20%", [("a.x - 20%", "⟨a.x⟩ - 0.20")]),
        ("1 AS one", [("one", "1")]),
    ],
)  # fmt: skip
def test_returns(text: str, items: list[tuple[str, str]]) -> None:
    assert returns_of(text) == items


def test_whole_events() -> None:
    query = parse_event_query("PATTERN SEQ(A a, B+ b[]) RETURN b[3]")
    assert query.returns is not None
    assert event_atoms(query.returns[0].expression) == (WholeEvent("b", Index.AT, 3),)
    assert parse_event_query("PATTERN A").returns is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EventInput()),
        ("FROM t", EventInput("t")),
        ("FROM cat.`my db`.t", EventInput("cat.`my db`.t")),
        ("FROM t PARTITION BY a, `b c` ORDER BY ts TYPE BY kind", EventInput("t", NOWHERE, ("a", "b c"), "ts", "kind")),
        ("FROM t ORDER BY te START BY ts TYPE BY kind", EventInput("t", NOWHERE, (), "te", "kind", start="ts")),
        ("FROM start ORDER BY end START BY start", EventInput("start", NOWHERE, (), "end", start="start")),
        ("from t order by type type by type", EventInput("t", NOWHERE, (), "type", "type")),
        ("PARTITION BY a ORDER BY ts", EventInput(None, NOWHERE, ("a",), "ts")),
    ],
)
def test_input(text: str, expected: EventInput) -> None:
    assert parse_event_query(f"{text} PATTERN A; B").input == expected


@pytest.mark.parametrize("text", ["PATTERN A; __episode_1", "PATTERN A; B WHERE A.x = '__episode_2'"])
def test_reserved_names(text: str) -> None:
    with pytest.raises(EpisodeSyntaxError, match="reserved"):
        parse_event_query(text)


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n"])
def test_empty(text: str) -> None:
    with pytest.raises(EpisodeSyntaxError, match="empty"):
        parse_event_query(text)


# ---- statements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "events"),
    [
        ("SELECT * FROM EVENTS (PATTERN A; B WITHIN 10) AS m", ["EVENTS (PATTERN A; B WITHIN 10)"]),
        ("SELECT * FROM t JOIN events(FROM u PATTERN A) e ON t.x = e.x", ["events(FROM u PATTERN A)"]),
        ("SELECT * FROM t, EVENTS (ORDER BY ts PATTERN A; B), u;", ["EVENTS (ORDER BY ts PATTERN A; B)"]),
        (
            "WITH p AS (SELECT * FROM EVENTS (PATTERN A; B)) SELECT * FROM p, (EVENTS (FROM p PATTERN C)) q",
            ["EVENTS (PATTERN A; B)", "EVENTS (FROM p PATTERN C)"],
        ),
        ("SELECT * FROM events", []),
        ("SELECT * FROM events(1, 2)", []),
        ("SELECT events(pattern, 2) FROM t", []),
        ("SELECT * FROM db.events AS events WHERE events.pattern > 1", []),
        ("FROM t pattern SELECT *", []),
        ("FROM t pattern |> WHERE x > 1", []),
    ],
)
def test_events_in_statements(text: str, events: list[str]) -> None:
    statement = parse_statement(text)
    assert [text[found.span.start : found.span.end] for found in statement.tables] == events
    assert statement.whole is None


def test_events_beside_match_recognize() -> None:
    text = "SELECT * FROM EVENTS (PATTERN A; B) m MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B)) JOIN EVENTS (PATTERN C) c"
    statement = parse_statement(text)
    assert [event_pattern_text(found.query.pattern) for found in statement.tables] == ["[A; B]", "C"]
    assert [text[found.input.start : found.input.end] for found in statement.patterns] == ["EVENTS (PATTERN A; B) m"]
    assert statement.patterns[0].alias == "m"


@pytest.mark.parametrize(
    ("text", "first_word"),
    [
        ("PATTERN A; B", "PATTERN"),
        ("pattern A; B", "PATTERN"),
        ("FROM t PATTERN A; B", "FROM"),
        ("/* why */ FROM t ORDER BY ts PATTERN A; B", "FROM"),
    ],
)
def test_whole_statements(text: str, first_word: str) -> None:
    statement = parse_statement(text)
    assert isinstance(statement.whole, EventQuery)
    assert event_pattern_text(statement.whole.pattern) == "[A; B]"
    assert (statement.patterns, statement.tables, statement.first_word) == ((), (), first_word)
