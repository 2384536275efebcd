"""The PATTERN sub-language: a regular expression over labels."""

from __future__ import annotations

from episode.lang.cursor import Cursor, describe, label_name
from episode.lang.lexer import Kind, Token
from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    Pattern,
    Permutation,
    Quantified,
    nodes_of,
)
from episode.lang.syntax import Span

MAXIMUM_BOUND = 2**31 - 1
MAXIMUM_DEPTH = 100
QUANTIFIERS = "Write {2}, {2,}, {,5} or {2,5}."


def parse_pattern(cursor: Cursor) -> Pattern:
    """The pattern between the cursor and its end."""
    pattern = _alternation(cursor, 0)
    if not cursor.at_end:
        cursor.fail(f"Unexpected {describe(cursor.token)} in PATTERN.", None, _hint(cursor.token))
    return pattern


def labels_of(pattern: Pattern) -> list[str]:
    """Distinct label names in order of first appearance."""
    return list(dict.fromkeys(node.name for node in nodes_of(pattern) if isinstance(node, Label)))


def _hint(token: Token) -> str:
    if token.kind is Kind.SYMBOL and token.text in "*+?{":
        return "A quantifier follows a label or a group; quantify a quantified part in parentheses: (A+)*."
    if token.kind is Kind.NUMBER:
        return "Labels are names; repetition is written A{2}."
    if token.kind is Kind.STRING:
        return 'Labels are names: B, `B` or "B".'
    if token.is_symbol("[") or token.is_symbol("]"):
        return "Groups are written in round brackets: (B C)."
    if token.is_symbol("!") or token.is_symbol("~"):
        return "There is no negation in a pattern: write in a label's condition what a row must not be."
    return "A pattern is made of labels, ( ), |, * + ? {n,m}, ^ $, PERMUTE(…) and {- … -}."


def _alternation(cursor: Cursor, depth: int, listed: bool = False) -> Pattern:
    """Alternatives up to what ends them; `listed`: commas end them too, as in PERMUTE."""
    if depth > MAXIMUM_DEPTH:
        hint = "Leave out brackets that do nothing."
        cursor.fail(f"The pattern is nested more than {MAXIMUM_DEPTH} levels deep.", None, hint)
    parts = [_concatenation(cursor, depth, listed)]
    while cursor.accept_symbol("|"):
        parts.append(_concatenation(cursor, depth, listed))
    return parts[0] if len(parts) == 1 else Alternation(tuple(parts))


def _concatenation(cursor: Cursor, depth: int, listed: bool) -> Pattern:
    """Parse parts one after another; a comma between two of them has no further meaning."""
    parts: list[Pattern] = []
    wanted = True
    while not _at_stop(cursor):
        parts.append(_parse_quantified(cursor, depth))
        wanted = not listed and cursor.accept_symbol(",")
    if wanted:
        found = "'-}'" if cursor.token.is_symbol("-") else describe(cursor.token)
        cursor.fail(f"Expected a label or a group in PATTERN, found {found}.", None, "The empty pattern is ().")
    return parts[0] if len(parts) == 1 else Concatenation(tuple(parts))


def _at_stop(cursor: Cursor) -> bool:
    token = cursor.token
    if cursor.at_end or (token.kind is Kind.SYMBOL and token.text in "|),}"):
        return True
    return token.is_symbol("-") and cursor.peek().is_symbol("}")


def _parse_quantified(cursor: Cursor, depth: int) -> Pattern:
    part = _primary(cursor, depth)
    if cursor.accept_symbol("*"):
        bounds: tuple[int, int | None] = (0, None)
    elif cursor.accept_symbol("+"):
        bounds = (1, None)
    elif cursor.accept_symbol("?"):
        bounds = (0, 1)
    elif cursor.token.is_symbol("{") and not cursor.peek().is_symbol("-"):
        bounds = _parse_braces(cursor)
    else:
        if cursor.token.is_symbol("{") and cursor.peek(2).kind is Kind.NUMBER:
            cursor.fail("A quantifier's bounds cannot be negative.", cursor.peek(), QUANTIFIERS)
        return part
    return Quantified(part, *bounds, greedy=not cursor.accept_symbol("?"))


def _parse_braces(cursor: Cursor) -> tuple[int, int | None]:
    """Read the bounds of a quantifier, `{n}`, `{n,}`, `{,m}` or `{n,m}`; None: no upper bound."""
    opening = cursor.advance()
    minimum: int | None = _parse_bound(cursor)
    maximum: int | None = minimum
    if cursor.accept_symbol(","):
        maximum = _parse_bound(cursor)
        minimum = minimum or 0
    elif minimum is None:
        cursor.fail(f"Expected a number in the quantifier, found {describe(cursor.token)}.", None, QUANTIFIERS)
    closing = cursor.expect_symbol("}", "to end the quantifier", QUANTIFIERS)
    written = Span(opening.start, closing.end)
    if maximum == 0:
        hint = "Leave the part out; ? makes a part optional."
        cursor.fail("A quantifier's upper bound must be at least 1.", written, hint)
    if maximum is not None and minimum > maximum:
        message = f"A quantifier's lower bound ({minimum}) must not exceed its upper bound ({maximum})."
        cursor.fail(message, written, f"Write {{{maximum},{minimum}}}.")
    return minimum, maximum


def _parse_bound(cursor: Cursor) -> int | None:
    token = cursor.token
    if token.kind is not Kind.NUMBER:
        return None
    if not token.text.isdigit() or not token.text.isascii():
        cursor.fail(f"{describe(token)} is not a whole number.", token, QUANTIFIERS)
    if len(token.text) > 10 or int(token.text) > MAXIMUM_BOUND:
        cursor.fail(f"A quantifier's bound can be at most {MAXIMUM_BOUND:,}.", token, "Write {2,} for no upper bound.")
    cursor.advance()
    return int(token.text)


def _primary(cursor: Cursor, depth: int) -> Pattern:
    token = cursor.token
    if token.is_symbol("^") or token.is_symbol("$"):
        cursor.advance()
        return Anchor(at_start=token.text == "^")
    if token.is_symbol("("):
        return _group(cursor, depth)
    if token.is_symbol("{"):
        return _exclusion(cursor, depth)
    if token.upper == "PERMUTE" and cursor.peek().is_symbol("("):
        return _permutation(cursor, depth)
    if not token.is_identifier:
        cursor.fail(f"Unexpected {describe(token)} in PATTERN.", token, _hint(token))
    cursor.advance()
    return Label(label_name(token), token.span)


def _group(cursor: Cursor, depth: int) -> Pattern:
    opening = cursor.advance()
    if cursor.accept_symbol(")"):
        return Empty()
    inner = _alternation(cursor, depth + 1)
    if not cursor.accept_symbol(")"):
        cursor.fail(f"Expected ')' for this '(', found {describe(cursor.token)}.", opening)
    return inner


def _exclusion(cursor: Cursor, depth: int) -> Pattern:
    opening = cursor.advance()
    if not cursor.accept_symbol("-"):
        hint = "Write A{2}; exclusion is written {- A -}."
        cursor.fail("A quantifier must follow a label or a group.", opening, hint)
    inner = _alternation(cursor, depth + 1)
    if not (cursor.token.is_symbol("-") and cursor.peek().is_symbol("}")):
        cursor.fail("This exclusion is not closed.", opening, "Exclusion is written {- A -}.")
    cursor.index += 2
    return Exclusion(inner)


def _permutation(cursor: Cursor, depth: int) -> Pattern:
    cursor.index += 2
    parts = cursor.read_list(lambda cursor: _alternation(cursor, depth + 1, listed=True))
    if not cursor.accept_symbol(")"):
        cursor.fail(f"Expected ',' or ')' in PERMUTE, found {describe(cursor.token)}.", None, "Write PERMUTE(A, B, C).")
    return parts[0] if len(parts) == 1 else Permutation(tuple(parts))
