"""The DEFINE of situation patterns: symbols, their conditions, and how long their situations may last.

    symbol AS condition [AT LEAST d | AT MOST d | AT LEAST d AND AT MOST d | BETWEEN d AND d] [, …]

BETWEEN at the end of a definition limits the duration, or is SQL's operator. It limits the duration if
(1) both bounds are durations and one of them has a unit of time, or `units`, or INTERVAL: `fast BETWEEN 4s AND 30s`; or
(2) a whole condition precedes it, after the last AND or OR: one with a comparison, IS, IN, LIKE, BETWEEN or NOT,
TRUE or FALSE, or a call of a function that is true or false: `speed > 70 BETWEEN 4 AND 30`.
Otherwise it is SQL's: `speed BETWEEN 4 AND 30`, `ok AND speed BETWEEN 4 AND 30`. In brackets it is always SQL's.
AT LEAST and AT MOST are never SQL.
"""

from __future__ import annotations

from episode.errors import EpisodeSyntaxError
from episode.lang.clauses import refuse_unit, split_list
from episode.lang.cursor import Cursor, describe, top_level, top_words
from episode.lang.duration import PLAIN_UNITS, parse_window
from episode.lang.lexer import Kind, Token, words_of
from episode.lang.lifting import lift_scalar
from episode.lang.situations.allen import EVERY, Relation, constraint_text, mask, mirror_mask, relations_of
from episode.lang.situations.scalar import ConditionAtoms, Symbols
from episode.lang.situations.syntax import Constraint, SituationDefinition
from episode.lang.spark_expression import MAXIMUM_DEPTH
from episode.lang.syntax import Duration, Span

MAXIMUM_DEFINITIONS = 32
DEFINITION = "Write for example DEFINE A AS speed > 70 AT LEAST 5 seconds, B AS speed < 30."
LIMIT = "Limits of the duration: AT LEAST 5s, AT MOST 30s, BETWEEN 5s AND 30s."
RESERVED = ("AND", "OR", "NOT", "AS", "BY", "AT", "BETWEEN")
COMPARISONS = "=<>≥≤≠"
CONDITION_WORDS = ("IS", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "NOT", "TRUE", "FALSE")
BOOLEAN_FUNCTIONS = words_of("""
    ARRAYS_OVERLAP ARRAY_CONTAINS BOOLEAN CONTAINS ENDSWITH EQUAL_NULL EXISTS FORALL ISNAN ISNOTNULL ISNULL
    IS_VALID_UTF8 LIKE MAP_CONTAINS_KEY REGEXP REGEXP_LIKE RLIKE STARTSWITH
""")


def parse_definitions(cursor: Cursor, qualifiers: tuple[str, ...]) -> tuple[SituationDefinition, ...]:
    """The definitions between the cursor and its end."""
    parts: list[tuple[Token, Cursor]] = []
    symbols: dict[str, str] = {}
    for part in split_list(cursor, "a definition", DEFINITION):
        token = _header(part, bool(parts))
        if token.identifier.lower() in symbols:
            cursor.fail(f"{token.identifier} is defined twice.", token, "Give one of them another name.")
        if len(parts) == MAXIMUM_DEFINITIONS:
            hint = "Split the pattern, or describe several situations by one condition."
            cursor.fail(f"A query can define at most {MAXIMUM_DEFINITIONS} situations.", token, hint)
        symbols[token.identifier.lower()] = token.identifier
        parts.append((token, part))
    return tuple(_definition(token, part, symbols, qualifiers) for token, part in parts)


def _header(cursor: Cursor, further: bool) -> Token:
    """`symbol AS`."""
    token = cursor.token
    if not token.is_name:
        cursor.fail(f"Expected the name of a situation, found {describe(token)}.", None, DEFINITION)
    if token.upper in RESERVED:
        cursor.fail(f"{token.upper} cannot be the name of a situation.", None, DEFINITION)
    cursor.advance()
    if cursor.token.upper != "AS":
        hint = "A comma outside brackets separates definitions: symbol AS condition." if further else DEFINITION
        cursor.fail(f"Expected AS after {token.text}, found {describe(cursor.token)}.", None, hint)
    cursor.advance()
    return token


def _definition(token: Token, cursor: Cursor, symbols: Symbols, qualifiers: tuple[str, ...]) -> SituationDefinition:
    symbol, begin = token.identifier, cursor.index
    if cursor.at_end:
        cursor.fail(f"Expected a condition after {token.text} AS, found {describe(cursor.token)}.", None, DEFINITION)
    for index in top_level(cursor, begin, cursor.end):
        if cursor.tokens[index].upper == "AS" and index > begin:
            name = cursor.tokens[index - 1]
            cursor.fail(f"Expected a comma before {describe(name)}.", name, DEFINITION)
    limit = _limit(cursor, begin, cursor.end)
    if limit == begin:
        words = " ".join(cursor.tokens[index].upper for index in range(begin, begin + 1 + cursor.at_words("AT")))
        cursor.fail(f"Expected a condition before {words}.", None, DEFINITION)
    inner = cursor.part(begin, cursor.end if limit is None else limit)
    condition = lift_scalar(inner, ConditionAtoms(symbol, symbols, qualifiers))
    at_least, at_most = (None, None) if limit is None else _read_limit(cursor.part(limit, cursor.end), symbol)
    span = Span(token.start, cursor.rest.end)
    return SituationDefinition(symbol, condition, at_least, at_most, span, token.span)


def _limit(cursor: Cursor, begin: int, end: int) -> int | None:
    """The index of the token with which the limit of the duration begins."""
    for index in top_level(cursor, begin, end):
        if cursor.tokens[index].upper == "AT" and cursor.tokens[index + 1].upper in ("LEAST", "MOST"):
            between = _between(cursor, begin, index)
            return index if between is None else between
    return _between(cursor, begin, end)


def _between(cursor: Cursor, begin: int, end: int) -> int | None:
    """The index of the last BETWEEN, if it limits the duration."""
    found = [index for index in top_level(cursor, begin, end) if cursor.tokens[index].upper == "BETWEEN"]
    if not found or cursor.tokens[found[-1] - 1].upper == "NOT":
        return None
    last = found[-1]
    is_limit = last == begin or _is_condition(cursor, begin, last) or _are_durations(cursor, last + 1, end)
    return last if is_limit else None


def _are_durations(cursor: Cursor, begin: int, end: int) -> bool:
    """Rule 1."""
    inner = cursor.part(begin, end)
    try:
        least = parse_window(inner)
        joined = inner.accept_words("AND")
        most = parse_window(inner)
    except EpisodeSyntaxError:
        return False
    words = [token.text.lower() for token in cursor.tokens[begin:end]]
    plain = any(word in PLAIN_UNITS for word in words)
    return joined and inner.at_end and (plain or least.unit is not None or most.unit is not None)


def _is_condition(cursor: Cursor, begin: int, end: int) -> bool:
    """Rule 2."""
    begin = _last_conjunct(cursor, begin, end)
    for _ in range(MAXIMUM_DEPTH):
        if begin >= end or not cursor.tokens[begin].is_symbol("("):
            break
        inner = cursor.part(begin, end)
        closing = inner.skip_group()
        if not inner.at_end:
            break
        begin, end = _last_conjunct(cursor, begin + 1, closing), closing
    if begin >= end:
        return False
    for index in top_level(cursor, begin, end):
        token = cursor.tokens[index]
        if token.upper in CONDITION_WORDS or (token.kind is Kind.SYMBOL and token.text in COMPARISONS):
            return True
    return cursor.tokens[begin].upper in BOOLEAN_FUNCTIONS and cursor.tokens[begin + 1].is_symbol("(")


def _last_conjunct(cursor: Cursor, begin: int, end: int) -> int:
    """Return the start of the part after the last AND or OR; the AND of SQL's BETWEEN does not count."""
    joints = top_words(cursor, begin, end, "AND", "OR")
    return joints[-1] + 1 if joints else begin


def _read_limit(cursor: Cursor, symbol: str) -> tuple[Duration | None, Duration | None]:
    found: dict[str, Duration] = {}
    if cursor.accept_words("BETWEEN"):
        found["LEAST"] = _positive(cursor)
        if not cursor.accept_words("AND"):
            refuse_unit(cursor)
            cursor.fail(f"Expected AND between the two durations, found {describe(cursor.token)}.", None, LIMIT)
        found["MOST"] = _positive(cursor)
    while not cursor.at_end and (not found or cursor.at_words("AND", "AT") or cursor.at_words("AT")):
        if found and not cursor.accept_words("AND"):
            cursor.fail("Expected AND between the two limits.", None, LIMIT)
        cursor.advance()
        word = cursor.advance()
        if word.upper not in ("LEAST", "MOST"):
            cursor.fail(f"Expected LEAST or MOST after AT, found {describe(word)}.", word, LIMIT)
        if word.upper in found:
            kind = "least" if word.upper == "LEAST" else "greatest"
            place = Span(cursor.peek(-2).start, word.end)
            cursor.fail(f"The {kind} duration of {symbol} is given twice.", place, "Keep one of them.")
        found[word.upper] = _positive(cursor)
    if not cursor.at_end:
        if cursor.token.upper not in RESERVED:
            refuse_unit(cursor)
        hint = "The limit of the duration is the last part of a definition; a comma separates definitions."
        cursor.fail(f"Unexpected {describe(cursor.token)} after the duration of {symbol}.", None, hint)
    check_limits(cursor, symbol, found.get("LEAST"), found.get("MOST"))
    return found.get("LEAST"), found.get("MOST")


def _positive(cursor: Cursor) -> Duration:
    duration = parse_window(cursor)
    if duration.amount == 0 and duration.parameter is None:
        cursor.fail("A duration here must be longer than zero.", duration.span, "Leave it out if it limits nothing.")
    return duration


def check_limits(cursor: Cursor, symbol: str, least: Duration | None, most: Duration | None) -> None:
    """Two limits of one situation must agree; parameters are checked when they are bound."""
    if least is None or most is None or least.parameter is not None or most.parameter is not None:
        return
    if (least.unit is None) != (most.unit is None):
        cursor.fail("One of these durations has a unit of time, the other has none.", most.span, LIMIT)
    if most.amount < least.amount:
        cursor.fail(f"The greatest duration of {symbol} is below its least.", most.span, LIMIT)


SHORTER = (Relation.STARTS, Relation.DURING, Relation.FINISHED_BY)
"""Relations of A to B in which A is the shorter one: it lies in B, and one of its ends is not B's."""
LONGER = (Relation.STARTED_BY, Relation.CONTAINS, Relation.FINISHES)


def check_window(cursor: Cursor, definitions: tuple[SituationDefinition, ...], within: Duration | None) -> None:
    """A situation that must last longer than the window is an error at the window.

    A match is certain only when each of its situations has lasted for its least duration, whether it has ended then or
    not: so this holds for both ways of detection.
    """
    for definition in definitions:
        least = definition.at_least
        if within is None or least is None or not _is_longer(least, within):
            continue
        lasts, window = _text(cursor, least), _text(cursor, within)
        message = f"No match fits WITHIN {window}: {definition.symbol} lasts at least {lasts}."
        hint = (
            f"A match is certain when {definition.symbol} has lasted so long, not before. Write WITHIN {lasts} or more."
        )
        cursor.fail(message, within.span, hint)


def check_pairs(
    cursor: Cursor, definitions: tuple[SituationDefinition, ...], constraints: tuple[Constraint, ...]
) -> None:
    """A pair of which no alternative is left by the limits of the two durations is an error at its last constraint."""
    named = {definition.symbol: definition for definition in definitions}
    allowed: dict[tuple[str, str], int] = {}
    for constraint in constraints:
        pair, relations = (constraint.left, constraint.right), mask(constraint.relations)
        if pair[::-1] in allowed:
            pair, relations = pair[::-1], mirror_mask(relations)
        allowed[pair] = allowed.get(pair, EVERY) & relations
        left, right = named[pair[0]], named[pair[1]]
        reasons = [_too_long(cursor, left, right, relation) for relation in relations_of(allowed[pair])]
        if all(reasons):
            why = "; ".join(dict.fromkeys(reason for reason in reasons if reason))
            message = f"{constraint_text(*pair, relations_of(allowed[pair]))} cannot hold: {why}."
            hint = "What lies in another situation is not longer. Change one of the limits, or add another alternative."
            cursor.fail(message, constraint.span, hint)


def _too_long(cursor: Cursor, left: SituationDefinition, right: SituationDefinition, relation: Relation) -> str | None:
    """Why the durations rule a relation out, if they do."""
    if relation in LONGER:
        left, right = right, left
    if relation in (*SHORTER, *LONGER):
        return _no_room(cursor, left, right, strictly=True)
    if relation is Relation.EQUALS:
        return _no_room(cursor, left, right) or _no_room(cursor, right, left)
    return None


def _no_room(
    cursor: Cursor, inner: SituationDefinition, outer: SituationDefinition, strictly: bool = False
) -> str | None:
    least, most = inner.at_least, outer.at_most
    if least is None or most is None:
        return None
    alike = least.parameter is None and most.parameter is None and least.unit == most.unit
    if not _is_longer(least, most) and not (strictly and alike and least.amount == most.amount):
        return None
    return f"{inner.symbol} lasts at least {_text(cursor, least)}, {outer.symbol} at most {_text(cursor, most)}"


def _is_longer(one: Duration, other: Duration) -> bool:
    """Durations of which only one has a unit are not compared; one of them does not fit the event time. Parameters are
    compared when they are bound."""
    if one.parameter is not None or other.parameter is not None:
        return False
    return one.unit == other.unit and one.amount > other.amount


def _text(cursor: Cursor, duration: Duration) -> str:
    return " ".join(cursor.source[duration.span.start : duration.span.end].split())
