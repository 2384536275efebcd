"""What the text of a rule is: a pattern of any language, or a SELECT of columns around one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.lang.lexer import parameters_in, tokenize
from episode.lang.syntax import Source
from episode.queries.bound_statement import OnePattern, StatementPattern, bind_statement, parse_pattern
from episode.queries.language import Given, Language
from episode.queries.rules.rule import Rule
from episode.queries.selection import Selection

RULE = OnePattern(
    "a rule",
    "cannot stand in a rule",
    "A rule is a pattern (MATCH_RECOGNIZE ( … ), PATTERN …, DEFINE …) or SELECT columns FROM events with one pattern. "
    "Run anything else with episode.sql.",
)


@dataclass(frozen=True)
class ParsedRule:
    """A rule whose text has been read. selection: SELECT's list around the pattern, if there is one. arguments: the
    values of its parameters."""

    rule: Rule
    pattern: StatementPattern
    selection: Selection | None
    arguments: Mapping[str, object]

    @property
    def query(self) -> Any:
        return self.pattern.query

    @property
    def language(self) -> Language[Any]:
        return self.pattern.language

    @property
    def source(self) -> Source:
        return self.pattern.source


def parse_rule(rule: Rule, given: Given, arguments: Mapping[str, object]) -> ParsedRule:
    """Read the text of a rule. arguments: of all rules together."""
    tokens = tokenize(rule.text)
    own = {name: arguments[name] for name in {name for name, _ in parameters_in(tokens)} if name in arguments}
    if tokens[0].upper not in ("SELECT", "WITH"):
        return ParsedRule(rule, parse_pattern(rule.text, given, own), None, own)
    pattern, selection = bind_statement(rule.text, own).selected(RULE)
    if pattern.table is not None and pattern.table.name is None and not pattern.table.has_schema:
        raise RULE.refuse(Source(rule.text), "A pattern over a query", pattern.table.span)
    return ParsedRule(rule, pattern, selection, own)


def check_table(parsed: ParsedRule, name: str) -> None:
    """Where the input has a name, a rule that names a table names this one."""
    table = parsed.pattern.table
    if table is not None and (table.name or table.written).lower() != name.lower():
        message = f"The rule reads {table.written}, and the events of the rules are {name}."
        raise Source(parsed.rule.text).error(EpisodeAnalysisError, message, table.span, f"Write FROM {name}.")
