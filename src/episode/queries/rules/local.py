"""A set of rules over one table in process, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.matchers.json_text import json_objects
from episode.matchers.projection import Derivation
from episode.matchers.protocol import END_OF_TIME, MatcherSpec
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.report import RuleSetReport
from episode.matchers.rules.spec import RuleSetSpec, rule_groups
from episode.matchers.running import LocalRun
from episode.matchers.spark_types import retyped
from episode.queries.frames import held_table, like
from episode.queries.local import check_local, local_schema, refusing
from episode.queries.rules.binding import MATCH_END, MATCH_START, RESULT, RULE, BoundRule, RuleProjection, RuleSet

TIMES = (MATCH_START, MATCH_END)


@dataclass(frozen=True)
class RuleMatches:
    """The matches of one rule: its result, and of each row of it the key and the times of its match."""

    result: pa.Table
    extent: pa.Table


@dataclass(frozen=True)
class LocalMatches:
    """The matches of rules over a table. found: by rule. like: makes the kind of table that came in."""

    found: Mapping[str, RuleMatches]
    report: RuleSetReport
    like: Callable[[pa.Table], Any]

    def of(self, rule: str) -> Any:
        """The matches of one rule, typed as the rule alone gives them."""
        if rule not in self.found:
            raise no_rule(rule, list(self.found))
        return self.like(self.found[rule].result)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows each rule gave."""
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
    table = retyped(held_table("events", events))
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
        schema = local_schema(self.table.schema, parsed[0].source, self.rules.arguments)
        return self.rules.bound(parsed, schema)

    @cached_property
    def input(self) -> pa.Table:
        """The table, with what is computed before matching."""
        table = self.table
        for rule in self.bound:
            derived = [(sql, name) for sql, name in rule.bound.derived if name not in table.column_names]
            table = Derivation.compile(derived, table.schema, rule.parsed.arguments)(table)
        return table

    @cached_property
    def specs(self) -> list[tuple[str, MatcherSpec]]:
        return [(rule.name, rule.bound.spec(self.input.schema)) for rule in self.bound]

    @cached_property
    def groups(self) -> tuple[RuleSetSpec, ...]:
        return rule_groups(self.specs, self.input.schema)

    @cached_property
    def projections(self) -> dict[str, RuleProjection]:
        """By rule. What needs Spark is refused, for all rules together."""
        specs = dict(self.specs)
        made = self.rules.each([(rule.name, rule) for rule in self.bound], lambda rule: _compiled(rule, specs))
        return {rule.name: projection for rule, projection in zip(self.bound, made, strict=True)}

    def matches(self, events: Any) -> LocalMatches:
        """The matches of all rules."""
        projections = self.projections
        found: dict[str, list[pa.Table]] = {name: [spec.output_schema.empty_table()] for name, spec in self.specs}
        reports = []
        for group in self.groups:
            running = LocalRun(group)
            matcher = running.matcher
            assert isinstance(matcher, RuleSetMatcher)
            for member, matches in matcher.matches(running.events(self.input), END_OF_TIME):
                found[member.name].append(matches)
            for member, matches in matcher.last_matches():
                found[member.name].append(matches)
            reports.append(matcher.report())
        results = {}
        for name, projection in projections.items():
            matched = pa.concat_tables(found[name])
            results[name] = RuleMatches(projection.result(matched), projection.around(matched))
        return LocalMatches(results, RuleSetReport.summed(reports), partial(like, events))


def _compiled(rule: BoundRule, specs: Mapping[str, MatcherSpec]) -> RuleProjection:
    extent = rule.extent
    around = {**extent.key, MATCH_START: extent.start, MATCH_END: extent.end}
    named = [(name, sql) for name, sql in around.items() if sql is not None]
    with refusing():
        return RuleProjection.compile(rule, named, specs[rule.name].output_schema)
