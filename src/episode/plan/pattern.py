"""What all planned patterns have in common."""

from __future__ import annotations

from episode.lang.source import Source

__all__ = ["Source"]
