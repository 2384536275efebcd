"""Event patterns, ZStream's and SASE's: from text to an EventQuery.

    [FROM table [PARTITION BY a, b] [ORDER BY time] [TYPE BY column]]
    PATTERN pattern [WHERE conditions] [WITHIN duration] [RETURN items]

The query is first cut into its clauses, then PATTERN is read, so that WHERE and RETURN are read with the variables
known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from episode.errors import EpisodeSyntaxError
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.duration import EXAMPLES, UNITS, parse_duration
from episode.lang.event_checks import check_groups, check_pattern, variables_of
from episode.lang.event_conditions import Conditions, parse_conditions
from episode.lang.event_operators import parse_operators
from episode.lang.event_references import Variables
from episode.lang.event_scalar import parse_event_scalar
from episode.lang.event_syntax import (
    EventColumn,
    EventInput,
    EventQuery,
    ReturnItem,
    Strategy,
    WholeEvent,
    event_atoms,
)
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.lifting import refuse_reserved
from episode.lang.syntax import Duration, Scalar, Span

CLAUSES = ("PATTERN", "WHERE", "WITHIN", "RETURN")
INPUT_WORDS = ("FROM", "PARTITION", "ORDER", "TYPE")
OTHER_CLAUSES = (
    ("FROM",),
    ("PARTITION", "BY"),
    ("ORDER", "BY"),
    ("TYPE", "BY"),
    ("GROUP", "BY"),
    ("HAVING",),
    ("SELECT",),
)
ORDER_HINT = "The parts, in order: PATTERN, WHERE, WITHIN, RETURN."
INPUT_HINT = "Before PATTERN: FROM table PARTITION BY a, b ORDER BY time TYPE BY column."
EXAMPLE = "Write for example PATTERN A; B WHERE A.x = B.x WITHIN 10 seconds."
ITEM = "A column of RETURN is written expression AS name."
TIMES = ("match_start", "match_end")


def parse_event_query(text: str, strategy: Strategy | None = None) -> EventQuery:
    """A whole text that is an event pattern, with or without FROM before it. strategy: where WHERE has none."""
    tokens = tokenize(text)
    return parse_event_tokens(text, tokens, 0, len(tokens) - 1, strategy)


def parse_event_tokens(
    source: str, tokens: list[Token], begin: int, end: int, strategy: Strategy | None = None
) -> EventQuery:
    """The event pattern in tokens[begin:end] of a larger query."""
    cursor = Cursor(source, tokens, begin, end)
    try:
        return _query(cursor, strategy)
    except EpisodeSyntaxError as error:
        raise _with_suggestion(error, tokens, begin, end) from None


def _query(cursor: Cursor, strategy: Strategy | None) -> EventQuery:
    if cursor.at_end:
        cursor.fail("The query is empty.", None, EXAMPLE)
    begin, end = cursor.index, cursor.end
    refuse_reserved(cursor)
    source = _input(cursor)
    clauses = _cut(cursor)
    pattern_cursor = clauses["PATTERN"]
    if pattern_cursor.at_end:
        pattern_cursor.fail(f"Expected an event behind PATTERN, found {describe(pattern_cursor.token)}.", None, EXAMPLE)
    pattern_span = Span(pattern_cursor.token.start, cursor.tokens[pattern_cursor.end - 1].end)
    pattern = parse_operators(pattern_cursor)
    check_pattern(cursor.source, pattern)
    variables = variables_of(cursor.source, pattern)
    where = parse_conditions(clauses["WHERE"], variables) if "WHERE" in clauses else Conditions()
    if (where.strategy or strategy) in (None, Strategy.ANY):
        check_groups(cursor.source, pattern)
    return EventQuery(
        pattern=pattern,
        conditions=tuple(where.conditions),
        same=tuple(where.same),
        strategy=where.strategy,
        within=_within(clauses["WITHIN"]) if "WITHIN" in clauses else None,
        returns=_returns(clauses["RETURN"], variables) if "RETURN" in clauses else None,
        input=source,
        source=cursor.source,
        span=Span(cursor.tokens[begin].start, cursor.tokens[end - 1].end),
        pattern_span=pattern_span,
        strategy_span=where.strategy_span,
    )


# ---- clauses -----------------------------------------------------------------------------------------


def _cut(cursor: Cursor) -> dict[str, Cursor]:
    """A cursor for each clause; each at most once, and in order. Only WHERE may go on with another WHERE."""
    if cursor.tokens[cursor.end - 1].is_symbol(";"):
        hint = "A query ends without ';', which means 'followed by' between events."
        cursor.fail("Nothing follows this ';'.", cursor.tokens[cursor.end - 1], hint)
    if not cursor.at_words("PATTERN"):
        _fail_without_pattern(cursor)
    current = cursor.advance().upper
    begins: dict[str, int] = {current: cursor.index}
    ends: dict[str, int] = {}
    while not cursor.at_end:
        token = cursor.token
        if _is_clause(cursor) and not (token.upper == current == "WHERE"):
            _check_order(cursor, token, begins)
            ends[current] = cursor.index
            current = token.upper
            begins[current] = cursor.index + 1
        _refuse_other_clause(cursor)
        if token.kind is Kind.SYMBOL and token.text in "([{":
            cursor.skip_group()
        elif token.kind is Kind.SYMBOL and token.text in ")]}":
            cursor.fail(f"This '{token.text}' closes nothing.")
        else:
            cursor.advance()
    ends[current] = cursor.end
    return {name: Cursor(cursor.source, cursor.tokens, begin, ends[name]) for name, begin in begins.items()}


def _is_clause(cursor: Cursor) -> bool:
    return cursor.token.upper in CLAUSES and not _is_name(cursor)


def _is_name(cursor: Cursor) -> bool:
    """Keywords as names: `a.within`, `x AS return`, `Return.x`."""
    before = cursor.peek(-1)
    return before.is_symbol(".") or before.upper == "AS" or cursor.peek().is_symbol(".")


def _refuse_other_clause(cursor: Cursor) -> None:
    """Clauses of SQL, and those of the input behind PATTERN."""
    for words in OTHER_CLAUSES:
        if cursor.at_words(*words) and not _is_name(cursor) and cursor.peek(-1).upper != "DISTINCT":
            last = cursor.peek(len(words) - 1)
            place = Token(Kind.NAME, " ".join(words), cursor.token.start, last.end)
            if words[0] in INPUT_WORDS:
                cursor.fail(f"{place.text} must come before PATTERN.", place, INPUT_HINT)
            cursor.fail(f"{place.text} is not a part of an event pattern.", place, ORDER_HINT)


def _check_order(cursor: Cursor, token: Token, seen: dict[str, int]) -> None:
    if token.upper in seen:
        cursor.fail(f"{token.upper} is given twice.", token, "Keep one of them.")
    late = next((name for name in seen if CLAUSES.index(name) > CLAUSES.index(token.upper)), None)
    if late is not None:
        cursor.fail(f"{token.upper} must come before {late}.", token, ORDER_HINT)


def _fail_without_pattern(cursor: Cursor) -> NoReturn:
    token = cursor.token
    if token.upper in INPUT_WORDS:
        cursor.fail(f"{describe(token)} is not expected here.", None, INPUT_HINT)
    behind = [cursor.tokens[index] for index in range(cursor.index, cursor.end)]
    if not any(other.upper == "PATTERN" for other in behind) and token.upper in CLAUSES:
        cursor.fail("PATTERN is missing.", None, EXAMPLE)
    cursor.fail(f"Expected PATTERN, found {describe(token)}.", None, EXAMPLE)


def _with_suggestion(error: EpisodeSyntaxError, tokens: list[Token], begin: int, end: int) -> EpisodeSyntaxError:
    """Where a complaint is about a misspelt clause word, or about what stands right behind one, the hint says so."""
    at = next((index for index in range(begin, end) if tokens[index].start == error.position), None)
    for index in () if at is None else (at, at - 1):
        word = tokens[index].upper if index >= begin else ""
        similar = closest(word, CLAUSES) if len(word) > 3 and word not in CLAUSES else None
        if similar is not None and not (index > begin and tokens[index - 1].is_symbol(".")):
            place = tokens[index]
            return EpisodeSyntaxError(
                error.message if index == at else f"{describe(place)} is not expected here.",
                source=error.source,
                position=place.start,
                length=place.end - place.start,
                hint=f"Did you mean {similar}?",
            )
    return error


# ---- input -------------------------------------------------------------------------------------------


def _input(cursor: Cursor) -> EventInput:
    found = EventInput()
    if cursor.accept_words("FROM"):
        start = cursor.token
        if start.is_symbol("("):
            cursor.fail("FROM takes the name of a table here.", None, "Name the subquery: WITH t AS (SELECT …) ….")
        first = cursor.index
        _refuse_keyword(cursor, "a table")
        cursor.expect_identifier("a table", INPUT_HINT)
        while cursor.accept_symbol("."):
            cursor.expect_identifier("the name of a table", INPUT_HINT)
        table = "".join(token.text for token in cursor.tokens[first : cursor.index])
        found = EventInput(table, cursor.span_from(start.start))
    if cursor.at_words("PARTITION"):
        cursor.advance()
        cursor.expect_words("BY", after="PARTITION", hint=INPUT_HINT)
        columns = [_input_column(cursor, "a column to partition by")]
        while cursor.accept_symbol(","):
            columns.append(_input_column(cursor, "a column to partition by"))
        found = replace(found, partition_by=tuple(columns))
    if cursor.at_words("ORDER"):
        cursor.advance()
        cursor.expect_words("BY", after="ORDER", hint=INPUT_HINT)
        found = replace(found, time=_input_column(cursor, "the column of the event time"))
        if cursor.token.is_symbol(",") or cursor.token.upper in ("ASC", "DESC"):
            cursor.fail("Events are ordered by one column of time, ascending.", None, INPUT_HINT)
    if cursor.at_words("TYPE"):
        cursor.advance()
        cursor.expect_words("BY", after="TYPE", hint=INPUT_HINT)
        found = replace(found, type_column=_input_column(cursor, "the column of the event type"))
    return found


def _input_column(cursor: Cursor, what: str) -> str:
    _refuse_keyword(cursor, what)
    name = cursor.expect_identifier(what, INPUT_HINT).identifier
    if cursor.token.is_symbol("."):
        cursor.fail("Only columns stand here, without table or field.", None, "Compute it as a column of the input.")
    return name


def _refuse_keyword(cursor: Cursor, what: str) -> None:
    """A name is missing where a part begins; but `ORDER BY type TYPE BY kind` has a column called type."""
    words = (*CLAUSES, *INPUT_WORDS)
    named = cursor.peek().upper in words or (cursor.peek().kind is Kind.SYMBOL and cursor.peek().text in ".,")
    if cursor.token.upper in words and not named:
        cursor.fail(f"Expected {what}, found {describe(cursor.token)}.", None, INPUT_HINT)


# ---- WITHIN and RETURN -------------------------------------------------------------------------------


def _within(cursor: Cursor) -> Duration:
    if cursor.at_end:
        cursor.fail(f"Expected a duration behind WITHIN, found {describe(cursor.token)}.", None, EXAMPLES)
    duration = parse_duration(cursor)
    if not cursor.at_end:
        if cursor.token.kind is Kind.NAME and cursor.peek(-1).kind is Kind.NUMBER:
            cursor.fail(f"{describe(cursor.token)} is not a unit of time.", None, UNITS)
        cursor.fail(f"Unexpected {describe(cursor.token)} behind WITHIN.", None, ORDER_HINT)
    return duration


def _returns(cursor: Cursor, variables: Variables) -> tuple[ReturnItem, ...]:
    items: list[ReturnItem] = []
    names: set[str] = set()
    while True:
        begin = cursor.index
        while not cursor.at_end and not cursor.token.is_symbol(","):
            if cursor.token.kind is Kind.SYMBOL and cursor.token.text in "([{":
                cursor.skip_group()
            else:
                cursor.advance()
        if cursor.index == begin:
            before = cursor.tokens[begin - 1].text
            cursor.fail(f"Expected a column of RETURN behind '{before}', found {describe(cursor.token)}.", None, ITEM)
        item = _item(Cursor(cursor.source, cursor.tokens, begin, cursor.index), variables)
        _check_name(cursor, item, names)
        names.add(item.name.lower())
        items.append(item)
        if cursor.at_end:
            return tuple(items)
        cursor.advance()


def _item(cursor: Cursor, variables: Variables) -> ReturnItem:
    begin, end, name = cursor.index, cursor.end, ""
    span = Span(cursor.token.start, cursor.tokens[end - 1].end)
    if cursor.token.is_symbol("*") and end - begin == 1:
        cursor.fail("* is not a column of RETURN.", None, "Without RETURN, every event is returned.")
    if cursor.tokens[begin].upper == "AS":
        cursor.fail("Expected an expression before AS.", None, ITEM)
    if end - begin > 2 and cursor.tokens[end - 2].upper == "AS" and not cursor.tokens[end - 3].is_symbol("."):
        token = cursor.tokens[end - 1]
        if token.kind not in (Kind.NAME, Kind.QUOTED):
            cursor.fail(f"Expected a name behind AS, found {describe(token)}.", token, ITEM)
        name, end = token.identifier, end - 2
    elif cursor.tokens[end - 1].upper == "AS" and end - begin > 1 and not cursor.tokens[end - 2].is_symbol("."):
        cursor.fail("A name is missing behind AS.", cursor.tokens[end - 1], ITEM)
    expression = parse_event_scalar(Cursor(cursor.source, cursor.tokens, begin, end), variables, returned=True)
    _refuse_negated(cursor, expression, variables)
    return ReturnItem(expression, name or _own_name(expression), span)


def _own_name(expression: Scalar) -> str:
    """The attribute or variable, where the expression is nothing else; else its text."""
    atoms = event_atoms(expression)
    if len(atoms) == 1 and expression.text.strip() == expression.atoms[0][0]:
        atom = atoms[0]
        if isinstance(atom, EventColumn):
            return atom.path[-1]
        if isinstance(atom, WholeEvent):
            return atom.variable
    return " ".join(expression.original.split())


def _refuse_negated(cursor: Cursor, expression: Scalar, variables: Variables) -> None:
    for atom in event_atoms(expression):
        if variables[atom.variable.lower()].negation is not None:
            raise EpisodeSyntaxError(
                f"{atom.variable} is negated: a match has no such event.",
                source=cursor.source,
                position=atom.span.start,
                length=atom.span.end - atom.span.start,
                hint="Return events that are not negated.",
            )


def _check_name(cursor: Cursor, item: ReturnItem, names: set[str]) -> None:
    place = Token(Kind.NAME, "", item.span.start, item.span.end)
    if item.name.lower() in names:
        cursor.fail(f"Two columns of RETURN are called {item.name}.", place, ITEM)
    if item.name.lower() in TIMES:
        hint = "match_start and match_end are added to every result; choose another name with AS."
        cursor.fail(f"A column of RETURN cannot be called {item.name}.", place, hint)
