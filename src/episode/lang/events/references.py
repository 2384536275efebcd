"""References of event patterns: variables, what stands behind them in brackets, percentages and mathematical signs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NoReturn

from episode.lang.cursor import Cursor, closest, describe
from episode.lang.events.checks import Variable
from episode.lang.events.syntax import Index, Reach
from episode.lang.lexer import CURLY_QUOTES, Kind, Token
from episode.lang.syntax import Span

SIGNS = {"∧": "AND", "≥": ">=", "≤": "<=", "≠": "<>"}
NO_OPERAND = (
    "AND", "OR", "NOT", "THEN", "ELSE", "END", "WHEN", "BETWEEN", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV",
    "AS", "WHERE", "WITHIN", "RETURN",
)  # fmt: skip
"""Words behind `20%` that make it a percentage and not a division with remainder."""
PERCENT = "Write 20% for 0.20, without a blank, or a.x % 3 for the remainder of a division."
INDEXES = "Write b[i], b[i-1], b[1], b[last], b[] or, in aggregates, b[..i-1] or b[..i]."
MAXIMUM_INDEX = 2**31 - 1

Variables = Mapping[str, Variable]
"""By lower-case name."""


@dataclass(frozen=True)
class Subscript:
    """What stands behind a variable in brackets: an index, or the reach of an aggregate."""

    index: Index
    number: int = 0
    reach: Reach | None = None


def resolve(cursor: Cursor, fields: tuple[str, ...], span: Span, variables: Variables) -> tuple[str, tuple[str, ...]]:
    """Variable and path of a reference without brackets; a column alone belongs to the only variable."""
    variable = variables.get(fields[0].lower())
    if variable is not None and len(fields) > 1:
        return variable.name, fields[1:]
    if variable is not None or len(variables) > 1:
        end = span.end if len(fields) == 1 else min(span.end, span.start + _length_of_name(cursor, span.start))
        fail_unbound(cursor, fields[0], Token(Kind.NAME, "", span.start, end), variables, alone=len(fields) == 1)
    return next(iter(variables.values())).name, fields


def _length_of_name(cursor: Cursor, start: int) -> int:
    return next((token.end - start for token in cursor.tokens if token.start == start), 1)


def fail_unbound(cursor: Cursor, name: str, token: Token, variables: Variables, alone: bool) -> NoReturn:
    """A name that is no variable; alone: nothing stands behind it, so that it may be an attribute."""
    written = [variable.name for variable in variables.values()]
    similar = closest(name, written)
    renamed = [variable for variable in variables.values() if variable.event_class.lower() == name.lower()]
    if renamed:
        hint = f"The pattern calls the event of {renamed[0].event_class} {renamed[0].name}."
    elif similar is not None and not alone:
        hint = f"Did you mean {similar}?"
    elif alone:
        hint = f"An attribute is written with its variable: {written[0]}.{name}."
    else:
        hint = known_variables(written)
    if alone and not renamed:
        cursor.fail(f"It is not said which event's {name} is meant.", token, hint)
    cursor.fail(f"{name} is not a variable of the pattern.", token, hint)


def known_variables(names: Iterable[str]) -> str:
    return f"Variables of this pattern: {', '.join(names)}."


def is_name(token: Token) -> bool:
    return token.kind in (Kind.NAME, Kind.QUOTED)


def variable_at(cursor: Cursor, variables: Variables) -> Variable | None:
    """The variable whose name stands at the cursor. An index behind any other name is an error."""
    token = cursor.token
    if not is_name(token) or cursor.peek(-1).is_symbol("."):
        return None
    if cursor.peek().is_symbol("("):
        return None
    variable = variables.get(token.identifier.lower())
    if variable is None and is_name(token) and _has_index(cursor):
        fail_unbound(cursor, token.identifier, token, variables, alone=False)
    return variable


def _has_index(cursor: Cursor) -> bool:
    """Brackets behind the name that only a variable can have: `[i]`, `[last]`, `[]`, `[..i]`."""
    if not cursor.peek().is_symbol("["):
        return False
    first, second = cursor.peek(2), cursor.peek(3)
    if first.is_symbol("]") or (first.is_symbol(".") and second.is_symbol(".")):
        return True
    return first.upper in ("I", "LAST") and second.kind is Kind.SYMBOL and second.text in "]-+"


def read_subscript(cursor: Cursor, name: Token, variable: Variable) -> Subscript:
    """From `[` to behind `]`."""
    opening = cursor.index
    closing = cursor.skip_group()
    inside = cursor.tokens[opening + 1 : closing]
    written = Token(Kind.SYMBOL, "[…]", cursor.tokens[opening].start, cursor.tokens[closing].end)
    if not variable.closure:
        hint = f"Write {name.text}.x, or make it a closure in the pattern: {variable.event_class}+ {variable.name}[]."
        cursor.fail(f"{variable.name} is one event, not a closure.", written, hint)
    text = "".join(token.text for token in inside).lower()
    simple = {"": Index.ALL, "i": Index.EACH, "last": Index.LAST}
    if text in simple:
        return Subscript(simple[text], reach=Reach.ALL if text == "" else None)
    if re.fullmatch(r"1?\.\.i(-1)?", text):
        return Subscript(Index.ALL, reach=Reach.BEFORE if text.endswith("-1") else Reach.CURRENT)
    number = re.fullmatch(r"(i-)?(\d+)", text, re.ASCII)
    if number is None:
        hint = "Later events are not known yet; compare with the one before: b[i-1]." if "i+" in text else INDEXES
        cursor.fail(f"[{_short(text)}] is not an index of an event.", written, hint)
    if len(number.group(2)) > 10 or int(number.group(2)) > MAXIMUM_INDEX:
        cursor.fail(f"An index can be at most {MAXIMUM_INDEX:,}.", written, INDEXES)
    back, count = bool(number.group(1)), int(number.group(2))
    if count == 0:
        hint = f"{variable.name}[i] is the event itself." if back else f"The first event is {variable.name}[1]."
        cursor.fail("An index is counted from 1.", written, hint)
    return Subscript(Index.BACK if back else Index.AT, count)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def read_path(cursor: Cursor) -> tuple[str, ...]:
    """`.x.y` at the cursor."""
    path = []
    while cursor.token.is_symbol(".") and is_name(cursor.peek()):
        cursor.advance()
        path.append(cursor.advance().identifier)
    if cursor.token.is_symbol("."):
        cursor.fail(f"Expected an attribute behind the dot, found {describe(cursor.peek())}.", cursor.peek())
    return tuple(path)


def read_reach(cursor: Cursor, name: Token, variable: Variable) -> Reach:
    """The brackets of a variable inside an aggregate."""
    opening = cursor.token
    subscript = read_subscript(cursor, name, variable)
    if subscript.reach is None:
        written = Token(Kind.SYMBOL, "", opening.start, cursor.peek(-1).end)
        hint = f"Write {variable.name}[] for all events, {variable.name}[..i-1] for those before this one."
        cursor.fail("An aggregate covers several events, not one.", written, hint)
    return subscript.reach


# ---- signs -------------------------------------------------------------------------------------------


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
        cursor.fail("This '%' has no number directly before it and no operand behind it.", token, PERCENT)
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
