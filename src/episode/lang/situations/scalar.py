"""Scalar expressions of situation patterns: columns of one event in DEFINE; aggregates and times in RETURN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from episode.errors import EpisodeUnsupportedError
from episode.lang.clauses import read_path, read_sign
from episode.lang.cursor import Cursor, closest, describe
from episode.lang.duration import read_number
from episode.lang.functions import AGGREGATES, NAVIGATIONS, OTHER_SPARK_AGGREGATES, ROW_FUNCTIONS, SYNONYMS
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import called_function, lift_arguments, read_call, refuse_nested
from episode.lang.situations.syntax import Moment, SituationAggregate, SituationAtom, SituationColumn, SituationTime
from episode.lang.spark_expression import SITUATION_PATTERNS, Surroundings
from episode.lang.syntax import Span

Symbols = Mapping[str, str]
"""The defined symbols as written, by lower-case name."""

FUNCTIONS = {
    **dict.fromkeys(("FIRST", "FIRST_VALUE"), "first_value"),
    **dict.fromkeys(("LAST", "LAST_VALUE"), "last_value"),
    **{word: SYNONYMS.get(word, word.lower()) for word in ("COUNT", "SUM", "AVG", "MEAN", "MIN", "MAX")},
    **{word: SYNONYMS.get(word, word.lower()) for word in ("STDDEV", "STD", "STDDEV_SAMP")},
}
SUPPORTED = "Aggregates of situations: first, last, sum, avg, min, max, count, stddev."
OF_OTHER_PATTERNS = frozenset([*AGGREGATES, *OTHER_SPARK_AGGREGATES, *NAVIGATIONS, *ROW_FUNCTIONS])
NO_AGGREGATES = "A condition is over one event. Return the aggregate, and filter the matches by it."
SORTED = "The values come in the order of the events."
MODIFIERS = {
    ("OVER",): "The symbol determines the events: sum(A.x) covers the events of A.",
    ("FILTER",): "Put the condition inside: sum(CASE WHEN condition THEN A.x END).",
    ("WITHIN", "GROUP"): SORTED,
    ("ORDER", "BY"): SORTED,
    ("DISTINCT",): "Distinct values of a situation are not counted; leave DISTINCT out.",
    ("IGNORE", "NULLS"): "Nulls are respected by first and last and skipped by all others; leave it out.",
    ("RESPECT", "NULLS"): "Nulls are respected by first and last anyway; leave it out.",
}
ONE_SITUATION = "An aggregate covers the events of one situation; compute with several aggregates: {}(A.x) + {}(B.x)."
TIMES = {moment.value: moment for moment in Moment}


def known_symbols(symbols: Symbols) -> str:
    return f"Situations of this query: {', '.join(symbols.values())}."


def _read_spark_text(cursor: Cursor) -> str | None:
    """Spark's text of a sign or a number with a unit; subqueries are refused."""
    if cursor.at_words("SELECT") and cursor.peek(-1).is_symbol("("):
        message = f"A subquery is not allowed in {SITUATION_PATTERNS.name}."
        cursor.fail(message, None, SITUATION_PATTERNS.subqueries)
    return read_sign(cursor) or read_number(cursor)


@dataclass
class ConditionAtoms:
    """Reads the atoms of the condition of a symbol: columns, with or without the table before them."""

    symbol: str
    symbols: Symbols
    qualifiers: tuple[str, ...]
    surroundings: Surroundings = SITUATION_PATTERNS

    def read(self, cursor: Cursor) -> str | None:
        text = _read_spark_text(cursor)
        if text is not None:
            return text
        if called_function(cursor) in OF_OTHER_PATTERNS:
            self._fail_aggregate(cursor)
        if cursor.token.upper == "AT":
            self._refuse_limit(cursor)
        return None

    def _refuse_limit(self, cursor: Cursor) -> None:
        """AT LEAST inside brackets, or a misspelt one."""
        word, hint = cursor.peek(), f"Write {self.symbol} AS condition AT LEAST 5 seconds."
        if word.upper in ("LEAST", "MOST"):
            limit = Span(cursor.token.start, word.end)
            cursor.fail("A limit of the duration comes after the whole condition.", limit, hint)
        if word.kind is Kind.NUMBER or closest(word.upper, ("LEAST", "MOST")) is not None:
            cursor.fail(f"Expected LEAST or MOST after AT, found {describe(word)}.", word, hint)

    def _fail_aggregate(self, cursor: Cursor) -> NoReturn:
        name = cursor.token
        cursor.advance()
        cursor.skip_group()
        span = cursor.span_from(name.start)
        shown = " ".join(cursor.source[span.start : span.end].split())
        place = Token(Kind.NAME, shown, span.start, span.end)
        if name.upper in ("PREV", "NEXT", *ROW_FUNCTIONS):
            cursor.fail(f"{name.upper} belongs to MATCH_RECOGNIZE.", name, "A condition of DEFINE is over one event.")
        message = f"{describe(place)} cannot be used in DEFINE: it is unclear at which moment it would be read."
        cursor.fail(message, place, NO_AGGREGATES)

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> SituationColumn:
        first = fields[0].lower()
        if len(fields) > 1 and first in [name.lower() for name in self.qualifiers]:
            return SituationColumn(fields[1:], span)
        if len(fields) > 1 and first in self.symbols:
            named = self.symbols[first]
            reason = "its own condition cannot read it" if named == self.symbol else "a condition is over one event"
            hint = f"Write {'.'.join([*self.qualifiers[:1], *fields[1:]])} for the column of the event."
            cursor.fail(f"{named} is a situation of this query, and {reason}.", span, hint)
        return SituationColumn(fields, span)


@dataclass
class ReturnAtoms:
    """Reads the atoms of RETURN: aggregates, `A.start`, `A.end` and `A.duration`."""

    symbols: Symbols
    qualifiers: tuple[str, ...]
    surroundings: Surroundings = SITUATION_PATTERNS

    def read(self, cursor: Cursor) -> SituationAtom | str | None:
        text = _read_spark_text(cursor)
        if text is not None:
            return text
        if _aggregate_at(cursor):
            return _parse_aggregate(cursor, self.symbols, self.qualifiers)
        symbol = _symbol_at(cursor, self.symbols)
        if symbol is None:
            return None
        start = cursor.advance().start
        path = read_path(cursor)
        span = cursor.span_from(start)
        if len(path) == 1 and path[0].lower() in TIMES:
            return SituationTime(symbol, TIMES[path[0].lower()], span)
        shown = ".".join([symbol, *path])
        hint = f"Choose one: first({shown}) or last({shown}), or another aggregate."
        return cursor.fail(f"{shown} has a value for every event of the situation.", span, hint)

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> SituationAtom:
        if len(fields) == 1 and fields[0].lower() in self.symbols:
            symbol = self.symbols[fields[0].lower()]
            hint = f"Write {symbol}.start, {symbol}.end, {symbol}.duration or an aggregate: first({symbol}.x)."
            cursor.fail(f"{symbol} is a situation, not a value.", span, hint)
        _fail_unbound(cursor, fields, span, self.symbols, self.qualifiers, "first")


def _symbol_at(cursor: Cursor, symbols: Symbols) -> str | None:
    """Return the symbol whose column is at the cursor."""
    if not cursor.token.is_name or cursor.peek(-1).is_symbol(".") or not cursor.peek().is_symbol("."):
        return None
    return symbols.get(cursor.token.identifier.lower()) if cursor.peek(2).is_name else None


def _fail_unbound(
    cursor: Cursor, fields: tuple[str, ...], span: Span, symbols: Symbols, qualifiers: tuple[str, ...], function: str
) -> NoReturn:
    """A column of no situation. function: an aggregate for the example."""
    written = next(iter(symbols.values()))
    qualified = len(fields) > 1 and fields[0].lower() in [name.lower() for name in qualifiers]
    if qualified or len(fields) == 1:
        name = ".".join(fields[1:] if qualified else fields)
        message = f"It is not said which situation's {name} is meant."
        cursor.fail(message, span, f"Write for example {function}({written}.{name}). {known_symbols(symbols)}")
    similar = closest(fields[0], symbols.values())
    hint = f"Did you mean {similar}?" if similar is not None else known_symbols(symbols)
    cursor.fail(f"{fields[0]} is not a situation of this query.", span, hint)


def _aggregate_at(cursor: Cursor) -> bool:
    """Is this a call of an aggregate? Those of other patterns are errors."""
    word, token = called_function(cursor), cursor.token
    if word in ("PREV", "NEXT", *ROW_FUNCTIONS):
        cursor.fail(f"{word} belongs to MATCH_RECOGNIZE.", token, SUPPORTED)
    if word in OF_OTHER_PATTERNS and word not in FUNCTIONS:
        message = f"The aggregate {token.text} is not evaluated over the events of a situation."
        cursor.fail(message, token.span, SUPPORTED, EpisodeUnsupportedError)
    return word in FUNCTIONS


@dataclass
class _ArgumentAtoms:
    """Reads the argument of an aggregate: columns of one situation."""

    symbols: Symbols
    qualifiers: tuple[str, ...]
    name: Token
    found: list[str] = field(default_factory=list)
    surroundings: Surroundings = SITUATION_PATTERNS

    def read(self, cursor: Cursor) -> SituationColumn | str | None:
        text = _read_spark_text(cursor)
        if text is not None:
            return text
        if _aggregate_at(cursor):
            refuse_nested(cursor, cursor.token, self.name)
        symbol = _symbol_at(cursor, self.symbols)
        if symbol is None:
            return None
        start = cursor.advance().start
        path = read_path(cursor)
        span = cursor.span_from(start)
        if self.found and self.found[0] != symbol:
            hint = ONE_SITUATION.format(self.name.text, self.name.text)
            cursor.fail(f"This aggregate is over events of {self.found[0]} and of {symbol}.", span, hint)
        self.found.append(symbol)
        return SituationColumn(path, span)

    def column(self, cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> SituationColumn:
        symbol = self.symbols.get(fields[0].lower())
        if symbol is not None:
            hint = f"Name a column, {symbol}.x; count({symbol}) counts events."
            cursor.fail(f"{self.name.upper} needs a value, not a situation.", span, hint)
        _fail_unbound(cursor, fields, span, self.symbols, self.qualifiers, self.name.text)


def _parse_aggregate(cursor: Cursor, symbols: Symbols, qualifiers: tuple[str, ...]) -> SituationAggregate:
    name = cursor.advance()
    arguments, span = read_call(cursor, name, name, MODIFIERS, SITUATION_PATTERNS.name)
    if name.upper == "COUNT" and len(arguments) == 1:
        counted = _parse_count_argument(cursor.part(*arguments[0]), symbols)
        if counted is not None:
            return SituationAggregate(counted, "count", (), span)
    reader = _ArgumentAtoms(symbols, qualifiers, name)
    parsed = lift_arguments(cursor, name, arguments, 1, reader, MODIFIERS, next(iter(symbols.values())))
    if not reader.found:
        hint = f"Name columns of one situation. {known_symbols(symbols)}"
        cursor.fail("This aggregate does not name the events that it covers.", span, hint)
    return SituationAggregate(reader.found[0], FUNCTIONS[name.upper], parsed, span)


def _parse_count_argument(cursor: Cursor, symbols: Symbols) -> str | None:
    """`A` or `A.*` inside count( )."""
    token, left = cursor.token, cursor.end - cursor.index
    if token.is_symbol("*") and left == 1:
        hint = f"Write for example count({next(iter(symbols.values()))}). {known_symbols(symbols)}"
        cursor.fail("count(*) does not name the events that it counts.", token, hint)
    if not token.is_name or not (
        left == 1 or (left == 3 and cursor.peek().is_symbol(".") and cursor.peek(2).is_symbol("*"))
    ):
        return None
    symbol = symbols.get(token.identifier.lower())
    if symbol is None:
        similar = closest(token.identifier, symbols.values())
        hint = f"Did you mean {similar}?" if similar is not None else known_symbols(symbols)
        cursor.fail(f"{token.identifier} is not a situation of this query.", token, hint)
    return symbol
