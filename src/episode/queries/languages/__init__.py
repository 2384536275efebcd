"""The languages of patterns. A further one is a module here, an entry below, and a folder in each room.

Their matchers are loaded where a query is planned: the command line and errors of syntax need no compiler.
"""

from __future__ import annotations

from typing import Any

from episode.lang.table_patterns import TABLE_LANGUAGES
from episode.matchers.engines import ENGINES
from episode.queries.language import Language
from episode.queries.languages.correlation import CORRELATIONS
from episode.queries.languages.events import EventPatterns
from episode.queries.languages.rows import RowPatterns, RowPatternsInWindows
from episode.queries.languages.situations import SituationPatterns

LANGUAGES: dict[type, Language[Any]] = {}
"""Each language by the class of its parsed queries."""


def register(language: Language[Any]) -> None:
    """Add a language."""
    LANGUAGES[language.syntax] = language
    ENGINES.update(dict.fromkeys(language.plans, language.spec))
    if language.grammar is not None:
        TABLE_LANGUAGES.append(language.grammar)


def unregister(language: Language[Any]) -> None:
    """Remove a language that was added."""
    del LANGUAGES[language.syntax]
    for plan in language.plans:
        del ENGINES[plan]
    if language.grammar is not None:
        TABLE_LANGUAGES.remove(language.grammar)


def language_of(query: object) -> Language[Any]:
    """The language that a parsed query is written in."""
    return LANGUAGES[type(query)]


def language_of_plan(plan: object) -> Language[Any]:
    """The language of a planned query."""
    return next(language for language in LANGUAGES.values() if type(plan) in language.plans)


for one in (RowPatterns(), EventPatterns(), SituationPatterns(), CORRELATIONS, RowPatternsInWindows()):
    register(one)
