"""Conditions beside RECENCY: where they are joined by AND, and which of them compare columns and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from episode.lang.correlation.syntax import Comparison, Equality, Operand
from episode.lang.cursor import Cursor, top_words
from episode.lang.lexer import Kind, Token
from episode.lang.syntax import Span

SIGNS = "<>=!"
COMPARED = ("<", "<=", ">", ">=", "=", "==")


def equalities(cursor: Cursor, begin: int, end: int) -> Iterator[Equality]:
    """The conjuncts of a condition, tokens[begin:end], that are `column = column`."""
    for conjunct in _conjuncts(cursor, begin, end):
        equality = _equality(conjunct)
        if equality is not None:
            yield equality


def comparisons(cursor: Cursor, begin: int, end: int) -> Iterator[Comparison]:
    """The conjuncts of a condition, tokens[begin:end]; the whole of it where it has alternatives."""
    if top_words(cursor, begin, end, "OR", "XOR"):
        yield Comparison(cursor.source[cursor.tokens[begin].start : cursor.tokens[end - 1].end])
        return
    for conjunct in _conjuncts(cursor, begin, end):
        text = cursor.source[conjunct[0].start : conjunct[-1].end]
        yield _comparison(text, _without_brackets(conjunct))


def _conjuncts(cursor: Cursor, begin: int, end: int) -> Iterator[list[Token]]:
    joints = [begin - 1, *top_words(cursor, begin, end, "AND"), end]
    for before, after in pairwise(joints):
        if before + 1 < after:
            yield list(cursor.tokens[before + 1 : after])


def _without_brackets(tokens: list[Token]) -> list[Token]:
    while len(tokens) > 2 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        tokens = tokens[1:-1]
    return tokens


def _comparison(text: str, tokens: list[Token]) -> Comparison:
    signs = [at for at, token in enumerate(tokens) if token.kind is Kind.SYMBOL and token.text in SIGNS]
    if not signs or signs != list(range(signs[0], signs[0] + len(signs))):
        return Comparison(text)
    sign = "".join(tokens[at].text for at in signs)
    left, right = _operand(tokens[: signs[0]]), _operand(tokens[signs[-1] + 1 :])
    if sign not in COMPARED or left is None or right is None:
        return Comparison(text)
    return Comparison(text, left, "=" if sign == "==" else sign, right)


def _operand(tokens: list[Token]) -> Operand | None:
    """A path, or a number with or without a sign."""
    minus = len(tokens) == 2 and tokens[0].is_symbol("-")
    if len(tokens) != 1 + minus or tokens[-1].kind is not Kind.NUMBER:
        return _path(tokens)
    try:
        number = int(tokens[-1].text) if tokens[-1].text.isdecimal() else float(tokens[-1].text)
    except ValueError:  # with a letter for its type
        return None
    return -number if minus else number


def _equality(tokens: list[Token]) -> Equality | None:
    tokens = _without_brackets(tokens)
    sign = next((at for at, token in enumerate(tokens) if token.is_symbol("=")), None)
    if sign is None:
        return None
    after = sign + 2 if sign + 1 < len(tokens) and tokens[sign + 1].is_symbol("=") else sign + 1
    left, right = _path(tokens[:sign]), _path(tokens[after:])
    return None if left is None or right is None else Equality(left, right, Span(tokens[0].start, tokens[-1].end))


def _path(tokens: list[Token]) -> tuple[str, ...] | None:
    """`name` or `table.name`."""
    names, dots = tokens[::2], tokens[1::2]
    if len(names) != len(dots) + 1 or not all(dot.is_symbol(".") for dot in dots):
        return None
    if not all(name.kind in (Kind.NAME, Kind.QUOTED) for name in names):
        return None
    return tuple(name.identifier for name in names)
