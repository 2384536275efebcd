"""Two patterns that RECENCY correlates, in process: `SELECT columns FROM … , … WHERE … AND RECENCY = …`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeAnalysisError
from episode.lang.correlation.syntax import Correlation
from episode.lang.syntax import Source, Span
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import Copied, Projection, Projections, Value, value_of
from episode.matchers.running import run
from episode.matchers.spark_types import to_spark_types
from episode.plan.correlation.pairs import PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START, Computed
from episode.plan.pattern import PatternPlan
from episode.queries.class_names import rows_of_table
from episode.queries.language import Given, Input
from episode.queries.languages import LANGUAGES, language_of
from episode.queries.languages.correlation import Correlations
from episode.queries.local import Arguments, check_local, local_schema
from episode.queries.options import Options


@dataclass(frozen=True)
class LocalTable:
    """The events of a pattern. names: of their table."""

    table: pa.Table
    names: tuple[str, ...] = ()


def run_pairs(
    query: Correlation,
    live: LocalTable,
    archive: LocalTable,
    options: Options,
    arguments: Arguments,
    select: Callable[[pa.Schema], Projection],
) -> pa.Table:
    """What is selected of the pairs of matches: of columns of either pattern with its prefix, and times of the pair."""
    correlations = LANGUAGES[Correlation]
    assert isinstance(correlations, Correlations)
    check_local(options, [language_of(query.live), language_of(query.archive), correlations])
    one_table = live.table is archive.table
    tables = [to_spark_types(one.table) for one in (live, archive)]
    inputs = []
    for pattern, table, one in zip((query.live, query.archive), tables, (live, archive), strict=True):
        schema = local_schema(table.schema, language_of(pattern).source(pattern), arguments)
        inputs.append(Input(schema, one.names))
    bound = correlations.correlate(
        query, (inputs[0], inputs[1]), (Given(), Given()), options.run(1, arguments), one_table
    )
    bound.check_buffer()
    for pattern, table in zip((query.live, query.archive), tables, strict=True):
        language_of(pattern).warn_of_rows(pattern, Given(), rows_of_table(table))
    events = _events(bound, tables, arguments)
    spec = matcher_spec(bound, events.schema)
    pairs = pair_projection(bound, spec.output_schema, arguments)
    finish = Projections((pairs, select(pairs.schema)))
    return finish(run(spec, events))


def _events(bound: PairPlan, tables: list[pa.Table], arguments: Arguments) -> pa.Table:
    """The events of both patterns as one table."""
    if bound.shared:
        return _selected(tables[0], bound.inputs.selections, arguments)
    parts = []
    for table, selections, side in zip(tables, bound.selections, (LIVE_ROW, ARCHIVE_ROW), strict=True):
        own = _selected(table, selections, arguments)
        parts.append(own.append_column(SIDE_COLUMN, pa.array([side] * own.num_rows, pa.int8())))
    return pa.concat_tables(parts, promote_options="default")


def _selected(table: pa.Table, selections: Sequence[tuple[str, str]], arguments: Arguments) -> pa.Table:
    columns = [(name, Computed.of(sql)) for sql, name in selections]
    return Projection.compile(columns, table.schema, (), arguments)(table)


def pair_projection(bound: PairPlan, schema: pa.Schema, arguments: Arguments, utc: bool = True) -> Projection:
    """The columns of both patterns' outputs from those of their matchers, which have this schema."""
    columns: list[tuple[str, Value]] = []
    conditions: list[Computed] = []
    patterns: tuple[tuple[str, PatternPlan], ...] = ((LIVE_PREFIX, bound.live), (ARCHIVE_PREFIX, bound.archive))
    for prefix, pattern in patterns:
        result = pattern.result
        columns += [(f"{prefix}{one.name}", _prefixed(result.computed(one), prefix)) for one in result.outputs]
        conditions += [_prefixed(result.computed(condition), prefix) for condition in result.conditions]
    columns += [(name, Copied(name)) for name in (MATCH_START, MATCH_END)]
    return Projection.compile(columns, schema, conditions, arguments, utc)


def _prefixed(value: Computed, prefix: str) -> Computed:
    """An expression over the columns of one side."""

    def meant(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Column):
            return node
        renamed = node.copy()
        first = renamed.parts[0]
        first.replace(exp.to_identifier(f"{prefix}{first.name}", quoted=True))
        return renamed

    return value if value.tree is None else replace(value, tree=value.tree.transform(meant))


# ---- the columns and the condition around them -----------------------------------------------------------------


@dataclass(frozen=True)
class PairNames:
    """What names mean over the pairs. tables: in the order in which they stand in FROM: the names that may stand before
    columns of each, and by lower-case name its columns, with the columns of the pairs that they are."""

    source: Source
    tables: tuple[tuple[frozenset[str], dict[str, tuple[str, str]]], ...]

    def projection(
        self,
        items: Sequence[exp.Expression],
        span: Span,
        conditions: Sequence[Span],
        schema: pa.Schema,
        arguments: Arguments,
        utc: bool = True,
    ) -> Projection:
        """SELECT's items over the pairs for which the conditions hold."""
        kept = [self._condition(condition) for condition in conditions]
        return Projection.compile(self.values(items, span), schema, kept, arguments, utc)

    def values(self, items: Sequence[exp.Expression], span: Span) -> list[tuple[str, Value]]:
        """SELECT's items over the columns of the pairs."""
        found: list[tuple[str, Value]] = []
        for item in items:
            star = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
            if isinstance(item, exp.Star) or star:
                columns = self.all_columns(item.table if star else None)
                found += [(name, Copied(column)) for name, column in columns]
            else:
                tree = item.this if isinstance(item, exp.Alias) else item
                found.append((name_of(item, tree), value_of(self._value(tree, span))))
        return found

    def all_columns(self, table: str | None) -> list[tuple[str, str]]:
        """(name, column of the pairs) that `*` or `table.*` means."""
        found = [columns for names, columns in self.tables if table is None or table.lower() in names]
        return [pair for columns in found for pair in columns.values()]

    def _value(self, tree: exp.Expression, span: Span) -> Computed:
        """An expression of the statement over the columns of the pairs."""
        meant = tree.transform(lambda node: self._meant(node, span))
        return Computed(meant, tree.sql("spark"), self.source, span)

    def _condition(self, span: Span) -> Computed:
        """A condition of the statement."""
        written = Computed.of(self.source.written(span), "", self.source, span)
        return written if written.tree is None else self._value(written.tree, span)

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


def name_of(item: exp.Expression, tree: exp.Expression) -> str:
    """The name of an item of SELECT, which is this tree."""
    return item.alias or (tree.parts[-1].name if isinstance(tree, exp.Column) else tree.sql("spark"))


def pair_names(
    source: Source,
    aliases: Sequence[tuple[Sequence[str], Sequence[str]]],
    prefixes: Sequence[str],
    names: Sequence[str],
) -> PairNames:
    """aliases: for each table of FROM, its names, and new names of its columns if given. prefixes: of its columns.
    names: of all columns of the pairs."""
    tables = []
    for (called, renamed), prefix in zip(aliases, prefixes, strict=True):
        own = [name for name in names if name.startswith(prefix)]
        shown = list(renamed) or [name.removeprefix(prefix) for name in own]
        columns = {new.lower(): (new, old) for new, old in zip(shown, own, strict=False)}
        tables.append((frozenset(name.lower() for name in called), columns))
    return PairNames(source, tuple(tables))
