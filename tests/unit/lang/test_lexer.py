"""Tokens: what is a name, a string, a number, a comment; and where each stands."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind.value, token.text) for token in tokenize(text)[:-1]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("price", Kind.NAME),
        ("_x1", Kind.NAME),
        ("preis_größe", Kind.NAME),
        ("`a b`", Kind.QUOTED),
        ("`a``b`", Kind.QUOTED),
        ("'it''s'", Kind.STRING),
        (r"'it\'s'", Kind.STRING),
        ('"a"', Kind.STRING),
        (r"r'\'", Kind.STRING),
        ("X'1F'", Kind.STRING),
        ("''", Kind.STRING),
        ("12", Kind.NUMBER),
        ("1.5", Kind.NUMBER),
        (".5", Kind.NUMBER),
        ("1.", Kind.NUMBER),
        ("1e3", Kind.NUMBER),
        ("1E-3", Kind.NUMBER),
        ("5s", Kind.NUMBER),
        ("1.5BD", Kind.NUMBER),
    ],
)
def test_one_token(text: str, kind: Kind) -> None:
    token, end = tokenize(f"  {text} ")
    assert (token.kind, token.text, token.start, token.end) == (kind, text, 2, 2 + len(text))
    assert end.kind is Kind.END
    assert end.start == len(text) + 3


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("A.x", ["A", ".", "x"]),
        ("1..2", ["1.", ".2"]),
        ("1.x", ["1", ".", "x"]),
        ("a<=b", ["a", "<", "=", "b"]),
        ("{-A-}", ["{", "-", "A", "-", "}"]),
        ("{--}", ["{", "-", "-", "}"]),
        ("a -- b 'c\nd", ["a", "d"]),
        ("a--b", ["a"]),
        ("a /* 'b' /* c */ ` */ d", ["a", "d"]),
        ("'--' `/*` x", ["'--'", "`/*`", "x"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        ("a\u00a0b\u2003c", ["a", "b", "c"]),
        ("", []),
    ],
)
def test_pieces(text: str, pieces: list[str]) -> None:
    assert [text for _, text in kinds(text)] == pieces


def test_names_of_tokens() -> None:
    name, backticks, double, string = tokenize('Price `a``b` "c""d" \'e\'')[:-1]
    assert [token.identifier for token in (name, backticks, double)] == ["Price", "a`b", 'c"d']
    assert [token.upper for token in (name, backticks, double, string)] == ["PRICE", "", "", ""]
    assert [token.is_double_quoted for token in (name, backticks, double, string)] == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "position"),
    [("a 'b", 2), ('a "b', 2), ("a `b``", 2), ("a /* b", 2), ("/* /* */", 0), (r"'\'", 0), ("'a''", 0)],
)
def test_what_does_not_end(text: str, position: int) -> None:
    with pytest.raises(EpisodeSyntaxError, match="does not end") as raised:
        tokenize(text)
    assert raised.value.position == position
