"""A cursor over tokens with the few moves that every parser here makes, and errors that show the place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NoReturn, TypeVar

from episode.errors import EpisodeError, EpisodeSyntaxError
from episode.lang.lexer import Kind, Token
from episode.lang.syntax import Source, Span, Star

CLOSING = {"(": ")", "[": "]", "{": "}"}
LONGEST_SHOWN = 40
Item = TypeVar("Item")


class Cursor:
    """Reads tokens[index:end]; `source` is the whole query for error messages."""

    def __init__(self, source: str, tokens: Sequence[Token], index: int = 0, end: int | None = None) -> None:
        self.source = source
        self.tokens = tokens
        self.index = index
        self.end = len(tokens) - 1 if end is None else end
        stop = tokens[self.end]
        self._end_token = Token(Kind.END, stop.text, stop.start, stop.end)

    @property
    def token(self) -> Token:
        return self.tokens[self.index] if self.index < self.end else self._end_token

    def peek(self, distance: int = 1) -> Token:
        at = self.index + distance
        return self.tokens[at] if 0 <= at < self.end else self._end_token

    @property
    def at_end(self) -> bool:
        return self.index >= self.end

    def part(self, begin: int, end: int) -> Cursor:
        return Cursor(self.source, self.tokens, begin, end)

    @property
    def rest(self) -> Span:
        """From the token at the cursor to the last one."""
        return self.span_of(self.index, self.end)

    def span_of(self, begin: int, end: int) -> Span:
        return Span(self.tokens[begin].start, self.tokens[end - 1].end)

    def advance(self) -> Token:
        token = self.token
        self.index += 1
        return token

    def at_words(self, *words: str) -> bool:
        """Do the next tokens spell these keywords?"""
        return all(self.peek(i).upper == word for i, word in enumerate(words))

    def accept_words(self, *words: str) -> bool:
        if self.at_words(*words):
            self.index += len(words)
            return True
        return False

    def accept_symbol(self, symbol: str) -> bool:
        if self.token.is_symbol(symbol):
            self.index += 1
            return True
        return False

    def expect_symbol(self, symbol: str, what: str, hint: str | None = None) -> Token:
        if not self.token.is_symbol(symbol):
            self.fail(f"Expected '{symbol}' {what}, found {describe(self.token)}.", None, hint)
        return self.advance()

    def expect_words(self, *words: str, after: str, hint: str | None = None) -> None:
        for word in words:
            if self.token.upper != word:
                self.fail(f"Expected {' '.join(words)} after {after}, found {describe(self.token)}.", None, hint)
            self.advance()

    def expect_identifier(self, what: str, hint: str | None = None) -> Token:
        token = self.token
        if not token.is_identifier:
            self.fail(f"Expected {what}, found {describe(token)}.", None, hint)
        return self.advance()

    def read_list(self, read: Callable[[Cursor], Item]) -> list[Item]:
        """Read an item, and a further one after each comma."""
        items = [read(self)]
        while self.accept_symbol(","):
            items.append(read(self))
        return items

    def skip_to_comma(self) -> int:
        """To the next comma outside brackets, or the end; returns its index."""
        while not self.at_end and not self.token.is_symbol(","):
            self.skip()
        return self.index

    def skip(self) -> None:
        """To after the token at the cursor, or the group that it opens."""
        nesting = self.token.nesting
        if nesting < 0:
            self.fail(f"This '{self.token.text}' closes nothing.")
        if nesting > 0:
            self.skip_group()
        else:
            self.advance()

    def skip_group(self) -> int:
        """From an opening bracket to after its closing one; returns the index of the closing token."""
        stack = [self.token]
        for at in range(self.index + 1, self.end):
            token = self.tokens[at]
            if token.kind is not Kind.SYMBOL:
                continue
            if token.text in CLOSING:
                stack.append(token)
            elif token.text == CLOSING[stack[-1].text]:
                stack.pop()
                if not stack:
                    self.index = at + 1
                    return at
            elif token.text == ")":
                break
            elif token.text in "]}":
                if token.text in [CLOSING[opening.text] for opening in stack]:
                    break
                self.fail(f"This '{token.text}' closes nothing.", token)
        opening = stack[-1]
        hint = f"Add the missing '{CLOSING[opening.text]}'."
        return self.fail(f"This '{opening.text}' is not closed.", opening, hint)

    def span_from(self, start: int) -> Span:
        """From an offset to the end of the last token read."""
        return Span(start, self.tokens[self.index - 1].end if self.index else start)

    def fail(
        self,
        message: str,
        place: Token | Span | None = None,
        hint: str | None = None,
        kind: type[EpisodeError] = EpisodeSyntaxError,
    ) -> NoReturn:
        """Complain about a place, by default the token at the cursor."""
        place = place or self.token
        raise Source(self.source).error(kind, message, Span(place.start, place.end), hint)


def top_level(cursor: Cursor, begin: int, end: int) -> Iterator[int]:
    """Indices of the tokens outside brackets and CASE … END; names after a dot are left out."""
    at = cursor.part(begin, end)
    cases = 0
    while not at.at_end:
        token, after_dot = at.token, at.index > begin and at.peek(-1).is_symbol(".")
        if token.nesting > 0:
            at.skip_group()
            continue
        if not after_dot:
            if token.upper == "CASE":
                cases += 1
            elif token.upper == "END" and cases:
                cases -= 1
            elif not cases:
                yield at.index
        at.advance()


def top_words(cursor: Cursor, begin: int, end: int, *words: str) -> list[int]:
    """Return the indices of these words in tokens[begin:end] outside brackets and CASE, without the AND of BETWEEN."""
    found: list[int] = []
    between = 0
    for index in top_level(cursor, begin, end):
        word = cursor.tokens[index].upper or cursor.tokens[index].text
        if word == "BETWEEN":
            between += 1
        elif word in ("AND", "∧") and between:
            between -= 1
        elif word in words:
            found.append(index)
    return found


def describe(token: Token) -> str:
    """A token in a message: as written, but short and on one line."""
    if not token.text:
        return "the end"
    text = " ".join(token.text.split())
    shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
    return shown if token.kind in (Kind.STRING, Kind.QUOTED) else f"'{shown}'"


def label_name(token: Token) -> str:
    """Labels are upper case unless quoted."""
    return token.identifier.upper() if token.kind is Kind.NAME else token.identifier


def known_labels(labels: Iterable[str]) -> str:
    return f"Labels of this pattern: {', '.join(sorted(labels))}."


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one most likely stands for."""
    by_lower = {other.lower(): other for other in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return by_lower[found[0]] if found else None


def star_at(tokens: Sequence[Token], at: int) -> Star:
    """The `*` of a token, with the place of the list of EXCEPT after it."""
    opening = tokens[min(at + 2, len(tokens) - 1)]
    excepts = tokens[at + 1].upper in ("EXCEPT", "EXCLUDE") and opening.is_symbol("(")
    return Star(tokens[at].span, opening.end if excepts else None)
