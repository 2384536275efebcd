"""Scalar expressions of event patterns: variables, attributes of events, aggregates, whole events.

In addition to its atoms, the language has percentages (`20%` is 0.20) and the signs ∧ ≥ ≤ ≠.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from episode.errors import EpisodeUnsupportedError
from episode.lang.clauses import read_path, read_sign
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.events.checks import EventVariable
from episode.lang.events.syntax import EventAggregate, EventAtom, EventColumn, Index, Reach, WholeEvent
from episode.lang.functions import OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, SYNONYMS, aggregate_arguments
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import called_function, is_keyword, lift_arguments, lift_scalar, read_call, refuse_nested
from episode.lang.spark_expression import EVENT_PATTERNS, Surroundings
from episode.lang.syntax import Scalar, Span

INDEXES = "Write b[i], b[i-1], b[1], b[last], b[] or, in aggregates, b[..i-1] or b[..i]."
MAXIMUM_INDEX = 2**31 - 1

Variables = Mapping[str, EventVariable]
"""By lower-case name."""


@dataclass(frozen=True)
class Subscript:
    """The contents of the brackets after a variable: an index, or the reach of an aggregate."""

    index: Index
    number: int = 0
    reach: Reach | None = None


def resolve(cursor: Cursor, fields: tuple[str, ...], span: Span, variables: Variables) -> tuple[str, tuple[str, ...]]:
    """Variable and path of a reference without brackets; a column alone belongs to the only variable."""
    variable = variables.get(fields[0].lower())
    if variable is not None and len(fields) > 1:
        return variable.name, fields[1:]
    if variable is not None or len(variables) > 1:
        first = next((token.end for token in cursor.tokens if token.start == span.start), span.start + 1)
        end = span.end if len(fields) == 1 else min(span.end, first)
        fail_unbound(cursor, fields[0], Span(span.start, end), variables, alone=len(fields) == 1)
    return next(iter(variables.values())).name, fields


def fail_unbound(cursor: Cursor, name: str, place: Token | Span, variables: Variables, alone: bool) -> NoReturn:
    """Refuse a name that is not a variable; alone: nothing follows it, so that it may be an attribute."""
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
        cursor.fail(f"It is not said which event's {name} is meant.", place, hint)
    cursor.fail(f"{name} is not a variable of the pattern.", place, hint)


def refuse_negated(cursor: Cursor, atom: EventAtom, variables: Variables, hint: str) -> None:
    if variables[atom.variable.lower()].negation is not None:
        cursor.fail(f"{atom.variable} is negated: a match has no such event.", atom.span, hint)


def known_variables(names: Iterable[str]) -> str:
    return f"Variables of this pattern: {', '.join(names)}."


def variable_at(cursor: Cursor, variables: Variables) -> EventVariable | None:
    """Return the variable whose name is at the cursor. An index after any other name is an error."""
    token = cursor.token
    if not token.is_name or cursor.peek(-1).is_symbol(".") or cursor.peek().is_symbol("("):
        return None
    variable = variables.get(token.identifier.lower())
    if variable is None and _has_index(cursor):
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
    written = cursor.span_of(opening, closing + 1)
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
        shown = text if len(text) <= 40 else f"{text[:40]}…"
        cursor.fail(f"[{shown}] is not an index of an event.", written, hint)
    if len(number.group(2)) > 10 or int(number.group(2)) > MAXIMUM_INDEX:
        cursor.fail(f"An index can be at most {MAXIMUM_INDEX:,}.", written, INDEXES)
    back, count = bool(number.group(1)), int(number.group(2))
    if count == 0:
        hint = f"{variable.name}[i] is the event itself." if back else f"The first event is {variable.name}[1]."
        cursor.fail("An index is counted from 1.", written, hint)
    return Subscript(Index.BACK if back else Index.AT, count)


def read_reach(cursor: Cursor, name: Token, variable: EventVariable) -> Reach:
    """The brackets of a variable inside an aggregate."""
    opening = cursor.token
    subscript = read_subscript(cursor, name, variable)
    if subscript.reach is None:
        written = Span(opening.start, cursor.peek(-1).end)
        hint = f"Write {variable.name}[] for all events, {variable.name}[..i-1] for those before this one."
        cursor.fail("An aggregate covers several events, not one.", written, hint)
    return subscript.reach


EVENT_SYNONYMS = {**SYNONYMS, "FIRST": "first_value", "LAST": "last_value"}
ENDS = ("FIRST", "LAST")
"""Aggregates of event patterns that are navigation in row patterns."""
SORTED = "The values come in the order of the events; sort an array with array_sort or sort_array."
MODIFIERS = {
    ("OVER",): "The variable determines the events: sum(b[].x) covers the events of b.",
    ("FILTER",): "Put the condition inside: sum(CASE WHEN condition THEN b.x END), or count_if(condition).",
    ("WITHIN", "GROUP"): SORTED,
    ("ORDER", "BY"): SORTED,
    ("DISTINCT",): "Collect distinct values with collect_set: size(collect_set(b[].x)) counts them.",
    ("IGNORE", "NULLS"): "array_agg leaves nulls out: try_element_at(array_agg(b[].x), 1) is the first other value.",
    ("RESPECT", "NULLS"): "Nulls are respected anyway; leave it out.",
}
ONE_VARIABLE = "An aggregate covers the events of one variable."


def parse_event_scalar(cursor: Cursor, variables: Variables, returned: bool) -> Scalar:
    """The expression between the cursor and its end, of RETURN or of WHERE."""
    return lift_scalar(cursor, EventAtoms(variables, returned))


@dataclass
class EventAtoms:
    """Reads the atoms of WHERE and RETURN."""

    variables: Variables
    returned: bool
    surroundings: Surroundings = EVENT_PATTERNS

    def read(self, cursor: Cursor) -> EventAtom | str | None:
        if cursor.at_words("SELECT") and cursor.peek(-1).is_symbol("("):
            cursor.fail("A subquery is not allowed in an event pattern.", None, EVENT_PATTERNS.subqueries)
        return read_sign(cursor) or self._aggregate(cursor) or self._reference(cursor)

    def _aggregate(self, cursor: Cursor) -> EventAggregate | None:
        name = aggregate_at(cursor)
        if name is None:
            return None
        cursor.advance()
        aggregate = parse_aggregate(cursor, name, self.variables)
        if self.returned and aggregate.reach is not Reach.ALL:
            message = f"{aggregate.variable}[..i] has no meaning in RETURN, where all events are known."
            cursor.fail(message, aggregate.span, f"Write {name.text}({aggregate.variable}[].x).")
        variable = self.variables[aggregate.variable.lower()]
        if not self.returned and not variable.closure:
            one = variable.name
            cursor.fail(
                f"{one} is one event, not a closure: {name.text} in WHERE is over the events of a closure.",
                aggregate.span,
                f"Compare its attributes, as in {one}.x > 3, or make it a closure: {variable.event_class}+ "
                f"{one.lower()}[] in SEQ.",
            )
        return aggregate

    def _reference(self, cursor: Cursor) -> EventAtom | None:
        token = cursor.token
        variable = variable_at(cursor, self.variables)
        if variable is None:
            return None
        if cursor.peek().is_symbol("["):
            cursor.advance()
            subscript = read_subscript(cursor, token, variable)
            path = read_path(cursor)
            return self._subscript_atom(cursor, token, variable, subscript, path)
        if is_keyword(token):
            # Names that Spark's grammar would trip over.
            if cursor.peek().is_symbol(".") and cursor.peek(2).is_name:
                cursor.advance()
                return EventColumn(variable.name, Index.PLAIN, 0, read_path(cursor), cursor.span_from(token.start))
            if _stands_alone(cursor):
                cursor.advance()
                return self._whole(cursor, variable, Index.PLAIN, 0, token.span)
        return None

    def _subscript_atom(
        self, cursor: Cursor, token: Token, variable: EventVariable, subscript: Subscript, path: tuple[str, ...]
    ) -> EventAtom:
        span = cursor.span_from(token.start)
        shown = " ".join(cursor.source[span.start : span.end].split())
        if subscript.reach in (Reach.BEFORE, Reach.CURRENT):
            cursor.fail(f"{shown} is several events.", span, f"Write for example max({shown}) for one value.")
        if self.returned and subscript.index in (Index.EACH, Index.BACK):
            name, after = variable.name, "".join(f".{part}" for part in path)
            hint = f"Write {name}[]{after} for all of them, {name}[1]{after} or {name}[last]{after} for one."
            cursor.fail(f"{shown} has no meaning in RETURN: it is a different event each time.", span, hint)
        if not path:
            return self._whole(cursor, variable, subscript.index, subscript.number, span)
        if subscript.index is Index.ALL and not self.returned:
            hint = f"Write {variable.name}[i].{path[0]} for each of them, or an aggregate: max({shown})."
            cursor.fail(f"{shown} is several values.", span, hint)
        return EventColumn(variable.name, subscript.index, subscript.number, path, span)

    def _whole(self, cursor: Cursor, variable: EventVariable, index: Index, number: int, span: Span) -> WholeEvent:
        if not self.returned:
            written = Token(Kind.NAME, cursor.source[span.start : span.end], span.start, span.end)
            hint = f"Name an attribute: {written.text}.x."
            cursor.fail(f"{describe(written)} is an event, not a value.", written, hint)
        return WholeEvent(variable.name, index, number, span)

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> EventAtom:
        variable = self.variables.get(fields[0].lower())
        if variable is not None and len(fields) == 1:
            return self._whole(cursor, variable, Index.PLAIN, 0, span)
        name, path = resolve(cursor, fields, span, self.variables)
        return EventColumn(name, Index.PLAIN, 0, path, span)


def _stands_alone(cursor: Cursor) -> bool:
    """Is the token at the cursor a whole item or argument?"""
    before, after = cursor.peek(-1), cursor.peek()
    begins = before.upper in ("RETURN", "WHERE") or (before.kind is Kind.SYMBOL and before.text in "(,")
    ends = after.kind is Kind.END or (after.kind is Kind.SYMBOL and after.text in "),")
    return begins and ends


def aggregate_at(cursor: Cursor) -> Token | None:
    """The name of the aggregate at the cursor; what is an aggregate elsewhere only is an error."""
    word, token = called_function(cursor), cursor.token
    if word in ("PREV", "NEXT", *ROW_FUNCTIONS):
        hint = "The event before is b[i-1].x." if word in ("PREV", "NEXT") else "Leave it out."
        cursor.fail(f"{word} belongs to MATCH_RECOGNIZE.", token, hint)
    if word in OTHER_SPARK_AGGREGATES:
        message = f"The aggregate {token.text} is not evaluated over the events of a match."
        hint = "Collect the values with array_agg and apply Spark's array functions to them."
        cursor.fail(message, token.span, hint, EpisodeUnsupportedError)
    return token if event_aggregate_arguments(word) is not None else None


def event_aggregate_arguments(word: str) -> int | None:
    return 1 if word in ENDS else aggregate_arguments(word)


@dataclass
class _ArgumentAtoms:
    """Reads the argument of an aggregate: attributes of one variable, over one reach."""

    variables: Variables
    name: Token
    found: list[tuple[str, Reach, Span]] = field(default_factory=list)
    surroundings: Surroundings = EVENT_PATTERNS

    def read(self, cursor: Cursor) -> EventColumn | str | None:
        sign = read_sign(cursor)
        if sign is not None:
            return sign
        inner = aggregate_at(cursor)
        if inner is not None:
            refuse_nested(cursor, inner, self.name)
        token, following = cursor.token, cursor.peek()
        variable = variable_at(cursor, self.variables)
        if variable is None or not (following.is_symbol("[") or (is_keyword(token) and following.is_symbol("."))):
            return None
        cursor.advance()
        reach = read_reach(cursor, token, variable) if following.is_symbol("[") else Reach.ALL
        path = read_path(cursor)
        span = cursor.span_from(token.start)
        return (
            self._column(cursor, variable.name, reach, path, span) if path else self._fail_whole(cursor, variable, span)
        )

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> EventColumn:
        variable = self.variables.get(fields[0].lower())
        if variable is not None and len(fields) == 1:
            self._fail_whole(cursor, variable, span)
        name, path = resolve(cursor, fields, span, self.variables)
        return self._column(cursor, name, Reach.ALL, path, span)

    def _column(self, cursor: Cursor, name: str, reach: Reach, path: tuple[str, ...], span: Span) -> EventColumn:
        for other, other_reach, _ in self.found[:1]:
            if other != name:
                cursor.fail(f"This aggregate is over events of {other} and of {name}.", span, ONE_VARIABLE)
            if other_reach is not reach:
                hint = f"Use the same brackets everywhere inside {self.name.text}(…)."
                cursor.fail(f"This aggregate is over different events of {name}.", span, hint)
        self.found.append((name, reach, span))
        return EventColumn(name, Index.PLAIN, 0, path, span)

    def _fail_whole(self, cursor: Cursor, variable: EventVariable, span: Span) -> NoReturn:
        hint = f"Name an attribute, {variable.name}.x; count({variable.name}) counts events."
        cursor.fail(f"{self.name.upper} needs a value, not an event.", span, hint)


def parse_aggregate(cursor: Cursor, name: Token, variables: Variables) -> EventAggregate:
    """The call whose opening bracket is at the cursor."""
    arguments, span = read_call(cursor, name, name, MODIFIERS, EVENT_PATTERNS.name)
    word = name.upper
    if word == "COUNT" and len(arguments) == 1:
        counted = _counted_events(cursor.part(*arguments[0]), variables)
        if counted is not None:
            return EventAggregate("count", *counted, (), span)
    number, reader = event_aggregate_arguments(word) or 1, _ArgumentAtoms(variables, name)
    parsed = lift_arguments(cursor, name, arguments, number, reader, MODIFIERS, "b[]")
    if reader.found:
        variable, reach, _ = reader.found[0]
    elif len(variables) == 1:
        variable, reach = next(iter(variables.values())).name, Reach.ALL
    else:
        known = known_variables(variable.name for variable in variables.values())
        hint = f"Name attributes of one variable. {known}"
        cursor.fail("This aggregate does not name the events that it covers.", span, hint)
    return EventAggregate(EVENT_SYNONYMS.get(word, word.lower()), variable, reach, parsed, span)


def _counted_events(cursor: Cursor, variables: Variables) -> tuple[str, Reach] | None:
    """Parse `b`, `b[]`, `b[..i-1]`, `b.*` or `b[].*` inside count( ), or `*` if the pattern has one variable."""
    token = cursor.token
    if token.is_symbol("*") and cursor.peek().kind is Kind.END:
        if len(variables) == 1:
            return next(iter(variables.values())).name, Reach.ALL
        names = [variable.name for variable in variables.values()]
        cursor.fail(
            "count(*) does not name the events that it counts.", token, f"Write for example count({names[-1]})."
        )
    variable = variable_at(cursor, variables)
    if variable is None:
        return None
    begin = cursor.index
    cursor.advance()
    reach = read_reach(cursor, token, variable) if cursor.token.is_symbol("[") else Reach.ALL
    if cursor.token.is_symbol(".") and cursor.peek().is_symbol("*"):
        cursor.index += 2
    if cursor.at_end:
        return variable.name, reach
    cursor.index = begin
    return None
