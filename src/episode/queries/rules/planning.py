"""A rule's text as a rule of a stream, planned without Spark: the same in the driver and in every worker.

Rules come while a stream runs and Spark's plan stays as it is. So all that a rule computes is computed where it is
matched; what only Spark could evaluate is refused, with the column to add to the stream as the remedy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError, EpisodeWarning
from episode.lang.events.syntax import EventQuery
from episode.lang.lexer import tokenize
from episode.lang.rows.syntax import MatchRecognize
from episode.lang.situations.syntax import SituationQuery
from episode.lang.source import Source
from episode.lang.statement import TablePattern, parse_statement
from episode.lang.table_patterns import clause_of
from episode.matchers.bound import BoundPattern
from episode.matchers.json_text import json_objects
from episode.matchers.limits import StateLimit
from episode.matchers.protocol import KEY_COLUMN
from episode.matchers.rules.one_rule import MATCH_END, MATCH_START, RESULT, RuleSpec
from episode.matchers.scalars import Scalars
from episode.matchers.spark_types import held_as, retyped
from episode.plan.events.aggregated import BUCKET_END, BUCKET_START
from episode.plan.output import PlannedMeasure
from episode.plan.run_options import RunOptions
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from episode.queries.local import LocalQuery, local_schema, tree_of
from episode.queries.local_statement import Selection, selection_of

REMEDY = (
    "Add it to the stream as a column (df.withColumn(…)), start the stream with it, and use the column in the rule."
)


@dataclass(frozen=True)
class RuleText:
    """A rule that was read. selection: what SELECT takes of the pattern's columns; None: all. names: of the table."""

    query: Any
    selection: Selection | None = None
    names: tuple[str, ...] = ()


def read_rule(text: str) -> RuleText:
    """A rule is a pattern, MATCH_RECOGNIZE ( … ), or SELECT columns FROM events and one of them."""
    if tokenize(text)[0].upper == "MATCH_RECOGNIZE":
        return RuleText(clause_of(text))
    statement = parse_statement(text)
    if statement.whole is not None:
        return RuleText(statement.whole)
    if statement.recencies or statement.windowed:
        raise Source(text).error(
            EpisodeUnsupportedError,
            "A rule of a stream is one pattern: no correlation of two, and no pattern in a window.",
            hint="Run it as a query of its own: episode.sql on the stream.",
        )
    selection = selection_of(statement)
    pattern = selection.pattern
    names = (
        tuple(name for name in (pattern.alias or pattern.name,) if name) if isinstance(pattern, TablePattern) else ()
    )
    return RuleText(pattern.query, selection, names)


@dataclass(frozen=True)
class StreamRules:
    """What all rules of a stream have in common, and how one is made of a text. What `RulePlanner` says.

    schema: the columns of events, as they are fed. keys, time, start: by which all rules partition and order them.
    utc: are times of day those of UTC? Otherwise they need Spark.
    """

    schema: pa.Schema
    time: str
    keys: tuple[str, ...]
    given: Given
    run: RunOptions
    limit: StateLimit | None = None
    utc: bool = True

    def plan(self, name: str, text: str) -> RuleSpec:
        """The same object for the same text: what rules share is found once for them."""
        return _planned(self, text)

    def check(self, text: str) -> tuple[RuleSpec, list[str]]:
        """A rule, and what is to be said of it."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", EpisodeWarning)
            spec = self._plan(text)
        return spec, [str(one.message) for one in caught]

    def __hash__(self) -> int:
        return hash((self.time, self.keys, str(self.schema)))

    def _plan(self, text: str) -> RuleSpec:
        rule = read_rule(text)
        language = language_of(rule.query)
        source = language.source(rule.query)
        with _needing_spark(source):
            schema = local_schema(self.schema.empty_table(), source, self.run.arguments, self.utc)
            run = replace(self.run, correlated=isinstance(rule.query, MatchRecognize))
            bound = language.bind(rule.query, Input(schema, rule.names), self._given(rule.query), run)
            derive = Derived(bound.derived, self.utc, self.run.arguments)
            spec = bound.spec(derive(self.schema.empty_table()).schema, self.limit)
            self._check_order(bound, source, spec.input_order.keys, spec.input_order.order, spec.input_order.start)
            bound.event_time(self.limit is not None)
            time = held_as(self.schema.field(self.time).type)
            finish = Finished(
                RuleQuery(bound, self.run.arguments, self.utc), rule.selection, _times_of(bound, language.times), time
            )
            nothing = spec.output_schema.empty_table().append_column(KEY_COLUMN, pa.array([], pa.int64()))
            finish(nothing)
        return RuleSpec(spec, derive, finish, time)

    def _given(self, query: object) -> Given:
        """What is said for all rules, where this one does not say it itself."""
        if isinstance(query, MatchRecognize):
            return Given()
        assert isinstance(query, (EventQuery, SituationQuery))
        own = query.input
        given = Given(time=None if own.time is not None else self.time, key=() if own.partition_by else self.keys)
        if isinstance(query, SituationQuery):
            return given
        return replace(
            given,
            type_column=None if query.input.type_column is not None else self.given.type_column,
            start=None if query.input.start is not None else self.given.start,
            strategy=self.given.strategy,
        )

    def _check_order(
        self, bound: BoundPattern, source: Source, keys: Sequence[str], order: Sequence[Any], start: str | None
    ) -> None:
        """All rules see the events of one key in one order."""
        if set(keys) != set(self.keys):
            raise source.error(
                EpisodeAnalysisError,
                f"The rule partitions events {_by(keys)}, and the rules of this stream {_by(self.keys)}.",
                source.pattern,
                "Partition by the same columns; or run rules with other keys as another set, in a query of its own.",
            )
        names = [one.column for one in order]
        if names != [self.time] or not order[0].ascending or start != self.given.start:
            raise source.error(
                EpisodeAnalysisError,
                f"The rule orders events {_by(names)}, and the rules of this stream by {self.time}.",
                source.pattern,
                f"Write ORDER BY {self.time}.",
            )


@lru_cache(maxsize=4096)
def _planned(rules: StreamRules, text: str) -> RuleSpec:
    return rules.check(text)[0]


def _by(keys: Sequence[str]) -> str:
    return f"by {', '.join(keys)}" if keys else "by nothing"


@contextmanager
def _needing_spark(source: Source) -> Iterator[None]:
    """What needs Spark is refused with a remedy that fits a stream of rules."""
    try:
        yield
    except EpisodeUnsupportedError as error:
        if "needs Spark" not in error.message:
            raise
        raise EpisodeUnsupportedError(
            error.message, source=error.source, position=error.position, length=error.length, hint=REMEDY
        ) from None


@dataclass(frozen=True)
class Derived:
    """The columns that a pattern has computed before it is matched."""

    columns: tuple[tuple[str, str], ...]
    utc: bool
    arguments: Any

    def __call__(self, events: pa.Table) -> pa.Table:
        if not self.columns:
            return events
        scalars = Scalars(retyped(events), self.utc, self.arguments)
        for sql, name in self.columns:
            events = events.append_column(name, scalars.evaluate(tree_of(sql)))
        return events


@dataclass(frozen=True)
class RuleQuery(LocalQuery):
    """A rule's pattern, and the values around its matches."""

    utc: bool = True

    def _scalars(self, table: pa.Table) -> Scalars:
        return Scalars(table, self.utc, self.arguments)

    def value(self, matched: pa.Table, measure: PlannedMeasure) -> pa.Array:
        return self._value(self._scalars(matched), measure)


@dataclass(frozen=True)
class Finished:
    """The rows of a rule's result. times: the measures, or the matcher's columns, with the times of a match."""

    query: RuleQuery
    selection: Selection | None
    times: tuple[PlannedMeasure | str, PlannedMeasure | str]
    time: pa.DataType

    def __call__(self, matched: pa.Table) -> pa.Table:
        held = retyped(matched)
        values, kept = self.query.values(held)
        output = pa.Table.from_arrays([column for _, column in values], names=[name for name, _ in values])
        if self.selection is not None:
            output = self.selection.of(output, self.query.arguments)
        times = [held.column(one) if isinstance(one, str) else self.query.value(held, one) for one in self.times]
        columns = [
            held.column(KEY_COLUMN),
            *(column if column.type == self.time else column.cast(self.time) for column in times),
            json_objects(output.column_names, output.columns, held.num_rows),
        ]
        table = pa.Table.from_arrays(columns, names=[KEY_COLUMN, MATCH_START, MATCH_END, RESULT])
        return table.filter(reduce(pc.and_, kept)) if kept else table


def _times_of(bound: BoundPattern, times: tuple[str, str]) -> tuple[PlannedMeasure | str, PlannedMeasure | str]:
    """What holds the times of a match: measures of these names, or for aggregates the bounds of their bucket."""
    if BUCKET_START in bound.result.before:
        return BUCKET_START, BUCKET_END
    named = {measure.name: measure for measure in bound.plan.measures.measures}
    return named[times[0]], named[times[1]]
