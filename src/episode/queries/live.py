"""A statement planned for live tasks: which streams it reads, what is matched, and how its columns are finished.

Live tasks have no Spark on an event's way: scalar expressions are evaluated as in process (`queries.local`), and what
needs Spark is refused here, with its place. Every key must stay in the lanes of one task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.lexer import tokenize
from episode.lang.statement import Statement, parse_statement
from episode.lang.syntax import Source, Span
from episode.lang.table_patterns import TableQuery
from episode.live.inputs import StreamRead
from episode.matchers.engines import matcher_spec
from episode.matchers.projection import Copied, Projection, Projections, Same, Value
from episode.matchers.protocol import StateLimit
from episode.matchers.quarantine import check_skips_keys
from episode.matchers.state import fingerprint, one_line
from episode.matchers.stream_shard import LiveRules
from episode.plan.compilable import NeedsSpark
from episode.plan.correlation.pairs import PairPlan
from episode.plan.output import Computed
from episode.plan.parameters import check_arguments, shown
from episode.plan.pattern import PatternPlan
from episode.plan.schema import CLASS_COLUMN, InputSchema
from episode.queries.language import Given, Input, Language
from episode.queries.languages import language_of
from episode.queries.live_plan import LivePlan, Matched, Read, Values, check_time, end_of, lanes_of, partition_columns
from episode.queries.local import NO_ARGUMENTS, Arguments, local_schema, refusing
from episode.queries.local_statement import Selection, selection_of
from episode.queries.options import SKIP_KEY, Options
from episode.store.catalog import Catalog
from episode.store.declaration import Declaration
from episode.store.types import arrow_type

HINTS = {
    NeedsSpark.EXPRESSION: "Live tasks evaluate expressions without Spark. Run it in micro-batches: episode.sql on the "
    "stream.",
    NeedsSpark.STATEMENT: "A live query is SELECT columns FROM stream MATCH_RECOGNIZE (…), EVENTS (…) or SITUATIONS "
    "(…), or one pattern. Run it in micro-batches: episode.sql on the stream.",
    NeedsSpark.ZONE: "Days are those of the session's time zone, which only Spark knows. Set "
    "spark.sql.session.timeZone to UTC, or run it in micro-batches: episode.sql on the stream.",
}
"""What to do about what needs Spark."""
_REFUSED = {
    "shards": "says how keys are spread over shards; a live query has tasks",
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
    """Plan a statement over the declared streams of a catalog. utc: is UTC the session's time zone?"""
    statement = parse_statement(text)
    check_arguments(statement.source, statement.tokens, arguments)
    with refusing(HINTS):
        return Planner(statement, catalog, options, arguments, utc).plan()


def check_options(options: Options, languages: Sequence[Language[Any]]) -> None:
    """Options that have a meaning for live tasks, and for patterns of these languages."""
    default = Options()
    for name, what in _REFUSED.items():
        value = getattr(options, name)
        if value != getattr(default, name):
            raise EpisodeAnalysisError(f"Options({name}={value!r}) {what}.", hint="Leave it out.")
    options.check_use(languages)


@dataclass
class Planner:
    statement: Statement
    catalog: Catalog
    options: Options
    arguments: Arguments
    utc: bool
    known: dict[str, Declaration] = field(default_factory=dict)

    def plan(self) -> LivePlan:
        statement = self.statement
        first = statement.tokens[0]
        if statement.streams is not None or first.upper == "INSERT":
            raise self._error(
                EpisodeAnalysisError,
                f"{first.text.upper()} is no query that could run live.",
                first.span,
                "Give the query alone; into= says where its matches go.",
            )
        if statement.whole is not None:
            matched = self._pattern(statement.whole, None, ())
            return self._planned(matched, {name: name for name in matched.finish.schema.names})
        if statement.recencies:
            from episode.queries.live_pairs import plan_pairs

            return plan_pairs(self)
        selection = selection_of(statement)
        pattern = selection.pattern
        if isinstance(pattern, TableQuery):
            matched = self._pattern(pattern.query, None, ())
        elif not pattern.plain or pattern.name is None:
            raise self.over_query(pattern.input)
        else:
            matched = self._pattern(pattern.query, (pattern.name, pattern.input), (pattern.alias or pattern.name,))
        return self._selected(matched, selection)

    # ---- one pattern ---------------------------------------------------------------------------------

    def _pattern(self, query: object, table: tuple[str, Span] | None, names: tuple[str, ...]) -> Matched:
        """A pattern over its stream, or over a stream per class. table: where the statement names it."""
        language = language_of(query)
        self.check_options([language])
        source = language.source(query)
        table = table or self._table(language, query)
        if table is not None:
            declaration = self.stream(*table)
            events = self.columns_of(declaration, source)
            bound = language.bind(query, Input(events, names), Given(), self.run)
            own = {name: name for name, _ in declaration.columns}
            reads: tuple[Read, ...] = (Read(declaration, self._input(bound, list(own)), own),)
        else:
            bound, reads = self._classes(language, query)
        streams, schema = self.prepare(reads)
        finish = Projection.of(bound.result, matcher_spec(bound, schema).output_schema, self.arguments, self.utc)
        return Matched(bound, reads, streams, schema, Projections((finish,)), source, source.span.beginning)

    def _table(self, language: Language[Any], query: object) -> tuple[str, Span] | None:
        found = language.table(query)
        return None if found is None else self.one_name(*found)

    def one_name(self, written: str, span: Span) -> tuple[str, Span]:
        """A name of one part."""
        parts = tokenize(written)[:-1]
        if len(parts) != 1:
            raise self._no_stream(written, span)
        return parts[0].identifier, span

    def _classes(self, language: Language[Any], query: object) -> tuple[PatternPlan, tuple[Read, ...]]:
        """A stream per class, as one input."""
        classes = language.classes(query)
        source = language.source(query)
        if not classes:
            raise source.error(
                EpisodeAnalysisError,
                f"The events of the {language.name} are missing.",
                source.span.beginning,
                "Write FROM stream before the pattern.",
            )
        streams = {name: self.stream(name, place) for name, place in classes.items()}
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
            values: dict[str, Value] = {CLASS_COLUMN: Same(tables[name].number, pa.int32())}
            for column, type_ in types.items():
                if column in own:
                    widened = own[column] in tables[name].widened
                    values[column] = Copied(own[column], arrow_type(type_) if widened else None)
                elif column != CLASS_COLUMN:
                    values[column] = Same(None, arrow_type(type_))
            reads.append(
                Read(stream, self._input(bound, list(types)), dict(tables[name].columns), tuple(values.items()))
            )
        return bound, tuple(reads)

    def _input(self, bound: PatternPlan | PairPlan, own: Sequence[str]) -> Values:
        """The input columns of a pattern over the columns of its events."""
        derived = {name: Computed.of(sql) for sql, name in bound.derived}
        columns: list[tuple[str, Value]] = []
        for name in bound.input_columns:
            columns.append((name, derived[name] if name in derived else Copied(name)))
        return self._identified(tuple(columns), own)

    def with_event_id(self, columns: Values, declaration: Declaration) -> Values:
        """With the column by which repeated events are recognised."""
        return self._identified(columns, [name for name, _ in declaration.columns])

    def _identified(self, columns: Values, own: Sequence[str]) -> Values:
        event_id = self.options.event_id
        if event_id is None or event_id in dict(columns):
            return columns
        if event_id not in own:
            raise EpisodeAnalysisError(
                f"Options(event_id={event_id!r}): the stream has no such column.",
                hint=f"Its columns: {', '.join(own)}.",
            )
        return (*columns, (event_id, Copied(event_id)))

    def _selected(self, matched: Matched, selection: Selection) -> LivePlan:
        """With SELECT's list around the pattern."""
        output = matched.finish.schema
        columns = selection.values(output.names)
        finish = matched.finish.then(columns, self.arguments, self.utc)
        lower = {name.lower(): name for name in output.names}
        plain = {name: lower[value.column.lower()] for name, value in columns if isinstance(value, Copied)}
        return self._planned(replace(matched, finish=finish), plain)

    # ---- the plan ------------------------------------------------------------------------------------

    def _planned(self, matched: Matched, plain: Mapping[str, str]) -> LivePlan:
        """plain: columns of the output that are columns of the pattern's, as they are."""
        bound: PatternPlan = matched.bound  # type: ignore[assignment]  # one pattern, not a pair
        delays = bound.delays()
        keys = partition_columns(bound)
        return self.planned(
            matched,
            {name: delays[own] for name, own in plain.items() if own in delays},
            tuple(name for name, own in plain.items() if own in keys),
        )

    def planned(self, matched: Matched, times: Mapping[str, int | None], keys: tuple[str, ...]) -> LivePlan:
        bound, options = matched.bound, self.options
        limit = StateLimit.of(options.max_state_rows, options.when_full == "drop")
        time = bound.event_time(limit is not None)
        check_time(matched, time)
        spec = matcher_spec(bound, matched.schema, limit)
        lanes, reason = lanes_of(matched, spec)
        output = self._output(matched)
        skips = options.on_error == SKIP_KEY
        if skips:
            check_skips_keys(spec)
        rules = LiveRules(end_of(options.end, time, self.utc), options.event_id, options.late == "keep", True, skips)
        identity = fingerprint(
            spec.fingerprint,
            one_line(self.statement.source),
            shown(self.arguments),
            repr((rules.end, rules.event_id)),
            *(f"{one.declaration.name} {one.declaration.location}" for one in matched.streams),
        )
        return LivePlan(
            matched.streams,
            spec,
            rules,
            matched.finish,
            output,
            time,
            times,
            keys,
            lanes,
            reason,
            identity,
            options.late_path,
        )

    def _output(self, matched: Matched) -> pa.Schema:
        """The columns of the result."""
        schema = matched.finish.schema
        lower = [name.lower() for name in schema.names]
        twice = next((name for name in schema.names if lower.count(name.lower()) > 1), None)
        if twice is not None:
            raise matched.source.error(
                EpisodeAnalysisError,
                f"Two columns of the result are called {twice}.",
                matched.span,
                "Name one of them by AS.",
            )
        return schema

    # ---- streams and options -------------------------------------------------------------------------

    @property
    def run(self) -> Any:
        return self.options.run(1, self.arguments)

    def check_options(self, languages: Sequence[Language[Any]]) -> None:
        """Options that have a meaning for live tasks, and for patterns of these languages."""
        check_options(self.options, languages)

    def stream(self, name: str, span: Span, archived: bool = False) -> Declaration:
        """The declared stream of a name. archived: or that whose archive has the name."""
        if self.statement.is_common(name, span.start):
            raise self.over_query(span)
        found = self.catalog.lookup(name)
        if found is None:
            raise self._no_stream(name, span)
        if found.name.lower() != name.lower() and not archived:
            raise self._error(
                EpisodeUnsupportedError,
                f"{name} is the archive of {found.name}: a table, which does not go on.",
                span,
                f"Read the stream {found.name}: what was archived of it is read first. As a table: episode.sql.",
            )
        return found

    def columns_of(self, declaration: Declaration, source: Source) -> InputSchema:
        """The columns of a stream as a pattern is bound to them."""
        found = local_schema(declaration.schema, source, self.arguments, self.utc)
        return replace(found, time=declaration.time)

    def prepare(self, reads: Sequence[Read]) -> tuple[tuple[StreamRead, ...], pa.Schema]:
        """The streams, and the input columns of the matcher: the same for all of them."""
        made = [read.prepare(self.utc, self.arguments) for read in reads]
        return tuple(read.stream(one) for read, one in zip(reads, made, strict=True)), made[0].schema

    def over_query(self, span: Span) -> NeedsSpark:
        """The error where the input of a pattern is not a table."""
        return Source(self.statement.source).locate(NeedsSpark("A pattern over a query"), span)

    def _no_stream(self, name: str, span: Span) -> EpisodeError:
        names = ", ".join(self.catalog.names())
        return self._error(
            EpisodeAnalysisError,
            f"There is no stream {name}: live tasks read declared streams.",
            span,
            f"Streams: {names}." if names else "CREATE STREAM declares one.",
        )

    def _error(self, kind: type[EpisodeError], message: str, span: Span, hint: str) -> EpisodeError:
        return Source(self.statement.source).error(kind, message, span, hint)
