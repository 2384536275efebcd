"""Tokens of Spark SQL with their places, as far as episode needs them to find and read its own clauses.

Operators are single characters: `{-`, `||` or `<=` are distinguished by the parser that cares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from episode.errors import EpisodeSyntaxError
from episode.lang.syntax import Span

LINE_COMMENTS = ("--", "//")
"""SQL's, and the one of printed event patterns; in scalar SQL, Spark refuses the latter."""
CURLY_QUOTES = ("‘’", "“”")
"""Quotes of printed text: either of a pair opens and closes a string."""


class Kind(Enum):
    NAME = "name"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"
    END = "end of query"


@dataclass(frozen=True)
class Token:
    kind: Kind
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    @property
    def upper(self) -> str:
        """Upper-cased text of an unquoted name, else empty: what keywords are compared with."""
        return self.text.upper() if self.kind is Kind.NAME else ""

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text == symbol

    @property
    def identifier(self) -> str:
        """The name after a name, a backticked name or a double-quoted name."""
        if self.kind is Kind.NAME:
            return self.text
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote)

    @property
    def is_double_quoted(self) -> bool:
        return self.kind is Kind.STRING and self.text[:1] == '"'


def tokenize(source: str) -> list[Token]:
    """Tokens of the text, ending with an END token; comments and white space are dropped."""
    tokens: list[Token] = []
    position, length = 0, len(source)
    while position < length:
        character = source[position]
        if character.isspace():
            position += 1
            continue
        if source.startswith(LINE_COMMENTS, position) and not _closes_exclusion(source, position):
            newline = source.find("\n", position)
            position = length if newline < 0 else newline + 1
            continue
        if source.startswith("/*", position):
            position = _skip_block_comment(source, position)
            continue
        end, kind = _scan(source, position)
        tokens.append(Token(kind, source[position:end], position, end))
        position = end
    tokens.append(Token(Kind.END, "", length, length))
    return tokens


def _closes_exclusion(source: str, position: int) -> bool:
    """`{--}` is an exclusion's brackets, not a comment."""
    return source.startswith("--}", position) and source[max(0, position - 1) : position] == "{"


def _skip_block_comment(source: str, position: int) -> int:
    depth, at = 1, position + 2
    while depth:
        close, inner = source.find("*/", at), source.find("/*", at)
        if close < 0:
            raise EpisodeSyntaxError(
                "This comment does not end.", source=source, position=position, length=2, hint="Close it with */."
            )
        if 0 <= inner < close:
            depth, at = depth + 1, inner + 2
        else:
            depth, at = depth - 1, close + 2
    return at


def _scan(source: str, position: int) -> tuple[int, Kind]:
    character = source[position]
    if character in "rRxX" and source[position + 1 : position + 2] in ("'", '"'):
        return _string_end(source, position + 1, raw=character in "rR"), Kind.STRING
    if character.isalpha() or character == "_":
        end = position + 1
        while end < len(source) and (source[end].isalnum() or source[end] == "_"):
            end += 1
        return end, Kind.NAME
    if character in "'\"":
        return _string_end(source, position, raw=False), Kind.STRING
    for quotes in CURLY_QUOTES:
        if character in quotes:
            return _string_end(source, position, raw=False, quotes=quotes), Kind.STRING
    if character == "`":
        return _backtick_end(source, position), Kind.QUOTED
    if character.isdigit() or (character == "." and source[position + 1 : position + 2].isdigit()):
        return _number_end(source, position), Kind.NUMBER
    return position + 1, Kind.SYMBOL


def _string_end(source: str, position: int, raw: bool, quotes: str = "") -> int:
    """quotes: those that close the string, if they are not the one that opens it."""
    quote, at = quotes[-1:] or source[position], position + 1
    while at < len(source):
        if source[at] == "\\" and not raw:
            at += 2
        elif source[at] in (quotes or quote):
            if raw or quotes or source[at + 1 : at + 2] != quote:
                return at + 1
            at += 2
        else:
            at += 1
    raise EpisodeSyntaxError(
        "This string does not end.", source=source, position=position, hint=f"Close it with {quote}."
    )


def _backtick_end(source: str, position: int) -> int:
    at = position + 1
    while at < len(source):
        if source[at] == "`":
            if source[at + 1 : at + 2] != "`":
                return at + 1
            at += 1
        at += 1
    raise EpisodeSyntaxError(
        "This quoted name does not end.", source=source, position=position, hint="Close it with `."
    )


def _number_end(source: str, position: int) -> int:
    at, length = position, len(source)
    while at < length and source[at].isdigit():
        at += 1
    if at < length and source[at] == "." and source[at + 1 : at + 2].isdigit():
        at += 1
        while at < length and source[at].isdigit():
            at += 1
    elif (
        at < length and source[at] == "." and not (source[at + 1 : at + 2].isalpha() or source[at + 1 : at + 2] == "_")
    ):
        at += 1
    if at < length and source[at] in "eE":
        exponent = at + 1
        if exponent < length and source[exponent] in "+-":
            exponent += 1
        if exponent < length and source[exponent].isdigit():
            at = exponent
            while at < length and source[at].isdigit():
                at += 1
    while at < length and (source[at].isalnum() or source[at] == "_"):
        at += 1
    return at
