"""Two patterns that RECENCY correlates, as a live query: over one stream, a stream and its archive, or two streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation
from episode.lang.source import Source
from episode.lang.syntax import Span
from episode.lang.table_patterns import TableQuery
from episode.live.computing import Columns, Computed, Copied, Same, Value, value_of
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import MATCH_END, MATCH_START
from episode.queries.language import Given, Input
from episode.queries.languages import LANGUAGES, language_of
from episode.queries.languages.correlation import CorrelatedPatterns, Correlations, correlation_of
from episode.queries.live_plan import LivePlan, Matched, Read
from episode.queries.local import needs_spark, tree_of
from episode.queries.local_pairs import finished_pairs, pair_names
from episode.queries.local_statement import AnyPattern, items_around
from episode.store.declaration import Declaration

if TYPE_CHECKING:
    from episode.queries.live import Planner


def plan_pairs(planner: Planner) -> LivePlan:
    """The statement's two patterns, whose pairs are the matches."""
    statement = planner.statement
    recency = statement.recencies[0]
    query, live_first = correlation_of(statement, recency)
    correlations = LANGUAGES[Correlation]
    assert isinstance(correlations, Correlations)
    planner.check_options([language_of(query.live), language_of(query.archive), correlations])
    items, span = items_around(statement, recency)
    patterns = [statement.pattern_at(table.span) for table in recency.tables]
    ordered = patterns if live_first else patterns[::-1]
    live_stream, names = _stream(planner, ordered[0])
    archive_stream, archive_names = _stream(planner, ordered[1], archived=True)
    inputs = []
    for pattern, stream, own in zip(
        (query.live, query.archive), (live_stream, archive_stream), (names, archive_names), strict=True
    ):
        inputs.append(Input(planner.columns_of(stream, language_of(pattern).source(pattern)), own))
    one = live_stream == archive_stream
    bound = correlations.correlate(query, (inputs[0], inputs[1]), (Given(), Given()), planner.run, one)
    bound.check_buffer()
    reads = _reads(planner, bound, live_stream, archive_stream)
    matched = _matched(planner, bound, reads, query.source, query.duration.span)
    spec = bound.spec(matched.schema)
    pairs = finished_pairs(bound, spec.output_schema.empty_table(), planner.arguments)  # what needs Spark is refused
    named = [names, archive_names] if live_first else [archive_names, names]
    aliases = [
        ((table.alias,) if table.alias else own, table.columns)
        for table, own in zip(recency.tables, named, strict=True)
    ]
    prefixes = (LIVE_PREFIX, ARCHIVE_PREFIX) if live_first else (ARCHIVE_PREFIX, LIVE_PREFIX)
    meaning = pair_names(Source(statement.source), aliases, prefixes, pairs, planner.arguments)
    for condition in recency.conditions:
        meaning.condition(condition, pairs)
    meaning.selected(items, pairs, span)
    trees = meaning.trees(items, span)
    conditions = tuple(meaning.meant(meaning.condition_tree(place), place) for place in recency.conditions)
    columns = tuple((name, value_of(tree)) for name, tree in trees)
    step = Columns(columns, conditions, dict(planner.arguments), planner.utc)
    return _planned(planner, bound, matched, step)


def _stream(planner: Planner, pattern: AnyPattern, archived: bool = False) -> tuple[Declaration, tuple[str, ...]]:
    """The stream of a pattern, and the names of its table. archived: the name of an archive is that of its stream, all
    of which is read."""
    if isinstance(pattern, TableQuery):
        found = language_of(pattern.query).table(pattern.query)
        if found is None:
            raise Source(planner.statement.source).error(
                EpisodeUnsupportedError,
                "A live query correlates patterns over one stream each.",
                pattern.span,
                "Name the stream of all events: FROM events …; or run it in micro-batches: episode.sql on the streams.",
            )
        name, span = planner.one_name(*found)
        return planner.stream(name, span, archived=archived), ()
    if not pattern.plain or pattern.name is None:
        raise needs_spark("A pattern over a query", Source(planner.statement.source), pattern.input)
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    return planner.stream(pattern.name, pattern.input, archived=archived), names


def _reads(planner: Planner, bound: CorrelatedPatterns, live: Declaration, archive: Declaration) -> tuple[Read, ...]:
    """The streams as one input: each row is an event of both patterns, or says of which."""
    if bound.shared:
        columns = tuple((name, value_of(tree_of(sql))) for sql, name in bound.inputs.selections)
        return (Read(live, planner.with_event_id(columns, live), _handed(columns)),)
    schemas = []
    for stream, selections in zip((live, archive), bound.selections, strict=True):
        own = tuple((name, value_of(tree_of(sql))) for sql, name in selections)
        table = Columns(own, (), dict(planner.arguments), planner.utc)(stream.schema.empty_table())
        schemas.append((own, table.schema))
    types: dict[str, pa.DataType] = {}
    for _, schema in schemas:
        for one in schema:
            types.setdefault(one.name, one.type)
    reads = []
    for stream, (own, _), side in zip((live, archive), schemas, (LIVE_ROW, ARCHIVE_ROW), strict=True):
        given: dict[str, Value] = dict(own)
        whole: list[tuple[str, Value]] = [
            (name, given[name] if name in given else Same(None, type_)) for name, type_ in types.items()
        ]
        whole.append((SIDE_COLUMN, Same(side, pa.int8())))
        reads.append(Read(stream, tuple(whole), _handed(own)))
    return tuple(reads)


def _handed(columns: tuple[tuple[str, Value], ...]) -> dict[str, str]:
    """Columns of a stream that are columns of the input as they are."""
    return {value.column: name for name, value in columns if isinstance(value, Copied)}


def _matched(
    planner: Planner, bound: CorrelatedPatterns, reads: tuple[Read, ...], source: Source, span: Span
) -> Matched:
    return Matched(bound, reads, planner.joint_schema(reads), (_sides(planner, bound),), source, span)


def _sides(planner: Planner, bound: CorrelatedPatterns) -> Columns:
    """The columns of both patterns' outputs in place of those of their matchers."""
    columns: list[tuple[str, Value]] = []
    conditions: list[exp.Expression] = []
    for prefix, pattern in ((LIVE_PREFIX, bound.live), (ARCHIVE_PREFIX, bound.archive)):
        own = planner.measures(pattern)
        columns += [(f"{prefix}{name}", _prefixed(value, prefix)) for name, value in own.columns]
        conditions += [_renamed(condition, prefix) for condition in own.conditions]
    columns += [(name, Copied(name)) for name in (MATCH_START, MATCH_END)]
    return Columns(tuple(columns), tuple(conditions), dict(planner.arguments), planner.utc)


def _prefixed(value: Value, prefix: str) -> Value:
    if isinstance(value, Copied):
        return Copied(f"{prefix}{value.column}", value.type)
    return Computed(_renamed(value.tree, prefix)) if isinstance(value, Computed) else value


def _renamed(tree: exp.Expression, prefix: str) -> exp.Expression:
    """An expression over the columns of one side."""

    def meant(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column):
            renamed = node.copy()
            first = renamed.parts[0]
            first.replace(exp.to_identifier(f"{prefix}{first.name}", quoted=True))
            return renamed
        return node

    return tree.transform(meant)


def _planned(planner: Planner, bound: CorrelatedPatterns, matched: Matched, step: Columns) -> LivePlan:
    """With SELECT's list around the pairs."""
    delays = bound.delays()
    plain = {name: value.column for name, value in step.columns if isinstance(value, Copied)}
    times = {name: delays[own] for name, own in plain.items() if own in delays}
    live = bound.live_side.partition_columns
    own_keys = {f"{LIVE_PREFIX}{name}" for name in bound.live_side.names if name.lower() in live}
    keys = tuple(name for name, own in plain.items() if own in own_keys)
    return planner.planned(replace(matched, steps=(*matched.steps, step)), times, keys)
