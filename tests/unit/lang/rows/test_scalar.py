"""Scalar expressions: what is lifted out as an atom, what stays the user's own text, and where each atom stands."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.lang.rows.scalar import parse_scalar
from episode.lang.rows.syntax import Navigation
from episode.lang.syntax import Aggregate, ColumnRef, Scalar
from tests.golden.printing import scalar_text

LABELS = frozenset(["A", "B", "b"])


def parse(text: str) -> Scalar:
    return parse_scalar(Cursor(text, tokenize(text)), LABELS)


@pytest.mark.parametrize(
    ("text", "atoms"),
    [
        ("A.x + a.y", "⟨A.x⟩ + ⟨A.y⟩"),
        ("`b`.x + b.x", "⟨b.x⟩ + ⟨B.x⟩"),
        ('"b".x = "c"', '⟨b.x⟩ = "c"'),
        ("C.x", "⟨*.C.x⟩"),
        ("x.y.z.u.v.w", "⟨*.x.y.z.u.v.w⟩"),
        ("A.x.y", "⟨A.x.y⟩"),
        ("LAST(A.info).x", "⟨LAST ⟨A.info⟩⟩ .x"),
        ("first > last", "⟨*.first⟩ > ⟨*.last⟩"),
        ("t.first(x)", "t.first(⟨*.x⟩)"),
        ("prev (A.x)", "⟨LAST-1 ⟨A.x⟩⟩"),
        ("running + 1", "⟨*.running⟩ + 1"),
        ("RUNNING /* here */ sum(x)", "⟨RUNNING sum ⟨*.x⟩⟩"),
        ("count(A) + count(A.*)", "⟨count ⟨*.A⟩⟩ + ⟨count rows of A⟩"),
        ("x LIKE ANY ('a')", "⟨*.x⟩ LIKE ANY ('a')"),
        ("any(A.x) AND some(y)", "⟨bool_or ⟨A.x⟩⟩ AND ⟨bool_or ⟨*.y⟩⟩"),
        ("f(x -> x + A.y)", "f(x -> x + ⟨A.y⟩)"),
        ("comment = 'set'", "⟨*.comment⟩ = 'set'"),
        ("'A.x' = `LAST(x)`", "'A.x' = ⟨*.LAST(x)⟩"),
        ("A.x -- LAST(B.y)\n + 1", "⟨A.x⟩ -- LAST(B.y) + 1"),
        ("to_char(A.x, '9')", "to_char(⟨A.x⟩, '9')"),
        ("dateadd(DAY, 1, A.x)", "dateadd(DAY, 1, ⟨A.x⟩)"),
        ("struct(A.x AS y)", "struct(⟨A.x⟩ AS y)"),
        ("1", "1"),
    ],
)
def test_atoms(text: str, atoms: str) -> None:
    assert scalar_text(parse(text)) == atoms


def test_places() -> None:
    text = "coalesce(LAST(A.x + y), count(*), A.z)"
    scalar = parse(text)
    found = {text[atom.span.start : atom.span.end]: atom for _, atom in scalar.atoms}
    assert list(found) == ["LAST(A.x + y)", "count(*)", "A.z"]
    navigation = found["LAST(A.x + y)"]
    assert isinstance(navigation, Navigation)
    assert [text[a.span.start : a.span.end] for _, a in navigation.argument.atoms] == ["A.x", "y"]
    assert scalar.original == text


def test_equal_columns_are_equal_atoms() -> None:
    first, second = (atom for _, atom in parse("A.x + a.x").atoms)
    assert first == second == ColumnRef("A", ("x",))


def test_synonyms_of_aggregates() -> None:
    functions = [
        atom.function
        for _, atom in parse("mean(x) + std(x) + every(x) + ANY_VALUE(x)").atoms
        if isinstance(atom, Aggregate)
    ]
    assert functions == ["avg", "stddev_samp", "bool_and", "first_value"]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("A.x +", "+"),
        ("AND A.x", "AND"),
        ("A.x > AND y", "AND"),
        ("A.x y", "y"),
        ("LAST(A.x) FIRST(A.y)", "FIRST(A.y)"),
        ("LAST(A.x) 5 > 1", "5"),
        ("f(A.x, LAST(A.y) z)", "z"),
        ("sum(A.x) OVER w", "OVER"),
        ("LAST(FIRST(A.x))", "FIRST"),
        ("upper(SELECT 1)", "SELECT"),
        ("A.x IN", "IN"),
        ("LAST(A.x, -1)", "-1"),
        ("__episode_0 + 1", "__episode_0"),
        ("x = '__episode_0'", "'__episode_0'"),
        ("A.*", "*"),
    ],
)
def test_places_of_errors(text: str, place: str) -> None:
    with pytest.raises(EpisodeSyntaxError) as raised:
        parse(text)
    error = raised.value
    assert error.position is not None
    assert text[error.position : error.position + error.length] == place


@pytest.mark.parametrize("text", ["(" * 3_000 + "x" + ")" * 3_000, "NOT " * 3_000 + "x", " + ".join("x" * 3_000)])
def test_depth(text: str) -> None:
    with pytest.raises(EpisodeSyntaxError, match="nested too deeply"):
        parse(text)


def test_long_chains_are_not_deep() -> None:
    assert len(parse(" AND ".join(f"A.x <> {i}" for i in range(1_000))).atoms) == 1_000
