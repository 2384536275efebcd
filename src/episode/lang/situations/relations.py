"""The PATTERN of situation patterns: constraints joined by AND, each with its alternatives.

    constraints   := alternatives (AND alternatives)*
    alternatives  := operand ((';' | OR) operand)*
    operand       := '(' constraints ')' | symbol (relation symbol)+

A chain `A before B overlaps C` stands for A before B AND B overlaps C. Alternatives are about one pair of symbols.
"""

from __future__ import annotations

from episode.lang.cursor import Cursor, closest, describe
from episode.lang.lexer import Kind
from episode.lang.situations.allen import Relation, contradiction, mirror
from episode.lang.situations.scalar import Symbols, known_symbols
from episode.lang.situations.syntax import Constraint
from episode.lang.spark_expression import MAXIMUM_DEPTH
from episode.lang.syntax import Span

RELATIONS = {relation.value: relation for relation in Relation} | {"equal": Relation.EQUALS}
KNOWN = f"The relations: {', '.join(relation.value for relation in Relation)}."
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
EXAMPLE = "Write for example PATTERN A meets B; A overlaps B AND B before C."
JOINED = "Constraints are joined by AND, alternatives of one pair by ';' or OR."


def parse_constraints(cursor: Cursor, symbols: Symbols) -> tuple[Constraint, ...]:
    """The constraints between the cursor and its end."""
    if cursor.at_end:
        cursor.fail(f"Expected a situation after PATTERN, found {describe(cursor.token)}.", None, EXAMPLE)
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
            cursor.fail("A pattern relates at least two situations.", cursor.tokens[cursor.index - 1], EXAMPLE)
        cursor.fail(f"Expected a relation after {left}, found {describe(first)}.", None, KNOWN)
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
        cursor.fail(f"'{shown}' is not a relation.", place, KNOWN if similar is None else f"Did you mean {similar}?")
    return RELATIONS[name]
