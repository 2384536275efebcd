"""MATCH_RECOGNIZE cut into its sections, each with the tokens after its keyword."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from episode.lang.cursor import Cursor, closest, describe
from episode.lang.lexer import Kind, Token
from episode.lang.rows.syntax import MatchMode

SECTION_ORDER = (
    "PARTITION BY, ORDER BY, MEASURES, MATCH_NUMBER, CLASSIFIER, ONE ROW | ALL ROWS PER MATCH, AFTER MATCH SKIP, "
    "match mode, PATTERN, WITHIN, SUBSET, DEFINE"
)
ORDER_HINT = f"The parts, in order: {SECTION_ORDER}."
SECTION_NAMES = (
    "PARTITION BY, ORDER BY, MEASURES, MATCH_NUMBER, CLASSIFIER, ONE ROW, ALL ROWS, ALL ROW, AFTER MATCH, "
    "MAXIMAL MATCH, INCREMENTAL MATCH, ALL MATCHES, PATTERN, WITHIN, SUBSET, DEFINE, INITIAL, SEEK"
)
SECTIONS = [tuple(name.split()) for name in SECTION_NAMES.split(", ")]
SECTION_BEGINNINGS = {words[:1] for words in SECTIONS}
WORDS_THAT_MAY_BE_COLUMNS = (("MEASURES",), ("DEFINE",), ("SUBSET",), ("WITHIN",))
NUMBERS_AND_LABELS = (("MATCH_NUMBER",), ("CLASSIFIER",))
BEFORE_ROWS_PER_MATCH = ("", "PARTITION BY", "ORDER BY", "MEASURES", "MATCH_NUMBER", "CLASSIFIER")
NAMES_OF_ROWS = ("ONE ROW", "ALL ROWS", "ALL ROW")
NAMES_OF_MODES = {
    "MAXIMAL MATCH": MatchMode.MAXIMAL,
    "INCREMENTAL MATCH": MatchMode.INCREMENTAL,
    "ALL MATCHES": MatchMode.ALL,
}
SHOWN_NAMES = {
    "ROWS PER MATCH": "ONE ROW or ALL ROWS PER MATCH",
    "AFTER MATCH": "AFTER MATCH SKIP",
    "MATCH MODE": "the match mode",
}
RANKS = (
    "PARTITION BY|ORDER BY|MEASURES, MATCH_NUMBER, CLASSIFIER|ROWS PER MATCH|AFTER MATCH, MATCH MODE|PATTERN|WITHIN|"
    "SUBSET|DEFINE"
)
RANK = {name: rank for rank, names in enumerate(RANKS.split("|")) for name in names.split(", ")}


@dataclass(frozen=True)
class ClauseSection:
    """One section of the clause: a keyword, and tokens[begin:end] after it."""

    name: str
    keyword: Token
    begin: int
    end: int


def _section_at(cursor: Cursor, current: str) -> tuple[str, ...] | None:
    """The section keywords at the cursor, unless they are a name there. `current` is the section being read."""
    before = cursor.peek(-1)
    if before.upper == "AS" or before.is_symbol(".") or cursor.peek().is_symbol("."):
        return None
    if current == "AFTER MATCH" and before.upper in ("TO", "FIRST", "LAST") and not _begins_for_sure(cursor):
        return None
    for words in SECTIONS:
        if cursor.at_words(*words):
            following = cursor.peek(len(words))
            if words == ("PATTERN",) and not following.is_symbol("("):
                continue
            if words in (("INITIAL",), ("SEEK",)) and following.upper != "PATTERN":
                continue
            if words == ("WITHIN",) and following.upper == "GROUP":
                continue
            if words in NUMBERS_AND_LABELS and not _is_clause(cursor, current):
                continue
            if words in WORDS_THAT_MAY_BE_COLUMNS and _is_column(cursor.token, before, following, current):
                continue
            return words
    return None


def _is_clause(cursor: Cursor, current: str) -> bool:
    """Is MATCH_NUMBER or CLASSIFIER a clause? Then it follows a finished item; as an expression it begins one."""
    if current not in BEFORE_ROWS_PER_MATCH or cursor.peek().is_symbol("("):
        return False
    if current == "MEASURES":
        return cursor.peek(-2).upper == "AS"
    return not (cursor.peek(-1).is_symbol(",") or cursor.peek(-1).upper == "BY")


def _begins_for_sure(cursor: Cursor) -> bool:
    """No label is followed by these: `SKIP TO LAST PATTERN (…)` skips to a label called LAST."""
    return (cursor.at_words("PATTERN") and cursor.peek().is_symbol("(")) or cursor.peek().upper in ("MATCH", "MATCHES")


def _is_column(word: Token, before: Token, following: Token, current: str) -> bool:
    """After a section keyword an operand follows; after a column of that name, an operator or a comma does."""
    if following.is_symbol(":") and following.start > word.end:  # a parameter
        return False
    if following.kind is Kind.SYMBOL and following.text not in "(-+":
        return True
    if current in ("PARTITION BY", "ORDER BY"):
        listed = before.upper == "BY" or before.is_symbol(",")
        return listed and (following.upper in ("ASC", "DESC", "NULLS") or (following.upper,) in SECTION_BEGINNINGS)
    return current in ("MEASURES", "DEFINE") and following.upper in ("AS", "AND", "OR", "IS")


def cut(cursor: Cursor) -> dict[str, ClauseSection]:
    """Sections by name; each at most once, and in order."""
    sections: dict[str, ClauseSection] = {}
    current: ClauseSection | None = None
    if cursor.at_end:
        cursor.fail("MATCH_RECOGNIZE is empty.", None, ORDER_HINT)
    while not cursor.at_end:
        words = _section_at(cursor, current.name if current else "")
        if words is None:
            if current is None:
                fail_unexpected(cursor, "at the beginning of MATCH_RECOGNIZE")
            cursor.skip()
            continue
        first, last = cursor.token, cursor.peek(len(words) - 1)
        keyword = Token(Kind.NAME, " ".join(words), first.start, last.end)
        if words in (("INITIAL",), ("SEEK",)):
            hint = f"Leave it out, or write OVER (… ROWS BETWEEN … {words[0]} PATTERN …)."
            cursor.fail(f"{words[0]} belongs to row patterns in windows.", first, hint)
        if current is not None:
            sections[current.name] = ClauseSection(current.name, current.keyword, current.begin, cursor.index)
        name = keyword.upper
        name = "ROWS PER MATCH" if name in NAMES_OF_ROWS else "MATCH MODE" if name in NAMES_OF_MODES else name
        if name in sections:
            cursor.fail(f"{_capital(_display_name(name))} is given twice.", keyword, "Keep one of them.")
        late = next((other for other in sections if RANK[other] > RANK[name]), None)
        if late is not None:
            cursor.fail(f"{_capital(_display_name(name))} must come before {_display_name(late)}.", keyword, ORDER_HINT)
        cursor.index += len(words)
        current = ClauseSection(name, keyword, cursor.index, cursor.end)
        sections[name] = current
    return sections


def _display_name(name: str) -> str:
    return SHOWN_NAMES.get(name, name)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def fail_unexpected(cursor: Cursor, where: str, hint: str | None = None) -> NoReturn:
    """A token that no part of the clause takes; a misspelt keyword is recognised."""
    meant = misspelt_section(cursor.token)
    if meant is not None:
        hint = f"Did you mean {meant}?"
    cursor.fail(f"Unexpected {describe(cursor.token)} {where}.", None, hint or ORDER_HINT)


def misspelt_section(token: Token) -> str | None:
    """The word of a section that a word is close to, but not equal."""
    words = [word for words in SECTIONS for word in words if len(word) > 3]
    meant = closest(token.upper, words) if token.upper else None
    return None if meant == token.upper else meant
