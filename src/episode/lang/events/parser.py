"""Event patterns, ZStream's and SASE's: from text to an EventQuery.

    [FROM table [PARTITION BY a, b] [ORDER BY time] [START BY start] [TIME BETWEEN lo AND hi …] [TYPE BY column]]
    PATTERN pattern [WHERE conditions] [WITHIN duration] [CONFIDENCE >= c]
    [RETURN [COLLAPSED] items | AGGREGATE items [GROUP BY attributes] [EVERY duration]]

The query is first cut into its clauses, then PATTERN is read, so that WHERE and RETURN are read with the variables
known.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from episode.errors import EpisodeSyntaxError
from episode.lang.clauses import (
    ITEM,
    SQL_CLAUSES,
    Grammar,
    accept_by,
    check_name,
    cut_clauses,
    read_column,
    read_table,
    read_time,
    read_within,
    split_list,
    split_name,
    with_suggestion,
)
from episode.lang.cursor import Cursor, describe
from episode.lang.events.aggregates import parse_match_aggregates, read_confidence, read_interval
from episode.lang.events.checks import check_groups, check_pattern, variables_of
from episode.lang.events.conditions import Conditions, parse_conditions
from episode.lang.events.operators import parse_operators
from episode.lang.events.scalar import Variables, parse_event_scalar, refuse_negated
from episode.lang.events.syntax import EventColumn, EventInput, EventQuery, Index, Strategy, WholeEvent, event_atoms
from episode.lang.keys import read_keys
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.lifting import refuse_reserved
from episode.lang.spark_expression import EVENT_PATTERNS
from episode.lang.syntax import ReturnItem, Scalar, Source, Span

INPUT_WORDS = ("FROM", "PARTITION", "ORDER", "START", "TIME", "TYPE")
ORDER_HINT = "The parts, in order: PATTERN, WHERE, WITHIN, CONFIDENCE, RETURN or AGGREGATE."
EXAMPLE = "Write for example PATTERN A; B WHERE A.x = B.x WITHIN 10 seconds."
GRAMMAR = Grammar(
    name="an event pattern",
    clauses=("PATTERN", "WHERE", "WITHIN", "CONFIDENCE", "RETURN", "AGGREGATE"),
    inputs=INPUT_WORDS,
    order_hint=ORDER_HINT,
    input_hint="Before PATTERN: FROM table PARTITION BY a, b ORDER BY time START BY start TYPE BY column.",
    example=EXAMPLE,
    elsewhere=dict.fromkeys(SQL_CLAUSES, ORDER_HINT),
    repeated=("WHERE",),
    inside={"AGGREGATE": (("GROUP", "BY"),)},
    functions=("AGGREGATE",),
)
TIMES = ("match_start", "match_end")
COUNTED = "matches"
"""The last column of collapsed results."""
RETURNED = "a column of RETURN"


def parse_event_query(text: str, strategy: Strategy | None = None) -> EventQuery:
    """A whole text that is an event pattern, with or without FROM before it. strategy: where WHERE has none."""
    tokens = tokenize(text)
    return parse_event_tokens(text, tokens, 0, len(tokens) - 1, strategy)


def parse_event_tokens(
    source: str, tokens: list[Token], begin: int, end: int, strategy: Strategy | None = None
) -> EventQuery:
    """The event pattern in tokens[begin:end] of a larger query."""
    cursor = Cursor(_without_comments(source, tokens, begin, end), tokens, begin, end)
    try:
        return _query(cursor, strategy)
    except EpisodeSyntaxError as error:
        raise with_suggestion(error, tokens, begin, end, GRAMMAR.clauses) from None


def _without_comments(source: str, tokens: list[Token], begin: int, end: int) -> str:
    """The text with blanks in place of `// …` between its tokens, which Spark does not take for a comment."""
    pieces, at = [], 0
    for one, other in pairwise(tokens[begin:end]):
        gap = source[one.end : other.start]
        if "//" in gap:
            pieces += [source[at : one.end], re.sub(r"[^\n]", " ", gap)]
            at = other.start
    return "".join([*pieces, source[at:]])


def _query(cursor: Cursor, strategy: Strategy | None) -> EventQuery:
    if cursor.at_end:
        cursor.fail("The query is empty.", None, EXAMPLE)
    begin, end = cursor.index, cursor.end
    refuse_reserved(cursor)
    source = _input(cursor)
    if cursor.tokens[cursor.end - 1].is_symbol(";"):
        hint = "A query ends without ';', which means 'followed by' between events."
        cursor.fail("Nothing follows this ';'.", cursor.tokens[cursor.end - 1], hint)
    clauses = cut_clauses(cursor, GRAMMAR)
    pattern_cursor = clauses["PATTERN"]
    if pattern_cursor.at_end:
        pattern_cursor.fail(f"Expected an event after PATTERN, found {describe(pattern_cursor.token)}.", None, EXAMPLE)
    pattern_span = pattern_cursor.rest
    pattern = parse_operators(pattern_cursor)
    check_pattern(Source(cursor.source), pattern)
    variables = variables_of(Source(cursor.source), pattern)
    where = parse_conditions(clauses["WHERE"], variables) if "WHERE" in clauses else Conditions()
    if (where.strategy or strategy) in (None, Strategy.ANY):
        check_groups(Source(cursor.source), pattern)
    if "RETURN" in clauses and "AGGREGATE" in clauses:
        token = cursor.tokens[clauses["AGGREGATE"].index - 1]
        hint = "RETURN is for each match, AGGREGATE over all of them: write one of the two."
        cursor.fail("AGGREGATE replaces RETURN.", token, hint)
    collapsed = _accept_collapsed(clauses["RETURN"], variables) if "RETURN" in clauses else None
    return EventQuery(
        pattern=pattern,
        conditions=tuple(where.conditions),
        same=tuple(where.same),
        strategy=where.strategy,
        within=read_within(clauses["WITHIN"], GRAMMAR) if "WITHIN" in clauses else None,
        returns=_returns(clauses["RETURN"], variables, collapsed is not None) if "RETURN" in clauses else None,
        input=source,
        source=Source(cursor.source, Span(cursor.tokens[begin].start, cursor.tokens[end - 1].end), pattern_span),
        strategy_span=where.strategy_span,
        collapsed=collapsed,
        aggregate=parse_match_aggregates(clauses["AGGREGATE"], variables) if "AGGREGATE" in clauses else None,
        confidence=read_confidence(clauses["CONFIDENCE"]) if "CONFIDENCE" in clauses else None,
    )


def _input(cursor: Cursor) -> EventInput:
    found = EventInput()
    if cursor.accept_words("FROM"):
        found = EventInput(*read_table(cursor, GRAMMAR))
    if accept_by(cursor, "PARTITION", GRAMMAR):
        names, expressions = read_keys(cursor, GRAMMAR, EVENT_PATTERNS)
        found = replace(found, partition_by=names, expressions=expressions)
    if accept_by(cursor, "ORDER", GRAMMAR):
        found = replace(found, time=read_time(cursor, GRAMMAR))
    if accept_by(cursor, "START", GRAMMAR):
        found = replace(found, start=read_column(cursor, "the column of the start of events", GRAMMAR))
    found = replace(found, interval=read_interval(cursor, GRAMMAR))
    if accept_by(cursor, "TYPE", GRAMMAR):
        span = cursor.token.span
        column = read_column(cursor, "the column of the event type", GRAMMAR)
        found = replace(found, type_column=column, type_span=span)
    return found


def _accept_collapsed(cursor: Cursor, variables: Variables) -> Span | None:
    """Read the word COLLAPSED, unless it is a variable of that name."""
    if cursor.at_end or cursor.token.upper != "COLLAPSED":
        return None
    after = cursor.peek()
    named = after.kind is Kind.END or (after.kind is Kind.SYMBOL and after.text in ".,[")
    return None if "collapsed" in variables and (named or cursor.index + 1 == cursor.end) else cursor.advance().span


def _returns(cursor: Cursor, variables: Variables, collapsed: bool) -> tuple[ReturnItem, ...] | None:
    """Parse the items; None, for every event, if COLLAPSED has no items after it."""
    if collapsed and cursor.at_end:
        return None
    taken = (*TIMES, COUNTED) if collapsed else TIMES
    named = [_item(part, variables) for part in split_list(cursor, RETURNED, ITEM)]
    counts = Counter(item.name.lower() for item, _ in named)
    items = tuple(replace(item, name=longer) if counts[item.name.lower()] > 1 else item for item, longer in named)
    names: set[str] = set()
    for item in items:
        check_name(cursor, item.name, item.span, names, taken)
    return items


def _item(cursor: Cursor, variables: Variables) -> tuple[ReturnItem, str]:
    """An item, and its name if another one has the same: that after AS stays."""
    span = cursor.rest
    inner, name = split_name(cursor, "Without RETURN, every event is returned.")
    expression = parse_event_scalar(inner, variables, returned=True)
    for atom in event_atoms(expression):
        refuse_negated(cursor, atom, variables, "Return events that are not negated.")
    own, longer = _names(expression)
    return ReturnItem(expression, name or own, span), name or longer


def _names(expression: Scalar) -> tuple[str, str]:
    """The names of an item without AS, short and long: x and a_x for a.x, x and b_1_x for b[1].x, x and b_last_x for
    b[last].x, b and b_2 for b[2]; for other expressions their text."""
    atom = expression.only_atom
    if not isinstance(atom, (EventColumn, WholeEvent)):
        return expression.plain_original, expression.plain_original
    index = {Index.AT: (str(atom.number),), Index.LAST: ("last",)}.get(atom.index, ())
    path = atom.path if isinstance(atom, EventColumn) else ()
    return (path or (atom.variable,))[-1], "_".join((atom.variable, *index, *path))
