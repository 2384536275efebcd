"""Keyword arguments that are neither options nor tables of a query: mistakes, which are named.

The public functions take tables by keyword, so that Python lets a misspelt option through as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.lang.lexer import Token
from episode.queries.events import EVENT_COLUMNS

OPTIONS = {
    "query": ("events", "args", "spark", "options", "tables"),
    "sql": ("args", "spark", "options", "tables"),
    "sql_local": ("args", "options", "tables"),
    "explain": ("args", "spark", "options", "analyze", "format", "tables"),
    "match": ("events", "text", "args", *EVENT_COLUMNS, "spark", "options", "tables"),
}
"""Arguments of the public functions that take tables by keyword."""
WRITTEN = {"key": "PARTITION BY", "time": "ORDER BY", "type_column": "TYPE BY"}


def check_statement_tables(function: str, tables: Mapping[str, Any], tokens: Iterable[Token]) -> None:
    """Every table that is given must be named in the statement."""
    names = {token.identifier for token in tokens if token.is_identifier}
    mentioned = {name.lower() for name in names}
    for name in tables:
        if not isinstance(name, str) or not name or name.lower() in mentioned:
            continue  # what is not a name is refused with the tables
        _check_option(function, name)
        if name in EVENT_COLUMNS:
            message = f"{name} is about events, and {function} runs a statement, which has its columns inside."
            hint = f"Write {WRITTEN.get(name, 'it')} there, or give a pattern alone, and Events(table, {name}=…)."
            raise EpisodeAnalysisError(message, hint=hint)
        guess = closest(name, names)
        hint = f"Did you mean {guess}?" if guess else "Leave it out, or name it in FROM."
        raise EpisodeAnalysisError(f"The table {name} is given, but the statement does not use it.", hint=hint)


def check_pattern_tables(function: str, tables: Mapping[str, Any], classes: Iterable[str] | None) -> None:
    """Every table that is given must be that of a class. classes: None if all events are in one table."""
    known = None if classes is None else list(classes)
    for name in tables:
        if known is None or name not in known:
            _check_option(function, name)
    unknown = [] if known is None else [name for name in tables if name not in known]
    if known is not None and unknown:
        guess = closest(unknown[0], [name for name in known if name not in tables])
        message = f"The table {unknown[0]} is given, but the pattern has no class {unknown[0]}."
        hint = (f"Did you mean {guess}? " if guess else "") + f"Classes of the pattern: {', '.join(known)}."
        raise EpisodeAnalysisError(message, hint=hint)


def _check_option(function: str, name: str) -> None:
    guess = closest(name, OPTIONS[function])
    if guess is not None:
        raise EpisodeAnalysisError(f"{name} is not an option of {function}; did you mean {guess}?")
