"""Registering aggregates of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.lang.functions import (
    AGGREGATES,
    GENERATORS,
    NAVIGATIONS,
    OTHER_SPARK_AGGREGATES,
    REGISTERED,
    ROW_FUNCTIONS,
    UserAggregate,
)
from episode.lang.lexer import Kind, tokenize

TAKEN = frozenset([*AGGREGATES, *GENERATORS, *NAVIGATIONS, *OTHER_SPARK_AGGREGATES, *ROW_FUNCTIONS])


def register_aggregate(
    name: str, initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, takes: str
) -> None:
    tokens = tokenize(name) if isinstance(name, str) else []
    if len(tokens) != 2 or tokens[0].kind is not Kind.NAME or tokens[0].text != name:
        raise EpisodeAnalysisError(f"{name!r} is not a name of an aggregate.", hint="Use letters, digits and _.")
    if name.upper() in TAKEN:
        raise EpisodeAnalysisError(f"{name} is a function of SQL.", hint="Choose another name.")
    if takes not in ("double", "bigint"):
        raise EpisodeAnalysisError(f"takes={takes!r}: 'double' or 'bigint' is needed.")
    from episode.matchers.user_aggregates import trace_aggregate

    functions, gives = trace_aggregate(name, initial, step, finish, takes)
    REGISTERED[name.upper()] = UserAggregate(name.lower(), functions, takes, gives)
