"""Tokens of Spark SQL with their places, as far as episode needs them to find and read its own clauses.

Comments, hints, strings and names begin and end exactly where Spark's own lexer lets them begin and end. Event patterns
are also printed with `//` comments, curly quotes, superscripts and `{--}`. Spark refuses each of these outside of
strings and comments, so a text that Spark accepts is read in one way only.

Operators are single characters: `{-`, `||` or `<=` are distinguished by the parser that cares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn
from unicodedata import category

from episode.errors import EpisodeSyntaxError
from episode.lang.syntax import Span

CURLY_QUOTES = ("‘’", "“”")
"""Quotes of printed text: either of a pair opens and closes a string."""
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
WHITE_SPACE = " \t\n\f\r\x0b\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u202f\u205f\u3000"
"""Spark's white space; other characters that look empty are errors."""


def words_of(text: str) -> frozenset[str]:
    """The words in a text, as a set."""
    return frozenset(text.split())


SURROGATES = "Read the text with the encoding it was written in."

_SKIPPED = re.compile(rf"(?:[{WHITE_SPACE}]+|--(?:\\\n|[^\r\n])*|//[^\r\n]*)+")
"""White space and line comments. A comment of two hyphens continues on the next line after a backslash."""
_BEGINS_SKIPPED = frozenset(f"{WHITE_SPACE}-/")
_BRACKET = re.compile(r"/\*(?!\+)|\*/")
_HINT, _HINT_END = "/*+", "*/"
_DOLLARS = re.compile(r"\$[A-Za-zıſ]*\$")
_ENDS = {quote: re.compile(rf"[{quote}\\]") for quote in ("'", '"', *CURLY_QUOTES)}
_DECIMAL = re.compile(r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[fFdD])?(?![A-Za-z0-9_ıſ])")
_EXPONENT = re.compile(r"[0-9]+[eE][+-]?[0-9]+(?:[bB][dD]|[fFdD])?")
_SUPERSCRIPT = re.compile(f"[{SUPERSCRIPTS}]+")
_DIGITS = frozenset("0123456789")


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
        if self.kind is not Kind.NAME:
            return ""
        if self.text.isascii():
            return self.text.upper()
        letters = ((one, one.upper()) for one in self.text)  # one by one, as in Spark: the letter ß stays as it is
        return "".join(upper if len(upper) == 1 else one for one, upper in letters)

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
    def is_name(self) -> bool:
        """Is it a name, plain or in backticks?"""
        return self.kind in (Kind.NAME, Kind.QUOTED)

    @property
    def is_double_quoted(self) -> bool:
        return self.kind is Kind.STRING and self.text[:1] == '"'

    @property
    def is_identifier(self) -> bool:
        """Is it a name in any quotes, or without?"""
        return self.is_name or self.is_double_quoted

    @property
    def nesting(self) -> int:
        """1 for an opening bracket, -1 for a closing one, else 0."""
        return 0 if self.kind is not Kind.SYMBOL else (self.text in "([{") - (self.text in ")]}")


def tokenize(source: str) -> list[Token]:
    """Tokens of the text, ending with an END token; comments, hints and white space are dropped."""
    at = lone_surrogate(source)
    if at is not None:
        shown = source.encode(errors="replace").decode()
        _fail(shown, at, f"U+{ord(source[at]):04X} is a lone surrogate, not a character.", SURROGATES)
    return [*iterate_tokens(source), Token(Kind.END, "", len(source), len(source))]


def iterate_tokens(source: str) -> Iterator[Token]:
    """Read the tokens of the text one by one; the first mistake in it is an error."""
    position, length = 0, len(source)
    hint: int | None = None
    while (position := _skip(source, position)) < length:
        if source.startswith(_HINT, position) and hint is None:
            hint, position = position, position + len(_HINT)
        elif source.startswith(_HINT_END, position):
            if hint is None:
                _fail(source, position, "This */ closes nothing.", "Between * and a comment, write a blank: * /* … */.")
            hint, position = None, position + len(_HINT_END)
        else:
            end, kind = _scan(source, position)
            if hint is None:
                yield Token(kind, source[position:end], position, end)
            position = end
    if hint is not None:
        _fail(source, hint, "This hint does not end.", "Close it with */.")


def lone_surrogate(text: str) -> int | None:
    """Return the place of half a pair of surrogates in a text, which cannot be encoded, sent or stored."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _skip(source: str, position: int) -> int:
    """Return the start of the next token, after white space and comments."""
    while source[position : position + 1] in _BEGINS_SKIPPED:
        if source.startswith("--}", position) and source[position - 1 : position] == "{":
            break  # {--} are the brackets of an exclusion
        found = _SKIPPED.match(source, position)
        if found is not None:
            position = found.end()
        elif source.startswith("/*", position) and not source.startswith(_HINT, position):
            position = _skip_block_comment(source, position)
        else:
            break
    return position


def _skip_block_comment(source: str, position: int) -> int:
    depth, at = 1, position + 2
    while depth:
        found = _BRACKET.search(source, at)
        if found is None:
            _fail(source, position, "This comment does not end.", "Close it with */.", 2)
        depth, at = depth + (1 if found[0] == "/*" else -1), found.end()
    return at


def _scan(source: str, position: int) -> tuple[int, Kind]:
    character = source[position]
    following = source[position + 1 : position + 2]
    if character in "rRxX" and following in ("'", '"'):
        return _string_end(source, position + 1, raw=character in "rR"), Kind.STRING
    if character.isalpha() or character == "_":
        return _word_end(source, position), Kind.NAME
    if character in "'\"":
        return _string_end(source, position, raw=False), Kind.STRING
    for quotes in CURLY_QUOTES:
        if character in quotes:
            return _string_end(source, position, raw=False, quotes=quotes), Kind.STRING
    if character == "`":
        return _backtick_end(source, position), Kind.QUOTED
    if character in _DIGITS or (character == "." and following in _DIGITS):
        return _number_end(source, position), Kind.NUMBER
    superscript = _SUPERSCRIPT.match(source, position) if character in SUPERSCRIPTS else None
    if superscript is not None:
        return superscript.end(), Kind.NUMBER
    dollars = _DOLLARS.match(source, position) if character == "$" else None
    if dollars is not None:
        end = source.find(dollars[0], dollars.end())
        if end < 0:
            _fail(source, position, "This string does not end.", f"Close it with {dollars[0]}.")
        return end + len(dollars[0]), Kind.STRING
    if not character.isascii() and category(character) == "Cn":  # a later version of Unicode may make a letter of it
        _fail(source, position, f"U+{ord(character):04X} is not a known character.", "Quote it with backticks.")
    return position + 1, Kind.SYMBOL


def _word_end(source: str, position: int) -> int:
    """Letters, digits and underscores; letters of all languages, but only the digits 0 to 9."""
    end = position
    while end < len(source) and (source[end].isalpha() or source[end] in _DIGITS or source[end] == "_"):
        end += 1
    return end


def _string_end(source: str, position: int, raw: bool, quotes: str = "") -> int:
    """quotes: those that close the string, if they are not the one that opens it."""
    quote = quotes[-1:] or source[position]
    special, at = _ENDS[quotes or quote], position + 1
    while (found := special.search(source, at)) is not None:
        at = found.start()
        if found[0] == "\\":
            at += 1 if raw else 2
        elif raw or quotes or source[at + 1 : at + 2] != quote:
            return at + 1
        else:
            at += 2
    return _fail(source, position, "This string does not end.", f"Close it with {quote}.")


def _backtick_end(source: str, position: int) -> int:
    at = position + 1
    while (at := source.find("`", at)) >= 0:
        if source[at + 1 : at + 2] != "`":
            return at + 1
        at += 2
    return _fail(source, position, "This quoted name does not end.", "Close it with `.")


def _number_end(source: str, position: int) -> int:
    """A number with what directly follows it: `1.5BD`, `5s`. `1.5s` is one token here and three in Spark."""
    decimal = _DECIMAL.match(source, position)
    whole = position if source[position] == "." else _whole_end(source, position)
    if decimal is not None and decimal.end() > whole:
        return decimal.end()
    if source.startswith(".", whole) and source[whole + 1 : whole + 2] in _DIGITS:
        return _whole_end(source, whole + 1)
    return whole


def _whole_end(source: str, position: int) -> int:
    exponent = _EXPONENT.match(source, position)
    word = _word_end(source, position)
    return word if exponent is None else max(word, exponent.end())


def _fail(source: str, position: int, message: str, hint: str, length: int = 1) -> NoReturn:
    raise EpisodeSyntaxError(message, source=source, position=position, length=length, hint=hint)


# Named parameters, `:name`, and their places in a text. The planner and Spark bind their values.


def parameter_at(tokens: Sequence[Token], index: int) -> str | None:
    """The name of the parameter that begins with this token; in `value:path` and `value::type` none does."""
    if not tokens[index].is_symbol(":") or index + 1 >= len(tokens):
        return None
    colon, name = tokens[index], tokens[index + 1]
    if name.kind is not Kind.NAME or name.start != colon.end:
        return None
    before = tokens[index - 1] if index else None
    touches = before is not None and before.end == colon.start
    value = before is not None and (before.kind is not Kind.SYMBOL or before.text in ")]:")
    return None if touches and value else name.text


def parameters_in(tokens: Sequence[Token]) -> list[tuple[str, Span]]:
    found = []
    for index in range(len(tokens)):
        name = parameter_at(tokens, index)
        if name is not None:
            found.append((name, Span(tokens[index].start, tokens[index + 1].end)))
    return found
