"""The pattern language: what binds how, and what is no pattern. The printed form is that of the golden files."""

from __future__ import annotations

import pytest

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.lang.rows.pattern import MAXIMUM_DEPTH, labels_of, parse_pattern
from episode.lang.rows.syntax import Pattern
from tests.golden.printing import pattern_text


def parse(text: str) -> Pattern:
    return parse_pattern(Cursor(text, tokenize(text)))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("A B C", "[A B C]"),
        ("A, B+, C", "[A B{1,} C]"),
        ("(A, B | C) PERMUTE(D, (E, F))", "[<[A B] | C> permute(D, [E F])]"),
        ("A | B | C", "<A | B | C>"),
        ("A B | C", "<[A B] | C>"),
        ("A (B | C)", "[A <B | C>]"),
        ("((A))", "A"),
        ("(A B) C", "[[A B] C]"),
        ("A B+", "[A B{1,}]"),
        ("(A B)+", "[A B]{1,}"),
        ("(A+)*", "A{1,}{0,}"),
        ("A{,}", "A{0,}"),
        ("A{2}?", "A{2,2}?"),
        ("A??", "A{0,1}?"),
        ("A ?", "A{0,1}"),
        ("()", "()"),
        ("() | A", "<() | A>"),
        ("(){5,}", "(){5,}"),
        ("^+ $", "[^{1,} $]"),
        ("PERMUTE(A)", "A"),
        ("PERMUTE(A | B, C D)", "permute(<A | B>, [C D])"),
        ("PERMUTE(A, B)+", "permute(A, B){1,}"),
        ("PERMUTE A", "[PERMUTE A]"),
        ("{- A | B -}", "{- <A | B> -}"),
        ("{-A-}*", "{- A -}{0,}"),
        ("A{-B-}", "[A {- B -}]"),
        ('a `a` "A"', "[A a A]"),
        ("select define", "[SELECT DEFINE]"),
    ],
)
def test_trees(text: str, tree: str) -> None:
    assert pattern_text(parse(text)) == tree


def test_labels_in_order_of_appearance() -> None:
    assert labels_of(parse("B (a | C)* {- B `d` -} PERMUTE(A, E)")) == ["B", "A", "C", "d", "E"]


@pytest.mark.parametrize(
    "text",
    ["", "|", "A |", "| A", "A || B", "*", "A**", "A+?+", "A{0}", "A{,0}", "A{0,0}", "A{3,2}", "A{}", "A{-1}",
     "A{1;2}", "A{1 2}", "A{2147483648}", "{2}", "(A", "A)", "(", "()()(", "PERMUTE()", "PERMUTE(A,)", "PERMUTE(,A)",
     "{- -}", "{- A", "{- A }", "A -}", "A,", ", A", "A,, B", "A, | B", "1", "'A'", "A.B", "!A", "A & B", "[A]", "A-B"],
)  # fmt: skip
def test_no_patterns(text: str) -> None:
    with pytest.raises(EpisodeSyntaxError):
        parse(text)


def test_depth() -> None:
    assert pattern_text(parse("(" * MAXIMUM_DEPTH + "A" + ")" * MAXIMUM_DEPTH)) == "A"
    with pytest.raises(EpisodeSyntaxError, match="levels deep"):
        parse("(" * 5_000 + "A" + ")" * 5_000)
