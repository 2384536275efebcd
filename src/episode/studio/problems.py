"""Errors as the page gets them: with their place, so that it can mark it."""

from __future__ import annotations

from typing import Any

from episode.errors import EpisodeError
from episode.terminal.errors import explain_error


def problem_of(error: Exception) -> dict[str, Any]:
    """An error as JSON. position and length: of the offending part of the text, in characters; null where there is
    none. text: all of it, with the line and its caret."""
    if not isinstance(error, EpisodeError):
        message = explain_error(error)[0]
        return {**_NOWHERE, "kind": "error", "message": message, "text": message}
    place = error.line_and_column
    line, column = place or (None, None)
    return {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "position": error.position,
        "length": error.length if error.position is not None else None,
        "line": line,
        "column": column,
        "text": str(error),
    }


_NOWHERE: dict[str, Any] = {"hint": None, "position": None, "length": None, "line": None, "column": None}
