"""Does a text have episode's clauses? Everything else is Spark's, untouched.

Words count as tokens: not inside strings, quoted names, comments and hints, which begin and end where Spark's own lexer
lets them begin and end. A text is episode's if

1. it begins with PATTERN or DEFINE; with CREATE, DROP, SHOW, DESCRIBE or DESC and then STREAM (SHOW: STREAMS; after
   DESCRIBE and DESC a name follows); with PARTITION, ORDER, START, TIME or TYPE and then BY or BETWEEN; or with FROM,
   and outside brackets has a word PATTERN with something after it, but no SELECT, INSERT, MATCH_RECOGNIZE or `|>`;
2. MATCH_RECOGNIZE is followed by PARTITION, MEASURES or PATTERN; or by brackets that begin with one of its clauses (or
   any word and BY), or that hold `PATTERN (`. `t match_recognize (a, b)` is a table with an alias;
3. EVENTS or SITUATIONS, in the place of a table, is followed by brackets that begin with PATTERN, DEFINE, FROM or any
   word and BY or BETWEEN. `events(time => 1)` is a function;
4. OVER, or AS after a WINDOW, is followed by brackets that hold `PATTERN (` or `DEFINE name AS`.

The other half of this test is in Java; both are tested against tests/clients/texts.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, Token, iterate_tokens, words_of
from episode.lang.table_patterns import may_precede_table

_RARE = ("MATCH_RECOGNIZE", "PATTERN", "DEFINE", "STREAM")
"""Words of which every text with a clause has one. A text without them is not read any further."""
_AROUND = re.compile(r"\b(?:MATCH_RECOGNIZE|EVENTS|SITUATIONS|OVER|WINDOW)\b")
"""Words of which every clause that a text does not begin with has one."""
_STREAMS = {"CREATE": "STREAM", "DROP": "STREAM", "SHOW": "STREAMS", "DESCRIBE": "STREAM", "DESC": "STREAM"}
_INPUTS = ("PARTITION", "ORDER", "START", "TIME", "TYPE")
_FIRST = ("PATTERN", "DEFINE", "FROM", *_STREAMS, *_INPUTS)
_CLAUSES = words_of("PARTITION ORDER MEASURES ONE ALL AFTER INITIAL SEEK MAXIMAL INCREMENTAL PATTERN SUBSET DEFINE")
_END = Token(Kind.END, "", 0, 0)


def has_own_clauses(text: str) -> bool:
    """Is this text for episode? No work is done for texts without one of its words, and hardly any without a clause."""
    upper = text.upper()
    if not any(word in upper for word in _RARE):
        return False
    return (bool(_AROUND.search(upper)) or _first_word(text) in _FIRST) and _is_own(_readable_tokens(text))


def _first_word(text: str) -> str:
    with suppress(EpisodeSyntaxError):
        return next(iterate_tokens(text), _END).upper
    return ""


def _readable_tokens(text: str) -> list[Token]:
    """The tokens up to the first place that cannot be read, and some more, so that every token has three after it."""
    tokens = []
    with suppress(EpisodeSyntaxError):  # reported by whoever runs the text
        for token in iterate_tokens(text):
            tokens.append(token)
    return [*tokens, _END, _END, _END]


def _is_own(tokens: Sequence[Token]) -> bool:
    return _begins_as_own(tokens) or any(
        (word == "MATCH_RECOGNIZE" and _is_row_pattern(tokens, at))
        or (word in ("EVENTS", "SITUATIONS") and _is_table_pattern(tokens, at))
        or (word in ("OVER", "AS") and _is_window(tokens, at))
        for at, word in enumerate(token.upper for token in tokens)
        if word
    )


def _begins_as_own(tokens: Sequence[Token]) -> bool:
    first, second = tokens[0].upper, tokens[1].upper
    if first in ("PATTERN", "DEFINE"):
        return True
    if first in _STREAMS:
        return second == _STREAMS[first] and (not first.startswith("DESC") or tokens[2].is_name)
    if first != "FROM":
        return first in _INPUTS and second in ("BY", "BETWEEN")
    level = list(_level(tokens, 0))
    words = {tokens[at].upper for at in level}
    if words & {"SELECT", "INSERT", "MATCH_RECOGNIZE"} or any(_is_pipe(tokens, at) for at in level):
        return False
    return any(
        tokens[at].upper == "PATTERN"
        and not (tokens[at - 1].is_symbol(".") or tokens[at - 1].upper == "AS")
        and not (tokens[at + 1].kind is Kind.END or tokens[at + 1].is_symbol(","))
        for at in level
    )


def _is_pipe(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].is_symbol("|") and tokens[at + 1].is_symbol(">")


def _is_row_pattern(tokens: Sequence[Token], at: int) -> bool:
    following = tokens[at + 1]
    if at and tokens[at - 1].is_symbol("."):
        return False
    if not following.is_symbol("("):
        return following.upper in ("PARTITION", "MEASURES", "PATTERN")
    first, second = tokens[at + 2], tokens[at + 3]
    begins = first.upper in _CLAUSES and not (second.is_symbol(",") or second.is_symbol(")"))
    return begins or second.upper == "BY" or _has_pattern(tokens, at + 2)


def _is_table_pattern(tokens: Sequence[Token], at: int) -> bool:
    if not tokens[at + 1].is_symbol("(") or not may_precede_table(tokens, at - 1):
        return False
    first, second = tokens[at + 2], tokens[at + 3]
    if second.kind is Kind.SYMBOL and second.text in ".,=)":
        return False
    return first.upper in ("PATTERN", "DEFINE", "FROM") or second.upper in ("BY", "BETWEEN")


def _is_window(tokens: Sequence[Token], at: int) -> bool:
    if not tokens[at + 1].is_symbol("(") or not _has_pattern(tokens, at + 2, "DEFINE"):
        return False
    return tokens[at].upper == "OVER" or any(one.upper == "WINDOW" for one in tokens[:at])


def _has_pattern(tokens: Sequence[Token], begin: int, *words: str) -> bool:
    """Do the brackets whose first token is at `begin` hold `PATTERN (`? words: DEFINE, for `DEFINE name AS`."""
    for at in _level(tokens, begin):
        word = tokens[at].upper
        if word == "PATTERN" and tokens[at + 1].is_symbol("("):
            return True
        if word in words and tokens[at + 2].upper == "AS":
            return True
    return False


def _level(tokens: Sequence[Token], begin: int) -> Iterator[int]:
    """Indices of the tokens from `begin` on that are in no further brackets, up to the end of the brackets around."""
    depth = 0
    for at in range(begin, len(tokens) - 3):
        depth += tokens[at].nesting
        if depth < 0:
            return
        if depth == 0:
            yield at
