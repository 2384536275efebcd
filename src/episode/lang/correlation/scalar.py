"""Conditions beside RECENCY: where they are joined by AND, and which of them make two columns equal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from episode.lang.correlation.syntax import Equality
from episode.lang.cursor import Cursor, top_level
from episode.lang.lexer import Kind, Token
from episode.lang.syntax import Span


def top_words(cursor: Cursor, begin: int, end: int, *words: str) -> list[int]:
    """Where these words stand in tokens[begin:end] outside brackets and CASE; the AND of BETWEEN is left out."""
    found: list[int] = []
    between = 0
    for index in top_level(cursor, begin, end):
        word = cursor.tokens[index].upper
        if word == "BETWEEN":
            between += 1
        elif word == "AND" and between:
            between -= 1
        elif word in words:
            found.append(index)
    return found


def equalities(cursor: Cursor, begin: int, end: int) -> Iterator[Equality]:
    """The conjuncts of a condition, tokens[begin:end], that are `column = column`."""
    joints = [begin - 1, *top_words(cursor, begin, end, "AND"), end]
    for before, after in pairwise(joints):
        equality = _equality(list(cursor.tokens[before + 1 : after]))
        if equality is not None:
            yield equality


def _equality(tokens: list[Token]) -> Equality | None:
    while len(tokens) > 2 and tokens[0].is_symbol("(") and tokens[-1].is_symbol(")"):
        tokens = tokens[1:-1]
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
