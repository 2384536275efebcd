"""Two patterns that RECENCY correlates, in process: `SELECT columns FROM … , … WHERE … AND RECENCY = …`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from episode.errors import EpisodeAnalysisError
from episode.lang.correlation.syntax import Correlation
from episode.lang.lexer import tokenize
from episode.lang.source import Source
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import Span
from episode.matchers.bound import BoundPattern
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.matchers.running import run
from episode.matchers.scalars import NeedsSpark, Scalars
from episode.matchers.spark_types import retyped, spark_name
from episode.plan.compilable import Mistake
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START
from episode.queries.class_names import rows_of_table
from episode.queries.language import Given, Input
from episode.queries.languages import LANGUAGES, language_of
from episode.queries.languages.correlation import CorrelatedPatterns, Correlations
from episode.queries.local import Arguments, LocalQuery, check_local, local_schema, needs_spark, tree_of
from episode.queries.options import Options


@dataclass(frozen=True)
class LocalTable:
    """The events of a pattern. names: of their table."""

    table: pa.Table
    names: tuple[str, ...] = ()


def run_pairs(
    query: Correlation, live: LocalTable, archive: LocalTable, options: Options, arguments: Arguments
) -> pa.Table:
    """The pairs of matches: columns of either pattern with its prefix, and the times of the pair."""
    correlations = LANGUAGES[Correlation]
    assert isinstance(correlations, Correlations)
    check_local(options, [language_of(query.live), language_of(query.archive), correlations])
    one_table = live.table is archive.table
    tables = [retyped(one.table) for one in (live, archive)]
    inputs = []
    for pattern, table, one in zip((query.live, query.archive), tables, (live, archive), strict=True):
        schema = local_schema(table, language_of(pattern).source(pattern), arguments)
        inputs.append(Input(schema, one.names))
    bound = correlations.correlate(
        query, (inputs[0], inputs[1]), (Given(), Given()), options.run(1, arguments), one_table
    )
    bound.check_buffer()
    for pattern, table in zip((query.live, query.archive), tables, strict=True):
        language_of(pattern).warn_of_rows(pattern, Given(), rows_of_table(table))
    events = _events(bound, tables, arguments)
    spec = bound.spec(events.schema)
    finished_pairs(bound, spec.output_schema.empty_table(), arguments)  # what needs Spark is refused here
    return finished_pairs(bound, run(spec, events), arguments)


def _events(bound: CorrelatedPatterns, tables: list[pa.Table], arguments: Arguments) -> pa.Table:
    """The events of both patterns as one table."""
    if bound.shared:
        return _selected(tables[0], bound.inputs.selections, arguments)
    parts = []
    for table, selections, side in zip(tables, bound.selections, (LIVE_ROW, ARCHIVE_ROW), strict=True):
        own = _selected(table, selections, arguments)
        parts.append(own.append_column(SIDE_COLUMN, pa.array([side] * own.num_rows, pa.int8())))
    return pa.concat_tables(parts, promote_options="default")


def _selected(table: pa.Table, selections: Sequence[tuple[str, str]], arguments: Arguments) -> pa.Table:
    scalars = Scalars(table, arguments=arguments)
    columns = [scalars.evaluate(tree_of(sql)) for sql, _ in selections]
    return pa.Table.from_arrays(columns, names=[name for _, name in selections])


def finished_pairs(bound: CorrelatedPatterns, matched: pa.Table, arguments: Arguments) -> pa.Table:
    """The columns of both patterns' outputs in place of those of their matchers."""
    matched = retyped(matched)
    columns: list[tuple[str, Any]] = []
    holds: list[Any] = []
    patterns: tuple[tuple[str, BoundPattern], ...] = ((LIVE_PREFIX, bound.live), (ARCHIVE_PREFIX, bound.archive))
    for prefix, pattern in patterns:
        own = [name for name in matched.column_names if name.startswith(prefix)]
        table = matched.select(own).rename_columns([name.removeprefix(prefix) for name in own])
        found, kept = LocalQuery(pattern, arguments).values(table)
        columns += [(f"{prefix}{name}", column) for name, column in found]
        holds += kept
    columns += [(name, matched.column(name)) for name in (MATCH_START, MATCH_END)]
    table = pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])
    return table.filter(reduce(pc.and_, holds)) if holds else table


# ---- the columns and the condition around them -----------------------------------------------------------------


@dataclass(frozen=True)
class PairNames:
    """What names mean over the pairs. tables: in the order in which they stand in FROM: the names that may stand before
    columns of each, and by lower-case name its columns, with the columns of the pairs that they are."""

    source: Source
    tables: tuple[tuple[frozenset[str], dict[str, tuple[str, str]]], ...]
    arguments: Arguments

    def selected(self, items: Sequence[exp.Expression], pairs: pa.Table, span: Span) -> pa.Table:
        """SELECT's items over the pairs."""
        columns: list[tuple[str, Any]] = []
        for item in items:
            if isinstance(item, exp.Star):
                columns += [(name, pairs.column(column)) for name, column in self.all_columns(None)]
            elif isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
                columns += [(name, pairs.column(column)) for name, column in self.all_columns(item.table)]
            else:
                tree = item.this if isinstance(item, exp.Alias) else item
                name = item.alias or (tree.parts[-1].name if isinstance(tree, exp.Column) else tree.sql("spark"))
                columns.append((name, self.value(tree, pairs, span)))
        return pa.Table.from_arrays([column for _, column in columns], names=[name for name, _ in columns])

    def trees(self, items: Sequence[exp.Expression], span: Span) -> list[tuple[str, exp.Expression]]:
        """SELECT's items as expressions over the columns of the pairs."""
        found: list[tuple[str, exp.Expression]] = []
        for item in items:
            star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            if isinstance(item, exp.Star) or star:
                columns = self.all_columns(item.table if star else None)
                found += [(name, exp.column(exp.to_identifier(column, quoted=True))) for name, column in columns]
            else:
                tree = item.this if isinstance(item, exp.Alias) else item
                name = item.alias or (tree.parts[-1].name if isinstance(tree, exp.Column) else tree.sql("spark"))
                found.append((name, self.meant(tree, span)))
        return found

    def meant(self, tree: exp.Expression, span: Span) -> exp.Expression:
        """An expression of the statement over the columns of the pairs."""
        return tree.transform(lambda node: self._meant(node, span))

    def all_columns(self, table: str | None) -> list[tuple[str, str]]:
        """(name, column of the pairs) that `*` or `table.*` means."""
        found = [columns for names, columns in self.tables if table is None or table.lower() in names]
        return [pair for columns in found for pair in columns.values()]

    def value(self, tree: exp.Expression, pairs: pa.Table, span: Span) -> Any:
        """An expression over the pairs."""
        try:
            return Scalars(pairs, arguments=self.arguments).evaluate(self.meant(tree, span))
        except (NeedsSpark, Unreadable):
            raise needs_spark(tree.sql("spark"), self.source, span) from None
        except Mistake as error:
            raise self.source.error(EpisodeAnalysisError, error.message, span, error.hint) from None

    def condition(self, span: Span, pairs: pa.Table) -> Any:
        """Where a condition of the statement holds."""
        value = self.value(self.condition_tree(span), pairs, span)
        if not pa.types.is_boolean(value.type) and not pa.types.is_null(value.type):
            message = f"A condition must be true or false, but this is of type {spark_name(value.type)}."
            raise self.source.error(EpisodeAnalysisError, message, span, "Compare it with something: x > 0.")
        return value.cast(pa.bool_()).fill_null(False)

    def condition_tree(self, span: Span) -> exp.Expression:
        """A condition of the statement."""
        text = self.source.written(span)
        try:
            return read_expression(text, tokenize(text)[:-1])
        except Unreadable:
            raise needs_spark(text, self.source, span) from None

    def _meant(self, node: exp.Expression, span: Span) -> exp.Expression:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        parts = [part.name for part in node.parts]
        named = [columns for names, columns in self.tables if len(parts) > 1 and parts[0].lower() in names]
        at = 1 if named else 0
        name = parts[at].lower()
        found = [columns for columns in named or [columns for _, columns in self.tables] if name in columns]
        if not found and not named and name in (MATCH_START, MATCH_END):
            column = name
        elif len(found) == 1:
            column = found[0][name][1]
        elif found:
            message = f"{parts[at]} is a column of both patterns."
            hint = "Write the name of one of them before it."
            raise self.source.error(EpisodeAnalysisError, message, span, hint)
        else:
            message = f"There is no column {parts[at]} in the output of the patterns."
            known = ", ".join(shown for shown, _ in self.all_columns(None))
            raise self.source.error(EpisodeAnalysisError, message, span, f"There are: {known}.")
        result: exp.Expression = exp.column(exp.to_identifier(column, quoted=True))
        for part in node.parts[at + 1 :]:
            result = exp.Dot(this=result, expression=part.copy())
        return result


def pair_names(
    source: Source,
    aliases: Sequence[tuple[Sequence[str], Sequence[str]]],
    prefixes: Sequence[str],
    pairs: pa.Table,
    arguments: Mapping[str, object],
) -> PairNames:
    """aliases: for each table of FROM, its names, and new names of its columns if given. prefixes: of its columns."""
    tables = []
    for (names, renamed), prefix in zip(aliases, prefixes, strict=True):
        own = [name for name in pairs.column_names if name.startswith(prefix)]
        shown = list(renamed) or [name.removeprefix(prefix) for name in own]
        columns = {new.lower(): (new, old) for new, old in zip(shown, own, strict=False)}
        tables.append((frozenset(name.lower() for name in names), columns))
    return PairNames(source, tuple(tables), arguments)
