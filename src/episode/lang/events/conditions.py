"""The WHERE of event patterns: its conjuncts, `[attribute]`s and the strategy.

Conjuncts are separated by AND, ∧ or a further WHERE, also inside brackets around several of them. A chain
`a.x = b.x = c.x` becomes pairs, and `[..i]` becomes `[]` where all events are selected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NoReturn

from episode.lang.cursor import Cursor, closest, describe, top_level, top_words
from episode.lang.events.scalar import Variables, parse_event_scalar
from episode.lang.events.syntax import (
    EventAggregate,
    EventAtom,
    EventColumn,
    Index,
    Reach,
    SameAttribute,
    Strategy,
    event_atoms,
)
from episode.lang.lexer import Kind, Token, tokenize
from episode.lang.lifting import PLACEHOLDER
from episode.lang.spark_expression import EVENT_PATTERNS, MAXIMUM_DEPTH, TOO_DEEP, read_expression
from episode.lang.syntax import NOWHERE, Scalar, Span

STRATEGIES = {strategy.value: strategy for strategy in Strategy}
STRATEGY_SIGNS = {"|": Strategy.STRICT, "→": Strategy.NEXT, "⇒": Strategy.ANY}
STRATEGY_HINT = f"The strategies: {', '.join(STRATEGIES)}."
SAME = "[x] between ANDs means that x is the same in all events."
AROUND_OR = "Put brackets around the OR"
COMPARISONS = ("=", "==", "<", ">", "<=", ">=", "<>", "!=", "<=>", "≥", "≤", "≠")
COMPARED = ("eq", "neq", "gt", "gte", "lt", "lte", "nullsafeeq")
CHAINS_INSIDE = "Elsewhere, write a.x = b.x AND b.x = c.x."
CHAINS = "Only = can be chained; write a.x < b.x AND b.x < c.x."

Range = tuple[int, int]
"""Indices of tokens, half open."""


@dataclass
class Conditions:
    """The contents of WHERE."""

    conditions: list[Scalar] = field(default_factory=list)
    same: list[SameAttribute] = field(default_factory=list)
    strategy: Strategy | None = None
    strategy_span: Span = NOWHERE


def parse_conditions(cursor: Cursor, variables: Variables) -> Conditions:
    """The conditions between the cursor, after the first WHERE, and its end."""
    found = Conditions()
    _check_depth(cursor)
    pending = list(
        reversed(_split(cursor, cursor.index, cursor.end, top_words(cursor, cursor.index, cursor.end, "WHERE")))
    )
    while pending:
        begin, end = pending.pop()
        inner = _without_brackets(cursor, begin, end)
        ands = [] if top_words(cursor, *inner, "OR") else top_words(cursor, *inner, "AND", "∧")
        pieces = _split(cursor, *inner, ands)
        if len(pieces) > 1 or inner != (begin, end):
            pending += reversed(pieces)
        else:
            _conjunct(cursor.part(begin, end), variables, found)
    return found


def _check_depth(cursor: Cursor) -> None:
    depth = 0
    for token in cursor.tokens[cursor.index : cursor.end]:
        depth += token.nesting
        if depth > MAXIMUM_DEPTH:
            cursor.fail(TOO_DEEP, token, EVENT_PATTERNS.smaller)


# ---- splitting ---------------------------------------------------------------------------------------


def _split(cursor: Cursor, begin: int, end: int, separators: list[int]) -> list[Range]:
    ranges = list(zip([begin, *(index + 1 for index in separators)], [*separators, end]))
    for number, (first, last) in enumerate(ranges):
        if first == last:
            after = cursor.tokens[separators[number - 1] if number else begin - 1].text
            stop = cursor.tokens[last]
            cursor.fail(f"Expected a condition after {after}, found {describe(stop)}.", stop)
    return ranges


def _without_brackets(cursor: Cursor, begin: int, end: int) -> Range:
    """The inside of brackets around the whole; a list of values keeps its brackets."""
    while cursor.tokens[begin].is_symbol("("):
        at = cursor.part(begin, end)
        closing = at.skip_group()
        listed = any(cursor.tokens[index].is_symbol(",") for index in top_level(cursor, begin + 1, closing))
        if not at.at_end or closing == begin + 1 or listed:
            break
        begin, end = begin + 1, closing
    return begin, end


# ---- one conjunct ------------------------------------------------------------------------------------


def _conjunct(cursor: Cursor, variables: Variables, found: Conditions) -> None:
    _refuse_attributes_inside(cursor)
    if cursor.token.is_symbol("["):
        found.same += _same_attributes(cursor)
        return
    strategy = _strategy(cursor)
    if strategy is not None:
        if found.strategy is not None:
            _fail_at(cursor, cursor.index, cursor.end, "The strategy is given twice.", "Keep one of them.")
        found.strategy = strategy
        found.strategy_span = cursor.rest
        return
    for condition in _scalars(cursor, variables):
        _check_variables(cursor, condition, variables)
        found.conditions.append(condition)


def _fail_at(cursor: Cursor, begin: int, end: int, message: str, hint: str) -> NoReturn:
    cursor.fail(message, cursor.span_of(begin, end), hint)


def _refuse_attributes_inside(cursor: Cursor) -> None:
    """Refuse `[x]` next to an OR, after NOT or inside brackets: it is not a truth value by itself."""
    alternatives = _has_or(cursor)
    for index in range(cursor.index, cursor.end):
        begins = index == cursor.index or cursor.tokens[index - 1].text.upper() in ("AND", "∧", "OR", "NOT", "(")
        if not (begins and cursor.tokens[index].is_symbol("[")) or (index == cursor.index and not alternatives):
            continue
        closing = cursor.part(index, cursor.end).skip_group()
        written = _short(cursor, index, closing + 1)
        if alternatives:
            message, hint = f"{written} cannot be part of an OR.", f"{AROUND_OR}: {written} AND (… OR …)."
        else:
            message, hint = f"{written} must be a separate condition.", SAME
        _fail_at(cursor, index, closing + 1, message, hint)


def _has_or(cursor: Cursor) -> bool:
    return bool(top_words(cursor, cursor.index, cursor.end, "OR"))


def _same_attributes(cursor: Cursor) -> list[SameAttribute]:
    opening = cursor.index
    closing = cursor.skip_group()
    if not cursor.at_end:
        cursor.fail(f"Expected AND after {_short(cursor, opening, closing + 1)}, found {describe(cursor.token)}.",
                    None, SAME)  # fmt: skip
    inner = cursor.part(opening + 1, closing)
    if inner.at_end:
        inner.fail("Expected an attribute between these brackets.", inner.tokens[opening], SAME)
    found: list[SameAttribute] = []
    while not found or not inner.at_end:
        if found:
            inner.expect_symbol(",", "between attributes", "Write [a, b], or [a] AND [b].")
        start = inner.token.start
        path = [inner.expect_identifier("an attribute", SAME).identifier]
        while inner.accept_symbol("."):
            path.append(inner.expect_identifier("an attribute", SAME).identifier)
        found.append(SameAttribute(tuple(path), inner.span_from(start)))
    return found


def _short(cursor: Cursor, begin: int, end: int) -> str:
    span = cursor.span_of(begin, end)
    return describe(Token(Kind.QUOTED, cursor.source[span.start : span.end], span.start, span.end))


# ---- strategies --------------------------------------------------------------------------------------


def _strategy(cursor: Cursor) -> Strategy | None:
    """The strategy, if the conjunct is one; inside of a conjunct it is an error."""
    begin, end = cursor.index, cursor.end
    if end == begin + 1 and cursor.token.kind is Kind.SYMBOL and cursor.token.text in STRATEGY_SIGNS:
        return STRATEGY_SIGNS[cursor.token.text]
    for index in range(begin, end):
        stop = _end_of_strategy(cursor, index)
        if stop is None:
            continue
        if index != begin or stop != end:
            message = "A strategy must be a separate condition."
            hint = "Write WHERE skip-till-next-match AND …."
            if _has_or(cursor):
                hint = f"{AROUND_OR}: {_short(cursor, index, stop)} AND (… OR …)."
            _fail_at(cursor, index, stop, message, hint)
        words = "-".join(_words(cursor, begin, end))
        hyphens = sum(cursor.tokens[i].is_symbol("-") for i in range(begin, end))
        names = end - begin - hyphens
        if words in STRATEGIES and hyphens == names - 1:
            return STRATEGIES[words]
        similar = closest(words, STRATEGIES)
        hint = STRATEGY_HINT if similar is None else f"Did you mean {similar}?"
        _fail_at(cursor, begin, end, f"{_short(cursor, begin, end)} is not a strategy.", hint)
    return None


def _words(cursor: Cursor, begin: int, end: int) -> list[str]:
    """`skip-till_any match`: its words."""
    names = [token.text.lower() for token in cursor.tokens[begin:end] if token.kind is Kind.NAME]
    return [word for name in names for word in name.split("_") if word]


def _end_of_strategy(cursor: Cursor, begin: int) -> int | None:
    """After the words of a strategy, known or not, that begins here; what else would begin so?"""
    after_dot = begin > cursor.index and cursor.tokens[begin - 1].is_symbol(".")
    if after_dot or cursor.tokens[begin].kind is not Kind.NAME:
        return None
    end, words = begin, list[str]()
    while end < cursor.end and (cursor.tokens[end].kind is Kind.NAME or cursor.tokens[end].is_symbol("-")):
        if cursor.tokens[end].upper in ("AND", "OR"):
            break
        words += _words(cursor, end, end + 1)
        end += 1
        if len(words) > 2 and words[:2] != ["skip", "till"]:
            return None
    skips = words[:2] == ["skip", "till"] and len(words) > 2
    contiguous = len(words) == 2 and words[1].startswith("contig")
    return end if skips or contiguous else None


# ---- chains of equalities ----------------------------------------------------------------------------


def _scalars(cursor: Cursor, variables: Variables) -> list[Scalar]:
    """The conjunct as it is, or a chain of equalities in pairs.

    Operands that stand for one event each are paired with one another. Those of a negated event, and those of each
    event of a closure, are paired with one of these: `a.x = n.x = c.x` requires a.x = c.x, whatever n is.
    """
    operands = _chain(cursor)
    if len(operands) < 3:
        begin = cursor.index
        condition = parse_event_scalar(cursor, variables, returned=False)
        if any(node.key in COMPARED and getattr(node.this, "key", None) in COMPARED for node in condition.tree.walk()):
            _fail_at(cursor, begin, cursor.end, "A chain of = must be a separate condition.", CHAINS_INSIDE)
        return _with_all_known([condition], variables)
    cursors = [cursor.part(begin, end) for begin, end in operands]
    parsed = [parse_event_scalar(operand, variables, returned=False) for operand in cursors]
    parsed = _with_all_known(parsed, variables)
    plain = [not _iterated_closures(scalar, variables) and not _negations(scalar, variables) for scalar in parsed]
    if not any(plain):
        return [_equal(left, right) for left, right in pairwise(parsed)]
    pairs = []
    before: Scalar | None = None
    for number, scalar in enumerate(parsed):
        if before is not None:
            pairs.append(_equal(before, scalar))
        elif not plain[number]:
            pairs.append(_equal(scalar, parsed[plain.index(True)]))
        if plain[number]:
            before = scalar
    return pairs


def _with_all_known(operands: list[Scalar], variables: Variables) -> list[Scalar]:
    """`c.x < max(b[..i].x)` of a c after b: all of b are selected by then, which `[..i]` means (SASE++, 5.2).

    Where the condition also names b[i], b[i-k] or b[..i-1], it goes through the events of b as elsewhere.
    """
    atoms = [atom for operand in operands for atom in event_atoms(operand)]
    current = [atom for atom in atoms if isinstance(atom, EventAggregate) and atom.reach is Reach.CURRENT]
    names = {atom.variable.lower() for atom in atoms}
    through = {atom.variable.lower() for atom in atoms if _goes_through(atom) and atom not in current}

    def with_reach(atom: EventAtom) -> EventAtom:
        name = atom.variable.lower()
        if not isinstance(atom, EventAggregate) or atom not in current or name in through:
            return atom
        return replace(atom, reach=Reach.ALL) if names & variables[name].after else atom

    return [
        replace(one, atoms=tuple((name, with_reach(atom)) for (name, _), atom in zip(one.atoms, event_atoms(one))))
        for one in operands
    ]


def _chain(cursor: Cursor) -> list[Range]:
    """The operands of a chain of =; other chains of comparisons are refused."""
    words = {cursor.tokens[index].upper for index in top_level(cursor, cursor.index, cursor.end)}
    operators = _comparisons(cursor)
    if len(operators) < 2 or words & {"OR", "AND", "BETWEEN"}:
        return []
    if any(_text(cursor, operator) not in ("=", "==") for operator in operators):
        _fail_at(cursor, *operators[1], "Comparisons cannot be chained like this.", CHAINS)
    if "NOT" in words:
        hint = "Write NOT (a.x = b.x AND b.x = c.x)."
        _fail_at(cursor, cursor.index, cursor.end, "A chain of = cannot be negated.", hint)
    begins = [cursor.index, *(end for _, end in operators)]
    ends = [*(begin for begin, _ in operators), cursor.end]
    for number, (begin, end) in enumerate(zip(begins, ends)):
        if begin == end:
            cursor.fail("An operand is missing here.", cursor.tokens[operators[max(0, number - 1)][0]])
    return list(zip(begins, ends))


def _comparisons(cursor: Cursor) -> list[Range]:
    """Comparison operators outside brackets; each is a run of signs without blanks."""
    runs: list[Range] = []
    for index in top_level(cursor, cursor.index, cursor.end):
        token = cursor.tokens[index]
        if token.kind is not Kind.SYMBOL or token.text not in "=<>!≥≤≠":
            continue
        if runs and runs[-1][1] == index and cursor.tokens[index - 1].end == token.start:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return [run for run in runs if _text(cursor, run) in COMPARISONS]


def _text(cursor: Cursor, operator: Range) -> str:
    return "".join(token.text for token in cursor.tokens[slice(*operator)])


def _equal(left: Scalar, right: Scalar) -> Scalar:
    """`left = right` as one scalar; the placeholders of the right side are counted on."""
    shift = len(left.atoms)

    def renumber(text: str) -> str:
        return re.sub(rf"\b{PLACEHOLDER}(\d+)\b", lambda found: f"{PLACEHOLDER}{int(found.group(1)) + shift}", text)

    text = f"{left.text} = {renumber(right.text)}"
    atoms = (*left.atoms, *((renumber(name), atom) for name, atom in right.atoms))
    span = Span(min(left.span.start, right.span.start), max(left.span.end, right.span.end))
    tree = read_expression(text, tokenize(text), EVENT_PATTERNS)
    return Scalar(text, tree, atoms, f"{left.original} = {right.original}", span)


# ---- what a conjunct may mention ---------------------------------------------------------------------


def _check_variables(cursor: Cursor, condition: Scalar, variables: Variables) -> None:
    iterated, negations = _iterated_closures(condition, variables), _negations(condition, variables)
    for name, span in list(iterated.items())[1:]:
        first = next(iter(iterated))
        hint = f"Of one of them, name a single event, {name}[1].x or {name}[last].x, or an aggregate: max({name}[].x)."
        cursor.fail(f"One condition cannot go through both {first} and {name}.", span, hint)
    for _, (name, span) in list(negations.items())[1:]:
        other = next(iter(negations.values()))[0]
        hint = "Compare each with events that are not negated."
        cursor.fail(f"One condition cannot be about two negated events, {other} and {name}.", span, hint)
    inner = any(variables[atom.variable.lower()].inner is not None for atom in event_atoms(condition))
    known = [variables[name.lower()] for name in iterated]
    if negations and any((one.inner if inner else one.negation) is None for one in known):
        name, span = next(iter(iterated.items()))
        hint = f"Name a single event, {name}[1].x or {name}[last].x, or an aggregate: max({name}[].x)."
        cursor.fail(f"A condition of a negated event cannot go through {name}.", span, hint)


def _iterated_closures(scalar: Scalar, variables: Variables) -> dict[str, Span]:
    """The closures that a condition goes through event by event, with the place of the first mention."""
    found: dict[str, Span] = {}
    for atom in event_atoms(scalar):
        if variables[atom.variable.lower()].closure and _goes_through(atom):
            found.setdefault(atom.variable, atom.span)
    return found


def _goes_through(atom: EventAtom) -> bool:
    if isinstance(atom, EventColumn):
        return atom.index in (Index.PLAIN, Index.EACH, Index.BACK)
    return isinstance(atom, EventAggregate) and atom.reach is not Reach.ALL


def _negations(scalar: Scalar, variables: Variables) -> dict[int, tuple[str, Span]]:
    """The negations that a condition is about, each with a variable of it and the place of the first mention.

    Of a negation inside a negation, together with events of the outer one."""
    found: dict[int, tuple[str, Span]] = {}
    inner: dict[int, tuple[str, Span]] = {}
    for atom in event_atoms(scalar):
        variable = variables[atom.variable.lower()]
        if variable.negation is not None:
            found.setdefault(variable.negation, (atom.variable, atom.span))
        if variable.inner is not None:
            inner.setdefault(variable.inner, (atom.variable, atom.span))
    return inner if len(inner) > 1 else found
