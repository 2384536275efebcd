"""A statement planned for live tasks: which streams it reads, what is matched, and how its columns are finished.

Live tasks have no Spark on an event's way: scalar expressions are evaluated as in process (`queries.local`), and what
needs Spark is refused here, with its place. Every key must stay in the lanes of one task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.syntax import Source, Span
from episode.live.inputs import StreamRead
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import ConstantColumn, CopiedColumn, Projection, Projections, Value, value_of
from episode.matchers.protocol import StateLimit
from episode.matchers.quarantine import check_skips_keys
from episode.matchers.state import fingerprint, one_line
from episode.matchers.stream_shard import ShardSettings
from episode.plan.compilable import NO_ARGUMENTS, NeedsSpark
from episode.plan.correlation.pairs import ARCHIVE_ROW, LIVE_ROW, SIDE_COLUMN, PairPlan
from episode.plan.correlation.plan import LIVE_PREFIX
from episode.plan.options import Options
from episode.plan.output import ScalarColumn
from episode.plan.parameters import Arguments, arguments_text
from episode.plan.pattern import PatternPlan
from episode.plan.schema import CLASS_COLUMN, InputSchema
from episode.queries.bound_statement import BoundStatement, EventsTable, OnePattern, StatementPattern, bind_statement
from episode.queries.language import Given, Input, Language
from episode.queries.languages.correlation import CORRELATIONS
from episode.queries.live_plan import LivePlan, Matched, Read, Values, check_time, end_of, lanes_of, partition_columns
from episode.queries.local import local_schema, pair_projection, refusing
from episode.queries.options import check_use, refuse_options
from episode.store.catalog import Catalog
from episode.store.declaration import Declaration, arrow_type

HINTS = {
    NeedsSpark.EXPRESSION: "Live tasks evaluate expressions without Spark. Run it in micro-batches: episode.sql on the "
    "stream.",
    NeedsSpark.ZONE: "Days are those of the session's time zone, which only Spark knows. Set "
    "spark.sql.session.timeZone to UTC, or run it in micro-batches: episode.sql on the stream.",
}
"""Advice about expressions that need Spark, by the reason."""
LIVE_QUERY = OnePattern(
    "a live query",
    "needs Spark",
    "A live query is SELECT columns FROM stream MATCH_RECOGNIZE (…), EVENTS (…) or SITUATIONS (…), or one pattern. Run "
    "it in micro-batches: episode.sql on the stream.",
)
_REFUSED = {
    "shards": "sets how keys are spread over shards; a live query has tasks",
    "shard_bytes": "is for the shards of a table",
    "slices": "is for large keys of a table",
    "watermark": "is for streams that declare no DELAY; those of a live query do",
    "counters": "is for micro-batches; a live query has lastProgress",
    "time_unit": "is for the clock of micro-batches; a live query counts as its event time does",
}
"""Options that mean nothing here, and why."""


def plan_live(
    text: str, catalog: Catalog, options: Options, arguments: Arguments = NO_ARGUMENTS, utc: bool = True
) -> LivePlan:
    bound = bind_statement(text, arguments)
    with refusing(HINTS):
        return Planner(bound, catalog, options, utc).plan()


def check_options(options: Options, languages: Sequence[Language[Any]]) -> None:
    refuse_options(options, _REFUSED)
    check_use(options, languages)


@dataclass
class Planner:
    bound: BoundStatement
    catalog: Catalog
    options: Options
    utc: bool

    @property
    def arguments(self) -> Arguments:
        return self.bound.arguments

    def plan(self) -> LivePlan:
        first = self.bound.statement.tokens[0]
        if self.bound.statement.streams is not None or first.upper == "INSERT":
            message = f"{first.text.upper()} is not a query that can run live."
            hint = "Give the query alone; into= sets where its matches go."
            raise self.bound.source.error(EpisodeAnalysisError, message, first.span, hint)
        if self.bound.pairs:
            return plan_pairs(self)
        pattern, selection = self.bound.selected_pattern(LIVE_QUERY)
        matched = self._pattern(pattern)
        bound: PatternPlan = matched.bound  # type: ignore[assignment]  # one pattern, not a pair
        names = matched.finish.schema.names
        plain = {name: name for name in names}
        if selection is not None:
            lower = {name.lower(): name for name in names}
            columns = selection.values(names)
            plain = {name: lower[value.column.lower()] for name, value in columns if isinstance(value, CopiedColumn)}
            matched = replace(matched, finish=selection.after(matched.finish, self.arguments, self.utc))
        return self.plan_matched(matched, plain, partition_columns(bound))

    def _pattern(self, pattern: StatementPattern) -> Matched:
        language, query, source = pattern.language, pattern.query, pattern.source
        check_options(self.options, [language])
        if pattern.table is not None:
            declaration = self.stream(pattern.table)
            events = self.columns_of(declaration, source)
            bound = language.bind(query, Input(events, pattern.names), Given(), self.run)
            own = {name: name for name, _ in declaration.columns}
            reads: tuple[Read, ...] = (Read(declaration, self._input(bound, list(own)), own),)
        else:
            bound, reads = self._classes(pattern)
        streams, schema = self.prepare(reads)
        finish = Projection.of(bound.result, matcher_spec(bound, schema).output_schema, self.arguments, self.utc)
        return Matched(bound, reads, streams, schema, Projections((finish,)), source, source.span.beginning)

    def _classes(self, pattern: StatementPattern) -> tuple[PatternPlan, tuple[Read, ...]]:
        """A stream per class, as one input."""
        language, query, source = pattern.language, pattern.query, pattern.source
        if not pattern.classes:
            raise pattern.missing_events("Write FROM stream before the pattern.")
        streams = {name: self.stream(EventsTable(place, name, name)) for name, place in pattern.classes.items()}
        schemas = {name: self.columns_of(one, source) for name, one in streams.items()}
        tables = language.unite(query, schemas, Given())
        types: dict[str, str] = {CLASS_COLUMN: "int"}
        for name, one in tables.items():
            for column, united in one.columns.items():
                types.setdefault(united, one.widened.get(column, schemas[name].columns[column]))
        united = pa.schema([(name, arrow_type(type_)) for name, type_ in types.items()])
        times = {tables[name].columns[stream.time] for name, stream in streams.items()}
        united_schema = replace(
            local_schema(united, source, self.arguments, self.utc), time=times.pop() if len(times) == 1 else None
        )
        bound = language.bind(query, Input(united_schema, (), tables), Given(), self.run)
        reads = []
        for name, stream in streams.items():
            own = {united: column for column, united in tables[name].columns.items()}
            values: dict[str, Value] = {CLASS_COLUMN: ConstantColumn(tables[name].number, pa.int32())}
            for column, type_ in types.items():
                if column in own:
                    widened = own[column] in tables[name].widened
                    values[column] = CopiedColumn(own[column], arrow_type(type_) if widened else None)
                elif column != CLASS_COLUMN:
                    values[column] = ConstantColumn(None, arrow_type(type_))
            columns = self._input(bound, list(types))
            reads.append(Read(stream, columns, dict(tables[name].columns), tuple(values.items())))
        return bound, tuple(reads)

    def _input(self, bound: PatternPlan | PairPlan, own: Sequence[str]) -> Values:
        derived = {name: ScalarColumn.of(sql) for sql, name in bound.derived}
        columns = tuple((name, derived.get(name) or CopiedColumn(name)) for name in bound.input_columns)
        return self.with_event_id(columns, own)

    def with_event_id(self, columns: Values, own: Sequence[str]) -> Values:
        """Add the column by which repeated events are recognised. own: columns of the events."""
        event_id = self.options.stream.event_id
        if event_id is None or event_id in dict(columns):
            return columns
        if event_id not in own:
            hint = f"Its columns: {', '.join(own)}."
            raise EpisodeAnalysisError(
                f"StreamOptions(event_id={event_id!r}): the stream has no such column.", hint=hint
            )
        return (*columns, (event_id, CopiedColumn(event_id)))

    def plan_matched(self, matched: Matched, plain: Mapping[str, str], partition: Collection[str]) -> LivePlan:
        """plain: columns of the output that are columns of the pattern's, as they are. partition: which of those are
        partition columns."""
        bound, options = matched.bound, self.options.stream
        delays = bound.delays()
        times = {name: delays[own] for name, own in plain.items() if own in delays}
        keys = tuple(name for name, own in plain.items() if own in partition)
        limit = StateLimit.of(options)
        time = bound.event_time(limit is not None)
        check_time(matched, time)
        spec = matcher_spec(bound, matched.schema, limit)
        lanes, reason = lanes_of(matched, spec)
        output = self._output(matched)
        if options.skips_keys:
            check_skips_keys(spec)
        end = end_of(options.end, time, self.utc)
        settings = ShardSettings(end, options.event_id, options.late_path is not None, True, options.skips_keys)
        identity = fingerprint(
            spec.fingerprint,
            one_line(self.bound.statement.source),
            arguments_text(self.arguments),
            repr((settings.end, settings.event_id)),
            *(f"{one.declaration.name} {one.declaration.location}" for one in matched.streams),
        )
        streams, finish, late = matched.streams, matched.finish, options.late_path
        return LivePlan(streams, spec, settings, finish, output, time, times, keys, lanes, reason, identity, late)

    def _output(self, matched: Matched) -> pa.Schema:
        schema = matched.finish.schema
        lower = [name.lower() for name in schema.names]
        twice = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
        if twice is not None:
            message = f"Two columns of the result are called {twice}."
            raise matched.source.error(EpisodeAnalysisError, message, matched.span, "Name one of them by AS.")
        return schema

    @property
    def run(self) -> Any:
        return self.options.run(1, self.arguments)

    def stream(self, table: EventsTable, archived: bool = False) -> Declaration:
        """The declared stream that a pattern names. archived: or that whose archive has the name."""
        if table.has_schema:
            raise self._no_stream(table.written, table.span)
        if table.name is None or self.bound.statement.is_common(table.name, table.span.start):
            raise LIVE_QUERY.refuse(self.bound.source, "A pattern over a query", table.span)
        found = self.catalog.lookup(table.name)
        if found is None:
            raise self._no_stream(table.name, table.span)
        if found.name.lower() != table.name.lower() and not archived:
            message = f"{table.name} is the archive of {found.name}: a table, which does not grow."
            hint = f"Read the stream {found.name}: what was archived of it is read first. As a table: episode.sql."
            raise self.bound.source.error(EpisodeUnsupportedError, message, table.span, hint)
        return found

    def columns_of(self, declaration: Declaration, source: Source) -> InputSchema:
        """The columns of a stream as a pattern is bound to them."""
        found = local_schema(declaration.schema, source, self.arguments, self.utc)
        return replace(found, time=declaration.time)

    def prepare(self, reads: Sequence[Read]) -> tuple[tuple[StreamRead, ...], pa.Schema]:
        """The streams, and the input columns of the matcher: the same for all of them."""
        made = [read.prepare(self.utc, self.arguments) for read in reads]
        return tuple(read.stream(one) for read, one in zip(reads, made, strict=True)), made[0].schema

    def _no_stream(self, name: str, span: Span) -> EpisodeError:
        message, hint = no_stream(name, self.catalog)
        return self.bound.source.error(EpisodeAnalysisError, message, span, hint)


def no_stream(name: str, catalog: Catalog) -> tuple[str, str]:
    """Return the message and the hint for a stream that is not declared."""
    names = ", ".join(catalog.names())
    hint = f"Streams: {names}." if names else "CREATE STREAM declares one."
    return f"There is no stream {name}: live tasks read declared streams.", hint


def plan_pairs(planner: Planner) -> LivePlan:
    """The statement's two patterns, whose pairs are the matches."""
    pair, selection = planner.bound.selected_pair(LIVE_QUERY)
    check_options(planner.options, [pair.live.language, pair.archive.language, CORRELATIONS])
    live_stream, archive_stream = _stream(planner, pair.live), _stream(planner, pair.archive, archived=True)
    inputs = [
        Input(planner.columns_of(stream, pattern.source), pattern.names)
        for pattern, stream in ((pair.live, live_stream), (pair.archive, archive_stream))
    ]
    one = live_stream == archive_stream
    bound = CORRELATIONS.correlate(pair.query, (inputs[0], inputs[1]), (Given(), Given()), planner.run, one)
    bound.check_buffer()
    reads = _reads(planner, bound, live_stream, archive_stream)
    streams, schema = planner.prepare(reads)
    matches = matcher_spec(bound, schema).output_schema
    pairs = Projections((pair_projection(bound, matches, planner.arguments, planner.utc),))
    finish = selection.after(pairs, planner.arguments, planner.utc)
    matched = Matched(bound, reads, streams, schema, finish, pair.query.source, pair.query.duration.span)
    columns = selection.values(pairs.schema.names)
    plain = {name: value.column for name, value in columns if isinstance(value, CopiedColumn)}
    live = bound.live_side
    keys = {f"{LIVE_PREFIX}{name}" for name in live.names if name.lower() in live.partition_columns}
    return planner.plan_matched(matched, plain, keys)


def _stream(planner: Planner, pattern: StatementPattern, archived: bool = False) -> Declaration:
    """The stream of a pattern. archived: the name of an archive is that of its stream, all of which is read."""
    if pattern.table is None:
        message = "A live query correlates patterns over one stream each."
        hint = "Name the stream of all events: FROM events …; or run it in micro-batches: episode.sql on the streams."
        raise planner.bound.source.error(EpisodeUnsupportedError, message, pattern.span, hint)
    return planner.stream(pattern.table, archived=archived)


def _reads(planner: Planner, bound: PairPlan, live: Declaration, archive: Declaration) -> tuple[Read, ...]:
    """The streams as one input: each row is an event of both patterns, or has a column that tells of which."""
    if bound.shared:
        columns = _values(bound.inputs.selections)
        return (
            Read(live, planner.with_event_id(columns, [name for name, _ in live.columns]), _copied_columns(columns)),
        )
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
            (name, given[name] if name in given else ConstantColumn(None, type_)) for name, type_ in types.items()
        ]
        whole.append((SIDE_COLUMN, ConstantColumn(side, pa.int8())))
        reads.append(Read(stream, tuple(whole), _copied_columns(own)))
    return tuple(reads)


def _values(selections: Sequence[tuple[str, str]]) -> Values:
    return tuple((name, value_of(ScalarColumn.of(sql))) for sql, name in selections)


def _copied_columns(columns: tuple[tuple[str, Value], ...]) -> dict[str, str]:
    """Columns of a stream that are columns of the input as they are."""
    return {value.column: name for name, value in columns if isinstance(value, CopiedColumn)}
