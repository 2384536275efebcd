"""Patterns over tables in process: the plans and matchers of Spark's queries, without Spark.

A statement is one pattern, two that RECENCY correlates, or row patterns in windows, with a list of columns around them.
What Spark computes before and after matching, a `Projection` computes here; what it does not know is refused before
anything is matched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation
from episode.lang.syntax import Source
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import CopiedColumn, Derivation, Projection, Projections, Value
from episode.matchers.running import run
from episode.matchers.spark_types import spark_name, to_spark_types
from episode.plan.compilable import NO_ARGUMENTS, NeedsSpark
from episode.plan.correlation.pairs import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN, PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.options import Options
from episode.plan.output import MATCH_END, MATCH_START, ScalarColumn
from episode.plan.parameters import Arguments
from episode.plan.pattern import PatternPlan
from episode.plan.schema import InputSchema
from episode.queries.bound_statement import (
    BoundStatement,
    EventsTable,
    OnePattern,
    StatementPair,
    StatementPattern,
    parse_pattern,
)
from episode.queries.events import check_statement_tables
from episode.queries.language import Given, Language
from episode.queries.languages.class_names import rows_of_table
from episode.queries.languages.correlation import CORRELATIONS
from episode.queries.options import check_streams, check_use, refuse_options
from episode.queries.origins import InProcessRun, LocalEvents, LocalPattern
from episode.queries.selection import Selection
from episode.queries.tables import held_table, like

IN_PROCESS = OnePattern(
    "a query in process",
    "needs Spark",
    "In process a query is SELECT columns FROM table MATCH_RECOGNIZE (…), or one pattern. Use episode.sql.",
)


@contextmanager
def refusing(hints: Mapping[str, str] = NeedsSpark.HINTS) -> Iterator[None]:
    """Refuse what needs Spark. hints: what to do instead, by the reason."""
    try:
        yield
    except NeedsSpark as error:
        raise error.as_error(hints) from None


def sql_local(bound: BoundStatement, tables: Mapping[str, Any], options: Options, function: str = "sql_local") -> Any:
    with refusing():
        if bound.pairs:
            return _run_pair(bound, tables, options, function)
        if bound.statement.windowed:
            return _run_windows(bound, tables, options)
        pattern, selection = bound.selected_pattern(IN_PROCESS)
        name = _name_of_table(bound, pattern, tables)
        check_statement_tables(function, tables, bound.statement.tokens)
        table = held_table(name, tables[name])
        return like(tables[name], plan_local(pattern, table, Given(), options, bound.arguments).run(selection))


def plan_match(
    events: Any, text: str, given: Given, options: Options, arguments: Arguments = NO_ARGUMENTS
) -> LocalPlan:
    """Plan a pattern over a table that is given with it."""
    pattern = parse_pattern(text, given, arguments)
    pattern.language.check_arguments(given)
    pattern.language.check_given_events(pattern.query)
    if given.detect is not None:
        options = replace(options, detect=given.detect)
    with refusing():
        return plan_local(pattern, held_table("events", events), given, options, arguments)


def statement_patterns(bound: BoundStatement, tables: Mapping[str, Any], options: Options) -> tuple[LocalPattern, ...]:
    """Plan all patterns of a statement over the tables, whatever is around them."""
    correlated = {one.span for pair in bound.pairs for one in (pair.live, pair.archive)}
    plans: list[tuple[int, LocalPattern]] = []
    with refusing():
        for pair in bound.pairs:
            plans.append((pair.recency.span.start, _plan_pair(bound, pair, tables, options).placed))
        for pattern in bound.patterns:
            if pattern.span not in correlated:
                name = _name_of_table(bound, pattern, tables)
                table = held_table(name, tables[name])
                plans.append((pattern.span.start, plan_local(pattern, table, Given(), options, bound.arguments).placed))
        for select in bound.statement.windowed:
            raise IN_PROCESS.refuse(bound.source, "A look at row patterns in windows", select.items)
    return tuple(placed for _, placed in sorted(plans, key=lambda plan: plan[0]))


def _name_of_table(bound: BoundStatement, pattern: StatementPattern, tables: Mapping[str, Any]) -> str:
    if pattern.table is None:
        hint = "Name the table of all events: FROM events …. With a table per class, use episode.sql."
        raise pattern.source.error(EpisodeUnsupportedError, "In process, a pattern is over one table.", hint=hint)
    return _given_name(bound, pattern.table, tables)


def _given_name(bound: BoundStatement, table: EventsTable, tables: Mapping[str, Any]) -> str:
    if table.name is None:
        raise IN_PROCESS.refuse(bound.source, "A pattern over a query", table.span)
    if table.name not in tables:
        hint = f"Give it by keyword: {table.name}=…. Given: {', '.join(tables) or 'none'}."
        raise bound.source.error(EpisodeAnalysisError, f"There is no table {table.name}.", table.span, hint)
    return table.name


@dataclass(frozen=True)
class LocalPlan:
    """A pattern, or two that are correlated, planned over tables. table: the matcher's input. rows: of the output."""

    placed: LocalPattern
    table: pa.Table
    rows: Projections

    def run(self, selection: Selection | None = None) -> pa.Table:
        """The output, or what is selected of it."""
        rows = self.rows if selection is None else selection.after(self.rows, self.placed.run.arguments)
        return rows(run(self.placed.planned.spec, self.table))


def plan_local(
    pattern: StatementPattern, table: pa.Table, given: Given, options: Options, arguments: Arguments = NO_ARGUMENTS
) -> LocalPlan:
    query, language = pattern.query, pattern.language
    check_local(options, [language])
    events = _events(pattern, to_spark_types(table), given, arguments)
    how = options.run(1, arguments)
    plan = language.bind(query, events.input(query, how), given, how)
    language.warn_of_rows(query, given, rows_of_table(events.table))
    table = Derivation.compile(plan.derived, events.table.schema, arguments)(events.table)
    spec = matcher_spec(plan, table.schema)
    rows = Projections((Projection.of(plan.result, spec.output_schema, arguments),))
    return LocalPlan(LocalPattern(query, (events,), InProcessRun(plan, spec, table.num_rows), how), table, rows)


def _events(pattern: StatementPattern, table: pa.Table, given: Given, arguments: Arguments) -> LocalEvents:
    return LocalEvents(table, local_schema(table.schema, pattern.source, arguments), given, pattern.names)


def check_local(options: Options, languages: Collection[Language[Any]]) -> None:
    """Check that options have a meaning here, for patterns of these languages."""
    check_use(options, languages)
    check_streams(options, [])
    refuse_options(options, dict.fromkeys(("shards", "shard_bytes", "slices"), "is for Spark; this runs in process"))


def local_schema(schema: pa.Schema, source: Source, arguments: Arguments, utc: bool = True) -> InputSchema:
    """The columns of a table, and the types of expressions over them that can be evaluated here. utc: are times of day
    those of UTC? Otherwise they need Spark."""
    lower = [name.lower() for name in schema.names]
    twice = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        hint = "Rename one of them."
        raise source.error(EpisodeAnalysisError, f"The table has two columns named {twice}.", hint=hint)

    def type_of(sql: str) -> str:
        return spark_name(Projection.compile([("", ScalarColumn.of(sql))], schema, (), arguments, utc).schema.types[0])

    columns = {field.name: spark_name(field.type) for field in schema}
    return InputSchema(columns, type_of, utc=utc, arguments=arguments)


def _run_windows(bound: BoundStatement, tables: Mapping[str, Any], options: Options) -> Any:
    """One SELECT with row patterns in windows: each window adds columns to the rows."""
    select, events, selection = bound.selected_windows(IN_PROCESS)
    name = _given_name(bound, events, tables)
    table = held_table(name, tables[name])
    for window in select.windows:
        pattern = StatementPattern(window, window.source.span, events)
        table = plan_local(pattern, table, Given(), options, bound.arguments).run()
    return like(tables[name], selection.projection(table.schema, bound.arguments)(table))


def _run_pair(bound: BoundStatement, tables: Mapping[str, Any], options: Options, function: str) -> Any:
    pair, selection = bound.selected_pair(IN_PROCESS)
    first = _name_of_table(bound, pair.in_order[0][1], tables)
    check_statement_tables(function, tables, bound.statement.tokens)
    return like(tables[first], _plan_pair(bound, pair, tables, options).run(selection))


def _plan_pair(bound: BoundStatement, pair: StatementPair, tables: Mapping[str, Any], options: Options) -> LocalPlan:
    patterns = (pair.live, pair.archive)
    names = [_name_of_table(bound, pattern, tables) for pattern in patterns]
    held = {id(tables[name]): held_table(name, tables[name]) for name in names}
    live, archive = (held[id(tables[name])] for name in names)
    return plan_pair_local(pair.query, patterns, (live, archive), (Given(), Given()), options, bound.arguments)


def plan_pair_local(
    query: Correlation,
    patterns: tuple[StatementPattern, StatementPattern],
    tables: tuple[pa.Table, pa.Table],
    given: tuple[Given, Given],
    options: Options,
    arguments: Arguments,
) -> LocalPlan:
    """Plan a correlation of two patterns, first the live one, each over its table."""
    check_local(options, [*(pattern.language for pattern in patterns), CORRELATIONS])
    one_table = tables[0] is tables[1]
    live_table = to_spark_types(tables[0])
    live = _events(patterns[0], live_table, given[0], arguments)
    archive = _events(patterns[1], live_table if one_table else to_spark_types(tables[1]), given[1], arguments)
    how = options.run(1, arguments)
    inputs = (live.input(query.live, how), archive.input(query.archive, how))
    plan = CORRELATIONS.correlate(query, inputs, given, how, one_table)
    plan.check_buffer()
    for pattern, events in zip(patterns, (live, archive), strict=True):
        pattern.language.warn_of_rows(pattern.query, events.given, rows_of_table(events.table))
    together = _joint_events(plan, [live.table, archive.table], arguments)
    spec = matcher_spec(plan, together.schema)
    rows = Projections((pair_projection(plan, spec.output_schema, arguments),))
    placed = LocalPattern(query, (live, archive), InProcessRun(plan, spec, together.num_rows), how)
    return LocalPlan(placed, together, rows)


def _joint_events(bound: PairPlan, tables: list[pa.Table], arguments: Arguments) -> pa.Table:
    """The events of both patterns as one table."""
    if bound.shared:
        return _compute(tables[0], bound.inputs.selections, arguments)
    parts = []
    for table, selections, side in zip(tables, bound.selections, (LIVE_ROW, ARCHIVE_ROW), strict=True):
        own = _compute(table, selections, arguments)
        parts.append(own.append_column(SIDE_COLUMN, pa.array([side] * own.num_rows, pa.int8())))
    return pa.concat_tables(parts, promote_options="default")


def _compute(table: pa.Table, selections: Sequence[tuple[str, str]], arguments: Arguments) -> pa.Table:
    columns = [(name, ScalarColumn.of(sql)) for sql, name in selections]
    return Projection.compile(columns, table.schema, (), arguments)(table)


def pair_projection(bound: PairPlan, schema: pa.Schema, arguments: Arguments, utc: bool = True) -> Projection:
    """The columns of both patterns' outputs from those of their matchers, which have this schema."""
    columns: list[tuple[str, Value]] = []
    conditions: list[ScalarColumn] = []
    patterns: tuple[tuple[str, PatternPlan], ...] = ((LIVE_PREFIX, bound.live), (ARCHIVE_PREFIX, bound.archive))
    for prefix, pattern in patterns:
        result = pattern.result
        columns += [(f"{prefix}{one.name}", _with_prefix(result.scalar_column(one), prefix)) for one in result.outputs]
        conditions += [_with_prefix(result.scalar_column(condition), prefix) for condition in result.conditions]
    columns += [(name, CopiedColumn(name)) for name in (MATCH_START, MATCH_END)]
    return Projection.compile(columns, schema, conditions, arguments, utc)


def _with_prefix(value: ScalarColumn, prefix: str) -> ScalarColumn:
    """An expression over the columns of one side."""

    def rename(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        renamed = node.copy()
        first = renamed.parts[0]
        first.replace(exp.to_identifier(f"{prefix}{first.name}", quoted=True))
        return renamed

    return value if value.tree is None else replace(value, tree=value.tree.transform(rename))
