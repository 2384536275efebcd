"""The parts of queries that matchers and runtimes speak of, so that they need not know the languages."""

from episode.lang.event_syntax import EventQuery, Strategy
from episode.lang.syntax import MatchMode, MatchRecognize, RowsPerMatch, SkipTo

__all__ = ["EventQuery", "MatchMode", "MatchRecognize", "RowsPerMatch", "SkipTo", "Strategy"]
