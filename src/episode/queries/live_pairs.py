"""Two patterns that RECENCY correlates, as a live query: over one stream, a stream and its archive, or two streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from episode.errors import EpisodeUnsupportedError
from episode.lang.correlation.syntax import Correlation
from episode.lang.syntax import Source
from episode.lang.table_patterns import TableQuery
from episode.matchers.correlation.spec import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import Copied, NamedValues, Projection, Projections, Same, Value, value_of
from episode.plan.correlation.pairs import PairPlan
from episode.plan.correlation.plan import ARCHIVE_PREFIX, LIVE_PREFIX
from episode.plan.output import Computed
from episode.queries.language import Given, Input
from episode.queries.languages import LANGUAGES, language_of
from episode.queries.languages.correlation import Correlations, correlation_of
from episode.queries.live_plan import LivePlan, Matched, Read, Values
from episode.queries.local_pairs import pair_names, pair_projection
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
    streams, schema = planner.prepare(reads)
    pairs = pair_projection(bound, matcher_spec(bound, schema).output_schema, planner.arguments, planner.utc)
    named = [names, archive_names] if live_first else [archive_names, names]
    aliases = [
        ((table.alias,) if table.alias else own, table.columns)
        for table, own in zip(recency.tables, named, strict=True)
    ]
    prefixes = (LIVE_PREFIX, ARCHIVE_PREFIX) if live_first else (ARCHIVE_PREFIX, LIVE_PREFIX)
    meaning = pair_names(Source(statement.source), aliases, prefixes, pairs.schema.names)
    selected = meaning.projection(items, span, recency.conditions, pairs.schema, planner.arguments, planner.utc)
    finish = Projections((pairs, selected))
    matched = Matched(bound, reads, streams, schema, finish, query.source, query.duration.span)
    return _planned(planner, bound, matched, meaning.values(items, span))


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
        raise planner.over_query(pattern.input)
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    return planner.stream(pattern.name, pattern.input, archived=archived), names


def _reads(planner: Planner, bound: PairPlan, live: Declaration, archive: Declaration) -> tuple[Read, ...]:
    """The streams as one input: each row is an event of both patterns, or says of which."""
    if bound.shared:
        columns = _values(bound.inputs.selections)
        return (Read(live, planner.with_event_id(columns, live), _handed(columns)),)
    schemas = []
    for stream, selections in zip((live, archive), bound.selections, strict=True):
        own = _values(selections)
        schemas.append((own, Projection.compile(own, stream.schema, (), planner.arguments, planner.utc).schema))
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


def _values(selections: Sequence[tuple[str, str]]) -> Values:
    return tuple((name, value_of(Computed.of(sql))) for sql, name in selections)


def _handed(columns: tuple[tuple[str, Value], ...]) -> dict[str, str]:
    """Columns of a stream that are columns of the input as they are."""
    return {value.column: name for name, value in columns if isinstance(value, Copied)}


def _planned(planner: Planner, bound: PairPlan, matched: Matched, columns: NamedValues) -> LivePlan:
    """columns: of the result, over those of the pairs."""
    delays = bound.delays()
    plain = {name: value.column for name, value in columns if isinstance(value, Copied)}
    times = {name: delays[own] for name, own in plain.items() if own in delays}
    live = bound.live_side.partition_columns
    own_keys = {f"{LIVE_PREFIX}{name}" for name in bound.live_side.names if name.lower() in live}
    keys = tuple(name for name, own in plain.items() if own in own_keys)
    return planner.planned(matched, times, keys)
