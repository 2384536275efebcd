"""References of event patterns: variables, and what stands after them in brackets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from episode.lang.cursor import Cursor, closest
from episode.lang.events.checks import EventVariable
from episode.lang.events.syntax import Index, Reach
from episode.lang.lexer import Kind, Token
from episode.lang.references import is_name
from episode.lang.syntax import Span

INDEXES = "Write b[i], b[i-1], b[1], b[last], b[] or, in aggregates, b[..i-1] or b[..i]."
MAXIMUM_INDEX = 2**31 - 1

Variables = Mapping[str, EventVariable]
"""By lower-case name."""


@dataclass(frozen=True)
class Subscript:
    """What stands after a variable in brackets: an index, or the reach of an aggregate."""

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
    """A name that is no variable; alone: nothing stands after it, so that it may be an attribute."""
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


def variable_at(cursor: Cursor, variables: Variables) -> EventVariable | None:
    """The variable whose name stands at the cursor. An index after any other name is an error."""
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
    """Brackets after the name that only a variable can have: `[i]`, `[last]`, `[]`, `[..i]`."""
    if not cursor.peek().is_symbol("["):
        return False
    first, second = cursor.peek(2), cursor.peek(3)
    if first.is_symbol("]") or (first.is_symbol(".") and second.is_symbol(".")):
        return True
    return first.upper in ("I", "LAST") and second.kind is Kind.SYMBOL and second.text in "]-+"


def read_subscript(cursor: Cursor, name: Token, variable: EventVariable) -> Subscript:
    """From `[` to after `]`."""
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


def read_reach(cursor: Cursor, name: Token, variable: EventVariable) -> Reach:
    """The brackets of a variable inside an aggregate."""
    opening = cursor.token
    subscript = read_subscript(cursor, name, variable)
    if subscript.reach is None:
        written = Token(Kind.SYMBOL, "", opening.start, cursor.peek(-1).end)
        hint = f"Write {variable.name}[] for all events, {variable.name}[..i-1] for those before this one."
        cursor.fail("An aggregate covers several events, not one.", written, hint)
    return subscript.reach
