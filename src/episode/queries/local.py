"""Patterns over tables in process: the plans and matchers of Spark's queries, without Spark.

A statement is one pattern, two that RECENCY correlates, or row patterns in windows, with a list of columns around them.
What Spark computes before and after matching, a `Projection` computes here; what it does not know is refused before
anything is matched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.syntax import Source
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import CopiedColumn, Derivation, Projection, Projections, Value
from episode.matchers.running import run
from episode.matchers.spark_types import spark_name, to_spark_types
from episode.plan.compilable import NO_ARGUMENTS, NeedsSpark
from episode.plan.correlation.pairs import PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START, ScalarColumn
from episode.plan.parameters import Arguments
from episode.plan.pattern import PatternPlan
from episode.plan.schema import InputSchema
from episode.queries.bound_statement import (
    BoundStatement,
    EventsTable,
    OnePattern,
    StatementPattern,
    bind_statement,
    parse_pattern,
)
from episode.queries.keywords import check_statement_tables
from episode.queries.language import Given, Input, Language
from episode.queries.languages.class_names import rows_of_table
from episode.queries.languages.correlation import CORRELATIONS
from episode.queries.options import Options
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


# ---- statements --------------------------------------------------------------------------------------


def sql_local(text: str, tables: Mapping[str, Any], options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Run a statement over the tables."""
    bound = bind_statement(text, arguments)
    with refusing():
        if bound.pairs:
            return _run_pair(bound, tables, options)
        if bound.statement.windowed:
            return _run_windows(bound, tables, options)
        pattern, selection = bound.selected_pattern(IN_PROCESS)
        name = _name_of_table(bound, pattern, tables)
        check_statement_tables("sql_local", tables, bound.statement.tokens)
        table = held_table(name, tables[name])
        return like(tables[name], run_local(pattern, table, Given(), options, arguments, selection))


def match_local(events: Any, text: str, given: Given, options: Options, arguments: Arguments = NO_ARGUMENTS) -> Any:
    """Find an event pattern or a situation pattern in a table."""
    pattern = parse_pattern(text, given, arguments)
    pattern.language.check_arguments(given)
    pattern.language.check_given_events(pattern.query)
    if given.detect is not None:
        options = replace(options, detect=given.detect)
    with refusing():
        return like(events, run_local(pattern, held_table("events", events), given, options, arguments))


def _name_of_table(bound: BoundStatement, pattern: StatementPattern, tables: Mapping[str, Any]) -> str:
    if pattern.table is None:
        raise pattern.source.error(
            EpisodeUnsupportedError,
            "In process, a pattern is over one table.",
            hint="Name the table of all events: FROM events …. With a table per class, use episode.sql.",
        )
    return _given_name(bound, pattern.table, tables)


def _given_name(bound: BoundStatement, table: EventsTable, tables: Mapping[str, Any]) -> str:
    """The name of a table that is given by keyword."""
    if table.name is None:
        raise IN_PROCESS.refuse(bound.source, "A pattern over a query", table.span)
    if table.name not in tables:
        hint = f"Give it by keyword: {table.name}=…. Given: {', '.join(tables) or 'none'}."
        raise bound.source.error(EpisodeAnalysisError, f"There is no table {table.name}.", table.span, hint)
    return table.name


# ---- one pattern -------------------------------------------------------------------------------------


def run_local(
    pattern: StatementPattern,
    table: pa.Table,
    given: Given,
    options: Options,
    arguments: Arguments = NO_ARGUMENTS,
    selection: Selection | None = None,
) -> pa.Table:
    """The output of a pattern over a table. arguments: the values of parameters. selection: of the output."""
    query, language = pattern.query, pattern.language
    check_local(options, [language])
    table = to_spark_types(table)
    schema = local_schema(table.schema, pattern.source, arguments)
    plan = language.bind(query, Input(schema, pattern.names), given, options.run(1, arguments))
    language.warn_of_rows(query, given, rows_of_table(table))
    table = Derivation.compile(plan.derived, table.schema, arguments)(table)
    spec = matcher_spec(plan, table.schema)
    finish = Projections((Projection.of(plan.result, spec.output_schema, arguments),))
    if selection is not None:
        finish = selection.after(finish, arguments)
    return finish(run(spec, table))


def check_local(options: Options, languages: Collection[Language[Any]]) -> None:
    """Check that options have a meaning here, for patterns of these languages."""
    options.check_use(languages)
    options.check_streams([])
    for name in ("shards", "shard_bytes", "slices"):
        if isinstance(getattr(options, name), int):
            raise EpisodeAnalysisError(f"Options({name}={getattr(options, name)}) is for Spark; this runs in process.")


def local_schema(schema: pa.Schema, source: Source, arguments: Arguments, utc: bool = True) -> InputSchema:
    """The columns of a table, and the types of expressions over them that can be evaluated here. utc: are times of day
    those of UTC? Otherwise they need Spark."""
    lower = [name.lower() for name in schema.names]
    twice = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise source.error(
            EpisodeAnalysisError, f"The table has two columns named {twice}.", hint="Rename one of them."
        )

    def type_of(sql: str) -> str:
        return spark_name(Projection.compile([("", ScalarColumn.of(sql))], schema, (), arguments, utc).schema.types[0])

    columns = {field.name: spark_name(field.type) for field in schema}
    return InputSchema(columns, type_of, utc=utc, arguments=arguments)


# ---- row patterns in windows -------------------------------------------------------------------------


def _run_windows(bound: BoundStatement, tables: Mapping[str, Any], options: Options) -> Any:
    """One SELECT with row patterns in windows: each window adds columns to the rows."""
    select, events, selection = bound.selected_windows(IN_PROCESS)
    name = _given_name(bound, events, tables)
    table = held_table(name, tables[name])
    for window in select.windows:
        pattern = StatementPattern(window, window.source.span, events)
        table = run_local(pattern, table, Given(), options, bound.arguments)
    return like(tables[name], selection.projection(table.schema, bound.arguments)(table))


# ---- two patterns that RECENCY correlates ------------------------------------------------------------


def _run_pair(bound: BoundStatement, tables: Mapping[str, Any], options: Options) -> Any:
    pair, selection = bound.selected_pair(IN_PROCESS)
    names = [_name_of_table(bound, pattern, tables) for _, pattern in pair.in_order]
    check_statement_tables("sql_local", tables, bound.statement.tokens)
    live, archive = names if pair.live_first else names[::-1]
    patterns = (pair.live, pair.archive)
    check_local(options, [pair.live.language, pair.archive.language, CORRELATIONS])
    one_table = tables[live] is tables[archive]
    events = [to_spark_types(held_table(live, tables[live]))]
    events.append(events[0] if one_table else to_spark_types(held_table(archive, tables[archive])))
    arguments = bound.arguments
    inputs = [
        Input(local_schema(table.schema, pattern.source, arguments), pattern.names)
        for pattern, table in zip(patterns, events, strict=True)
    ]
    plan = CORRELATIONS.correlate(
        pair.query, (inputs[0], inputs[1]), (Given(), Given()), options.run(1, arguments), one_table
    )
    plan.check_buffer()
    for pattern, table in zip(patterns, events, strict=True):
        pattern.language.warn_of_rows(pattern.query, Given(), rows_of_table(table))
    together = _joint_events(plan, events, arguments)
    spec = matcher_spec(plan, together.schema)
    pairs = Projections((pair_projection(plan, spec.output_schema, arguments),))
    return like(tables[names[0]], selection.after(pairs, arguments)(run(spec, together)))


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
