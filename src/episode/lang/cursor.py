"""A cursor over tokens with the few moves that every parser here makes, and errors that show the place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, Token
from episode.lang.syntax import Span

CLOSING = {"(": ")", "[": "]", "{": "}"}


class Cursor:
    """Reads tokens[index:end]; `source` is the whole query for error messages."""

    def __init__(self, source: str, tokens: Sequence[Token], index: int = 0, end: int | None = None) -> None:
        self.source = source
        self.tokens = tokens
        self.index = index
        self.end = len(tokens) - 1 if end is None else end
        stop = tokens[self.end]
        self._end_token = Token(Kind.END, "", stop.start, stop.start)

    @property
    def token(self) -> Token:
        return self.tokens[self.index] if self.index < self.end else self._end_token

    def peek(self, distance: int = 1) -> Token:
        at = self.index + distance
        return self.tokens[at] if 0 <= at < self.end else self._end_token

    @property
    def at_end(self) -> bool:
        return self.index >= self.end

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

    def expect_symbol(self, symbol: str, what: str) -> Token:
        if not self.token.is_symbol(symbol):
            self.fail(f"Expected {symbol!r} {what}, found {describe(self.token)}.")
        return self.advance()

    def expect_words(self, *words: str, after: str) -> None:
        for word in words:
            if self.token.upper != word:
                self.fail(f"Expected {' '.join(words)} after {after}, found {describe(self.token)}.")
            self.advance()

    def expect_identifier(self, what: str) -> Token:
        token = self.token
        if token.kind in (Kind.NAME, Kind.QUOTED) or token.is_double_quoted:
            return self.advance()
        self.fail(f"Expected {what}, found {describe(token)}.")

    def skip_group(self) -> int:
        """From an opening bracket to behind its closing one; returns the index of the closing token."""
        opening = self.token
        stack = [CLOSING[opening.text]]
        at = self.index + 1
        while at < self.end:
            token = self.tokens[at]
            if token.kind is Kind.SYMBOL:
                if token.text in CLOSING:
                    stack.append(CLOSING[token.text])
                elif token.text == stack[-1]:
                    stack.pop()
                    if not stack:
                        self.index = at + 1
                        return at
                elif token.text in ")]}":
                    break
            at += 1
        raise EpisodeSyntaxError(
            f"This {opening.text!r} is not closed.",
            source=self.source,
            position=opening.start,
            hint=f"Add the missing {CLOSING[opening.text]!r}.",
        )

    def span_from(self, start: int) -> Span:
        """From an offset to the end of the last token read."""
        return Span(start, self.tokens[self.index - 1].end if self.index else start)

    def fail(self, message: str, token: Token | None = None, hint: str | None = None) -> NoReturn:
        place = token or self.token
        raise EpisodeSyntaxError(
            message, source=self.source, position=place.start, length=max(1, place.end - place.start), hint=hint
        )


def describe(token: Token) -> str:
    return "the end" if token.kind is Kind.END else repr(token.text)


def label_name(token: Token) -> str:
    """Labels are upper case unless quoted."""
    return token.identifier.upper() if token.kind is Kind.NAME else token.identifier
