"""Situation patterns: the trees of TPStream's queries, of every relation, limit, unit and form of RETURN."""

from __future__ import annotations

import random
import re

import pytest

from episode.errors import EpisodeError, EpisodeSyntaxError
from episode.lang.situations.allen import Relation, mirror
from episode.lang.situations.parser import parse_situation_query
from episode.lang.situations.syntax import (
    Constraint,
    Moment,
    SituationAggregate,
    SituationColumn,
    SituationInput,
    SituationQuery,
    SituationTime,
    situation_atoms,
)
from episode.lang.statement import parse_statement
from episode.lang.syntax import NOWHERE
from tests.golden.printing import constraint_text, definition_text, scalar_text, situation_lines
from tests.support.situation_listings import LISTING_1

S = 1_000_000


def definition_of(text: str, before: str = "") -> str:
    query = parse_situation_query(f"{before} DEFINE A AS {text}, Other AS o PATTERN A meets Other")
    return definition_text(query.definitions[0]).removeprefix("A = ")


def constraints_of(text: str) -> list[str]:
    names = [name for name in "ABCD" if re.search(rf"\b{name}\b", text)]
    definitions = ", ".join(f"{name} AS x_{number} > 1" for number, name in enumerate(names))
    return [constraint_text(each) for each in parse_situation_query(f"DEFINE {definitions} PATTERN {text}").constraints]


def returns_of(text: str, before: str = "") -> list[tuple[str, str]]:
    query = parse_situation_query(f"{before} DEFINE A AS x > 1, B AS y < 2 PATTERN A meets B RETURN {text}")
    assert query.returns is not None
    return [(item.name, scalar_text(item.expression)) for item in query.returns]


# ---- the paper's query ---------------------------------------------------------------------------------


def test_listing_1():
    query = parse_situation_query(LISTING_1)
    assert query.input == SituationInput("CarSensors", "CS", NOWHERE, ("car_id",), None)
    a, b, c = query.definitions
    assert [definition.symbol for definition in query.definitions] == ["A", "B", "C"]
    assert (a.at_least and a.at_least.amount, a.at_most) == (5 * S, None)
    assert (b.at_least and b.at_least.amount, b.at_most and b.at_most.amount) == (4 * S, 30 * S)
    assert (c.at_least and c.at_least.amount, c.at_most) == (3 * S, None)
    assert [definition.condition.original for definition in query.definitions] == [
        "CS.accel > 8m/s2", "CS.speed > 70 mph", "CS.accel < -9m/s2",
    ]  # fmt: skip
    assert query.constraints == (
        Constraint("A", "B", (Relation.MEETS, Relation.OVERLAPS, Relation.STARTS, Relation.DURING)),
        Constraint("C", "B", (Relation.DURING, Relation.MET_BY, Relation.OVERLAPPED_BY, Relation.FINISHED_BY)),
        Constraint("A", "C", (Relation.BEFORE,)),
    )
    assert query.within is not None
    assert (query.within.amount, query.within.unit) == (300 * S, "microseconds")
    assert query.returns is not None
    assert [item.name for item in query.returns] == ["id", "avg_speed"]
    first = situation_atoms(query.returns[0].expression)[0]
    assert isinstance(first, SituationAggregate)
    assert (first.symbol, first.function) == ("B", "first_value")
    assert situation_atoms(first.arguments[0]) == (SituationColumn(("car_id",)),)
    assert query.components() == (("A", "B", "C"),)


def test_places():
    query = parse_situation_query(LISTING_1)

    def at(span):
        return " ".join(LISTING_1[span.start : span.end].split())

    assert at(query.input.table_span) == "CarSensors"
    assert at(query.definitions[1].span) == "B AS CS.speed > 70 mph between 4s AND 30s"
    assert at(query.definitions[1].symbol_span) == "B"
    assert [at(atom.span) for atom in situation_atoms(query.definitions[1].condition)] == ["CS.speed"]
    assert at(query.constraints[1].span) == "C during B; B finishes C; B overlaps C; B meets C"
    assert at(query.source.pattern).startswith("A meets B;")
    assert at(query.source.pattern).endswith("A before C")
    assert at(query.define_span).startswith("A AS")
    assert at(query.return_span) == "first(B.car_id) AS id, avg(B.speed) AS avg_speed"
    assert at(query.source.span) == " ".join(LISTING_1.split()).removesuffix(";")


def test_smallest_query():
    query = parse_situation_query("define a as x, b as y pattern a equals b")
    assert situation_lines(query) == ["define a = ⟨x⟩", "define b = ⟨y⟩", "constraint a equals b"]
    assert (query.input, query.within, query.returns) == (SituationInput(), None, None)


# ---- input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM t", SituationInput("t")),
        ("FROM t c", SituationInput("t", "c")),
        ("from t as c", SituationInput("t", "c")),
        ("FROM db.`my t` AS `c c` PARTITION BY `c c`.id", SituationInput("db.`my t`", "c c", NOWHERE, ("id",))),
        ("FROM db.t PARTITION BY t.a, b ORDER BY T.ts", SituationInput("db.t", None, NOWHERE, ("a", "b"), "ts")),
        ("PARTITION BY a ORDER BY ts", SituationInput(None, None, NOWHERE, ("a",), "ts")),
        ("ORDER BY ts", SituationInput(None, None, NOWHERE, (), "ts")),
    ],
)
def test_input(text: str, expected: SituationInput):
    assert parse_situation_query(f"{text} DEFINE A AS x, B AS y PATTERN A meets B").input == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("CS.speed > 1", "⟨speed⟩ > 1"),
        ("cs.speed > carsensors.limit", "⟨speed⟩ > ⟨limit⟩"),
        ("CS.info.a = info.b", "⟨info.a⟩ = ⟨info.b⟩"),
        ("`a b` > 1 AND size(xs) > 2", "⟨a b⟩ > 1 AND size(⟨xs⟩) > 2"),
        ("exists(xs, v -> v > CS.y)", "exists(⟨xs⟩, v -> v > ⟨y⟩)"),
        ("x ≥ 3 ∧ y ≠ 20%", "⟨x⟩ >= 3 AND ⟨y⟩ <> 0.20"),
        ("CASE WHEN x > 1 THEN y ELSE z END", "CASE WHEN ⟨x⟩ > 1 THEN ⟨y⟩ ELSE ⟨z⟩ END"),
        ("name LIKE ANY ('a%', 'b%')", "⟨name⟩ LIKE ANY ('a%', 'b%')"),
        ("x IS DISTINCT FROM y", "⟨x⟩ IS DISTINCT FROM ⟨y⟩"),
        ("CS.within > 1", "⟨within⟩ > 1"),
    ],
)
def test_conditions(condition: str, expected: str):
    assert definition_of(condition, "FROM CarSensors CS") == expected


# ---- units ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x > 8m/s2", "⟨x⟩ > 8"),
        ("x > 8 m/s2", "⟨x⟩ > 8"),
        ("x > 8m/s^2", "⟨x⟩ > 8"),
        ("x > 8 m / s2", "⟨x⟩ > 8 / ⟨s2⟩"),
        ("x > 3.5kg*m/s^2 AND y", "⟨x⟩ > 3.5 AND ⟨y⟩"),
        ("x > -9m/s2", "⟨x⟩ > - 9"),
        ("x > 70 mph OR x < 1e3 km/h", "⟨x⟩ > 70 OR ⟨x⟩ < 1e3"),
        ("x > 70mph*3", "⟨x⟩ > 70 *3"),
        ("x > 8/s2", "⟨x⟩ > 8/⟨s2⟩"),
        ("x > 5L", "⟨x⟩ > 5L"),
        ("x > 2.5BD AND y > 1e3 AND z > 3d", "⟨x⟩ > 2.5BD AND ⟨y⟩ > 1e3 AND ⟨z⟩ > 3d"),
        ("x > 8L/y", "⟨x⟩ > 8L/⟨y⟩"),
        ("x > 8 L/km", "⟨x⟩ > 8"),
        ("x > 2 DIV y", "⟨x⟩ > 2 DIV ⟨y⟩"),
        ("x BETWEEN 10 mph AND 20 mph", "⟨x⟩ BETWEEN 10 AND 20"),
        ("x IN (1 km, 2km)", "⟨x⟩ IN ( 1 , 2 )"),
        ("CASE WHEN x > 3 m THEN 4 s ELSE 5 END > 1", "CASE WHEN ⟨x⟩ > 3 THEN 4 ELSE 5 END > 1"),
        ("ts > now() - INTERVAL 1 day 2 hours", "⟨ts⟩ > now() - INTERVAL 1 day 2 hours"),
        ("ts > now() - INTERVAL '1' DAY", "⟨ts⟩ > now() - INTERVAL '1' DAY"),
        ("x > .5 m AND y < 1. m", "⟨x⟩ > .5 AND ⟨y⟩ < 1."),
        ("x > '5 m'", "⟨x⟩ > '5 m'"),
    ],
)
def test_units(condition: str, expected: str):
    assert definition_of(condition) == expected


def test_units_in_returns():
    assert returns_of("avg(B.speed - 70 mph) * 3.6km/h AS v") == [("v", "⟨avg over B: ⟨speed⟩ - 70⟩ * 3.6")]


@pytest.mark.parametrize("condition", ["x > 5 f(y)", "x > 5 t.y", "x > 5 m y", "x > 5L m", "x > 5 in"])
def test_what_is_no_unit(condition: str):
    with pytest.raises(EpisodeSyntaxError):
        definition_of(condition)


# ---- limits of the duration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x > 1 AT LEAST 5s", "⟨x⟩ > 1 at least 5000000 microseconds"),
        ("x > 1 at most 5", "⟨x⟩ > 1 at most 5 units"),
        ("x > 1 At Least 4s And At Most 30s", "⟨x⟩ > 1 at least 4000000 microseconds at most 30000000 microseconds"),
        ("x > 1 AT MOST 30s AND AT LEAST 4s", "⟨x⟩ > 1 at least 4000000 microseconds at most 30000000 microseconds"),
        ("ok AT LEAST 1 minute 30 seconds", "⟨ok⟩ at least 90000000 microseconds"),
        ("x > 70 mph AT LEAST INTERVAL '10' SECOND", "⟨x⟩ > 70 at least 10000000 microseconds"),
        ("x > 5 AT MOST 3 units", "⟨x⟩ > 5 at most 3 units"),
        # both bounds are durations, with a unit
        ("ok BETWEEN 4s AND 30s", "⟨ok⟩ at least 4000000 microseconds at most 30000000 microseconds"),
        ("ok BETWEEN 4 units AND 30 units", "⟨ok⟩ at least 4 units at most 30 units"),
        (
            "ok BETWEEN INTERVAL 1 second AND INTERVAL 2 seconds",
            "⟨ok⟩ at least 1000000 microseconds at most 2000000 microseconds",
        ),
        ("x > 5 BETWEEN 4s AND 4s", "⟨x⟩ > 5 at least 4000000 microseconds at most 4000000 microseconds"),
        # a whole condition before it
        ("x > 5 BETWEEN 4 AND 30", "⟨x⟩ > 5 at least 4 units at most 30 units"),
        ("x IS NULL BETWEEN 4 AND 30", "⟨x⟩ IS NULL at least 4 units at most 30 units"),
        ("x IN (1, 2) BETWEEN 4 AND 30", "⟨x⟩ IN (1, 2) at least 4 units at most 30 units"),
        ("NOT ok BETWEEN 4 AND 30", "NOT ⟨ok⟩ at least 4 units at most 30 units"),
        ("(ok AND (y OR x = 1)) BETWEEN 4 AND 30", "(⟨ok⟩ AND (⟨y⟩ OR ⟨x⟩ = 1)) at least 4 units at most 30 units"),
        ("isnull(x) BETWEEN 4 AND 30", "isnull(⟨x⟩) at least 4 units at most 30 units"),
        ("TRUE BETWEEN 4 AND 30", "TRUE at least 4 units at most 30 units"),
        ("x BETWEEN 1 AND 2 BETWEEN 4 AND 30", "⟨x⟩ BETWEEN 1 AND 2 at least 4 units at most 30 units"),
        ("x BETWEEN 1 AND 2 AT LEAST 4", "⟨x⟩ BETWEEN 1 AND 2 at least 4 units"),
        ("name LIKE 'a%' BETWEEN 4 AND 30", "⟨name⟩ LIKE 'a%' at least 4 units at most 30 units"),
        # SQL's
        ("x BETWEEN 4 AND 30", "⟨x⟩ BETWEEN 4 AND 30"),
        ("x NOT BETWEEN 4 AND 30", "⟨x⟩ NOT BETWEEN 4 AND 30"),
        ("y > 1 AND x BETWEEN 4 AND 30", "⟨y⟩ > 1 AND ⟨x⟩ BETWEEN 4 AND 30"),
        ("abs(x) BETWEEN 4 AND 30", "abs(⟨x⟩) BETWEEN 4 AND 30"),
        ("x + 1 BETWEEN 4 AND 30 AND y > 1", "⟨x⟩ + 1 BETWEEN 4 AND 30 AND ⟨y⟩ > 1"),
        ("x BETWEEN y AND z", "⟨x⟩ BETWEEN ⟨y⟩ AND ⟨z⟩"),
        ("(x BETWEEN 4s AND 30s)", "(⟨x⟩ BETWEEN 4s AND 30s)"),
        ("CASE WHEN x BETWEEN 4 AND 5 THEN y END", "CASE WHEN ⟨x⟩ BETWEEN 4 AND 5 THEN ⟨y⟩ END"),
    ],
)
def test_limits(text: str, expected: str):
    assert definition_of(text) == expected


# ---- relations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(Relation))
def test_every_relation_in_every_spelling(relation: Relation):
    name = relation.value
    for written in {name, name.upper(), name.title(), name.replace("-", "_"), name.replace("-", " ")}:
        assert constraints_of(f"A {written} B") == [f"A {name} B"]
    assert constraints_of(f"A {name} B; B {name} A") == [
        f"A {'|'.join(other.value for other in Relation if other in (relation, mirror(relation)))} B"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A equal B", ["A equals B"]),
        ("A meets B; A meets B OR B met-by A", ["A meets B"]),
        ("A after B; B after A", ["A before|after B"]),
        ("A overlaps B; A before B; A meets B", ["A before|meets|overlaps B"]),
        ("A before B AND A before C; A meets C", ["A before B", "A before|meets C"]),
        ("A before B OR A meets B AND B before C", ["A before|meets B", "B before C"]),
        ("A before B; A meets B AND A before B; A overlaps B", ["A before|meets B", "A before|overlaps B"]),
        ("A before B overlaps C", ["A before B", "B overlaps C"]),
        ("A met by B started by C AND A after C", ["A met-by B", "B started-by C", "A after C"]),
        ("(A before B) OR (B after A; A meets B)", ["A before|meets B"]),
        ("((A before B AND (B before C)))", ["A before B", "B before C"]),
        ("A before B AND C before D", ["A before B", "C before D"]),
        (
            "A before B AND A before C AND A before D AND (D during C OR C finishes D OR C meets D)",
            ["A before B", "A before C", "A before D", "D during|met-by|finished-by C"],
        ),
    ],
)
def test_constraints(text: str, expected: list[str]):
    assert constraints_of(text) == expected


def test_symbols_are_spelt_as_defined():
    query = parse_situation_query(
        "DEFINE Fast AS x, `my b` AS y PATTERN `MY B` met_by fast RETURN FAST.Start, count(`My b`)"
    )
    assert constraint_text(query.constraints[0]) == "my b met-by Fast"
    assert query.returns is not None
    assert [situation_atoms(item.expression)[0] for item in query.returns] == [
        SituationTime("Fast", Moment.START),
        SituationAggregate("my b", "count", ()),
    ]


def test_words_of_the_language_as_symbols():
    text = "DEFINE during AS x, End AS y, meets AS z PATTERN during during End meets meets RETURN end.end, first(End.x)"
    query = parse_situation_query(text)
    assert [constraint_text(each) for each in query.constraints] == ["during during End", "End meets meets"]
    assert query.returns is not None
    assert [scalar_text(item.expression) for item in query.returns] == ["⟨end of End⟩", "⟨first_value over End: ⟨x⟩⟩"]


def test_components():
    text = "DEFINE A AS a, B AS b, C AS c, D AS d, E AS e PATTERN D before A AND C meets B AND B starts E"
    assert parse_situation_query(text).components() == (("A", "D"), ("B", "C", "E"))


def test_large_patterns_are_read_quickly():
    names = [f"S{number}" for number in range(32)]
    text = " ".join(f"{name} before" for name in names[:-1]) + f" {names[-1]}"
    query = parse_situation_query(f"DEFINE {', '.join(f'{name} AS x = {name[1:]}' for name in names)} PATTERN {text}")
    assert len(query.constraints) == 31


def test_deep_brackets():
    deep = f"{'(' * 90}A meets B{')' * 90}"
    assert constraints_of(deep) == ["A meets B"]
    with pytest.raises(EpisodeSyntaxError, match="nested too deeply"):
        constraints_of(f"{'(' * 5000}A meets B{')' * 5000}")


# ---- RETURN ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A.start", ("A.start", "⟨start of A⟩")),
        ("A.END AS e", ("e", "⟨end of A⟩")),
        ("a.duration", ("a.duration", "⟨duration of A⟩")),
        ("first(B.x)", ("first(B.x)", "⟨first_value over B: ⟨x⟩⟩")),
        ("last_value(B.x)", ("last_value(B.x)", "⟨last_value over B: ⟨x⟩⟩")),
        ("MEAN(B.x)", ("MEAN(B.x)", "⟨avg over B: ⟨x⟩⟩")),
        ("stddev(B.x) AS s", ("s", "⟨stddev_samp over B: ⟨x⟩⟩")),
        ("std(B.x) AS s", ("s", "⟨stddev_samp over B: ⟨x⟩⟩")),
        ("stddev_samp(B.x) AS s", ("s", "⟨stddev_samp over B: ⟨x⟩⟩")),
        ("count(A)", ("count(A)", "⟨count over A: events⟩")),
        ("count(A.*)", ("count(A.*)", "⟨count over A: events⟩")),
        ("count(A.x)", ("count(A.x)", "⟨count over A: ⟨x⟩⟩")),
        ("max(A.start) AS m", ("m", "⟨max over A: ⟨start⟩⟩")),
        ("sum(A.x * A.info.b + 1)", ("sum(A.x * A.info.b + 1)", "⟨sum over A: ⟨x⟩ * ⟨info.b⟩ + 1⟩")),
        ("avg(CASE WHEN A.x > 1 THEN A.y END) AS m", ("m", "⟨avg over A: CASE WHEN ⟨x⟩ > 1 THEN ⟨y⟩ END⟩")),
        (
            "concat('a,', string(first(A.x))) AS `a b`",
            ("a b", "concat('a,', string( ⟨first_value over A: ⟨x⟩⟩ ))"),
        ),
        ("max(A.x) - min(B.x) AS d", ("d", "⟨max over A: ⟨x⟩⟩ - ⟨min over B: ⟨x⟩⟩")),
        ("B.start - A.end AS gap", ("gap", "⟨start of B⟩ - ⟨end of A⟩")),
        ("greatest(max(A.x), 3) AS g", ("g", "greatest( ⟨max over A: ⟨x⟩⟩ , 3)")),
        ("1 AS one", ("one", "1")),
        ("first(A.xs[0].y) AS y", ("y", "⟨first_value over A: ⟨xs⟩ [0].y⟩")),
    ],
)
def test_returns(text: str, expected: tuple[str, str]):
    assert returns_of(text) == [expected]


def test_symbols_go_before_the_table():
    """A symbol and the table may have one name: in DEFINE it is the table, in RETURN the situation."""
    query = parse_situation_query("FROM t A DEFINE A AS A.x > 1, B AS y PATTERN A meets B RETURN first(A.x)")
    assert definition_text(query.definitions[0]) == "A = ⟨x⟩ > 1"


def test_reserved_names():
    with pytest.raises(EpisodeSyntaxError, match="reserved"):
        parse_situation_query("DEFINE A AS __episode_1 > 1, B AS y PATTERN A meets B")


# ---- statements ------------------------------------------------------------------------------------------

BODY = "DEFINE A AS x > 1, B AS y < 2 PATTERN A meets B"


@pytest.mark.parametrize(
    ("text", "situations"),
    [
        (f"SELECT * FROM SITUATIONS ({BODY})", [f"SITUATIONS ({BODY})"]),
        (f"SELECT * FROM situations(FROM t {BODY}; A overlaps B;) AS s", [f"situations(FROM t {BODY}; A overlaps B;)"]),
        (f"SELECT * FROM t, SITUATIONS ({BODY}) JOIN SITUATIONS ({BODY})", [f"SITUATIONS ({BODY})"] * 2),
        ("SELECT * FROM situations", []),
        ("SELECT situations(define) FROM t", []),
        ("SELECT * FROM situations(1, 2)", []),
        ("SELECT * FROM situations (SELECT 1)", []),
        ("FROM t define SELECT define.x", []),
        ("SELECT define FROM t", []),
        ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts PATTERN (A B) DEFINE A AS x > 1)", []),
    ],
)
def test_tables(text: str, situations: list[str]):
    statement = parse_statement(text)
    assert [text[found.span.start : found.span.end] for found in statement.tables] == situations
    assert statement.whole is None


@pytest.mark.parametrize(
    "before", ["", "FROM t", "FROM t AS x PARTITION BY x.k ORDER BY ts", "PARTITION BY k", "ORDER BY t"]
)
@pytest.mark.parametrize("after", ["", ";", " WITHIN 5s", "; A before B\n;", " RETURN A.start;"])
def test_whole(before: str, after: str):
    statement = parse_statement(f"{before} {BODY}{after}")
    assert isinstance(statement.whole, SituationQuery)
    assert (statement.patterns, statement.tables) == ((), ())


# ---- any text --------------------------------------------------------------------------------------------


def test_every_cut_and_every_word_left_out_is_read_or_refused():
    """Whatever is left of a query, the answer is a tree or an error with a place."""
    words = LISTING_1.split()
    texts = [" ".join(words[:end]) for end in range(1, len(words))]
    texts += [" ".join([*words[:at], *words[at + 1 :]]) for at in range(len(words))]
    texts += [" ".join([*words[: at + 1], *words[at:]]) for at in range(len(words))]
    texts += [" ".join([*words[:at], *words[at : at + 2][::-1], *words[at + 2 :]]) for at in range(len(words) - 1)]
    errors = [error_of(text) for text in texts]
    places = [(error.position, len(text)) for error, text in zip(errors, texts) if error is not None]
    assert all(position is not None and 0 <= position <= length for position, length in places)
    assert 0 < len(places) < len(texts)


PIECES = (
    "FROM t AS PARTITION BY ORDER DEFINE A , AT LEAST MOST BETWEEN 5s AND 4 mph 8m/s2 PATTERN meets ; OR met - by",
    "( ) [ ] { } WITHIN 5 minutes RETURN first . A.start count * NOT CASE WHEN END 'text' `q` % ∧ -> :: SITUATIONS",
    "SELECT INTERVAL 1e3 ^ /",
)


def test_texts_like_queries_are_read_or_refused():
    rng = random.Random(5)
    pieces = " ".join(PIECES).split()
    for _ in range(500):
        words = LISTING_1.replace("(", " ( ").replace(")", " ) ").replace(".", " . ").split()
        for _ in range(rng.randint(1, 4)):
            at, kind = rng.randrange(len(words)), rng.random()
            words[at : at + (kind < 0.6)] = [] if kind < 0.3 else [rng.choice(pieces)]
        error = error_of(" ".join(words))
        assert error is None or (error.position is not None and "__episode" not in error.message)


def test_deep_conditions_are_refused_quickly():
    with pytest.raises(EpisodeSyntaxError, match="nested too deeply"):
        definition_of(f"{'(' * 3000}x{')' * 3000} BETWEEN 4 AND 5")


def error_of(text: str) -> EpisodeError | None:
    try:
        parse_situation_query(text)
    except EpisodeError as error:
        return error
    return None
