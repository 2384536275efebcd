"""The place of a part of an expression in the query, as near as the places of its columns tell."""

from __future__ import annotations

import re
from collections.abc import Mapping

from episode.lang.lexer import Kind, tokenize
from episode.lang.lifting import PLACEHOLDER
from episode.lang.syntax import Scalar, Source, Span
from episode.lang.trees import exp


def placeholders_in(node: exp.Expression) -> list[str]:
    """Names of the placeholders below a node, each once; `LAST(A.x).y` is a field of what a placeholder stands for."""
    return list(dict.fromkeys(column.parts[0].name for column in node.find_all(exp.Column)))


def is_placeholder(node: exp.Expression) -> bool:
    """Is the node a placeholder and nothing more?"""
    return isinstance(node, exp.Column) and len(node.parts) == 1


def place_of(node: exp.Expression, scalar: Scalar, source: Source) -> Span:
    """From the first to the last column inside a node of the scalar's tree; a function call is taken whole."""
    atoms = dict(scalar.atoms)
    spans = [atoms[name].span for name in placeholders_in(node)]
    if node is scalar.tree or not spans:
        return scalar.span
    columns = Span(min(span.start for span in spans), max(span.end for span in spans))
    if isinstance(node, exp.Func) and not isinstance(node, (exp.Connector, exp.Case)):
        return _call_around(columns, scalar, source) or columns
    return columns


def _call_around(columns: Span, scalar: Scalar, source: Source) -> Span | None:
    """`name( … )` with the columns between its brackets, the innermost one."""
    start = scalar.span.start
    stack: list[int] = []
    tokens = tokenize(source.text[start : scalar.span.end])
    for index, token in enumerate(tokens):
        if token.is_symbol("("):
            stack.append(index)
        elif token.is_symbol(")") and stack:
            opening = stack.pop()
            around = start + tokens[opening].start < columns.start and columns.end <= start + token.start
            if around and opening and tokens[opening - 1].kind is Kind.NAME:
                return Span(start + tokens[opening - 1].start, start + token.end)
    return None


def substitute(text: str, replacements: Mapping[str, str]) -> str:
    return re.sub(rf"\b{PLACEHOLDER}\d+\b", lambda found: replacements[found.group(0)], text)
