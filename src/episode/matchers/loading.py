"""What every query needs in a process that matches, loaded ahead."""

from __future__ import annotations


def load() -> None:
    """Load the matchers of all languages, and the compiler."""
    from episode.matchers import engines  # noqa: F401  (they are found loaded)
    from episode.native.llvm import identity

    identity()
