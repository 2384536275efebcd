"""A set of rules over one table in process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from episode.matchers.engines import matcher_spec
from episode.matchers.json_text import json_objects
from episode.matchers.projection import Derivation
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import RuleSetReport
from episode.matchers.rules.spec import rule_groups
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
    bound = rules.bind_all(parsed, local_schema(table.schema, parsed[0].source, rules.arguments))
    for rule in bound:  # what is computed before matching
        derived = [(sql, name) for sql, name in rule.plan.derived if name not in table.column_names]
        table = Derivation.compile(derived, table.schema, rule.parsed.arguments)(table)
    specs = {rule.name: matcher_spec(rule.plan, table.schema) for rule in bound}
    projections = rules.each(
        [(rule.name, rule) for rule in bound], lambda rule: _compile_projection(rule, specs[rule.name])
    )
    groups = rule_groups(list(specs.items()), table.schema)
    found = {name: [spec.output_schema.empty_table()] for name, spec in specs.items()}
    reports = []
    for group in groups:
        running = LocalRun(group)
        matcher = running.matcher
        assert isinstance(matcher, RuleSetMatcher)
        for named, matches in matcher.matches(running.events(table), END_OF_TIME):
            found[named.name].append(matches)
        for named, matches in matcher.last_matches():
            found[named.name].append(matches)
        reports.append(matcher.report())
    results = {}
    for rule, projection in zip(bound, projections, strict=True):
        matched = pa.concat_tables(found[rule.name])
        results[rule.name] = RuleResult(projection.result(matched), projection.around(matched))
    plan = bound, groups, ["matched in this process"]
    return LocalMatches(results, RuleSetReport.total(reports), partial(like, events), plan)


def _compile_projection(rule: BoundRule, spec: MatcherSpec) -> RuleProjection:
    """The columns of a rule's result; what needs Spark is refused."""
    around = {**rule.extent.key, MATCH_START: rule.extent.start, MATCH_END: rule.extent.end}
    with refusing():
        named = [(name, sql) for name, sql in around.items() if sql is not None]
        return RuleProjection.compile(rule, named, spec.output_schema)
