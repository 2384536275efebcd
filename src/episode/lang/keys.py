"""Keys, columns and expressions of one row with their names: what PARTITION BY and ORDER BY take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError
from episode.lang.clauses import Grammar, read_column
from episode.lang.cursor import Cursor
from episode.lang.functions import (
    GENERATORS,
    NAVIGATIONS,
    OTHER_SPARK_AGGREGATES,
    ROW_FUNCTIONS,
    aggregate_arguments,
)
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import PLACEHOLDER, called_function, lift_scalar
from episode.lang.spark_expression import ROW_PATTERNS, Surroundings
from episode.lang.syntax import Atom, ColumnRef, RowKey, Scalar, Span
from episode.lang.trees import exp


@dataclass(frozen=True)
class KeyAtoms:
    """Columns alone: rows are partitioned and ordered before they are matched. clause: what is read."""

    clause: str
    surroundings: Surroundings

    def read(self, cursor: Cursor) -> Atom | None:
        word = called_function(cursor)
        known = word in NAVIGATIONS or word in ROW_FUNCTIONS or aggregate_arguments(word) is not None
        if known or word in GENERATORS or word in OTHER_SPARK_AGGREGATES:
            hint = "Use columns of the input and functions of one row."
            cursor.fail(f"{word} is not allowed in {self.clause}, which comes before matching.", cursor.token, hint)
        return None

    def column(self, _cursor: Cursor, fields: tuple[str, ...], _quoted: bool, span: Span) -> Atom:
        return ColumnRef(None, fields, span)


def parse_key(cursor: Cursor, clause: str, surroundings: Surroundings = ROW_PATTERNS) -> Scalar:
    """The expression of PARTITION BY or ORDER BY between the cursor and its end."""
    first = cursor.tokens[cursor.index]
    names, dots = (cursor.tokens[cursor.index + odd : cursor.end : 2] for odd in (0, 1))
    if len(names) > len(dots) and all(one.is_name for one in names) and all(one.is_symbol(".") for one in dots):
        column = ColumnRef(None, tuple(one.identifier for one in names), Span(first.start, names[-1].end))
        return scalar_of(column, cursor.source[column.span.start : column.span.end])  # also one named by a keyword
    scalar = lift_scalar(cursor, KeyAtoms(clause, surroundings))
    if not scalar.atoms:
        message = f"{scalar.original} is the same for all rows."
        hint = f"{clause} takes columns, and expressions of columns."
        cursor.fail(message, scalar.span, hint, EpisodeAnalysisError)
    return scalar


def scalar_of(atom: Atom, original: str) -> Scalar:
    """The scalar that is nothing but an atom."""
    name = f"{PLACEHOLDER}0"
    return Scalar(name, exp.column(name), ((name, atom),), original, atom.span)


def split_alias(tokens: Sequence[Token], begin: int, stop: int) -> tuple[str | None, int]:
    """The name after AS at the end of tokens[begin:stop], and where the expression before it ends."""
    if stop - begin > 2 and tokens[stop - 2].upper == "AS" and tokens[stop - 1].is_name:
        return tokens[stop - 1].identifier, stop - 2
    return None, stop


# PARTITION BY of event and situation patterns: columns, or expressions with names.

OPERATORS = ("DIV", "AS", "WHEN", "IS", "IN", "LIKE", "AND", "OR", "BETWEEN")
NAMED = "Write for example PARTITION BY ts DIV 10 AS bucket."


def read_keys(
    cursor: Cursor, grammar: Grammar, surroundings: Surroundings, qualifiers: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], tuple[RowKey, ...]]:
    """The names of all keys, and those that are not plain columns, each with its name."""
    computed: list[RowKey] = []

    def read(cursor: Cursor) -> str:
        if not _is_expression(cursor):
            return read_column(cursor, "a column to partition by", grammar, qualifiers)
        begin = cursor.index
        while not (cursor.at_end or cursor.token.is_symbol(",") or _begins_part(cursor, grammar)):
            cursor.skip()
        name, stop = split_alias(cursor.tokens, begin, cursor.index)
        if name is None:
            cursor.fail("This expression needs a name.", cursor.span_of(begin, stop), NAMED)
        computed.append(RowKey(parse_key(cursor.part(begin, stop), "PARTITION BY", surroundings), name))
        return name

    names = cursor.read_list(read)
    return tuple(names), tuple(computed)


def _is_expression(cursor: Cursor) -> bool:
    first, second = cursor.token, cursor.peek()
    if not first.is_name:
        return first.kind is Kind.SYMBOL and first.text in "(-+~"
    return second.upper in OPERATORS or (second.kind is Kind.SYMBOL and second.text in "(+-*/%|&^~<>=:[")


def _begins_part(cursor: Cursor, grammar: Grammar) -> bool:
    """Does another part of the input begin here, or the first clause?"""
    word, following = cursor.token.upper, cursor.peek().upper
    return word == grammar.first or (word in grammar.inputs and following in ("BY", "BETWEEN"))
