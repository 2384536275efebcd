"""Positional parameters, `?`, as named ones. In the brackets of PATTERN ( … ) a `?` is a quantifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.lexer import Token, tokenize
from episode.lang.syntax import Source, Span


@dataclass(frozen=True)
class NamedParameters:
    """A text whose parameters have names, and their values. places: of each parameter in `text` and in `written`."""

    written: str
    text: str
    arguments: Mapping[str, object]
    places: tuple[tuple[Span, Span], ...]

    def place_in_written(self, error: EpisodeError) -> None:
        """Let an error show its place in the text as the user wrote it."""
        if error.source != self.text or error.position is None:
            return
        shift = 0
        for named, asked in self.places:
            if error.position < named.start:
                break
            inside = error.position < named.end
            shift = error.position - asked.start if inside else named.end - asked.end
        error.source, error.position = self.written, error.position - shift


def name_parameters(text: str, values: Sequence[object]) -> NamedParameters:
    """Give the parameters of a text, one value each, the names _1, _2, …"""
    asked = positional_parameters(text)
    if len(asked) != len(values):
        source = Source(text)
        place = asked[len(values)].span if len(asked) > len(values) else Span(len(text), len(text))
        message = f"args has {len(values)} values, and the query {len(asked)} parameters (?)."
        raise source.error(EpisodeAnalysisError, message, place, "Give one value for each, in their order.")
    pieces, places, at, length = [], [], 0, 0
    for number, token in enumerate(asked, 1):
        before, name = text[at : token.start], f":_{number}"
        pieces += [before, name]
        begin, length, at = length + len(before), length + len(before) + len(name), token.end
        places.append((Span(begin, length), token.span))
    arguments = {f"_{number}": value for number, value in enumerate(values, 1)}
    return NamedParameters(text, "".join([*pieces, text[at:]]), arguments, tuple(places))


def positional_parameters(text: str) -> list[Token]:
    """Every `?` that is a parameter."""
    tokens = tokenize(text)
    found: list[Token] = []
    depth, pattern = 0, -1
    for index, token in enumerate(tokens):
        if pattern < 0 and index and token.is_symbol("(") and tokens[index - 1].upper == "PATTERN":
            pattern = depth
        depth += token.nesting
        if depth == pattern:
            pattern = -1
        if pattern < 0 and token.is_symbol("?"):
            found.append(token)
    return found
