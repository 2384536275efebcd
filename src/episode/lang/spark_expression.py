"""Scalar Spark SQL read by sqlglot, whose complaints are put in the user's terms and at a place in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from episode.lang.cursor import describe
from episode.lang.functions import GENERATORS
from episode.lang.lexer import Kind, Token, words_of
from episode.lang.trees import exp

MAXIMUM_DEPTH = 100
CHAINS = ("and", "or")
"""A AND B AND C … may be long: chains of these are flattened, so that they do not count as depth."""

OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")
SIGNS = ("NOT", "INTERVAL", "-", "+", "~", "!")
"""Words and signs that may be repeated before an operand."""

TOO_DEEP = "This expression is nested too deeply."
MISSING_OPERATOR = "An operator or a comma may be missing before it."
BINARY_WORDS = frozenset(["AND", "OR", "LIKE", "ILIKE", "RLIKE", "REGEXP", "IN", "IS", "BETWEEN", "DIV"])


@dataclass(frozen=True)
class Surroundings:
    """Words for messages about the query that an expression is part of: its name, and what to write instead."""

    name: str
    smaller: str
    subqueries: str
    windows: str
    names: str
    stars: tuple[str, str]


ROW_PATTERNS = Surroundings(
    name="MATCH_RECOGNIZE",
    smaller="Compute parts of it as columns in a subquery: FROM (SELECT …) MATCH_RECOGNIZE (…).",
    subqueries="Write it in brackets: (SELECT …), x IN (SELECT …) or EXISTS (SELECT …).",
    windows=(
        "Other rows are read with PREV, NEXT, FIRST and LAST, or with aggregates over the rows of a label: avg(A.x)."
    ),
    names="A measure is written expression AS name.",
    stars=("* is only allowed in count(*) and count(label.*).", "Name the column that is meant."),
)
EVENT_PATTERNS = Surroundings(
    name="an event pattern",
    smaller="Compute parts of it as columns of the input first.",
    subqueries="Join what it computes to the input first.",
    windows="Other events are read by their variables, b[i-1].x or b[last].x, or with aggregates: avg(b[].x).",
    names="A column of RETURN is written expression AS name.",
    stars=("* is only allowed in count(b.*).", "Name the attribute that is meant; in RETURN, b is the whole event."),
)
SITUATION_PATTERNS = Surroundings(
    name="a situation pattern",
    smaller="Compute parts of it as columns of the input first.",
    subqueries="Join what it computes to the input first.",
    windows="Conditions are over one event; in RETURN, aggregates cover the events of a situation: avg(A.x).",
    names="A column of RETURN is written expression AS name.",
    stars=("* is only allowed in count(A.*).", "Name the column that is meant."),
)


@dataclass(eq=False)
class Unreadable(Exception):
    """The text is not an expression. `start`, `end`: offsets in the text, or None for all of it."""

    message: str
    hint: str | None = None
    start: int | None = None
    end: int | None = None


def read_expression(text: str, tokens: Sequence[Token], where: Surroundings = ROW_PATTERNS) -> exp.Expression:
    """The tree of one scalar expression. `tokens` are those of the text, for the place of what is wrong."""
    from sqlglot import parse_one
    from sqlglot.errors import ParseError, SqlglotError

    from episode.lang.spark_dialect import SparkExpressions

    _check_nesting(tokens, where)
    try:
        tree = parse_one(text, read=SparkExpressions, into=exp.Condition, error_message_context=len(text))
    except ParseError as error:
        raise _complaint(dict(error.errors[0]) if error.errors else {}, tokens) from None
    except RecursionError:
        raise Unreadable(TOO_DEEP, where.smaller) from None
    except (SqlglotError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        raise Unreadable("This expression cannot be read.", "Expressions are written as in Spark SQL.") from None
    _check_depth(tree, where)
    for node in tree.walk():
        _check_node(node, tokens, where)
    return tree


CHANGING = words_of("""
    rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id input_file_name
    reflect java_method try_reflect
""")
"""Functions of Spark that need not give the same value when they are called again."""


def changing_call(tree: exp.Expression) -> str | None:
    """The name of a function in a tree whose value may change from call to call."""
    names = (node.name for node in tree.walk() if isinstance(node, exp.Anonymous))
    return next((name for name in names if name.lower() in CHANGING), None)


GUARDED = {"div": "try_divide", "mod": "try_mod"}


def write_expression(tree: exp.Expression) -> str:
    from sqlglot.errors import ErrorLevel, SqlglotError

    try:
        return str(tree.sql("spark", unsupported_level=ErrorLevel.RAISE, normalize_functions=False))
    except RecursionError:
        raise Unreadable(TOO_DEEP, ROW_PATTERNS.smaller) from None
    except SqlglotError:
        raise Unreadable("This expression cannot be handed to Spark.", "Compute it in a subquery.") from None


def with_null_for_zero(tree: exp.Expression) -> exp.Expression:
    """Return the tree of a condition with null for a division by zero, as all evaluators of conditions have it."""

    def guard(node: exp.Expression) -> exp.Expression:
        function = GUARDED.get(node.key)
        if function is None:
            return node
        return exp.Anonymous(this=function, expressions=[node.this.unnest(), node.expression.unnest()])

    return tree.copy().transform(guard)


def _complaint(detail: dict[str, object], tokens: Sequence[Token]) -> Unreadable:
    start = len(str(detail.get("start_context") or ""))
    highlight = str(detail.get("highlight") or "")
    description = str(detail.get("description") or "").rstrip(".")
    missing = re.match(r"Required keywords?: '(\w+)' missing for <class '[\w.]*\.(\w+)'>", description)
    if missing is not None:
        message, hint = _missing_part(getattr(exp, missing.group(2), exp.Expression))
        operator = _operator_without_left_side(tokens) if missing.group(1) == "this" else None
        if operator is not None:
            return Unreadable(message, hint, operator.start, operator.end)
        return Unreadable(message, hint, start, start + len(highlight))
    found = next((token for token in tokens if token.start <= start < token.end), None)
    if found is not None and found.kind is Kind.SYMBOL:
        found = Token(Kind.SYMBOL, highlight, start, start + len(highlight))
    if "Unexpected token" in description or not re.fullmatch(r"Expect(ed|ing) [\w ()\[\],]+", description):
        message = "This is not expected here." if found is None else f"{describe(found)} is not expected here."
        operand = found is not None and (found.kind is not Kind.SYMBOL or found.text == "(")
        hint = MISSING_OPERATOR if operand and start > tokens[0].start else None
        return Unreadable(message, hint, start, start + len(highlight))
    wanted = description.replace("Expecting", "Expected").replace("TYPE", "a type of Spark")
    return Unreadable(f"{wanted}.", None, start, start + len(highlight))


def _missing_part(kind: type) -> tuple[str, str | None]:
    if issubclass(kind, exp.Between):
        return "BETWEEN needs two bounds.", "Write x BETWEEN low AND high."
    if issubclass(kind, exp.Column):
        return "A name is missing after the dot.", None
    if issubclass(kind, (exp.Binary, exp.Unary)):
        return "An operand is missing here.", None
    if issubclass(kind, exp.Func):
        return "An argument of the function is missing here.", None
    return "Something is missing here.", None


def _operator_without_left_side(tokens: Sequence[Token]) -> Token | None:
    for before, token in zip((None, *tokens), tokens):
        begins = before is None or _is_binary(before) or (before.kind is Kind.SYMBOL and before.text in "(,")
        if begins and _is_binary(token):
            return token
    return None


def _is_binary(token: Token) -> bool:
    return token.upper in BINARY_WORDS or (token.kind is Kind.SYMBOL and token.text in "=<>/%|&^")


def _check_nesting(tokens: Sequence[Token], where: Surroundings) -> None:
    """Brackets, CASE and runs of signs are what a parser's stack grows with: they are counted before it begins."""
    depth = signs = 0
    after_dot = False
    for token in tokens:
        word = "" if after_dot else token.upper
        after_dot = token.is_symbol(".")
        symbol = token.text if token.kind is Kind.SYMBOL else ""
        depth += (symbol in OPENING or word == "CASE") - (symbol in CLOSING or (word == "END" and depth > 0))
        signs = signs + 1 if symbol in SIGNS or word in SIGNS else 0
        if depth + signs > MAXIMUM_DEPTH:
            raise Unreadable(TOO_DEEP, where.smaller, token.start, token.end)


def _check_depth(tree: exp.Expression, where: Surroundings) -> None:
    pending = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAXIMUM_DEPTH:
            raise Unreadable(TOO_DEEP, where.smaller)
        for child in node.iter_expressions():
            pending.append((child, depth + (not (node.key in CHAINS and type(child) is type(node)))))


def _check_node(node: exp.Expression, tokens: Sequence[Token], where: Surroundings) -> None:
    if isinstance(node, exp.Query):
        raise _at(
            "A subquery is not allowed here.", where.subqueries, _word(tokens, "SELECT", "WITH", "FROM", "VALUES")
        )
    if isinstance(node, (exp.Window, exp.WindowSpec)):
        raise _at(f"A window function is not allowed in {where.name}.", where.windows, _word(tokens, "OVER"))
    if isinstance(node, (exp.Filter, exp.WithinGroup)):
        raise _at(f"FILTER and WITHIN GROUP are not allowed in {where.name}.", None, _word(tokens, "FILTER", "WITHIN"))
    in_struct = isinstance(node.parent, exp.Anonymous) and node.parent.name.upper() == "STRUCT"
    if isinstance(node, (exp.Alias, exp.Aliases)) and not in_struct:
        raise _at("A name (AS …) is not allowed inside an expression.", where.names, _word(tokens, "AS"))
    if isinstance(node, exp.Anonymous) and node.name.upper() in (*GENERATORS, "VARIANT_EXPLODE_OUTER"):
        raise _at(
            f"{node.name} gives several rows for one, and is not allowed in {where.name}.",
            "Return the array itself, and use it in the SELECT around the pattern.",
            _word(tokens, node.name.upper()),
        )
    if isinstance(node, exp.Star):
        raise _at(*where.stars, _star(tokens))
    if isinstance(node, (exp.Command, exp.DDL, exp.DML, exp.Block)):
        raise Unreadable("A statement is not allowed inside an expression.")
    listed = any(node.args.get(part) for part in ("expressions", "query", "unnest", "field"))
    if isinstance(node, exp.In) and not listed:
        without = (one for one, after in zip(tokens, (*tokens[1:], None)) if after is None or not after.is_symbol("("))
        raise _at("IN needs a list of values.", "Write x IN (1, 2, 3).", _word(list(without), "IN"))
    if isinstance(node, exp.Tuple) and not node.expressions:
        raise _at("Expected an expression between these brackets.", None, _empty_brackets(tokens))


def _at(message: str, hint: str | None, token: Token | None) -> Unreadable:
    return Unreadable(message, hint) if token is None else Unreadable(message, hint, token.start, token.end)


def _word(tokens: Sequence[Token], *words: str) -> Token | None:
    return next((token for token in tokens if token.upper in words), None)


def _star(tokens: Sequence[Token]) -> Token | None:
    """A star that does not multiply."""
    for before, token in zip((None, *tokens), tokens):
        if token.is_symbol("*") and (before is None or (before.kind is Kind.SYMBOL and before.text not in ")]")):
            return token
    return None


def _empty_brackets(tokens: Sequence[Token]) -> Token | None:
    for before, token, after in zip((None, *tokens), tokens, tokens[1:]):
        called = before is not None and before.is_name
        if token.is_symbol("(") and after.is_symbol(")") and not called:
            return Token(Kind.SYMBOL, "()", token.start, after.end)
    return None
