"""A set of rules over one table in process, without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.matchers.compiled import ensure_compiled, groups_of
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.report import RuleSetReport
from episode.matchers.rules.spec import RuleSetSpec, rule_groups
from episode.matchers.running import LocalRun
from episode.matchers.scalars import Scalars
from episode.matchers.spark_types import retyped
from episode.queries.frames import arrow_table, like
from episode.queries.local import LocalQuery, check_local, local_schema, tree_of
from episode.queries.rules.binding import BoundRule, RuleSet


@dataclass(frozen=True)
class LocalMatches:
    """The matches of rules over a table. tables: by rule, as the rule alone gives them, in the kind of the input."""

    tables: Mapping[str, Any]
    report: RuleSetReport

    def of(self, rule: str) -> Any:
        """The matches of one rule, typed as the rule alone gives them."""
        if rule not in self.tables:
            raise no_rule(rule, list(self.tables))
        return self.tables[rule]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each rule gave."""
        return {name: len(table) for name, table in self.tables.items()}


def no_rule(name: object, names: Sequence[str]) -> EpisodeAnalysisError:
    """The error where a rule is asked for that is not there."""
    guess = closest(name, names) if isinstance(name, str) else None
    shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    return EpisodeAnalysisError(
        f"There is no rule {name}.", hint=f"Did you mean {guess}?" if guess else f"Rules: {shown}."
    )


def match_all_local(events: Any, rules: RuleSet) -> LocalMatches:
    """The matches of all rules over a table."""
    parsed = rules.parsed()
    check_local(rules.options, [one.language for one in parsed])
    table = retyped(arrow_table("events", events))
    query = LocalRules(rules, table)
    return query.matches(events)


@dataclass(frozen=True)
class LocalRules:
    """Rules bound to a table."""

    rules: RuleSet
    table: pa.Table

    @cached_property
    def bound(self) -> list[BoundRule]:
        parsed = self.rules.parsed()
        schema = local_schema(self.table, parsed[0].source, self.rules.arguments)
        return self.rules.bound(parsed, schema)

    @cached_property
    def input(self) -> pa.Table:
        """The table, with what is computed before matching."""
        table = self.table
        for rule in self.bound:
            for sql, name in rule.bound.derived:
                if name not in table.column_names:
                    scalars = Scalars(table, arguments=rule.parsed.arguments)
                    table = table.append_column(name, scalars.evaluate(tree_of(sql)))
        return table

    @cached_property
    def specs(self) -> list[tuple[str, MatcherSpec]]:
        """By rule. What needs Spark is refused, for all rules together."""
        self.rules.each([(rule.name, rule) for rule in self.bound], self._checked)
        return [(rule.name, rule.bound.spec(self.input.schema)) for rule in self.bound]

    @cached_property
    def groups(self) -> tuple[RuleSetSpec, ...]:
        return rule_groups(self.specs, self.input.schema)

    def _checked(self, rule: BoundRule) -> None:
        spec = rule.bound.spec(self.input.schema)
        self.finished(rule, retyped(spec.output_schema.empty_table()))

    def finished(self, rule: BoundRule, matched: pa.Table) -> pa.Table:
        """The result of a rule, from what its matcher delivers."""
        output = LocalQuery(rule.bound, rule.parsed.arguments).finished(matched)
        selection = rule.parsed.selection
        return output if selection is None else selection.of(output, rule.parsed.arguments)

    def matches(self, events: Any) -> LocalMatches:
        """The matches of all rules."""
        found: dict[str, list[pa.Table]] = {name: [spec.output_schema.empty_table()] for name, spec in self.specs}
        reports = []
        for group in self.groups:
            ensure_compiled(groups_of(group))
            running = LocalRun(group)
            matcher = running.matcher
            assert isinstance(matcher, RuleSetMatcher)
            for member, matches in matcher.matches(running.events(self.input), END_OF_TIME):
                found[member.name].append(matches)
            for member, matches in matcher.last_matches():
                found[member.name].append(matches)
            reports.append(matcher.report())
        tables = {
            rule.name: like(events, self.finished(rule, retyped(pa.concat_tables(found[rule.name]))))
            for rule in self.bound
        }
        return LocalMatches(tables, RuleSetReport.summed(reports))
