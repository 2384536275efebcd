"""AGGREGATE of an event pattern: aggregates over all matches, then GROUP BY and EVERY."""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeUnsupportedError
from episode.lang.clauses import Grammar, read_column, read_sign, refuse_unit, split_list, split_name
from episode.lang.cursor import Cursor, describe, top_level
from episode.lang.duration import EXAMPLES, parse_window
from episode.lang.events.scalar import Variables, aggregate_at, parse_aggregate, refuse_negated, resolve
from episode.lang.events.syntax import (
    Confidence,
    EventAggregate,
    EventColumn,
    GroupAttribute,
    Index,
    Interval,
    MatchAggregates,
    MatchCount,
    Reach,
)
from episode.lang.lexer import Kind, parameter_at
from episode.lang.lifting import lift_scalar
from episode.lang.spark_expression import EVENT_PATTERNS, Surroundings
from episode.lang.syntax import Duration, ReturnItem, Span

FUNCTIONS = ("count", "sum", "avg", "min", "max")
ITEM = "AGGREGATE takes aggregates over all matches: count(*) AS trends, sum(b[].x), max(a.x)."
GROUP = "GROUP BY takes attributes of single events: GROUP BY a.symbol."
ORDER = "The parts, in order: AGGREGATE items GROUP BY attributes EVERY duration."
BUCKET = ("bucket_start", "bucket_end")


def parse_match_aggregates(cursor: Cursor, variables: Variables) -> MatchAggregates:
    start = cursor.tokens[cursor.index - 1].start
    group, every = _places(cursor)
    group_end = cursor.end if every is None else every
    items_end = group_end if group is None else group
    if items_end > group_end:
        cursor.fail("GROUP BY must come before EVERY.", cursor.tokens[items_end], ORDER)
    names: set[str] = set()
    items = []
    for part in split_list(cursor.part(cursor.index, items_end), "an aggregate", ITEM):
        items.append(_item(part, variables))
        _check_name(cursor, items[-1].name, items[-1].span, names)
    parts = [] if group is None else split_list(cursor.part(group + 2, group_end), "an attribute", GROUP)
    attributes = tuple(_attribute(part, variables) for part in parts)
    for attribute in attributes:
        _check_name(cursor, attribute.name, attribute.span, names)
    span = Span(start, cursor.tokens[cursor.end - 1].end)
    return MatchAggregates(tuple(items), attributes, None if every is None else _every(cursor, every), span)


def _places(cursor: Cursor) -> tuple[int | None, int | None]:
    """Return the places of GROUP BY and EVERY; each may appear once."""
    found: dict[str, int] = {}
    for index in top_level(cursor, cursor.index, cursor.end):
        token, after = cursor.tokens[index], cursor.part(index + 1, cursor.end)
        grouping = token.upper == "GROUP" and after.token.upper == "BY"
        duration = after.token.kind is Kind.NUMBER or after.token.upper == "INTERVAL" or after.at_end
        spaced = token.upper == "EVERY" and (duration or parameter_at(cursor.tokens, index + 1) is not None)
        if token.kind is Kind.NAME and (grouping or spaced) and cursor.tokens[index - 1].upper != "AS":
            if token.upper in found:
                cursor.fail(f"{token.upper} is given twice.", token, "Keep one of them.")
            found[token.upper] = index
    return found.get("GROUP"), found.get("EVERY")


def _check_name(cursor: Cursor, name: str, span: Span, seen: set[str]) -> None:
    if name.lower() in seen:
        cursor.fail(f"Two columns of AGGREGATE are called {name}.", span, "Name one of them with AS.")
    if name.lower() in BUCKET:
        hint = "bucket_start and bucket_end are added with EVERY; choose another name with AS."
        cursor.fail(f"A column of AGGREGATE cannot be called {name}.", span, hint)
    seen.add(name.lower())


def _every(cursor: Cursor, index: int) -> Duration:
    inner = cursor.part(index + 1, cursor.end)
    if inner.at_end:
        inner.fail(f"Expected a duration after EVERY, found {describe(inner.token)}.", None, EXAMPLES)
    duration = parse_window(inner)
    if not inner.at_end:
        refuse_unit(inner)
        inner.fail(f"Unexpected {describe(inner.token)} after EVERY.", None, ORDER)
    if duration.amount == 0 and duration.parameter is None:
        cursor.fail("EVERY needs some time.", duration.span, EXAMPLES)
    return duration


def _item(cursor: Cursor, variables: Variables) -> ReturnItem:
    span = cursor.rest
    inner, name = split_name(cursor, "count(*) counts matches.")
    expression = lift_scalar(inner, _TrendAtoms(variables))
    if not expression.atoms:
        cursor.fail("This is not an aggregate over matches.", span, ITEM)
    return ReturnItem(expression, name or expression.plain_original, span)


def _attribute(cursor: Cursor, variables: Variables) -> GroupAttribute:
    span = cursor.rest
    inner, name = split_name(cursor, GROUP)
    expression = lift_scalar(inner, _GroupAtoms(variables))
    column = expression.only_atom
    if not isinstance(column, EventColumn):
        cursor.fail("GROUP BY takes attributes, not expressions.", span, GROUP)
    refuse_negated(cursor, column, variables, "Group by an event that is not negated.")
    if variables[column.variable.lower()].closure:
        cursor.fail(f"{column.variable} is several events: a match is of one group.", column.span, GROUP)
    return GroupAttribute(column, name or column.path[-1], span)


@dataclass
class _TrendAtoms:
    """Reads the atoms of an item of AGGREGATE."""

    variables: Variables
    surroundings: Surroundings = EVENT_PATTERNS

    def read(self, cursor: Cursor) -> EventAggregate | MatchCount | str | None:
        token = cursor.token
        if token.upper == "COUNT" and all(cursor.peek(1 + n).is_symbol(sign) for n, sign in enumerate("(*)")):
            cursor.index += 4
            return MatchCount(cursor.span_from(token.start))
        return read_sign(cursor) or self._aggregate(cursor)

    def _aggregate(self, cursor: Cursor) -> EventAggregate | None:
        name = aggregate_at(cursor)
        if name is None:
            return None
        cursor.advance()
        aggregate = parse_aggregate(cursor, name, self.variables)
        if aggregate.reach is not Reach.ALL:
            hint = f"Write {name.text}({aggregate.variable}[].x)."
            cursor.fail(f"{aggregate.variable}[..i] has no meaning over all matches.", name, hint)
        refuse_negated(cursor, aggregate, self.variables, "Aggregate events that are not negated.")
        if aggregate.function not in FUNCTIONS:
            message = f"{name.text} is not evaluated over all matches without enumerating them."
            hint = f"These are: {', '.join(FUNCTIONS)}. Others: return the matches, and aggregate them in SQL."
            cursor.fail(message, name.span, hint, EpisodeUnsupportedError)
        return aggregate

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> EventColumn:
        shown = ".".join(fields)
        cursor.fail(f"{shown} is different in every match.", span, f"{ITEM} Groups are made by GROUP BY {shown}.")


@dataclass
class _GroupAtoms:
    """Reads an attribute of GROUP BY."""

    variables: Variables
    surroundings: Surroundings = EVENT_PATTERNS

    def read(self, cursor: Cursor) -> str | None:
        if cursor.token.kind is Kind.NAME and cursor.peek().is_symbol("["):
            cursor.fail(f"{cursor.token.text}[…] may be another event in every match.", None, GROUP)
        return None

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> EventColumn:
        if len(fields) == 1 and fields[0].lower() in self.variables:
            cursor.fail(f"{fields[0]} is an event, not a value.", span, GROUP)
        name, path = resolve(cursor, fields, span, self.variables)
        return EventColumn(name, Index.PLAIN, 0, path, span)


INTERVAL_HINT = "Write TIME BETWEEN lo AND hi, then PROBABILITIES p, GRANULARITY 1 second, WIDTH 20 seconds as needed."
CONFIDENCE_HINT = "Write for example CONFIDENCE >= 0.7."
PARTS = ("PROBABILITIES", "GRANULARITY", "WIDTH")


def read_interval(cursor: Cursor, grammar: Grammar) -> Interval | None:
    """`TIME BETWEEN lo AND hi [PROBABILITIES p] [GRANULARITY d] [WIDTH d]`, the last three in any order."""
    start = cursor.token
    if not cursor.accept_words("TIME"):
        return None
    cursor.expect_words("BETWEEN", after="TIME", hint=INTERVAL_HINT)
    lo = read_column(cursor, "the column of the earliest time", grammar)
    cursor.expect_words("AND", after=f"TIME BETWEEN {lo}", hint=INTERVAL_HINT)
    hi = read_column(cursor, "the column of the latest time", grammar)
    found = Interval(lo, hi)
    seen: set[str] = set()
    while cursor.token.upper in PARTS:
        word = cursor.advance()
        if word.upper in seen:
            cursor.fail(f"{word.upper} is given twice.", word, "Keep one of them.")
        seen.add(word.upper)
        if word.upper == "PROBABILITIES":
            column = read_column(cursor, "the column of the probabilities", grammar)
            found = replace(found, probabilities=column)
        elif word.upper == "GRANULARITY":
            found = replace(found, granularity=parse_window(cursor))
        else:
            found = replace(found, width=parse_window(cursor))
    return replace(found, span=cursor.span_from(start.start))


def read_confidence(cursor: Cursor) -> Confidence:
    """Parse the clause after CONFIDENCE: `>= 0.7`, or `>= :c`."""
    before = cursor.peek(-1)
    if not (cursor.token.is_symbol(">") and cursor.peek().is_symbol("=")):
        cursor.fail(f"Expected >= after CONFIDENCE, found {describe(cursor.token)}.", None, CONFIDENCE_HINT)
    cursor.index += 2
    token = cursor.token
    name = parameter_at(cursor.tokens, cursor.index) if not cursor.at_end else None
    if name is not None:
        cursor.index += 2
        found = Confidence(0.0, cursor.span_from(token.start), name)
    else:
        if token.kind is not Kind.NUMBER or not _is_number(token.text):
            cursor.fail(f"Expected a number after CONFIDENCE >=, found {describe(token)}.", token, CONFIDENCE_HINT)
        cursor.advance()
        value = float(token.text)
        if cursor.accept_symbol("%"):
            value /= 100
        found = Confidence(value, cursor.span_from(token.start))
        if not 0 <= value <= 1:
            cursor.fail("A confidence is between 0 and 1.", token, CONFIDENCE_HINT)
    if not cursor.at_end:
        cursor.fail(f"Unexpected {describe(cursor.token)} after CONFIDENCE.", None, CONFIDENCE_HINT)
    return replace(found, clause=Span(before.start, found.span.end))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
