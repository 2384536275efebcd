"""What the text of a rule is: a pattern of any language, or a SELECT of columns around one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.lexer import parameters_in, tokenize
from episode.lang.statement import TablePattern, parse_statement
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import TableQuery, pattern_of
from episode.plan.compilable import NeedsSpark
from episode.plan.parameters import check_arguments
from episode.queries.language import Given, Language
from episode.queries.languages import language_of
from episode.queries.languages.events import strategy_of
from episode.queries.local_statement import Selection, selection_of
from episode.queries.rules.rule import Rule

ONE_PATTERN = (
    "A rule is a pattern (MATCH_RECOGNIZE ( … ), PATTERN …, DEFINE …) or SELECT columns FROM events with one pattern. "
    "Run anything else with episode.sql."
)


@dataclass(frozen=True)
class ParsedRule:
    """A rule whose text has been read. table: the name that it gives to its input, and where. selection: SELECT's list
    around the pattern, if there is one. arguments: the values of its parameters."""

    rule: Rule
    query: Any
    table: tuple[str, Span] | None
    selection: Selection | None
    names: tuple[str, ...]
    arguments: Mapping[str, object]

    @property
    def language(self) -> Language[Any]:
        return language_of(self.query)

    @property
    def source(self) -> Source:
        return self.language.source(self.query)


def parse_rule(rule: Rule, given: Given, arguments: Mapping[str, object]) -> ParsedRule:
    """Read the text of a rule. arguments: of all rules together."""
    tokens = tokenize(rule.text)
    own = {name: arguments[name] for name in {name for name, _ in parameters_in(tokens)} if name in arguments}
    check_arguments(rule.text, tokens, own)
    first = tokens[0].upper
    if first not in ("SELECT", "WITH"):
        query = pattern_of(rule.text, strategy_of(given.strategy))
        return ParsedRule(rule, query, language_of(query).table(query), None, (), own)
    statement = parse_statement(rule.text)
    try:
        selection = selection_of(statement)
    except NeedsSpark as error:
        place = error.position or 0
        raise _refused(rule, f"{error.what} cannot stand in a rule.", Span(place, place + error.length)) from None
    pattern = selection.pattern
    if isinstance(pattern, TableQuery):
        return ParsedRule(rule, pattern.query, language_of(pattern.query).table(pattern.query), selection, (), own)
    assert isinstance(pattern, TablePattern)
    if not pattern.plain or pattern.name is None:
        raise _refused(rule, "A pattern over a query cannot stand in a rule.", pattern.input)
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    return ParsedRule(rule, pattern.query, (pattern.name, pattern.input), selection, names, own)


def _refused(rule: Rule, message: str, span: Span) -> EpisodeUnsupportedError:
    return Source(rule.text).error(EpisodeUnsupportedError, message, span, ONE_PATTERN)


def check_table(parsed: ParsedRule, name: str) -> None:
    """Where the input has a name, a rule that names a table names this one."""
    if parsed.table is not None and parsed.table[0].strip("`").lower() != name.lower():
        written, span = parsed.table
        message = f"The rule reads {written}, and the events of the rules are {name}."
        raise Source(parsed.rule.text).error(EpisodeAnalysisError, message, span, f"Write FROM {name}.")
