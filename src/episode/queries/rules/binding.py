"""Rules bound to one input: the pattern of each, the columns of its result, and the extent of its matches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeRulesError
from episode.lang.lexer import Kind, parameters_in, tokenize
from episode.lang.lifting import PLACEHOLDER
from episode.lang.spark_expression import write_expression
from episode.lang.syntax import Source
from episode.matchers.projection import ConstantColumn, CopiedColumn, Projection, Projections, Value
from episode.plan.options import Options
from episode.plan.output import ATOM_PREFIX, MATCHED_COLUMN, Extent, ScalarColumn
from episode.plan.pattern import PatternPlan
from episode.plan.places import substitute
from episode.plan.schema import InputSchema, quote
from episode.queries.bound_statement import OnePattern, StatementPattern, bind_statement, parse_pattern
from episode.queries.language import Given, Input, Language
from episode.queries.options import check_use
from episode.queries.rules.rule import Rule
from episode.queries.selection import Selection

Made = TypeVar("Made")
RULE, MATCH_START, MATCH_END, RESULT = "rule", "match_start", "match_end", "result"
OWN_COLUMNS = (RULE, MATCH_START, MATCH_END, RESULT)
"""Columns of the result that are of no key."""
OWN_VALUES = (ATOM_PREFIX, MATCHED_COLUMN)
"""Prefixes of the names of a matcher's own values."""


@dataclass(frozen=True)
class RuleSet:
    """The rules of one call. given, options, arguments: of all of them together. table: the name of their input, if
    it has one."""

    rules: tuple[Rule, ...]
    given: Given
    options: Options
    arguments: Mapping[str, object]
    table: str | None = None

    def parse(self) -> list[ParsedRule]:
        parsed = self.each([(rule.name, rule) for rule in self.rules], self._parse)
        self._check(parsed)
        return parsed

    def _parse(self, rule: Rule) -> ParsedRule:
        parsed = parse_rule(rule, self.given, self.arguments)
        if self.table is not None:
            check_table(parsed, self.table)
        return parsed

    def _check(self, parsed: Sequence[ParsedRule]) -> None:
        """Raise an error for an argument or an option that no rule uses."""
        used = {name for one in parsed for name in one.arguments}
        unused = [name for name in self.arguments if name not in used]
        if unused:
            raise EpisodeAnalysisError(f"No rule has a parameter :{unused[0]}.", hint="Leave it out of args.")
        languages = [one.language for one in parsed]
        for one in fields(Given):
            value = getattr(self.given, one.name)
            if value != one.default and not any(one.name in language.arguments for language in languages):
                name = "time" if one.name == "interval" else one.name
                raise EpisodeAnalysisError(
                    f"{name}={value!r} has no meaning for these rules, which are all row patterns."
                    if all(not language.arguments for language in languages)
                    else f"{name}={value!r} has no meaning for any of these rules.",
                    hint="MATCH_RECOGNIZE has PARTITION BY and ORDER BY inside." if name in ("time", "key") else None,
                )
        check_use(self.options, languages)

    def bind_all(self, parsed: Sequence[ParsedRule], schema: InputSchema) -> list[BoundRule]:
        """The rules over the columns of their input."""
        shared = replace(schema, shared=True)
        return self.each([(one.rule.name, one) for one in parsed], lambda one: self.bind(one, shared))

    def bind(self, parsed: ParsedRule, schema: InputSchema) -> BoundRule:
        language = parsed.language
        given = Given(**{name: getattr(self.given, name) for name in language.arguments})
        options = self.options if given.detect is None else replace(self.options, detect=given.detect)
        schema = replace(schema, arguments=parsed.arguments)
        plan = language.bind(
            parsed.query, Input(schema, parsed.pattern.names), given, options.run(1, parsed.arguments)
        )  # fmt: skip
        return BoundRule(parsed, *language.with_extent(plan))

    def each(self, named: Iterable[tuple[str, Any]], make: Callable[[Any], Made]) -> list[Made]:
        """Apply a function to each rule; raise the errors of all of them together."""
        found: list[Made] = []
        errors: dict[str, EpisodeError] = {}
        for name, one in named:
            try:
                found.append(make(one))
            except EpisodeError as error:
                errors[name] = error
        if errors:
            raise EpisodeRulesError(errors, len(self.rules))
        return found


@dataclass(frozen=True)
class BoundRule:
    """A rule over its input."""

    parsed: ParsedRule
    plan: PatternPlan
    extent: Extent

    @property
    def name(self) -> str:
        return self.parsed.rule.name

    def columns(self, names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Columns of its result, (name, SQL over the output of its matcher, whose columns have other names)."""
        columns = tuple((one.name, rename_values(one.sql, names)) for one in self.plan.result.outputs)
        selection = self.parsed.selection
        return columns if selection is None else selected_expressions(selection, columns)


@dataclass(frozen=True)
class RuleProjection:
    """The rows of a rule's result, and of each the columns around it: keys and times of its match."""

    result: Projections
    around: Projection

    @classmethod
    def compile(
        cls, rule: BoundRule, around: Iterable[tuple[str, str]], schema: pa.Schema, utc: bool = True
    ) -> RuleProjection:
        """Compile the columns of a rule's result. around: (name, SQL). schema: of what the rule's matcher delivers."""
        result, arguments = rule.plan.result, rule.parsed.arguments
        own = Projections((Projection.of(result, schema, arguments, utc),))
        if rule.parsed.selection is not None:
            own = rule.parsed.selection.after(own, arguments, utc)
        conditions = list(map(result.scalar_column, result.conditions))
        named = [(name, ScalarColumn.of(sql)) for name, sql in around]
        return cls(own, Projection.compile(named, schema, conditions, arguments, utc))


def rename_values(sql: str, names: Mapping[str, str]) -> str:
    """An expression over other names. Those of a matcher's own values are reserved, so that nothing else has them; an
    expression that is one column may be any of them."""
    pieces, at = [], 0
    tokens = tokenize(sql)[:-1]
    for token in tokens:
        known = token.kind is Kind.QUOTED and token.identifier in names
        if known and (len(tokens) == 1 or token.identifier.startswith(OWN_VALUES)):
            pieces += [sql[at : token.start], quote(names[token.identifier])]
            at = token.end
    return "".join([*pieces, sql[at:]])


def selected_expressions(selection: Selection, columns: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return SELECT's list over the columns of a pattern, with their expressions in place of their names."""
    names = [name for name, _ in columns]
    number = {name.lower(): at for at, name in enumerate(names)}
    meant = {f"{PLACEHOLDER}{at}": f"({sql})" for at, (_, sql) in enumerate(columns)}

    def place(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        first, *fields = (part.name for part in node.parts)
        found: exp.Expression = exp.column(exp.to_identifier(f"{PLACEHOLDER}{number[first.lower()]}"))
        for name in fields:
            found = exp.Dot(this=found, expression=exp.to_identifier(name))
        return found

    def text(value: Value) -> str:
        assert not isinstance(value, ConstantColumn)
        tree = exp.column(value.column) if isinstance(value, CopiedColumn) else value.tree
        assert tree is not None
        return substitute(write_expression(tree.transform(place)), meant)

    return tuple((name, text(value)) for name, value in selection.values(names))


def key_columns(rules: Sequence[BoundRule]) -> tuple[str, ...]:
    """The key columns of all rules, in order of appearance."""
    keys = tuple(dict.fromkeys(name for rule in rules for name in rule.extent.key))
    for name in keys:
        if name.lower() in OWN_COLUMNS:
            message = f"The rules are partitioned by a column {name}, and their result has a column of that name."
            raise EpisodeAnalysisError(message, hint="Rename the column of the input.")
    return keys


IN_A_RULE = OnePattern(
    "a rule",
    "cannot be in a rule",
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
    tokens = tokenize(rule.text)
    own = {name: arguments[name] for name in {name for name, _ in parameters_in(tokens)} if name in arguments}
    if tokens[0].upper not in ("SELECT", "WITH"):
        return ParsedRule(rule, parse_pattern(rule.text, given, own), None, own)
    pattern, selection = bind_statement(rule.text, own).selected_pattern(IN_A_RULE)
    if pattern.table is not None and pattern.table.name is None and not pattern.table.has_schema:
        raise IN_A_RULE.refuse(Source(rule.text), "A pattern over a query", pattern.table.span)
    return ParsedRule(rule, pattern, selection, own)


def check_table(parsed: ParsedRule, name: str) -> None:
    """Raise an error if the rule names another table than the input, which has this name."""
    table = parsed.pattern.table
    if table is not None and (table.name or table.written).lower() != name.lower():
        message = f"The rule reads {table.written}, and the events of the rules are {name}."
        raise Source(parsed.rule.text).error(EpisodeAnalysisError, message, table.span, f"Write FROM {name}.")
