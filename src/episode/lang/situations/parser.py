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
    read_table,
    read_time,
    read_within,
    refuse_keyword,
    split_list,
    split_name,
    with_suggestion,
)
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.keys import read_keys
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.lifting import lift_scalar, refuse_reserved
from episode.lang.situations.allen import Relation, contradiction, mirror
from episode.lang.situations.define import check_pairs, check_window, parse_definitions
from episode.lang.situations.scalar import ReturnAtoms, Symbols, known_symbols
from episode.lang.situations.syntax import Constraint, SituationDefinition, SituationInput, SituationQuery
from episode.lang.spark_expression import MAXIMUM_DEPTH, SITUATION_PATTERNS
from episode.lang.syntax import NOWHERE, ReturnItem, Source, Span

ORDER_HINT = "The parts, in order: DEFINE, PATTERN, WITHIN, RETURN."
EXAMPLE = "Write for example DEFINE A AS x > 5, B AS y < 3 PATTERN A overlaps B WITHIN 10 seconds."
FILTER = "Let DEFINE choose the events of a situation, or filter the input first."
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
    partition, expressions = (
        read_keys(cursor, GRAMMAR, SITUATION_PATTERNS, qualifiers)
        if accept_by(cursor, "PARTITION", GRAMMAR)
        else ((), ())
    )
    time = read_time(cursor, GRAMMAR, qualifiers) if accept_by(cursor, "ORDER", GRAMMAR) else None
    return SituationInput(table, alias, table_span, partition, time, expressions)


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


# PATTERN: constraints joined by AND, each with its alternatives.
#
#     constraints   := alternatives (AND alternatives)*
#     alternatives  := operand ((';' | OR) operand)*
#     operand       := '(' constraints ')' | symbol (relation symbol)+
#
# A chain `A before B overlaps C` stands for A before B AND B overlaps C. Alternatives are about one pair of symbols.


RELATIONS = {relation.value: relation for relation in Relation} | {"equal": Relation.EQUALS}
KNOWN_RELATIONS = f"The relations: {', '.join(relation.value for relation in Relation)}."
OTHER_NAMES = {
    "precedes": "before",
    "preceded-by": "after",
    "follows": "after",
    "ends": "finishes",
    "ended-by": "finished-by",
    "inside": "during",
    "in": "during",
    "includes": "contains",
    "touches": "meets",
    "is": "equals",
    "same": "equals",
}
"""Names of the relations in other systems."""
RELATION_EXAMPLE = "Write for example PATTERN A meets B; A overlaps B AND B before C."
JOINED = "Constraints are joined by AND, alternatives of one pair by ';' or OR."


def parse_constraints(cursor: Cursor, symbols: Symbols) -> tuple[Constraint, ...]:
    """The constraints between the cursor and its end."""
    if cursor.at_end:
        cursor.fail(f"Expected a situation after PATTERN, found {describe(cursor.token)}.", None, RELATION_EXAMPLE)
    found = _constraints(cursor, symbols, 0)
    if not cursor.at_end:
        if cursor.token.is_symbol(")"):
            cursor.fail("This ')' closes nothing.")
        cursor.fail(f"{describe(cursor.token)} is not expected here.", None, JOINED)
    return tuple(found)


def check_constraints(cursor: Cursor, constraints: tuple[Constraint, ...]) -> None:
    """Constraints that no situations can fulfil are an error at the last one that is part of the contradiction."""
    found = contradiction([(each.left, each.right, each.relations) for each in constraints])
    if found is not None:
        place = constraints[found.constraints[-1]].span
        hint = "No situations can fulfil this pattern; one of these constraints must go, or needs another alternative."
        cursor.fail(f"The constraints contradict each other: {found.reason}.", place, hint)


def _constraints(cursor: Cursor, symbols: Symbols, depth: int) -> list[Constraint]:
    found = _alternatives(cursor, symbols, depth)
    while cursor.accept_words("AND"):
        found += _alternatives(cursor, symbols, depth)
    return found


def _alternatives(cursor: Cursor, symbols: Symbols, depth: int) -> list[Constraint]:
    operands = [_operand(cursor, symbols, depth)]
    while cursor.accept_symbol(";") or cursor.accept_words("OR"):
        operands.append(_operand(cursor, symbols, depth))
    if len(operands) == 1:
        return operands[0]
    for operand in operands:
        if len(operand) > 1:
            pairs = " and ".join(f"{each.left}, {each.right}" for each in operand[:2])
            place = Span(operand[0].span.start, operand[-1].span.end)
            hint = f"An alternative is one relation of one pair; this one is about {pairs}. {JOINED}"
            cursor.fail("Several constraints cannot be one alternative.", place, hint)
    return [_merge(cursor, [operand[0] for operand in operands])]


def _merge(cursor: Cursor, alternatives: list[Constraint]) -> Constraint:
    """One constraint, in the direction of the first alternative."""
    first, last = alternatives[0], alternatives[-1]
    relations: set[Relation] = set()
    for other in alternatives:
        if (other.left, other.right) == (first.left, first.right):
            relations.update(other.relations)
        elif (other.right, other.left) == (first.left, first.right):
            relations.update(mirror(relation) for relation in other.relations)
        else:
            message = f"The alternatives before are about {first.left} and {first.right}, this one is not."
            hint = "Alternatives are about one pair; write AND between constraints about different pairs."
            cursor.fail(message, other.span, hint)
    ordered = tuple(relation for relation in Relation if relation in relations)
    return Constraint(first.left, first.right, ordered, Span(first.span.start, last.span.end))


def _operand(cursor: Cursor, symbols: Symbols, depth: int) -> list[Constraint]:
    if not cursor.token.is_symbol("("):
        return _chain(cursor, symbols)
    opening = cursor.advance()
    if depth >= MAXIMUM_DEPTH:
        cursor.fail("This pattern is nested too deeply.", opening, "Leave brackets out that change nothing.")
    found = _constraints(cursor, symbols, depth + 1)
    if cursor.at_end:
        cursor.fail("This '(' is not closed.", opening, "Add the missing ')'.")
    if not cursor.accept_symbol(")"):
        cursor.fail(f"{describe(cursor.token)} is not expected here.", None, JOINED)
    return found


def _chain(cursor: Cursor, symbols: Symbols) -> list[Constraint]:
    start, left = cursor.token, _symbol(cursor, symbols)
    found: list[Constraint] = []
    while not found or (cursor.token.kind is Kind.NAME and cursor.token.upper not in ("AND", "OR")):
        relation = _relation(cursor, left, symbols, alone=not found)
        place, right = cursor.token, _symbol(cursor, symbols)
        if left == right:
            span = Span(start.start, place.end)
            cursor.fail(f"{left} is related to itself.", span, "A relation is between two different situations.")
        found.append(Constraint(left, right, (relation,), cursor.span_from(start.start)))
        start, left = place, right
    return found


def _symbol(cursor: Cursor, symbols: Symbols) -> str:
    token, before = cursor.token, cursor.tokens[cursor.index - 1].text
    if token.upper == "NOT":
        cursor.fail("NOT is not allowed in PATTERN.", None, "List the relations that are wanted, as alternatives.")
    if not token.is_name or token.upper in ("AND", "OR"):
        hint = JOINED if before == ";" else known_symbols(symbols)
        cursor.fail(f"Expected a situation after '{before}', found {describe(token)}.", None, hint)
    symbol = symbols.get(token.identifier.lower())
    if symbol is None:
        if token.text.lower() in RELATIONS:
            message = f"Expected a situation after '{before}', found the relation {describe(token)}."
            cursor.fail(message, None, known_symbols(symbols))
        similar = closest(token.identifier, symbols.values())
        hint = f"Did you mean {similar}?" if similar is not None else f"Define it in DEFINE. {known_symbols(symbols)}"
        cursor.fail(f"{token.identifier} is not defined.", token, hint)
    cursor.advance()
    return symbol


def _relation(cursor: Cursor, left: str, symbols: Symbols, alone: bool) -> Relation:
    """The relation at the cursor: `met-by`, `met_by` and `met by` are the same."""
    first = cursor.token
    if first.kind is not Kind.NAME or first.upper in ("AND", "OR"):
        if cursor.at_end and cursor.tokens[cursor.index - 2].upper == "PATTERN":
            cursor.fail("A pattern relates at least two situations.", cursor.tokens[cursor.index - 1], RELATION_EXAMPLE)
        cursor.fail(f"Expected a relation after {left}, found {describe(first)}.", None, KNOWN_RELATIONS)
    words = [cursor.advance().text.lower()]
    if cursor.token.is_symbol("-") and cursor.peek().kind is Kind.NAME:
        cursor.advance()
        words.append(cursor.advance().text.lower())
    elif cursor.token.upper == "BY" and words[0] not in RELATIONS:
        words.append(cursor.advance().text.lower())
    name = "-".join(words).replace("_", "-")
    if name not in RELATIONS and not alone and first.identifier.lower() in symbols:
        cursor.fail(f"Expected AND or ';' before {describe(first)}.", first, JOINED)
    if name not in RELATIONS:
        similar = OTHER_NAMES.get(name) or closest(name, RELATIONS) or closest(f"{name}-by", RELATIONS)
        place = cursor.span_from(first.start)
        shown = " ".join(cursor.source[place.start : place.end].split())
        hint = KNOWN_RELATIONS if similar is None else f"Did you mean {similar}?"
        cursor.fail(f"'{shown}' is not a relation.", place, hint)
    return RELATIONS[name]
