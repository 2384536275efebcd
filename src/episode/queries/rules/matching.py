"""A set of rules over one table on Spark: planned together, read once, and each result typed as the rule's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeUnsupportedError
from episode.lang.lexer import Kind, tokenize
from episode.matchers.engines import matcher_spec
from episode.queries.bound_statement import bind_statement
from episode.queries.language import Given
from episode.queries.match import MatchQuery
from episode.queries.options import check_streams
from episode.queries.origins import remember
from episode.queries.rules.binding import BoundRule, RuleSet, key_columns, rename_values
from episode.queries.rules.results import Plan, RuleMatches, explain_rules
from episode.queries.statement import StatementQuery
from episode.queries.tables import Table, one_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from episode.matchers.rules.spec import RuleSetSpec
    from episode.plan.schema import InputSchema
    from episode.spark.batch.rules import Finish
    from episode.spark.batch.runtime import Batch


def match_table(events: Table, rules: RuleSet, spark: SparkSession | None = None) -> TableMatches:
    """Plan rules over their events; the errors of all of them are raised together."""
    parsed = rules.parse()
    session, frame = one_table(spark, events)
    if frame.isStreaming:
        hint = "Give the stream to match_all itself."
        raise EpisodeUnsupportedError("match_all is over a table; these events are a stream.", hint=hint)
    check_streams(rules.options, [])
    from episode.spark.expressions import input_schema

    schema = input_schema(session, frame, parsed[0].source, parsed[0].language.called, rules.arguments)
    return TableMatches(session, frame, rules, schema, tuple(rules.bind_all(parsed, schema)))


@dataclass(frozen=True)
class TableMatches(RuleMatches):
    """The matches of rules over a table on Spark.

    `frame` is one DataFrame of all of them: rule, key columns, match_start, match_end, result. What a DataFrame can do
    (`show`, `write`, `where`, …) can be asked of this directly.
    """

    spark: SparkSession
    events: DataFrame
    rules: RuleSet
    schema: InputSchema
    bound: tuple[BoundRule, ...]
    _kept: dict[str, DataFrame] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.bound)

    @cached_property
    def frame(self) -> DataFrame:
        from episode.spark.batch.rules import has_variant, one_result

        pooled, keys = self._pooled, key_columns(self.bound)
        return one_result(pooled, self._finishes, keys, self._types, has_variant(pooled), self.rules.arguments)

    def _of(self, rule: str) -> DataFrame:
        """Match this rule alone, unless what all rules found is kept: see `persist`."""
        from episode.spark.batch.rules import of_rule

        at, found = next((at, one) for at, one in enumerate(self.bound) if one.name == rule)
        if not self._kept:
            return self._alone(found)
        return of_rule(self._pooled, self._finishes[at], found.parsed.arguments)

    def persist(self) -> TableMatches:
        """Keep what all rules found, from the first action on, so that `frame` and `of` match nothing again."""
        if not self._kept:
            self._kept["pooled"] = self._run.frame().persist()
            self._forget()
        return self

    def unpersist(self) -> TableMatches:
        """Let go of what was kept."""
        for frame in self._kept.values():
            frame.unpersist()
        self._kept.clear()
        self._forget()
        return self

    def _forget(self) -> None:
        for name in ("_pooled", "frame"):
            self.__dict__.pop(name, None)

    def explain(self, *, analyze: bool = False) -> str:
        """Return what the rules share, and how each is evaluated. analyze: run them, and show how much was shared."""
        return "\n".join(explain_rules(*self._plan(), self._run.reports() if analyze else None))

    def _plan(self) -> Plan:
        return self.bound, self.groups, self._run.reasons

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of `frame`: all that a DataFrame can do."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    @cached_property
    def _run(self) -> Batch:
        from episode.spark.batch.runtime import plan_batches

        columns = dict.fromkeys(name for rule in self.bound for name in rule.plan.input_columns)
        derived = {name: sql for rule in self.bound for sql, name in rule.plan.derived}
        run = self.rules.options.run(1, self.rules.arguments)
        pairs = tuple((sql, name) for name, sql in derived.items())
        return plan_batches(self.spark, self.events, tuple(columns), pairs, self._groups_over, run)

    @property
    def groups(self) -> tuple[RuleSetSpec, ...]:
        """The rules by how they group and order rows."""
        return tuple(group.spec for group in self._run.groups)  # type: ignore[misc]

    def _groups_over(self, schema: pa.Schema) -> tuple[RuleSetSpec, ...]:
        from episode.matchers.rules.spec import rule_groups

        specs = [(rule.name, matcher_spec(rule.plan, schema)) for rule in self.bound]
        return rule_groups(specs, schema, {rule.name: _leading(rule) for rule in self.bound})

    @cached_property
    def _pooled(self) -> DataFrame:
        return self._kept.get("pooled") or self._run.frame()

    @cached_property
    def _finishes(self) -> list[Finish]:
        """Expressions that Spark computes from each rule's values, over the columns of the pool."""
        from episode.spark.batch.rules import Finish

        members = {member.name: member for group in self.groups for member in group.members}
        found = []
        for rule in self.bound:
            member = members[rule.name]
            names = dict(zip(member.spec.output_schema.names, member.columns, strict=True))
            result, extent = rule.plan.result, rule.extent
            conditions = tuple(rename_values(one.sql, names) for one in result.conditions)
            keys = {name: rename_values(sql, names) for name, sql in extent.key.items()}
            start, end = (None if sql is None else rename_values(sql, names) for sql in (extent.start, extent.end))
            found.append(
                Finish(member.number, rule.name, rule.columns(names), conditions, keys, start, end, extent.time)
            )
        return found

    @cached_property
    def _types(self) -> Mapping[int, Any]:
        """The types of the rules' columns; where Spark cannot compute one, the errors of all rules together."""
        from episode.spark.batch.rules import result_types

        found = result_types(self._pooled, self._finishes, self.rules.arguments)
        if found is None:
            self.rules.each([(rule.name, rule) for rule in self.bound], lambda rule: self._alone(rule).schema)
            found = result_types(self._pooled, self._finishes, self.rules.arguments)
            assert found is not None  # what Spark computes of a rule alone, it computes of the rule among others
        return found

    def _alone(self, rule: BoundRule) -> DataFrame:
        parsed = rule.parsed
        options, arguments = self.rules.options, parsed.arguments
        table = parsed.pattern.table
        if parsed.selection is None and table is None:
            given = Given(**{name: getattr(self.rules.given, name) for name in parsed.language.arguments})
            return MatchQuery(self.events, parsed.rule.text, given, self.spark, options, {}, arguments).frame()
        assert table is not None
        bound = bind_statement(parsed.rule.text, arguments)
        query = StatementQuery(bound, self.spark, options, {table.name or table.written: self.events})
        return remember(query.result(), query.origin)


def _leading(rule: BoundRule) -> Sequence[str]:
    """The columns of times and keys, which nearly all rules have, as far as they are columns of the matcher."""
    extent = rule.extent
    wanted = [sql for sql in (extent.start, extent.end, *extent.key.values()) if sql is not None]
    tokens = [tokenize(sql)[:-1] for sql in wanted]
    return tuple(dict.fromkeys(one[0].identifier for one in tokens if len(one) == 1 and one[0].kind is Kind.QUOTED))
