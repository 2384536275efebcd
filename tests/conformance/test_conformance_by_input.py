"""Every case of a single pattern that a stream may run, through the loop of a live task: pull, push, adaptive."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from episode.lang.statement import parse_statement
from episode.live.input_source import HANDLINGS, open_source
from episode.live.protocol import Handling, InputBatch, Position, TaskOptions
from episode.matchers.engines import matcher_spec
from episode.matchers.ordering import order_image
from episode.matchers.projection import Projection
from episode.matchers.protocol import MatcherSpec
from episode.matchers.rows.spec import RowPatternSpec
from episode.matchers.stream_shard import NO_WATERMARK, Arrived, ShardSettings, StreamShard
from tests.conformance.cases import Case
from tests.conformance.test_conformance import check
from tests.conformance.test_conformance_in_streams import BOUND, CASES, END, Bound, has_ties
from tests.support import rows as in_process

COMMIT = 3
"""Events that become readable together."""
PART = "events"


class TableInput:
    """A table in order of time, a few rows in a commit; after them the watermark at which the stream ends."""

    def __init__(self, table: pa.Table, spec: MatcherSpec) -> None:
        time = order_image(table, spec.input_order.order[0]).time()
        order = np.argsort(time, kind="stable")
        self.table = table.select(list(spec.input_columns)).take(pa.array(order))
        self.time = time[order]

    def read(self, after: Position, rows: int, until: Position | None = None) -> InputBatch | None:
        begin = after.get(PART, 0)
        if begin > len(self.time):
            return None
        end = min(len(self.time), begin + max(1, rows // COMMIT) * COMMIT)
        if begin == end:
            return InputBatch(self.table.slice(0, 0), {PART: end + 1}, END, 0.0, np.zeros(0, np.int64))
        before = (np.arange(begin, end) // COMMIT) * COMMIT - 1  # the last row of the commit before
        reached = np.where(before < 0, NO_WATERMARK, self.time[before] - 1)
        return InputBatch(self.table.slice(begin, end - begin), {PART: end}, int(self.time[end - 1]) - 1, 0.0, reached)

    def wait(self, after: Position, seconds: float) -> None:
        pass

    def unread(self, after: Position) -> int | None:
        return None

    def close(self) -> None:
        pass


def matched(spec: MatcherSpec, table: pa.Table, handling: Handling) -> Iterator[pa.Table]:
    """What the loop of a task gives."""
    yield spec.output_schema.empty_table()
    shard = StreamShard(spec, ShardSettings(end=END, late_by_last_step=True))
    options = TaskOptions(handling, step_rows=16, batch_rows=4, max_unprocessed=24)
    source = open_source(TableInput(table, spec), {}, options, shard)
    try:
        while not shard.ended:
            found = source.next(30.0)
            assert found is not None
            yield from shard.advance([Arrived(None, found.table, found.reached)], found.watermark)
            assert shard.counters.late == 0
    finally:
        source.close()


@pytest.mark.parametrize(("case", "spec"), [pytest.param(*pair, id=pair[0].id) for pair in CASES])
def test_by_every_way_of_input(case: Case, spec: RowPatternSpec) -> None:
    table = case.tables[parse_statement(case.query).patterns[0].name].arrow
    if has_ties(spec, table):
        pytest.skip("rows of one time in order of arrival")
    for handling in HANDLINGS:
        check(case, in_process.finished(spec, pa.concat_tables(matched(spec, table, handling))))


@pytest.mark.filterwarnings("ignore:The state of this stream is not bounded")
@pytest.mark.parametrize("bound", [pytest.param(bound, id=bound.case.id) for bound in BOUND])
def test_patterns_by_every_way_of_input(bound: Bound) -> None:
    spec = matcher_spec(bound.pattern, bound.table.schema)
    for handling in HANDLINGS:
        output = pa.concat_tables(matched(spec, bound.table, handling))
        check(bound.case, Projection.of(bound.pattern.result, spec.output_schema)(output).to_pylist())
