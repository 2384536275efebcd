"""Aggregates of users, made ready: compiled once to see that they can be, and packed for the workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from episode.errors import EpisodeUnsupportedError
from episode.kernels.user_aggregates import NotCompiled, packed, shape_of

EXAMPLE = "Write for example episode.aggregate('extent', initial=(inf, -inf), step=f, finish=g)."


def compiled_aggregate(
    name: str, initial: Any, step: Callable[..., Any], finish: Callable[..., Any] | None, takes: str
) -> tuple[bytes, str]:
    """The functions for any process, and the type of the result; or an error that says why they are no aggregate."""
    try:
        shape = shape_of(initial, step, finish, takes)
    except NotCompiled as reason:
        raise EpisodeUnsupportedError(
            f"The aggregate {name} cannot be used: {reason}.",
            hint=f"Its functions work on numbers, and numba compiles them. {EXAMPLE}",
        ) from None
    try:
        functions = packed(initial, step, finish)
    except Exception as reason:
        raise EpisodeUnsupportedError(
            f"The functions of the aggregate {name} cannot be sent to workers: {reason}.",
            hint="They may refer to numbers, and to functions like themselves.",
        ) from reason
    return functions, shape.gives
