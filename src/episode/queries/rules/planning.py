"""A rule's text as a rule of a stream, planned without Spark: the same in the driver and in every worker.

Rules come while a stream runs and Spark's plan stays as it is. So a worker computes all of a rule; an
expression that only Spark evaluates is refused, with the column to add to the stream as the remedy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeWarning
from episode.lang.syntax import Source
from episode.matchers.engines import matcher_spec
from episode.matchers.json_text import FORM, JsonForm, json_objects
from episode.matchers.projection import Derivation
from episode.matchers.protocol import InputOrder, StateLimit
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START, RuleSpec
from episode.matchers.rules.spec import output_of_rules
from episode.plan.compilable import NeedsSpark
from episode.plan.options import RunOptions
from episode.queries.language import Given, Input
from episode.queries.local import local_schema
from episode.queries.rules.binding import BoundRule, ParsedRule, RuleProjection, check_table, parse_rule
from episode.queries.rules.rule import Rule

REMEDY = "Add it to the stream as a column (df.withColumn(…)), start the stream anew, and read the column in the rule."


@dataclass(frozen=True)
class StreamPlanner:
    """The `RulePlanner` of a stream: settings of all its rules, and the way from a text to a rule.

    schema: the columns of events, as they are fed. time, keys: by which all rules order and partition them. given: of
    all rules. utc: are times of day those of UTC? Otherwise they need Spark. table: the name of the events,
    where they have one. form: of results.
    """

    schema: pa.Schema
    time: str
    keys: tuple[str, ...]
    given: Given
    run: RunOptions
    limit: StateLimit | None = None
    utc: bool = True
    table: str | None = None
    form: JsonForm = FORM

    def plan(self, name: str, text: str) -> RuleSpec:
        """The same object for the same text: what rules share is found once for them."""
        return _plan_once(self, text)

    def check(self, text: str) -> tuple[RuleSpec, list[str]]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EpisodeWarning)
            spec = self._plan(text)
        return spec, [str(one.message) for one in caught]

    def bind(self, name: str, text: str) -> BoundRule:
        """Parse and bind a rule, as `explain` shows it."""
        return self._bind(parse_rule(Rule(name, text), self.given, self.run.arguments))

    def __hash__(self) -> int:
        return hash((self.time, self.keys, str(self.schema)))

    def _plan(self, text: str) -> RuleSpec:
        parsed = parse_rule(Rule("rule", text), self.given, self.run.arguments)
        if self.table is not None:
            check_table(parsed, self.table)
        source = parsed.source
        with _needing_spark(source):
            rule = self._bind(parsed)
            plan = rule.plan
            derive = Derivation.compile(plan.derived, self.schema, parsed.arguments, self.utc)
            spec = matcher_spec(plan, derive.schema, self.limit)
            self._check_order(source, spec.input_order)
            plan.event_time(self.limit is not None)
            output = output_of_rules(self.schema, self.keys, self.time)
            projection = self._projection(rule, spec.output_schema)
        finish = Finished(projection, output, self.form)
        derives = tuple(name for _, name in plan.derived)
        return RuleSpec(spec, derives, derive, finish, output, projection.result.schema)

    def _bind(self, parsed: ParsedRule) -> BoundRule:
        language = parsed.language
        known = local_schema(self.schema, parsed.source, parsed.arguments, self.utc)
        events = Input(replace(known, shared=True), parsed.pattern.names)
        run = replace(self.run, arguments=parsed.arguments)
        given = language.rule_arguments(parsed.query, replace(self.given, time=self.time, key=self.keys))
        plan, extent = language.with_extent(language.bind(parsed.query, events, given, run))
        return BoundRule(parsed, plan, extent)

    def _projection(self, rule: BoundRule, schema: pa.Schema) -> RuleProjection:
        extent = rule.extent
        assert extent.start is not None  # in a stream, events have times
        assert extent.end is not None
        keys = [(name, extent.key[name]) for name in self.keys]
        around = [*keys, (MATCH_START, extent.start), (MATCH_END, extent.end)]
        return RuleProjection.compile(rule, around, schema, self.utc)

    def _check_order(self, source: Source, order: InputOrder) -> None:
        """All rules see the events of one key in one order."""
        if set(order.keys) != set(self.keys):
            message = f"The rule partitions events {_by(order.keys)}, and the rules of this stream {_by(self.keys)}."
            hint = (
                "Partition by the same columns (key=…); or run rules with other keys as another set, in a separate "
                "query."
            )
            raise source.error(EpisodeAnalysisError, message, source.pattern, hint)
        names = [one.column for one in order.order]
        if names != [self.time] or not order.order[0].ascending:
            message = f"The rule orders events {_by(names)}, and the rules of this stream by {self.time}."
            raise source.error(EpisodeAnalysisError, message, source.pattern, f"Write ORDER BY {self.time}.")
        if order.start != self.given.start or order.imprecise:
            message = (
                f"Events of the rule begin at {order.start or self.time}, and those of this stream at "
                f"{self.given.start or self.time}."
            )
            hint = "Give start=… for all rules; or run rules with other times as another set, in a separate query."
            raise source.error(EpisodeAnalysisError, message, source.pattern, hint)


@lru_cache(maxsize=4096)
def _plan_once(rules: StreamPlanner, text: str) -> RuleSpec:
    return rules.check(text)[0]


def _by(columns: Sequence[str]) -> str:
    return f"by {', '.join(columns)}" if columns else "by nothing"


@contextmanager
def _needing_spark(source: Source) -> Iterator[None]:
    """Refuse expressions that need Spark, with a remedy that fits a stream of rules."""
    try:
        yield
    except NeedsSpark as error:
        placed = error if error.source is not None else source.locate(error, source.span.beginning)
        raise placed.as_error(dict.fromkeys((NeedsSpark.EXPRESSION, NeedsSpark.ZONE), REMEDY)) from None


@dataclass(frozen=True)
class Finished:
    """The rows of a rule's result as those of many rules: keys, times, and its own columns as JSON."""

    projection: RuleProjection
    output: pa.Schema
    form: JsonForm

    def __call__(self, matched: pa.Table) -> pa.Table:
        own, around = self.projection.result(matched), self.projection.around(matched)
        columns = [
            column if column.type == one.type else column.cast(one.type)
            for column, one in zip(around.columns, self.output, strict=False)
        ]
        result = json_objects(own.column_names, own.columns, around.num_rows, self.form)
        return pa.Table.from_arrays([*columns, result], schema=self.output)
