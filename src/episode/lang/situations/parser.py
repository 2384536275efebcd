"""Situation patterns, TPStream's: from text to a SituationQuery.

    [FROM table [[AS] alias]] [PARTITION BY a, b] [ORDER BY time]
    DEFINE symbol AS condition [limit of the duration], …
    PATTERN constraints [WITHIN duration] [RETURN items] [;]

The query is first cut into its clauses; DEFINE is read before PATTERN and RETURN, which use its symbols.
"""

from __future__ import annotations

from episode.errors import EpisodeSyntaxError
from episode.lang.clauses import (
    ITEM,
    SQL_CLAUSES,
    Grammar,
    accept_by,
    check_name,
    cut_clauses,
    read_columns,
    read_table,
    read_time,
    read_within,
    refuse_keyword,
    split_list,
    split_name,
    with_suggestion,
)
from episode.lang.cursor import Cursor
from episode.lang.lexer import Token, tokenize
from episode.lang.lifting import lift_scalar, refuse_reserved
from episode.lang.situations.define import check_pairs, check_window, parse_definitions
from episode.lang.situations.relations import check_constraints, parse_constraints
from episode.lang.situations.scalar import ReturnAtoms, Symbols
from episode.lang.situations.syntax import Constraint, SituationDefinition, SituationInput, SituationQuery
from episode.lang.syntax import NOWHERE, ReturnItem, Source, Span

ORDER_HINT = "The parts, in order: DEFINE, PATTERN, WITHIN, RETURN."
EXAMPLE = "Write for example DEFINE A AS x > 5, B AS y < 3 PATTERN A overlaps B WITHIN 10 seconds."
FILTER = "Say in DEFINE which events make a situation, or filter the input first."
GRAMMAR = Grammar(
    name="a situation pattern",
    clauses=("DEFINE", "PATTERN", "WITHIN", "RETURN"),
    inputs=("FROM", "PARTITION", "ORDER"),
    order_hint=ORDER_HINT,
    input_hint="Before DEFINE: FROM table [AS] alias PARTITION BY a, b ORDER BY time.",
    example=EXAMPLE,
    elsewhere={**dict.fromkeys(SQL_CLAUSES, ORDER_HINT), ("WHERE",): FILTER},
)
TIMES = ("match_start", "match_end", "detected_at")


def parse_situation_query(text: str) -> SituationQuery:
    """A whole text that is a situation pattern, with or without FROM before it."""
    tokens = tokenize(text)
    return parse_situation_tokens(text, tokens, 0, len(tokens) - 1)


def parse_situation_tokens(source: str, tokens: list[Token], begin: int, end: int) -> SituationQuery:
    """The situation pattern in tokens[begin:end] of a larger query."""
    if end > begin and tokens[end - 1].is_symbol(";"):
        end -= 1
    try:
        return _query(Cursor(source, tokens, begin, end))
    except EpisodeSyntaxError as error:
        define = next((token.start for token in tokens[begin:end] if token.upper == "DEFINE"), 0)
        inputs = GRAMMAR.inputs if (error.position or 0) < define else ()
        raise with_suggestion(error, tokens, begin, end, (*GRAMMAR.clauses, *inputs)) from None


def _query(cursor: Cursor) -> SituationQuery:
    if cursor.at_end:
        cursor.fail("The query is empty.", None, EXAMPLE)
    begin, end = cursor.index, cursor.end
    refuse_reserved(cursor)
    source = _input(cursor)
    qualifiers = _qualifiers(source)
    clauses = cut_clauses(cursor, GRAMMAR)
    spans = {  # nothing of an empty clause
        name: Span(clause.token.start, max(clause.token.start, clause.rest.end)) for name, clause in clauses.items()
    }
    definitions = parse_definitions(clauses["DEFINE"], qualifiers)
    if "PATTERN" not in clauses:
        later = next((name for name in ("WITHIN", "RETURN") if name in clauses), None)
        place = None if later is None else cursor.tokens[clauses[later].index - 1]
        cursor.fail("PATTERN is missing.", place, EXAMPLE)
    symbols = {definition.symbol.lower(): definition.symbol for definition in definitions}
    constraints = parse_constraints(clauses["PATTERN"], symbols)
    _check_use(cursor, definitions, constraints)
    check_constraints(cursor, constraints)
    check_pairs(cursor, definitions, constraints)
    within = read_within(clauses["WITHIN"], GRAMMAR) if "WITHIN" in clauses else None
    if within is not None and within.amount == 0 and within.parameter is None:
        cursor.fail("No match fits WITHIN zero.", within.span, "Give a longer duration, or leave WITHIN out.")
    check_window(cursor, definitions, within)
    return SituationQuery(
        definitions=definitions,
        constraints=constraints,
        within=within,
        returns=_returns(clauses["RETURN"], symbols, qualifiers) if "RETURN" in clauses else None,
        input=source,
        source=Source(cursor.source, Span(cursor.tokens[begin].start, cursor.tokens[end - 1].end), spans["PATTERN"]),
        define_span=spans["DEFINE"],
        return_span=spans.get("RETURN", NOWHERE),
    )


def _input(cursor: Cursor) -> SituationInput:
    table, alias, table_span = None, None, NOWHERE
    if cursor.accept_words("FROM"):
        table, table_span = read_table(cursor, GRAMMAR)
        if cursor.accept_words("AS"):
            refuse_keyword(cursor, "a name for the table", GRAMMAR)
            alias = cursor.expect_identifier("a name for the table", GRAMMAR.input_hint).identifier
        elif cursor.token.is_name and cursor.token.upper not in (*GRAMMAR.clauses, *GRAMMAR.inputs, "WHERE"):
            alias = cursor.advance().identifier
    found = SituationInput(table, alias, table_span)
    qualifiers = _qualifiers(found)
    partition: tuple[str, ...] = ()
    if accept_by(cursor, "PARTITION", GRAMMAR):
        partition = read_columns(cursor, "a column to partition by", GRAMMAR, qualifiers)
    time = read_time(cursor, GRAMMAR, qualifiers) if accept_by(cursor, "ORDER", GRAMMAR) else None
    return SituationInput(table, alias, table_span, partition, time)


def _qualifiers(source: SituationInput) -> tuple[str, ...]:
    """Return the names that may qualify a column: the alias, or the table's own name without its schema."""
    if source.table is None:
        return ()
    name = tokenize(source.table)[-2].identifier
    return (name,) if source.alias is None else (source.alias, name)


def _check_use(
    cursor: Cursor, definitions: tuple[SituationDefinition, ...], constraints: tuple[Constraint, ...]
) -> None:
    used = {symbol for constraint in constraints for symbol in (constraint.left, constraint.right)}
    for definition in definitions:
        if definition.symbol not in used:
            hint = "Relate it to another situation in PATTERN, or take the definition out."
            cursor.fail(f"{definition.symbol} is defined, but PATTERN does not use it.", definition.symbol_span, hint)


def _returns(cursor: Cursor, symbols: Symbols, qualifiers: tuple[str, ...]) -> tuple[ReturnItem, ...]:
    items: list[ReturnItem] = []
    names: set[str] = set()
    for part in split_list(cursor, "a column of RETURN", ITEM):
        span = part.rest
        inner, name = split_name(part, "Name what to return: first(A.x), A.start, A.end.")
        expression = lift_scalar(inner, ReturnAtoms(symbols, qualifiers))
        item = ReturnItem(expression, name or expression.plain_original, span)
        check_name(cursor, item.name, span, names, TIMES)
        items.append(item)
    return tuple(items)
