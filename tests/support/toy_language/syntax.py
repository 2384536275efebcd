"""The text `EVERY n ROWS`."""

from __future__ import annotations

from dataclasses import dataclass

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Token
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import TableLanguage


@dataclass(frozen=True)
class EveryRows:
    """A parsed query."""

    number: int
    source: Source


def is_every(tokens: list[Token], begin: int, end: int) -> bool:
    return tokens[begin].upper == "EVERY"


def parse_every(text: str, tokens: list[Token], begin: int, end: int) -> EveryRows:
    span = Span(tokens[begin].start, tokens[end - 1].end)
    source = Source(text, span, span)
    if end - begin != 3 or not tokens[begin + 1].text.isdigit() or tokens[begin + 2].upper != "ROWS":
        raise source.error(EpisodeSyntaxError, "This is not EVERY n ROWS.", span)
    return EveryRows(int(tokens[begin + 1].text), source)


GRAMMAR = TableLanguage("EVERY_ROWS", "EVERY", is_every, parse_every)
