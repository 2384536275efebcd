"""A condition of DEFINE in pieces: the conjuncts that are joined by AND, each with its own place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from episode.lang.cursor import Cursor, top_words
from episode.lang.lexer import Token, tokenize
from episode.lang.rows.scalar import parse_scalar
from episode.lang.source import Source
from episode.lang.syntax import Scalar


def conjuncts_of(condition: Scalar, source: Source, names: frozenset[str]) -> tuple[Scalar, ...]:
    """The parts of a condition that must all hold, in the order of the text. names: labels and subsets."""
    tokens = tokenize(source.text)
    begin = next(at for at, token in enumerate(tokens) if token.start >= condition.span.start)
    end = next(at for at, token in enumerate(tokens) if token.start >= condition.span.end or at == len(tokens) - 1)
    parts = list(_parts(source.text, tokens, begin, end))
    if len(parts) == 1:
        return (condition,)
    return tuple(parse_scalar(Cursor(source.text, tokens, first, last), names) for first, last in parts)


def _parts(text: str, tokens: Sequence[Token], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The conjuncts of tokens[begin:end]; brackets around all of them are passed over."""
    if _is_bracketed(tokens, begin, end):
        yield from _parts(text, tokens, begin + 1, end - 1)
        return
    cursor = Cursor(text, tokens, begin, end)
    joints = [] if top_words(cursor, begin, end, "OR", "XOR") else top_words(cursor, begin, end, "AND")
    if not joints:
        yield begin, end
        return
    for before, after in pairwise([begin - 1, *joints, end]):
        yield from _parts(text, tokens, before + 1, after)


def _is_bracketed(tokens: Sequence[Token], begin: int, end: int) -> bool:
    """Does one pair of brackets stand around all of it?"""
    depth = 0
    for at in range(begin, end):
        depth += tokens[at].is_symbol("(")
        depth -= tokens[at].is_symbol(")")
        if depth == 0:
            return at == end - 1 and at > begin
    return False
