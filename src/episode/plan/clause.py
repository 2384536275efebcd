"""The parts of queries that matchers and runtimes speak of, so that they need not know the languages."""

from episode.lang.events.syntax import EventQuery, Strategy
from episode.lang.rows.syntax import (
    MatchMode,
    MatchRecognize,
    RowsPerMatch,
    SkipTo,
)
from episode.lang.situations.syntax import SituationQuery
from episode.lang.syntax import Span

__all__ = [
    "EventQuery",
    "MatchMode",
    "MatchRecognize",
    "RowsPerMatch",
    "SituationQuery",
    "SkipTo",
    "Span",
    "Strategy",
]
