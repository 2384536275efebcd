"""The parts of a clause that matchers and runtimes speak of, so that they need not know the language."""

from episode.lang.syntax import MatchMode, MatchRecognize, RowsPerMatch, SkipTo, Span

__all__ = ["MatchMode", "MatchRecognize", "RowsPerMatch", "SkipTo", "Span"]
