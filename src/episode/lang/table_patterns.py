"""Patterns in the place of a table, EVENTS ( … ) and SITUATIONS ( … ), or that are the whole text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.events.parser import INPUT_WORDS, parse_event_tokens
from episode.lang.events.syntax import EventQuery, Strategy
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.rows.parser import parse_clause_tokens
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.situations.parser import RELATIONS, parse_situation_tokens
from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Source, Span

# `t VERSION AS OF 3` and `t TIMESTAMP AS OF '…'` before a pattern: where the table's name ends, and its alias.
#
# The text goes to Spark as it is written; only the names matter here.


VERSIONS, TIMES = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")
INTERVALS = frozenset(
    f"{unit}{plural}"
    for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for plural in ("", "S")
)
_BEGINNINGS = ("FROM", "JOIN", "USING", "SELECT", "WHERE", "ON", "MATCH_RECOGNIZE")


def as_of(tokens: Sequence[Token], partners: Mapping[int, int], last: int) -> tuple[int, str | None] | None:
    """Return the last token of a table's name, and the alias, if the table up to `last` is read as of a version or a
    time; else None. partners: the index of the partner of every round bracket."""
    at = last
    while at >= 2:
        token = tokens[at]
        if token.is_symbol(")"):
            at = partners[at]
        elif token.is_symbol("(") or token.is_symbol(",") or token.upper in _BEGINNINGS:
            return None
        elif token.upper == "OF" and tokens[at - 1].upper == "AS" and tokens[at - 2].upper in VERSIONS + TIMES:
            before = at - 3
            if before >= 0 and tokens[before].upper == "FOR":
                before -= 1
            return before, _alias(tokens, at + 1, last)
        at -= 1
    return None


def _alias(tokens: Sequence[Token], first: int, last: int) -> str | None:
    """The alias after a version or a time, whose first token is given."""
    name = tokens[last]
    if last == first or not name.is_name:
        return None
    before = tokens[last - 1]
    if before.upper == "AS":
        return name.identifier
    if name.upper in INTERVALS and name.kind is Kind.NAME and tokens[max(last - 2, 0)].upper == "INTERVAL":
        return None
    ends = before.kind in (Kind.NUMBER, Kind.STRING, Kind.NAME, Kind.QUOTED) or before.is_symbol(")")
    return name.identifier if ends else None


# Patterns in the place of a table, EVENTS ( … ) and SITUATIONS ( … ), or as the whole text.
#
# A text that begins with PATTERN, or with FROM and has PATTERN where SQL has SELECT, is an event pattern. With DEFINE
# there, it is a situation pattern.


PatternQuery = Union[EventQuery, SituationQuery]

BEFORE_TABLES = ("FROM", "JOIN", "LATERAL", "STREAM", "TABLE", "USING")
RELATION_WORDS = frozenset(name.split("-")[0] for name in RELATIONS)


@dataclass(frozen=True)
class TableQuery:
    """One `EVENTS ( … )` or `SITUATIONS ( … )` in the place of a table. `span` covers all of it, but no alias."""

    span: Span
    query: PatternQuery
    word: str


@dataclass(frozen=True)
class TableLanguage:
    """A language whose patterns take the place of a table, as `word ( … )`, or are the whole text.

    begins: the word that a pattern begins with. is_pattern: do tokens between two indices look like one?
    """

    word: str
    begins: str
    is_pattern: Callable[[list[Token], int, int], bool]
    parse: Callable[[str, list[Token], int, int], Any]


def whole_pattern(source: str, tokens: list[Token]) -> PatternQuery | None:
    """Parse a text that is one pattern and nothing else; None for any other text."""
    end = len(tokens) - 1
    return next((one.parse(source, tokens, 0, end) for one in TABLE_LANGUAGES if one.is_pattern(tokens, 0, end)), None)


def pattern_of(text: str, strategy: Strategy | None = None) -> PatternQuery | MatchRecognize:
    """A text that can be nothing but a pattern, MATCH_RECOGNIZE ( … ) among them. strategy: of an event pattern whose
    WHERE has none."""
    tokens = tokenize(text)
    end = len(tokens) - 1
    if tokens[0].upper == "MATCH_RECOGNIZE":
        return clause_of(text)
    language = next((one for one in TABLE_LANGUAGES if one.is_pattern(tokens, 0, end)), None)
    if language is None or language.word == "EVENTS":
        return parse_event_tokens(text, tokens, 0, end, strategy)
    return language.parse(text, tokens, 0, end)


def clause_of(text: str) -> MatchRecognize:
    """Parse MATCH_RECOGNIZE ( … ), or the text between its brackets."""
    tokens = tokenize(text)
    if tokens[0].upper != "MATCH_RECOGNIZE":
        return parse_clause_tokens(text, tokens, 0, len(tokens) - 1)
    cursor = Cursor(text, tokens, 1)
    if not cursor.token.is_symbol("("):
        cursor.fail("Expected '(' after MATCH_RECOGNIZE.", None, "Write MATCH_RECOGNIZE ( … ).")
    closing = cursor.skip_group()
    if not cursor.at_end:
        cursor.fail(f"Expected nothing after MATCH_RECOGNIZE ( … ), found {describe(cursor.token)}.")
    return parse_clause_tokens(text, tokens, 2, closing)


def table_patterns(source: str, tokens: list[Token], partners: dict[int, int]) -> tuple[TableQuery, ...]:
    """Every EVENTS and SITUATIONS with a pattern inside; a table or function of that name is left alone.

    partners: the index of the partner of every round bracket.
    """
    found = []
    for index, token in enumerate(tokens):
        written = next((one for one in TABLE_LANGUAGES if one.word == token.upper), None)
        if written is None or not tokens[index + 1].is_symbol("("):
            continue
        begin, end = index + 2, partners[index + 1]
        inside = [one for one in TABLE_LANGUAGES if one.is_pattern(tokens, begin, end)]
        if not inside or not may_precede_table(tokens, index - 1):
            continue
        word = written.word
        if index == 0:
            hint = f"Write SELECT * FROM {word} ( … ), or {written.begins} … without {word}."
            raise Source(source).error(EpisodeSyntaxError, f"{word} ( … ) is a table, not a query.", token.span, hint)
        if word == "EVENTS" and inside[0] is not written:
            message = "This is a situation pattern, not an event pattern."
            raise Source(source).error(EpisodeSyntaxError, message, token.span, "Write SITUATIONS ( … ).")
        query = written.parse(source, tokens, begin, end)
        found.append(TableQuery(Span(token.start, tokens[end].end), query, word))
    return tuple(found)


def may_precede_table(tokens: Sequence[Token], index: int) -> bool:
    """Is this where a table stands? In `WHERE x MATCH_RECOGNIZE ( … )` it is not."""
    before = tokens[index] if index >= 0 else None
    return before is None or before.upper in BEFORE_TABLES or (before.kind is Kind.SYMBOL and before.text in "(,")


def _is_event_pattern(tokens: list[Token], begin: int, end: int) -> bool:
    """Is this PATTERN …, or FROM … PATTERN …? `FROM t pattern SELECT x` is SQL."""
    first, second = tokens[begin].upper, tokens[min(begin + 1, end)]
    if first not in INPUT_WORDS:
        misspelt = second.is_name and closest(first, ["PATTERN"]) is not None
        name = second.kind is Kind.SYMBOL and second.text in ".,="
        return (first == "PATTERN" and not name) or misspelt
    words = _clause_words(tokens, begin, end, "PATTERN", "DEFINE")
    return bool(words) and "DEFINE" not in words


def _is_situation_pattern(tokens: list[Token], begin: int, end: int) -> bool:
    """Is this DEFINE …, FROM … DEFINE …, or a PATTERN with relations and DEFINE forgotten?"""
    first, second, third = (tokens[min(begin + distance, end)] for distance in range(3))
    if first.upper in INPUT_WORDS:
        words = _clause_words(tokens, begin, end, "PATTERN", "DEFINE")
        return "DEFINE" in words or ("PATTERN" in words and _has_relation(tokens, words["PATTERN"] + 1, end))
    if first.upper == "PATTERN":
        return _has_relation(tokens, begin + 1, end)
    defined = second.is_name and third.upper == "AS"
    return first.upper == "DEFINE" or (defined and closest(first.upper, ["DEFINE"]) is not None)


def _has_relation(tokens: list[Token], begin: int, end: int) -> bool:
    """`A meets B`, `A met by B` or `A met-by B`, where an event pattern would have a name and an operator."""
    symbol, relation, after = (tokens[min(begin + distance, end)] for distance in range(3))
    names = (Kind.NAME, Kind.QUOTED)
    related = relation.kind is Kind.NAME and relation.text.lower().split("_")[0] in RELATION_WORDS
    return symbol.kind in names and related and (after.kind in names or after.is_symbol("-"))


def _clause_words(tokens: list[Token], begin: int, end: int, *wanted: str) -> dict[str, int]:
    """Return the indices of these words outside brackets, unless they are names, in a text that begins as an input and
    is not SQL."""
    if tokens[begin].upper != "FROM" and tokens[min(begin + 1, end)].upper not in ("BY", "BETWEEN"):
        return {}
    depth = 0
    found: dict[str, int] = {}
    for index in range(begin, end):
        token, before = tokens[index], tokens[index - 1]
        if token.kind is Kind.SYMBOL:
            depth += (token.text in "([{") - (token.text in ")]}")
            if depth == 0 and token.text == ">" and before.is_symbol("|"):
                return {}
        elif depth == 0:
            if token.upper in ("SELECT", "INSERT", "MATCH_RECOGNIZE"):
                return {}
            if token.upper in wanted and not before.is_symbol(".") and before.upper != "AS":
                found.setdefault(token.upper, index)
    return found


TABLE_LANGUAGES = [
    TableLanguage("SITUATIONS", "DEFINE", _is_situation_pattern, parse_situation_tokens),
    TableLanguage("EVENTS", "PATTERN", _is_event_pattern, parse_event_tokens),
]
"""Languages in the order in which they are tried on a text."""
