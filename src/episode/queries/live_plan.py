"""The plan of a live query: streams, spec, columns, and the number of tasks that may share its keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from episode.errors import EpisodeAnalysisError, EpisodeError, EpisodeUnsupportedError
from episode.lang.syntax import Source, Span
from episode.live.inputs import StreamRead
from episode.matchers.projection import Projection, Projections, Value
from episode.matchers.protocol import MatcherSpec
from episode.matchers.stream_shard import ShardSettings
from episode.plan.correlation.pairs import PairPlan
from episode.plan.event_time import EventTime, end_of_stream, plain_values
from episode.plan.output import ColumnAtPlace
from episode.plan.parameters import Arguments
from episode.plan.pattern import PatternPlan
from episode.store.declaration import MOST_LANES, Declaration
from episode.words import plural

Values = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class LivePlan:
    """All of a live query but its output and its tasks.

    streams: what is read. finish: the result's columns, `output`, from the matcher's. time: the event time.
    times: columns of the output that are times of matches, by how long after them a match may be reported, in units of
        event time (None: at any time). keys: columns of the output that are partition columns.
    lanes: how many tasks there may be, at most; reason: why no more than one, where keys do not stay in their lanes.
    """

    streams: tuple[StreamRead, ...]
    spec: MatcherSpec
    settings: ShardSettings
    finish: Projections
    output: pa.Schema
    time: EventTime
    times: Mapping[str, int | None]
    keys: tuple[str, ...]
    lanes: int
    reason: EpisodeError | None
    fingerprint: str
    late_path: str | None = None

    @property
    def delay(self) -> int:
        return max(stream.declaration.delay or 0 for stream in self.streams)

    def check_tasks(self, tasks: int) -> None:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise EpisodeAnalysisError(f"tasks={tasks!r}: a whole number of at least 1 is needed.")
        if tasks > self.lanes and self.reason is not None:
            raise self.reason
        if tasks > self.lanes:
            names, lanes = " and ".join(stream.declaration.name for stream in self.streams), self.lanes
            if self.streams[0].declaration.using == "kafka":
                what = f"the topic of {names} has {lanes} {plural(lanes, 'partition')}, and a partition"
                hint = f"Use tasks={lanes}."
            else:
                what = f"the keys of {names} are in {lanes} {plural(lanes, 'lane')}, and a lane"
                hint = f"Use tasks={lanes}, or declare the stream with more lanes: OPTIONS (lanes '{tasks}')."
            raise EpisodeAnalysisError(f"tasks={tasks}: {what} is read by one task.", hint=hint)


@dataclass(frozen=True)
class Read:
    """A stream on its way to the matcher. columns: the input columns of the matcher. united: if there are several
    streams, the columns in between, which are those of all streams. names: columns of the stream that are columns of
    the input as they are, with their names there."""

    declaration: Declaration
    columns: Values
    names: Mapping[str, str]
    united: Values | None = None

    def prepare(self, utc: bool, arguments: Arguments) -> Projections:
        def compile_columns(columns: Values, schema: pa.Schema) -> Projection:
            return Projection.compile(columns, schema, (), arguments, utc)

        schema = self.declaration.schema
        if self.united is None:
            return Projections((compile_columns(self.columns, schema),))
        columns = compile_columns(self.columns, compile_columns(self.united, schema).schema)
        used = tuple((name, value) for name, value in self.united if name in columns.types)
        return Projections((compile_columns(used, schema), columns))

    def stream(self, prepare: Projections) -> StreamRead:
        used = prepare.steps[0].types
        own = tuple(name for name, _ in self.declaration.columns if name in used) or (self.declaration.time,)
        return StreamRead(self.declaration, own, prepare)


@dataclass(frozen=True)
class Matched:
    """A planned pattern over streams that are prepared to input columns of a schema. finish: from its matches to the
    result. source, span: shown by an error without a place."""

    bound: PatternPlan | PairPlan
    reads: tuple[Read, ...]
    streams: tuple[StreamRead, ...]
    schema: pa.Schema
    finish: Projections
    source: Source
    span: Span


def check_time(matched: Matched, time: EventTime) -> None:
    """The watermark is that of the declared event times."""
    for read in matched.reads:
        if read.names.get(read.declaration.time) != time.column:
            own, name = read.declaration.time, read.declaration.name
            shown = time.column if time.column in dict(read.declaration.columns) else "another column"
            message = f"The pattern is in order of {shown}, and the event time of the stream {name} is {own}."
            hint = f"Order by {own}; or run it in micro-batches: episode.sql on the stream, with Options(watermark=…)."
            raise matched.source.error(EpisodeUnsupportedError, message, matched.span, hint)


def lanes_of(matched: Matched, spec: MatcherSpec) -> tuple[int, EpisodeError | None]:
    """Return the highest number of tasks, and why there may be no more."""
    topics = [read.declaration for read in matched.reads if read.declaration.using == "kafka"]
    if topics and len(matched.reads) > 1:
        message = f"A live query reads a topic alone: {topics[0].name} is in Kafka, and there is another stream."
        hint = "Run it in micro-batches: episode.sql on the streams."
        raise matched.source.error(EpisodeUnsupportedError, message, matched.span, hint)
    if all(not read.declaration.key and read.declaration.using == "episode" for read in matched.reads):
        return 1, None
    keys = spec.input_order.keys
    for read in matched.reads:
        one = read.declaration
        missing = [name for name in one.key if read.names.get(name) not in keys]
        if not one.key:
            return 1, _apart(matched, f"{one.name} has no KEY")
        if missing:
            partitioned = f"partitioned by {', '.join(keys)}" if keys else "not partitioned"
            spread = f"{one.name} is spread by {', '.join(one.key)}"
            return 1, _apart(matched, f"{spread}, the pattern is {partitioned}: PARTITION BY has no {missing[0]}")
    first, *others = matched.reads
    wanted = [(first.names[name], dict(first.declaration.columns)[name]) for name in first.declaration.key]
    for read in others:
        own = [(read.names[name], dict(read.declaration.columns)[name]) for name in read.declaration.key]
        same = first.declaration.lanes == read.declaration.lanes and first.declaration.using == "episode"
        if own != wanted or not same:
            names = f"{first.declaration.name} and {read.declaration.name}"
            return 1, _apart(matched, f"{names} are not spread in the same way over equally many lanes")
    return MOST_LANES if topics else min(read.declaration.lanes for read in matched.reads), None


def _apart(matched: Matched, what: str) -> EpisodeError:
    message = f"Events that belong together would come to several tasks: {what}."
    hint = (
        "Use tasks=1, declare the stream with a KEY that is in PARTITION BY, or run it in micro-batches: "
        "episode.sql on the stream."
    )
    return matched.source.error(EpisodeUnsupportedError, message, matched.span, hint)


def partition_columns(plan: PatternPlan) -> set[str]:
    """Columns of a pattern's output that have the value of a partition column."""
    found = {name for _, name in plan.named_keys if name in plan.result.before}
    found |= {name for column, name in plan.output.leading if column in plan.keys}
    for name, atom in plain_values(plan.measures):
        if isinstance(atom, ColumnAtPlace) and atom.column in plan.keys:
            found.add(name)
    return found


def end_of(end: datetime | str | int | None, time: EventTime, utc: bool) -> int | None:
    return end_of_stream(end, time, "UTC" if utc or time.type != "timestamp" else None)
