"""Subqueries in MEASURES and DEFINE: `(SELECT avg(v) FROM q)`, `v IN (SELECT …)`, `EXISTS (SELECT …)`.

A parameter takes the place of a subquery in the expression around it. Its name holds the form of the subquery and its
place in the statement, so that whoever has the tables can bind a value to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from episode.lang.cursor import Cursor
from episode.lang.lexer import Kind, Token
from episode.lang.lifting import PLACEHOLDER
from episode.lang.rows.syntax import MatchRecognize, Navigation
from episode.lang.rows.window_syntax import FunctionCall, PatternWindow
from episode.lang.syntax import Aggregate, Scalar, Span

VALUE, LIST, EXISTS = "value", "list", "exists"
SUBQUERY = f"{PLACEHOLDER}subquery_"
_NAME = re.compile(rf"{SUBQUERY}({VALUE}|{LIST}|{EXISTS})_(\d+)_(\d+)")
_BEFORE = frozenset((
    "AND", "AS", "BETWEEN", "CASE", "DIV", "ELSE", "ILIKE", "IN", "IS", "LIKE", "MEASURES", "NOT", "OR", "REGEXP",
    "RLIKE", "THEN", "WHEN",
))  # fmt: skip
"""Words before a bracket that do not make it a call."""


@dataclass(frozen=True)
class Subquery:
    """A subquery. name: of the parameter in its place. form: VALUE, LIST (after IN) or EXISTS. span: its text."""

    name: str
    form: str
    span: Span


def subquery_at(cursor: Cursor) -> str | None:
    """Spark's text in place of the subquery at the cursor, which is then after it; None if there is none."""
    token, before = cursor.token, cursor.peek(-1)
    exists = token.kind is Kind.NAME and token.upper == "EXISTS"
    opening = cursor.index + exists
    if not cursor.tokens[opening].is_symbol("(") or not _begins_query(cursor.tokens, opening + 1):
        return None
    if not exists and before.kind in (Kind.NAME, Kind.QUOTED) and before.upper not in _BEFORE:
        return None
    form = EXISTS if exists else LIST if before.upper == "IN" else VALUE
    cursor.index = opening
    closing = cursor.skip_group()
    span = Span(cursor.tokens[opening + 1].start, cursor.tokens[closing - 1].end)
    name = f":{SUBQUERY}{form}_{span.start}_{span.end}"
    return f"({name})" if form == LIST else name


def _begins_query(tokens: Sequence[Token], at: int) -> bool:
    word, following = tokens[at].upper, tokens[min(at + 1, len(tokens) - 1)]
    if tokens[at].kind is not Kind.NAME:
        return False
    if word == "SELECT":
        return not following.is_symbol(".")
    if word == "VALUES":
        return following.is_symbol("(")
    return word in ("WITH", "FROM", "TABLE") and following.kind in (Kind.NAME, Kind.QUOTED)


def subqueries_of(query: object) -> tuple[Subquery, ...]:
    """The subqueries of a row pattern, in the order of the text; other patterns have none."""
    scalars: list[Scalar] = []
    if isinstance(query, PatternWindow):
        scalars += [call.expression for call in query.calls if isinstance(call, FunctionCall)]
        query = query.clause
    if isinstance(query, MatchRecognize):
        scalars += [measure.expression for measure in query.measures]
        scalars += [definition.condition for definition in query.definitions]
    found = {one.name: one for scalar in _all(scalars) for one in _in(scalar.tree)}
    return tuple(sorted(found.values(), key=lambda one: one.span.start))


def with_subqueries(sql: str, statement: str) -> str:
    """An expression for Spark with the subqueries of a statement in place of their parameters, for people to read."""

    def written(found: re.Match[str]) -> str:
        form, start, end = found.groups()
        text = statement[int(start) : int(end)]
        return text if form == LIST else f"EXISTS ({text})" if form == EXISTS else f"({text})"

    return re.sub(f":{_NAME.pattern}", written, sql)


def _all(scalars: Iterable[Scalar]) -> Iterator[Scalar]:
    """The scalars and those inside them."""
    for scalar in scalars:
        yield scalar
        for _, atom in scalar.atoms:
            if isinstance(atom, Navigation):
                yield from _all([atom.argument])
            elif isinstance(atom, Aggregate):
                yield from _all(atom.arguments)


def _in(tree: exp.Expression) -> Iterator[Subquery]:
    for node in tree.find_all(exp.Placeholder):
        name = _NAME.fullmatch(node.name)
        if name is not None:
            form, start, end = name.groups()
            yield Subquery(node.name, form, Span(int(start), int(end)))
