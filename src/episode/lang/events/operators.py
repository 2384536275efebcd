"""The operators of event patterns: `A; !B; C*` and `SEQ(A a, ~B b, C+ c[])` to one tree.

whole     := pattern | '(' either (',' either)+ ')'
pattern   := either (';' either)*
either    := both (('|' | '∪' | 'U') both)*     U only before SEQ or '('
both      := unary ('&' unary)*
unary     := ('!' | '~') unary | closed
closed    := primary [['^'] '*' | ['^'] '+' | '^' n | '{' n '}'] [variable ['[' ']']]
primary   := Class | SEQ '(' either (',' either)* ')' | '(' pattern ')'

See decisions 46 and 47.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn, Union

from episode.lang.cursor import Cursor, describe, top_level
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventClass,
    EventPattern,
    Negation,
    Sequence,
    children,
)
from episode.lang.lexer import SUPERSCRIPTS, Kind, Token
from episode.lang.syntax import Span

MAXIMUM_DEPTH = 50
MAXIMUM_COUNT = 2**31 - 1
PLAIN_DIGITS = str.maketrans(SUPERSCRIPTS, "0123456789")
RESERVED = ("SEQ", "AND", "OR", "NOT", "NULL", "TRUE", "FALSE", "PATTERN", "WHERE", "WITHIN", "RETURN")
OPERATORS = "Events are joined by ; (then), & (and), | (or); ! is not, and *, + and ^5 repeat."
COUNTS = "A count is written B^5."
WORD_OPERATORS = {"AND": "&", "OR": "|", "NOT": "!"}
Joined = Union[type[Sequence], type[Disjunction], type[Conjunction]]


def parse_operators(cursor: Cursor) -> EventPattern:
    """The pattern between the cursor and its end; `PATTERN(a, b+, c)` is `PATTERN SEQ(a, b+, c)`."""
    if cursor.token.is_symbol("(") and _is_list(cursor):
        pattern = _seq(cursor, 0)
    else:
        pattern = _parse_operands(cursor, Sequence, 0, False)
    if not cursor.at_end:
        _fail_unexpected(cursor)
    return pattern


def _is_list(cursor: Cursor) -> bool:
    """Are there commas in the brackets that begin at the cursor, and nothing after them?"""
    opening = cursor.index
    brackets = cursor.part(opening, cursor.end)
    closing = brackets.skip_group()
    inside = top_level(cursor, opening + 1, closing)
    return brackets.at_end and any(cursor.tokens[index].is_symbol(",") for index in inside)


def _parse_operands(cursor: Cursor, node: Joined, depth: int, in_seq: bool) -> EventPattern:
    """Operands of one operator, or what binds tighter. in_seq: somewhere inside SEQ(…)."""
    tighter: Joined | None = Disjunction if node is Sequence else Conjunction if node is Disjunction else None
    start = cursor.token.start
    parts: list[EventPattern] = []
    while not parts or _accept_operator(cursor, node):
        parts.append(
            _unary(cursor, depth, in_seq) if tighter is None else _parse_operands(cursor, tighter, depth, in_seq)
        )
    return parts[0] if len(parts) == 1 else node(tuple(parts), cursor.span_from(start))


def _accept_operator(cursor: Cursor, node: Joined) -> bool:
    if node is Disjunction and _at_union(cursor):
        return cursor.accept_words("U")
    if node is Disjunction and cursor.accept_symbol("∪"):
        return True
    return cursor.accept_symbol(";" if node is Sequence else "|" if node is Disjunction else "&")


def _at_union(cursor: Cursor) -> bool:
    following = cursor.peek()
    return cursor.at_words("U") and (following.is_symbol("(") or following.upper == "SEQ")


def _unary(cursor: Cursor, depth: int, in_seq: bool) -> EventPattern:
    sign = cursor.token
    if not (cursor.accept_symbol("!") or cursor.accept_symbol("~")):
        return _parse_closure(cursor, depth, in_seq)
    if cursor.token.is_symbol("!") or cursor.token.is_symbol("~"):
        cursor.fail("An event cannot be negated twice.", None, "Leave both signs out.")
    part = _parse_closure(cursor, depth, in_seq)
    if isinstance(part, Negation):
        cursor.fail("An event cannot be negated twice.", sign, "Leave both signs out.")
    return Negation(part, cursor.span_from(sign.start))


def _parse_closure(cursor: Cursor, depth: int, in_seq: bool) -> EventPattern:
    start = cursor.token.start
    part = _primary(cursor, depth, in_seq)
    bounds = _bounds(cursor)
    if bounds is not None:
        again = cursor.token
        superscript = again.kind is Kind.NUMBER and again.text.strip(SUPERSCRIPTS) == ""
        if superscript or (again.kind is Kind.SYMBOL and again.text in "*+^{?"):
            hint = "One of the two signs is enough, B+ or B*; for rounds of rounds, write brackets: (B+)^2."
            cursor.fail("A closure cannot be repeated once more.", again, hint)
    part = _variable(cursor, part, bounds is not None)
    if bounds is None:
        return part
    groups = not in_seq and not _has_order(part)
    return Closure(part, *bounds, groups, cursor.span_from(start))


def _has_order(pattern: EventPattern) -> bool:
    """Sequences and conjunctions are repeated one after the other, in either syntax; only events are grouped."""
    return isinstance(pattern, (Sequence, Conjunction)) or any(_has_order(part) for part in children(pattern))


def _bounds(cursor: Cursor) -> tuple[int, int | None] | None:
    """Least number and exact count of the closure at the cursor, if there is one."""
    if cursor.token.is_symbol("^") and (cursor.peek().is_symbol("*") or cursor.peek().is_symbol("+")):
        cursor.advance()
    token = cursor.token
    if cursor.accept_symbol("*") or cursor.accept_symbol("+"):
        return (0 if token.text == "*" else 1), None
    if token.kind is Kind.NUMBER and token.text.strip(SUPERSCRIPTS) == "":
        return _count(cursor, cursor.advance())
    if cursor.accept_symbol("^"):
        return _count(cursor, cursor.advance())
    if cursor.accept_symbol("{"):
        bounds = _count(cursor, cursor.advance())
        cursor.expect_symbol("}", "after the count", "Only an exact count is possible: B{5}, the same as B^5.")
        return bounds
    if token.is_symbol("?"):
        hint = "Write the pattern with the event and without it: SEQ(A a, B b, C c) | SEQ(A a, C c)."
        cursor.fail("There is no optional event in a pattern.", None, hint)
    return None


def _count(cursor: Cursor, token: Token) -> tuple[int, int]:
    digits = token.text.translate(PLAIN_DIGITS)
    if token.kind is Kind.END or not (digits.isascii() and digits.isdigit()):
        cursor.fail(f"Expected a whole number, found {describe(token)}.", token, COUNTS)
    if len(digits) > 10 or int(digits) > MAXIMUM_COUNT:
        cursor.fail(f"A count can be at most {MAXIMUM_COUNT:,}.", token, COUNTS)
    if int(digits) == 0:
        cursor.fail("A count must be at least 1.", token, "Leave the event out, or write !B for none at all.")
    return int(digits), int(digits)


def _variable(cursor: Cursor, part: EventPattern, closed: bool) -> EventPattern:
    token = cursor.token
    if not token.is_name or _at_union(cursor):
        return part
    _refuse_word(cursor, token)
    if not isinstance(part, EventClass) or part.variable_span != part.span:
        if isinstance(part, EventClass):
            cursor.fail(f"{part.name} has the variable {part.variable} already.", token, OPERATORS)
        if cursor.peek(-1).is_symbol(")") or closed:
            hint = "Name the events inside: SEQ(A a, B b)+ makes lists of a and of b."
            cursor.fail("A variable names the events of one class.", token, hint)
        _fail_unexpected(cursor)
    cursor.advance()
    name_end = token.end
    if cursor.token.is_symbol("["):
        opening = cursor.advance()
        closing = cursor.expect_symbol("]", f"after {token.text}[", f"In the pattern, write {token.text}[].")
        if not closed:
            written = Token(Kind.SYMBOL, "[]", opening.start, closing.end)
            hint = f"Write {part.name} {token.text}, or {part.name}+ {token.text}[] for one or more events."
            cursor.fail(f"{token.text} is one event, not a closure.", written, hint)
    span = part.span if closed else Span(part.span.start, name_end)
    return replace(part, variable=token.identifier, span=span, variable_span=Span(token.start, name_end))


def _primary(cursor: Cursor, depth: int, in_seq: bool) -> EventPattern:
    token = cursor.token
    if token.upper == "SEQ" and cursor.peek().is_symbol("("):
        return _seq(cursor, depth)
    if token.is_symbol("("):
        cursor.advance()
        if cursor.token.is_symbol(")"):
            cursor.fail("Expected an event between these brackets.", token, OPERATORS)
        _check_depth(cursor, token, depth)
        inner = _parse_operands(cursor, Sequence, depth + 1, in_seq)
        if not cursor.accept_symbol(")"):
            _fail_unexpected(cursor)
        return inner
    if not token.is_name:
        _fail_unexpected(cursor, expected=True)
    _refuse_word(cursor, token)
    cursor.advance()
    return EventClass(token.identifier, token.identifier, token.span, token.span)


def _seq(cursor: Cursor, depth: int) -> EventPattern:
    keyword = cursor.advance()
    if not keyword.is_symbol("("):
        cursor.advance()
    _check_depth(cursor, keyword, depth)
    if cursor.token.is_symbol(")"):
        cursor.fail("SEQ needs at least one event.", keyword, "Write for example SEQ(A a, B b).")
    parts = cursor.read_list(lambda cursor: _parse_operands(cursor, Disjunction, depth + 1, True))
    if not cursor.accept_symbol(")"):
        if cursor.token.is_symbol(";"):
            cursor.fail("Unexpected ';' in SEQ.", None, "The events of SEQ are separated by commas: SEQ(A a, B b).")
        _fail_unexpected(cursor)
    return Sequence(tuple(parts), cursor.span_from(keyword.start))


def _check_depth(cursor: Cursor, token: Token, depth: int) -> None:
    if depth >= MAXIMUM_DEPTH:
        hint = "Leave out brackets that do nothing."
        cursor.fail(f"The pattern is nested more than {MAXIMUM_DEPTH} levels deep.", token, hint)


def _refuse_word(cursor: Cursor, token: Token) -> None:
    if token.upper in WORD_OPERATORS:
        hint = f"In a pattern, {token.upper} is written {WORD_OPERATORS[token.upper]}."
        cursor.fail(f"Unexpected {describe(token)} in PATTERN.", token, hint)
    if token.upper in RESERVED:
        cursor.fail(f"{describe(token)} cannot be the name of an event.", token, f"Write `{token.text}` in backticks.")


def _fail_unexpected(cursor: Cursor, expected: bool = False) -> NoReturn:
    """expected: an event is missing where the cursor stands."""
    token, before = cursor.token, cursor.peek(-1)
    hint = OPERATORS
    if token.is_symbol(","):
        hint = "Commas separate the events of SEQ(A a, B b); outside of it, write A; B."
    elif token.kind is Kind.STRING:
        hint = "Names of events are written plainly or in backticks: A or `A`."
    elif token.kind is Kind.NUMBER:
        hint = COUNTS
    elif expected and before.is_symbol(";"):
        hint = "';' means 'followed by'; an event has to follow."
    if expected:
        cursor.fail(f"Expected an event in PATTERN, found {describe(token)}.", None, hint)
    cursor.fail(f"Unexpected {describe(token)} in PATTERN.", None, hint)
