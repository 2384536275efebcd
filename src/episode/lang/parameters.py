"""Named parameters, `:name`: where they stand in a text. Their values are bound by the planner and by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from episode.lang.lexer import Kind, Token
from episode.lang.syntax import Span


def parameter_at(tokens: Sequence[Token], index: int) -> str | None:
    """The name of the parameter that begins with this token; in `value:path` and `value::type` none does."""
    if not tokens[index].is_symbol(":") or index + 1 >= len(tokens):
        return None
    colon, name = tokens[index], tokens[index + 1]
    if name.kind is not Kind.NAME or name.start != colon.end:
        return None
    before = tokens[index - 1] if index else None
    touches = before is not None and before.end == colon.start
    value = before is not None and (before.kind is not Kind.SYMBOL or before.text in ")]:")
    return None if touches and value else name.text


def parameters_in(tokens: Sequence[Token]) -> list[tuple[str, Span]]:
    """All parameters of a text, with their places."""
    found = []
    for index in range(len(tokens)):
        name = parameter_at(tokens, index)
        if name is not None:
            found.append((name, Span(tokens[index].start, tokens[index + 1].end)))
    return found
