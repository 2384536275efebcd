"""References and signs that event and situation patterns have in common: paths of columns, percentages, ∧ ≤ ≥ ≠."""

from __future__ import annotations

import re
from decimal import Decimal

from episode.lang.cursor import Cursor, describe
from episode.lang.lexer import CURLY_QUOTES, Kind, Token

SIGNS = {"∧": "AND", "≥": ">=", "≤": "<=", "≠": "<>"}
NO_OPERAND = (
    "AND", "OR", "NOT", "THEN", "ELSE", "END", "WHEN", "BETWEEN", "IN", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "DIV",
    "AS", "WHERE", "WITHIN", "RETURN",
)  # fmt: skip
"""Words after `20%` that make it a percentage and not a division with remainder."""
PERCENT = "Write 20% for 0.20, without a blank, or a.x % 3 for the remainder of a division."


def is_name(token: Token) -> bool:
    return token.kind in (Kind.NAME, Kind.QUOTED)


def read_path(cursor: Cursor) -> tuple[str, ...]:
    """`.x.y` at the cursor."""
    path = []
    while cursor.token.is_symbol(".") and is_name(cursor.peek()):
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
