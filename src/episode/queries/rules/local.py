"""A set of rules over one table in process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from episode.matchers.engines import matcher_spec
from episode.matchers.json_text import json_objects
from episode.matchers.projection import Derivation
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import RuleSetReport
from episode.matchers.rules.spec import RuleSetSpec, rule_groups
from episode.matchers.running import LocalRun
from episode.matchers.spark_types import to_spark_types
from episode.queries.local import check_local, local_schema, refusing
from episode.queries.rules.binding import MATCH_END, MATCH_START, RESULT, RULE, BoundRule, RuleProjection, RuleSet
from episode.queries.rules.results import Plan, RuleMatches
from episode.queries.tables import held_table, like

TIMES = (MATCH_START, MATCH_END)


@dataclass(frozen=True)
class RuleResult:
    """The matches of one rule: its result, and of each row of it the key and the times of its match."""

    result: pa.Table
    extent: pa.Table


@dataclass(frozen=True)
class LocalMatches(RuleMatches):
    """The matches of rules over a table in process. found: by rule. like: makes the kind of table that came in."""

    found: Mapping[str, RuleResult]
    report: RuleSetReport
    like: Callable[[pa.Table], Any]
    plan: Plan

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.found)

    def _of(self, rule: str) -> Any:
        return self.like(self.found[rule].result)

    def _plan(self) -> Plan:
        return self.plan

    @property
    def counts(self) -> dict[str, int]:
        return {name: one.result.num_rows for name, one in self.found.items()}

    @property
    def table(self) -> Any:
        """All matches: rule, key columns, match_start, match_end, result as JSON."""
        keys = dict.fromkeys(name for one in self.found.values() for name in one.extent.column_names)
        names = [*(name for name in keys if name not in TIMES), *TIMES]
        parts = []
        for rule, one in self.found.items():
            count = one.result.num_rows
            columns = {RULE: pa.array([rule] * count, pa.string())}
            columns |= {name: one.extent.column(name) for name in names if name in one.extent.column_names}
            results = json_objects(one.result.column_names, one.result.columns, count)
            parts.append(pa.table({**columns, RESULT: results}))
        whole = pa.concat_tables(parts, promote_options="permissive")
        return self.like(whole.select([RULE, *(name for name in names if name in whole.column_names), RESULT]))


def match_all_local(events: Any, rules: RuleSet) -> LocalMatches:
    parsed = rules.parse()
    check_local(rules.options, [one.language for one in parsed])
    table = to_spark_types(held_table("events", events))
    query = LocalRules(rules, table)
    return query.matches(events)


@dataclass(frozen=True)
class LocalRules:
    """Rules bound to a table."""

    rules: RuleSet
    table: pa.Table

    @cached_property
    def bound(self) -> list[BoundRule]:
        parsed = self.rules.parse()
        schema = local_schema(self.table.schema, parsed[0].source, self.rules.arguments)
        return self.rules.bind_all(parsed, schema)

    @cached_property
    def input(self) -> pa.Table:
        """The table, with what is computed before matching."""
        table = self.table
        for rule in self.bound:
            derived = [(sql, name) for sql, name in rule.plan.derived if name not in table.column_names]
            table = Derivation.compile(derived, table.schema, rule.parsed.arguments)(table)
        return table

    @cached_property
    def specs(self) -> list[tuple[str, MatcherSpec]]:
        return [(rule.name, matcher_spec(rule.plan, self.input.schema)) for rule in self.bound]

    @cached_property
    def groups(self) -> tuple[RuleSetSpec, ...]:
        return rule_groups(self.specs, self.input.schema)

    @cached_property
    def projections(self) -> dict[str, RuleProjection]:
        """By rule. What needs Spark is refused, for all rules together."""
        specs = dict(self.specs)
        made = self.rules.each(
            [(rule.name, rule) for rule in self.bound], lambda rule: _compile_projection(rule, specs)
        )
        return {rule.name: projection for rule, projection in zip(self.bound, made, strict=True)}

    def matches(self, events: Any) -> LocalMatches:
        projections = self.projections
        found: dict[str, list[pa.Table]] = {name: [spec.output_schema.empty_table()] for name, spec in self.specs}
        reports = []
        for group in self.groups:
            running = LocalRun(group)
            matcher = running.matcher
            assert isinstance(matcher, RuleSetMatcher)
            for rule, matches in matcher.matches(running.events(self.input), END_OF_TIME):
                found[rule.name].append(matches)
            for rule, matches in matcher.last_matches():
                found[rule.name].append(matches)
            reports.append(matcher.report())
        results = {}
        for name, projection in projections.items():
            matched = pa.concat_tables(found[name])
            results[name] = RuleResult(projection.result(matched), projection.around(matched))
        plan = self.bound, self.groups, ["matched in this process"]
        return LocalMatches(results, RuleSetReport.total(reports), partial(like, events), plan)


def _compile_projection(rule: BoundRule, specs: Mapping[str, MatcherSpec]) -> RuleProjection:
    extent = rule.extent
    around = {**extent.key, MATCH_START: extent.start, MATCH_END: extent.end}
    named = [(name, sql) for name, sql in around.items() if sql is not None]
    with refusing():
        return RuleProjection.compile(rule, named, specs[rule.name].output_schema)
