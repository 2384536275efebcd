"""Clauses, WITHIN, items of RETURN and references to columns: parsed alike in event and situation patterns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NoReturn

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.duration import EXAMPLES, UNITS, parse_window
from episode.lang.lexer import CURLY_QUOTES, Kind, Token, words_of
from episode.lang.syntax import Duration, Source, Span

SIGNS = {"∧": "AND", "≥": ">=", "≤": "<=", "≠": "<>"}
NO_OPERAND = words_of("""
    AND OR NOT THEN ELSE END WHEN BETWEEN IN IS LIKE ILIKE RLIKE REGEXP DIV AS WHERE WITHIN RETURN
""")
"""Words after `20%` that make it a percentage and not a division with remainder."""
PERCENT = "Write 20% for 0.20, without a blank, or a.x % 3 for the remainder of a division."


def read_path(cursor: Cursor) -> tuple[str, ...]:
    """`.x.y` at the cursor."""
    path = []
    while cursor.token.is_symbol(".") and cursor.peek().is_name:
        cursor.advance()
        path.append(cursor.advance().identifier)
    if cursor.token.is_symbol("."):
        cursor.fail(f"Expected an attribute after the dot, found {describe(cursor.peek())}.", cursor.peek())
    return tuple(path)


def read_sign(cursor: Cursor) -> str | None:
    """Spark's text for a percentage, a mathematical sign or a string in curly quotes at the cursor."""
    token = cursor.token
    if token.kind is Kind.STRING and token.text[0] in "".join(CURLY_QUOTES):
        cursor.advance()
        return plain_string(token.text)
    if token.kind is Kind.SYMBOL and token.text in SIGNS:
        cursor.advance()
        return SIGNS[token.text]
    if token.is_symbol("%") and not _begins_operand(cursor.peek()):
        cursor.fail("This '%' has no number directly before it and no operand after it.", token, PERCENT)
    sign = cursor.peek()
    if token.kind is not Kind.NUMBER or not sign.is_symbol("%") or sign.start != token.end:
        return None
    if _begins_operand(cursor.peek(2)):
        return None
    if not re.fullmatch(r"\d+(\.\d*)?|\.\d+", token.text, re.ASCII):
        cursor.fail(f"{describe(token)} cannot be a percentage.", token, "Write for example 20% or 2.5%.")
    cursor.index += 2
    _, digits, exponent = Decimal(token.text).as_tuple()
    return format(Decimal((0, digits, int(exponent) - 2)), "f")


def plain_string(text: str) -> str:
    """A string in curly quotes as Spark writes it; what a backslash protects stays so."""
    inner = re.sub(r"\\.|'", lambda found: found[0] if found[0] != "'" else "\\'", text[1:-1], flags=re.DOTALL)
    return f"'{inner}'"


def _begins_operand(token: Token) -> bool:
    if token.kind is Kind.SYMBOL:
        return token.text == "("
    return token.kind is not Kind.END and token.upper not in NO_OPERAND


SQL_CLAUSES = [
    tuple(words.split()) for words in ("FROM", "PARTITION BY", "ORDER BY", "TYPE BY", "GROUP BY", "HAVING", "SELECT")
]
ITEM = "A column of RETURN is written expression AS name."


@dataclass(frozen=True)
class Grammar:
    """The clauses of a language, in order, the first one required; with the words for messages about them.

    inputs: the words that begin the parts of the input, before the first clause. repeated: clauses that the same word
    may continue. elsewhere: what to write instead of clauses of SQL that the language does not have. inside: which of
    those are parts of a clause. functions: words that begin a clause unless a bracket follows.
    """

    name: str
    clauses: tuple[str, ...]
    inputs: tuple[str, ...]
    order_hint: str
    input_hint: str
    example: str
    elsewhere: dict[tuple[str, ...], str]
    repeated: tuple[str, ...] = ()
    inside: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    functions: tuple[str, ...] = ()

    @property
    def first(self) -> str:
        return self.clauses[0]


def cut_clauses(cursor: Cursor, grammar: Grammar) -> dict[str, Cursor]:
    """A cursor for each clause; each at most once, and in order."""
    if not cursor.at_words(grammar.first):
        _fail_without_first(cursor, grammar)
    current = cursor.advance().upper
    begins: dict[str, int] = {current: cursor.index}
    ends: dict[str, int] = {}
    while not cursor.at_end:
        token = cursor.token
        called = token.upper in grammar.functions and cursor.peek().is_symbol("(")
        continues = token.upper == current and current in grammar.repeated
        if token.upper in grammar.clauses and not (called or continues or _is_name(cursor)):
            _check_order(cursor, token, begins, grammar)
            ends[current] = cursor.index
            current = token.upper
            begins[current] = cursor.index + 1
        _refuse_other_clause(cursor, grammar, grammar.inside.get(current, ()))
        cursor.skip()
    ends[current] = cursor.end
    return {name: cursor.part(begin, ends[name]) for name, begin in begins.items()}


def _is_name(cursor: Cursor) -> bool:
    """Keywords as names: `a.within`, `x AS return`, `Return.x`."""
    before = cursor.peek(-1)
    return before.is_symbol(".") or before.upper == "AS" or cursor.peek().is_symbol(".")


def _refuse_other_clause(cursor: Cursor, grammar: Grammar, inside: tuple[tuple[str, ...], ...] = ()) -> None:
    """Clauses of SQL, and those of the input after the first clause. inside: of those, parts of the present clause."""
    for words, hint in grammar.elsewhere.items():
        if words in inside:
            continue
        if cursor.at_words(*words) and not _is_name(cursor) and cursor.peek(-1).upper != "DISTINCT":
            last = cursor.peek(len(words) - 1)
            place = Token(Kind.NAME, " ".join(words), cursor.token.start, last.end)
            if words[0] in grammar.inputs:
                cursor.fail(f"{place.text} must come before {grammar.first}.", place, grammar.input_hint)
            cursor.fail(f"{place.text} is not a part of {grammar.name}.", place, hint)


def _check_order(cursor: Cursor, token: Token, seen: dict[str, int], grammar: Grammar) -> None:
    if token.upper in seen:
        cursor.fail(f"{token.upper} is given twice.", token, "Keep one of them.")
    place = grammar.clauses.index(token.upper)
    late = next((name for name in seen if grammar.clauses.index(name) > place), None)
    if late is not None:
        cursor.fail(f"{token.upper} must come before {late}.", token, grammar.order_hint)


def _fail_without_first(cursor: Cursor, grammar: Grammar) -> NoReturn:
    token, first = cursor.token, grammar.first
    if token.upper in grammar.inputs:
        cursor.fail(f"{describe(token)} is not expected here.", None, grammar.input_hint)
    _refuse_other_clause(cursor, grammar)
    later = any(cursor.tokens[index].upper == first for index in range(cursor.index, cursor.end))
    if token.upper in grammar.clauses and later:
        cursor.fail(f"{first} must come before {token.upper}.", None, grammar.order_hint)
    if token.upper in grammar.clauses or cursor.at_end:
        cursor.fail(f"{first} is missing.", None, grammar.example)
    cursor.fail(f"Expected {first}, found {describe(token)}.", None, grammar.example)


def with_suggestion(
    error: EpisodeSyntaxError, tokens: list[Token], begin: int, end: int, words: tuple[str, ...]
) -> EpisodeSyntaxError:
    """Return the error with a hint if a misspelt clause word is at or right before its place."""
    at = next((index for index in range(begin, end) if tokens[index].start == error.position), None)
    for index in () if at is None else (at, at - 1):
        word = tokens[index].upper if index >= begin else ""
        similar = closest(word, words) if len(word) > 3 and word not in words else None
        if similar is not None and not (index > begin and tokens[index - 1].is_symbol(".")):
            place = tokens[index]
            message = error.message if index == at else f"{describe(place)} is not expected here."
            return Source(error.source or "").error(EpisodeSyntaxError, message, place.span, f"Did you mean {similar}?")
    return error


def read_table(cursor: Cursor, grammar: Grammar) -> tuple[str, Span]:
    """The name of the table after FROM, as written."""
    start = cursor.token
    if start.is_symbol("("):
        cursor.fail("FROM takes the name of a table here.", None, "Name the subquery: WITH t AS (SELECT …) ….")
    first = cursor.index
    refuse_keyword(cursor, "a table", grammar)
    cursor.expect_identifier("a table", grammar.input_hint)
    while cursor.accept_symbol("."):
        cursor.expect_identifier("the name of a table", grammar.input_hint)
    table = "".join(token.text for token in cursor.tokens[first : cursor.index])
    return table, cursor.span_from(start.start)


def read_columns(cursor: Cursor, what: str, grammar: Grammar, qualifiers: tuple[str, ...] = ()) -> tuple[str, ...]:
    return tuple(cursor.read_list(lambda cursor: read_column(cursor, what, grammar, qualifiers)))


def read_column(cursor: Cursor, what: str, grammar: Grammar, qualifiers: tuple[str, ...] = ()) -> str:
    """A column of the input, which may have one of these qualifiers."""
    refuse_keyword(cursor, what, grammar)
    token = cursor.expect_identifier(what, grammar.input_hint)
    if cursor.token.is_symbol(".") and token.identifier.lower() in [name.lower() for name in qualifiers]:
        cursor.advance()
        token = cursor.expect_identifier(what, grammar.input_hint)
    elif cursor.token.is_symbol(".") and qualifiers:
        known = " or ".join(qualifiers)
        hint = f"A column may have {known} before it."
        cursor.fail(f"{token.identifier} is not the table of this query.", token, hint)
    if cursor.token.is_symbol("."):
        cursor.fail(
            "Only columns are allowed here, without table or field.", None, "Compute it as a column of the input."
        )
    return token.identifier


def read_time(cursor: Cursor, grammar: Grammar, qualifiers: tuple[str, ...] = ()) -> str:
    column = read_column(cursor, "the column of the event time", grammar, qualifiers)
    if cursor.token.is_symbol(",") or cursor.token.upper in ("ASC", "DESC"):
        cursor.fail("Events are ordered by one column of time, ascending.", None, grammar.input_hint)
    return column


def accept_by(cursor: Cursor, word: str, grammar: Grammar) -> bool:
    if not cursor.accept_words(word):
        return False
    cursor.expect_words("BY", after=word, hint=grammar.input_hint)
    return True


def refuse_keyword(cursor: Cursor, what: str, grammar: Grammar) -> None:
    """A name is missing where a part begins; but `ORDER BY type TYPE BY kind` has a column called type."""
    words, after = (*grammar.clauses, *grammar.inputs), cursor.peek()
    named = after.upper in words or after.is_symbol(".") or after.is_symbol(",")
    if cursor.token.upper in words and not named:
        cursor.fail(f"Expected {what}, found {describe(cursor.token)}.", None, grammar.input_hint)


def read_within(cursor: Cursor, grammar: Grammar) -> Duration:
    if cursor.at_end:
        cursor.fail(f"Expected a duration after WITHIN, found {describe(cursor.token)}.", None, EXAMPLES)
    duration = parse_window(cursor)
    if not cursor.at_end:
        refuse_unit(cursor)
        cursor.fail(f"Unexpected {describe(cursor.token)} after WITHIN.", None, grammar.order_hint)
    return duration


def refuse_unit(cursor: Cursor) -> None:
    """A name after a number without a unit was meant to be one."""
    before = cursor.peek(-1)
    if cursor.token.kind is Kind.NAME and before.kind is Kind.NUMBER and not before.text[-1].isalpha():
        cursor.fail(f"{describe(cursor.token)} is not a unit of time.", None, UNITS)


def split_list(cursor: Cursor, what: str, hint: str) -> Iterator[Cursor]:
    """A cursor for each item between commas outside brackets."""
    while True:
        begin = cursor.index
        if cursor.skip_to_comma() == begin:
            before = cursor.tokens[begin - 1].text
            cursor.fail(f"Expected {what} after '{before}', found {describe(cursor.token)}.", None, hint)
        yield cursor.part(begin, cursor.index)
        if cursor.at_end:
            return
        cursor.advance()


def split_name(cursor: Cursor, star_hint: str) -> tuple[Cursor, str]:
    """Return the expression of an item of RETURN, and the name after AS or an empty text."""
    begin, end, name = cursor.index, cursor.end, ""
    if cursor.token.is_symbol("*") and end - begin == 1:
        cursor.fail("* is not a column of RETURN.", None, star_hint)
    if cursor.tokens[begin].upper == "AS":
        cursor.fail("Expected an expression before AS.", None, ITEM)
    if end - begin > 2 and cursor.tokens[end - 2].upper == "AS" and not cursor.tokens[end - 3].is_symbol("."):
        token = cursor.tokens[end - 1]
        if not token.is_name:
            cursor.fail(f"Expected a name after AS, found {describe(token)}.", token, ITEM)
        name, end = token.identifier, end - 2
    elif cursor.tokens[end - 1].upper == "AS" and end - begin > 1 and not cursor.tokens[end - 2].is_symbol("."):
        cursor.fail("A name is missing after AS.", cursor.tokens[end - 1], ITEM)
    return cursor.part(begin, end), name


def check_name(cursor: Cursor, name: str, span: Span, seen: set[str], added: tuple[str, ...]) -> None:
    """Names of columns are different, and not those that are added to every result."""
    if name.lower() in seen:
        cursor.fail(f"Two columns of RETURN are called {name}.", span, ITEM)
    if name.lower() in added:
        listed = f"{', '.join(added[:-1])} and {added[-1]}"
        hint = f"{listed} are added to every result; choose another name with AS."
        cursor.fail(f"A column of RETURN cannot be called {name}.", span, hint)
    seen.add(name.lower())
