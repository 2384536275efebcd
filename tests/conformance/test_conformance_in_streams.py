"""Every case of a single pattern that a stream may run, as one: in 1, 7 and 50 micro-batches, in order and shuffled.

The events go the way of the stream runtime: packed into envelopes by shard, through live shards with watermarks, which
are restored from their state now and then. (`tests/spark/test_conformance_as_streams.py` has the same with Spark around
it.)
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from episode.errors import EpisodeError
from episode.lang.statement import parse_statement
from episode.matchers.engines import matcher_spec
from episode.matchers.envelope import Packing, open_envelope, pack
from episode.matchers.ordering import order_image
from episode.matchers.projection import Projection
from episode.matchers.protocol import MatcherSpec, StateChunk
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.stream_shard import NO_WATERMARK, ShardSettings, StreamShard
from episode.plan.pattern import PatternPlan
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.stream import event_time_of
from episode.plan.schema import InputSchema
from episode.queries.language import Given, Input
from episode.queries.languages import language_of
from tests.conformance.cases import Case, cases_for
from tests.conformance.test_conformance import check
from tests.support import rows as in_process

SHARDS = 3
END = 2**62


def spec_of(case: Case) -> RowPatternSpec | None:
    """The planned case, if a stream may run it and the order of arrival does not matter."""
    pattern = parse_statement(case.query).patterns[0]
    table = case.tables[pattern.name]
    names = tuple(name for name in (pattern.alias or pattern.name,) if name)
    try:
        plan = plan_row_pattern(pattern.clause, InputSchema(table.types), names)
        time = event_time_of(plan)
    except EpisodeError:
        return None
    if table.arrow.column(time.column).null_count:
        return None  # batch queries show such rows or complain; a stream counts and drops them
    image = order_image(table.arrow, RowPatternSpec(plan, table.arrow.schema).input_order.order[0]).time()
    if len(image) and max(abs(int(image.min())), abs(int(image.max()))) >= END // 2:
        return None  # beyond what a watermark can say
    return RowPatternSpec(plan, table.arrow.schema)


def has_ties(spec: RowPatternSpec, table: pa.Table) -> bool:
    names = [*spec.plan.keys, *(column.column for column in spec.plan.order)]
    rows = [tuple(row.values()) for row in table.select(list(dict.fromkeys(names))).to_pylist()]
    return len({repr(row) for row in rows}) < len(rows)


@dataclass
class Runtime:
    """Shards with their state, and the watermark that Spark would keep."""

    spec: MatcherSpec
    delay: int
    draw: random.Random
    shards: dict[int, StreamShard] = field(default_factory=dict)
    chunks: dict[int, dict[str, StateChunk]] = field(default_factory=dict)
    watermark: int = NO_WATERMARK
    outputs: list[pa.Table] = field(default_factory=list)

    def micro_batch(self, table: pa.Table) -> None:
        columns = list(self.spec.input_columns)
        packing = Packing(self.spec.input_order, SHARDS if self.spec.input_order.keys else 1)
        arrived: dict[int, list[bytes]] = {}
        greatest = self.watermark
        for envelopes in pack([table.select(columns).combine_chunks()], packing, 0) if table.num_rows else ():
            for row in envelopes.to_pylist():
                arrived.setdefault(row["shard"], []).append(row["blob"])
                greatest = max(greatest, row["last_time"] - self.delay)
        for number in sorted({*arrived, *self.shards}):
            shard = self._shard(number)
            step = shard.step([(blob, open_envelope(blob)) for blob in arrived.get(number, [])], self.watermark)
            shard.snapshot().apply(self.chunks[number])
            self.outputs.append(step.matches)
            assert step.counters.late == 0
        self.watermark = greatest

    def _shard(self, number: int) -> StreamShard:
        settings = ShardSettings(end=END)
        if number not in self.shards:
            self.shards[number], self.chunks[number] = StreamShard(self.spec, settings), {}
        elif self.draw.random() < 0.3:
            before = self.shards[number]
            self.shards[number] = StreamShard(self.spec, settings)
            self.shards[number].restore(list(self.chunks[number].values()), before.watermark, before.ended)
        return self.shards[number]


def through_a_stream(spec: MatcherSpec, table: pa.Table, pieces: int, shuffled: bool) -> pa.Table:
    """What the matcher puts out."""
    draw = random.Random(pieces)
    time = order_image(table, spec.input_order.order[0]).time()
    delay = int(time.max() - time.min()) // 3 + 1 if shuffled and len(time) else 1
    jitter = np.array([draw.randrange(delay) for _ in time], np.int64)
    arriving = table.take(pa.array(np.argsort(time + jitter, kind="stable")))
    runtime = Runtime(spec, delay, draw)
    for i in range(pieces):
        begin, end = len(time) * i // pieces, len(time) * (i + 1) // pieces
        runtime.micro_batch(arriving.slice(begin, end - begin))
    runtime.watermark = END
    runtime.micro_batch(table.slice(0, 0))
    return pa.concat_tables([*runtime.outputs, spec.output_schema.empty_table()])


CASES = [(case, spec) for case in cases_for("process") if not case.error and (spec := spec_of(case)) is not None]


@pytest.mark.parametrize(("pieces", "shuffled"), [(1, False), (7, False), (7, True), (50, True)])
@pytest.mark.parametrize(("case", "spec"), [pytest.param(*pair, id=pair[0].id) for pair in CASES])
def test_as_a_stream(case: Case, spec: RowPatternSpec, pieces: int, shuffled: bool) -> None:
    pattern = parse_statement(case.query).patterns[0]
    table = case.tables[pattern.name].arrow
    # Rows of one key and one time come in order of arrival, which a stream does not promise: the case says nothing.
    if has_ties(spec, table):
        pytest.skip("rows of one time in order of arrival")
    check(case, in_process.finished(spec, through_a_stream(spec, table, pieces, shuffled)))


# ---- event patterns and situation patterns ---------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A case, its pattern, and its table."""

    case: Case
    pattern: PatternPlan
    table: pa.Table


def bound_of(case: Case) -> Bound | None:
    """The case bound to its table, if a stream may run it and nothing in it needs Spark."""
    query = case.whole()
    assert query is not None
    table = case.tables[query.input.table]
    try:
        run = case.options.run()
        pattern = language_of(query).bind(query, Input(InputSchema(table.types)), Given(), run)
        pattern.event_time(False)
    except EpisodeError:
        return None
    return None if pattern.derived else Bound(case, pattern, table.arrow)


BOUND = [
    bound
    for language in ("events", "situations")
    for case in cases_for("process", language)
    if not case.error and (bound := bound_of(case)) is not None
]


@pytest.mark.filterwarnings("ignore:The state of this stream is not bounded")
@pytest.mark.parametrize(("pieces", "shuffled"), [(1, False), (7, True)])
@pytest.mark.parametrize("bound", [pytest.param(bound, id=bound.case.id) for bound in BOUND])
def test_pattern_as_a_stream(bound: Bound, pieces: int, shuffled: bool) -> None:
    spec = matcher_spec(bound.pattern, bound.table.schema)
    output = through_a_stream(spec, bound.table, pieces, shuffled)
    check(bound.case, Projection.of(bound.pattern.result, spec.output_schema)(output).to_pylist())


def test_most_cases_run_as_streams() -> None:
    assert len(CASES) >= 250
    assert len([one for one in BOUND if one.case.language == "events"]) >= 20
    assert len([one for one in BOUND if one.case.language == "situations"]) >= 35
