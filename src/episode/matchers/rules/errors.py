"""Errors that say which rule they are of."""

from __future__ import annotations

from episode.errors import EpisodeError, kind_of


def of_rule(error: EpisodeError, rule: str) -> EpisodeError:
    """The error of one rule among many."""
    message = f"Rule {rule}: {error.message}"
    return kind_of(error)(
        message, source=error.source, position=error.position, length=error.length, hint=error.hint
    )  # fmt: skip
