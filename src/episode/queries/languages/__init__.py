"""The languages of patterns. A further one is a module here, an entry below, and a folder in each room.

Their matchers are loaded where a query is planned: the command line and errors of syntax need no compiler.
"""

from __future__ import annotations

from typing import Any

from episode.lang.correlation.syntax import Correlation
from episode.lang.events.syntax import EventQuery
from episode.lang.rows.syntax import MatchRecognize, PatternWindow
from episode.lang.situations.syntax import SituationQuery
from episode.queries.language import Language
from episode.queries.languages.correlation import Correlations
from episode.queries.languages.events import EventPatterns
from episode.queries.languages.rows import RowPatterns
from episode.queries.languages.situations import SituationPatterns
from episode.queries.languages.windows import RowPatternsInWindows

LANGUAGES: dict[type, Language[Any]] = {
    MatchRecognize: RowPatterns(),
    EventQuery: EventPatterns(),
    SituationQuery: SituationPatterns(),
    Correlation: Correlations(),
    PatternWindow: RowPatternsInWindows(),
}
"""Each language by the class of its parsed queries."""


def language_of(query: object) -> Language[Any]:
    """The language that a parsed query is written in."""
    return LANGUAGES[type(query)]
